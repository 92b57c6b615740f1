"""A practice supplier: a small HTTP service that keeps one durable row per effect, and loses replies when told to.

`POST /orders` makes an effect; `GET /orders?client_reference=…` finds effects. With `flavour="dedupe"` it honours the
header `Idempotency-Key` for 24 hours, with `"forgetful"` every request is a new effect, with `"unique-reference"` a second use of a
`client_reference` is answered 409.

As a process of its own: `python -m counterfoil.testing FILE FLAVOUR`. It prints its address and serves until
its standard input ends, so that it does not outlive whoever started it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["FLAVOURS", "Fault", "Service", "main"]

FLAVOURS = ("dedupe", "forgetful", "unique-reference")

#: How long a key is remembered, in seconds of the supplier's time.
KEYS_KEPT = 24 * 3600.0

#: The largest request that is read.
MAX_REQUEST = 4 * 1024 * 1024

_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    number    INTEGER PRIMARY KEY,
    key       TEXT,
    reference TEXT,
    body      TEXT NOT NULL,
    at        REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL);
"""


@dataclass
class Fault:
    """What goes wrong with one write, after or instead of its effect."""

    #: `lose_reply`, `kill` (of the process `value`, once the effect is there), `status` (no effect), `hang`.
    kind: str
    value: int = 0


class Service:
    """The supplier itself. Its effects lie in a file, so they outlive it."""

    def __init__(self, file: str, flavour: str = "dedupe") -> None:
        if flavour not in FLAVOURS:
            raise ValueError(f"{flavour!r} is none of {', '.join(FLAVOURS)}")
        self.flavour = flavour
        self._file = file
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._moved = 0.0
        self._released = threading.Event()
        with self._lock, closing(self._open()) as database:
            database.executescript(_SCHEMA)
        service = self

        class Handler(_Handler):
            supplier = service

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve(self) -> None:
        """Serves until `stop`."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def fault(self, fault: Fault) -> None:
        """Strikes the next write that no earlier fault is meant for."""
        with self._lock:
            self._faults.append(fault)

    def release(self) -> None:
        """Lets go of what hangs."""
        self._released.set()

    def advance(self, seconds: float) -> None:
        """Moves the supplier's time on."""
        with self._lock:
            self._moved += seconds

    def next_fault(self) -> Fault | None:
        with self._lock:
            return self._faults.pop(0) if self._faults else None

    def write(self, key: str | None, reference: str | None, body: str) -> tuple[int, dict[str, Any]]:
        """Commits one effect, unless the flavour recognises it."""
        with self._lock, closing(self._open()) as database, database:
            known = self._known(database, key, reference)
            if known is not None and known[2] != body and self.flavour == "dedupe":
                return 422, {"error": {"code": "key_reused"}}
            if known is not None and self.flavour == "unique-reference":
                return 409, {"error": {"code": "already_exists"}}
            if known is not None:
                return 201, _order(known[0], known[1])
            row = database.execute(
                "INSERT INTO effects (key, reference, body, at) VALUES (?, ?, ?, ?)", (key, reference, body, self._now())
            )
            return 201, _order(row.lastrowid or 0, reference)

    def _known(self, database: sqlite3.Connection, key: str | None, reference: str | None) -> Any:
        by = {"dedupe": ("key", key), "unique-reference": ("reference", reference)}.get(self.flavour)
        if by is None or by[1] is None:
            return None
        since = self._now() - KEYS_KEPT if self.flavour == "dedupe" else 0.0
        found = f"SELECT number, reference, body FROM effects WHERE {by[0]} = ? AND at > ?"
        return database.execute(found, (by[1], since)).fetchone()

    def _now(self) -> float:
        return time.time() + self._moved

    def search(self, reference: str) -> dict[str, Any]:
        """What exists under a reference, be it in the body or in the key."""
        with closing(self._open()) as database:
            rows = database.execute(
                "SELECT number, reference FROM effects WHERE reference = ?1 OR key = ?1", (reference,)
            ).fetchall()
        return {"orders": [_order(number, own) for number, own in rows]}

    def seen(self, method: str, path: str) -> None:
        with self._lock, closing(self._open()) as database, database:
            database.execute("INSERT INTO requests (method, path) VALUES (?, ?)", (method, path))

    def status(self) -> dict[str, Any]:
        with closing(self._open()) as database:
            effects = database.execute("SELECT number, key, reference, body FROM effects ORDER BY number").fetchall()
            requests = database.execute("SELECT method, path FROM requests ORDER BY number").fetchall()
        return {"effects": effects, "requests": requests}

    def hang(self) -> None:
        self._released.wait(60)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=30)


def _order(number: int, reference: str | None) -> dict[str, Any]:
    return {"id": f"po_{number}", "status": "created", "client_reference": reference}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    supplier: Service

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/practice/status":
            return self.answer(200, self.supplier.status())
        self.supplier.seen("GET", self.path)
        reference = parse_qs(parts.query).get("client_reference", [""])[0]
        return self.answer(200, self.supplier.search(reference))

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), MAX_REQUEST)).decode("utf-8")
        if self.path == "/practice/fault":
            self.supplier.fault(Fault(**json.loads(body)))
            return self.answer(200, {})
        if self.path == "/practice/advance":
            self.supplier.advance(float(json.loads(body)["seconds"]))
            return self.answer(200, {})
        if self.path == "/practice/release":
            self.supplier.release()
            return self.answer(200, {})
        self.supplier.seen("POST", self.path)
        return self.write(body)

    def write(self, body: str) -> None:
        fault = self.supplier.next_fault()
        if fault is not None and fault.kind == "status":
            return self.answer(fault.value, {"error": {"code": "injected"}})
        status, answer = self.supplier.write(self.headers.get("Idempotency-Key"), _reference(body), body)
        if fault is None:
            return self.answer(status, answer)
        if fault.kind == "kill":
            os.kill(fault.value, signal.SIGKILL)
        if fault.kind == "hang":
            self.supplier.hang()
            return self.answer(status, answer)
        # The effect is there; whoever asked does not learn of it.
        self.close_connection = True
        return None

    def answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _reference(body: str) -> str | None:
    try:
        members = json.loads(body)
    except ValueError:
        return None
    found = members.get("client_reference") if isinstance(members, dict) else None
    return found if isinstance(found, str) else None


def main() -> None:
    """Serves until standard input ends."""
    service = Service(sys.argv[1], *sys.argv[2:3])
    print(service.url, flush=True)
    threading.Thread(target=service.serve, daemon=True).start()
    sys.stdin.buffer.read()
    service.stop()
