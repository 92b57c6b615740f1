"""What a function's end proves, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from counterfoil import NotSent, Refused, Send, nothing
from counterfoil._tool import Definition, define, of_error, of_found, of_return


def defined(function: Any) -> Definition:
    return define(function, "mail.send", nothing(), None, None, None, None, 30.0)


def send(send: Send, text: str) -> Any:
    return text


async def later() -> str:
    return "later"


def test_a_promise_is_no_success() -> None:
    promise = later()
    for value in (promise, iter(["one"]), (part for part in ["one"]), Future[str]()):
        assert of_return(defined(send), value) == {"outcome": "unknown"}
    promise.close()
    assert asyncio.iscoroutinefunction(later)
    assert of_return(defined(send), ["one"])["outcome"] == "succeeded"


def test_a_generator_function_cannot_be_guarded() -> None:
    def lazy(send: Send) -> Iterator[str]:
        yield send.id

    with pytest.raises(TypeError, match="generator"):
        defined(lazy)


def test_only_a_refusal_of_the_functions_own_says_that_nothing_happened() -> None:
    assert of_error(Refused("no such address"))["outcome"] == "rejected"
    assert of_error(Refused("changed", code="operation-id-reused")) == {"outcome": "unknown"}
    assert of_error(NotSent("offline"))["outcome"] == "not_sent"


def test_a_look_up_returns_a_list_of_records() -> None:
    for found in ({"error": "not found"}, "order-1", b"order-1"):
        assert of_found(found) == {"outcome": "unknown"}
    assert of_found([]) == {"outcome": "absent"}
