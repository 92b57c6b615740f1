"""Guarded functions for the tests: each posts to the practice supplier once, and looks there when it is asked to.

As a program it calls one of them, or works for all: `shop.py URL TOKEN SUPPLIER call NAME ID` or `… work`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from counterfoil import (
    Counterfoil,
    Found,
    Guarded,
    NotSent,
    Refused,
    Send,
    Unsettled,
    idempotency_key,
    lookup,
    nothing,
)

#: The same three tools in the server's file.
TOOLS = """
[tools."shop.keyed".worker]
[tools."shop.keyed".recovery]
kind = "idempotency_key"
key = "worker"
retention = "24h"
[tools."shop.keyed".budget]
first_delay = "50ms"
max_delay = "200ms"
[tools."shop.looked_up".worker]
[tools."shop.looked_up".recovery]
kind = "lookup"
reference = "worker"
lookup = "worker"
authoritative = true
request_lifetime = "1s"
queue_time = "0s"
skew = "0s"
[tools."shop.looked_up".budget]
first_delay = "50ms"
max_delay = "200ms"
[tools."shop.once".worker]
[tools."shop.once".recovery]
kind = "none"
"""

LEASE = 2.0

_opener = build_opener(ProxyHandler({}))


def ask(url: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, headers={"Content-Type": "application/json", **(headers or {})})
    with _opener.open(request, timeout=20) as answer:
        return json.load(answer)


class Shop:
    """The functions, and what the tests may make of them: `before` and `after` run around the effect."""

    def __init__(self, cf: Counterfoil, supplier: str) -> None:
        self.cf = cf
        self.supplier = supplier
        self.runs = 0
        self.before: Callable[[Send], None] = lambda send: None
        self.after: Callable[[], None] = lambda: None
        self.finds: Callable[[Send], Any] = self.find
        shop = self

        @cf.tool("shop.keyed", recovery=idempotency_key(retention="24h"), reference="id", lease=LEASE)
        def keyed(send: Send, sku: str, quantity: int = 1) -> dict[str, Any]:
            """Orders something.

            Twice the same key is one order.
            """
            shop.runs += 1
            shop.before(send)
            made = shop.post({"sku": sku, "quantity": quantity}, {"Idempotency-Key": send.key})
            shop.after()
            return made

        @cf.tool(
            "shop.looked_up",
            recovery=lookup(lambda send: shop.finds(send), authoritative=True, request_lifetime="1s", queue_time="0s"),
            reference="id",
            lease=LEASE,
        )
        def looked_up(send: Send, sku: str) -> dict[str, Any]:
            shop.runs += 1
            shop.before(send)
            made = shop.post({"sku": sku, "client_reference": send.reference})
            shop.after()
            return made

        @cf.tool("shop.once", recovery=nothing(), reference="id", lease=LEASE)
        def once(send: Send, sku: str) -> dict[str, Any]:
            shop.runs += 1
            shop.before(send)
            made = shop.post({"sku": sku})
            shop.after()
            return made

        self.keyed, self.looked_up, self.once = keyed, looked_up, once
        self.all: dict[str, Guarded[Any]] = {"keyed": keyed, "looked_up": looked_up, "once": once}

    def post(self, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = ask(f"{self.supplier}/orders", body, headers)
        return made

    def find(self, send: Send) -> list[Found]:
        found = ask(f"{self.supplier}/orders?client_reference={quote(send.reference)}")
        return [Found(order["id"], order) for order in found["orders"]]


def main() -> None:
    url, token, supplier, what, *more = sys.argv[1:]
    shop = Shop(Counterfoil(url, token, timeout=float(os.environ.get("SHOP_TIMEOUT", "20"))), supplier)
    pause = float(os.environ.get("SHOP_PAUSE", "0"))
    place = os.environ.get("SHOP_PAUSES", "before")
    if place == "before":
        shop.before = lambda send: _reach(pause)
    else:
        shop.after = lambda: _reach(pause)
    if what == "work":
        print("working", flush=True)
        shop.cf.worker(list(shop.all.values()), concurrency=2, lease=LEASE).run()
        return
    name, operation = more
    try:
        print(shop.all[name](sku=operation, operation_id=operation)["id"], flush=True)
    except (Unsettled, Refused, NotSent) as error:
        print(type(error).__name__, getattr(error, "kind", ""), flush=True)


def _reach(pause: float) -> None:
    if pause:
        print("there", flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    main()
