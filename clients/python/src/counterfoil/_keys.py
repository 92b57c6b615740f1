"""Operation IDs, and the keys that are derived from them."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import uuid

__all__ = ["derive_key", "new_id"]


def new_id() -> str:
    """A new operation ID: a UUIDv7. Mint it when the proposal is accepted, and keep it with the pending work."""
    stamp = time.time_ns() // 1_000_000 & (1 << 48) - 1
    value = stamp << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))


def derive_key(account: str, operation_id: str, generation: int = 1, key_format: str = "hex32") -> str:
    """The key or reference that goes out with every send of an operation, as the server derives it."""
    if key_format == "raw" and generation <= 1:
        return operation_id
    text = f"{account}\0{operation_id}"
    if generation > 1:
        text += f"\0{generation}"
    bits = hashlib.sha256(text.encode("utf-8")).digest()[:16]
    if key_format == "uuid":
        return str(uuid.UUID(bytes=bits, version=4))
    if key_format == "base64url22":
        return base64.urlsafe_b64encode(bits).decode("ascii").rstrip("=")
    if key_format == "quoted":
        return f'"{bits.hex()}"'
    if key_format in ("hex32", "raw"):
        return bits.hex()
    raise ValueError(f"{key_format!r} is none of hex32, uuid, base64url22, quoted, raw")
