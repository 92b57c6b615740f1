"""A world for tests: a practice supplier, a ledger, and the product's own server as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from .._aclient import AsyncCounterfoil
from .._binary import find_binary
from .._client import Counterfoil
from .supplier import Fault, Service

__all__ = ["DEFAULT_TOOLS", "Effect", "Supplier", "World", "world"]

#: One tool, `supplier.create_order`, whose supplier honours an idempotency key. `{supplier}` stands for its address.
DEFAULT_TOOLS = """
[tools."supplier.create_order"]
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
receipt_reference = "/id"
[tools."supplier.create_order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
"""

#: The account of a world.
ACCOUNT = "kitchen"

#: Seconds of each unit of a length of time.
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

#: How long a server may take until it is ready, and to end, in seconds.
READY_WITHIN = 30.0

_opener = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class Effect:
    """Something that happened at the supplier."""

    number: int
    key: str | None
    reference: str | None
    body: str


class Supplier:
    """A handle on a practice supplier, in this process or another."""

    def __init__(self, url: str) -> None:
        #: `http://127.0.0.1:PORT`.
        self.url = url

    @property
    def effects(self) -> list[Effect]:
        """Everything that happened, in order."""
        return [Effect(*row) for row in self._ask("status")["effects"]]

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and path of everything that was asked."""
        return [(method, path) for method, path in self._ask("status")["requests"]]

    def lose_reply(self, times: int = 1) -> None:
        """The next writes take effect, and their answers never arrive."""
        for _ in range(times):
            self._fault(Fault("lose_reply"))

    def advance(self, seconds: float) -> None:
        """Moves the supplier's time on; it remembers a key for a day."""
        self._ask("advance", {"seconds": seconds})

    def kill_after_effect(self, process: int) -> None:
        """The next write takes effect, then that process is killed (-9) before it learns of it."""
        self._fault(Fault("kill", process))

    def answer_next(self, status: int) -> None:
        """The next write has no effect and is answered with that status."""
        self._fault(Fault("status", status))

    def hang(self) -> None:
        """The next write takes effect, and its answer comes with `release`."""
        self._fault(Fault("hang"))

    def release(self) -> None:
        """Lets go of what hangs."""
        self._ask("release", {})

    def _fault(self, fault: Fault) -> None:
        self._ask("fault", {"kind": fault.kind, "value": fault.value})

    def _ask(self, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode("utf-8")
        with _opener.open(Request(f"{self.url}/practice/{what}", data=data), timeout=30) as answer:
            return json.load(answer)


class World:
    """See `world`."""

    def __init__(self, folder: Path, supplier: Supplier, binary: str, tools: str, server: str) -> None:
        #: Where the configuration and the ledger lie.
        self.folder = folder
        self.supplier = supplier
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._port = 0
        self._tokens: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self._server = server
        self._tools = tools
        self.configure(tools)

    def configure(self, tools: str) -> None:
        """Writes the configuration anew; it counts from the next start on."""
        listen = f"127.0.0.1:{self._port}"
        text = f'[server]\nlisten = "{listen}"\ndatabase = "sqlite:.counterfoil/ledger.db"\n{self._server}\n{tools}'
        path = self.folder / "counterfoil.toml"
        path.write_text(text.replace("{supplier}", self.supplier.url), "utf-8")
        self._tools = tools

    @property
    def database(self) -> Path:
        """The ledger."""
        return self.folder / ".counterfoil" / "ledger.db"

    @property
    def url(self) -> str:
        """Where the server listens; it stays the same over restarts."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The server's process."""
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    @property
    def cf(self) -> Counterfoil:
        """A client that may do what an application and its workers may."""
        return self.client()

    def client(
        self, roles: Sequence[str] = ("agent", "worker"), principal: str = "app", account: str = "kitchen", timeout: float = 30.0
    ) -> Counterfoil:
        """A client with a token of its own kind."""
        return Counterfoil(self.url, self.token(roles, principal, account), account, timeout=timeout)

    def async_client(
        self, roles: Sequence[str] = ("agent", "worker"), principal: str = "app", account: str = "kitchen", timeout: float = 30.0
    ) -> AsyncCounterfoil:
        """As `client`, for code that awaits."""
        return AsyncCounterfoil(self.url, self.token(roles, principal, account), account, timeout=timeout)

    def token(self, roles: Sequence[str], principal: str, account: str) -> str:
        """A token, made as an operator would make it."""
        wanted = (account, principal, tuple(roles))
        if wanted not in self._tokens:
            words = ["token", "create", "--json", "--account", account, "--principal", principal]
            for role in roles:
                words += ["--role", role]
            self._tokens[wanted] = json.loads(self.command(*words))["token"]
        return self._tokens[wanted]

    def command(self, *words: str) -> str:
        """Runs the command line in the world's folder and returns what it printed."""
        done = subprocess.run(
            [self._binary, *words], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"counterfoil {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def start(self) -> None:
        """Starts the server and waits until it is ready."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "--account", ACCOUNT, "dev", "--declared-only", "--port", str(self._port)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._port = self._ready_port(self._process)
        # From now on it listens where clients already know it.
        self.configure(self._tools)

    def _ready_port(self, process: subprocess.Popen[bytes]) -> int:
        alarm = threading.Timer(READY_WITHIN, process.kill)
        alarm.start()
        try:
            stream = process.stdout
            line = stream.readline().decode("utf-8").strip() if stream else ""
        finally:
            alarm.cancel()
        ready = re.match(r"ready on http://127\.0\.0\.1:(\d+)\b", line)
        if ready is None:
            process.kill()
            log = (self.folder / "server.log").read_text("utf-8", "replace")
            raise RuntimeError(f"the server is not ready: {line} {log[-2000:]}")
        # What it tells of each event goes to the log, so that it never waits for a reader.
        self._keeper = threading.Thread(target=self._keep, args=(process,), daemon=True)
        self._keeper.start()
        return int(ready[1])

    def _keep(self, process: subprocess.Popen[bytes]) -> None:
        with (self.folder / "server.log").open("ab") as log:
            for line in process.stdout or ():
                log.write(line)
                log.flush()

    def advance(self, by: str) -> None:
        """Moves time on, `"25h"` say: the ledger's clocks, and with them the supplier's, which knows keys for a day."""
        length = re.fullmatch(r"(\d+)(ms|s|m|h|d)", by)
        if length is None:
            raise ValueError(f"{by!r} is no length of time such as '25h'")
        body = json.dumps({"advance": by}).encode()
        with _opener.open(Request(f"{self.url}/dev/clock", body, method="POST"), timeout=30) as answer:
            answer.read()
        self.supplier.advance(int(length[1]) * _UNITS[length[2]])

    def kill(self) -> None:
        """Kills the server (-9)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server as an operator does."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kills the server and starts it again on the same ledger, at the same address."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Stops the server in its tracks until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill_after_effect(self) -> None:
        """The supplier's next effect kills the server (-9) before it learns of it."""
        self.supplier.kill_after_effect(self.pid)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(READY_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._keeper is not None:
            self._keeper.join(READY_WITHIN)
        if process.stdout is not None:
            process.stdout.close()

    def until(self, what: str, done: Any, seconds: float = 30.0) -> Any:
        """Waits until `done()` is true, and returns it."""
        deadline = time.monotonic() + seconds
        while not (found := done()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never {what}")
            time.sleep(0.02)
        return found


@contextmanager
def world(
    tools: str = DEFAULT_TOOLS,
    *,
    flavour: str = "dedupe",
    server: str = 'lease = "2s"',
    binary: str | None = None,
    supplier_process: bool = False,
) -> Iterator[World]:
    """A practice supplier and a running server in a folder of their own; both end with the block.

    `tools` is the part of `counterfoil.toml` that declares them, with `{supplier}` for the supplier's address; `server`
    holds further lines of `[server]`. The binary is `binary`, `COUNTERFOIL_BINARY`, that of the wheel, or `counterfoil` on the path. With
    `supplier_process` the supplier is a process of its own.
    """
    program = find_binary(binary)
    with tempfile.TemporaryDirectory(prefix="counterfoil-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        running = _process if supplier_process else _thread
        with running(folder / "supplier.db", flavour) as supplier:
            made = World(folder, supplier, program, tools, server)
            made.start()
            try:
                yield made
            finally:
                made.kill()


@contextmanager
def _thread(file: Path, flavour: str) -> Iterator[Supplier]:
    service = Service(str(file), flavour)
    thread = threading.Thread(target=service.serve, daemon=True)
    thread.start()
    try:
        yield Supplier(service.url)
    finally:
        service.stop()
        thread.join()


@contextmanager
def _process(file: Path, flavour: str) -> Iterator[Supplier]:
    command = [sys.executable, "-m", "counterfoil.testing", str(file), flavour]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            line = child.stdout.readline() if child.stdout else b""
            yield Supplier(line.decode("utf-8").strip())
        finally:
            child.kill()
