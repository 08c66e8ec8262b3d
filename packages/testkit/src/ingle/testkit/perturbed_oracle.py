"""The reference in float64 with errors of a lower precision: another right way of computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.contract import Backend
from ingle.tensor.device import Device, backend_of
from ingle.tensor.operation import OPERATIONS, Op

_EXACT = frozenset({"random_bits", "sort", "topk", "clip", "maximum", "minimum", "relu"})
"""Composites that round nothing: their kernels are only faster than their bodies."""
_ELEMENTARY = (
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "sqrt", "divide", "pow",
)  # fmt: skip


def perturbed(seed: int, eps: float) -> Backend:
    """The reference backend with composites as their bodies and errors where precision is lost.

    Elementary functions are off by up to `eps` of their result at random, sums by up to `eps` of
    what they would be if all terms had one sign. Matrix products are sums of k terms one after the
    other, which are off by up to the square root of k half units (Higham and Mary: A New Approach
    to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019).
    """
    plain: Any = backend_of("numpy")
    rng = np.random.default_rng(seed)
    kernels = {
        name: kernel
        for name, kernel in plain.kernels.items()
        if name in OPERATIONS and (OPERATIONS[name].body is None or name in _EXACT)
    }
    for name in _ELEMENTARY:
        kernels[name] = _off(kernels[name], rng, eps, lambda kernel, op, found, *x: found)
    for name, size in (("sum", _of_one_sign), ("matmul", _one_by_one)):
        kernels[name] = _off(kernels[name], rng, eps, size)
    made: Any = type(plain)(Device("numpy"))
    made.kernels = kernels
    return made  # type: ignore[no-any-return]


def _of_one_sign(kernel: Callable[..., Any], op: Op, found: Any, *x: Any) -> Any:
    return kernel(op, *[np.abs(a) for a in x])


def _one_by_one(kernel: Callable[..., Any], op: Op, found: Any, *x: Any) -> Any:
    return _of_one_sign(kernel, op, found, *x) * max(1.0, x[0].shape[-1] ** 0.5 / 2)


def _off(
    kernel: Callable[..., Any], rng: np.random.Generator, eps: float, size: Callable[..., Any]
) -> Callable[..., Any]:
    def run(op: Op, *x: Any) -> Any:
        found = np.asarray(kernel(op, *x))
        if found.dtype.kind != "f":
            return found
        return found + rng.uniform(-eps, eps, found.shape) * size(kernel, op, found, *x)

    return run
