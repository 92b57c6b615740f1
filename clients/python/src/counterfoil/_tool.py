"""A guarded function: its declaration, its arguments, and what its end means. No I/O."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, Union

from ._asks import Asks, spelled
from ._claims import Claim, decoded
from ._errors import NotSent, Refused
from ._fingerprint import Arguments
from ._json import encode
from ._recovery import Found, Recovery

__all__ = ["Definition", "Guarded", "define", "dress", "may_be_there", "of_error", "of_found", "of_record", "of_return", "without_result"]

R_co = TypeVar("R_co", covariant=True)

#: How a returned value names what was created: a member of it (`"id"`), a function of it, or nothing.
Reference = Union[str, "Callable[[Any], str | None]", None]

#: The longest reference, in bytes.
MAX_REFERENCE = 1024

#: The longest reason, in characters.
MAX_REASON = 500


class Guarded(Protocol[R_co]):
    """A guarded function, as callers see it. Its signature is that of the function without `send`."""

    definition: Definition

    def __call__(
        self, *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
    ) -> R_co:
        """Runs at most once for this ID, and returns what it returned, as it is kept.

        Where a person or a look-up established that it worked, nobody has what it returned: then this is the `result` of
        the look-up's `Found`, or `None`. `receipt` has the reference in every case.
        """

    def receipt(
        self, *args: Any, operation_id: str, task: str | None = None, subject: str | None = None, **arguments: Any
    ) -> Any:
        """The same call, for whoever wants the receipt (an awaitable of it where the function awaits)."""


@dataclass(frozen=True)
class Definition:
    """What is declared of a guarded function."""

    name: str
    function: Callable[..., Any]
    recovery: Recovery
    reference: Reference
    approval: Asks | None
    budget: Mapping[str, Any] | None
    scope: str | None
    lease: float
    signature: inspect.Signature

    def declaration(self) -> dict[str, Any]:
        """What the code says of the tool; the file decides, and a difference is refused."""
        stated: dict[str, Any] = {"recovery": self.recovery.declaration()}
        if self.approval is not None:
            stated["approval"] = spelled(self.approval)
        if self.budget is not None:
            stated["budget"] = dict(self.budget)
        if self.scope is not None:
            stated["worker"] = {"scope": self.scope}
        return stated

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, defaults included: what is approved is whole."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                found.update(value)
            else:
                found[name] = value
        return found

    def stored(self, claim: Claim, mine: Arguments | None, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the function is called with: what was stored first, which is what was approved.

        Where that is this call's own text, the values stay as they were passed.
        """
        if mine is not None and mine.text == claim.arguments.text:
            return dict(values)
        arguments: dict[str, Any] = decoded(claim)
        self.signature.bind(**arguments)
        return arguments


def define(
    function: Callable[..., Any],
    name: str,
    recovery: Recovery,
    reference: Reference,
    approval: Asks | None,
    budget: Mapping[str, Any] | None,
    scope: str | None,
    lease: float,
) -> Definition:
    """Takes a function apart. Its first parameter is `send`; the rest are the tool's arguments."""
    if not 1.0 <= lease <= 3600.0:
        raise ValueError("a lease is 1 to 3600 seconds")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__name__} is a generator: calling it does nothing yet")
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise TypeError(f"the first parameter of {function.__name__} must be `send`")
    for parameter in parameters[1:]:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(f"the parameter {parameter.name} has no name that an argument could be stored under")
        if parameter.name in ("operation_id", "task", "subject"):
            raise TypeError(f"the parameter {parameter.name} means something else to a guarded function")
    shown = signature.replace(parameters=parameters[1:])
    return Definition(name, function, recovery, reference, approval, budget, scope, lease, shown)


def dress(wrapper: Callable[..., Any], receipt: Callable[..., Any], definition: Definition) -> None:
    """Makes the wrapper look like the function without `send`, to whoever makes a schema of it."""
    function = definition.function
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(function, attribute, None))
    hidden = next(iter(inspect.signature(function).parameters))
    notes = {name: note for name, note in getattr(function, "__annotations__", {}).items() if name != hidden}
    wrapper.__annotations__ = notes
    wrapper.__signature__ = definition.signature  # type: ignore[attr-defined]
    wrapper.definition = definition  # type: ignore[attr-defined]
    wrapper.receipt = receipt  # type: ignore[attr-defined]


def of_return(definition: Definition, value: Any) -> dict[str, Any]:
    """The report of a function that returned."""
    if inspect.isawaitable(value) or isinstance(value, (Iterator, AsyncIterator, Future)):
        # What it returned is a promise: nothing of it need have happened.
        return {"outcome": "unknown"}
    try:
        reference = _reference(definition.reference, value)
    except Exception:
        # It may well have worked; but what proves it is missing.
        return {"outcome": "unknown"}
    report: dict[str, Any] = {"outcome": "succeeded"}
    if reference is not None:
        report["reference"] = reference
    if value is not None:
        try:
            encode(value)
        except (TypeError, ValueError) as error:
            text = f"{definition.name} returned something that has no JSON spelling ({error}): its receipt has no result"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            report["result"] = value
    return report


def _reference(wanted: Reference, value: Any) -> str | None:
    if wanted is None:
        return None
    if callable(wanted):
        found = wanted(value)
    else:
        found = value[wanted] if isinstance(value, Mapping) else getattr(value, wanted)
    if not isinstance(found, str) or not found or len(found.encode("utf-8")) > MAX_REFERENCE:
        raise LookupError("the reference that was declared is not there")
    return found


def of_error(error: BaseException) -> dict[str, Any]:
    """The report of a function that raised: unknown, unless it says otherwise."""
    if isinstance(error, NotSent):
        return {"outcome": "not_sent"}
    # A refusal that the server gave to a call inside the function says nothing about the function's own destination.
    # Nor does one of this client, which has a code of its own.
    own = isinstance(error, Refused) and error.problem is None and error.status is None and error.code == "refused"
    if own:
        return {"outcome": "rejected", "reason": str(error).strip()[:MAX_REASON] or "refused"}
    return {"outcome": "unknown"}


def of_found(found: Any) -> dict[str, Any]:
    """The report of a look-up."""
    if isinstance(found, (Mapping, str, bytes)):
        # One record, or an error, where a list of records belongs.
        return {"outcome": "unknown"}
    records = [record if isinstance(record, Found) else Found(record) for record in found]
    if any(not isinstance(record.reference, str) or not record.reference for record in records):
        return {"outcome": "unknown"}
    if not records:
        return {"outcome": "absent"}
    report: dict[str, Any] = {"outcome": "found", "reference": records[0].reference, "count": len(records)}
    if records[0].result is not None:
        report["result"] = records[0].result
    return report


def may_be_there(definition: Definition, claim: Claim, error: BaseException, report: Mapping[str, Any]) -> bool:
    """Whether the destination may have refused a copy of what it already has: then the record is looked up at once."""
    unique = definition.recovery.kind == "unique_reference" and claim.mode == "send"
    return unique and isinstance(error, Exception) and report["outcome"] == "unknown"


def of_record(found: Any) -> dict[str, Any]:
    """The report where that look-up ended: one record proves success, and nothing else proves anything."""
    report = of_found(found)
    if report["outcome"] != "found" or report.pop("count") != 1:
        return {"outcome": "unknown"}
    return {**report, "outcome": "succeeded"}


def without_result(report: Mapping[str, Any]) -> dict[str, Any]:
    """The same report where the server does not take its result."""
    return {name: value for name, value in report.items() if name != "result"}
