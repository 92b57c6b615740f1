"""The vectors that the library and every client share."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil import InvalidArguments, RawJson, fingerprint
from counterfoil._fingerprint import Arguments, canonical
from counterfoil._json import encode, loads
from counterfoil._keys import derive_key

ROOT = Path(__file__).resolve().parents[3]
VECTORS: dict[str, Any] = json.loads((ROOT / "tests/vectors/fingerprint.json").read_text("utf-8"))


def test_the_file_is_not_emptied() -> None:
    assert len(VECTORS["fingerprints"]) >= 100 and len(VECTORS["refused"]) >= 100 and len(VECTORS["keys"]) >= 10


def test_fingerprints_and_canonical_forms() -> None:
    for case in VECTORS["fingerprints"]:
        tool, volatile = case.get("tool", VECTORS["tool"]), case.get("volatile", [])
        raw = RawJson(case["arguments"])
        assert canonical(tool, raw, volatile) == case["canonical"], case.get("why")
        assert fingerprint(tool, raw, volatile) == case["fingerprint"], case.get("why")


def test_refused_arguments() -> None:
    for case in VECTORS["refused"]:
        text = case["arguments"] if "arguments" in case else bytes.fromhex(case["arguments_hex"])
        with pytest.raises(InvalidArguments) as caught:
            Arguments(text)
        assert caught.value.reason == case["reason"], case["why"]


def test_derived_keys() -> None:
    for case in VECTORS["keys"]:
        for key_format in ("hex32", "uuid", "base64url22", "quoted"):
            derived = derive_key(case["account"], case["operation_id"], case["generation"], key_format)
            assert derived == case[key_format]


def test_numbers_keep_their_exact_value_both_ways() -> None:
    huge = 10**4_999 + 7
    value = {"a": 9007199254740993, "b": Decimal("0.10"), "c": huge, "d": 0.1, "e": True, "f": [None, "ü\n"]}
    text = encode(value)
    assert text.startswith('{"a":9007199254740993,"b":0.10,"c":1000')
    back = loads(text)
    assert back == {**value, "d": Decimal("0.1")}
    assert isinstance(back["b"], Decimal) and back["c"] == huge


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), {1: 2}, {"a": b"x"}, {"a": {1}}])
def test_what_has_no_exact_spelling_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(value)
