"""The client for code that awaits: the same calls as in `_client`."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from . import _calls
from ._asks import Asks
from ._acarry import call
from ._aexchange import send
from ._aworker import AsyncWorker
from ._calls import MAX_WAIT, Call
from ._client import DEFAULT_LEASE, DEFAULT_TIMEOUT
from ._discovery import Place, discover
from ._embedded import embedded
from ._fingerprint import Arguments
from ._json import Json, encode
from ._recovery import Recovery
from ._send import Send
from ._settle import next_wait, seen, settled
from ._tool import Guarded, Reference, define, dress
from ._values import Event, Evidence, Operation, Page, Plan, Receipt, State, Tool

__all__ = ["AsyncCounterfoil"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class AsyncCounterfoil:
    """A client of one server, as one account. It may be shared by tasks and holds no connection open.

    A caller that is cancelled stops listening; what it began at the server goes on.

    `timeout` is how long, in seconds, a call that did not come through is made again, always with the same operation
    ID: after a lost connection, 429 and 503.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        account: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._place: Place = discover(url, token, account)
        self._timeout = timeout

    @classmethod
    def embedded(
        cls,
        path: str | os.PathLike[str],
        account: str = "app",
        *,
        timeout: float = DEFAULT_TIMEOUT,
        binary: str | None = None,
    ) -> AsyncCounterfoil:
        """Starts the server of the wheel beside this process, or joins the one that runs there.

        `path` is the configuration or its folder. The server listens on a socket that only this user can open, and ends
        with the process that started it; who had joined it starts another. The binary is `binary`,
        `COUNTERFOIL_BINARY`, that of the wheel, or `counterfoil` on the path.
        """
        place = embedded(path, account, binary)
        made = cls(place.url, place.token, account, timeout=timeout)
        made._place = place
        return made

    def __repr__(self) -> str:
        return f"AsyncCounterfoil({self._place.url!r})"

    @property
    def account(self) -> str | None:
        """The account that was named; the server takes it from the token."""
        return self._place.account

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        return await send(self._place, call, call.wait + (self._timeout if timeout is None else timeout))

    async def run(
        self,
        id: str,
        tool: str,
        arguments: Json | Arguments,
        *,
        task: str | None = None,
        subject: str | None = None,
        replaces: str | None = None,
        distinct_from: Iterable[str] = (),
        accepted_by: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Has an action carried out at most once, and waits for its receipt.

        `id` was minted with `new_id()` when the proposal was accepted and is kept with the pending work: after a crash
        the same call with the same ID finds what became of it. Raises `Rejected` when it is certain that nothing
        happened, `Unsettled` when that is open, `Refused` for a conflict, `Unreachable` when nothing was sent.
        """
        text = Arguments(encode(arguments)) if not isinstance(arguments, Arguments) else arguments
        ids, deadline = tuple(distinct_from), time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            left = deadline - time.monotonic()
            call = _calls.prepare(
                id,
                tool,
                text,
                task=task,
                subject=subject,
                replaces=replaces,
                distinct_from=ids,
                accepted_by=accepted_by,
                execute=True,
                wait=next_wait(left),
            )
            found = await send(self._place, seen(call), max(left, 0.05))
            done = settled(found, deadline - time.monotonic())
            if isinstance(done, Receipt):
                return done
            await asyncio.sleep(done)

    async def prepare(
        self,
        id: str,
        tool: str,
        arguments: Json | Arguments,
        *,
        task: str | None = None,
        subject: str | None = None,
        replaces: str | None = None,
        distinct_from: Iterable[str] = (),
        accepted_by: Mapping[str, Any] | None = None,
        execute: bool = False,
        wait: float = 0.0,
    ) -> Operation:
        """Stores an action. With `execute` it runs as soon as it may, whoever is still listening."""
        return await self._call(
            _calls.prepare(
                id,
                tool,
                arguments,
                task=task,
                subject=subject,
                replaces=replaces,
                distinct_from=distinct_from,
                accepted_by=accepted_by,
                execute=execute,
                wait=wait,
            )
        )

    async def plan(
        self,
        id: str,
        tool: str,
        arguments: Json | Arguments,
        *,
        task: str | None = None,
        subject: str | None = None,
        replaces: str | None = None,
        distinct_from: Iterable[str] = (),
    ) -> Plan:
        """Says what a prepare would do; nothing is stored."""
        call = _calls.prepare(
            id,
            tool,
            arguments,
            task=task,
            subject=subject,
            replaces=replaces,
            distinct_from=distinct_from,
            accepted_by=None,
            execute=False,
            wait=0.0,
        )
        return await self._call(_calls.plan(call))

    async def execute(self, id: str, *, wait: float = 30.0) -> Operation:
        """Runs a prepared operation, or joins the attempt that runs, and waits at most `wait` seconds."""
        return await self._call(_calls.execute(id, min(wait, MAX_WAIT)))

    async def get(self, id: str, *, wait: float = 0.0) -> Operation:
        """The operation as it is; with `wait`, as soon as it changes."""
        return await self._call(_calls.get(id, min(wait, MAX_WAIT)))

    async def find(
        self,
        *,
        state: State | None = None,
        tool: str | None = None,
        task: str | None = None,
        subject: str | None = None,
        held: bool | None = None,
        unresolved: bool | None = None,
        reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        text: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """Operations of the account, newest first."""
        return await self._call(
            _calls.find(
                state=state,
                tool=tool,
                task=task,
                subject=subject,
                held=held,
                unresolved=unresolved,
                reference=reference,
                created_after=created_after,
                created_before=created_before,
                text=text,
                limit=limit,
                cursor=cursor,
            )
        )

    async def withdraw(self, id: str) -> Operation:
        """Takes an operation back that was not started."""
        return await self._call(_calls.decide(id, "withdraw"))

    async def reconcile(self, id: str) -> Operation:
        """Brings the next look-up forward. It never sends."""
        return await self._call(_calls.decide(id, "reconcile"))

    async def approve(
        self,
        id: str,
        fingerprint: str,
        *,
        acknowledges: str | None = None,
        if_version: int | None = None,
    ) -> Operation:
        """Says yes to exactly what was shown."""
        return await self._call(
            _calls.decide(
                id, "approve", may_send=True, fingerprint=fingerprint, acknowledges=acknowledges, if_version=if_version
            )
        )

    async def deny(self, id: str, reason: str) -> Operation:
        """Says no."""
        return await self._call(_calls.decide(id, "deny", reason=reason))

    async def resolve(
        self,
        id: str,
        verdict: str,
        note: str,
        *,
        reference: str | None = None,
        allow_another_attempt: bool = False,
        if_version: int | None = None,
    ) -> Operation:
        """Settles what no rule can: `succeeded` (with its reference), `confirmed_absent`, `abandoned`, `acknowledged`."""
        return await self._call(
            _calls.decide(
                id,
                "resolve",
                may_send=allow_another_attempt,
                verdict=verdict,
                note=note,
                reference=reference,
                allow_another_attempt=allow_another_attempt or None,
                if_version=if_version,
            )
        )

    async def release(self, id: str, note: str, *, if_version: int | None = None) -> Operation:
        """Lets later operations with this action or subject pass."""
        return await self._call(_calls.decide(id, "release", note=note, if_version=if_version))

    async def note(self, id: str, text: str, *, remind_at: datetime | None = None) -> Operation:
        """Writes down what a person found out without settling anything."""
        return await self._call(_calls.note(id, text, remind_at))

    async def evidence(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> Page[Evidence]:
        """What was seen of an operation, when, and by whom."""
        return await self._call(_calls.evidence(id, limit, cursor))

    async def events(self, *, after: str | None = None, limit: int | None = None, wait: float = 0.0) -> Page[Event]:
        """Changes of the account after a cursor; with `wait`, as soon as there is one."""
        return await self._call(_calls.events(after, limit, min(wait, MAX_WAIT)))

    async def tools(self) -> Page[Tool]:
        """The declared tools."""
        return await self._call(_calls.tools())

    async def show_tool(self, name: str) -> Tool:
        """One declared tool, with its recovery and its pauses."""
        return await self._call(_calls.tool(name))

    async def pause(self, tool: str, note: str) -> Tool:
        """Stops the sends of a tool (role operator)."""
        return await self._call(_calls.halt(tool, "pause", note))

    async def resume(self, tool: str, note: str) -> Tool:
        """Ends the pauses of a tool (role operator)."""
        return await self._call(_calls.halt(tool, "resume", note))

    def tool(
        self,
        name: str,
        *,
        recovery: Recovery,
        reference: Reference = None,
        approval: Asks | None = None,
        budget: Mapping[str, Any] | None = None,
        scope: str | None = None,
        lease: float = DEFAULT_LEASE,
    ) -> Callable[[Callable[Concatenate[Send, P], Awaitable[R]]], Guarded[Awaitable[R]]]:
        """Guards an `async def` of your own, as `Counterfoil.tool` does.

        A caller that is cancelled stops listening: the function goes on in a task of its own, and its end is reported.
        """

        def guard(function: Callable[Concatenate[Send, P], Awaitable[R]]) -> Guarded[Awaitable[R]]:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__name__} blocks: guard it with Counterfoil")
            definition = define(function, name, recovery, reference, approval, budget, scope, lease)

            async def receipt(
                *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
            ) -> Receipt:
                return await call(self._place, definition, operation_id, args, arguments, task, subject, self._timeout)

            async def guarded(
                *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
            ) -> Any:
                return (await receipt(*args, operation_id=operation_id, task=task, subject=subject, **arguments)).result

            dress(guarded, receipt, definition)
            return cast("Guarded[Awaitable[R]]", guarded)

        return guard

    def worker(
        self,
        tools: Sequence[Guarded[Any]],
        *,
        concurrency: int = 4,
        name: str | None = None,
        lease: float = DEFAULT_LEASE,
    ) -> AsyncWorker:
        """A worker for guarded functions: `await run()` carries out what was prepared with `execute` elsewhere."""
        return AsyncWorker(self._place, tools, concurrency, name, lease)
