"""Elementwise kernels: NumPy's ufuncs, which broadcast and take any strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ingle.tensor.operation import Op


def ufunc(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls a ufunc on its arrays."""

    def kernel(op: Op, *arrays: np.ndarray) -> Any:
        return function(*arrays)

    return kernel


def _astype(op: Op, x: np.ndarray) -> np.ndarray:
    # Out-of-range floats to integers are undefined in every library; NumPy warns, tensors do not.
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(op.attributes["dtype"].dtype)


def _square(op: Op, x: np.ndarray) -> Any:
    return np.multiply(x, x)


KERNELS: dict[str, Callable[..., Any]] = {
    "add": ufunc(np.add),
    "subtract": ufunc(np.subtract),
    "multiply": ufunc(np.multiply),
    "divide": ufunc(np.divide),
    "negative": ufunc(np.negative),
    "exp": ufunc(np.exp),
    "log": ufunc(np.log),
    "sqrt": ufunc(np.sqrt),
    "square": _square,
    "equal": ufunc(np.equal),
    "astype": _astype,
}
