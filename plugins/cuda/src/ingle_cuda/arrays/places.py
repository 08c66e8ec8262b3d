"""Places of what is not zero, whose number values say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.tensor.operation import Op

_MAGNITUDE = 0x7FFF
"""The bits of a half but for its sign."""


def _nonzero(xp: Any, op: Op, x: Any) -> Any:
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":  # CuPy has no bfloat16 everywhere
        x = xp.ascontiguousarray(x).view(xp.uint16) & xp.uint16(_MAGNITUDE)
    return xp.stack(xp.nonzero(x))


CALLS: dict[str, Callable[..., Any]] = {"nonzero": _nonzero}
"""Each takes CuPy, the operation and its operand."""
