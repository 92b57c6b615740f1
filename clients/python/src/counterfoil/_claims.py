"""Claims of an application's own code: what they say, and the calls about them. No I/O."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from . import _calls
from ._calls import Call, members
from ._fingerprint import Arguments
from ._json import encode, loads, parse
from ._settle import Seen, seen
from ._values import Attempt, Operation, instant, read_attempt
from ._wire import Answer

__all__ = ["Claim", "decoded", "Claimed", "claim_member", "claims", "heartbeat", "outcome", "prepare_claimed", "worker_name"]


@dataclass(frozen=True)
class Claim:
    """A lease on an operation. In mode `send` its attempt is recorded; in mode `investigate` nothing may be sent."""

    operation_id: str
    tool: str
    arguments: Arguments
    mode: Literal["send", "investigate"]
    attempt: int
    fencing_token: int
    lease_expires_at: datetime
    send_before: datetime | None
    key: str | None
    reference: str | None
    earlier_attempts: tuple[Attempt, ...]

    def send_window(self, lease: float) -> float:
        """For how many seconds after the claim was granted the first byte may be sent."""
        if self.send_before is None:
            return 0.0
        granted = self.lease_expires_at - timedelta(seconds=lease)
        return max(0.0, (self.send_before - granted).total_seconds())


@dataclass(frozen=True)
class Claimed:
    """An operation, and the claim that was granted with it."""

    seen: Seen
    claim: Claim | None


def worker_name() -> str:
    """Who carries attempts out: this host and process."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}"


def claim_member(worker: str, lease: float, declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The member `claim` of a prepare. Its ID is minted for this one call, so that a repeat gets the same claim."""
    return {
        "worker": worker,
        "lease_ms": _calls.millis(lease),
        "claim_id": uuid.uuid4().hex,
        "declaration": dict(declaration),
    }


def prepare_claimed(prepare: Call[Operation], claim: Mapping[str, Any]) -> Call[Claimed]:
    """Turns a prepare into one that also claims."""
    body = (prepare.body or b"{}")[:-1] + b',"claim":' + encode(claim).encode("utf-8") + b"}"
    return replace(prepare, body=body, read=_claimed)  # type: ignore[arg-type, return-value]


def _claimed(answer: Answer) -> Claimed:
    body, text = members(answer)
    claim = body.get("claim")
    if claim is None:
        return Claimed(seen(Call("PUT", "", _calls.operation)).read(answer), None)
    return Claimed(Seen(Operation.of(body, text), None), _read(claim, _exact(text, "claim", "arguments")))


def claims(worker: str, tools: Mapping[str, Mapping[str, Any]], lease: float, most: int, wait: float) -> Call[list[Claim]]:
    """Takes what is due. It has no ID of its own: what a lost answer granted is found again by its lease."""
    body = {
        "worker": worker,
        "tools": [{"name": name, "declaration": dict(declaration)} for name, declaration in tools.items()],
        "lease_ms": _calls.millis(lease),
        "max": most,
        "wait_ms": _calls.millis(wait),
    }
    return Call("POST", "/v1/claims", _claims, encode(body).encode("utf-8"), wait=wait, repeats=False)


def _claims(answer: Answer) -> list[Claim]:
    body, text = members(answer)
    items = parse(text, depth=200).member("items")
    nodes = items.value if items is not None else []
    found = []
    for item, node in zip(body["items"], nodes):
        arguments = node.member("arguments")
        found.append(_read(item, text[arguments.start : arguments.end]))
    return found


def _read(body: Mapping[str, Any], arguments: str) -> Claim:
    send_before = body["send_before"]
    return Claim(
        operation_id=body["operation_id"],
        tool=body["tool"],
        arguments=Arguments(arguments),
        mode=body["mode"],
        attempt=body["attempt"],
        fencing_token=body["fencing_token"],
        lease_expires_at=instant(body["lease_expires_at"]),
        send_before=None if send_before is None else instant(send_before),
        key=body.get("key"),
        reference=body.get("reference"),
        earlier_attempts=tuple(read_attempt(attempt) for attempt in body["earlier_attempts"]),
    )


def _exact(text: str, *path: str) -> str:
    """The characters of a value inside an answer, as they were written."""
    node = parse(text, depth=200)
    for name in path:
        found = node.member(name)
        if found is None:
            raise KeyError(name)
        node = found
    return text[node.start : node.end]


def _about(claim: Claim, verb: str) -> str:
    return _calls.path_of(claim.operation_id, f"/attempts/{claim.attempt}/{verb}")


def heartbeat(claim: Claim) -> Call[datetime]:
    """Renews the lease; it never moves `send_before`."""
    body = encode({"fencing_token": claim.fencing_token}).encode("utf-8")
    return Call(
        "POST",
        _about(claim, "heartbeat"),
        lambda answer: instant(members(answer)[0]["lease_expires_at"]),
        body,
        operation_id=claim.operation_id,
    )


def outcome(claim: Claim, report: Mapping[str, Any]) -> Call[Operation]:
    """Reports how it ended; the same report again is no second one."""
    body = encode({"fencing_token": claim.fencing_token, **report}).encode("utf-8")
    # What it tells of may have been sent already, whatever becomes of the report.
    return Call(
        "POST", _about(claim, "outcome"), _calls.operation, body, may_send=True, operation_id=claim.operation_id
    )


def decoded(claim: Claim) -> Any:
    """The stored arguments as values, with exact numbers."""
    return loads(claim.arguments.text)


