"""The fixture `counterfoil_world`: a practice supplier and a running server, new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._world import World, world

__all__ = ["counterfoil_world"]


@pytest.fixture
def counterfoil_world() -> Iterator[World]:
    """A world with the tool `supplier.create_order`."""
    with world() as made:
        yield made
