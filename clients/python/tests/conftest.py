"""Worlds on the real binary, with a supplier in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterfoil.testing import World, world


@pytest.fixture
def w() -> Iterator[World]:
    """One tool whose supplier honours a key."""
    with world(supplier_process=True) as made:
        yield made


FORGETFUL = """
[tools."supplier.create_order"]
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
receipt_reference = "/id"
[tools."supplier.create_order".recovery]
kind = "none"
"""


@pytest.fixture
def forgetful() -> Iterator[World]:
    """One tool about which nobody can say afterwards whether it happened."""
    with world(FORGETFUL, flavour="forgetful", supplier_process=True) as made:
        yield made
