"""The regularized incomplete gamma functions, in float64.

P is summed as a series where x is small beside a, Q is a continued fraction where it is large, by
Lentz's method; see the Digital Library of Mathematical Functions, 8.7 and 8.9. For very large a
both converge slowly around x = a: there Temme's uniform expansion (8.12) takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

Array = np.ndarray[Any, np.dtype[Any]]
EPS = 2.0**-53
LARGE = 1e6
"""From here on Temme's expansion has two terms."""
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
C0 = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515)
"""Temme's first coefficient in powers of eta; the second one is -1 / 540 - eta / 288 at first."""


def _zeta(k: int, n: int = 100) -> float:
    """Riemann's zeta function by Euler and Maclaurin's sum."""
    ends = k * n ** (-k - 1) / 12 - k * (k + 1) * (k + 2) * n ** (-k - 3) / 720
    return math.fsum([*(j**-k for j in range(1, n)), n ** (1 - k) / (k - 1), n**-k / 2, ends])


_ZETA = [_zeta(k) for k in range(2, 27)]
_EULER = 0.5772156649015329
_gamma = np.frompyfunc(math.gamma, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _kernel(upper: bool, op: Op, a: Array, x: Array) -> Any:
    wide = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    flat = [np.ravel(v) for v in wide]
    return _both(*flat)[upper].reshape(wide[0].shape).astype(a.dtype)


def _both(a: Array, x: Array) -> tuple[Array, Array]:
    """P and Q, which add up to 1; the smaller one is exact to its own last places."""
    p, q = np.full(a.shape, np.nan), np.full(a.shape, np.nan)
    known = (a >= 0) & (x >= 0)
    none = known & (((x == 0) & (a > 0)) | ((a == np.inf) & (x < np.inf)))
    all_of = known & (((a == 0) & (x > 0)) | ((x == np.inf) & (a < np.inf)))
    p[none], q[none], p[all_of], q[all_of] = 0, 1, 1, 0
    rest = known & (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    at = a[rest], x[rest]
    found = np.empty((2, at[0].size))
    choice = _choice(*at)
    for number, method in enumerate((_series, _small, _fraction, _uniform)):
        own = choice == number
        if own.any():
            found[:, own] = method(at[0][own], at[1][own])
    p[rest], q[rest] = found
    return p, q


def _choice(a: Array, x: Array) -> Array:
    """Which method is exact: 0 the series, 1 that of Q, 2 the fraction, 3 Temme's expansion."""
    tiny = np.where(x <= 0.5, -0.4 / np.log(np.minimum(x, 0.5)) >= a, x * 1.1 >= a)
    choice = np.where(x <= 1.1, tiny.astype(np.int64), np.where(x > a, 2, 0))
    return np.where((a >= LARGE) & (np.abs(x - a) < 0.05 * a), 3, choice)


def log1p_less(m: Array) -> Array:
    """`log1p(m) - m`, of which little is left where m is small."""
    near = np.abs(m) < 0.3
    inside = np.where(near, m, 0.0)
    total = np.zeros(m.shape)
    for k in range(34, 1, -1):
        total = total * inside + (-1) ** (k + 1) / k
    outside = np.where(near, 1.0, m)
    return np.where(near, total * inside * inside, np.log1p(outside) - outside)


def factor(a: Array, x: Array) -> Array:
    """`x**a exp(-x) / gamma(a + 1)`."""
    large = np.maximum(a, 10.0)
    series = np.zeros(a.shape)
    for c in STIRLING[::-1]:
        series = series / (large * large) + c
    exponent = large * log1p_less((x - large) / large) - series / large
    small = np.minimum(a, 10.0)
    short = np.exp(small * np.log(x) - x) / _gamma(small + 1).astype(np.float64)
    return np.where(a < 10, short, np.exp(exponent) / np.sqrt(2 * math.pi * large))


def repeated(
    step: Callable[[int, list[Array]], list[Array]], state: list[Array], results: int = 1
) -> list[Array]:
    """Runs a step until the first of the state is small everywhere; returns the last ones of it.

    Elements that are done leave.

    Args:
        step: from its number and the state to the next state.
        state: at first: the size of the last change, then anything.
        results: how many of the last parts of the state to return.
    """
    out = [np.empty(state[0].shape) for _ in range(results)]
    left = np.arange(state[0].size)
    for n in range(1, 1 << 20):
        state = step(n, state)
        done = state[0] <= EPS
        if done.any():
            for whole, found in zip(out, state[-results:], strict=True):
                whole[left[done]] = found[done]
            left, state = left[~done], [v[~done] for v in state]
            if not left.size:
                break
    return out


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    def step(n: int, state: list[Array]) -> list[Array]:
        _, a, x, term, total = state
        term = term * (x / (a + n))
        return [term / total, a, x, term, total + term]

    one = np.ones(a.shape)
    p = np.minimum(factor(a, x) * repeated(step, [one, a, x, one, one])[0], 1.0)
    return p, 1 - p


def _small(a: Array, x: Array) -> tuple[Array, Array]:
    """Both are small for a near 0: `1 - x**a / gamma(1 + a)` without rounding the difference."""

    def step(n: int, state: list[Array]) -> list[Array]:
        _, a, x, power, total = state
        power = power * (-x / n)
        term = power / (a + n)
        return [np.abs(term), a, x, power, total + term]

    zero, one = np.zeros(a.shape), np.ones(a.shape)
    logarithm = np.zeros(a.shape)
    near = np.minimum(a, 0.2)
    for k, zeta in zip(range(26, 1, -1), _ZETA[::-1], strict=True):
        logarithm = logarithm * -near + zeta / k
    logarithm = near * (near * logarithm - _EULER)
    logarithm = np.where(a < 0.2, logarithm, np.log(_gamma(a + 1).astype(np.float64)))
    exponent = a * np.log(x) - logarithm
    rest = np.exp(exponent) * a * repeated(step, [one, a, x, one, zero])[0]
    q = -np.expm1(exponent) - rest
    return 1 - q, q


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    def step(n: int, state: list[Array]) -> list[Array]:
        _, a, b, c, d, found = state
        b, part = b + 2, -n * (n - a)
        d, c = part * d + b, part / c + b
        d = 1 / np.where(d == 0, 1e-300, d)
        c = np.where(c == 0, 1e-300, c)
        change = c * d
        return [np.abs(change - 1) * 0.5, a, b, c, d, found * change]

    b = x + 1 - a
    d = 1 / np.where(b == 0, 1e-300, b)
    q = factor(a, x) * a * repeated(step, [d, a, b, np.full(a.shape, 1e300), d, d])[0]
    return 1 - q, q


def uniform_angle(a: Array, x: Array) -> tuple[Array, Array]:
    """`m = x / a - 1`, and Temme's eta, for which `eta**2 / 2 = m - log1p(m)`, with m's sign."""
    m = (x - a) / a
    return m, np.copysign(np.sqrt(-2 * log1p_less(m)), m)


def _uniform(a: Array, x: Array) -> tuple[Array, Array]:
    _, eta = uniform_angle(a, x)
    first = np.zeros(a.shape)
    for c in C0[::-1]:
        first = first * eta + c
    terms = first - (1 / 540 + eta / 288) / a
    rest = np.exp(-0.5 * a * eta * eta) / np.sqrt(2 * math.pi * a) * terms
    turn = eta * np.sqrt(a / 2)
    upper, lower = (0.5 * _erfc(v).astype(np.float64) for v in (turn, -turn))
    return lower - rest, upper + rest


KERNELS: dict[str, Callable[..., Any]] = {
    "igamma": partial(_kernel, False),
    "igammac": partial(_kernel, True),
}
