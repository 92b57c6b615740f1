"""When a person is asked first, as code declares it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Union

__all__ = ["Asks", "Condition", "spelled", "when"]

Number = Union[int, float, Decimal]


@dataclass(frozen=True)
class Condition:
    """A condition on one argument. One that is absent, or of another type, counts as met."""

    #: JSON pointer to the argument, such as `/total`.
    at: str
    comparison: Literal["greater_than", "less_than", "equals"]
    value: str | bool | Number

    def declaration(self) -> dict[str, Any]:
        """As the file spells it; a bound keeps every digit."""
        exact = isinstance(self.value, Decimal) and self.comparison != "equals"
        return {"at": self.at, self.comparison: str(self.value) if exact else self.value}


#: `"required"`, `"none"`, or conditions of which one is enough.
Asks = Union[Literal["none", "required"], Condition, Sequence[Condition]]


def when(
    at: str,
    *,
    greater_than: Number | None = None,
    less_than: Number | None = None,
    equals: str | bool | Number | None = None,
) -> Condition:
    """A person is asked where the argument at this JSON pointer compares so: `when("/total", greater_than=500)`."""
    if not at.startswith("/"):
        raise ValueError(f"{at!r} is no JSON pointer: it begins with a slash, as in '/total'")
    if sum(value is not None for value in (greater_than, less_than, equals)) != 1:
        raise ValueError("a condition is one of greater_than, less_than and equals")
    if equals is not None:
        return Condition(at, "equals", equals)
    bound = greater_than if greater_than is not None else less_than
    if isinstance(bound, bool) or not isinstance(bound, (int, float, Decimal)) or not math.isfinite(bound):
        raise TypeError(f"{bound!r} is no number that something could be above or below")
    return Condition(at, "greater_than" if greater_than is not None else "less_than", bound)


def spelled(asks: Asks) -> str | dict[str, Any]:
    """As `approval` in the file."""
    if isinstance(asks, str):
        return asks
    conditions = [asks] if isinstance(asks, Condition) else list(asks)
    return {"when": [condition.declaration() for condition in conditions]}
