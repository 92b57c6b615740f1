"""One request and its answer over HTTP/1.1, on a connection of its own. Nothing here is ever repeated."""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

__all__ = ["Address", "Answer", "Lost", "exchange", "exchange_async"]

#: The largest answer that is read.
MAX_ANSWER = 64 * 1024 * 1024

#: How long a connection may take.
CONNECT_WITHIN = 10.0


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Exception):
    """No whole answer came."""

    def __init__(self, why: str, *, written: bool) -> None:
        super().__init__(why)
        #: Whether a byte of the request may have gone out.
        self.written = written


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    tls: bool
    #: The path of a socket in the file system.
    unix: str | None
    #: What goes before every path.
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Reads `http://…`, `https://…` or `unix:PATH`."""
        if url.startswith("unix:"):
            return cls("localhost", 0, False, unquote(url[5:].removeprefix("//")), "")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a server: it begins with http://, https:// or unix:")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("the address of a server holds neither credentials nor a query")
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, None, parts.path.rstrip("/"))

    @property
    def name(self) -> str:
        """As it stands in the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, 443 if self.tls else 80) else f"{host}:{self.port}"


def _request(address: Address, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [f"{method} {address.prefix}{path} HTTP/1.1", f"Host: {address.name}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    elif method != "GET":
        lines.append("Content-Length: 0")
    head = "\r\n".join(lines).encode("latin-1")
    return head + b"\r\n\r\n" + (body or b"")


def exchange(
    address: Address, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: float
) -> Answer:
    """Sends a request and waits at most `timeout` seconds for each part of its answer."""
    request = _request(address, method, path, headers, body)
    try:
        connection = _connect(address, min(timeout, CONNECT_WITHIN))
    except OSError as error:
        raise Lost(f"no connection: {error}", written=False) from None
    with connection:
        try:
            connection.settimeout(timeout)
            connection.sendall(request)
            return _read(connection.makefile("rb"), method)
        except (OSError, http.client.HTTPException) as error:
            raise Lost(f"no answer: {_why(error)}", written=True) from None


def _connect(address: Address, timeout: float) -> socket.socket:
    if address.unix is not None:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            local.settimeout(timeout)
            local.connect(address.unix)
        except OSError:
            local.close()
            raise
        return local
    connection = socket.create_connection((address.host, address.port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.tls:
        return connection
    try:
        return ssl.create_default_context().wrap_socket(connection, server_hostname=address.host)
    except OSError:
        connection.close()
        raise


class _Bytes:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream = stream

    def makefile(self, *_args: object, **_more: object) -> io.BufferedIOBase:
        return self.stream


def _read(stream: io.BufferedIOBase, method: str) -> Answer:
    response = http.client.HTTPResponse(_Bytes(stream), method=method)  # type: ignore[arg-type]
    with response:
        response.begin()
        body = response.read(MAX_ANSWER + 1)
        if len(body) > MAX_ANSWER:
            raise http.client.HTTPException("the answer is too large")
        declared = response.length
        # With a limit, `read` returns what there is even where the connection ended early.
        if declared:
            raise http.client.IncompleteRead(body, declared)
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)


async def exchange_async(
    address: Address, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: float
) -> Answer:
    """As `exchange`, within `timeout` seconds in all."""
    request = _request(address, method, path, headers, body)
    try:
        reader, writer = await asyncio.wait_for(_open(address), min(timeout, CONNECT_WITHIN))
    except (OSError, asyncio.TimeoutError) as error:
        raise Lost(f"no connection: {_why(error)}", written=False) from None
    try:
        writer.write(request)
        raw = await asyncio.wait_for(_drain_and_read(reader, writer), timeout)
        return _read(io.BytesIO(raw), method)
    except (OSError, asyncio.TimeoutError, http.client.HTTPException) as error:
        raise Lost(f"no answer: {_why(error)}", written=True) from None
    finally:
        writer.close()


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.unix is not None:
        return await asyncio.open_unix_connection(address.unix)
    context = ssl.create_default_context() if address.tls else None
    return await asyncio.open_connection(address.host, address.port, ssl=context)


async def _drain_and_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Everything until the server closes, which it was asked to do."""
    await writer.drain()
    pieces: list[bytes] = []
    size = 0
    while piece := await reader.read(256 * 1024):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER + 64 * 1024:
            raise http.client.HTTPException("the answer is too large")
    return b"".join(pieces)


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
