"""An operation as a row of the ledger: columns for what is queried, JSON for the rest."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from .._fingerprint import Arguments

__all__ = ["Peer", "Row", "find", "find_peer", "insert", "open_peers", "tombstone", "update"]


@dataclass
class Row:
    """What the door reads and writes of an operation. Instants are milliseconds of store time."""

    account: str
    id: str
    tool: str
    action: str
    fingerprint: str
    task: str | None
    subject: str | None
    wish: bool
    created_at: int
    updated_at: int
    version: int
    policy_version: int
    receipt_expires_at: int | None
    #: Everything without a column. Members that this client does not know stay as they are.
    body: dict[str, Any]
    arguments: Arguments
    #: The stored text of a receipt's body.
    result: str | None

    @property
    def stage(self) -> str:
        state = self.body["state"]
        return state if isinstance(state, str) else next(iter(state))

    @property
    def state(self) -> dict[str, Any]:
        """The data of the state."""
        state = self.body["state"]
        data: dict[str, Any] = {} if isinstance(state, str) else state[self.stage]
        return data


@dataclass(frozen=True)
class Peer:
    """Another operation with the same action, as the task guard sees it."""

    id: str
    task: str | None
    stage: str
    unresolved: bool
    released: bool
    created_at: int


def find(rows: sqlite3.Cursor, account: str, operation: str) -> Row | None:
    row = rows.execute(
        "SELECT account, id, tool, action, fingerprint, task, subject, wish, created_at, updated_at, version, "
        "policy_version, receipt_expires_at, body, arguments, result FROM counterfoil_operations "
        "WHERE account = ? AND id = ?",
        (account, operation),
    ).fetchone()
    if row is None:
        return None
    return Row(
        account=row[0],
        id=row[1],
        tool=row[2],
        action=row[3],
        fingerprint=row[4],
        task=row[5],
        subject=row[6],
        wish=bool(row[7]),
        created_at=row[8],
        updated_at=row[9],
        version=row[10],
        policy_version=row[11],
        receipt_expires_at=row[12],
        body=json.loads(row[13]),
        arguments=Arguments(row[14]),
        result=row[15],
    )


def tombstone(rows: sqlite3.Cursor, account: str, operation: str) -> str | None:
    """The state in which a purged operation ended."""
    row = rows.execute(
        "SELECT stage FROM counterfoil_tombstones WHERE account = ? AND id = ?", (account, operation)
    ).fetchone()
    return None if row is None else str(row[0])


def find_peer(rows: sqlite3.Cursor, account: str, operation: str) -> str | None:
    """The stage of another operation, be it purged or not."""
    row = rows.execute(
        "SELECT stage FROM counterfoil_operations WHERE account = ?1 AND id = ?2 UNION ALL "
        "SELECT stage FROM counterfoil_tombstones WHERE account = ?1 AND id = ?2",
        (account, operation),
    ).fetchone()
    return None if row is None else str(row[0])


def open_peers(rows: sqlite3.Cursor, account: str, tool: str) -> list[tuple[Peer, str, int, str]]:
    """Every operation of the tool that is not over, with its action, declaration and arguments."""
    found = rows.execute(
        "SELECT id, task, stage, unresolved, released, created_at, action, policy_version, arguments "
        "FROM counterfoil_operations WHERE account = ? AND tool = ? AND open = 1",
        (account, tool),
    ).fetchall()
    return [
        (Peer(id, task, stage, bool(unresolved), bool(released), created), action, version, arguments)
        for id, task, stage, unresolved, released, created, action, version, arguments in found
    ]


def _cells(row: Row, due_at: int | None) -> dict[str, Any]:
    succeeded = row.state if row.stage == "succeeded" else None
    unresolved = row.stage == "in_progress"
    return {
        "account": row.account,
        "id": row.id,
        "tool": row.tool,
        "action": row.action,
        "fingerprint": row.fingerprint,
        "task": row.task,
        "stage": row.stage,
        "unresolved": unresolved,
        "wish": row.wish,
        "due_at": due_at,
        "receipt_expires_at": row.receipt_expires_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "version": row.version,
        "policy_version": row.policy_version,
        "attempts": len(row.body["attempts"]),
        "reference": succeeded["reference"] if succeeded else None,
        "body": json.dumps(row.body, separators=(",", ":"), ensure_ascii=False),
        "arguments": row.arguments.text,
        "result": row.result,
        "succeeded_at": succeeded["recorded_at"] if succeeded else None,
        "rejected_as": row.state["code"] if row.stage == "rejected" else None,
    }


def insert(rows: sqlite3.Cursor, row: Row, due_at: int | None) -> None:
    """Inserts a new operation; the unique key refuses a second one."""
    rows.execute(
        "INSERT INTO counterfoil_operations (account, id, tool, action, fingerprint, task, stage, held, unresolved, "
        "released, wish, due_at, receipt_expires_at, created_at, updated_at, version, policy_version, attempts, "
        "reference, body, arguments, result, subject, open, succeeded_at, rejected_as, replaced_by) "
        "VALUES (:account, :id, :tool, :action, :fingerprint, :task, :stage, 0, :unresolved, 0, :wish, :due_at, "
        ":receipt_expires_at, :created_at, :updated_at, :version, :policy_version, :attempts, :reference, :body, "
        ":arguments, :result, NULL, :unresolved, :succeeded_at, NULL, NULL)",
        _cells(row, due_at),
    )


def update(rows: sqlite3.Cursor, row: Row, due_at: int | None, expected: int) -> None:
    """Replaces what may change, if the version is still `expected`."""
    rows.execute(
        "UPDATE counterfoil_operations SET stage = :stage, held = 0, unresolved = :unresolved, wish = :wish, "
        "due_at = :due_at, receipt_expires_at = :receipt_expires_at, updated_at = :updated_at, version = :version, "
        "attempts = :attempts, reference = :reference, body = :body, result = :result, open = :unresolved, "
        "succeeded_at = :succeeded_at, rejected_as = :rejected_as WHERE account = :account AND id = :id AND version = :expected",
        {**_cells(row, due_at), "expected": expected},
    )
    if rows.rowcount != 1:
        raise sqlite3.IntegrityError("an operation changed inside a transaction")
