"""Comparison of values bit by bit, for assertions.

pytest explains a failed `==` of two byte strings by a diff of all of their bytes wherever `CI` is
set, which takes hours for a few megabytes; of a function it says that it was false.
"""

from __future__ import annotations

import numpy as np

from ingle.tensor import Tensor


def same_bits(a: np.ndarray | Tensor, b: np.ndarray | Tensor) -> bool:
    """Whether two arrays or tensors have one shape and the same bits, NaN and -0.0 told apart."""
    left, right = (x.numpy() if isinstance(x, Tensor) else x for x in (a, b))
    return left.shape == right.shape and left.tobytes() == right.tobytes()
