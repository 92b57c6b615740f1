"""Calls that are awaited, made again as `Tries` says."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from ._calls import Call, NotOurs
from ._discovery import Place
from ._tries import Tries
from ._wire import Lost, exchange_async

__all__ = ["send"]

T = TypeVar("T")


async def send(place: Place, call: Call[T], timeout: float) -> T:
    """Makes a call, and makes it again as `Tries` says, until `timeout`."""
    tries = Tries(call, timeout, time.monotonic(), place.found)
    headers = {"Authorization": f"Bearer {place.token}"}
    while True:
        patience = tries.patience(time.monotonic())
        try:
            answer = await exchange_async(place.address, call.method, call.path, headers, call.body, patience)
        except Lost as lost:
            rest = tries.lost(lost, time.monotonic())
            if place.revive is not None and not lost.written:
                await asyncio.to_thread(place.revive)
        else:
            later = tries.answered(answer, time.monotonic())
            if later is None:
                try:
                    return call.read(answer)
                except (NotOurs, KeyError, TypeError):
                    later = tries.unreadable(time.monotonic())
            rest = later
        await asyncio.sleep(rest)
