"""The fingerprint of an action: SHA-256 over one canonical form of tool name and arguments.

Equal fingerprints mean the same action. The canonical form drops what has no meaning in JSON (the order of members,
white space, the spelling of a number) and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from ._json import MAX_DEPTH, InvalidArguments, Json, Node, encode, parse

__all__ = ["Arguments", "canonical", "differing_members", "digest_of_members", "digest_of_text", "fingerprint", "resolve"]

#: The most bytes of arguments.
MAX_BYTES = 256 * 1024


class Arguments:
    """The exact text of one JSON object, and what it means."""

    __slots__ = ("root", "text")

    def __init__(self, text: str | bytes) -> None:
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if len(raw) > MAX_BYTES:
            raise ValueError(f"the arguments are larger than {MAX_BYTES} bytes")
        self.root = parse(raw, MAX_DEPTH)
        if self.root.kind != "object":
            raise InvalidArguments("not_an_object", 0)
        self.text = raw.decode("utf-8")

    @classmethod
    def of(cls, arguments: Json | Arguments) -> Arguments:
        """Takes what a caller passes as arguments."""
        return arguments if isinstance(arguments, Arguments) else cls(encode(arguments))


def fingerprint(tool: str, arguments: Json | Arguments, volatile: Iterable[str] = ()) -> str:
    """The fingerprint that the server computes for this action: `v1:` and 64 hex digits.

    `volatile` holds the JSON pointers of members that the tool's declaration leaves out.
    """
    text = canonical(tool, arguments, volatile)
    return "v1:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def canonical(tool: str, arguments: Json | Arguments, volatile: Iterable[str] = ()) -> str:
    """The text that is hashed."""
    held = Arguments.of(arguments)
    omitted = _omitted(held, volatile)
    pieces: list[str] = ['{"arguments":']
    _value(held.text, held.root, omitted, pieces)
    pieces += [',"tool":', _string(tool), "}"]
    return "".join(pieces)


def digest_of_text(text: str) -> bytes:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def digest_of_members(tool: str, arguments: Arguments, members: Iterable[str], volatile: Iterable[str]) -> str:
    """As `fingerprint`, over the members that these pointers name and nothing else."""
    omitted = _omitted(arguments, volatile)
    named: dict[str, Node] = {}
    for pointer in members:
        node = resolve(arguments.root, pointer)
        if node is not None:
            named[pointer] = node
    pieces: list[str] = ['{"guard":{']
    for at, pointer in enumerate(sorted(named, key=lambda text: text.encode("utf-16-be"))):
        pieces.append(("," if at else "") + _string(pointer) + ":")
        _value(arguments.text, named[pointer], omitted, pieces)
    pieces += ['},"tool":', _string(tool), "}"]
    return "v1:" + digest_of_text("".join(pieces)).hex()


def differing_members(mine: Arguments, theirs: Arguments, volatile: Iterable[str]) -> tuple[str, ...]:
    """The names of the top-level members that differ, never their values."""
    one, other = _members(mine, volatile), _members(theirs, volatile)
    names = sorted(one.keys() | other.keys(), key=lambda name: name.encode("utf-8"))
    return tuple(f"arguments.{name}" for name in names if one.get(name) != other.get(name))


def _members(arguments: Arguments, volatile: Iterable[str]) -> dict[str, str]:
    omitted = _omitted(arguments, volatile)
    found: dict[str, str] = {}
    for name, node in arguments.root.value:
        if node.start not in omitted:
            pieces: list[str] = []
            _value(arguments.text, node, omitted, pieces)
            found[name] = "".join(pieces)
    return found


def _omitted(arguments: Arguments, volatile: Iterable[str]) -> set[int]:
    """The starts of the members that are left out: a start belongs to one value only."""
    found = (_named(arguments.root, pointer) for pointer in volatile)
    return {node.start for node in found if node is not None}


def _value(text: str, node: Node, omitted: set[int], out: list[str]) -> None:
    if node.kind == "object":
        members = [member for member in node.value if member[1].start not in omitted]
        members.sort(key=lambda member: member[0].encode("utf-16-be"))
        out.append("{")
        for at, (name, value) in enumerate(members):
            out.append(("," if at else "") + _string(name) + ":")
            _value(text, value, omitted, out)
        out.append("}")
    elif node.kind == "array":
        out.append("[")
        for at, element in enumerate(node.value):
            if at:
                out.append(",")
            _value(text, element, omitted, out)
        out.append("]")
    elif node.kind == "string":
        out.append(_string(node.value))
    elif node.kind == "number":
        out.append(_number(text[node.start : node.end]))
    else:
        out.append(text[node.start : node.end])


def _string(text: str) -> str:
    # Escapes exactly what RFC 8785 escapes: quotes, backslashes and control characters below a space.
    return json.dumps(text, ensure_ascii=False)


def _number(written: str) -> str:
    sign = "-" if written.startswith("-") else ""
    mantissa, _, exponent = written.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    shift = int(exponent or "0") - len(fraction)
    kept = digits.rstrip("0")
    return f"{sign}{kept}e{shift + len(digits) - len(kept)}"


def _named(node: Node, pointer: str) -> Node | None:
    """The object member that a JSON pointer names; elements of arrays are never left out."""
    if not pointer.startswith("/"):
        return None
    *path, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
    for part in path:
        found = _step(node, part)
        if found is None:
            return None
        node = found
    return node.member(last)


def resolve(node: Node, pointer: str) -> Node | None:
    """The value that a JSON pointer names."""
    if not pointer:
        return node
    if not pointer.startswith("/"):
        return None
    for part in pointer[1:].split("/"):
        found = _step(node, part.replace("~1", "/").replace("~0", "~"))
        if found is None:
            return None
        node = found
    return node


def _step(node: Node, part: str) -> Node | None:
    if node.kind == "object":
        return node.member(part)
    index = part.isascii() and part.isdigit() and (part == "0" or not part.startswith("0"))
    if node.kind == "array" and index and int(part) < len(node.value):
        element: Node = node.value[int(part)]
        return element
    return None
