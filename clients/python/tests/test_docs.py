"""Every block of Python in the guide runs as it stands, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from counterfoil.testing import DEFAULT_TOOLS, World

ROOT = Path(__file__).resolve().parents[3]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)


def toml(page: Path) -> str:
    """The tools that the page declares."""
    return "".join(re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.S | re.M))


@pytest.mark.parametrize(("page", "least"), [("docs/use/python.md", 8), ("clients/python/README.md", 1)])
def test_the_blocks_of_a_page_run(page: str, least: int, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    w.configure(DEFAULT_TOOLS + toml(ROOT / page))
    w.restart()
    monkeypatch.setenv("COUNTERFOIL_URL", w.url)
    monkeypatch.setenv("COUNTERFOIL_TOKEN", w.token(["agent", "worker"], "app", "kitchen"))
    monkeypatch.setenv("APP_DATABASE", str(w.database))
    monkeypatch.setenv("SHOP_URL", w.supplier.url)
    found = blocks(ROOT / page)
    assert len(found) >= least
    names: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(found):
        exec(compile(block, f"{page} block {number}", "exec"), names)
    assert w.supplier.effects


def test_the_fixture_of_the_plugin(counterfoil_world: World) -> None:
    counterfoil_world.cf.run("order-1", "supplier.create_order", {"sku": "flour-25kg"})
    assert len(counterfoil_world.supplier.effects) == 1
