"""The calls against the real server, with the effects counted at the supplier."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from counterfoil import (
    AsyncCounterfoil,
    Counterfoil,
    CounterfoilError,
    RawJson,
    Refused,
    Rejected,
    Unreachable,
    Unsettled,
    fingerprint,
    new_id,
)
from counterfoil.testing import World, world

TOOL = "supplier.create_order"
ORDER = {"sku": "flour-25kg", "quantity": 10}


def test_a_lost_reply_ends_with_one_effect_and_one_receipt(w: World) -> None:
    w.supplier.lose_reply()
    first = w.cf.run("order-1", TOOL, ORDER, task="run-41")
    again = w.cf.run("order-1", TOOL, ORDER, task="run-41")
    assert (first.reference, first.replayed, again.replayed) == ("po_1", False, True)
    assert first.result == {"id": "po_1", "status": "created", "client_reference": None}
    assert again.reference == "po_1" and len(w.supplier.effects) == 1


def test_without_recovery_a_lost_reply_is_held_and_never_sent_again(forgetful: World) -> None:
    cf = forgetful.client(timeout=3)
    forgetful.supplier.lose_reply()
    for _ in range(3):
        with pytest.raises(Unsettled) as caught:
            cf.run("order-1", TOOL, ORDER)
        assert (caught.value.kind, caught.value.sent, caught.value.operation_id) == ("held", "maybe", "order-1")
        assert "order-1" in caught.value.for_model
    assert len(forgetful.supplier.effects) == 1
    approver = forgetful.client(["approver"], "chef")
    held = approver.find(held=True)
    assert [operation.id for operation in held] == ["order-1"]
    approver.note("order-1", "asked the supplier", remind_at=datetime(2030, 1, 1, tzinfo=timezone.utc))
    approver.resolve("order-1", "succeeded", "seen in the portal", reference="po_1")
    assert cf.run("order-1", TOOL, ORDER).source == "person"
    assert len(forgetful.supplier.effects) == 1


def test_a_changed_action_under_the_same_id_is_refused(w: World) -> None:
    w.cf.run("order-1", TOOL, ORDER)
    with pytest.raises(Refused) as caught:
        w.cf.run("order-1", TOOL, {**ORDER, "quantity": 12})
    assert (caught.value.code, caught.value.status) == ("operation-id-reused", 422)
    assert caught.value.differs == ("arguments.quantity",) and caught.value.sent == "no"
    assert len(w.supplier.effects) == 1


def test_the_same_action_again_in_the_task_is_refused_while_the_first_is_open(forgetful: World) -> None:
    cf = forgetful.client(timeout=3)
    forgetful.supplier.lose_reply()
    with pytest.raises(Unsettled):
        cf.run("order-1", TOOL, ORDER, task="run-1")
    with pytest.raises(Refused) as caught:
        cf.run("order-2", TOOL, ORDER, task="run-1")
    assert (caught.value.code, caught.value.operations) == ("action-unresolved", ("order-1",))
    assert len(forgetful.supplier.effects) == 1


def test_a_definite_refusal_is_rejected(w: World) -> None:
    w.supplier.answer_next(400)
    with pytest.raises(Rejected) as caught:
        w.cf.run("order-1", TOOL, ORDER)
    assert (caught.value.code, caught.value.sent) == ("destination_rejected", "no")
    assert w.supplier.effects == []


def test_numbers_and_text_arrive_as_they_were_written(w: World) -> None:
    big = 9007199254740993
    w.cf.run("order-1", TOOL, {"total": Decimal("0.10"), "count": big})
    w.cf.run("order-2", TOOL, RawJson('{ "total" : 1.50, "n":1e2 }'))
    assert [effect.body for effect in w.supplier.effects] == [
        '{"total":0.10,"count":9007199254740993}',
        '{ "total" : 1.50, "n":1e2 }',
    ]
    operation = w.cf.get("order-1")
    assert operation.arguments == {"total": Decimal("0.10"), "count": big}
    assert operation.fingerprint == fingerprint(TOOL, {"count": big, "total": Decimal("0.1")})
    receipt = operation.receipt
    assert receipt is not None and receipt.result_text is not None
    assert receipt.result_text.startswith('{"id": "po_1"')


def test_thirty_two_threads_with_one_id_make_one_effect(w: World) -> None:
    cf = w.cf
    with ThreadPoolExecutor(32) as pool:
        receipts = list(pool.map(lambda _: cf.run("order-1", TOOL, ORDER), range(32)))
    assert {receipt.reference for receipt in receipts} == {"po_1"}
    assert len(w.supplier.effects) == 1


def test_a_server_that_is_killed_after_the_effect_is_asked_again(w: World) -> None:
    cf = w.cf
    w.kill_after_effect()
    restarter = threading.Timer(1.0, w.restart)
    restarter.start()
    receipt = cf.run("order-1", TOOL, ORDER, timeout=40)
    restarter.join()
    assert receipt.reference == "po_1" and len(w.supplier.effects) == 1


def test_a_server_that_is_not_there_is_waited_for(w: World) -> None:
    cf = w.cf
    w.kill()
    with pytest.raises(Unreachable) as caught:
        cf.run("order-1", TOOL, ORDER, timeout=1)
    assert caught.value.sent == "no" and w.supplier.effects == []
    restarter = threading.Timer(0.5, w.start)
    restarter.start()
    assert cf.run("order-1", TOOL, ORDER, timeout=20).reference == "po_1"
    restarter.join()
    assert len(w.supplier.effects) == 1


def test_a_server_that_does_not_answer_leaves_it_open(w: World) -> None:
    cf = w.cf
    w.freeze()
    try:
        with pytest.raises(Unsettled) as caught:
            cf.run("order-1", TOOL, ORDER, timeout=1)
    finally:
        w.thaw()
    assert (caught.value.kind, caught.value.sent, caught.value.operation) == ("unknown", "maybe", None)
    assert cf.run("order-1", TOOL, ORDER).reference == "po_1"
    assert len(w.supplier.effects) == 1


def test_no_error_is_one_that_frameworks_repeat() -> None:
    for error in (CounterfoilError, Rejected, Refused, Unsettled, Unreachable):
        assert not issubclass(error, (OSError, ConnectionError, TimeoutError))


def test_a_retry_decorator_around_it_repeats_nothing(forgetful: World) -> None:
    cf = forgetful.client(timeout=2)
    forgetful.supplier.lose_reply()
    ended: list[str] = []
    for _ in range(4):
        try:
            cf.run("order-1", TOOL, ORDER)
        except Exception as error:
            ended.append(type(error).__name__)
    assert ended == ["Unsettled"] * 4 and len(forgetful.supplier.effects) == 1


APPROVED = """
[tools."supplier.create_order"]
approval = "required"
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
scope = "kitchen"
receipt_reference = "/id"
[tools."supplier.create_order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
"""


def test_an_approval_and_every_other_call() -> None:
    with world(APPROVED) as w:
        cf, chef = w.client(timeout=3), w.client(["approver"], "chef")
        with pytest.raises(Unsettled) as caught:
            cf.run("order-1", TOOL, ORDER)
        assert (caught.value.kind, caught.value.sent) == ("approval", "no")
        waiting = caught.value.operation
        assert waiting is not None
        with pytest.raises(Refused) as forbidden:
            cf.approve("order-1", waiting.fingerprint)
        assert forbidden.value.code == "forbidden"
        chef.approve("order-1", waiting.fingerprint)
        assert cf.run("order-1", TOOL, ORDER).reference == "po_1"
        assert cf.plan("order-2", TOOL, ORDER).would == "create"
        prepared = cf.prepare("order-2", TOOL, ORDER, accepted_by={"person": "anna"})
        assert (prepared.state, prepared.next.action, prepared.approval.required) == ("prepared", "approve", True)
        with pytest.raises(Unsettled) as needed:
            cf.execute("order-2")
        assert needed.value.kind == "approval"
        chef.deny("order-2", "too many")
        with pytest.raises(Rejected) as denied:
            cf.run("order-2", TOOL, ORDER)
        assert denied.value.code == "approval_denied"
        cf.prepare("order-3", TOOL, {"sku": "rice"})
        assert cf.withdraw("order-3").state == "rejected"
        page = cf.find(limit=2)
        assert [operation.id for operation in page] == ["order-3", "order-2"] and page.next_cursor
        assert [operation.id for operation in cf.find(limit=2, cursor=page.next_cursor)] == ["order-1"]
        assert chef.evidence("order-1").items[0].kind == "prepared"
        events = cf.events()
        assert events.items[0].operation_id == "order-1"
        assert len(cf.events(after=events.items[-1].cursor, wait=0.2)) == 0
        assert [tool.name for tool in cf.tools()] == [TOOL]
        operator = w.client(["operator"], "ops")
        assert operator.pause(TOOL, "stop").paused
        assert not operator.resume(TOOL, "go on").paused
        assert cf.show_tool(TOOL).approval == "required"
        with pytest.raises(Refused) as unknown:
            cf.get("nothing")
        assert unknown.value.code == "unknown-operation"
        assert len(w.supplier.effects) == 1


def test_a_changed_proposal_and_a_subject() -> None:
    with world(APPROVED.replace('approval = "required"', "")) as w:
        cf = w.client(timeout=3)
        cf.prepare("order-1", TOOL, ORDER, subject="week-32")
        done = cf.run("order-2", TOOL, {**ORDER, "quantity": 12}, replaces="order-1", subject="week-32")
        assert done.reference == "po_1"
        former = cf.get("order-1")
        assert former.rejection is not None and (former.rejection.code, former.replaced_by) == ("replaced", "order-2")
        assert [operation.id for operation in cf.find(subject="week-32")] == ["order-2", "order-1"]
        with pytest.raises(Refused) as caught:
            cf.run("order-2", TOOL, {**ORDER, "quantity": 12}, subject="week-33")
        assert caught.value.code == "operation-id-reused"
        assert set(caught.value.differs) == {"subject", "replaces"}
        with pytest.raises(Rejected):
            cf.run("order-1", TOOL, ORDER, subject="week-32")
        assert len(w.supplier.effects) == 1


def test_the_same_calls_for_code_that_awaits(w: World) -> None:
    async def story(cf: AsyncCounterfoil) -> None:
        w.supplier.lose_reply()
        first, second = await asyncio.gather(*(cf.run("order-1", TOOL, ORDER) for _ in range(2)))
        assert first.reference == second.reference == "po_1"
        assert (await cf.get("order-1")).state == "succeeded"
        assert [operation.id for operation in await cf.find()] == ["order-1"]
        with pytest.raises(Refused):
            await cf.run("order-1", TOOL, {"sku": "other"})
        # A caller that is cancelled stops listening; the operation goes on.
        w.supplier.hang()
        task = asyncio.create_task(cf.run("order-2", TOOL, {"sku": "rice"}))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        w.supplier.release()
        assert (await cf.run("order-2", TOOL, {"sku": "rice"})).reference == "po_2"
        w.freeze()
        try:
            with pytest.raises(Unsettled):
                await cf.run("order-3", TOOL, {"sku": "salt"}, timeout=0.5)
        finally:
            w.thaw()
        await cf.run("order-3", TOOL, {"sku": "salt"})

    asyncio.run(story(w.async_client()))
    assert len(w.supplier.effects) == 3


def test_ids_are_uuids_in_the_order_of_time() -> None:
    first = new_id()
    time.sleep(0.002)
    second = new_id()
    assert first < second and len(first) == 36 and first[14] == "7" and first[19] in "89ab"


def test_the_server_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("COUNTERFOIL_URL", raising=False)
    monkeypatch.delenv("COUNTERFOIL_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no server"):
        Counterfoil()
    (tmp_path / ".counterfoil").mkdir()
    (tmp_path / ".counterfoil/dev.json").write_text('{"url":"http://127.0.0.1:1","token":"cf_x","account":"dev"}')
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    assert repr(Counterfoil()) == "Counterfoil('http://127.0.0.1:1')" and Counterfoil().account == "dev"
    with pytest.raises(Unreachable) as ended:
        Counterfoil(timeout=0.2).get("a")
    assert f"(http://127.0.0.1:1, from {tmp_path}/.counterfoil/dev.json: does `counterfoil dev` run?)" in str(ended.value)
    assert "127.0.0.1" not in ended.value.for_model
    monkeypatch.setenv("COUNTERFOIL_URL", "http://127.0.0.1:2/")
    with pytest.raises(ValueError, match="no token"):
        Counterfoil()
    monkeypatch.setenv("COUNTERFOIL_TOKEN", "cf_y")
    assert repr(Counterfoil()) == "Counterfoil('http://127.0.0.1:2/')"
    for token in ("a b", "a\r\nX: y", "ü"):
        with pytest.raises(ValueError, match="token"):
            Counterfoil(token=token)
