"""When a result counts as right: errors in units in the last place of the result's dtype.

The expected value is computed in double precision from the very same inputs. An error may be

    base × condition × (ulp(expected) + sensitivity × eps)

where `base` depends on the kind of the operation (below), `condition` is the sample's own, eps is
the relative precision of the result's dtype, and `sensitivity` says how much the expected value
moves when the inputs do by one part in 1: it is measured on the reference with random relative
changes of the inputs, so that a sum that cancels is judged by its terms and not by its result.
Elementwise operations without a body get no such allowance: sensitivity is 0 for them. Operations
that only move or make values, and integers and bools, must be exact.

Half types are held to the same ulps of their own precision: a kernel that accumulates in the
half type itself is found by its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from ingle.tensor.dtypes import DType, real_dtype
from ingle.tensor.operation import Operation

BASE = {
    "elementwise": 4.0,  # exact ones have 0.5; exp and its kin of good libraries 1 to 4
    "reduction": 4.0,
    "contraction": 4.0,
    "opaque": 8.0,
    "movement": 0.0,
    "creation": 1.0,
    "random": 0.0,
}
COMPOSED = 8.0
"""For composites, each step of whose body may add its own error."""

COMPLEX = 2.0
"""Times this for complex results: their functions are made of several real ones."""

_PROBE = 2.0**-24


def base_tolerance(operation: Operation) -> float:
    """The number of ulps that an operation of this kind may be off."""
    if operation.body is not None:
        return COMPOSED
    # Scattering with a sum is movement that adds.
    kind = "reduction" if operation.traits.family == "scatter" else operation.traits.kind
    return BASE[kind]


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next larger number of an inexact dtype."""
    return float(ml_dtypes.finfo(real_dtype(dtype).dtype).eps)


def ulp(values: np.ndarray, dtype: DType) -> np.ndarray:
    """The spacing of a dtype's numbers at the given magnitudes."""
    info = ml_dtypes.finfo(real_dtype(dtype).dtype)
    magnitude = np.abs(values).astype(np.float64)
    # Subnormals have the spacing of the smallest normal number.
    magnitude = np.clip(magnitude, float(info.smallest_normal), float(info.max))
    return np.asarray(np.exp2(np.floor(np.log2(magnitude))) * float(info.eps))


def sensitivities(
    function: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    arrays: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """How far each expected value moves for random relative changes of the inexact inputs."""
    rng = np.random.default_rng(0)
    moved = [np.zeros(e.shape) for e in expected]
    for _ in range(3):
        changed = [
            a * (1 + _PROBE * rng.choice([-1.0, 1.0], a.shape)) if a.dtype.kind in "fc" else a
            for a in arrays
        ]
        for most, before, after in zip(moved, expected, function(changed), strict=True):
            if before.dtype.kind in "fc" and before.shape == after.shape:
                with np.errstate(invalid="ignore"):
                    step = np.abs(after - before) / _PROBE
                np.maximum(most, np.where(np.isfinite(step), step, 0.0), out=most)
    return moved


def compare(
    actual: np.ndarray,
    expected: np.ndarray,
    dtype: DType,
    *,
    base: float,
    sensitivity: np.ndarray | float = 0.0,
    exact: bool = False,
) -> str | None:
    """None if the values agree; else what differs most, in words.

    Args:
        actual: the result, of `dtype`.
        expected: in double precision.
        dtype: of the result.
        base, sensitivity: the tolerance, as above.
        exact: the result must be the expected value in its own dtype, rounded once.
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if not dtype.is_inexact:
        wrong = actual != expected.astype(actual.dtype)
        return _describe(actual, expected, wrong, wrong, "") if np.any(wrong) else None
    wide = np.complex128 if dtype.is_complex else np.float64
    got, want = actual.astype(wide), expected.astype(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(dtype.dtype).astype(wide)
        error = np.abs(got - want)
    plain = np.isfinite(rounded)
    # The parts of an infinite complex number are a matter of taste; that it is infinite is not.
    odd = ~np.isfinite(got) if dtype.is_complex else np.isnan(got) & np.isnan(rounded)
    same = (got == rounded) | odd
    unit = ulp(want, dtype)
    base *= COMPLEX if dtype.is_complex else 1.0
    allowed = base * (unit + np.asarray(sensitivity) * epsilon(dtype)) + unit / 2
    wrong = ~same if exact else np.where(plain, ~(error <= allowed), ~same)
    if not np.any(wrong):
        return None
    with np.errstate(invalid="ignore"):
        return _describe(actual, expected, wrong, np.where(plain, error / unit, np.inf), " ulp")


def _describe(
    actual: np.ndarray, expected: np.ndarray, wrong: np.ndarray, size: np.ndarray, unit: str
) -> str:
    ranked = np.where(wrong, np.nan_to_num(size.astype(np.float64), nan=np.inf), -1)
    at = np.unravel_index(int(np.argmax(ranked)), actual.shape)
    off = f", off by {float(size[at]):.3g}{unit}" if unit else ""
    return (
        f"{int(np.sum(wrong))} of {actual.size} differ; at {tuple(map(int, at))}: "
        f"got {actual[at]!r}, expected {expected[at]!r}{off}"
    )
