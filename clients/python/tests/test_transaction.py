"""The transaction door on the application's own SQLite connection."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Counterfoil, Effect, RawJson, Refused, Rejected, Unsettled
from counterfoil._door._schema import KNOWN_MIGRATIONS
from counterfoil._door._shapes import looks_sensitive
from counterfoil.testing import World, world

ROOT = Path(__file__).resolve().parents[3]

TOOLS = """
[tools."items.create"]
volatile = ["/trace"]
[tools."items.create".recovery]
kind = "transaction"
[tools."items.approved"]
approval = "required"
[tools."items.approved".recovery]
kind = "transaction"
[tools."items.large"]
approval = { when = [{ at = "/total", greater_than = 500 }] }
guard_on = ["/item"]
[tools."items.large".recovery]
kind = "transaction"
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
[tools."supplier.create_order".recovery]
kind = "none"
"""

CF = Counterfoil(account="kitchen")


@pytest.fixture
def w() -> Iterator[World]:
    with world(TOOLS) as made:
        with closing(connect(made)) as database:
            database.execute("CREATE TABLE items (operation TEXT NOT NULL, item INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)")
            database.commit()
        yield made
        made.command("audit", "verify")


def connect(w: World) -> sqlite3.Connection:
    return sqlite3.connect(w.database, timeout=30)


def put(operation: str, result: Any = None) -> Any:
    def effect(database: sqlite3.Connection) -> Effect:
        row = database.execute("INSERT INTO items (operation) VALUES (?)", (operation,))
        return Effect(f"item-{row.lastrowid}", result)

    return effect


def items(w: World, operation: str) -> int:
    with closing(connect(w)) as database:
        found: int = database.execute("SELECT count(*) FROM items WHERE operation = ?", (operation,)).fetchone()[0]
    return found


def test_effect_and_receipt_are_one_commit_that_every_reader_understands(w: World) -> None:
    with closing(connect(w)) as database:
        exact = {"total": Decimal("0.10"), "count": 9007199254740993}
        first = CF.transaction(database, "a", "items.create", {"n": 1}, put("a", exact), task="run-1", accepted_by={"x": 1})
        again = CF.transaction(database, "a", "items.create", RawJson('{"n":1.0,"trace":7}'), put("a"))
    assert (first.reference, first.source, first.replayed) == ("item-1", "transaction", False)
    assert (again.reference, again.result, again.replayed) == ("item-1", exact, True)
    assert items(w, "a") == 1
    over = w.cf.get("a")
    assert (over.state, over.task, over.accepted_by, over.version) == ("succeeded", "run-1", {"x": 1}, 3)
    assert over.receipt is not None and over.receipt.result == exact and over.receipt.reference == "item-1"
    assert [attempt.outcome for attempt in over.attempts] == ["succeeded"]
    kinds = [(row.kind, row.by) for row in w.client(["auditor"], "audit").evidence("a")]
    assert kinds == [("prepared", "caller"), ("attempt_started", "worker"), ("committed", "caller")]
    # The server answers the same retry with the same receipt, without doing anything.
    assert w.cf.run("a", "items.create", {"n": 1}).reference == "item-1"
    assert json.loads(w.command("op", "show", "a", "--account", "kitchen", "--json"))["state"] == "succeeded"


def test_inside_the_applications_own_transaction_everything_commits_or_nothing(w: World) -> None:
    with closing(connect(w)) as database:
        database.execute("BEGIN IMMEDIATE")
        CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
        assert database.in_transaction
        database.rollback()
        assert items(w, "a") == 0
        database.execute("BEGIN IMMEDIATE")
        CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
        CF.transaction(database, "b", "items.create", {"n": 2}, put("b"))
        database.commit()
    assert (items(w, "a"), items(w, "b")) == (1, 1)
    assert w.cf.get("a").state == w.cf.get("b").state == "succeeded"


def test_an_effect_that_raises_leaves_nothing(w: World) -> None:
    def fails(database: sqlite3.Connection) -> None:
        put("a")(database)
        raise KeyError("mine")

    for own in (False, True):
        with closing(connect(w)) as database:
            if own:
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT INTO items (operation) VALUES ('other')")
            with pytest.raises(KeyError, match="mine"):
                CF.transaction(database, "a", "items.create", {"n": 1}, fails)
            assert database.in_transaction is own
            database.commit()
        assert items(w, "a") == 0
        with pytest.raises(Refused):
            w.cf.get("a")
    assert items(w, "other") == 1


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    ("more", "committed"),
    [
        ("ROLLBACK", False),
        ("ROLLBACK; BEGIN IMMEDIATE", False),
        ("INSERT INTO items (operation, item) SELECT 'x', item FROM items", False),
        ("COMMIT", True),
        ("COMMIT; BEGIN IMMEDIATE", True),
    ],
)
def test_an_effect_that_ends_its_transaction_gets_no_receipt(w: World, more: str, committed: bool, prepared: bool) -> None:
    def effect(database: sqlite3.Connection) -> None:
        put("a")(database)
        for statement in more.split("; "):
            try:
                database.execute(statement)
            except sqlite3.Error:
                pass

    if prepared:
        w.cf.prepare("a", "items.create", {"n": 1})
    with closing(connect(w)) as database:
        with pytest.raises(RuntimeError, match="neither commit nor roll back"):
            CF.transaction(database, "a", "items.create", {"n": 1}, effect)
        if database.in_transaction:
            database.rollback()
        if committed:
            # The retry may not run it: what the first one did is there, and nobody has said so.
            with pytest.raises(Unsettled) as caught:
                CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
            assert caught.value.sent == "maybe"
            with pytest.raises(Refused) as guarded:
                CF.transaction(database, "b", "items.create", {"n": 1}, put("b"))
            assert guarded.value.code == "action-unresolved" and guarded.value.operations == ("a",)
        else:
            CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
    assert items(w, "a") == 1


def test_thirty_two_connections_with_one_id_make_one_row(w: World) -> None:
    def call(_: int) -> Any:
        with closing(connect(w)) as database:
            return CF.transaction(database, "a", "items.create", {"n": 1}, put("a")).reference

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(call, range(32))) == {"item-1"}
    assert items(w, "a") == 1


CHILD = """
import os, signal, sqlite3, sys
from counterfoil import Counterfoil, Effect
file, operation, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = sqlite3.connect(file, timeout=30)
seen = 0
def count(statement):
    global seen
    seen += 1
    if seen == at:
        os.kill(os.getpid(), signal.SIGKILL)
database.set_trace_callback(count)
def effect(db):
    db.execute("INSERT INTO items (operation) VALUES (?)", (operation,))
    return Effect("item")
Counterfoil(account="kitchen").transaction(database, operation, "items.create", {"n": operation}, effect)
"""


def test_killed_at_each_statement_there_are_both_or_neither(w: World) -> None:
    at = 0
    while True:
        at += 1
        operation = f"op-{at}"
        done = subprocess.run([sys.executable, "-c", CHILD, str(w.database), operation, str(at)], timeout=60, check=False)
        with closing(connect(w)) as database:
            found = database.execute("SELECT stage FROM counterfoil_operations WHERE id = ?", (operation,)).fetchall()
            assert items(w, operation) == len(found) and all(row == ("succeeded",) for row in found)
            CF.transaction(database, operation, "items.create", {"n": operation}, put(operation))
        assert items(w, operation) == 1
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert at > 20


def test_an_approval_is_waited_for_in_the_same_transaction(w: World) -> None:
    chef = w.client(["approver"], "chef")
    with closing(connect(w)) as database:
        for _ in range(2):
            with pytest.raises(Unsettled) as caught:
                CF.transaction(database, "a", "items.approved", {"n": 1}, put("a"))
            assert (caught.value.kind, caught.value.sent) == ("approval", "no")
        assert w.cf.get("a").next.action == "approve"
        told = "SELECT occasion, operation_id, version, state, event FROM counterfoil_notices"
        digest = "SELECT digest FROM counterfoil_evidence WHERE operation_id = 'a' AND kind = 'prepared'"
        event = "evt_" + database.execute(digest).fetchone()[0][:16].hex()
        assert database.execute(told).fetchall() == [("approval_wanted", "a", 1, "prepared", event)]
        chef.approve("a", w.cf.get("a").fingerprint)
        assert CF.transaction(database, "a", "items.approved", {"n": 1}, put("a")).reference == "item-1"
        with pytest.raises(Unsettled):
            CF.transaction(database, "b", "items.approved", {"n": 2}, put("b"))
        chef.deny("b", "no")
        with pytest.raises(Rejected) as denied:
            CF.transaction(database, "b", "items.approved", {"n": 2}, put("b"))
        assert denied.value.code == "approval_denied"
        CF.transaction(database, "c", "items.large", {"item": 1, "total": Decimal("500.0")}, put("c"))
        for number, total in enumerate(("500.00000000000000001", '"1"')):
            with pytest.raises(Unsettled) as asked:
                large = RawJson(f'{{"item":{number},"total":{total}}}')
                CF.transaction(database, f"d-{number}", "items.large", large, put("d"))
            assert asked.value.kind == "approval"
    assert (items(w, "a"), items(w, "b"), items(w, "c"), items(w, "d")) == (1, 0, 1, 0)


def test_what_stands_in_the_way_is_refused(w: World) -> None:
    never = put("never")
    with closing(connect(w)) as database:
        def refused(code: str, operation: str, tool: str, arguments: Any, cf: Counterfoil = CF) -> Refused:
            with pytest.raises(Refused) as caught:
                cf.transaction(database, operation, tool, arguments, never)
            assert caught.value.code == code and not database.in_transaction
            return caught.value

        CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
        assert refused("operation-id-reused", "a", "items.create", {"n": 2}).differs == ("arguments.n",)
        assert "op list" in str(refused("unknown-tool", "b", "items.unknown", {}).hint)
        refused("invalid-arguments", "b", "supplier.create_order", {})
        for bad in ("", "a b", ".", "ü", "x" * 256, "anna@example.com", "4111111111111111"):
            refused("invalid-operation-id", bad, "items.create", {})
        database.execute("PRAGMA synchronous = NORMAL")
        refused("store-unusable", "b", "items.create", {})
        database.execute("PRAGMA synchronous = FULL")
        operator = w.client(["operator"], "ops")
        operator.pause("items.create", "stop")
        with pytest.raises(Unsettled) as paused:
            CF.transaction(database, "b", "items.create", {"n": 7}, never)
        assert paused.value.kind == "in_progress"
        operator.resume("items.create", "go")
        assert CF.transaction(database, "b", "items.create", {"n": 7}, put("b")).reference
        with pytest.raises(ValueError, match="account"):
            Counterfoil("http://127.0.0.1:1", "cf_x").transaction(database, "c", "items.create", {}, never)
        other = Counterfoil(account="canteen").transaction(database, "a", "items.create", {"n": 1}, put("canteen"))
        assert not other.replayed
    with closing(sqlite3.connect(":memory:")) as elsewhere, pytest.raises(Refused, match="no ledger"):
        CF.transaction(elsewhere, "b", "items.create", {}, never)
    assert items(w, "never") == 0


def test_what_needs_the_server_is_left_to_it(w: World) -> None:
    w.cf.prepare("a", "items.create", {"n": 1}, subject="week-32")
    w.cf.prepare("b", "items.create", {"n": 2})
    w.cf.prepare("c", "items.create", {"n": 3}, replaces="b")
    with closing(connect(w)) as database:
        for operation, number, differs in (("a", 1, "subject"), ("c", 3, "replaces")):
            with pytest.raises(Refused) as caught:
                CF.transaction(database, operation, "items.create", {"n": number}, put("never"))
            assert caught.value.differs == (differs,)
        with pytest.raises(Rejected) as replaced:
            CF.transaction(database, "b", "items.create", {"n": 2}, put("never"))
        assert replaced.value.code == "replaced"
    assert items(w, "never") == 0


def test_a_schema_that_is_not_known_is_refused(w: World) -> None:
    w.stop()
    with closing(connect(w)) as database:
        database.execute("INSERT INTO counterfoil_migrations VALUES (99, zeroblob(32), 0)")
        database.commit()
        with pytest.raises(Refused, match="schema"):
            CF.transaction(database, "a", "items.create", {}, put("a"))
        database.execute("DELETE FROM counterfoil_migrations WHERE number = 99")
        database.commit()


def test_the_schema_is_the_newest_one() -> None:
    folder = ROOT / "crates/counterfoil/src/store/sqlite"
    files = sorted(folder.glob("[0-9]*.sql"))
    digests = tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    assert digests == KNOWN_MIGRATIONS, "read what the new migration is for, teach _door/_row.py, then add it here"


def test_the_rows_are_those_that_the_library_writes(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "planner")
    expected = json.loads((ROOT / "tests/vectors/door.json").read_text("utf-8"))
    with closing(connect(w)) as database:
        effect = Effect("item-1", RawJson('{"total":0.10}'))
        CF.transaction(database, "a", "items.create", RawJson('{"item":1}'), lambda _: effect, task="run-1")
        database.row_factory = sqlite3.Row
        operation = dict(database.execute("SELECT * FROM counterfoil_operations").fetchone())
        evidence = [dict(row) for row in database.execute("SELECT * FROM counterfoil_evidence WHERE account = 'kitchen'")]
    for name in ("body", "result"):
        operation[name] = json.loads(operation[name])
    for row in evidence:
        row["data"] = json.loads(row["data"])
        for name in ("position", "writer", "data_digest", "digest", "previous"):
            del row[name]
    assert plain(operation) == expected["operation"]
    assert [plain(row) for row in evidence] == expected["evidence"]


def plain(value: Any) -> Any:
    """Without instants, and with the caller's name as the vectors have it."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, int) and value > 1_000_000_000_000 or isinstance(value, str) and re.fullmatch(r"20\d\d-.*Z", value):
        return "instant"
    return "planner" if value == "os:planner" else value


def test_the_mark_follows_what_was_committed(w: World) -> None:
    w.stop()
    with closing(connect(w)) as database:
        CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
    mark = json.loads(Path(f"{w.database}.mark").read_text())
    with closing(connect(w)) as database:
        (position,) = database.execute("SELECT position FROM counterfoil_head").fetchone()
    assert mark["position"] == position
    w.start()
    assert w.cf.run("a", "items.create", {"n": 1}).reference == "item-1"


def test_texts_that_look_like_secrets_are_those_of_the_library() -> None:
    source = (ROOT / "crates/counterfoil/src/secret_shapes.rs").read_text("utf-8")
    tests = source[source.index("mod tests") :]
    sensitive = re.findall(r'\(Shape::(\w+), "([^"]+)"\)', tests)
    harmless = re.findall(r'^ {12}"([^"]*)",$', tests, re.M)
    assert len(sensitive) > 30 and len(harmless) > 30
    for shape, text in sensitive:
        assert looks_sensitive(text), f"{shape}: {text}"
    for text in harmless:
        assert looks_sensitive(text) is None, text


def test_what_the_effect_raises_takes_its_rows_back(w: World) -> None:
    def unsettled(database: sqlite3.Connection) -> Effect:
        database.execute("INSERT INTO items (operation) VALUES ('a')")
        raise Unsettled("unknown", operation_id="inner", message="a guarded call inside it")

    for own in (False, True):
        with closing(connect(w)) as database:
            if own:
                database.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unsettled):
                CF.transaction(database, "a", "items.create", {"n": 1}, unsettled)
            if own:
                database.commit()
            assert database.execute("SELECT count(*) FROM items").fetchone() == (0,)
            assert not w.client(["auditor"], "eye").find()
    with closing(connect(w)) as database:
        CF.transaction(database, "a", "items.create", {"n": 1}, put("a"))
        assert database.execute("SELECT count(*) FROM items").fetchone() == (1,)


def commits_by_itself(operation: str) -> Any:
    """An effect that breaks the rule of effects: what it did is there, and nobody knows of it."""

    def effect(database: sqlite3.Connection) -> None:
        put(operation)(database)
        database.execute("COMMIT")

    return effect


def kinds(w: World, operation: str) -> list[str]:
    return [row.kind for row in w.client(["auditor"], "audit").evidence(operation)]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("wished", [False, True])
def test_a_start_that_the_guard_held_back_is_remembered(w: World, own: bool, wished: bool) -> None:
    for operation in ("a", "b"):
        w.cf.prepare(operation, "items.create", {"n": 1})
    with closing(connect(w)) as database:

        def late(effect: Any = put("b")) -> Any:
            if own:
                database.execute("BEGIN IMMEDIATE")
            try:
                return CF.transaction(database, "b", "items.create", {"n": 1}, effect)
            finally:
                if own:
                    database.commit()

        if wished:
            w.client(["operator"], "ops").pause("items.create", "stop")
            with pytest.raises(Unsettled):
                late()
            w.client(["operator"], "ops").resume("items.create", "go")
        with pytest.raises(RuntimeError):
            CF.transaction(database, "a", "items.create", {"n": 1}, commits_by_itself("a"))
        for _ in range(2):
            with pytest.raises(Unsettled) as held:
                late()
            assert (held.value.kind, held.value.blockers, held.value.sent) == ("blocked", ("a",), "no")
        w.until("unknown", lambda: w.cf.get("a").state == "unknown")
        with pytest.raises(Unsettled):
            late()
        assert kinds(w, "b") == ["prepared", "wished", "held_back"]
        w.client(["approver"], "anna").resolve("a", "succeeded", "the row is there", reference="item-1")
        for _ in range(2):
            with pytest.raises(Unsettled) as asked:
                late()
            assert (asked.value.kind, asked.value.blockers) == ("approval", ("a",))
        assert items(w, "a") + items(w, "b") == 1
        found = w.cf.get("b").next
        assert (found.action, found.operation) == ("approve", "a")
        w.client(["approver"], "chef").approve("b", w.cf.get("b").fingerprint, acknowledges="a")
        assert late().source == "transaction" and late().replayed
    assert (items(w, "a"), items(w, "b")) == (1, 1)


@pytest.mark.parametrize("ends", ["succeeded", "released"])
def test_rolled_back_it_is_remembered_by_the_process(w: World, ends: str) -> None:
    for operation in ("a", "b"):
        w.cf.prepare(operation, "items.create", {"n": 1})

    def late(database: sqlite3.Connection) -> Any:
        with database:
            database.execute("INSERT INTO items (operation) VALUES ('other')")
            return CF.transaction(database, "b", "items.create", {"n": 1}, put("b"))

    with closing(connect(w)) as database:
        with pytest.raises(RuntimeError):
            CF.transaction(database, "a", "items.create", {"n": 1}, commits_by_itself("a"))
        with pytest.raises(Unsettled) as held:
            late(database)
        assert held.value.kind == "blocked" and not database.in_transaction
    assert kinds(w, "b") == ["prepared"] and items(w, "other") == 0
    w.until("unknown", lambda: w.cf.get("a").state == "unknown")
    anna = w.client(["approver"], "anna")
    if ends == "succeeded":
        anna.resolve("a", "succeeded", "the row is there", reference="item-1")
    else:
        anna.release("a", "nobody can tell")
    with closing(connect(w)) as database:
        if ends == "succeeded":
            for call in (late, late, lambda db: CF.transaction(db, "b", "items.create", {"n": 1}, put("b"))):
                with pytest.raises(Unsettled) as asked:
                    call(database)
                assert (asked.value.kind, asked.value.blockers) == ("approval", ("a",))
            assert items(w, "b") == 0 and kinds(w, "b") == ["prepared", "wished", "held_back"]
            anna.approve("b", w.cf.get("b").fingerprint, acknowledges="a")
        assert late(database).reference == "item-3"
    assert items(w, "b") == 1 and w.cf.get("b").state == "succeeded"


def later(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + days * 86_400_000_000_000)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("tool", "approved", "days", "code"),
    [
        ("items.create", False, 91, "not_started"),
        ("items.approved", False, 2, "approval_expired"),
        ("items.approved", True, 2, "approval_expired"),
        ("items.approved", False, 91, "approval_expired"),
    ],
)
def test_what_waited_too_long_does_not_run(
    w: World, monkeypatch: pytest.MonkeyPatch, own: bool, tool: str, approved: bool, days: int, code: str
) -> None:
    w.cf.prepare("a", tool, {"n": 1})
    if approved:
        w.client(["approver"], "chef").approve("a", w.cf.get("a").fingerprint)
    w.stop()
    later(monkeypatch, days)
    with closing(connect(w)) as database:
        for _ in range(2):
            if own:
                database.execute("BEGIN IMMEDIATE")
            with pytest.raises(Rejected) as over:
                CF.transaction(database, "a", tool, {"n": 1}, put("a"))
            assert over.value.code == code
            if own:
                database.commit()
        told = "SELECT stage, rejected_as, due_at FROM counterfoil_operations"
        assert database.execute(told).fetchall() == [("rejected", code, None)]
        lapsed = "SELECT by_kind, by_name, data FROM counterfoil_evidence WHERE kind = 'lapsed'"
        assert database.execute(lapsed).fetchall() == [("rule", "counterfoil", json.dumps({"code": code}, separators=(",", ":")))]
    assert items(w, "a") == 0


def test_the_rejection_of_an_effect_takes_its_rows_back(w: World) -> None:
    def rejected(database: sqlite3.Connection) -> Effect:
        put("a")(database)
        raise Rejected("a guarded call inside it", code="destination_rejected", detail=None, operation_id="inner")

    with closing(connect(w)) as database:
        with pytest.raises(Rejected):
            CF.transaction(database, "a", "items.create", {"n": 1}, rejected)
    assert items(w, "a") == 0 and not w.client(["auditor"], "eye").find()


@pytest.mark.parametrize("live", [False, True])
def test_a_tool_that_was_taken_out_does_not_run(w: World, live: bool) -> None:
    def take_over(tools: str) -> None:
        w.configure(tools)
        if live:
            log = w.folder / "server.log"
            seen = log.read_text().count("reloaded")
            os.kill(w.pid, signal.SIGHUP)
            w.until("reloaded", lambda: log.read_text().count("reloaded") > seen)
        else:
            w.stop()
            w.start()

    w.cf.prepare("open", "items.create", {"n": 1})
    without = TOOLS.replace('[tools."items.create"', '[tools."items.renamed"')
    with closing(connect(w)) as database:
        CF.transaction(database, "done", "items.create", {"n": 2}, put("done"))
        take_over(without)
        with pytest.raises(Refused) as gone:
            CF.transaction(database, "new", "items.create", {"n": 3}, put("new"))
        assert gone.value.code == "unknown-tool"
        with pytest.raises(Unsettled) as held:
            CF.transaction(database, "open", "items.create", {"n": 1}, put("open"))
        assert (held.value.kind, held.value.sent) == ("held", "no")
        assert CF.transaction(database, "done", "items.create", {"n": 2}, put("done")).replayed
        CF.transaction(database, "other", "items.renamed", {"n": 3}, put("other"))
        assert [items(w, operation) for operation in ("done", "new", "open", "other")] == [1, 0, 0, 1]
        take_over(TOOLS)
        CF.transaction(database, "new", "items.create", {"n": 3}, put("new"))
        CF.transaction(database, "open", "items.create", {"n": 1}, put("open"))
    assert [items(w, operation) for operation in ("new", "open")] == [1, 1]
