"""Which texts may name an operation, a task or an account."""

from __future__ import annotations

import re
from unicodedata import category

from .._errors import Refused
from ._shapes import looks_sensitive

__all__ = ["check_account", "check_id", "check_task"]

_ID = re.compile(r"[\x21-\x7e]{1,255}")
_ACCOUNT = re.compile(r"[A-Za-z0-9._:-]{1,64}")

#: The most bytes of a task.
MAX_TASK = 255


def check_id(text: str) -> None:
    if not _ID.fullmatch(text) or text in (".", ".."):
        raise _refused("an operation ID is 1 to 255 visible ASCII characters, and neither . nor ..", "invalid-operation-id")
    _check_shape(text, "an operation ID", "invalid-operation-id")


def check_task(text: str | None) -> None:
    if text is None:
        return
    if not text or len(text.encode("utf-8")) > MAX_TASK or any(category(letter) == "Cc" for letter in text):
        raise _refused(f"a task is 1 to {MAX_TASK} bytes without control characters", "invalid-request")
    _check_shape(text, "a task", "invalid-request")


def check_account(text: str | None) -> str:
    if text is None or not _ACCOUNT.fullmatch(text):
        raise ValueError("the door needs an account: Counterfoil(account=…), letters, digits and . _ : -")
    return text


def _check_shape(text: str, what: str, code: str) -> None:
    shape = looks_sensitive(text)
    if shape is not None:
        raise _refused(f"{what} that looks like {shape} is refused: it is logged, listed and sent to others", code)


def _refused(why: str, code: str) -> Refused:
    return Refused(why, code=code, hint="mint one with new_id()")
