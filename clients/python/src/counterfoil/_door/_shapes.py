"""What must not become an ID or a task: texts that look like a secret or like personal data. As the server decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["looks_sensitive"]

#: Prefixes that vendors give their secrets, and how many letters, digits, `-` and `_` follow at least.
_MARKED = {
    "cf_": 40, "sk_live_": 4, "sk_test_": 4, "rk_live_": 4, "rk_test_": 4, "whsec_": 8, "sk-ant-": 8, "sk-proj-": 16,
    "sk-svcacct-": 16, "sk-or-v1-": 16, "ghp_": 8, "gho_": 8, "ghu_": 8, "ghs_": 8, "ghr_": 8, "github_pat_": 8,
    "glpat-": 8, "xoxb-": 4, "xoxp-": 4, "xoxa-": 4, "xoxr-": 4, "xoxs-": 4, "xapp-": 8, "AIza": 30, "npm_": 30,
    "pypi-Ag": 16, "hf_": 30, "dop_v1_": 30, "shpat_": 16, "shpss_": 16, "SG.": 16, "sq0csp-": 16, "ya29.": 16,
}

_MARKED_KEY = re.compile("|".join(f"{re.escape(prefix)}[A-Za-z0-9_-]{{{least}}}" for prefix, least in _MARKED.items()))
_SHORT_KEY = re.compile(r"(?:sk-|cf_)([A-Za-z0-9]{20,})")
_AMAZON = re.compile(r"(?:AKIA|ASIA)([A-Z0-9]*)")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{7,}\.(eyJ[A-Za-z0-9_-]+|[A-Za-z0-9_-]{4,}\.)")
_AUTHORIZATION = re.compile(r"authorization\s*[:=]", re.I)
_BEARER = re.compile(r"bearer[ \t:=_+]+([A-Za-z0-9._~+/=-]*)", re.I)
_ISSUERS = re.compile(
    r"3[47]\d{13}|4\d{15}|5[1-5]\d{14}|6[25]\d{14}|64[4-9]\d{13}|220[0-4]\d{12}|6011\d{12}"
    r"|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
)


def looks_sensitive(text: str) -> str | None:
    """What the text looks like; nothing where it looks harmless."""
    words = list(_words(text))
    if _is_card(text):
        return "a payment card number"
    if any(_is_authorization(word) for word in words):
        return "a bearer token"
    if any(_JWT.match(word) and _is_jwt(word) for word in words):
        return "a JSON Web Token"
    if any(_is_key(word) for word in words):
        return "an API key"
    return "an e-mail address" if _has_email(text) else None


def _words(text: str) -> Iterator[str]:
    """The rest of the text from every place where a row of letters and digits begins."""
    inside = False
    for at, letter in enumerate(text):
        if letter.isalnum() and not inside:
            yield text[at:]
        inside = letter.isalnum()


def _is_authorization(word: str) -> bool:
    if _AUTHORIZATION.match(word):
        return True
    found = _BEARER.match(word)
    token = found.group(1) if found else ""
    return len(token) >= 24 or (len(token) >= 6 and any(letter.isdigit() for letter in token))


def _is_jwt(word: str) -> bool:
    header, _, rest = word.partition(".")
    claims = "".join(_while(rest, lambda letter: letter.isascii() and (letter.isalnum() or letter in "-_")))
    return re.fullmatch(r"eyJ[A-Za-z0-9_-]{7,}", header) is not None and len(claims) >= 4


def _is_key(word: str) -> bool:
    if _MARKED_KEY.match(word):
        return True
    short = _SHORT_KEY.match(word)
    if short:
        row = short.group(1)
        return re.search("[a-z]", row) is not None and re.search("[0-9]", row) is not None
    amazon = _AMAZON.match(word)
    return amazon is not None and len(amazon.group(1)) == 16


def _has_email(text: str) -> bool:
    for found in re.finditer("@", text):
        before, rest = text[: found.start()][-1:], text[found.end() :]
        if not before or not (before.isalnum() or before in "._%+-'\""):
            continue
        domain = "".join(_while(rest, lambda letter: letter.isalnum() or letter in "-."))
        labels = domain.rstrip(".-").split(".")
        top = labels[-1]
        if len(top) >= 2 and (top.startswith("xn--") or top.isalpha()) and len(labels) > 1 and all(labels[:-1]):
            return True
    return False


def _while(text: str, of: Callable[[str], bool]) -> Iterator[str]:
    for letter in text:
        if not of(letter):
            return
        yield letter


def _is_card(text: str) -> bool:
    """15 or 16 digits, whatever separates them, of a known issuer and with a valid check digit."""
    if any(letter.isalpha() for letter in text):
        return False
    digits = "".join(letter for letter in text if "0" <= letter <= "9")
    return _ISSUERS.fullmatch(digits) is not None and _luhn(digits)


def _luhn(digits: str) -> bool:
    total = 0
    for at, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if at % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
