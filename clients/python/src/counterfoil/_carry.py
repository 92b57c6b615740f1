"""Carries a claim out, for code that blocks: runs the function once, keeps the lease, and reports.

The function runs in the caller's thread. A thread beside it renews the lease and delivers the report, so that whatever
happens to the caller's thread the report goes out; the interpreter waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from . import _calls
from ._claims import Claim, claim_member, heartbeat, outcome, prepare_claimed, worker_name
from ._discovery import Place
from ._errors import CounterfoilError, NotSent, Refused, Unsettled
from ._exchange import send
from ._fingerprint import Arguments
from ._json import encode
from ._send import Send
from ._settle import next_wait, receipt, settled
from ._tool import Definition, may_be_there, of_error, of_found, of_record, of_return, without_result
from ._values import Operation, Receipt

__all__ = ["Ended", "attempt", "call", "conclude", "lost_report"]

#: A report is tried for so long at the least, in seconds, however late it is: success settles also then.
REPORT_AT_LEAST = 5.0

#: How long, in seconds, a caller listens in one call while another carries the operation out.
LISTEN = 5.0

#: The shortest rest between two looks at what is not due yet, in seconds.
SHORTEST_REST = 0.05

#: Within one lease it is renewed this often.
BEATS = 3


@dataclass(frozen=True)
class Ended:
    """How an attempt or a look-up ended."""

    #: The operation after the report; none where the report was not delivered.
    operation: Operation | None
    #: What the function raised.
    error: BaseException | None


def lost_report(operation_id: str) -> Unsettled:
    """The function ran, and nobody could be told how it ended."""
    message = (
        f"Not confirmed: operation {operation_id} was carried out and its outcome could not be recorded. "
        f"Do not do it again in another way; ask for operation {operation_id}."
    )
    return Unsettled("unknown", operation_id=operation_id, message=message)


def conclude(operation_id: str, ended: Ended) -> Receipt:
    """The receipt, or what else is to be raised."""
    if ended.error is not None and not isinstance(ended.error, Exception):
        raise ended.error
    if ended.operation is None:
        raise lost_report(operation_id) from ended.error
    try:
        done = receipt(ended.operation)
    except CounterfoilError as error:
        raise error from ended.error
    if done is None:
        raise Unsettled.of(ended.operation) from ended.error
    return done


def call(
    place: Place,
    definition: Definition,
    operation_id: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    task: str | None,
    subject: str | None,
    timeout: float,
) -> Receipt:
    """One call of a guarded function. It runs at most once in it, whatever else is waited for or looked up."""
    values = definition.arguments(args, kwargs)
    mine = Arguments(encode(values))
    deadline = time.monotonic() + timeout
    member = claim_member(worker_name(), definition.lease, definition.declaration())
    looked_up, wait = False, 0.0
    while True:
        asked_at = time.monotonic()
        left = deadline - asked_at
        prepare = _calls.prepare(
            operation_id,
            definition.name,
            mine,
            task=task,
            subject=subject,
            replaces=None,
            distinct_from=(),
            accepted_by=None,
            execute=True,
            wait=min(wait, next_wait(left)),
        )
        found = send(place, prepare_claimed(prepare, member), max(left, 0.05))
        if found.claim is None:
            done = settled(found.seen, deadline - time.monotonic())
            if isinstance(done, Receipt):
                return done
            wait, rest = patience(found.seen.operation, done)
            time.sleep(rest)
            continue
        ended = attempt(place, definition, found.claim, definition.lease, asked_at, mine, values)
        after = ended.operation
        free = after is not None and after.state == "prepared" and after.next.action == "retry"
        if found.claim.mode == "send" or looked_up or not free:
            return conclude(operation_id, ended)
        # A look-up has established that nothing happened: now it may run, for the first time in this call.
        looked_up = True
        member = claim_member(worker_name(), definition.lease, definition.declaration())


def patience(operation: Operation, again: float) -> tuple[float, float]:
    """How long the server is to wait, and how long to rest before it is asked: only a claim moves what nobody holds."""
    if operation.state == "in_progress":
        return LISTEN, SHORTEST_REST
    if operation.next.at is None:
        return 0.0, again
    due = (operation.next.at - datetime.now(timezone.utc)).total_seconds()
    return 0.0, max(SHORTEST_REST, min(due, again))


def attempt(
    place: Place,
    definition: Definition,
    claim: Claim,
    lease: float,
    asked_at: float,
    mine: Arguments | None,
    values: Mapping[str, Any],
) -> Ended:
    """Runs the function, or looks up, under a claim that was asked for at `asked_at`, and reports."""
    window = claim.send_window(lease) if claim.mode == "send" else lease
    handle = Send(claim, asked_at + window)
    keeper = _Keeper(place, claim, lease, asked_at, handle)
    keeper.start()
    error: BaseException | None = None
    try:
        report = _act(definition, claim, handle, mine, values)
    except BaseException as raised:
        error = raised
        report = of_error(raised) if claim.mode == "send" else {"outcome": "unknown"}
        if may_be_there(definition, claim, raised, report):
            report = _record(definition, claim, handle)
    return Ended(keeper.report(report), error)


def _act(
    definition: Definition, claim: Claim, handle: Send, mine: Arguments | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    if claim.mode == "investigate":
        find = definition.recovery.find
        return {"outcome": "unknown"} if find is None else of_found(find(handle))
    try:
        arguments = definition.stored(claim, mine, values)
    except TypeError as error:
        raise NotSent(f"what is stored does not fit the parameters of {definition.name}: {error}") from error
    if handle.late():
        # Frozen between the claim and here, longer than anything may still be sent: somebody else may be at it.
        raise NotSent(f"the time to send operation {handle.id} was over before {definition.name} began")
    return of_return(definition, definition.function(handle, **arguments))

def _record(definition: Definition, claim: Claim, handle: Send) -> dict[str, Any]:
    """What the destination has under the reference that it may have refused as used."""
    find = definition.recovery.find
    if find is None:
        return {"outcome": "unknown"}
    try:
        return of_record(find(Send(replace(claim, mode="investigate"), handle.deadline)))
    except Exception:
        return {"outcome": "unknown"}


class _Keeper(threading.Thread):
    """Renews the lease until it is told how the attempt ended, then delivers that."""

    def __init__(self, place: Place, claim: Claim, lease: float, asked_at: float, handle: Send) -> None:
        super().__init__(name=f"counterfoil {claim.operation_id}", daemon=False)
        self._place = place
        self._claim = claim
        self._lease = lease
        self._ends = asked_at + lease
        self._handle = handle
        self._told = threading.Event()
        self._report: dict[str, Any] = {}
        self._operation: Operation | None = None

    def report(self, report: dict[str, Any]) -> Operation | None:
        """Has the report delivered, and waits for that."""
        self._report = report
        self._told.set()
        self.join()
        return self._operation

    def run(self) -> None:
        while not self._told.wait(self._lease / BEATS):
            if not self._beat():
                self._told.wait()
        self._operation = self._deliver()

    def _beat(self) -> bool:
        """Whether the claim still stands."""
        asked_at = time.monotonic()
        try:
            send(self._place, heartbeat(self._claim), self._lease / BEATS)
        except Refused:
            self._handle.lose()
            return False
        except CounterfoilError:
            return True
        self._ends = asked_at + self._lease
        return True

    def _deliver(self) -> Operation | None:
        deadline = max(self._ends, time.monotonic() + REPORT_AT_LEAST)
        report = self._report
        for spare in (report, without_result(report), {"outcome": "unknown"}):
            try:
                return send(self._place, outcome(self._claim, spare), deadline - time.monotonic())
            except Refused as error:
                # What the server does not take of the result is left out; a claim that is lost is lost.
                if error.status not in (400, 413):
                    return None
            except CounterfoilError:
                return None
        return None
