"""What the ledger's file must be before a row is written into it."""

from __future__ import annotations

import sqlite3

from .._errors import Refused

__all__ = ["KNOWN_MIGRATIONS", "check", "cursor"]

#: SHA-256 of every migration that this client knows, by number from 1. A ledger with another one is refused.
KNOWN_MIGRATIONS = (
    "f3e7c7693da54dca5075928177d86ff3fd589148737fcfcd7fd35f4f2e91dc92",
    "b2f720f1f40f3fb295b9d2fe2dd34f777ff8e4ad3a0d4d0e43418f1fa0eb4442",
    "fcbb07704cc8eb73c78c8513efe5d3c13b2371cc4a5478289dbec25c9d27b400",
    "673aa5447b4ca47d36a36f3603733279de18752fab4b7a6bd6ae80e31d8fe0ed",
)

#: `PRAGMA synchronous` of a connection whose commits are durable.
FULL = 2


def cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor that gives plain rows, whatever the application wants of its own."""
    made = connection.cursor()
    made.row_factory = None
    return made


def check(connection: sqlite3.Connection) -> None:
    """Refuses a file that is no ledger, or one of another version, and a connection that may lose what it commits."""
    if connection.text_factory is not str:
        raise ValueError("the connection's text_factory must be str: the ledger's texts are read through it")
    rows = cursor(connection)
    if rows.execute("PRAGMA synchronous").fetchone()[0] < FULL:
        raise _unusable("the connection does not make its commits durable: PRAGMA synchronous = FULL")
    tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'counterfoil_migrations'"
    if rows.execute(tables).fetchone() is None:
        raise _unusable("there is no ledger in this file: `counterfoil init` or `counterfoil migrate` begins one")
    found = rows.execute("SELECT number, checksum FROM counterfoil_migrations ORDER BY number").fetchall()
    known = list(enumerate(KNOWN_MIGRATIONS, start=1))
    if [(number, checksum.hex()) for number, checksum in found] != known:
        raise _unusable("the ledger has a schema that this client does not know: use a client of the same version")


def _unusable(why: str) -> Refused:
    return Refused(why, code="store-unusable")
