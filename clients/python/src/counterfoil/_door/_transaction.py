"""The transaction door: operation, effect and receipt are one commit of the application's own SQLite connection.

The rows are those that the library writes (`store/sqlite`, `door.rs`); whatever this client does not understand of them
is refused, never guessed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .._errors import Kind, Refused, Rejected, Unsettled, of_expired
from .._fingerprint import Arguments, differing_members, fingerprint
from .._json import Json, encode, loads
from .._values import Receipt
from . import _mark, _policy, _row, _schema
from ._chain import Head, append
from ._guard import blockers
from ._ids import check_account, check_id, check_task
from ._policy import Tool
from ._row import Row

__all__ = ["Effect", "transaction"]

#: The largest result that is kept.
MAX_RESULT = 1024 * 1024

#: The largest `accepted_by`.
MAX_ACCEPTED_BY = 1024

#: How far this machine's clock may lie below the newest instant of the ledger, in milliseconds.
SKEW = 60_000

#: Racing callers are serialised instead of failing.
_BEGIN = "BEGIN IMMEDIATE"


#: What the task guard held back in a transaction of the application: by file, account and ID, the operations in the way.
_held_back: dict[tuple[str, str, str], set[str]] = {}


@dataclass(frozen=True)
class Effect:
    """What the application's own code did."""

    #: What it calls the thing that it created.
    reference: str | None = None
    #: What every retry is to be told again.
    result: Json = None


def transaction(
    connection: sqlite3.Connection,
    account: str | None,
    operation: str,
    tool: str,
    arguments: Json | Arguments,
    effect: Callable[[sqlite3.Connection], Effect | None],
    *,
    task: str | None = None,
    accepted_by: Mapping[str, Any] | None = None,
) -> Receipt:
    """See `Counterfoil.transaction`."""
    whose = check_account(account)
    check_id(operation)
    check_task(task)
    accepted = None if accepted_by is None else encode(accepted_by)
    if accepted is not None and len(accepted.encode("utf-8")) > MAX_ACCEPTED_BY:
        raise Refused(f"accepted_by is larger than {MAX_ACCEPTED_BY} bytes", code="invalid-request")
    _schema.check(connection)
    door = _Door(connection, whose, operation, tool, Arguments.of(arguments), task, accepted)
    if connection.in_transaction:
        # The application's own transaction: it commits, and with it everything that was written here.
        _mark.advance(connection)
        return _whole(connection, "counterfoil_door", lambda: door.walk_through(effect))
    connection.execute(_BEGIN)
    try:
        receipt = door.walk_through(effect)
    except (Unsettled, Rejected):
        # What was prepared stays, so that somebody can approve it, and so does why it may not run: forgotten, the same
        # call would run later.
        connection.execute("COMMIT")
        _mark.advance(connection)
        raise
    except _Inside as inside:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise inside.error from None
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    _mark.advance(connection)
    return receipt


def _whole(connection: sqlite3.Connection, savepoint: str, act: Callable[[], Receipt]) -> Receipt:
    """All or nothing of it; what an operation waits for, or how it ended, is kept."""
    connection.execute(f"SAVEPOINT {savepoint}")
    try:
        receipt = act()
    except (Unsettled, Rejected):
        connection.execute(f"RELEASE {savepoint}")
        raise
    except BaseException as error:
        # The transaction may be gone, and then there is nothing to undo: what is told is why.
        try:
            connection.execute(f"ROLLBACK TO {savepoint}")
            connection.execute(f"RELEASE {savepoint}")
        except sqlite3.Error:
            pass
        if isinstance(error, _Inside):
            raise error.error from None
        raise
    connection.execute(f"RELEASE {savepoint}")
    return receipt


class _Inside(Exception):
    """What the effect itself raised, where the door would take it for its own: nothing of the effect may stay."""

    def __init__(self, error: Unsettled | Rejected) -> None:
        super().__init__(str(error))
        self.error = error


class _Door:
    """One call."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        account: str,
        operation: str,
        tool: str,
        arguments: Arguments,
        task: str | None,
        accepted_by: str | None,
    ) -> None:
        self.connection = connection
        self.rows = _schema.cursor(connection)
        self.account = account
        self.id = operation
        self.tool = tool
        self.arguments = arguments
        self.task = task
        self.accepted_by = accepted_by
        self.principal = _principal()
        self.now = 0
        #: Whether the application began the transaction, and may roll it back.
        self.joined = connection.in_transaction

    def walk_through(self, effect: Callable[[sqlite3.Connection], Effect | None]) -> Receipt:
        """Finds the receipt, or opens the way for the effect and joins its receipt to it."""
        head = Head.read(self.rows)
        self.now = time.time_ns() // 1_000_000
        current = _policy.newest(self.rows, self.tool)
        if current is not None and not current.transaction:
            raise Refused("This tool is not carried out in a transaction.", code="invalid-arguments")
        stage = _row.tombstone(self.rows, self.account, self.id)
        row = _row.find(self.rows, self.account, self.id)
        if stage is not None and row is None:
            raise self.expired(stage)
        if row is None:
            started = self.create(head, self.declared(current))
        else:
            settled = self.existing(row)
            if settled is not None:
                return settled
            started = self.start(head, row, current)
        head.write(self.rows)
        self.connection.execute("SAVEPOINT counterfoil_effect")
        try:
            done = effect(self.connection) or Effect()
        except (Unsettled, Rejected) as error:
            raise _Inside(error) from error
        try:
            self.connection.execute("RELEASE counterfoil_effect")
        except sqlite3.OperationalError:
            # It says nothing about rows any more: no receipt may join what is no longer there.
            why = "the effect ended the transaction that it was given: it must neither commit nor roll back"
            raise RuntimeError(why) from None
        return self.finish(started, done)

    def declared(self, tool: Tool | None) -> Tool:
        if tool is None or tool.withdrawn or not tool.serves(self.account):
            hint = (
                f'Declare it in counterfoil.toml with [tools."{self.tool}".recovery] kind = "transaction"; the ledger learns of '
                "it from `counterfoil serve`, or from a command such as `counterfoil op list`."
            )
            raise Refused(f"There is no tool {self.tool} for this account.", code="unknown-tool", hint=hint)
        return tool

    def expired(self, stage: str) -> Refused:
        detail = f"The receipt of operation {self.id} is no longer kept; it ended {stage}."
        told = of_expired(self.id, stage)
        return Refused(detail, code="receipt-expired", operation_id=self.id, state=stage, for_model=told)

    def existing(self, row: Row) -> Receipt | None:
        """The receipt of an earlier commit; nothing where it may start; raises everything else."""
        if row.receipt_expires_at is not None and self.now >= row.receipt_expires_at:
            raise self.expired(row.stage)
        self.same_intent(row)
        if row.stage == "succeeded":
            return self.receipt(row, replayed=True)
        if row.stage == "rejected":
            raise self.rejected(row)
        if row.body.get("replaced_by") is not None:
            successor = str(row.body["replaced_by"])
            message = f"Operation {self.id} was replaced by operation {successor}: it is not run any more."
            raise self.unsettled("blocked", message, blockers=(successor,))
        if row.stage != "prepared" or row.body["attempts"]:
            raise self.unsettled(
                "held" if row.stage == "unknown" else "unknown",
                f"Not confirmed: nobody can say what became of operation {self.id}. Do not do it again.",
                sent="maybe",
            )
        return None

    def same_intent(self, row: Row) -> None:
        stored = _policy.version_of(self.rows, row.tool, row.policy_version)
        volatile = stored.volatile if stored else ()
        differs: tuple[str, ...] = ()
        if row.tool != self.tool:
            differs = (*differing_members(row.arguments, self.arguments, ()), "tool")
        elif row.arguments.text != self.arguments.text:
            same = fingerprint(self.tool, self.arguments, volatile)
            if same not in (row.fingerprint, fingerprint(self.tool, row.arguments, volatile)):
                differs = differing_members(row.arguments, self.arguments, volatile) or ("arguments",)
        if row.body["distinct_declared"]:
            differs += ("distinct_from",)
        if row.subject is not None:
            differs += ("subject",)
        if row.body.get("replaces") is not None:
            differs += ("replaces",)
        if differs:
            raise Refused(
                f"{self.id} was prepared with another intent.",
                code="operation-id-reused",
                operation_id=self.id,
                differs=differs,
                hint="A changed action is a new operation: mint a new ID.",
            )

    def held_by_pause(self, head: Head) -> bool:
        """Whether nothing may start now."""
        if self.now + SKEW < head.newest:
            return True
        paused = self.rows.execute(
            "SELECT 1 FROM counterfoil_pauses WHERE ended_at IS NULL AND scope IS NULL AND (tool IS NULL OR tool = ?)",
            (self.tool,),
        )
        return paused.fetchone() is not None

    def create(self, head: Head, tool: Tool) -> Row:
        restored = "SELECT 1 FROM counterfoil_pauses WHERE ended_at IS NULL AND restored = 1"
        if self.rows.execute(restored).fetchone() is not None:
            why = "The ledger was restored from a copy: this ID may have been used in the part that is lost."
            raise Refused(why, code="ledger-restored", operation_id=self.id)
        action = tool.action(self.arguments)
        found = blockers(self.rows, self.account, self.id, self.task, (), self.arguments, action, [tool])
        if found:
            raise Refused(
                f"The same action is not settled yet: operation {found[0].id}.",
                code="action-unresolved",
                operation_id=found[0].id,
                operations=tuple(peer.id for peer in found),
            )
        row = Row(
            account=self.account,
            id=self.id,
            tool=self.tool,
            action=action,
            fingerprint=fingerprint(self.tool, self.arguments, tool.volatile),
            task=self.task,
            subject=None,
            wish=True,
            created_at=self.now,
            updated_at=self.now,
            version=0,
            policy_version=tool.version,
            receipt_expires_at=None,
            body=_new_body(self.accepted_by, self.principal, tool.asks_for(self.arguments)),
            arguments=self.arguments,
            result=None,
        )
        digest = hashlib.sha256(self.arguments.text.encode("utf-8")).hexdigest()
        data = {
            "tool": self.tool,
            "fingerprint": row.fingerprint,
            "arguments_digest": f"sha256:{digest}",
            "policy_version": tool.version,
            "execute": True,
            "replaces": None,
            "inherits": [],
        }
        asks = _policy.asks(tool, tool, False, self.arguments)
        if asks or self.held_by_pause(head):
            last = self.note(head, row, "prepared", ("caller", self.principal), data)
            if asks:
                self.tell(head, row, last)
            _row.insert(self.rows, row, _prepared_due(row, tool, asks))
            head.write(self.rows)
            raise self.not_now(asks)
        # The state that evidence names is the one after its commit.
        self.begin(row, tool)
        self.note(head, row, "prepared", ("caller", self.principal), data)
        self.note_attempt(head, row)
        _row.insert(self.rows, row, row.state["lease_expires_at"])
        return row

    def start(self, head: Head, row: Row, newest: Tool | None) -> Row:
        """Every guard of a start."""
        stored = _policy.version_of(self.rows, row.tool, row.policy_version)
        if stored is None:
            raise sqlite3.IntegrityError("the declaration of an operation's tool is not stored")
        declared = newest is not None and not newest.withdrawn
        current = newest if newest is not None and declared else stored
        self.lapse(head, row, stored, current)
        if not declared:
            message = f"Operation {self.id} may not run: its tool is not declared any more. Nothing was done."
            raise self.unsettled("held", message)
        self.declared(current)
        asks = _policy.asks(stored, current, bool(row.body.get("asks")), row.arguments)
        if row.state["hold"] is not None or row.body["duplicate_suspected"] or row.body["released"] is not None:
            raise self.unsettled("held", f"Operation {self.id} waits for a person to look at it.")
        expected, wished = row.version, not row.wish
        row.wish = True
        if asks and not self.approved(row, stored, current):
            self.keep(head, row, stored, wished, expected)
            raise self.not_now(True)
        if self.held_by_pause(head) or (row.state["not_before"] or 0) > self.now:
            self.keep(head, row, stored, wished, expected)
            raise self.not_now(False)
        distinct = [(named["id"], named["by_approver"]) for named in row.body["distinct_from"]]
        found = blockers(
            self.rows, self.account, self.id, row.task, distinct, row.arguments, row.action, [stored, current]
        )
        ids = tuple(peer.id for peer in found)
        rolled_back = tuple(self.rolled_back(row, ids))
        if found or rolled_back:
            self.hold_back(head, row, (stored, current), ids + rolled_back, wished, expected)
        if rolled_back and not found:
            expected, wished, row.wish = row.version, True, True
        if found:
            message = f"Operation {self.id} waits for operation {ids[0]}, which has the same action and is not settled."
            raise self.unsettled("blocked", message, blockers=ids)
        for holder in row.body["blocked_by"]:
            succeeded = _row.find_peer(self.rows, self.account, holder) == "succeeded"
            if succeeded and holder not in row.body["acknowledged"]:
                message = f"Operation {holder} has the same action and succeeded: operation {self.id} needs an approval that names it."
                raise self.unsettled("approval", message, blockers=(holder,))
        self.begin(row, stored)
        if wished:
            self.note(head, row, "wished", ("caller", self.principal), {})
        self.note_attempt(head, row)
        _row.update(self.rows, row, row.state["lease_expires_at"], expected)
        return row

    def approved(self, row: Row, stored: Tool, current: Tool) -> bool:
        given = row.body["approval"]
        return (
            given is not None
            and given["fingerprint"] == row.fingerprint
            and given["route"] == stored.route() == current.route()
            and self.now < given["expires_at"]
        )

    def keep(self, head: Head, row: Row, stored: Tool, wished: bool, expected: int) -> None:
        """Records the standing wish of an operation that may not start yet."""
        if not wished:
            return
        self.note(head, row, "wished", ("caller", self.principal), {})
        asks = _policy.asks(stored, stored, bool(row.body.get("asks")), row.arguments)
        _row.update(self.rows, row, _prepared_due(row, stored, asks), expected)
        head.write(self.rows)

    def hold_back(
        self, head: Head, row: Row, tools: tuple[Tool, Tool], ids: tuple[str, ...], wished: bool, expected: int
    ) -> None:
        """Records what the task guard held back, and by which: should one of these succeed, it needs a person's word.

        Whoever asks again while nothing is different writes nothing.
        """
        new = [holder for holder in ids if holder not in row.body["blocked_by"]]
        if wished and not new:
            return
        if wished:
            self.note(head, row, "wished", ("caller", self.principal), {})
        row.wish = False
        row.body["blocked_by"].extend(new)
        self.note(head, row, "held_back", ("rule", "counterfoil"), {"operations": list(ids)})
        asks = _policy.asks(*tools, bool(row.body.get("asks")), row.arguments)
        _row.update(self.rows, row, _prepared_due(row, tools[0], asks), expected)
        head.write(self.rows)
        if self.joined:
            # Whoever lets the error through its own transaction rolls this back.
            _held_back.setdefault(self.key(), set()).update(row.body["blocked_by"])

    def rolled_back(self, row: Row, ids: tuple[str, ...]) -> list[str]:
        """By which operations this process has seen it held back, where the application rolled that back."""
        known = _held_back.get(self.key(), set())
        left = sorted(known.difference(row.body["blocked_by"]))
        if known and not left and not self.joined:
            # It is committed: nobody else can have written while this transaction holds the file.
            del _held_back[self.key()]
        return [holder for holder in left if holder not in ids]

    def key(self) -> tuple[str, str, str]:
        file = next(str(path) for _, name, path in self.rows.execute("PRAGMA database_list") if name == "main")
        return file, self.account, self.id

    def lapse(self, head: Head, row: Row, stored: Tool, current: Tool) -> None:
        """Ends an operation that has waited too long to start, whether or not a server has looked at it since."""
        if row.body["duplicate_suspected"]:
            return
        given = row.body["approval"]
        until = row.created_at + min(stored.approval_expires, current.approval_expires)
        until = until if given is None else given["expires_at"]
        if self.now >= until and _policy.asks(stored, current, bool(row.body.get("asks")), row.arguments):
            code = "approval_expired"
        elif self.now >= row.created_at + stored.retention:
            code = "not_started"
        else:
            return
        expected = row.version
        row.body["state"] = {"rejected": {"code": code, "detail": None, "by": None, "at": self.now}}
        row.receipt_expires_at = self.now + stored.retention
        row.wish = False
        self.note(head, row, "lapsed", ("rule", "counterfoil"), {"code": code})
        _row.update(self.rows, row, None, expected)
        head.write(self.rows)
        raise self.rejected(row)

    def rejected(self, row: Row) -> Rejected:
        code = str(row.state["code"])
        message = f"Operation {self.id} was rejected: {code}. Nothing happened."
        return Rejected(message, code=code, detail=row.state["detail"], operation_id=self.id)

    def begin(self, row: Row, tool: Tool) -> None:
        """The attempt joins the transaction before its effect does."""
        fence = row.body["fence"] + 1
        claim = {
            "worker": "transaction",
            "fence": fence,
            "lease_expires_at": self.now + tool.lease,
            "claim_id": None,
            "lease_ms": None,
            "held_by": None,
            "look_up": None,
        }
        row.body["state"] = {"in_progress": claim}
        row.body["fence"] = fence
        row.body["attempts"].append(
            {
                "number": 1,
                "worker": "transaction",
                "fence": fence,
                "started_at": self.now,
                "send_before": self.now + tool.lease // 2,
                "lingers_until": None,
                "ended_at": None,
                "outcome": None,
                "settled": False,
                "counts": True,
                "marker": None,
                "status": None,
                "error": None,
                "duplicate_of_ours": False,
                "key": None,
                "scope": None,
                "request_digest": row.fingerprint,
            }
        )

    def note_attempt(self, head: Head, row: Row) -> None:
        attempt = row.body["attempts"][-1]
        data = {
            "number": attempt["number"],
            "fencing_token": attempt["fence"],
            "send_before": _written(attempt["send_before"]),
            "key": None,
            "scope": None,
            "request_digest": attempt["request_digest"],
            "policy_version": row.policy_version,
        }
        self.note(head, row, "attempt_started", ("worker", "transaction"), data)

    def finish(self, row: Row, done: Effect) -> Receipt:
        """The receipt joins the effect."""
        head = Head.read(self.rows)
        self.now = max(self.now, time.time_ns() // 1_000_000)
        stored = _policy.version_of(self.rows, row.tool, row.policy_version)
        if stored is None:
            raise sqlite3.IntegrityError("the declaration of an operation's tool is not stored")
        kept, digest = _result(done.result)
        row.result = kept[1] if kept else None
        result = kept[0] if kept else None
        receipt = {"reference": done.reference, "result": result, "source": "transaction", "recorded_at": self.now}
        row.body["state"] = {"succeeded": receipt}
        row.body["attempts"][-1].update(outcome="succeeded", ended_at=self.now)
        row.receipt_expires_at = self.now + stored.retention
        row.wish = False
        named = None if done.reference is None else hashlib.sha256(done.reference.encode("utf-8")).hexdigest()
        data = {"reference_digest": None if named is None else f"sha256:{named}", "result_digest": digest}
        expected = row.version
        self.note(head, row, "committed", ("caller", self.principal), data)
        _row.update(self.rows, row, None, expected)
        head.write(self.rows)
        return self.receipt(row, replayed=False)

    def tell(self, head: Head, row: Row, last: bytes) -> None:
        """The notice to people that an approval is wanted, written with what asks for it."""
        self.rows.execute(
            "INSERT INTO counterfoil_notices (position, event, at, occasion, account, tool, operation_id, version, state, "
            "action, reason) VALUES (?, ?, ?, 'approval_wanted', ?, ?, ?, ?, ?, 'approve', 'approval-required')",
            (head.position, f"evt_{last[:16].hex()}", self.now, self.account, row.tool, self.id, row.version, row.stage),
        )

    def note(self, head: Head, row: Row, kind: str, by: tuple[str, str], data: Mapping[str, Any]) -> bytes:
        """Appends evidence and gives its digest; the operation's version grows with each row."""
        row.version += 1
        row.updated_at = self.now
        return append(
            self.rows,
            head,
            account=self.account,
            at=self.now,
            kind=kind,
            by=(by[1], by[0]),
            operation=self.id,
            version=row.version,
            state=row.stage,
            data=data,
        )

    def receipt(self, row: Row, *, replayed: bool) -> Receipt:
        state, stored = row.state, row.state["result"]
        text = None
        if row.result is not None:
            ((kind, kept),) = loads(row.result).items()
            text = kept if kind == "json" else None
        return Receipt(
            operation_id=self.id,
            reference=state["reference"],
            result=None if text is None else loads(text),
            status=None if stored is None else stored["status"],
            source=state["source"],
            recorded_at=datetime.fromtimestamp(state["recorded_at"] / 1000, timezone.utc),
            truncated=stored is not None and stored["truncated"],
            replayed=replayed,
            result_text=text,
        )

    def not_now(self, asks: bool) -> Unsettled:
        if asks:
            return self.unsettled("approval", f"Operation {self.id} waits for an approval. Nothing was done.")
        return self.unsettled("in_progress", f"Operation {self.id} may not run at the moment. Nothing was done.")

    def unsettled(
        self, kind: Kind, message: str, *, sent: str = "no", blockers: tuple[str, ...] = ()
    ) -> Unsettled:
        return Unsettled(
            kind,
            operation_id=self.id,
            message=message,
            sent="maybe" if sent == "maybe" else "no",
            blockers=blockers,
        )


def _prepared_due(row: Row, tool: Tool, asks: bool) -> int:
    """When whoever carries work on looks at a prepared operation next."""
    given = row.body["approval"]
    instants = [row.created_at + tool.retention]
    if asks:
        instants.append(row.created_at + tool.approval_expires if given is None else given["expires_at"])
    if row.wish and not (asks and given is None) and row.state["hold"] is None:
        instants.append(row.state["not_before"] or row.updated_at)
    return min(instants)


def _new_body(accepted_by: str | None, principal: str, asks: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"earlier_keys": 0}
    if asks:
        body["asks"] = True
    return {
        **body,
        "remind_at": None,
        "distinct_declared": [],
        "distinct_from": [],
        "accepted_by": accepted_by,
        "prepared_by": principal,
        "state": {"prepared": {"not_before": None, "hold": None}},
        "fence": 0,
        "attempts": [],
        "approval": None,
        "blocked_by": [],
        "acknowledged": [],
        "key_generation": 1,
        "duplicate_suspected": False,
        "released": None,
    }


def _result(value: Json) -> tuple[tuple[dict[str, Any], str | None] | None, str | None]:
    """What is kept of a result, its text for the column of its own, and its digest."""
    if value is None:
        return None, None
    text = encode(value)
    raw = text.encode("utf-8")
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    truncated = len(raw) > MAX_RESULT
    kept = {
        "status": None,
        "content_type": "application/json",
        "body": None,
        "size": len(raw),
        "digest": digest,
        "truncated": truncated,
    }
    return (kept, None if truncated else encode({"json": text})), digest


def _written(instant: int) -> str:
    seconds, millis = divmod(instant, 1000)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{millis:03}Z"


def _principal() -> str:
    """Who acts on a file: the user of the operating system. A name for the evidence, not a proof."""
    user = next((found for name in ("USER", "LOGNAME", "USERNAME") if (found := os.environ.get(name))), str(os.getuid()))
    principal = f"os:{user}"
    fits = len(principal) <= 64 and all(letter.isascii() and (letter.isalnum() or letter in "._:-") for letter in principal)
    return principal if fits else f"os:{os.getuid()}"
