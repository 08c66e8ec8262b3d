"""`logit` at the ends of [0, 1] and beyond."""

import numpy as np
import pytest

import ingle.tensor as it


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_ends_and_what_lies_beyond(device):
    x = np.array([0.0, -0.0, 1.0, 0.5, -1e-30, 1.5, np.nan], np.float32)
    found = it.logit(it.asarray(x, device=device)).numpy()
    want = np.array([-np.inf, -np.inf, np.inf, 0.0, np.nan, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(found, want)
