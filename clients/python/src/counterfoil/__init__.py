"""Counterfoil: every write of an agent once.

```python
from counterfoil import Counterfoil, new_id

cf = Counterfoil()
operation_id = new_id()  # when the proposal is accepted; keep it with the pending work
receipt = cf.run(operation_id, "supplier.create_order", {"sku": "flour-25kg", "quantity": 10}, task="run-41")
print(receipt.reference)
```
"""

from ._aclient import AsyncCounterfoil
from ._asks import Condition, when
from ._client import Counterfoil
from ._door import Effect
from ._errors import ClaimLost, CounterfoilError, NotSent, Refused, Rejected, Unreachable, Unsettled
from ._fingerprint import Arguments, fingerprint
from ._json import InvalidArguments, RawJson
from ._keys import new_id
from ._recovery import Found, Recovery, idempotency_key, lookup, nothing, unique_reference
from ._send import Send
from ._tool import Guarded
from ._values import (
    Approval,
    Attempt,
    Closed,
    Event,
    Evidence,
    LookUp,
    Next,
    Operation,
    Page,
    Plan,
    Receipt,
    Rejection,
    Tool,
)

__version__ = "0.1.0"

__all__ = [
    "Approval",
    "Arguments",
    "AsyncCounterfoil",
    "Attempt",
    "ClaimLost",
    "Closed",
    "Condition",
    "Counterfoil",
    "CounterfoilError",
    "Effect",
    "Event",
    "Evidence",
    "Found",
    "Guarded",
    "InvalidArguments",
    "LookUp",
    "Next",
    "NotSent",
    "Operation",
    "Page",
    "Plan",
    "RawJson",
    "Receipt",
    "Recovery",
    "Refused",
    "Rejected",
    "Rejection",
    "Send",
    "Tool",
    "Unreachable",
    "Unsettled",
    "fingerprint",
    "idempotency_key",
    "lookup",
    "new_id",
    "nothing",
    "unique_reference",
    "when",
]
