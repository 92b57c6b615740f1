"""The task guard: which other operations hold this one back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from .._fingerprint import Arguments
from . import _policy
from ._policy import Tool
from ._row import Peer, open_peers

__all__ = ["blockers"]


def blockers(
    rows: sqlite3.Cursor,
    account: str,
    operation: str,
    task: str | None,
    distinct_from: Iterable[tuple[str, bool]],
    arguments: Arguments,
    action: str,
    declarations: Iterable[Tool],
) -> list[Peer]:
    """The operations with the same action that are not over, newest first."""
    named, mine = dict(distinct_from), list(declarations)
    found = [
        peer
        for peer, theirs, version, text in open_peers(rows, account, mine[0].name)
        if _holds(operation, task, named, peer)
        and (theirs == action or _same(rows, arguments, mine, version, text))
    ]
    return sorted(found, key=lambda peer: (peer.created_at, peer.id), reverse=True)


def _holds(operation: str, task: str | None, named: dict[str, bool], peer: Peer) -> bool:
    if peer.id == operation or not peer.unresolved or peer.released:
        return False
    if task is not None and peer.task is not None and task != peer.task:
        return False
    # An agent's word that the two differ holds only while the other one cannot have doubled what the agent meant.
    by_approver = named.get(peer.id)
    return by_approver is None or not (by_approver or peer.stage in ("in_progress", "succeeded", "rejected"))


def _same(rows: sqlite3.Cursor, arguments: Arguments, mine: list[Tool], version: int, text: str) -> bool:
    """Whether the two are one action under any of these declarations: a change of them opens no way around."""
    theirs = _policy.version_of(rows, mine[0].name, version)
    other = Arguments(text)
    return any(tool.action(arguments) == tool.action(other) for tool in (*mine, *([theirs] if theirs else [])))
