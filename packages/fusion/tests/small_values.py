"""Values that tests of compiled functions are given."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it


def values(*numbers: float) -> it.Tensor:
    """Numbers in float32, on the default device."""
    return it.asarray(np.array(numbers, np.float32))
