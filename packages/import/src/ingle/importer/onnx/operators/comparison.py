"""Choosing by conditions."""

from __future__ import annotations

import numpy as np

from ..registry import operator
from ..values import Array, Value, host, is_string, namespace, together


@operator("Where")
def where(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition holds, else `y`."""
    return namespace(condition, x, y).where(condition, x, y)


@operator("Equal", 19)
def equal(x: Value, y: Value) -> Array:
    """Whether two are the same; strings too."""
    if is_string(x) or is_string(y):
        return np.asarray(host(x) == host(y))
    x, y = together([x, y], None)
    return namespace(x, y).equal(x, y)
