"""What the server answers, as typed values. Unknown members of later versions are ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, cast

from ._json import parse

__all__ = [
    "Approval",
    "Attempt",
    "Closed",
    "Event",
    "Evidence",
    "LookUp",
    "Next",
    "Operation",
    "Page",
    "Plan",
    "Receipt",
    "Rejection",
    "State",
    "Tool",
]

T = TypeVar("T")

State = Literal["prepared", "in_progress", "succeeded", "rejected", "unknown"]

_Members = Mapping[str, Any]


def instant(text: str) -> datetime:
    """A time of the server."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _maybe_instant(text: str | None) -> datetime | None:
    return None if text is None else instant(text)


@dataclass(frozen=True)
class Next:
    """What happens, or must happen, now."""

    #: `approve`, `execute`, `wait_for_operation`, `retry`, `wait`, `reconcile`, `review`, `correct`, `report`, `none`.
    action: str
    #: One fixed sentence for a model or a person. It never holds text of an agent.
    message: str
    at: datetime | None = None
    operation: str | None = None
    reason: str | None = None
    not_before: datetime | None = None

    @classmethod
    def of(cls, body: _Members) -> Next:
        return cls(
            action=body["action"],
            message=body["message"],
            at=_maybe_instant(body.get("at")),
            operation=body.get("operation"),
            reason=body.get("reason"),
            not_before=_maybe_instant(body.get("not_before")),
        )


@dataclass(frozen=True)
class Receipt:
    """What proves success."""

    operation_id: str
    #: What the destination calls the thing that was created.
    reference: str | None
    #: The destination's answer. Numbers are exact: `int` or `Decimal`.
    result: Any
    #: The HTTP status of the answer, where there was one.
    status: int | None
    #: `response`, `lookup`, `late_report`, `evidence`, `person` or `transaction`.
    source: str
    recorded_at: datetime
    #: Whether the answer was too large to keep.
    truncated: bool
    #: Whether it was there before this call.
    replayed: bool
    #: The answer's exact text where it is JSON.
    result_text: str | None = field(repr=False)


@dataclass(frozen=True)
class Rejection:
    """Why nothing happened, and never will under this ID."""

    code: str
    detail: str | None


@dataclass(frozen=True)
class Approval:
    required: bool
    by: str | None
    at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True)
class Attempt:
    """One try to carry the operation out."""

    number: int
    worker: str
    fencing_token: int
    started_at: datetime
    ended_at: datetime | None
    #: `succeeded`, `rejected`, `not_sent`, `not_processed`, `throttled`, `pending`, `unknown`; none while it runs.
    outcome: str | None
    #: Whether it is certain that it has no effect and cannot get one.
    settled: bool
    marker: str | None
    status: int | None
    error: str | None
    key: str | None
    reference: str | None
    scope: str | None
    request_digest: str


@dataclass(frozen=True)
class LookUp:
    """One question put to the destination."""

    began_at: datetime
    ended_at: datetime
    answer: str
    #: Whether the answer settled the attempts.
    counts: bool


@dataclass(frozen=True)
class Closed:
    """How a person closed what nobody could settle."""

    by: str
    at: datetime
    note: str


@dataclass(frozen=True)
class Operation:
    """An operation as it is now."""

    id: str
    account: str
    tool: str
    #: Numbers are exact: `int` or `Decimal`. Sensitive members read `{"redacted": true}`.
    arguments: Any
    fingerprint: str
    version: int
    task: str | None
    subject: str | None
    replaces: str | None
    replaced_by: str | None
    distinct_from: tuple[str, ...]
    accepted_by: Any
    state: State
    #: Whether only a person can settle or send it.
    held: bool
    next: Next
    console: str
    approval: Approval
    attempts: tuple[Attempt, ...]
    lookups: tuple[LookUp, ...]
    receipt: Receipt | None
    rejection: Rejection | None
    closed: Closed | None
    recovery: Mapping[str, Any]
    policy_version: int
    replayed: bool
    duplicate_suspected: bool
    created_at: datetime
    updated_at: datetime
    receipt_expires_at: datetime | None

    @property
    def final(self) -> bool:
        """Whether it is over: succeeded or rejected."""
        return self.state in ("succeeded", "rejected")

    @classmethod
    def of(cls, body: _Members, text: str | None = None) -> Operation:
        """Reads the representation; `text` is what it was read from, for results exactly as they were written."""
        receipt, rejection, closed = body["receipt"], body["rejection"], body["closed"]
        return cls(
            id=body["id"],
            account=body["account"],
            tool=body["tool"],
            arguments=body["arguments"],
            fingerprint=body["fingerprint"],
            version=body["version"],
            task=body["task"],
            subject=body["subject"],
            replaces=body["replaces"],
            replaced_by=body["replaced_by"],
            distinct_from=tuple(body["distinct_from"]),
            accepted_by=body["accepted_by"],
            state=cast("State", body["state"]),
            held=body["held"],
            next=Next.of(body["next"]),
            console=body["links"]["console"],
            approval=Approval(
                required=body["approval"]["required"],
                by=body["approval"]["by"],
                at=_maybe_instant(body["approval"]["at"]),
                expires_at=_maybe_instant(body["approval"]["expires_at"]),
            ),
            attempts=tuple(read_attempt(attempt) for attempt in body["attempts"]),
            lookups=tuple(
                LookUp(instant(one["began_at"]), instant(one["ended_at"]), one["answer"], one["counts"])
                for one in body["lookups"]
            ),
            receipt=None if receipt is None else _receipt(body, receipt, text),
            rejection=None if rejection is None else Rejection(rejection["code"], rejection["detail"]),
            closed=None if closed is None else Closed(closed["by"], instant(closed["at"]), closed["note"]),
            recovery=body["recovery"],
            policy_version=body["policy_version"],
            replayed=body["replayed"],
            duplicate_suspected=body["duplicate_suspected"],
            created_at=instant(body["created_at"]),
            updated_at=instant(body["updated_at"]),
            receipt_expires_at=_maybe_instant(body["receipt_expires_at"]),
        )


def read_attempt(body: _Members) -> Attempt:
    return Attempt(
        number=body["number"],
        worker=body["worker"],
        fencing_token=body["fencing_token"],
        started_at=instant(body["started_at"]),
        ended_at=_maybe_instant(body["ended_at"]),
        outcome=body["outcome"],
        settled=body["settled"],
        marker=body["marker"],
        status=body["status"],
        error=body["error"],
        key=body.get("key"),
        reference=body.get("reference"),
        scope=body["scope"],
        request_digest=body["request_digest"],
    )


def _receipt(operation: _Members, body: _Members, text: str | None) -> Receipt:
    result = body["result"]
    return Receipt(
        operation_id=operation["id"],
        reference=body["reference"],
        result=None if result is None else result["body"],
        status=None if result is None else result["status"],
        source=body["source"],
        recorded_at=instant(body["recorded_at"]),
        truncated=body["truncated"],
        replayed=operation["replayed"],
        result_text=_result_text(text) if result is not None and text is not None else None,
    )


def _result_text(text: str) -> str | None:
    """The result's own characters out of the whole answer."""
    # A destination's answer may nest deeper than arguments may.
    try:
        node = parse(text, depth=200)
    except ValueError:
        return None
    for name in ("receipt", "result", "body"):
        found = node.member(name)
        if found is None:
            return None
        node = found
    return text[node.start : node.end]


@dataclass(frozen=True)
class Plan:
    """What a prepare would lead to; nothing was stored."""

    would: Literal["create", "replay", "refuse"]
    operation: Operation | None
    #: Why it would be refused, in the words of the server.
    problem: Mapping[str, Any] | None


@dataclass(frozen=True)
class Evidence:
    """What was seen, when, by whom."""

    seq: int
    at: datetime
    kind: str
    principal: str
    by: str
    operation_id: str | None
    data: Any
    digest: str
    previous: str

    @classmethod
    def of(cls, body: _Members) -> Evidence:
        return cls(
            seq=body["seq"],
            at=instant(body["at"]),
            kind=body["kind"],
            principal=body["by"]["principal"],
            by=body["by"]["kind"],
            operation_id=body["operation_id"],
            data=body["data"],
            digest=body["digest"],
            previous=body["previous"],
        )


@dataclass(frozen=True)
class Event:
    """One change of an operation."""

    cursor: str
    at: datetime
    operation_id: str | None
    version: int
    state: State | None
    reason: str

    @classmethod
    def of(cls, body: _Members) -> Event:
        return cls(
            cursor=body["cursor"],
            at=instant(body["at"]),
            operation_id=body["operation_id"],
            version=body["version"],
            state=cast("State | None", body["state"]),
            reason=body["reason"],
        )


@dataclass(frozen=True)
class Tool:
    """A declared tool."""

    name: str
    description: str
    policy_version: int
    carrier: str
    approval: str
    recovery: Mapping[str, Any]
    #: Why sends stand still; empty where they do not.
    paused: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, body: _Members) -> Tool:
        return cls(
            name=body["name"],
            description=body["description"],
            policy_version=body["policy_version"],
            carrier=body["carrier"],
            approval=body["approval"],
            recovery=body["recovery"],
            paused=tuple(body["paused"]),
        )


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list, newest first where the order is that of time."""

    items: tuple[T, ...]
    next_cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of(cls, body: _Members, read: Callable[[Any], T]) -> Page[T]:
        return cls(tuple(read(item) for item in body["items"]), body.get("next_cursor"))
