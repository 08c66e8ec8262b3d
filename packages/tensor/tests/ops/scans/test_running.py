"""Running extrema and sums of exponentials against PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import AxisError, DTypeError

pytestmark = pytest.mark.usefixtures("road")
RNG = np.random.default_rng(0)
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_extrema(like_torch: Any, name: str, axis: int) -> None:
    torch = pytest.importorskip("torch")
    x = RNG.integers(-3, 3, (4, 9, 5))
    values, indices = getattr(it, name)(it.asarray(x), axis=axis)
    expected = getattr(torch, name)(torch.tensor(x), axis)
    np.testing.assert_array_equal(values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), expected.indices.numpy())
    like_torch(
        lambda x: getattr(it, name)(x, axis=axis)[0],
        lambda x: getattr(torch, name)(x, axis).values,
        [x.astype(np.float64)],
        second=False,
    )


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extrema_of_nan(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.asarray([1.0, -INF, 5.0, NAN, 7.0, NAN, INF])
    values, indices = getattr(it, name)(it.asarray(x))
    expected = getattr(torch, name)(torch.tensor(x), 0)
    np.testing.assert_array_equal(values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), expected.indices.numpy())


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1,)])
def test_extrema_of_few(shape: Any) -> None:
    values, indices = it.cummax(it.zeros(shape))
    assert values.shape == indices.shape == shape


@pytest.mark.parametrize("axis", [0, 1])
def test_logcumsumexp(like_torch: Any, axis: int) -> None:
    torch = pytest.importorskip("torch")
    like_torch(
        lambda x: it.logcumsumexp(x, axis=axis),
        lambda x: torch.logcumsumexp(x, axis),
        [RNG.uniform(-20, 20, (6, 9))],
    )


def test_logcumsumexp_at_infinities() -> None:
    x = it.asarray([-INF, -INF, 0.0, 0.0, -INF], dtype="float64").require_grad()
    out = it.logcumsumexp(x)
    np.testing.assert_allclose(out.numpy(), np.logaddexp.accumulate(x.numpy()))
    assert it.logcumsumexp(it.asarray([0.0, INF, 1.0])).tolist() == [0.0, INF, INF]
    gradient = out[2:].sum().backward()[x].numpy()
    np.testing.assert_allclose(gradient[2:], [2.0, 1.0, 0.0])


def test_errors() -> None:
    with pytest.raises(AxisError, match="cummax"):
        it.cummax(it.zeros(2), axis=1)
    with pytest.raises(DTypeError, match="cummin: x must be ordered, got complex64"):
        it.cummin(it.zeros(2, dtype="complex64"))
    with pytest.raises(DTypeError, match="logcumsumexp"):
        it.logcumsumexp(it.zeros(2, dtype="complex64"))
