"""How a guarded function is declared: who can establish whether it happened, and what the file must say too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Union

from ._json import Json
from ._send import Send

__all__ = ["Found", "Recovery", "idempotency_key", "lookup", "nothing", "unique_reference"]

#: A length of time: `"5m"` as the configuration spells it, or a `timedelta`.
Length = Union[str, timedelta]


@dataclass(frozen=True)
class Found:
    """A record at the destination."""

    reference: str
    #: What is kept with the receipt.
    result: Json = None


#: Looks at the destination for what was sent and returns everything it found: references, or `Found`.
Find = Callable[[Send], Union["Iterable[str | Found]", Awaitable["Iterable[str | Found]"]]]


@dataclass(frozen=True)
class Recovery:
    """Who can establish whether it happened."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    find: Find | None = None

    def declaration(self) -> dict[str, Any]:
        """As the section `recovery` of the file says it; what is not stated here is for the file to say."""
        stated = {name: _spelled(value) for name, value in self.facts.items() if value is not None}
        if self.find is not None:
            stated["lookup"] = "worker"
        return {"kind": self.kind, **stated}


def _spelled(value: Any) -> Any:
    return f"{round(value.total_seconds() * 1000)}ms" if isinstance(value, timedelta) else value


def idempotency_key(
    *,
    retention: Length | None = None,
    request_lifetime: Length | None = None,
    key_format: str | None = None,
    stored_errors: str | None = None,
    find: Find | None = None,
) -> Recovery:
    """The destination recognises `send.key` for `retention`: the function may then run again with the same key.

    It is repeated until `budget.elapsed` is over (15 minutes by default; `budget={"elapsed": "2h"}`), and never so late that
    the destination may have forgotten the key: `retention`, less `request_lifetime` and the skew of clocks.
    """
    facts = {
        "retention": retention,
        "request_lifetime": request_lifetime,
        "key_format": key_format,
        "stored_errors": stored_errors,
    }
    return Recovery("idempotency_key", facts, find)


def unique_reference(
    find: Find, *, unique_for: Length | None = None, request_lifetime: Length | None = None
) -> Recovery:
    """The destination refuses a used `send.reference`; `find` fetches the record that it belongs to."""
    return Recovery("unique_reference", {"unique_for": unique_for, "request_lifetime": request_lifetime}, find)


def lookup(
    find: Find,
    *,
    authoritative: bool,
    request_lifetime: Length | None = None,
    queue_time: Length | None = None,
    skew: Length | None = None,
) -> Recovery:
    """`find` can be asked for `send.reference`.

    A miss counts only if `find` is `authoritative` (complete and current) and the destination cannot carry out a request
    older than `request_lifetime`, nor keep an accepted one back longer than `queue_time`.
    """
    facts = {
        "authoritative": authoritative,
        "request_lifetime": request_lifetime,
        "queue_time": queue_time,
        "skew": skew,
    }
    return Recovery("lookup", facts, find)


def nothing(*, request_lifetime: Length | None = None, queue_time: Length | None = None) -> Recovery:
    """Nobody can say afterwards: at most one run, and a person decides where its outcome is not known."""
    return Recovery("none", {"request_lifetime": request_lifetime, "queue_time": queue_time})
