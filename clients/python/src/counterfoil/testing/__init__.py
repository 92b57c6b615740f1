"""Tools for tests: a whole world with a supplier that misbehaves on purpose.

```python
from counterfoil import new_id
from counterfoil.testing import world

with world() as w:
    w.supplier.lose_reply()
    receipt = w.cf.run(new_id(), "supplier.create_order", {"sku": "flour-25kg"})
    assert len(w.supplier.effects) == 1
```

With pytest, the fixture `counterfoil_world` is such a world.
"""

from ._world import DEFAULT_TOOLS, Effect, Supplier, World, world

__all__ = ["DEFAULT_TOOLS", "Effect", "Supplier", "World", "world"]
