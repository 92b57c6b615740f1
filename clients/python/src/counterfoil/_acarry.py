"""As `_carry`, for code that awaits.

The function runs in a task of its own that outlives whoever called it: a caller that is cancelled stops listening, the
attempt goes on, and its report goes out.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from . import _calls
from ._aexchange import send
from ._carry import BEATS, REPORT_AT_LEAST, Ended, conclude, patience
from ._calls import Call
from ._claims import Claim, Claimed, claim_member, heartbeat, outcome, prepare_claimed, worker_name
from ._discovery import Place
from ._errors import CounterfoilError, NotSent, Refused
from ._fingerprint import Arguments
from ._json import encode
from ._send import Send
from ._settle import next_wait, settled
from ._tool import Definition, may_be_there, of_error, of_found, of_record, of_return, without_result
from ._values import Operation, Receipt

__all__ = ["attempt", "call", "outliving"]

T = TypeVar("T")

#: Steps that go on although nobody listens: a task that nobody holds may vanish.
_running: set[asyncio.Task[Any]] = set()


async def call(
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
        left = deadline - time.monotonic()
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
        asked = prepare_claimed(prepare, member)
        claimed, ended = await outliving(_step(place, definition, asked, max(left, 0.05), mine, values))
        if claimed.claim is None or ended is None:
            done = settled(claimed.seen, deadline - time.monotonic())
            if isinstance(done, Receipt):
                return done
            wait, rest = patience(claimed.seen.operation, done)
            await asyncio.sleep(rest)
            continue
        after = ended.operation
        free = after is not None and after.state == "prepared" and after.next.action == "retry"
        if claimed.claim.mode == "send" or looked_up or not free:
            return conclude(operation_id, ended)
        # A look-up has established that nothing happened: now it may run, for the first time in this call.
        looked_up = True
        member = claim_member(worker_name(), definition.lease, definition.declaration())


async def outliving(step: Coroutine[Any, Any, T]) -> T:
    """Waits for a step that goes on when its caller is cancelled."""
    task = asyncio.ensure_future(step)
    _running.add(task)
    task.add_done_callback(_over)
    return await asyncio.shield(task)


def _over(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    # Read, so that an end that nobody waited for is not complained of: it was reported.
    if not task.cancelled():
        task.exception()


async def _step(
    place: Place,
    definition: Definition,
    asked: Call[Claimed],
    timeout: float,
    mine: Arguments,
    values: Mapping[str, Any],
) -> tuple[Claimed, Ended | None]:
    """The claim and what follows it in one task: between the two nobody may be cancelled."""
    asked_at = time.monotonic()
    claimed = await send(place, asked, timeout)
    if claimed.claim is None:
        return claimed, None
    ended = await attempt(place, definition, claimed.claim, definition.lease, asked_at, mine, values)
    return claimed, ended


async def attempt(
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
    error: BaseException | None = None
    try:
        report = await _act(definition, claim, handle, mine, values)
    except BaseException as raised:
        error = raised
        report = of_error(raised) if claim.mode == "send" else {"outcome": "unknown"}
        if may_be_there(definition, claim, raised, report):
            report = await _record(definition, claim, handle)
    # At the end of a loop every task is cancelled, this one too, and once: the report still goes out.
    return Ended(await keeper.report(report), error)


async def _act(
    definition: Definition, claim: Claim, handle: Send, mine: Arguments | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    if claim.mode == "investigate":
        find = definition.recovery.find
        if find is None:
            return {"outcome": "unknown"}
        found = find(handle)
        return of_found(await found if inspect.isawaitable(found) else found)
    try:
        arguments = definition.stored(claim, mine, values)
    except TypeError as error:
        raise NotSent(f"what is stored does not fit the parameters of {definition.name}: {error}") from error
    if handle.late():
        # Frozen between the claim and here, longer than anything may still be sent: somebody else may be at it.
        raise NotSent(f"the time to send operation {handle.id} was over before {definition.name} began")
    return of_return(definition, await definition.function(handle, **arguments))

async def _record(definition: Definition, claim: Claim, handle: Send) -> dict[str, Any]:
    """What the destination has under the reference that it may have refused as used."""
    find = definition.recovery.find
    if find is None:
        return {"outcome": "unknown"}
    try:
        found = find(Send(replace(claim, mode="investigate"), handle.deadline))
        return of_record(await found if inspect.isawaitable(found) else found)
    except Exception:
        return {"outcome": "unknown"}


class _Keeper:
    """Renews the lease until it is told how the attempt ended, then delivers that."""

    def __init__(self, place: Place, claim: Claim, lease: float, asked_at: float, handle: Send) -> None:
        self._place = place
        self._claim = claim
        self._lease = lease
        self._ends = asked_at + lease
        self._handle = handle
        self._beats = asyncio.ensure_future(self._beat())

    async def report(self, report: Mapping[str, Any]) -> Operation | None:
        """Has the report delivered, and waits for that."""
        self._beats.cancel()
        deadline = max(self._ends, time.monotonic() + REPORT_AT_LEAST)
        for spare in (report, without_result(report), {"outcome": "unknown"}):
            try:
                told: Operation = await send(self._place, outcome(self._claim, spare), deadline - time.monotonic())
                return told
            except Refused as error:
                # What the server does not take of the result is left out; a claim that is lost is lost.
                if error.status not in (400, 413):
                    return None
            except CounterfoilError:
                return None
        return None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease / BEATS)
            asked_at = time.monotonic()
            try:
                await send(self._place, heartbeat(self._claim), self._lease / BEATS)
            except Refused:
                self._handle.lose()
                return
            except CounterfoilError:
                continue
            self._ends = asked_at + self._lease
