"""Where the server is: what the caller says, then the environment, then `.counterfoil/dev.json` from here upwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ._wire import Address

__all__ = ["Place", "discover"]

#: The largest `dev.json` that is read.
MAX_FILE = 64 * 1024


@dataclass(frozen=True)
class Place:
    """A server and the credentials for it."""

    url: str
    address: Address
    token: str
    account: str | None
    #: Brings the server back where it belongs to this process.
    revive: Callable[[], None] | None = None
    #: The server in words, and where it was found, for whoever cannot reach it.
    found: str = ""


def discover(url: str | None, token: str | None, account: str | None) -> Place:
    """Finds the server.

    Address and token come from one place each: a token from the environment is not sent to an address out of a file
    that lies in some folder above.
    """
    found = url or os.environ.get("COUNTERFOIL_URL")
    source = "" if url else ", from COUNTERFOIL_URL"
    secret = token or os.environ.get("COUNTERFOIL_TOKEN")
    if found is None:
        written = _dev_file(Path.cwd())
        if written is None:
            raise ValueError("no server is named: pass url=, set COUNTERFOIL_URL, or run `counterfoil dev` in this folder")
        path, members = written
        found, source = members.get("url"), f", from {path}: does `counterfoil dev` run?"
        secret = token or members.get("token")
        account = account or members.get("account")
    if not found or not secret:
        raise ValueError("no token: pass token= or set COUNTERFOIL_TOKEN (`counterfoil token create` makes one)")
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("the token holds characters that no token has")
    return Place(found, Address.parse(found), secret, account, found=f"{found}{source}")


def _dev_file(folder: Path) -> tuple[Path, dict[str, str]] | None:
    for above in (folder, *folder.parents):
        path = above / ".counterfoil" / "dev.json"
        if path.is_file():
            with path.open("rb") as file:
                members = json.loads(file.read(MAX_FILE))
            return path, {name: value for name, value in members.items() if isinstance(value, str)}
    return None
