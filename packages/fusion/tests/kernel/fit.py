"""Fits the polynomials of `ingle.fusion.kernel.functions`: run it to print their tables again.

Each is a minimax fit (Remez' exchange) of a function that is smooth at 0, with a weight such that
the error counts relative to what is computed in the end. Coefficients are then rounded to the
dtype; the error that is printed includes that.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np

Function = Callable[[Any], Any]


def remez(f: Function, weight: Function, low: float, high: float, powers: Sequence[int]) -> Any:
    """Coefficients of the powers, lowest first, and the largest weighted error."""
    n = len(powers)
    a, b = mp.mpf(low), mp.mpf(high)
    points = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (k + mp.mpf("0.53")) / (n + 1))
              for k in range(n + 1)]  # fmt: skip
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (k + mp.mpf("0.5")) / 400)
            for k in range(400)]  # fmt: skip
    values = [(f(x), abs(weight(x))) for x in grid]
    for _ in range(40):
        matrix = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for i, x in enumerate(points):
            w = abs(weight(x))
            for j, p in enumerate(powers):
                matrix[i, j] = w * x**p
            matrix[i, n] = (-1) ** i
            right[i] = w * f(x)
        solved = mp.lu_solve(matrix, right)
        found, level = [solved[j] for j in range(n)], abs(solved[n])

        def error(x: Any, y: Any, w: Any, c: Any = found) -> Any:
            return w * (y - sum(k * x**p for k, p in zip(c, powers, strict=True)))

        errors = [error(x, y, w) for x, (y, w) in zip(grid, values, strict=True)]
        points = _alternating(grid, errors, n + 1)
        worst = max(map(abs, errors))
        if worst <= level * mp.mpf("1.001"):
            break
    return found, worst


def _alternating(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    """The points of the largest errors whose signs alternate."""
    runs: list[int] = []
    for k, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    largest = max(map(abs, errors))
    while len(runs) > count:
        tiny = [i for i in range(len(runs)) if abs(errors[runs[i]]) < largest / 10**6]
        if tiny and len(runs) - len(tiny) >= count:
            runs = [k for i, k in enumerate(runs) if i not in tiny]
            continue
        if len(runs) - count >= 2:
            pairs = [max(abs(errors[a]), abs(errors[b])) for a, b in pairwise(runs)]
            drop = pairs.index(min(pairs))
            if 0 < drop < len(runs) - 2:
                del runs[drop : drop + 2]
                continue
        del runs[0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1]
    return [grid[k] for k in runs]


def fit(f: Function, weight: Function, low: float, high: float, degree: int,
        dtype: str) -> tuple[list[float], float]:  # fmt: skip
    """Coefficients rounded to a dtype, highest power first, and log2 of the largest error."""
    found, _ = remez(f, weight, low, high, range(degree + 1))
    kind = np.float32 if dtype == "float32" else np.float64
    rounded = [float(kind(float(c))) for c in found]

    def error(x: Any) -> Any:
        return abs(weight(x) * (f(x) - sum(c * x**p for p, c in enumerate(rounded))))

    a, b = mp.mpf(low), mp.mpf(high)
    worst = max(error(a + (b - a) * (k + mp.mpf("0.37")) / 1000) for k in range(1000))
    return rounded[::-1], float(mp.log(worst, 2))


def series(f: Function, order: int) -> Function:
    """(f(x) - its Taylor polynomial below `order`) / x**order, also where that cancels."""
    terms = mp.taylor(f, 0, order + 12)

    def rest(x: Any) -> Any:
        if abs(x) < mp.mpf("1e-4"):
            return sum(c * x**k for k, c in enumerate(terms[order:]))
        return (f(x) - sum(c * x**k for k, c in enumerate(terms[:order]))) / x**order

    return rest


def odd(f: Function, order: int) -> Function:
    """Of an odd or even function, (f(s) - its terms below `order`) / s**order by z = s**2."""
    terms = mp.taylor(f, 0, order - 1)

    def rest(z: Any) -> Any:
        s = mp.sqrt(max(z, mp.mpf("1e-14")))
        return (f(s) - mp.polyval(terms[::-1], s)) / s**order

    return rest


def relative(f: Function, order: int) -> Function:
    """The weight of a function of z = s**2 that is multiplied by s**order to become part of f."""
    return lambda z: mp.sqrt(z) ** order / f(mp.sqrt(z)) if z else mp.mpf(0)


def fits() -> dict[str, tuple[Function, Function, Any, Any, dict[str, int]]]:
    """By name: function, weight, interval, and the degree for each dtype."""
    root = mp.sqrt(mp.mpf(2))
    half = mp.log(2) / 2 * mp.mpf("1.01")
    quarter = (mp.pi / 4) ** 2 * mp.mpf("1.002")
    eighth = mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.002")
    log1p = lambda x: mp.log(1 + x)  # noqa: E731
    middle = (mp.mpf("1.25") + mp.mpf("3.92")) / 2

    def scaled_erfc(t: Any) -> Any:
        x = 2 * (1 + t) / (1 - t)
        return mp.exp(x * x) * mp.erfc(x)

    def shrinking(t: Any) -> Any:
        x = 2 * (1 + t) / (1 - t)
        return mp.exp(-x * x) + mp.mpf("1e-6")

    return {
        # exp(r) = 1 + r + r**2 EXP(r)
        "EXP": (series(mp.exp, 2), lambda x: x * x / mp.exp(x), -half, half,
                {"float32": 4, "float64": 10}),
        # log(1 + f) = f + f**2 LOG(f)
        "LOG": (series(log1p, 2), lambda x: x * x / log1p(x) if x else x,
                1 / root - 1 - mp.mpf("1e-6"), root - 1 + mp.mpf("1e-6"), {"float32": 8}),
        # log((1 + s) / (1 - s)) = 2 s + s z LOGS(z) with z = s**2
        "LOGS": (lambda z: sum(2 * z**k / (2 * k + 3) for k in range(60)), lambda z: z,
                 0, mp.mpf("0.02945"), {"float64": 6}),
        # the same as 2 s + s z (2/3 + z LOGT(z))
        "LOGT": (lambda z: sum(2 * z**k / (2 * k + 5) for k in range(60)), lambda z: z * z / 2,
                 0, mp.mpf("0.02945"), {"float64": 7}),
        # sin(r) = r + r z SIN(z), cos(r) = 1 - z/2 + z**2 COS(z)
        "SIN": (odd(mp.sin, 3), relative(mp.sin, 3), 0, quarter, {"float32": 2, "float64": 5}),
        "COS": (odd(mp.cos, 4), relative(mp.cos, 4), 0, quarter, {"float32": 2, "float64": 5}),
        # tan(r) = r + r z TAN(z)
        "TAN": (odd(mp.tan, 3), relative(mp.tan, 3), 0, quarter, {"float32": 6}),
        # asin(x) = x + x z ASIN(z) up to 1/2
        "ASIN": (odd(mp.asin, 3), relative(mp.asin, 3), 0, mp.mpf("0.2501"),
                 {"float32": 4, "float64": 12}),
        # atan(x) = x + x z ATAN(z) up to tan(pi/8)
        "ATAN": (odd(mp.atan, 3), relative(mp.atan, 3), 0, eighth,
                 {"float32": 4, "float64": 10}),
        # sinh(x) = x + x z SINH(z) up to 1
        "SINH": (odd(mp.sinh, 3), relative(mp.sinh, 3), 0, mp.mpf("1.001"),
                 {"float32": 3, "float64": 7}),
        # tanh(x) = x + x z TANH(z) up to 5/8
        "TANH": (odd(mp.tanh, 3), relative(mp.tanh, 3), 0, mp.mpf("0.391"), {"float32": 4}),
        # erf(x) = x + x ERF(z) up to 1 (float32: 5/4)
        "ERF": (lambda z: odd(mp.erf, 1)(z) - 1, relative(mp.erf, 1), 0, 0,
                {"float32": 6, "float64": 11}),
        # erf(x) = ERF_FAR(x - MIDDLE) from 5/4 to 3.92
        "ERF_FAR": (lambda t: mp.erf(t + middle), lambda t: 1 / mp.erf(t + middle),
                    mp.mpf("1.25") - middle, mp.mpf("3.92") - middle, {"float32": 12}),
        # erfc(x) = exp(-x**2) ERFCX((x - 2) / (x + 2)) from 1 to 6
        "ERFCX": (scaled_erfc, shrinking, -mp.mpf(1) / 3, mp.mpf("0.5"), {"float64": 17}),
        # 2**f from -1/2 to 1/2, for half types
        "SHORT_POWER": (lambda f: 2**f, lambda f: 2**-f, -mp.mpf("0.5"), mp.mpf("0.5"),
                        {"float32": 5}),
        # ndtr(-a) = 2**SHORT_TAIL(a) up to where it is 0 in half types
        "SHORT_TAIL": (lambda a: mp.log(mp.erfc(a / root) / 2, 2), lambda a: mp.log(2), 0,
                       mp.mpf("13.6"), {"float32": 9}),
        # tanh(x) = x (1 + z SHORT_TANH(z)) up to 1/4
        "SHORT_TANH": (odd(mp.tanh, 3), relative(mp.tanh, 3), 0, mp.mpf("0.0625625"),
                       {"float32": 1}),
    }  # fmt: skip


def erf_pieces() -> tuple[list[float], list[list[float]]]:
    """Centers near 0, 1/4, 1/2 ... whose erf is almost a float32, and for each a polynomial.

    erf(c + r) = E0 + r (E1 + r (...)); around 0 it is r + r (E1 + r (...)). The last one is lifted
    so that it ends at the nearest float32 below the middle between 1 and the one below: as 1.
    """
    centers, pieces = [], []
    for n in range(16):
        near = [k / 2**16 for k in range(n * 2**14 - 262 * (n > 0), n * 2**14 + 262 * (n > 1) + 1)]
        c = min(near, key=lambda x: abs(float(np.float32(mp.erf(x))) / mp.erf(x) - 1) if x else 0)
        low, high = max(n / 4 - 0.125, 0) - c, n / 4 + 0.125 - c
        base = mp.erf(c)

        def slope(r: Any, c: float = c, base: Any = base) -> Any:
            r = r or mp.mpf("1e-12")
            return (mp.erf(c + r) - base) / r - (c == 0)

        def weight(r: Any, c: float = c) -> Any:
            return r / mp.erf(c + r) if c + r else mp.mpf(1)

        found, _ = remez(slope, weight, low, high, range(5))
        if n == 15:
            found[0] += mp.mpf("2e-8") / high
        centers.append(c)
        pieces.append([float(np.float32(float(v))) for v in (base, *found)])
    return centers, pieces


def erfc_piece(degree: int = 11) -> tuple[list[float], tuple[float, float], float]:
    """erfc(a) = exp(-a**2) S((a - 2) / (a + 2)) / (a + 2) from 0 to 10.1, and 1 at 0.

    Coefficients of powers in float32, each rounded before the others are fitted again, highest
    power first; the constant in two parts, by which S is exact at -1; log2 of the largest error.
    """
    edge = (10.1 - 2) / 12.1
    t = np.cos(np.pi * (np.arange(600) + 0.5) / 600) * (edge + 1) / 2 + (edge - 1) / 2
    t = np.append(t, -1.0)
    a = [2 * (1 + mp.mpf(float(v))) / (1 - mp.mpf(float(v))) for v in t]
    y = np.array([float(mp.exp(v * v) * mp.erfc(v) * (v + 2)) for v in a])
    rest, found = y.copy(), []
    for k in range(1, degree + 1):
        free = [0, *range(k, degree + 1)]
        columns = np.stack([t**j / y for j in free], 1)
        weights = np.ones(len(t))
        for _ in range(60):
            scaled = weights[:, None]
            solved = np.linalg.lstsq(columns * scaled, rest / y * weights, rcond=None)[0]
            off = abs(columns @ solved - rest / y)
            weights *= (off / off.max() + 0.02) ** 0.3
            weights = np.maximum(weights / weights.max(), 1e-3)
        found.append(float(np.float32(solved[1])))
        rest = rest - found[-1] * t**k
    last = np.float32(rest[-1])
    error = np.log2(abs((rest - rest[-1]) / y).max())
    return found[::-1], (float(last), float(np.float32(rest[-1] - last))), float(error)


def main() -> None:
    """Prints `ingle/fusion/kernel/functions/coefficients.py`."""
    mp.mp.dps = 40
    out = sys.stdout.write
    out(_HEADER)
    for name, (f, weight, low, high, degrees) in fits().items():
        errors = []
        for dtype, degree in degrees.items():
            top = high if name != "ERF" else mp.mpf("1.563" if dtype == "float32" else "1.001")
            coefficients, error = fit(f, weight, low, top, degree, dtype)
            digits = 9 if dtype == "float32" else 17
            shown = ", ".join(f"{c:.{digits}g}" for c in coefficients)
            lines = textwrap.wrap(shown + ",", 95, break_on_hyphens=False)
            out("\n    ".join([f"{name}{dtype[5:]} = (", *lines]) + "\n)  # fmt: skip\n")
            errors.append(f"2**{error:.1f} in {dtype}")
        out(f'"""Error {", ".join(errors)}."""\n')
    powers, (last, more), worst = erfc_piece()
    shown = ", ".join(f"{c:.9g}" for c in powers)
    lines = textwrap.wrap(shown + ",", 95, break_on_hyphens=False)
    out("\n    ".join(["ERFC32 = (", *lines]) + "\n)  # fmt: skip\n")
    out(f"ERFC_LAST32 = ({last:.9g}, {more:.9g})\n")
    out(f'"""Error 2**{worst:.1f} in float32; the last one is in two parts, and exact at -1."""\n')
    centers, pieces = erf_pieces()
    columns = [centers, *map(list, zip(*pieces, strict=True))]
    out("ERF_PIECES32 = (\n")
    for column in columns:
        shown = ", ".join(f"{c:.9g}" for c in column)
        lines = textwrap.wrap(shown + ",", 91, break_on_hyphens=False)
        out("\n        ".join(["    (", *lines]) + "\n    ),\n")
    out(")  # fmt: skip\n")
    out('"""Centers of 16 pieces of erf, and the coefficients of each, lowest power first."""\n')


_HEADER = '''"""Coefficients of the polynomials, highest power first.

Each is a minimax fit that `packages/fusion/tests/kernel/fit.py` makes again; errors are relative
to the function that the polynomial becomes part of, with the coefficients as rounded.
"""

'''

if __name__ == "__main__":
    main()
