"""The high-water mark: a file beside the ledger that says how far it had come, so that a restored copy is recognised.

The mark may lag, never lead: it is made from committed rows. It is only ever
moved on; a mark that is missing or of another ledger is for the server and a person to look at.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from threading import Lock

from ._chain import Head

__all__ = ["advance"]

#: The mark is moved at most this often, in seconds.
EVERY = 1.0

_moved: dict[str, float] = {}
_guard = Lock()


def advance(connection: sqlite3.Connection) -> None:
    """Moves the mark to the newest committed row. A mark that cannot be moved lags, which it may."""
    databases = connection.cursor()
    databases.row_factory = None
    file = next((row[2] for row in databases.execute("PRAGMA database_list").fetchall() if row[1] == "main"), "")
    with _guard:
        due = time.monotonic() - _moved.get(file, float("-inf")) >= EVERY
        if not file or not due:
            return
        _moved[file] = time.monotonic()
    # A connection of its own sees what is committed, and nothing of a transaction that may still be rolled back.
    try:
        with closing(sqlite3.connect(f"{Path(file).as_uri()}?mode=ro", uri=True)) as own:
            mark = _earned(own.cursor())
        if mark is not None:
            _write(Path(file), mark)
    except (OSError, ValueError, sqlite3.Error):
        return


def _earned(rows: sqlite3.Cursor) -> dict[str, object] | None:
    rows.execute("BEGIN")
    head = Head.read(rows)
    name = rows.execute("SELECT value FROM counterfoil_meta WHERE key = 'ledger'").fetchone()[0]
    row = rows.execute("SELECT digest FROM counterfoil_evidence WHERE position = ?", (head.position,)).fetchone()
    if row is None:
        return None
    return {"ledger": name.decode("utf-8"), "position": head.position, "digest": row[0].hex(), "newest": head.newest}


def _write(ledger: Path, mark: dict[str, object]) -> None:
    path, fresh = Path(f"{ledger}.mark"), Path(f"{ledger}.mark-new")
    lock = os.open(f"{ledger}.mark-lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        known = json.loads(path.read_bytes())
        if known["ledger"] != mark["ledger"] or known["position"] >= mark["position"]:
            return
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, json.dumps(mark, separators=(",", ":")).encode("utf-8"))
            os.fsync(file)
        finally:
            os.close(file)
        fresh.replace(path)
    except KeyError:
        return
    finally:
        os.close(lock)
