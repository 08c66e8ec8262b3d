"""Fourier transforms of many numbers by SciPy, where it is installed: several rows in a vector.

Both libraries have pocketfft, and NumPy calls it for each row. With few numbers that is as good,
and SciPy takes a third of a second to load; so few transforms do without. Which library
it is follows from the number of elements alone, and so do the bits.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ingle.tensor.eager import Kernel
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op
from ingle_numpy.kernels import KERNELS as OF_NUMPY

from .threads.pool import thread_count

MANY = 1 << 14
"""Elements from which on SciPy pays."""
THREADS = 1 << 17
"""Elements for each thread that is worth waking."""
_without: list[str] = []
"""Why there is no SciPy: the error itself would keep what its first caller had."""


def _scipy() -> ModuleType | None:
    """SciPy's transforms; None where SciPy is not installed, which is found out once."""
    if _without:
        return None
    try:
        return late("scipy.fft")
    except ImportError as error:
        _without.append(str(error))
        return None


def _transform(name: str) -> Kernel:
    def kernel(op: Op, x: np.ndarray) -> Any:
        library = _scipy() if x.size >= MANY else None
        if library is None:
            return OF_NUMPY[name](op, x)
        workers = max(1, min(thread_count(), x.size // THREADS))
        return getattr(library, name)(x, workers=workers, **op.attributes)

    return kernel


KERNELS = OF_NUMPY | {name: _transform(name) for name in ("fftn", "ifftn", "irfft", "rfft")}
"""NumPy's of all operations, with these in their places."""
