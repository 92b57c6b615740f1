"""As `_worker`, for code that awaits."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Sequence
from typing import Any

from ._acarry import attempt, outliving
from ._aexchange import send
from ._claims import Claim, claims, worker_name
from ._discovery import Place
from ._errors import CounterfoilError, Refused
from ._tool import Definition, Guarded
from ._worker import LONGEST_REST, poll_wait

__all__ = ["AsyncWorker"]

log = logging.getLogger("counterfoil")


class AsyncWorker:
    """See `AsyncCounterfoil.worker`."""

    def __init__(
        self, place: Place, tools: Sequence[Guarded[Any]], concurrency: int, name: str | None, lease: float
    ) -> None:
        if concurrency < 1 or not tools:
            raise ValueError("a worker has at least one tool and carries out at least one operation at a time")
        self._place = place
        self._tools: dict[str, Definition] = {tool.definition.name: tool.definition for tool in tools}
        self._concurrency = concurrency
        self._name = name or worker_name()
        self._lease = lease
        self._stopped = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Takes nothing more; what runs is finished."""
        self._stopped.set()

    async def run(self) -> None:
        """Works until `stop` or SIGTERM, then finishes what runs. Raises what is wrong with the declaration."""
        loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGTERM, self.stop)
            handled = True
        except (NotImplementedError, RuntimeError, ValueError):
            # Not the main thread: whoever runs the loop says when to stop.
            handled = False
        try:
            while not self._stopped.is_set():
                await self._round()
        finally:
            if handled:
                loop.remove_signal_handler(signal.SIGTERM)
            if self._running:
                await asyncio.wait(self._running)

    async def _round(self) -> None:
        if len(self._running) >= self._concurrency:
            await asyncio.wait(self._running, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            return
        # What was taken is carried out, also where whoever runs this worker is cancelled meanwhile.
        await outliving(self._take(self._concurrency - len(self._running)))

    async def _take(self, most: int) -> None:
        asked_at = time.monotonic()
        for claim in await self._ask(most):
            task = asyncio.ensure_future(self._carry(claim, asked_at))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _ask(self, most: int) -> list[Claim]:
        wait = poll_wait(self._lease)
        declared = {name: definition.declaration() for name, definition in self._tools.items()}
        try:
            return await send(self._place, claims(self._name, declared, self._lease, most, wait), wait + LONGEST_REST)
        except Refused:
            raise
        except CounterfoilError as error:
            log.warning("no work was asked for: %s", error)
            await asyncio.sleep(random.uniform(0, LONGEST_REST))
            return []

    async def _carry(self, claim: Claim, asked_at: float) -> None:
        ended = await attempt(self._place, self._tools[claim.tool], claim, self._lease, asked_at, None, {})
        if ended.error is not None:
            log.warning("operation %s: %s", claim.operation_id, type(ended.error).__name__)
        if ended.operation is None:
            log.error("operation %s: its outcome could not be reported", claim.operation_id)
