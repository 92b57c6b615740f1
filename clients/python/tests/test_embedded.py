"""A server of one's own, shared by processes, that comes back."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil import Counterfoil
from counterfoil.testing import DEFAULT_TOOLS, World, world

CHILD = """
import sys
from counterfoil import Counterfoil
cf = Counterfoil.embedded(sys.argv[1], timeout=20)
print(cf.run(sys.argv[2], "supplier.create_order", {"sku": sys.argv[2]}).reference, flush=True)
sys.stdin.read()
print(cf.run(sys.argv[2] + "-again", "supplier.create_order", {"sku": sys.argv[2] + "-again"}).reference, flush=True)
"""


def child(folder: Path, operation: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder), operation]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "e"
    place.mkdir()
    return place


def test_two_processes_share_a_server_and_the_second_goes_on_when_the_first_ends(folder: Path) -> None:
    with world() as w:
        configure(w, folder)
        first, second = child(folder, "a"), child(folder, "b")
        assert {line(first), line(second)} == {"po_1", "po_2"}
        private = folder / ".counterfoil"
        for name in ("embedded.sock", "embedded.json"):
            assert stat.S_IMODE((private / name).stat().st_mode) == 0o600
        for process in (first, second):
            out, _ = process.communicate(timeout=60)
            assert out.strip().startswith("po_") and process.returncode == 0
        assert len(w.supplier.effects) == 4


def test_a_server_that_dies_is_started_again(folder: Path) -> None:
    with world() as w:
        configure(w, folder)
        process = child(folder, "a")
        assert line(process) == "po_1"
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"serve" in words and str(folder / "counterfoil.toml").encode() in words:
                os.kill(int(entry.parent.name), signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        assert out.strip() == "po_2" and len(w.supplier.effects) == 2


def configure(w: World, folder: Path) -> None:
    text = '[server]\ndatabase = "sqlite:counterfoil.db"\n' + DEFAULT_TOOLS.replace("{supplier}", w.supplier.url)
    (folder / "counterfoil.toml").write_text(text, "utf-8")


def test_without_a_configuration_nothing_is_started(folder: Path) -> None:
    with pytest.raises(ValueError, match="counterfoil init"):
        Counterfoil.embedded(folder)
    assert list(folder.iterdir()) == []
