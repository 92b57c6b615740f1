"""What the state of an operation means for whoever waits for it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ._calls import MAX_WAIT, Call, operation
from ._errors import Rejected, Unsettled
from ._values import Operation, Receipt
from ._wire import Answer

__all__ = ["Seen", "next_wait", "receipt", "seen", "settled"]

#: Where less time than this is left, no further call is made.
TOO_SHORT = 0.05


@dataclass(frozen=True)
class Seen:
    """An operation, and after how many seconds it is worth asking again; nothing where only a person can move it."""

    operation: Operation
    again: float | None


def seen(call: Call[Operation]) -> Call[Seen]:
    """The same call, with what its answer says about coming back."""
    return replace(call, read=_read_seen)  # type: ignore[arg-type, return-value]


def _read_seen(answer: Answer) -> Seen:
    text = answer.headers.get("retry-after", "")
    return Seen(operation(answer), float(text) if text.isascii() and text.isdigit() else None)


def next_wait(time_left: float) -> float:
    """How long the server is asked to wait, so that its answer comes before the deadline."""
    return max(0.0, min(time_left - min(1.0, 0.2 * time_left), MAX_WAIT))


def receipt(operation: Operation) -> Receipt | None:
    """The receipt of a success; raises `Rejected` for a certain failure; nothing while it is open."""
    if operation.state == "rejected":
        raise Rejected.of(operation)
    return operation.receipt if operation.state == "succeeded" else None


def settled(found: Seen, time_left: float) -> Receipt | float:
    """The receipt, or how long to rest before the same call again; raises what else became of it."""
    done = receipt(found.operation)
    if done is not None:
        return done
    if found.again is None or found.again >= time_left or time_left < TOO_SHORT:
        raise Unsettled.of(found.operation)
    return found.again
