"""JSON with exact numbers: a writer that never rounds, and a strict reader that keeps every value's own text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Union

__all__ = ["MAX_DEPTH", "InvalidArguments", "Json", "Node", "RawJson", "encode", "loads", "parse"]

#: The deepest nesting of arguments; the arguments object itself is 1.
MAX_DEPTH = 64

#: The most digits of a number, as written.
MAX_DIGITS = 1_000

#: The largest exponent of a number, as written, either way.
MAX_EXPONENT = 10_000


@dataclass(frozen=True)
class RawJson:
    """A JSON text that goes out exactly as it is."""

    text: str


#: What can be written as JSON. Numbers keep their exact value: `int` of any size, `Decimal`, or `RawJson`.
Json = Union[None, bool, int, float, Decimal, str, RawJson, "Sequence[Any]", "Mapping[str, Any]"]


class InvalidArguments(ValueError):
    """A text that two readers may understand differently, or that is no JSON object."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"the arguments are refused: {reason.replace('_', ' ')} (at character {offset})")
        #: A stable word, as in the shared vectors.
        self.reason = reason
        #: Where, counted from 0.
        self.offset = offset


def encode(value: Json) -> str:
    """Writes a value as JSON text. What has no exact JSON spelling is refused, never rounded."""
    pieces: list[str] = []
    _write(value, pieces, 0)
    return "".join(pieces)


def _write(value: Any, out: list[str], depth: int) -> None:
    if depth > MAX_DEPTH + 1:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(json.dumps(str(value), ensure_ascii=False))
    elif isinstance(value, RawJson):
        out.append(value.text)
    elif isinstance(value, int):
        out.append(_integer_text(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("JSON has no spelling for NaN and infinities")
        out.append(float.__repr__(value))
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError("JSON has no spelling for NaN and infinities")
        out.append(str(value))
    elif isinstance(value, Mapping):
        _write_object(value, out, depth)
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        out.append("[")
        for at, element in enumerate(value):
            if at:
                out.append(",")
            _write(element, out, depth + 1)
        out.append("]")
    else:
        raise TypeError(f"a {type(value).__name__} has no JSON spelling")


def _write_object(value: Mapping[Any, Any], out: list[str], depth: int) -> None:
    out.append("{")
    for at, (name, member) in enumerate(value.items()):
        if not isinstance(name, str):
            raise TypeError(f"a member's name is a {type(name).__name__}, not a str")
        if at:
            out.append(",")
        out.append(json.dumps(str(name), ensure_ascii=False))
        out.append(":")
        _write(member, out, depth + 1)
    out.append("}")


def _integer_text(value: int) -> str:
    # Decimal has no limit on digits, which `str` of a large int has.
    return int.__repr__(value) if value.bit_length() < 10_000 else format(Decimal(value), "f")


def loads(text: str | bytes) -> Any:
    """Reads JSON with exact numbers: whole ones as `int`, all others as `Decimal`."""
    return json.loads(text, parse_int=_read_integer, parse_float=Decimal)


def _read_integer(digits: str) -> int:
    # Longer ones `int` refuses to read, as a defence against slow conversions: here the digits are bounded.
    return int(digits) if len(digits) < 4_000 else int(Decimal(digits))


@dataclass(frozen=True)
class Node:
    """A value and where it stands in the text."""

    #: `null`, `bool`, `number`, `string`, `array` or `object`.
    kind: str
    start: int
    end: int
    #: The text of a string, the elements of an array, the members of an object; else nothing.
    value: Any = None

    def member(self, name: str) -> Node | None:
        """The member of that name, where this is an object that has one."""
        if self.kind != "object":
            return None
        return next((node for own, node in self.value if own == name), None)


def parse(text: str | bytes, depth: int = MAX_DEPTH) -> Node:
    """Reads strictly: no duplicate member names, no lone surrogates, bounded numbers and nesting."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArguments("invalid_utf8", error.start) from None
    if text.startswith("\ufeff"):
        raise InvalidArguments("byte_order_mark", 0)
    reader = _Reader(text, depth)
    at = reader.blank(0)
    node = reader.value(at, 0)
    end = reader.blank(node.end)
    if end != len(text):
        raise InvalidArguments("trailing_data", end)
    return node


_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_HEX = re.compile(r"[0-9a-fA-F]{0,4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"n": ("null", "null"), "t": ("true", "bool"), "f": ("false", "bool")}


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth

    def blank(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def peek(self, at: int) -> str:
        return self.text[at : at + 1]

    def value(self, at: int, depth: int) -> Node:
        first = self.peek(at)
        if first == "{":
            return self.object(at, depth + 1)
        if first == "[":
            return self.array(at, depth + 1)
        if first == '"':
            text, end = self.string(at)
            return Node("string", at, end, text)
        if first in _WORDS and first:
            word, kind = _WORDS[first]
            if not self.text.startswith(word, at):
                raise InvalidArguments("syntax", at)
            return Node(kind, at, at + len(word))
        return self.number(at)

    def number(self, at: int) -> Node:
        found = _NUMBER.match(self.text, at)
        if not found:
            raise InvalidArguments("syntax", at)
        end = found.end()
        # What a number cannot be followed by belongs to a number that is none, such as `01` or `1.`.
        if self.peek(end) and self.peek(end) in "0123456789.eE+-":
            raise InvalidArguments("syntax", end)
        mantissa, _, exponent = found.group().lower().partition("e")
        digits = exponent.lstrip("+-").lstrip("0")
        if len(digits) > 5 or (digits and int(digits) > MAX_EXPONENT):
            raise InvalidArguments("exponent_too_large", at)
        if sum(digit.isdigit() for digit in mantissa) > MAX_DIGITS:
            raise InvalidArguments("too_many_digits", at)
        return Node("number", at, end)

    def string(self, at: int) -> tuple[str, int]:
        pieces: list[str] = []
        at += 1
        while True:
            found = _PLAIN.match(self.text, at)
            if found:
                pieces.append(found.group())
                at = found.end()
            stop = self.peek(at)
            if stop == '"':
                return "".join(pieces), at + 1
            if stop == "\\":
                piece, at = self.escape(at)
                pieces.append(piece)
            elif not stop:
                raise InvalidArguments("syntax", at)
            elif stop < " ":
                raise InvalidArguments("control_character", at)
            else:
                raise InvalidArguments("lone_surrogate", at)

    def escape(self, at: int) -> tuple[str, int]:
        letter = self.peek(at + 1)
        if not letter:
            raise InvalidArguments("syntax", at)
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        if letter != "u":
            raise InvalidArguments("invalid_escape", at)
        unit = self.unit(at)
        if not 0xD800 <= unit <= 0xDFFF:
            return chr(unit), at + 6
        if unit >= 0xDC00 or self.text[at + 6 : at + 8] != "\\u":
            raise InvalidArguments("lone_surrogate", at)
        low = self.unit(at + 6)
        if not 0xDC00 <= low <= 0xDFFF:
            raise InvalidArguments("lone_surrogate", at)
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), at + 12

    def unit(self, at: int) -> int:
        digits = self.text[at + 2 : at + 6]
        if not _HEX.fullmatch(digits):
            raise InvalidArguments("invalid_escape", at)
        if len(digits) < 4:
            raise InvalidArguments("syntax", at + 2 + len(digits))
        return int(digits, 16)

    def array(self, at: int, depth: int) -> Node:
        self.check_depth(at, depth)
        elements: list[Node] = []
        end = self.blank(at + 1)
        if self.peek(end) == "]":
            return Node("array", at, end + 1, elements)
        while True:
            element = self.value(end, depth)
            elements.append(element)
            end = self.blank(element.end)
            if self.peek(end) == "]":
                return Node("array", at, end + 1, elements)
            end = self.blank(self.expect(",", end))

    def object(self, at: int, depth: int) -> Node:
        self.check_depth(at, depth)
        members: list[tuple[str, Node]] = []
        names: set[str] = set()
        end = self.blank(at + 1)
        if self.peek(end) == "}":
            return Node("object", at, end + 1, members)
        while True:
            if self.peek(end) != '"':
                raise InvalidArguments("syntax", end)
            where = end
            name, end = self.string(end)
            if name in names:
                raise InvalidArguments("duplicate_member", where)
            names.add(name)
            end = self.blank(self.expect(":", self.blank(end)))
            node = self.value(end, depth)
            members.append((name, node))
            end = self.blank(node.end)
            if self.peek(end) == "}":
                return Node("object", at, end + 1, members)
            end = self.blank(self.expect(",", end))

    def expect(self, mark: str, at: int) -> int:
        if self.peek(at) != mark:
            raise InvalidArguments("syntax", at)
        return at + 1

    def check_depth(self, at: int, depth: int) -> None:
        if depth > self.depth:
            raise InvalidArguments("too_deep", at)
