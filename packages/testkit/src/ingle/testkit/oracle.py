"""The expected values: a room's reference on the same inputs in double precision."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ingle.tensor import Tensor
from ingle.tensor.operation import Operation

from .cases import Case
from .tolerance import base_tolerance, compare, sensitivities
from .trees import fill_arrays, results_of


def reference_of(operation: Operation) -> Callable[..., Any]:
    """The room's reference, imported if it is given by its name."""
    reference = operation.reference
    if isinstance(reference, str):
        module, _, attribute = reference.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]
    if reference is None:
        raise LookupError(f"{operation.name} has no reference")
    return reference


def widened(array: np.ndarray, integers: type | None = None) -> np.ndarray:
    """Floats as float64, complex numbers as complex128, integers as `integers` if given."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "fV":
        return array.astype(np.float64)
    if integers is not None and array.dtype.kind in "iu":
        return array.astype(integers)
    return array


class Oracle:
    """The reference of one case as a function of its arrays.

    Args:
        case: what is called.
        inexact: whether the result is; then NumPy must not compute the exponential of int8 in
            float16, or the reciprocal of an integer as one. Where integers can be indices, or
            bools a mask, they stay what they are.
    """

    def __init__(self, case: Case, *, inexact: bool = True) -> None:
        self.case = case
        pure = case.operation.traits.kind in ("elementwise", "reduction") or len(case.arrays) == 1
        self._integers = (np.float64 if pure else np.int64) if inexact else None
        self.arrays = self.widen(case.arrays)
        self._reference = reference_of(case.operation)

    def widen(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Inputs as the reference takes them; the very same ones where the result is exact."""
        if self.case.sample.exact:
            return list(arrays)
        numbers = self.case.dtype.kind == "bool" and self._integers is np.float64
        return [
            a.astype(np.float64) if numbers and a.dtype.kind == "b" else widened(a, self._integers)
            for a in arrays
        ]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        args, kwargs = fill_arrays(self.case.tree(), list(arrays))
        with np.errstate(all="ignore"):
            return results_of(self._reference(*args, **kwargs))


def check_values(
    case: Case, results: Sequence[Tensor], arrays: list[np.ndarray] | None = None
) -> None:
    """Compares results with the reference; an `AssertionError` says what differs most.

    Args:
        case: the call.
        results: what the backend returned for it.
        arrays: inputs to use instead of the case's.
    """
    inexact = any(r.dtype.is_inexact for r in results)
    oracle = Oracle(case, inexact=inexact)
    inputs = oracle.arrays if arrays is None else oracle.widen(arrays)
    expected = oracle(inputs)
    assert len(results) == len(expected), (
        f"{len(results)} results, the reference has {len(expected)}"
    )
    base = 0.0 if case.sample.exact else base_tolerance(case.operation) * case.sample.condition
    direct = case.operation.traits.kind == "elementwise" and case.operation.body is None
    moved: Sequence[np.ndarray | float] = [0.0] * len(expected)
    if base and inexact and not direct:
        moved = sensitivities(oracle, inputs, expected)
    for number, (result, want, sensitivity) in enumerate(
        zip(results, expected, moved, strict=True)
    ):
        problem = compare(
            result.numpy(),
            want,
            result.dtype,
            base=base,
            sensitivity=sensitivity,
            exact=case.sample.exact,
        )
        assert problem is None, f"result {number} ({result.dtype}): {problem}"
