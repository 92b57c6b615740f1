"""When a call is made again, and what its end means. No I/O: it is told what happened and says what to do.

A call is only ever made again with the same operation ID, so a repeat finds what the first one did.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeVar

from ._calls import Call, NotOurs, members
from ._errors import CounterfoilError, Refused, Sent, Unreachable, Unsettled, kind_of, of_expired
from ._values import Next
from ._wire import Answer, Lost

__all__ = ["Tries"]

T = TypeVar("T")

#: The first delay between two tries, in seconds; it doubles each time, and the whole of it is jittered.
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0

#: What the server may take beyond the wait that it was asked for.
BEYOND_WAIT = 30.0

_URN = "urn:counterfoil:problem:"

#: Refusals that tell of an operation which is not settled.
_NOT_NOW = ("in-progress", "approval-required", "blocked-by-operation", "paused")


#: What a guarded function is told whose tool the server does not have.
_IN_THE_FILE = (
    "`counterfoil serve` takes no declarations from code: the tool belongs into its counterfoil.toml, with "
    "[tools.NAME.worker] (`w` in `counterfoil dev` writes that)."
)


class Tries:
    """The tries of one call until its deadline."""

    def __init__(self, call: Call[Any], timeout: float, now: float, server: str = "") -> None:
        self._call = call
        self._server = server
        self._deadline = now + timeout
        self._delay = FIRST_DELAY
        self._maybe_sent = False

    def patience(self, now: float) -> float:
        """How long the next try may take."""
        return max(0.05, min(self._deadline - now, self._call.wait + BEYOND_WAIT))

    def lost(self, lost: Lost, now: float) -> float:
        """How long to rest before the next try; raises where there is none."""
        self._maybe_sent = self._maybe_sent or (lost.written and self._call.may_send)
        if lost.written and not self._call.repeats:
            raise self._given_up(str(lost), None)
        return self._rest(0.0, now, str(lost), None)

    def answered(self, answer: Answer, now: float) -> float | None:
        """Nothing for an answer to be read, else how long to rest before the next try; raises what was refused."""
        if answer.status < 300:
            return None
        try:
            problem, _ = members(answer)
            code = str(problem["type"])
            if not code.startswith(_URN):
                raise NotOurs(code)
        except (KeyError, NotOurs):
            return self._stranger(answer, now)
        code = code[len(_URN) :]
        maybe = problem.get("sent") != "no"
        if answer.status in (429, 503):
            self._maybe_sent = self._maybe_sent or (maybe and self._call.may_send)
            return self._rest(_seconds(answer.headers.get("retry-after")), now, str(problem["detail"]), code)
        raise self._refused(answer.status, code, problem, maybe)

    def unreadable(self, now: float) -> float:
        """As `lost`, for a success that something between server and client has damaged."""
        return self.lost(Lost("the answer is not one of a Counterfoil server", written=True), now)

    def _stranger(self, answer: Answer, now: float) -> float:
        """Something that is no Counterfoil server has answered, such as a gateway."""
        if answer.status >= 500:
            return self.lost(Lost(f"something between answered {answer.status}", written=True), now)
        detail = f"What answers there is no Counterfoil server (status {answer.status})."
        raise Refused(
            detail,
            code="not-counterfoil",
            status=answer.status,
            sent=self._sent(False),
            operation_id=self._call.operation_id,
        )

    def _rest(self, at_least: float, now: float, why: str, code: str | None) -> float:
        delay, self._delay = random.uniform(0, self._delay), min(self._delay * 2, LONGEST_DELAY)
        delay = max(at_least, delay)
        if now + delay >= self._deadline:
            raise self._given_up(why, code)
        return delay

    def _sent(self, maybe: bool) -> Sent:
        return "maybe" if maybe or self._maybe_sent else "no"

    def _given_up(self, why: str, code: str | None) -> CounterfoilError:
        operation_id = self._call.operation_id
        if not self._maybe_sent:
            told = f"Counterfoil cannot be reached: {why}"
            where = f"{told} ({self._server})" if self._server else told
            return Unreachable(where, operation_id=operation_id, code=code, for_model=told)
        message = (
            f"Not confirmed: the call for operation {operation_id} was made and no answer came back. "
            f"Do not do it again in another way; ask for operation {operation_id}."
        )
        return Unsettled("unknown", operation_id=operation_id, message=message)

    def _refused(self, status: int, code: str, problem: Mapping[str, Any], maybe: bool) -> CounterfoilError:
        following = Next.of(problem["next"]) if problem.get("next") else None
        named = problem.get("operation_id") or self._call.operation_id
        detail, others = str(problem["detail"]), tuple(problem.get("operations", ()))
        state = str(problem.get("state", ""))
        message = following.message if following else detail
        if code in _NOT_NOW:
            kind = kind_of(state, False, following)
            if code == "approval-required":
                kind = "approval"
            elif code == "blocked-by-operation":
                kind = "blocked"
            return Unsettled(
                kind,
                operation_id=self._call.operation_id or named,
                message=message,
                sent=self._sent(maybe),
                next=following,
                blockers=others,
            )
        if status >= 500 and self._call.may_send and self._sent(maybe) == "maybe":
            return Unsettled("unknown", operation_id=named, message=message)
        hint = problem.get("hint")
        if code == "unknown-tool" and b'"declaration":' in (self._call.body or b""):
            hint = f"{_IN_THE_FILE} {hint}"
        return Refused(
            detail,
            code=code,
            status=status,
            hint=hint,
            sent=self._sent(maybe and self._call.may_send),
            operation_id=named,
            operations=others,
            differs=tuple(problem.get("differs", ())),
            state=state or None,
            problem=problem,
            for_model=of_expired(named, state) if code == "receipt-expired" else message,
        )


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0
