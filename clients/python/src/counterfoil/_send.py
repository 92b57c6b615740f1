"""What a guarded function is given: under which name it sends, and until when."""

from __future__ import annotations

import time

from ._claims import Claim
from ._errors import ClaimLost
from ._values import Attempt

__all__ = ["Send"]


class Send:
    """One attempt. Read `key` or `reference` right before the first byte goes out: too late, it raises `ClaimLost`."""

    def __init__(self, claim: Claim, until: float) -> None:
        self._claim = claim
        self._lost = False
        #: Until when the first byte may go out, by `time.monotonic()`; for a look-up, until when it is waited for.
        self.deadline = until

    def __repr__(self) -> str:
        return f"Send(id={self.id!r}, attempt={self.attempt})"

    @property
    def id(self) -> str:
        """The operation's ID."""
        return self._claim.operation_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; of the last one for a look-up."""
        return self._claim.attempt

    @property
    def earlier_attempts(self) -> tuple[Attempt, ...]:
        """The attempts before this one."""
        return self._claim.earlier_attempts

    @property
    def key(self) -> str:
        """The idempotency key to send: the same in every attempt."""
        self.check()
        if self._claim.key is None:
            raise LookupError("this tool has no key: its recovery is not idempotency_key")
        return self._claim.key

    @property
    def reference(self) -> str:
        """The reference to send, or to look for: the same in every attempt."""
        self.check()
        if self._claim.reference is None:
            raise LookupError("this tool has no reference: its recovery is neither unique_reference nor lookup")
        return self._claim.reference

    def late(self) -> bool:
        """Whether nothing may be sent any more."""
        sends = self._claim.mode == "send"
        return sends and (self._lost or time.monotonic() >= self.deadline)

    def check(self) -> None:
        """Raises `ClaimLost` once nothing may be sent any more."""
        if self.late():
            raise ClaimLost(self.id)

    def lose(self) -> None:
        """The claim is another's."""
        self._lost = True
