"""The tool's declaration as the ledger keeps it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from .._errors import Refused
from .._fingerprint import Arguments, digest_of_members, fingerprint
from .._fingerprint import resolve as resolve_pointer
from .._json import Node

__all__ = ["Tool", "asks", "newest", "version_of"]

#: Every member that a declaration may have. What this client does not know could forbid what it would do.
KNOWN = frozenset(
    "name description accounts approval approval_expires retention lease sensitive volatile guard_on approval_when "
    "review evidence carrier recovery budget outcomes withdrawn".split()
)

_RULES = ("none", "when", "required")

#: Exact for every number that arguments may hold.
_EXACT = Context(prec=2_100, Emax=999_999, Emin=-999_999)


@dataclass(frozen=True)
class Tool:
    """What the door must know of a declaration. Lengths are milliseconds."""

    name: str
    version: int
    accounts: tuple[str, ...] | None
    approval: str
    approval_expires: int
    approval_when: tuple[Mapping[str, Any], ...]
    retention: int
    lease: int
    volatile: tuple[str, ...]
    guard_on: tuple[str, ...] | None
    transaction: bool
    #: Whether a server has said since that the tool is not declared any more.
    withdrawn: bool

    @classmethod
    def read(cls, version: int, body: str) -> Tool:
        members = json.loads(body)
        unknown = sorted(set(members) - KNOWN)
        if unknown or members["approval"] not in _RULES:
            what = f"the declaration of {members['name']} says something that this client does not know: {unknown}"
            raise Refused(what, code="store-unusable")
        accounts, guard_on = members["accounts"], members.get("guard_on")
        return cls(
            name=members["name"],
            version=version,
            accounts=None if accounts is None else tuple(accounts),
            approval=members["approval"],
            approval_expires=members["approval_expires"],
            approval_when=tuple(members.get("approval_when", ())),
            retention=members["retention"],
            lease=members["lease"],
            volatile=tuple(members["volatile"]),
            guard_on=None if guard_on is None else tuple(guard_on),
            transaction=members["carrier"] == "transaction" and members["recovery"]["kind"] == "transaction",
            withdrawn=members.get("withdrawn", False) is not False,
        )

    def serves(self, account: str) -> bool:
        return self.accounts is None or account in self.accounts

    def action(self, arguments: Arguments) -> str:
        """What makes another call the same action for the task guard."""
        if self.guard_on is None:
            return fingerprint(self.name, arguments, self.volatile)
        return digest_of_members(self.name, arguments, self.guard_on, self.volatile)

    def asks_for(self, arguments: Arguments) -> bool:
        """Whether the conditions ask for an approval of these exact arguments."""
        return self.approval == "when" and any(_met(condition, arguments) for condition in self.approval_when)

    def route(self) -> str:
        """Where an operation goes to, as an approval is bound to it."""
        text = b"transaction"
        return hashlib.sha256(len(text).to_bytes(8, "big") + text).hexdigest()


def asks(stored: Tool, current: Tool, frozen: bool, arguments: Arguments) -> bool:
    """Whether a person must say yes first: the stricter of the stored declaration and the one in force."""
    rule = max(stored.approval, current.approval, key=_RULES.index)
    if rule == "when":
        return frozen or stored.asks_for(arguments) or current.asks_for(arguments)
    return rule == "required"


def newest(rows: sqlite3.Cursor, tool: str) -> Tool | None:
    """The declaration in force: the one that a server or command wrote last."""
    row = rows.execute(
        "SELECT version, body FROM counterfoil_policies WHERE tool = ? ORDER BY version DESC LIMIT 1", (tool,)
    ).fetchone()
    return None if row is None else Tool.read(*row)


def version_of(rows: sqlite3.Cursor, tool: str, version: int) -> Tool | None:
    row = rows.execute(
        "SELECT version, body FROM counterfoil_policies WHERE tool = ? AND version = ?", (tool, version)
    ).fetchone()
    return None if row is None else Tool.read(*row)



def _met(condition: Mapping[str, Any], arguments: Arguments) -> bool:
    """What cannot be compared counts as met: whoever asks for a check gets it."""
    member = resolve_pointer(arguments.root, condition["at"])
    ((comparison, bound),) = condition["is"].items()
    if member is None:
        return True
    if comparison in ("greater_than", "less_than"):
        order = _compare(arguments, member, bound)
        return order is None or (order > 0 if comparison == "greater_than" else order < 0)
    if comparison == "equals":
        ((kind, expected),) = bound.items()
        if kind == "number":
            order = _compare(arguments, member, expected)
            return order is None or order == 0
        if kind == "text":
            return member.kind != "string" or member.value == expected
        if kind == "bool":
            return member.kind != "bool" or (arguments.text[member.start : member.end] == "true") is expected
    return True


def _compare(arguments: Arguments, member: Node, bound: str) -> int | None:
    if member.kind != "number":
        return None
    written = _EXACT.create_decimal(arguments.text[member.start : member.end])
    return int(_EXACT.compare(written, Decimal(bound)))
