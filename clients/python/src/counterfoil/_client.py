"""The client for code that blocks."""

from __future__ import annotations

import inspect
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from . import _calls
from ._asks import Asks
from ._calls import MAX_WAIT, Call
from ._carry import call
from ._discovery import Place, discover
from ._door import Effect, transaction
from ._embedded import embedded
from ._exchange import send
from ._fingerprint import Arguments
from ._json import Json, encode
from ._recovery import Recovery
from ._send import Send
from ._settle import next_wait, seen, settled
from ._tool import Guarded, Reference, define, dress
from ._values import Event, Evidence, Operation, Page, Plan, Receipt, State, Tool
from ._worker import Worker

__all__ = ["Counterfoil"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

#: How long a call is made again where the caller names no time, in seconds.
DEFAULT_TIMEOUT = 30.0

#: How long a claim lasts without a heartbeat, in seconds.
DEFAULT_LEASE = 30.0


class Counterfoil:
    """A client of one server, as one account. It may be shared by threads and holds no connection open.

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
        self._account = account
        self._timeout = timeout
        self._nowhere: ValueError | None = None
        try:
            self._found: Place | None = discover(url, token, account)
        except ValueError as error:
            # Who names an account and nothing else may want the transaction door only, which needs no server.
            if url is not None or token is not None or account is None:
                raise
            self._found, self._nowhere = None, error

    @classmethod
    def embedded(
        cls,
        path: str | os.PathLike[str],
        account: str = "app",
        *,
        timeout: float = DEFAULT_TIMEOUT,
        binary: str | None = None,
    ) -> Counterfoil:
        """Starts the server of the wheel beside this process, or joins the one that runs there.

        `path` is the configuration or its folder. The server listens on a socket that only this user can open, and ends
        with the process that started it; who had joined it starts another. The binary is `binary`,
        `COUNTERFOIL_BINARY`, that of the wheel, or `counterfoil` on the path.
        """
        place = embedded(path, account, binary)
        made = cls(place.url, place.token, account, timeout=timeout)
        made._found = place
        return made

    def __repr__(self) -> str:
        return f"Counterfoil({self._found.url if self._found else None!r})"

    @property
    def account(self) -> str | None:
        """The account that was named; over HTTP the server takes it from the token."""
        return self._account or (self._found.account if self._found else None)

    @property
    def _place(self) -> Place:
        if self._found is None:
            raise self._nowhere or ValueError("no server is named")
        return self._found

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        return send(self._place, call, call.wait + (self._timeout if timeout is None else timeout))

    def run(
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
            found = send(self._place, seen(call), max(left, 0.05))
            done = settled(found, deadline - time.monotonic())
            if isinstance(done, Receipt):
                return done
            time.sleep(done)

    def prepare(
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
        return self._call(
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

    def plan(
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
        return self._call(_calls.plan(call))

    def execute(self, id: str, *, wait: float = 30.0) -> Operation:
        """Runs a prepared operation, or joins the attempt that runs, and waits at most `wait` seconds."""
        return self._call(_calls.execute(id, min(wait, MAX_WAIT)))

    def get(self, id: str, *, wait: float = 0.0) -> Operation:
        """The operation as it is; with `wait`, as soon as it changes."""
        return self._call(_calls.get(id, min(wait, MAX_WAIT)))

    def find(
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
        return self._call(
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

    def withdraw(self, id: str) -> Operation:
        """Takes an operation back that was not started."""
        return self._call(_calls.decide(id, "withdraw"))

    def reconcile(self, id: str) -> Operation:
        """Brings the next look-up forward. It never sends."""
        return self._call(_calls.decide(id, "reconcile"))

    def approve(
        self,
        id: str,
        fingerprint: str,
        *,
        acknowledges: str | None = None,
        if_version: int | None = None,
    ) -> Operation:
        """Says yes to exactly what was shown."""
        return self._call(
            _calls.decide(
                id, "approve", may_send=True, fingerprint=fingerprint, acknowledges=acknowledges, if_version=if_version
            )
        )

    def deny(self, id: str, reason: str) -> Operation:
        """Says no."""
        return self._call(_calls.decide(id, "deny", reason=reason))

    def resolve(
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
        return self._call(
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

    def release(self, id: str, note: str, *, if_version: int | None = None) -> Operation:
        """Lets later operations with this action or subject pass."""
        return self._call(_calls.decide(id, "release", note=note, if_version=if_version))

    def note(self, id: str, text: str, *, remind_at: datetime | None = None) -> Operation:
        """Writes down what a person found out without settling anything."""
        return self._call(_calls.note(id, text, remind_at))

    def evidence(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> Page[Evidence]:
        """What was seen of an operation, when, and by whom."""
        return self._call(_calls.evidence(id, limit, cursor))

    def events(self, *, after: str | None = None, limit: int | None = None, wait: float = 0.0) -> Page[Event]:
        """Changes of the account after a cursor; with `wait`, as soon as there is one."""
        return self._call(_calls.events(after, limit, min(wait, MAX_WAIT)))

    def tools(self) -> Page[Tool]:
        """The declared tools."""
        return self._call(_calls.tools())

    def show_tool(self, name: str) -> Tool:
        """One declared tool, with its recovery and its pauses."""
        return self._call(_calls.tool(name))

    def pause(self, tool: str, note: str) -> Tool:
        """Stops the sends of a tool (role operator)."""
        return self._call(_calls.halt(tool, "pause", note))

    def resume(self, tool: str, note: str) -> Tool:
        """Ends the pauses of a tool (role operator)."""
        return self._call(_calls.halt(tool, "resume", note))

    def transaction(
        self,
        connection: sqlite3.Connection,
        id: str,
        tool: str,
        arguments: Json | Arguments,
        effect: Callable[[sqlite3.Connection], Effect | None],
        *,
        task: str | None = None,
        accepted_by: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Does `effect` at most once, in the transaction that also keeps its receipt.

        The application's own SQLite file is the ledger (`database` in `counterfoil.toml` names it), and `connection` is
        the application's own. `effect(connection)` runs only if this operation has no receipt yet; it writes rows and
        must neither commit nor roll back. If no transaction is open, one is begun and committed here; otherwise
        everything commits or rolls back with the application's. No server is needed. The account is the one that
        `Counterfoil(account=…)` was given.

        Commit also where this raises `Unsettled` or `Rejected`: nothing of `effect` is there then, and what the
        operation waits for is.
        """
        return transaction(
            connection, self.account, id, tool, arguments, effect, task=task, accepted_by=accepted_by
        )

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
    ) -> Callable[[Callable[Concatenate[Send, P], R]], Guarded[R]]:
        """Guards a function of your own: for one operation ID it runs at most once, or as its recovery allows.

        Its first parameter is `send`. It is called without it and with `operation_id=`, and with `task=` and `subject=`
        where they are wanted. What it returns is kept as the receipt, and returned again by every retry; `reference`
        says which member of that (or which function of it) names what was created. Whatever it raises counts as
        unknown, but for `NotSent` (it sent nothing) and `Refused` (the destination said no).

        `approval` is `"required"`, or one `when(…)` or several: then a person is asked where the arguments say so. `scope`
        names the vendor account of your credential. `budget` holds the keys of `[tools.NAME.budget]`.

        The tool is declared in the server's file, with `[tools.NAME.worker]`; what is said here must not differ.
        """

        def guard(function: Callable[Concatenate[Send, P], R]) -> Guarded[R]:
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__name__} awaits: guard it with AsyncCounterfoil")
            definition = define(function, name, recovery, reference, approval, budget, scope, lease)

            def receipt(
                *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
            ) -> Receipt:
                return call(self._place, definition, operation_id, args, arguments, task, subject, self._timeout)

            def guarded(
                *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
            ) -> Any:
                return receipt(*args, operation_id=operation_id, task=task, subject=subject, **arguments).result

            dress(guarded, receipt, definition)
            return cast("Guarded[R]", guarded)

        return guard

    def worker(
        self,
        tools: Sequence[Guarded[Any]],
        *,
        concurrency: int = 4,
        name: str | None = None,
        lease: float = DEFAULT_LEASE,
    ) -> Worker:
        """A worker for guarded functions: `run()` carries out what was prepared with `execute` elsewhere."""
        return Worker(self._place, tools, concurrency, name, lease)

