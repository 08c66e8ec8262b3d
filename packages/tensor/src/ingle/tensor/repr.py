"""How a tensor prints: NumPy's values, then shape, dtype, device and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .tensor import Tensor


def tensor_repr(x: Tensor) -> str:
    """NumPy's summarising of the values, with what NumPy does not know."""
    values = x.numpy()
    if x.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    body = np.array2string(values, separator=", ", prefix="tensor(")
    shape = f", shape={x.shape}"
    return f"tensor({body}{shape}, dtype={x.dtype}, device={x.device}, backend={x.backend.name})"
