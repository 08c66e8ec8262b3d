"""Kernels compute where NumPy does not warn, and leave the user's own error state as it is."""

import warnings

import numpy as np
import pytest

import ingle.tensor as it


def test_kernels_are_silent_and_the_state_is_back() -> None:
    x = it.asarray([0.0, 1e38, -1e38], dtype="float32", device="numpy")
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = np.geterr()
        assert it.log(x).tolist()[0] == -np.inf
        assert (x * 1e38).tolist() == [0.0, np.inf, -np.inf]
        assert np.geterr() == before
        with pytest.raises(FloatingPointError):
            np.log(np.float32(0.0))


def test_the_state_is_back_after_an_error() -> None:
    before = np.geterr()
    x = it.asarray([[1.0, 2.0], [2.0, 4.0]], device="numpy")
    with pytest.raises(it.errors.LinearAlgebraError):
        it.linalg.inv(x).numpy()
    assert np.geterr() == before
