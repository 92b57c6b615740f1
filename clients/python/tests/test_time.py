"""Time that passes in one call, in the ledger and at the supplier."""

from __future__ import annotations

import pytest

from counterfoil import Refused, Unreachable, Unsettled
from counterfoil.testing import world

ORDER = {"sku": "flour-25kg", "quantity": 10}
TOOL = "supplier.create_order"


def test_a_retry_after_the_receipts_retention_does_nothing() -> None:
    with world() as w:
        w.cf.run("order-1", TOOL, ORDER)
        w.advance("91d")
        with pytest.raises(Refused) as late:
            w.cf.run("order-1", TOOL, ORDER)
        assert (late.value.code, late.value.state) == ("receipt-expired", "succeeded")
        assert late.value.for_model == "Operation order-1 was done long ago, and its receipt is no longer kept. Do not do it again."
        assert len(w.supplier.effects) == 1


def test_a_key_that_the_supplier_has_forgotten_is_not_sent_again() -> None:
    with world() as w:
        operator = w.client(("operator",), "ops")
        w.kill_after_effect()
        with pytest.raises((Unsettled, Unreachable)):
            w.client(timeout=2.0).run("order-1", TOOL, ORDER)
        w.kill()
        w.command("tool", "pause", TOOL, "--note", "until tomorrow")
        w.start()
        w.advance("25h")
        operator.resume(TOOL, "the day after")
        w.until("held", lambda: w.cf.get("order-1").held)
        with pytest.raises(Unsettled):
            w.cf.run("order-1", TOOL, ORDER)
        assert len(w.supplier.effects) == 1


def test_without_the_days_wait_the_same_key_is_sent_and_recognised() -> None:
    with world() as w:
        w.kill_after_effect()
        with pytest.raises((Unsettled, Unreachable)):
            w.client(timeout=2.0).run("order-1", TOOL, ORDER)
        w.restart()
        assert w.cf.run("order-1", TOOL, ORDER).reference == "po_1"
        assert len(w.supplier.effects) == 1


def test_a_length_of_time_must_be_one() -> None:
    with world() as w, pytest.raises(ValueError):
        w.advance("soon")
