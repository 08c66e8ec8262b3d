"""Activations against PyTorch, in the ordinary range and far from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("relu", "relu", {}),
    ("relu6", "relu6", {}),
    ("leaky_relu", "leaky_relu", {}),
    ("leaky_relu", "leaky_relu", {"negative_slope": 0.3}),
    ("elu", "elu", {}),
    ("elu", "elu", {"alpha": 0.7}),
    ("celu", "celu", {}),
    ("celu", "celu", {"alpha": 0.7}),
    ("selu", "selu", {}),
    ("gelu", "gelu", {}),
    ("gelu", "gelu", {"approximate": "tanh"}),
    ("silu", "silu", {}),
    ("mish", "mish", {}),
    ("sigmoid", "sigmoid", {}),
    ("logsigmoid", "logsigmoid", {}),
    ("hardsigmoid", "hardsigmoid", {}),
    ("hardswish", "hardswish", {}),
    ("hardtanh", "hardtanh", {}),
    ("hardtanh", "hardtanh", {"min_val": -2.0, "max_val": 0.5}),
    ("softplus", "softplus", {}),
    ("softplus", "softplus", {"beta": 2.0, "threshold": 3.0}),
    ("softsign", "softsign", {}),
    ("tanhshrink", "tanhshrink", {}),
    ("hardshrink", "hardshrink", {"lambd": 0.8}),
    ("softshrink", "softshrink", {"lambd": 0.8}),
]


@pytest.mark.parametrize(("name", "torch_name", "options"), CASES)
@pytest.mark.usefixtures("road")
def test_like_pytorch(like_torch: Any, name: str, torch_name: str, options: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).uniform(-8, 8, (5, 40))
    like_torch(
        lambda a: getattr(it, name)(a, **options),
        lambda a: getattr(functional, torch_name)(a, **options),
        [x],
        # PyTorch has no second derivative of these.
        second=name not in ("hardsigmoid", "hardswish", "mish"),
        # PyTorch rounds some constants to float32.
        rtol=1e-7,
        atol=1e-8,
    )


@pytest.mark.parametrize(("name", "torch_name", "options"), CASES)
def test_large_inputs(name: str, torch_name: str, options: Any) -> None:
    torch = pytest.importorskip("torch")
    values = np.array([-1e30, -1e4, -100.0, 100.0, 1e4, 1e30], np.float32)
    x = it.asarray(values).require_grad()
    out = getattr(it, name)(x, **options)
    t = torch.tensor(values, requires_grad=True)
    expected = getattr(torch.nn.functional, torch_name)(t, **options)
    expected.sum().backward()
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-30)
    got = out.sum().backward()[x].numpy()
    assert np.isfinite(got).all()
    # PyTorch's gelu has no gradient far out, and its softsign few digits.
    theirs = np.where(np.isnan(t.grad.numpy()), got, t.grad.numpy())
    np.testing.assert_allclose(got, theirs, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize(("name", "torch_name", "options"), CASES)
def test_nan_stays_nan(name: str, torch_name: str, options: Any) -> None:
    assert math.isnan(getattr(it, name)(it.asarray(math.nan), **options).item())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("name", "torch_name", "options"), CASES)
def test_dtypes_are_kept(name: str, torch_name: str, options: Any, dtype: str) -> None:
    x = it.asarray([-1.0, 0.5, 2.0], dtype=dtype).require_grad()
    out = getattr(it, name)(x, **options)
    assert out.dtype is x.dtype
    assert out.sum().backward()[x].dtype is x.dtype


def test_relu_passes_the_gradient_of_a_nan() -> None:
    x = it.asarray([math.nan, -1.0, 0.0, 1.0]).require_grad()
    assert it.relu(x).sum().backward()[x].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_integers_become_floats() -> None:
    assert it.elu(it.asarray([-1, 2])).dtype is it.float32


@pytest.mark.parametrize("weight", [(), (1,), (3,)])
@pytest.mark.usefixtures("road")
def test_prelu(like_torch: Any, weight: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 3, 5)), rng.standard_normal(weight)]
    like_torch(
        it.prelu, lambda x, w: torch.nn.functional.prelu(x, w.reshape(-1)), arrays, second=False
    )


@pytest.mark.usefixtures("road")
def test_threshold_and_glu(like_torch: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).standard_normal((4, 6))
    like_torch(
        lambda a: it.threshold(a, 0.1, 20.0), lambda a: functional.threshold(a, 0.1, 20.0), [x]
    )
    like_torch(lambda a: it.glu(a, axis=0), lambda a: functional.glu(a, dim=0), [x], second=False)


def test_bad_arguments() -> None:
    x = it.ones((2, 3))
    with pytest.raises(ShapeError, match="must be even"):
        it.glu(x)
    with pytest.raises(ArgumentError, match="'none' or 'tanh'"):
        it.gelu(x, approximate="yes")
    with pytest.raises(ShapeError, match="3 channels"):
        it.prelu(x, it.ones(2))
    with pytest.raises(ArgumentError, match="larger than max_val"):
        it.hardtanh(x, 2.0, 1.0)
    with pytest.raises(ArgumentError, match="lambd must not be negative"):
        it.softshrink(x, -1.0)
    with pytest.raises(DTypeError, match="relu"):
        it.relu(x.astype("complex64"))
