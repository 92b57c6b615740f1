"""When a call is made again, decided without a network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterfoil import Refused, Unreachable, Unsettled
from counterfoil import _calls
from counterfoil._calls import Call
from counterfoil._tries import Tries
from counterfoil._wire import Address, Answer, Lost

RUN = _calls.execute("op-1", 0)
GET = _calls.get("op-1", 0)
NOTE = _calls.note("op-1", "text", None)


def problem(status: int, code: str, **more: Any) -> Answer:
    body = {"type": f"urn:counterfoil:problem:{code}", "detail": "why", "hint": "do", "sent": "no", **more}
    headers = {"retry-after": "2"} if status in (429, 503) else {}
    return Answer(status, headers, json.dumps(body).encode())


def tries(call: Call[Any], timeout: float = 60) -> Tries:
    return Tries(call, timeout, 0.0)


@pytest.mark.parametrize(("status", "code"), [(429, "too-many-requests"), (503, "store-unavailable")])
def test_busy_answers_are_followed_by_the_same_call_not_before_the_server_says(status: int, code: str) -> None:
    rest = tries(RUN).answered(problem(status, code), 1.0)
    assert rest is not None and rest >= 2.0


def test_a_busy_answer_at_the_deadline_says_that_nothing_was_sent() -> None:
    with pytest.raises(Unreachable) as caught:
        tries(RUN, 2).answered(problem(503, "store-full"), 1.0)
    assert (caught.value.code, caught.value.sent, caught.value.operation_id) == ("store-full", "no", "op-1")


def test_a_lost_answer_at_the_deadline_is_open_for_a_send_and_only_for_a_send() -> None:
    with pytest.raises(Unsettled) as caught:
        tries(RUN, 2).lost(Lost("reset", written=True), 3.0)
    assert (caught.value.kind, caught.value.sent) == ("unknown", "maybe")
    for call, lost in [(GET, Lost("reset", written=True)), (RUN, Lost("refused", written=False))]:
        with pytest.raises(Unreachable):
            tries(call, 2).lost(lost, 3.0)


def test_what_was_lost_once_stays_open_whatever_comes_later() -> None:
    lost = tries(RUN)
    lost.lost(Lost("reset", written=True), 1.0)
    lost.lost(Lost("refused", written=False), 2.0)
    with pytest.raises(Refused) as caught:
        lost.answered(problem(401, "unauthenticated"), 3.0)
    assert caught.value.sent == "maybe"
    with pytest.raises(Unsettled):
        lost.answered(problem(503, "store-unavailable"), 59.9)


def test_a_note_is_not_written_twice() -> None:
    with pytest.raises(Unreachable):
        tries(NOTE).lost(Lost("reset", written=True), 1.0)
    assert tries(NOTE).lost(Lost("refused", written=False), 1.0) >= 0


def test_delays_grow_and_are_jittered() -> None:
    many = [tries(RUN, 10_000) for _ in range(200)]
    for _ in range(8):
        rests = [one.lost(Lost("refused", written=False), 0.0) for one in many]
    assert max(rests) > 3.0 and min(rests) < 2.0 and len(set(rests)) > 100 and max(rests) <= 5.0


def test_a_gateway_in_between_is_no_answer() -> None:
    page = Answer(502, {}, b"<html>")
    rest = tries(RUN).answered(page, 1.0)
    assert rest is not None
    with pytest.raises(Unsettled):
        tries(RUN, 2).answered(page, 3.0)
    with pytest.raises(Refused) as caught:
        tries(RUN).answered(Answer(404, {}, b"<html>"), 1.0)
    assert caught.value.code == "not-counterfoil"


@pytest.mark.parametrize(
    ("code", "kind"), [("approval-required", "approval"), ("blocked-by-operation", "blocked"), ("in-progress", "in_progress")]
)
def test_an_operation_that_waits_is_no_conflict(code: str, kind: str) -> None:
    with pytest.raises(Unsettled) as caught:
        tries(RUN).answered(problem(409, code, operations=["op-0"], state="in_progress"), 1.0)
    assert (caught.value.kind, caught.value.sent, caught.value.blockers) == (kind, "no", ("op-0",))


def test_the_arguments_go_out_as_the_text_that_they_are() -> None:
    body = _calls.put_body('a "tool"', {"a": 1}, task="t", execute=True, subject=None)
    assert body == b'{"tool":"a \\"tool\\"","arguments":{"a":1},"task":"t","execute":true}'


@pytest.mark.parametrize("bad", ["", ".", ".."])
def test_ids_that_are_none_never_become_a_path(bad: str) -> None:
    with pytest.raises(ValueError):
        _calls.get(bad, 0)


def test_ids_are_whole_in_the_path() -> None:
    assert _calls.get("a/b?c#d", 0).path == "/v1/operations/a%2Fb%3Fc%23d"


@pytest.mark.parametrize("bad", ["ftp://x", "127.0.0.1:8787", "http://user:secret@host", "http://host?x=1"])
def test_addresses_that_are_none_are_refused(bad: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(bad)


def test_addresses() -> None:
    assert Address.parse("http://127.0.0.1:8787/").name == "127.0.0.1:8787"
    assert Address.parse("https://[::1]/cf").prefix == "/cf"
    assert Address.parse("unix:/run/cf.sock").unix == "/run/cf.sock"
