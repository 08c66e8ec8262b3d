"""Movement: views where NumPy can, copies where it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ingle.tensor.operation import Op


def _reshape(op: Op, x: np.ndarray) -> np.ndarray:
    return x.reshape(op.attributes["shape"])


def _permute_dims(op: Op, x: np.ndarray) -> np.ndarray:
    return x.transpose(op.attributes["axes"])


def _broadcast_to(op: Op, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, op.attributes["shape"])


KERNELS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "permute_dims": _permute_dims,
    "broadcast_to": _broadcast_to,
}
