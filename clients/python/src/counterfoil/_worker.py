"""A worker that blocks: takes what is due of its tools and carries it out, several at a time."""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._carry import attempt
from ._claims import Claim, claims, worker_name
from ._discovery import Place
from ._errors import CounterfoilError, Refused
from ._exchange import send
from ._tool import Definition, Guarded

__all__ = ["Worker", "poll_wait"]

log = logging.getLogger("counterfoil")

#: How long one question for work waits, in seconds; a worker that is told to stop does so within that.
LONGEST_POLL = 5.0

#: How long a worker rests at the most after a question that came to nothing.
LONGEST_REST = 5.0


def poll_wait(lease: float) -> float:
    """How long one question for work waits: short beside the time in which its answer may be sent."""
    return min(LONGEST_POLL, lease / 8)


class Worker:
    """See `Counterfoil.worker`."""

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
        self._stopped = threading.Event()
        self._free = threading.Semaphore(concurrency)

    def stop(self) -> None:
        """Takes nothing more; what runs is finished."""
        self._stopped.set()

    def run(self) -> None:
        """Works until `stop` or SIGTERM, then finishes what runs. Raises what is wrong with the declaration."""
        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, lambda *_: self.stop()) if main else None
        try:
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="counterfoil") as pool:
                while not self._stopped.is_set():
                    self._round(pool)
        finally:
            if main:
                signal.signal(signal.SIGTERM, before)

    def _round(self, pool: ThreadPoolExecutor) -> None:
        if not self._free.acquire(timeout=0.5):
            return
        slots = 1
        while slots < self._concurrency and self._free.acquire(blocking=False):
            slots += 1
        asked_at = time.monotonic()
        taken: list[Claim] = []
        try:
            taken = self._ask(slots)
        finally:
            for claim in taken:
                pool.submit(self._carry, claim, asked_at)
            for _ in range(slots - len(taken)):
                self._free.release()

    def _ask(self, most: int) -> list[Claim]:
        wait = poll_wait(self._lease)
        declared = {name: definition.declaration() for name, definition in self._tools.items()}
        call = claims(self._name, declared, self._lease, most, wait)
        try:
            return send(self._place, call, wait + LONGEST_REST)
        except Refused:
            raise
        except CounterfoilError as error:
            log.warning("no work was asked for: %s", error)
            self._stopped.wait(random.uniform(0, LONGEST_REST))
            return []

    def _carry(self, claim: Claim, asked_at: float) -> None:
        try:
            ended = attempt(self._place, self._tools[claim.tool], claim, self._lease, asked_at, None, {})
            if ended.error is not None:
                log.warning("operation %s: %s", claim.operation_id, type(ended.error).__name__)
            if ended.operation is None:
                log.error("operation %s: its outcome could not be reported", claim.operation_id)
        finally:
            self._free.release()
