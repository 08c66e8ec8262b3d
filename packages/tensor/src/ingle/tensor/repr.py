"""How a tensor prints: NumPy's values, then shape, dtype, device and backend.

A single value prints as the number alone where `str` is asked: in `print`, f-strings and progress
bars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .tensor import Tensor


def tensor_repr(x: Tensor) -> str:
    """NumPy's summarising of the values, with what NumPy does not know."""
    known = f", shape={x.shape}, dtype={x.dtype}, device={x.device}, backend={x.backend.name})"
    if x._handle.base().abstract:
        return f"tensor(no value{known}"
    values = x.numpy()
    if values.dtype.isbuiltin != 1:
        # NumPy does not know how to align the numbers of dtypes that are not its own.
        values = values.astype(np.float32 if x.dtype.holds == "float" else np.int8)
    body = np.array2string(values, separator=", ", prefix="tensor(")
    return f"tensor({body}{known}"


def tensor_str(x: Tensor) -> str:
    """The number of a 0-d tensor, shortest first; of others what `repr` says."""
    if x.shape or x._handle.base().abstract:
        return tensor_repr(x)
    values = x.numpy()
    return tensor_repr(x) if values.ndim else str(values[()])
