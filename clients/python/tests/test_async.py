"""Guarded functions that await, and their worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from shop import LEASE, TOOLS, ask

from counterfoil import AsyncCounterfoil, Found, NotSent, Refused, Rejected, Send, Unsettled, lookup, nothing
from counterfoil.testing import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(TOOLS, supplier_process=True) as made:
        yield made
        made.command("audit", "verify")


class Shop:
    """As in `shop.py`, awaited."""

    def __init__(self, cf: AsyncCounterfoil, supplier: str) -> None:
        self.cf = cf
        self.runs = 0
        self.after: Callable[[], Awaitable[None]] = self.nothing
        self.there = asyncio.Event()
        shop = self

        async def find(send: Send) -> list[Found]:
            found = await asyncio.to_thread(ask, f"{supplier}/orders?client_reference={quote(send.reference)}")
            return [Found(order["id"]) for order in found["orders"]]

        @cf.tool("shop.looked_up", recovery=lookup(find, authoritative=True), reference="id", lease=LEASE)
        async def looked_up(send: Send, sku: str) -> Any:
            shop.runs += 1
            made = await asyncio.to_thread(ask, f"{supplier}/orders", {"sku": sku, "client_reference": send.reference})
            shop.there.set()
            await shop.after()
            return made

        @cf.tool("shop.once", recovery=nothing(), reference=lambda made: str(made["id"]), lease=LEASE)
        async def once(send: Send, sku: str) -> Any:
            """Orders something, once."""
            shop.runs += 1
            made = await asyncio.to_thread(ask, f"{supplier}/orders", {"sku": sku})
            shop.there.set()
            await shop.after()
            return made

        self.looked_up, self.once = looked_up, once

    async def nothing(self) -> None: ...


@asynccontextmanager
async def shop(w: World, timeout: float = 20) -> AsyncIterator[Shop]:
    yield Shop(w.async_client(timeout=timeout), w.supplier.url)


async def until(done: Callable[[], Awaitable[Any]]) -> Any:
    for _ in range(600):
        found = await done()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("never")


def test_it_runs_once_and_every_retry_returns_the_same(w: World) -> None:
    async def story() -> None:
        async with shop(w) as s:
            both = await asyncio.gather(*(s.once("flour", operation_id="a") for _ in range(4)))
            assert [made["id"] for made in both] == ["po_1"] * 4 and s.runs == 1
            receipt = await s.once.receipt("flour", operation_id="a")
            assert receipt.reference == "po_1" and receipt.replayed
            assert list(inspect.signature(s.once).parameters) == ["sku"] and inspect.iscoroutinefunction(s.once)

    asyncio.run(story())
    assert len(w.supplier.effects) == 1


def test_a_caller_that_is_cancelled_stops_listening_and_the_outcome_is_recorded(w: World) -> None:
    async def story() -> None:
        async with shop(w) as s:
            go_on = asyncio.Event()

            async def wait() -> None:
                await go_on.wait()

            s.after = wait
            task = asyncio.ensure_future(s.once("flour", operation_id="a"))
            await s.there.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            assert (await s.once("flour", operation_id="a"))["id"] == "po_1"
            assert s.runs == 1
            operation = await s.cf.get("a")
            assert operation.receipt is not None and operation.receipt.source == "response"

    asyncio.run(story())
    assert len(w.supplier.effects) == 1


def test_cancelled_before_the_claim_is_answered_it_is_still_carried_out(w: World) -> None:
    async def story() -> None:
        async with shop(w) as s:
            task = asyncio.ensure_future(s.once("flour", operation_id="a"))
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await s.once("flour", operation_id="a"))["id"] == "po_1"

    asyncio.run(story())
    assert len(w.supplier.effects) == 1


def test_a_loop_that_ends_reports_first(w: World) -> None:
    """`asyncio.run` cancels what is left: nobody can say any more what became of it, and that is reported."""

    async def story() -> None:
        async with shop(w) as s:

            async def for_ever() -> None:
                await asyncio.sleep(600)

            s.after = for_ever
            task = asyncio.ensure_future(s.looked_up("flour", operation_id="a"))
            await s.there.wait()
            task.cancel()

    asyncio.run(story())
    assert w.cf.get("a").state == "unknown"

    async def later() -> None:
        async with shop(w) as s:
            assert (await until(lambda: settled(s)))["id"] == "po_1" and s.runs == 0

    async def settled(s: Shop) -> Any:
        try:
            receipt = await s.looked_up.receipt("flour", operation_id="a")
        except Unsettled:
            return None
        return {"id": receipt.reference}

    asyncio.run(later())
    assert len(w.supplier.effects) == 1


def test_what_it_raises(w: World) -> None:
    async def story() -> None:
        async with shop(w, timeout=3) as s:

            async def fails() -> None:
                raise ValueError("after the effect")

            s.after = fails
            with pytest.raises(Unsettled) as caught:
                await s.once("flour", operation_id="a")
            assert caught.value.kind == "held" and isinstance(caught.value.__cause__, ValueError)

            async def refuses() -> None:
                raise Refused("sold out")

            s.after = refuses
            with pytest.raises(Rejected):
                await s.once("rice", operation_id="b")

            async def says() -> None:
                s.after = s.nothing
                raise NotSent

            s.after = says
            with pytest.raises(Unsettled) as waits:
                await s.once("salt", operation_id="c")
            assert waits.value.kind == "in_progress"

    asyncio.run(story())


def test_the_server_is_not_there_when_the_report_is_due(w: World) -> None:
    async def story() -> None:
        async with shop(w) as s:

            async def kill() -> None:
                s.after = s.nothing
                w.kill()

            s.after = kill
            with pytest.raises(Unsettled) as caught:
                await s.once("flour", operation_id="a")
            assert caught.value.kind == "unknown"

    asyncio.run(story())
    w.start()
    w.until("held", lambda: w.cf.get("a").held)
    assert len(w.supplier.effects) == 1


def test_long_work_is_kept_by_heartbeats(w: World) -> None:
    async def story() -> None:
        async with shop(w) as s:

            async def long() -> None:
                await asyncio.sleep(LEASE * 1.7)

            s.after = long
            receipt = await s.once.receipt("flour", operation_id="a")
            assert receipt.source == "response"

    asyncio.run(story())


def test_a_worker(w: World) -> None:
    agent = w.client(["agent"], "planner")

    async def story() -> None:
        async with shop(w) as s:
            worker = s.cf.worker([s.once, s.looked_up], concurrency=3, lease=LEASE)
            running = asyncio.ensure_future(worker.run())
            for number in range(6):
                tool = "shop.once" if number % 2 else "shop.looked_up"
                await asyncio.to_thread(agent.prepare, f"op-{number}", tool, {"sku": f"sku-{number}"}, execute=True)
            for number in range(6):
                await until(lambda: over(s, f"op-{number}"))
            worker.stop()
            await running
            assert s.runs == 6

    async def over(s: Shop, operation: str) -> bool:
        return (await s.cf.get(operation)).state == "succeeded"

    asyncio.run(story())
    assert len(w.supplier.effects) == 6


def test_a_function_that_blocks_is_refused() -> None:
    cf = AsyncCounterfoil("http://127.0.0.1:1", "cf_x")
    guard: Any = cf.tool("t", recovery=nothing())

    def blocks(send: Send) -> None: ...

    with pytest.raises(TypeError, match="blocks"):
        guard(blocks)
