"""Incomplete gamma functions of many numbers by SciPy, where it is installed.

NumPy's kernel takes as many passes over memory as its series have terms, times ten. SciPy goes
through them element by element, but loses places where a distribution's shape is large: a
millionth of the result from a shape of a million on. So it is taken for what is rounded to float32
at last, and not for these shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingle.tensor.eager import Kernel
from ingle.tensor.operation import Op
from ingle_numpy.kernels import KERNELS as OF_NUMPY

from .scipy_parts import scipy_part

MANY = 1 << 12
"""Elements from which on SciPy pays, which takes a third of a second to load."""
LARGE = 1e4
"""The shape up to which SciPy is exact to a hundredth of float32's last place."""


def _incomplete(name: str, function: str) -> Kernel:
    of_numpy = OF_NUMPY[name]

    def kernel(op: Op, a: np.ndarray, x: np.ndarray) -> Any:
        size = np.broadcast(a, x).size
        short = a.dtype.itemsize <= np.dtype(np.float32).itemsize
        library = scipy_part("scipy.special") if short and size >= MANY else None
        if library is None:
            return of_numpy(op, a, x)
        wide, at = a.astype(np.float64), x.astype(np.float64)
        found = np.asarray(getattr(library, function)(wide, at)).astype(a.dtype)
        large = np.broadcast_to(wide > LARGE, found.shape)
        if large.any():
            given = (np.broadcast_to(v, found.shape)[large] for v in (a, x))
            found[large] = of_numpy(op, *given)
        return found

    return kernel


KERNELS = {
    name: _incomplete(name, function)
    for name, function in (("igamma", "gammainc"), ("igammac", "gammaincc"))
}
"""In the places of NumPy's."""
