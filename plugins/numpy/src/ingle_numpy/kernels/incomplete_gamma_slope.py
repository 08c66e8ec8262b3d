"""The derivative of the regularized incomplete gamma function P(a, x) by its shape a, in float64.

The series of P and the continued fraction of Q are differentiated term by term, as in Moore,
Algorithm AS 187: Derivatives of the incomplete gamma integral (1982), and so is Temme's expansion.
Where each one is taken its terms have one sign, or nearly so, and little cancels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

from .incomplete_gamma import (
    C0,
    LARGE,
    STIRLING,
    Array,
    factor,
    repeated,
    uniform_angle,
)


def _kernel(op: Op, a: Array, x: Array) -> Any:
    wide = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    at, to = (np.ravel(v) for v in wide)
    found = np.full(at.shape, np.nan)
    known = (at >= 0) & (to >= 0) & ~((at == 0) & (to == 0))
    found[known] = 0.0
    inside = known & (to > 0) & np.isfinite(at) & np.isfinite(to)
    at, to = at[inside], to[inside]
    near = (at >= LARGE) & (np.abs(to - at) < 0.05 * at)
    fraction = ~near & (to > np.maximum(at, 1.1))
    slopes = np.empty(at.shape)
    for own, method in ((~(near | fraction), _series), (fraction, _fraction), (near, _uniform)):
        if own.any():
            slopes[own] = method(at[own], to[own])
    found[inside] = slopes
    return found.reshape(wide[0].shape).astype(a.dtype)


def _gap(a: Array, x: Array) -> Array:
    """`log(x) - digamma(a + 1)`, from `log(x / a)` where both are large."""
    moved, total = np.minimum(a, 10.0) + 1, np.zeros(a.shape)
    for _ in range(10):
        small = moved < 10
        total += np.where(small, 1 / moved, 0.0)
        moved = np.where(small, moved + 1, moved)
    short = np.log(x) - (np.log(moved) - _less(moved) - total)
    large = np.maximum(a, 10.0)
    apart = (x - large) / large
    close = np.log1p(np.maximum(apart, -0.5))
    logarithm = np.where(apart > -0.5, close, np.log(x) - np.log(large))
    return np.where(a < 10, short, logarithm + _less(large) - 1 / large)


def _less(a: Array) -> Array:
    """`log(a) - digamma(a)` for a from 10 on: minus the derivative of Stirling's series."""
    total = np.zeros(a.shape)
    for k, c in reversed(list(enumerate(STIRLING))):
        total = total / (a * a) + c * (2 * k + 1)
    found: Array = 0.5 / a + total / (a * a)
    return found


def _series(a: Array, x: Array) -> Array:
    """P is `factor` times a sum of `x**n / ((a + 1) … (a + n))`."""

    def step(n: int, state: list[Array]) -> list[Array]:
        _, a, x, term, turn, total, slope = state
        term = term * (x / (a + n))
        turn = turn + 1 / (a + n)
        slope = slope - term * turn
        total = total + term
        return [term * np.maximum(turn, 1.0) / total, a, x, term, turn, total, slope]

    one, zero = np.ones(a.shape), np.zeros(a.shape)
    total, slope = repeated(step, [one, a, x, one, zero, one, zero], 2)
    found: Array = factor(a, x) * (_gap(a, x) * total + slope)
    return found


def _fraction(a: Array, x: Array) -> Array:
    """Q is `factor` times a and a continued fraction, by Lentz's method with derivatives."""

    def step(n: int, state: list[Array]) -> list[Array]:
        _, a, b, c, c_slope, d, d_slope, found, turn = state
        b, part = b + 2, -n * (n - a)
        below, below_slope = part * d + b, n * d + part * d_slope - 1
        c_slope = n / c - part * (c_slope / c) / c - 1
        c = part / c + b
        d, d_slope = 1 / below, -below_slope / (below * below)
        change = c * d
        more = c_slope / c + d_slope / d
        done = np.maximum(np.abs(change - 1), np.abs(more)) * 0.5
        return [done, a, b, c, c_slope, d, d_slope, found * change, turn + more]

    b = x + 1 - a
    d, d_slope = 1 / b, 1 / (b * b)
    start, zero = np.full(a.shape, 1e300), np.zeros(a.shape)
    found, turn = repeated(
        step, [np.ones(a.shape), a, b, start, zero, d, d_slope, d, b * d_slope], 2
    )
    # With log(x) - digamma(a) = _gap + 1 / a, whose product with a is finite at 0.
    slope: Array = -factor(a, x) * found * (a * _gap(a, x) + 1 + a * turn)
    return slope


def _uniform(a: Array, x: Array) -> Array:
    """P is a normal distribution's integral to `eta * sqrt(a)`, less a small rest."""
    m, eta = uniform_angle(a, x)
    near = np.abs(eta) < 1e-3
    ratio = np.where(
        near, 1 + eta * (1 / 3 + eta * (1 / 36 - eta / 270)), m / np.where(near, 1.0, eta)
    )
    by_shape = -ratio / a
    first, slope = np.zeros(a.shape), np.zeros(a.shape)
    for c in C0[::-1]:
        slope = slope * eta + first
        first = first * eta + c
    second = 1 / 540 + eta / 288
    rest = first - second / a
    rest_slope = (slope - 1 / (288 * a)) * by_shape + second / (a * a)
    density = np.exp(-0.5 * a * eta * eta) / math.sqrt(2 * math.pi)
    along = 0.5 * eta / np.sqrt(a) + np.sqrt(a) * by_shape
    decay = -0.5 * eta * eta + m - 0.5 / a
    whole: Array = density * (along - (decay * rest + rest_slope) / np.sqrt(a))
    return whole


KERNELS = {"igamma_by_shape": _kernel}
