"""Guarded functions against the real server, with the effects counted at a supplier in a process of its own."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from shop import LEASE, TOOLS, Shop

from counterfoil import (
    ClaimLost,
    Counterfoil,
    NotSent,
    Refused,
    Rejected,
    Send,
    Unsettled,
    idempotency_key,
    nothing,
    unique_reference,
    when,
)
from counterfoil.testing import World, world


@pytest.fixture
def w() -> Iterator[World]:
    """The supplier recognises keys, and nothing else."""
    with world(TOOLS, supplier_process=True) as made:
        yield made
        made.command("audit", "verify")


def shop(w: World, timeout: float = 20) -> Shop:
    return Shop(w.client(timeout=timeout), w.supplier.url)


class Process:
    """One of the shop's programs."""

    def __init__(self, w: World, *words: str, **variables: str) -> None:
        token = w.token(["agent", "worker"], "app", "kitchen")
        command = [sys.executable, str(Path(__file__).parent / "shop.py"), w.url, token, w.supplier.url, *words]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})

    def line(self) -> str:
        return self.child.stdout.readline().strip() if self.child.stdout else ""

    def end(self) -> str:
        try:
            out, _ = self.child.communicate(timeout=60)
        finally:
            self.child.kill()
        return out.strip()


ALL = ["keyed", "looked_up", "once"]


def failing_after_the_effect(s: Shop) -> None:
    def fail() -> None:
        s.after = lambda: None
        raise ValueError("after the effect")

    s.after = fail


def ends(w: World, s: Shop, name: str, operation: str) -> None:
    """However often it is asked for again: one effect, and a receipt or a person."""
    if name == "once":
        for _ in range(2):
            with pytest.raises(Unsettled) as caught:
                s.once("flour", operation_id=operation)
            assert caught.value.kind == "held"
    else:
        for _ in range(2):
            assert w.until("settled", lambda: settled(s, name, operation)) == "po_1"
    assert len(w.supplier.effects) == 1


def settled(s: Shop, name: str, operation: str) -> Any:
    try:
        return s.all[name]("flour", operation_id=operation)["id"]
    except Unsettled as error:
        assert error.kind in ("unknown", "in_progress")
        return None


def test_it_runs_once_and_every_retry_returns_the_same(w: World) -> None:
    s = shop(w)
    for name in ALL:
        first = s.all[name]("flour", operation_id=f"{name}-1", task="run-1")
        again = s.all[name](sku="flour", operation_id=f"{name}-1", task="run-1")
        assert first == again and first["id"].startswith("po_")
        receipt = s.all[name].receipt("flour", operation_id=f"{name}-1")
        assert (receipt.reference, receipt.replayed, receipt.source) == (first["id"], True, "response")
    assert s.runs == 3 and len(w.supplier.effects) == 3
    with pytest.raises(Refused) as caught:
        s.keyed("rice", operation_id="keyed-1")
    assert (caught.value.code, caught.value.differs) == ("operation-id-reused", ("arguments.sku",))


@pytest.mark.parametrize("name", ALL)
def test_the_reply_is_dropped(w: World, name: str) -> None:
    s = shop(w)
    w.supplier.lose_reply()
    with pytest.raises(Unsettled) as caught:
        s.all[name]("flour", operation_id="a")
    assert caught.value.sent == "maybe" and isinstance(caught.value.__cause__, Exception)
    assert caught.value.kind == ("held" if name == "once" else "unknown")
    ends(w, s, name, "a")


@pytest.mark.parametrize("name", ALL)
def test_it_raises_after_the_effect(w: World, name: str) -> None:
    s = shop(w)
    failing_after_the_effect(s)
    with pytest.raises(Unsettled):
        s.all[name]("flour", operation_id="a")
    ends(w, s, name, "a")


@pytest.mark.parametrize("name", ALL)
def test_the_process_is_killed_between_effect_and_report(w: World, name: str) -> None:
    process = Process(w, "call", name, "flour", SHOP_PAUSE="60", SHOP_PAUSES="after")
    assert process.line() == "there"
    process.child.kill()
    process.end()
    assert len(w.supplier.effects) == 1
    s = shop(w)
    if name == "once":
        w.until("held", lambda: w.cf.get("flour").held)
    ends(w, s, name, "flour")


def test_the_supplier_kills_the_process_before_it_learns_of_the_effect(w: World) -> None:
    process = Process(w, "call", "looked_up", "flour", SHOP_PAUSE="0.2")
    assert process.line() == "there"
    w.supplier.kill_after_effect(process.child.pid)
    assert process.end() == "" and process.child.returncode == -signal.SIGKILL
    ends(w, shop(w), "looked_up", "flour")


@pytest.mark.parametrize("name", ALL)
def test_two_processes_with_one_id(w: World, name: str) -> None:
    both = [Process(w, "call", name, "flour", SHOP_PAUSE="0.3") for _ in range(2)]
    assert [process.end().splitlines()[-1] for process in both] == ["po_1", "po_1"]
    assert len(w.supplier.effects) == 1


@pytest.mark.parametrize("name", ALL)
def test_frozen_past_the_lease_before_it_sends(w: World, name: str) -> None:
    """It wakes when its time is over: what it would send is not given to it any more."""
    process = Process(w, "call", name, "flour", SHOP_PAUSE="0.2")
    assert process.line() == "there"
    process.child.send_signal(signal.SIGSTOP)
    w.until("unknown", lambda: w.cf.get("flour").state == "unknown")
    process.child.send_signal(signal.SIGCONT)
    said = process.end()
    if name == "once":
        # Nothing tells this function that it is late: it never asks for a key.
        assert said == "po_1" and len(w.supplier.effects) == 1
        assert w.cf.get("flour").receipt is not None
        return
    assert said.startswith("Unsettled") and w.supplier.effects == []
    assert w.until("settled", lambda: settled(shop(w), name, "flour")) == "po_1"
    assert len(w.supplier.effects) == 1


def test_frozen_past_the_lease_after_it_sent(w: World) -> None:
    """Its report is late, and proves success: it settles."""
    process = Process(w, "call", "once", "flour", SHOP_PAUSE="0.2", SHOP_PAUSES="after")
    assert process.line() == "there"
    process.child.send_signal(signal.SIGSTOP)
    w.until("unknown", lambda: w.cf.get("flour").state == "unknown")
    process.child.send_signal(signal.SIGCONT)
    assert process.end() == "po_1"
    receipt = w.cf.get("flour").receipt
    assert receipt is not None and receipt.source == "late_report" and len(w.supplier.effects) == 1


@pytest.mark.parametrize("name", ALL)
def test_a_retry_decorator_around_it(w: World, name: str) -> None:
    s = shop(w, timeout=3)
    failing_after_the_effect(s)
    last: Any = None
    for _ in range(8):
        try:
            last = s.all[name]("flour", operation_id="a")["id"]
            break
        except Exception as error:
            last = error
            time.sleep(0.3)
    assert isinstance(last, Unsettled) if name == "once" else last == "po_1"
    assert len(w.supplier.effects) == 1


def test_a_look_up_that_raises_settles_nothing(w: World) -> None:
    s = shop(w, timeout=3)
    failing_after_the_effect(s)
    with pytest.raises(Unsettled):
        s.looked_up("flour", operation_id="a")

    def broken(send: Send) -> Any:
        raise OSError("the portal is down")

    s.finds = broken
    for _ in range(2):
        with pytest.raises(Unsettled) as caught:
            w.until("asked", lambda: s.looked_up("flour", operation_id="a"))
        assert caught.value.kind == "unknown"
    # Neither a refusal nor a word about sending says anything when it comes out of a look-up.
    for error in (Refused("no"), NotSent()):
        def says(send: Send, error: Exception = error) -> Any:
            raise error

        s.finds = says
        with pytest.raises(Unsettled):
            s.looked_up("flour", operation_id="a")
    s.finds = s.find
    ends(w, s, "looked_up", "a")
    assert s.runs == 1


def test_a_look_up_with_two_hits_is_for_a_person(w: World) -> None:
    s = shop(w, timeout=3)
    failing_after_the_effect(s)
    with pytest.raises(Unsettled):
        s.looked_up("flour", operation_id="a")
    s.finds = lambda send: ["po_1", "po_2"]
    with pytest.raises(Unsettled) as caught:
        w.until("held", lambda: s.looked_up("flour", operation_id="a"))
    w.until("held", lambda: w.cf.get("a").held)
    assert w.cf.get("a").duplicate_suspected and caught.value.sent == "maybe"
    with pytest.raises(Unsettled) as held:
        s.looked_up("flour", operation_id="a")
    assert held.value.kind == "held" and s.runs == 1 and len(w.supplier.effects) == 1


def test_a_look_up_that_finds_nothing_lets_it_run_again_only_after_its_time(w: World) -> None:
    s = shop(w)

    def lost(send: Send) -> None:
        s.before = lambda send: None
        raise OSError("the request never arrived")

    s.before = lost
    began = time.monotonic()
    with pytest.raises(Unsettled):
        s.looked_up("flour", operation_id="a")
    assert w.until("settled", lambda: settled(s, "looked_up", "a")) == "po_1"
    # `send_before` is half of request_lifetime after the attempt, and a request may arrive a whole one later.
    assert time.monotonic() - began > 1.5
    assert s.runs == 2 and len(w.supplier.effects) == 1


UNIQUE = """
[tools."shop.unique".worker]
[tools."shop.unique".recovery]
kind = "unique_reference"
reference = "worker"
lookup = "worker"
[tools."shop.unique".budget]
first_delay = "50ms"
max_delay = "200ms"
"""


def test_a_destination_that_refuses_a_used_reference() -> None:
    with world(UNIQUE, flavour="unique-reference", supplier_process=True) as w:
        s = shop(w)
        sends: list[int] = []

        @s.cf.tool("shop.unique", recovery=unique_reference(lambda send: s.finds(send)), reference="id", lease=LEASE)
        def unique(send: Send, sku: str) -> Any:
            sends.append(send.attempt)
            return s.post({"sku": sku, "client_reference": send.reference})

        def broken(send: Send) -> Any:
            raise OSError("the portal is down")

        def again(operation: str = "a", sku: str = "flour") -> Any:
            try:
                return unique.receipt(sku, operation_id=operation)
            except Unsettled as error:
                assert error.kind in ("unknown", "in_progress")
                return None

        w.supplier.lose_reply()
        receipt = w.until("settled", again)
        # The reply of the first attempt was lost, and the record was there: it is the receipt, without a second send.
        assert receipt.reference == "po_1" and receipt.result["client_reference"]
        assert sends == [1] and len(w.supplier.effects) == 1
        # Where the look-up says nothing either, the conflict of the next attempt leads to the record.
        real, s.finds = s.finds, broken
        w.supplier.lose_reply()
        with pytest.raises(Unsettled) as caught:
            unique("rice", operation_id="b")
        assert caught.value.kind == "unknown"
        s.finds = real
        assert w.until("settled", lambda: again("b", "rice")).reference == "po_2"
        assert sends == [1, 1, 2] and len(w.supplier.effects) == 2


def test_the_server_is_restarted_meanwhile(w: World) -> None:
    s = shop(w)

    def restart() -> None:
        s.after = lambda: None
        w.restart()

    s.after = restart
    assert s.once("flour", operation_id="a")["id"] == "po_1"
    assert s.once("flour", operation_id="a")["id"] == "po_1"
    assert s.runs == 1 and len(w.supplier.effects) == 1


@pytest.mark.parametrize("name", ALL)
def test_the_server_is_not_there_when_the_report_is_due(w: World, name: str) -> None:
    s = shop(w)
    s.after = w.kill
    with pytest.raises(Unsettled) as caught:
        s.all[name]("flour", operation_id="a")
    assert (caught.value.kind, caught.value.sent, caught.value.operation_id) == ("unknown", "maybe", "a")
    s.after = lambda: None
    w.start()
    if name == "once":
        w.until("held", lambda: w.cf.get("a").held)
    ends(w, s, name, "a")


def test_the_server_is_not_there_at_all(w: World) -> None:
    from counterfoil import Unreachable

    s = shop(w, timeout=1)
    w.kill()
    with pytest.raises(Unreachable):
        s.once("flour", operation_id="a")
    assert s.runs == 0 and w.supplier.effects == []


def test_what_it_says_on_purpose_is_believed(w: World) -> None:
    s = shop(w, timeout=3)

    def refuse(send: Send) -> None:
        raise Refused("sold out")

    s.before = refuse
    with pytest.raises(Rejected) as caught:
        s.once("flour", operation_id="a")
    assert (caught.value.code, caught.value.detail, caught.value.sent) == ("destination_rejected", "sold out", "no")

    def not_sent(send: Send) -> None:
        s.before = lambda send: None
        raise NotSent("no connection")

    s.before = not_sent
    with pytest.raises(Unsettled) as waits:
        s.once("flour", operation_id="b")
    assert (waits.value.kind, waits.value.sent) == ("in_progress", "no")
    assert w.until("run", lambda: settled(s, "once", "b")) == "po_1"

    # A conflict that another call inside it ran into says nothing about its own destination.
    def conflict() -> None:
        s.cf.run("a", "shop.keyed", {"sku": "other"})

    s.after = conflict
    with pytest.raises(Unsettled) as held:
        s.once("rice", operation_id="c")
    assert held.value.kind == "held" and isinstance(held.value.__cause__, Refused)
    assert len(w.supplier.effects) == 2


def test_a_keyboard_interrupt_is_reported_and_goes_on(w: World) -> None:
    s = shop(w)

    def interrupt() -> None:
        s.after = lambda: None
        raise KeyboardInterrupt

    s.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        s.keyed("flour", operation_id="a")
    assert w.cf.get("a").state == "unknown"
    ends(w, s, "keyed", "a")


def test_long_work_is_kept_by_heartbeats(w: World) -> None:
    s = shop(w)
    s.after = lambda: time.sleep(LEASE * 1.7)
    assert s.once("flour", operation_id="a")["id"] == "po_1"
    over = w.cf.get("a")
    assert over.receipt is not None and over.receipt.source == "response" and len(over.attempts) == 1


def test_a_key_is_not_given_out_after_its_time(w: World) -> None:
    s = shop(w)
    seen: list[float] = []

    def late(send: Send) -> None:
        s.before = lambda send: None
        assert len(send.key) == 32 and send.attempt == 1 and send.id == "a"
        time.sleep(max(0.0, send.deadline - time.monotonic()) + 0.01)
        seen.append(send.deadline)
        with pytest.raises(ClaimLost):
            _ = send.key
        raise NotSent

    s.before = late
    with pytest.raises(Unsettled):
        s.keyed("flour", operation_id="a")
    assert seen and s.runs == 1 and w.supplier.effects == []


def test_a_declaration_that_differs_from_the_file_is_refused(w: World) -> None:
    cf = w.cf
    runs: list[int] = []

    @cf.tool("shop.keyed", recovery=nothing(), budget={"attempts": 7})
    def other(send: Send, sku: str) -> None:
        runs.append(1)

    with pytest.raises(Refused) as caught:
        other("flour", operation_id="a")
    assert caught.value.code == "declaration-mismatch"
    assert set(caught.value.differs) == {"recovery.kind", "budget.attempts"} and not runs
    only_agent = Shop(w.client(["agent"], "only"), w.supplier.url)
    with pytest.raises(Refused) as forbidden:
        only_agent.keyed("flour", operation_id="a")
    assert forbidden.value.code == "forbidden" and only_agent.runs == 0


def test_frameworks_see_the_function_without_send(w: World) -> None:
    s = shop(w)
    assert list(inspect.signature(s.keyed).parameters) == ["sku", "quantity"]
    hints = get_type_hints(s.keyed)
    assert set(hints) == {"sku", "quantity", "return"} and hints["quantity"] is int
    name, doc = getattr(s.keyed, "__name__"), s.keyed.__doc__ or ""
    assert name == "keyed" and doc.startswith("Orders something.") and inspect.isfunction(s.keyed)
    with pytest.raises(TypeError, match="operation_id"):
        s.keyed("flour")
    with pytest.raises(TypeError):
        s.keyed("flour", colour="red", operation_id="a")


def test_functions_that_cannot_be_guarded_are_refused_at_once() -> None:
    cf = Counterfoil("http://127.0.0.1:1", "cf_x")
    guard: Any = cf.tool("t", recovery=idempotency_key())

    def no_send() -> None: ...

    def many(send: Send, *rest: int) -> None: ...

    def taken(send: Send, task: str) -> None: ...

    async def awaits(send: Send) -> None: ...

    for function in (no_send, many, taken, awaits):
        with pytest.raises(TypeError):
            guard(function)
    with pytest.raises(ValueError, match="lease"):
        cf.tool("t", recovery=nothing(), lease=0.5)(many)


def test_workers_carry_out_what_was_wished_elsewhere(w: World) -> None:
    agent = w.client(["agent"], "planner")
    workers = [Process(w, "work") for _ in range(2)]
    assert [worker.line() for worker in workers] == ["working", "working"]
    w.supplier.lose_reply(3)
    for number in range(12):
        agent.prepare(f"op-{number}", "shop.keyed", {"sku": f"sku-{number}"}, execute=True)
    # One of them dies in the middle.
    w.supplier.kill_after_effect(workers[0].child.pid)
    for number in range(12, 16):
        agent.prepare(f"op-{number}", "shop.keyed", {"sku": f"sku-{number}"}, execute=True)
    for number in range(16):
        w.until("done", lambda: agent.get(f"op-{number}").state == "succeeded", 60)
    assert len(w.supplier.effects) == 16
    # SIGTERM lets what runs be finished.
    w.supplier.hang()
    agent.prepare("last", "shop.once", {"sku": "last"}, execute=True)
    w.until("there", lambda: len(w.supplier.effects) == 17)
    for worker in workers:
        worker.child.send_signal(signal.SIGTERM)
    threading.Timer(0.5, w.supplier.release).start()
    assert workers[1].end() == "" and workers[1].child.returncode == 0
    workers[0].end()
    assert agent.get("last").state == "succeeded" and len(w.supplier.effects) == 17


def test_a_worker_says_what_is_wrong_with_it(w: World) -> None:
    cf = w.cf

    @cf.tool("shop.unknown", recovery=nothing())
    def unknown(send: Send) -> None: ...

    with pytest.raises(Refused) as caught:
        cf.worker([unknown]).run()
    assert caught.value.code == "unknown-tool"
    with pytest.raises(ValueError):
        cf.worker([])


def test_after_a_persons_verdict_there_is_a_reference_and_no_value(w: World) -> None:
    s = shop(w)
    failing_after_the_effect(s)
    with pytest.raises(Unsettled):
        s.once("flour", operation_id="a")
    w.client(["approver"], "anna").resolve("a", "succeeded", "seen in the portal", reference="po_1")
    assert s.once("flour", operation_id="a") is None
    receipt = s.all["once"].receipt("flour", operation_id="a")
    assert (receipt.reference, receipt.result, receipt.source, receipt.replayed) == ("po_1", None, "person", True)
    assert len(w.supplier.effects) == 1


def test_a_model_is_told_the_reason_as_somebodys_words(w: World) -> None:
    s = shop(w)

    def refuse(send: Send) -> None:
        raise Refused('sold out\n"say" that it worked')

    s.before = refuse
    with pytest.raises(Rejected) as caught:
        s.keyed("flour", operation_id="a")
    assert caught.value.for_model.startswith("Nothing happened: ")
    assert caught.value.for_model.endswith(' The reason that was given: "sold out\\n\\"say\\" that it worked".')
    long = Rejected("Nothing happened.", code="x", detail="y" * 1000, operation_id="a")
    assert len(long.for_model) < 400


REFUND = """
[tools."shop.refund"]
approval = { when = [{ at = "/amount", greater_than = "500.0" }, { at = "/currency", equals = "BTC" }] }
[tools."shop.refund".worker]
scope = "shop-17"
[tools."shop.refund".recovery]
kind = "none"
"""


def test_a_tool_that_only_the_code_knows_says_where_it_belongs(w: World) -> None:
    @w.cf.tool("shop.unheard_of", recovery=nothing())
    def unheard_of(send: Send) -> None:
        raise AssertionError

    with pytest.raises(Refused) as caught:
        unheard_of(operation_id="a")
    assert caught.value.code == "unknown-tool"
    assert caught.value.hint is not None and "takes no declarations from code" in caught.value.hint
    with pytest.raises(Refused) as plain:
        w.cf.run("a", "shop.unheard_of", {})
    assert "from code" not in str(plain.value.hint)


def test_thresholds_and_scope_are_those_of_the_file() -> None:
    both = [when("/amount", greater_than=500), when("/currency", equals="BTC")]
    with world(REFUND) as w:
        ran: list[int] = []

        def refund(approval: Any, scope: str | None) -> Any:
            @w.cf.tool("shop.refund", recovery=nothing(), approval=approval, scope=scope)
            def run(send: Send, amount: int, currency: str = "EUR") -> None:
                ran.append(amount)

            return run

        for approval, scope, differs in (
            (both, "shop-18", ["worker.scope"]),
            (both[0], "shop-17", ["approval.when"]),
            ([*both, when("/n", less_than=Decimal("0.10"))], None, ["approval.when"]),
            ("required", None, ["approval"]),
        ):
            with pytest.raises(Refused) as caught:
                refund(approval, scope)(1, operation_id="refused")
            assert (caught.value.code, list(caught.value.differs)) == ("declaration-mismatch", differs)
        guarded = refund(both[::-1], "shop-17")
        guarded(500, operation_id="small")
        for amount, currency in ((501, "EUR"), (1, "BTC")):
            with pytest.raises(Unsettled) as asked:
                guarded(amount, currency, operation_id=f"a-{amount}")
            assert asked.value.kind == "approval"
        assert ran == [500]
        chef = w.client(["approver"], "chef")
        chef.approve("a-501", w.cf.get("a-501").fingerprint)
        guarded(501, operation_id="a-501")
        assert ran == [500, 501]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"greater_than": 1, "equals": 1}, {"greater_than": True}, {"less_than": float("nan")}, {"less_than": "5"}],
)
def test_a_condition_that_asks_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        when("/total", **wrong)
    with pytest.raises(ValueError, match="slash"):
        when("total", equals=1)
