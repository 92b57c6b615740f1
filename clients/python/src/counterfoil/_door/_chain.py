"""The evidence: rows in a hash chain, as the library writes them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._fingerprint import digest_of_text

__all__ = ["Head", "append", "link_digest"]

#: The name of the chains that this client writes. Their ends are read in every transaction, so processes may share them.
WRITER = "python"


@dataclass
class Head:
    """Where the ledger ends."""

    position: int
    newest: int

    @classmethod
    def read(cls, rows: sqlite3.Cursor) -> Head:
        position, newest = rows.execute("SELECT position, newest FROM counterfoil_head WHERE one = 1").fetchone()
        return cls(position, newest)

    def write(self, rows: sqlite3.Cursor) -> None:
        rows.execute("UPDATE counterfoil_head SET position = ?, newest = ? WHERE one = 1", (self.position, self.newest))


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=value < 0)


def _text(value: str | None) -> bytes:
    # One byte more than the text, so that no text and an empty text differ.
    return b"" if value is None else b"\x01" + value.encode("utf-8")


def link_digest(
    previous: bytes,
    account: str,
    writer: str,
    seq: int,
    position: int,
    at: int,
    kind: str,
    by_name: str,
    by_kind: str,
    operation: str | None,
    state: str | None,
    version: int,
    data_digest: bytes,
) -> bytes:
    """SHA-256 over every field with its length before it, so that no two rows share an encoding."""
    parts = [
        b"counterfoil evidence 1",
        previous,
        account.encode("utf-8"),
        writer.encode("utf-8"),
        _number(seq),
        _number(position),
        _number(at),
        kind.encode("utf-8"),
        by_name.encode("utf-8"),
        by_kind.encode("utf-8"),
        _text(operation),
        _text(state),
        _number(version),
        data_digest,
    ]
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.digest()


def append(
    rows: sqlite3.Cursor,
    head: Head,
    *,
    account: str,
    at: int,
    kind: str,
    by: tuple[str, str],
    operation: str,
    version: int,
    state: str,
    data: Mapping[str, Any],
) -> bytes:
    """Appends one row to this client's chain of the account, and moves the ledger's end behind it; gives its digest."""
    tip = rows.execute(
        "SELECT seq, digest FROM counterfoil_evidence WHERE account = ? AND writer = ? ORDER BY seq DESC LIMIT 1",
        (account, WRITER),
    ).fetchone()
    seq, previous = (0, bytes(32)) if tip is None else tip
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data_digest = digest_of_text(text)
    position, name, by_kind = head.position + 1, *by
    digest = link_digest(
        previous, account, WRITER, seq + 1, position, at, kind, name, by_kind, operation, state, version, data_digest
    )
    rows.execute(
        "INSERT INTO counterfoil_evidence (position, account, writer, seq, at, kind, by_name, by_kind, operation_id, "
        "version, state, data, data_digest, digest, previous) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            position,
            account,
            WRITER,
            seq + 1,
            at,
            kind,
            name,
            by_kind,
            operation,
            version,
            state,
            text,
            data_digest,
            digest,
            previous,
        ),
    )
    head.position, head.newest = position, max(head.newest, at)
    return digest
