"""Functions of half types have formulas of their own: their errors over all 65,536 numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile
from ingle.tensor.dtypes import DType

special: Any = pytest.importorskip("scipy.special")

Array = np.ndarray[Any, np.dtype[Any]]


def gelu(x: Array) -> Array:
    """`x` times the normal distribution function, whose tail SciPy has as a logarithm."""
    return x * np.where(x < 0, np.exp(special.log_ndtr(x)), special.ndtr(x))


def all_numbers(dtype: DType) -> it.Tensor:
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    return it.bitcast(it.asarray(bits, device="cpu"), dtype)


def wide(x: it.Tensor) -> Array:
    return np.asarray(x.astype(it.float32).numpy(), np.float64)


def last_places(exact: Array, dtype: DType) -> Array:
    """The distance of neighbours at each number."""
    exponent = np.frexp(exact)[1] - 1
    if dtype is it.bfloat16:
        return np.ldexp(1.0, np.maximum(exponent, -126) - 7)
    return np.ldexp(1.0, np.maximum(exponent, -14) - 10)


def gelu_by_tanh(x: Array) -> Array:
    return x * special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


FUNCTIONS: dict[str, tuple[Callable[[it.Tensor], it.Tensor], Callable[[Array], Array]]] = {
    "gelu": (it.gelu, gelu),
    "gelu by tanh": (lambda x: it.gelu(x, approximate="tanh"), gelu_by_tanh),
    "sigmoid": (it.sigmoid, special.expit),
    "silu": (it.silu, lambda x: x * special.expit(x)),
    "tanh": (it.tanh, np.tanh),
    "softplus": (it.softplus, lambda x: np.logaddexp(x, 0)),
    "softplus, steeper": (
        lambda x: it.softplus(x, 3.0, 5.0),
        lambda x: np.where(3 * x > 5, x, np.logaddexp(3 * x, 0) / 3),
    ),
    "mish": (it.mish, lambda x: x * np.tanh(np.logaddexp(x, 0))),
}


@pytest.mark.parametrize(("dtype", "bound"), [(it.bfloat16, 0.505), (it.float16, 0.56)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_of_all_half_numbers(name: str, dtype: DType, bound: float) -> None:
    function, reference = FUNCTIONS[name]
    x = all_numbers(dtype)
    got = wide(function(x))
    with np.errstate(all="ignore"):
        exact = reference(wide(x))
    finite = np.isfinite(exact)
    error = np.abs(got[finite] - exact[finite]) / last_places(exact[finite], dtype)
    assert error.max() <= bound
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(exact[finite]))
    np.testing.assert_array_equal(got[~finite], exact[~finite])
    # The formula follows from the operand's dtype, alone or among other operations.
    np.testing.assert_array_equal(wide(compile(lambda v: function(v) * 1.0)(x)), got)


@pytest.mark.parametrize("dtype", [it.bfloat16, it.float16])
def test_gelus_gradient_in_half_types(dtype: DType) -> None:
    x = np.linspace(-6, 6, 241)
    half = it.asarray(x.astype(np.float32), device="cpu").astype(dtype)
    x = wide(half)
    slope = special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    got = wide(compile(grad(lambda v: it.sum(it.gelu(v).astype(it.float32))))(half))
    np.testing.assert_allclose(got, slope, rtol=2.0**-8, atol=2.0**-12)
