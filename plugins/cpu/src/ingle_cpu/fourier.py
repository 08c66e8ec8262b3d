"""Fourier transforms of many numbers by SciPy, where it is installed: several rows in a vector.

Both libraries have pocketfft, and NumPy calls it for each row. With few numbers that is as good,
and SciPy takes a third of a second to load; so few transforms do without. Which library
it is follows from the number of elements alone, and so do the bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingle.tensor.eager import Kernel
from ingle.tensor.operation import Op
from ingle_numpy.kernels import KERNELS as OF_NUMPY

from .scipy_parts import scipy_part
from .threads.pool import thread_count

MANY = 1 << 14
"""Elements from which on SciPy pays."""
THREADS = 1 << 17
"""Elements for each thread that is worth waking."""


def _transform(name: str) -> Kernel:
    def kernel(op: Op, x: np.ndarray) -> Any:
        library = scipy_part("scipy.fft") if x.size >= MANY else None
        if library is None:
            return OF_NUMPY[name](op, x)
        workers = max(1, min(thread_count(), x.size // THREADS))
        return getattr(library, name)(x, workers=workers, **op.attributes)

    return kernel


KERNELS = OF_NUMPY | {name: _transform(name) for name in ("fftn", "ifftn", "irfft", "rfft")}
"""NumPy's of all operations, with these in their places."""
