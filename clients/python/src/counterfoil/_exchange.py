"""Calls that block, made again as `Tries` says."""

from __future__ import annotations

import time
from typing import TypeVar

from ._calls import Call, NotOurs
from ._discovery import Place
from ._tries import Tries
from ._wire import Lost, exchange

__all__ = ["send"]

T = TypeVar("T")


def send(place: Place, call: Call[T], timeout: float) -> T:
    """Makes a call, and makes it again as `Tries` says, until `timeout`."""
    tries = Tries(call, timeout, time.monotonic(), place.found)
    headers = {"Authorization": f"Bearer {place.token}"}
    while True:
        patience = tries.patience(time.monotonic())
        try:
            answer = exchange(place.address, call.method, call.path, headers, call.body, patience)
        except Lost as lost:
            rest = tries.lost(lost, time.monotonic())
            if place.revive is not None and not lost.written:
                place.revive()
        else:
            later = tries.answered(answer, time.monotonic())
            if later is None:
                try:
                    return call.read(answer)
                except (NotOurs, KeyError, TypeError):
                    later = tries.unreadable(time.monotonic())
            rest = later
        time.sleep(rest)
