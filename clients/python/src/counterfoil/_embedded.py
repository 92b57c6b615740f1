"""A server of one's own: started beside the application on a private socket, or joined where one runs already.

The server is a child of whichever process started it, and ends with that process. Another process that had joined it
starts its own when it finds it gone; both work on the same ledger, so nothing is lost in between.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ._binary import find_binary
from ._discovery import Place
from ._wire import Address, Lost, exchange

__all__ = ["embedded"]

#: How long a server may take until it is ready, and to end, in seconds.
READY_WITHIN = 30.0
END_WITHIN = 10.0

#: The longest path of a socket that every system takes.
LONGEST_SOCKET = 100


@dataclass(frozen=True)
class _House:
    """Where the ledger and its configuration lie."""

    config: Path
    binary: str

    @property
    def private(self) -> Path:
        return self.config.parent / ".counterfoil"

    @property
    def socket(self) -> Path:
        return self.private / "embedded.sock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time starts a server or makes a token."""
        self.private.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(self.private / "embedded.lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def runs(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(str(self.socket))
        except OSError:
            return False
        return True

    def revive(self) -> None:
        """Starts a server where none runs."""
        with self.locked():
            if not self.runs():
                self._start()

    def _start(self) -> None:
        command = [self.binary, "serve", "--config", str(self.config), "--listen", f"unix:{self.socket}"]
        with (self.private / "embedded.log").open("ab") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        alarm = threading.Timer(READY_WITHIN, child.kill)
        alarm.start()
        try:
            line = child.stdout.readline() if child.stdout else b""
        finally:
            alarm.cancel()
        if not line.startswith(b"ready on "):
            child.kill()
            child.wait()
            raise RuntimeError(f"the embedded server did not start: see {self.private / 'embedded.log'}")
        atexit.register(_end, child)

    def token(self, account: str) -> str:
        """A token for this folder, kept where only its owner reads it."""
        path = self.private / "embedded.json"
        with self.locked():
            known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            token = known.get(account)
            if isinstance(token, str) and self._takes(token):
                return token
            words = ["token", "create", "--config", str(self.config), "--json", "--account", account]
            words += ["--principal", "embedded", "--role", "agent", "--role", "worker"]
            done = subprocess.run([self.binary, *words], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"no token could be made: {done.stderr.strip()}")
            made: str = json.loads(done.stdout)["token"]
            known[account] = made
            fresh = path.with_suffix(".new")
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(known, file)
            fresh.replace(path)
            return made

    def _takes(self, token: str) -> bool:
        headers = {"Authorization": f"Bearer {token}"}
        address = Address.parse(f"unix:{self.socket}")
        try:
            return exchange(address, "GET", "/v1/tools", headers, None, READY_WITHIN).status == 200
        except Lost:
            return False


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_WITHIN)
    except subprocess.TimeoutExpired:
        child.kill()


def embedded(path: str | os.PathLike[str], account: str, binary: str | None) -> Place:
    """See `Counterfoil.embedded`."""
    config = Path(path).resolve()
    if config.is_dir():
        config = config / "counterfoil.toml"
    if not config.is_file():
        raise ValueError(f"there is no {config}: `counterfoil init` makes one")
    house = _House(config, find_binary(binary))
    if len(str(house.socket).encode("utf-8")) > LONGEST_SOCKET:
        raise ValueError(f"the path of the socket is longer than {LONGEST_SOCKET} bytes: {house.socket}")
    house.revive()
    url = f"unix:{house.socket}"
    return Place(url, Address.parse(url), house.token(account), account, house.revive)
