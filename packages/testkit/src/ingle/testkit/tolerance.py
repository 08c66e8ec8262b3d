"""When a result counts as right: errors in units in the last place of the result's dtype.

The expected value is computed in double precision from the very same inputs. An error may be

    condition * base * (ulp(expected) + sensitivity * eps)

where `base` depends on the kind of the operation (below), `condition` is the sample's own, eps is
the relative precision of the result's dtype, and `sensitivity` says how much the expected value
moves when the inputs do, relatively: it is measured on the reference with random changes of the
inputs, so that a sum that cancels is judged by its terms and not by its result. Where
what cancels are intermediate values, the sample says of what magnitude they are. Elementwise
operations without a body get no such allowance: sensitivity is 0 for them. Operations that only
move or make values, and integers and bools, must be exact.

Half types are to be computed in float32 and rounded once: for operations without a body, ulp and
eps are those of float32, and half an ulp of the half type is for the rounding. A kernel that
accumulates in the half type is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ingle.tensor.dtypes import DType, float32, real_dtype
from ingle.tensor.operation import Operation

from .cases import Subject, is_composite

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

_LOSSLESS = ("movement", "creation")
_PROBE = 2.0**-24


def is_composed(operation: Subject, ran: Iterable[Operation]) -> bool:
    """Whether a result may have been rounded several times: by a body, or between operations."""
    return is_composite(operation) or any(
        o is not operation and o.traits.family != "cast" and o.traits.kind not in _LOSSLESS
        for o in ran
    )


def base_tolerance(operation: Subject, *, composed: bool) -> float:
    """The number of ulps that an operation of this kind may be off."""
    if composed:
        return COMPOSED
    # Scattering with a sum is movement that adds.
    kind = "reduction" if operation.traits.family == "scatter" else operation.traits.kind
    return BASE[kind]


def allowance(
    base: float,
    dtype: DType,
    sensitivity: np.ndarray | float,
    *,
    given: DType,
    composed: bool,
) -> tuple[float, np.ndarray]:
    """The ulps that a result may be off, and how much beyond that, by the formula above.

    Args:
        base: for this kind of operation, times the sample's condition.
        dtype: of the result.
        sensitivity: of the result to its inputs.
        given: the dtype of the inputs, in which the steps of a composite round.
        composed: whether the result may have been rounded several times.
    """
    if not dtype.is_inexact:
        return 0.0, np.zeros(())
    factor = base * (COMPLEX if dtype.is_complex else 1.0)
    eps = epsilon(dtype)
    if composed and given.is_inexact:
        eps = max(eps, epsilon(given))
    elif dtype.itemsize == 2 and not composed:
        eps = epsilon(float32)
    return factor * eps / epsilon(dtype), np.asarray(sensitivity) * factor * eps


def _limits(dtype: DType) -> tuple[float, float, float]:
    """eps, the smallest normal number and the largest of an inexact dtype."""
    info: Any = ml_dtypes.finfo(real_dtype(dtype).dtype)  # type: ignore[no-untyped-call]
    return float(info.eps), float(info.smallest_normal), float(info.max)


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next larger number of an inexact dtype."""
    return _limits(dtype)[0]


def ulp(values: np.ndarray, dtype: DType) -> np.ndarray:
    """The spacing of a dtype's numbers at the given magnitudes."""
    eps, smallest, largest = _limits(dtype)
    # Subnormals have the spacing of the smallest normal number.
    magnitude = np.clip(np.nan_to_num(np.abs(values)).astype(np.float64), smallest, largest)
    return np.asarray(np.ldexp(eps, np.frexp(magnitude)[1] - 1))


def sensitivities(
    function: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    arrays: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """How far each expected value moves for random relative changes of the inexact inputs."""
    rng = np.random.default_rng(0)
    moved = [np.zeros(e.shape) for e in expected]
    for _ in range(4):
        changed = [
            a * (1 + _PROBE * rng.standard_normal(a.shape)) if a.dtype.kind in "fc" else a
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
    allowed: tuple[float, np.ndarray | float],
    magnitude: float = 0.0,
    exact: bool = False,
) -> str | None:
    """None if the values agree; else what differs most, in words.

    Args:
        actual: the result, of `dtype`.
        expected: in double precision.
        dtype: of the result.
        allowed: how many ulps the error may be, and how much beyond that; see `allowance`.
        magnitude: errors are counted in ulps of at least this.
        exact: the result must be the expected value in its own dtype, rounded once.
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if actual.dtype != dtype.dtype:
        return f"the values have dtype {actual.dtype}, but the tensor says {dtype}"
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
    unit = ulp(np.maximum(np.abs(want), magnitude), dtype)
    limit = allowed[0] * unit + allowed[1] + unit / 2
    wrong = ~same if exact else np.where(plain, ~(error <= limit), ~same)
    if not np.any(wrong):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
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
