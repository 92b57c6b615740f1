"""The calls of the HTTP API: what goes out, and how the answer is read. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from ._fingerprint import Arguments
from ._json import Json, encode, loads
from ._values import Event, Evidence, Operation, Page, Plan, State, Tool
from ._wire import Answer

__all__ = ["MAX_WAIT", "Call", "NotOurs"]

T = TypeVar("T")

#: The longest that the server waits in one call, in seconds.
MAX_WAIT = 120.0


class NotOurs(Exception):
    """The answer is not one of the server: something between answered."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call."""

    method: str
    path: str
    read: Callable[[Answer], T]
    body: bytes | None = None
    #: How long the server was asked to wait, in seconds.
    wait: float = 0.0
    #: Whether a send to a destination may follow from it.
    may_send: bool = False
    #: Whether the same call again changes nothing.
    repeats: bool = True
    operation_id: str | None = None


def members(answer: Answer) -> tuple[Any, str]:
    """The body of an answer, with exact numbers, and its text."""
    try:
        text = answer.body.decode("utf-8")
        body = loads(text)
    except ValueError:
        raise NotOurs("the body is not JSON") from None
    if not isinstance(body, dict):
        raise NotOurs("the body is no object")
    return body, text


def operation(answer: Answer) -> Operation:
    body, text = members(answer)
    return Operation.of(body, text)


def _plan(answer: Answer) -> Plan:
    body, text = members(answer)
    known = Operation.of(body, text) if "id" in body else None
    return Plan(body["would"], known, body.get("problem"))


def _page(read: Callable[[Any], T]) -> Callable[[Answer], Page[T]]:
    def page(answer: Answer) -> Page[T]:
        return Page.of(members(answer)[0], read)

    return page


def path_of(operation_id: str, verb: str = "") -> str:
    if not operation_id or operation_id in (".", ".."):
        raise ValueError("an operation ID is 1 to 255 visible ASCII characters, and neither . nor ..")
    return f"/v1/operations/{quote(operation_id, safe='')}{verb}"


def _body(**given: Any) -> bytes:
    return encode({name: value for name, value in given.items() if value is not None}).encode("utf-8")


def millis(seconds: float) -> int:
    """Whole milliseconds, none for what is not positive."""
    return max(0, round(seconds * 1000))


def put_body(tool: str, arguments: Json | Arguments, **more: Any) -> bytes:
    """The body of a prepare. The arguments' text goes in as it is: written once, and the same in every repeat."""
    text = arguments.text if isinstance(arguments, Arguments) else encode(arguments)
    rest = "".join(f",{json.dumps(name)}:{encode(value)}" for name, value in more.items() if value is not None)
    return f'{{"tool":{json.dumps(tool)},"arguments":{text}{rest}}}'.encode()


def prepare(
    operation_id: str,
    tool: str,
    arguments: Json | Arguments,
    *,
    task: str | None,
    subject: str | None,
    replaces: str | None,
    distinct_from: Iterable[str],
    accepted_by: Mapping[str, Any] | None,
    execute: bool,
    wait: float,
) -> Call[Operation]:
    ids = list(distinct_from)
    body = put_body(
        tool,
        arguments,
        task=task,
        subject=subject,
        replaces=replaces,
        distinct_from=ids or None,
        accepted_by=accepted_by,
        execute=True if execute else None,
        wait_ms=millis(wait) if execute else None,
    )
    return Call(
        "PUT",
        path_of(operation_id),
        operation,
        body,
        wait=wait if execute else 0.0,
        may_send=execute,
        operation_id=operation_id,
    )


def plan(call: Call[Operation]) -> Call[Plan]:
    """Turns a prepare into the question what it would do."""
    body = (call.body or b"{}")[:-1] + b',"dry_run":true}'
    return Call("PUT", call.path, _plan, body, operation_id=call.operation_id)


def execute(operation_id: str, wait: float) -> Call[Operation]:
    body = _body(wait_ms=millis(wait))
    path = path_of(operation_id, "/execute")
    return Call("POST", path, operation, body, wait=wait, may_send=True, operation_id=operation_id)


def get(operation_id: str, wait: float) -> Call[Operation]:
    query = f"?wait_ms={millis(wait)}" if wait > 0 else ""
    return Call("GET", path_of(operation_id) + query, operation, wait=wait, operation_id=operation_id)


def find(
    *,
    state: State | None,
    tool: str | None,
    task: str | None,
    subject: str | None,
    held: bool | None,
    unresolved: bool | None,
    reference: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
    text: str | None,
    limit: int | None,
    cursor: str | None,
) -> Call[Page[Operation]]:
    query = _query(
        state=state,
        tool=tool,
        task=task,
        subject=subject,
        held=held,
        unresolved=unresolved,
        reference=reference,
        created_after=created_after,
        created_before=created_before,
        q=text,
        limit=limit,
        cursor=cursor,
    )
    return Call("GET", "/v1/operations" + query, _page(Operation.of))


def _query(**given: Any) -> str:
    pairs = [(name, _parameter(value)) for name, value in given.items() if value is not None]
    return "?" + urlencode(pairs, quote_via=quote) if pairs else ""


def _parameter(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return written(value) if isinstance(value, datetime) else str(value)


def written(instant: datetime) -> str:
    """An instant as the server reads it."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone: datetime.now(timezone.utc), for example")
    return instant.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decide(operation_id: str, verb: str, *, may_send: bool = False, **given: Any) -> Call[Operation]:
    """Approve, deny, withdraw, reconcile, resolve, release: the same one again by the same principal is no change."""
    return Call(
        "POST",
        path_of(operation_id, "/" + verb),
        operation,
        _body(**given) if given else None,
        may_send=may_send,
        operation_id=operation_id,
    )


def note(operation_id: str, text: str, remind_at: datetime | None) -> Call[Operation]:
    body = _body(text=text, remind_at=None if remind_at is None else written(remind_at))
    # Two notes are two rows of evidence, so a lost answer is not followed by a second one.
    return Call("POST", path_of(operation_id, "/notes"), operation, body, repeats=False, operation_id=operation_id)


def evidence(operation_id: str, limit: int | None, cursor: str | None) -> Call[Page[Evidence]]:
    path = path_of(operation_id, "/evidence") + _query(limit=limit, cursor=cursor)
    return Call("GET", path, _page(Evidence.of), operation_id=operation_id)


def events(after: str | None, limit: int | None, wait: float) -> Call[Page[Event]]:
    query = _query(after=after, limit=limit, wait_ms=millis(wait) if wait > 0 else None)
    return Call("GET", "/v1/events" + query, _page(Event.of), wait=wait)


def tools() -> Call[Page[Tool]]:
    return Call("GET", "/v1/tools", _page(Tool.of))


def tool(name: str) -> Call[Tool]:
    return Call("GET", f"/v1/tools/{quote(name, safe='')}", lambda answer: Tool.of(members(answer)[0]))


def halt(name: str, verb: str, why: str) -> Call[Tool]:
    path = f"/v1/tools/{quote(name, safe='')}/{verb}"
    return Call("POST", path, lambda answer: Tool.of(members(answer)[0]), _body(note=why))
