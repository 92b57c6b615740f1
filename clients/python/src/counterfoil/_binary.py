"""The binary that the platform wheel brings along."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

__all__ = ["bundled", "find_binary", "main"]


def bundled() -> Path | None:
    """Where the wheel put the binary; `None` where the package was installed without one."""
    name = "counterfoil.exe" if sys.platform == "win32" else "counterfoil"
    binary = Path(__file__).parent / "_bin" / name
    return binary if binary.is_file() else None


def find_binary(named: str | None) -> str:
    """The binary to run: the named one, `COUNTERFOIL_BINARY`, that of the wheel, or the one on the path."""
    own = bundled()
    found = named or os.environ.get("COUNTERFOIL_BINARY") or (str(own) if own else shutil.which("counterfoil"))
    if not found:
        raise RuntimeError("there is no binary `counterfoil`: install a platform wheel, or set COUNTERFOIL_BINARY")
    return found


def main() -> None:
    """The command `counterfoil`: becomes the binary, so that signals and the terminal are its own."""
    binary = bundled()
    if binary is None:
        sys.exit(
            "counterfoil: this installation came without the binary; install a platform wheel, "
            "or `cargo install --path crates/counterfoil-cli` from the repository"
        )
    os.execv(binary, [str(binary), *sys.argv[1:]])
