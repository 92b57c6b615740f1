"""How a call can end other than with a value.

None of these is a connection, timeout or operating-system error, and none invites a framework to run a function again:
what may have happened once is only ever asked for again, with the same operation ID.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from ._values import Next, Operation

__all__ = ["ClaimLost", "CounterfoilError", "Kind", "NotSent", "Refused", "Rejected", "Sent", "Unreachable", "Unsettled", "of_expired"]

Sent = Literal["no", "maybe"]

#: Why an operation is not settled. `in_progress` goes on by itself: ask again, with the same ID.
Kind = Literal["in_progress", "unknown", "held", "approval", "blocked"]


class CounterfoilError(RuntimeError):
    """Every error of this package that tells of an operation."""

    #: Whether something may have been sent to the destination.
    sent: Sent
    #: The operation that the call was about, or that stands in the way.
    operation_id: str | None
    #: One sentence that a model may read: what is known, and what not to do.
    for_model: str

    def __init__(self, message: str, *, sent: Sent, operation_id: str | None, for_model: str | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.operation_id = operation_id
        self.for_model = for_model if for_model is not None else message


#: How much of a reason a model is told, in characters.
MAX_TOLD = 300


def _with_reason(message: str, reason: str | None, what: str = "The reason that was given") -> str:
    """Somebody else wrote the reason: it is quoted, on one line, and cut."""
    if not reason:
        return message
    told = reason if len(reason) <= MAX_TOLD else reason[: MAX_TOLD - 1] + "…"
    return f"{message} {what}: {json.dumps(told, ensure_ascii=False)}."


def of_expired(operation_id: str | None, state: str) -> str:
    """What a model is told of an operation whose receipt is no longer kept: how it ended is all that is known."""
    if state == "succeeded":
        return f"Operation {operation_id} was done long ago, and its receipt is no longer kept. Do not do it again."
    if state == "rejected":
        return f"Nothing happened: operation {operation_id} was rejected long ago. Do not repeat it under this ID."
    return f"Operation {operation_id} was closed long ago, and nobody could tell what became of it. Do not do it again."


class Rejected(CounterfoilError):
    """Nothing happened, and that is certain."""

    def __init__(
        self, message: str, *, code: str, detail: str | None, operation_id: str, operation: Operation | None = None
    ) -> None:
        super().__init__(message, sent="no", operation_id=operation_id, for_model=_with_reason(message, detail))
        #: `destination_rejected`, `approval_denied`, `withdrawn`, `replaced`, `budget_exhausted` and so on.
        self.code = code
        #: The reason that was given: by the destination, by your function's `Refused`, or by a person.
        self.detail = detail
        self.operation = operation

    @classmethod
    def of(cls, operation: Operation) -> Rejected:
        """What a rejected operation amounts to."""
        rejection = operation.rejection
        code, detail = (rejection.code, rejection.detail) if rejection else ("rejected", None)
        error = cls(operation.next.message, code=code, detail=detail, operation_id=operation.id, operation=operation)
        last = operation.attempts[-1].error if operation.attempts else None
        if code == "budget_exhausted" and detail is None:
            # Nobody gave a reason; why the last attempt came to nothing is as near as it gets.
            error.for_model = _with_reason(error.for_model, last, "What ended the last attempt")
        return error


class Unsettled(CounterfoilError):
    """Not over, or not known. Never do it again under a new ID; ask for this operation again."""

    def __init__(
        self,
        kind: Kind,
        *,
        operation_id: str | None,
        message: str,
        sent: Sent = "maybe",
        operation: Operation | None = None,
        next: Next | None = None,
        blockers: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, sent=sent, operation_id=operation_id)
        self.kind = kind
        #: The operation as it was last seen; none where no answer came.
        self.operation = operation
        self.next = next if next is not None or operation is None else operation.next
        #: The operations that it waits for.
        self.blockers = blockers

    @classmethod
    def of(cls, operation: Operation) -> Unsettled:
        """What an operation that is not over amounts to."""
        attempted = any(not attempt.settled for attempt in operation.attempts)
        waits_for = operation.next.operation
        return cls(
            kind_of(operation.state, operation.held, operation.next),
            operation_id=operation.id,
            message=operation.next.message,
            sent="maybe" if attempted else "no",
            operation=operation,
            blockers=() if waits_for is None else (waits_for,),
        )


def kind_of(state: str, held: bool, next: Next | None) -> Kind:
    """Why an operation in this state is not settled."""
    action = next.action if next else ""
    if held or action == "review":
        return "held"
    if action == "approve":
        return "approval"
    if action == "wait_for_operation":
        return "blocked"
    return "unknown" if state == "unknown" else "in_progress"


class Refused(CounterfoilError):
    """The call was refused: a conflict, a missing right, or a mistake in it.

    A guarded function raises it, with its own reason, when the destination said no and nothing happened.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "refused",
        status: int | None = None,
        hint: str | None = None,
        sent: Sent = "no",
        operation_id: str | None = None,
        operations: tuple[str, ...] = (),
        differs: tuple[str, ...] = (),
        state: str | None = None,
        problem: Mapping[str, Any] | None = None,
        for_model: str | None = None,
    ) -> None:
        super().__init__(message, sent=sent, operation_id=operation_id, for_model=for_model)
        #: A stable word, such as `operation-id-reused` or `action-unresolved`.
        self.code = code
        self.status = status
        self.hint = hint
        #: Every operation that stands in the way.
        self.operations = operations
        #: The members that differ from what is stored; never their values.
        self.differs = differs
        #: The state of the operation, where the refusal tells it: with `receipt-expired`, how it ended.
        self.state = state
        #: The server's whole answer; none where a guarded function raised it.
        self.problem = problem


class Unreachable(CounterfoilError):
    """No answer came in time, and it is certain that nothing was sent to the destination by this call."""

    def __init__(
        self, message: str, *, operation_id: str | None = None, code: str | None = None, for_model: str | None = None
    ) -> None:
        super().__init__(message, sent="no", operation_id=operation_id, for_model=for_model)
        #: What the server last said, if it said something.
        self.code = code


class NotSent(Exception):
    """A guarded function raises it when it is certain that it has sent nothing to the destination."""


class ClaimLost(CounterfoilError):
    """The time in which this attempt may begin to send is over: nothing may be sent any more."""

    def __init__(self, operation_id: str) -> None:
        message = f"Too late to send operation {operation_id}: its claim may be another's by now. Nothing may be sent."
        super().__init__(message, sent="no", operation_id=operation_id)
