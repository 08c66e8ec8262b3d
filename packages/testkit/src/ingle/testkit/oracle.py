"""The expected values: a room's reference on the same inputs in double precision."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.operation import Operation

from .cases import Case, Subject
from .tolerance import allowance, base_tolerance, compare, is_composed, sensitivities
from .trees import fill_arrays, results_of

REFUSALS = (ValueError, TypeError, IndexError)
"""What a reference raises for a call that it does not take, as NumPy does; all else is a fault."""


def reference_of(operation: Subject) -> Callable[..., Any]:
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
        pure = case.operation.traits.kind in ("elementwise", "reduction")
        self._integers = (np.float64 if pure else np.int64) if inexact else None
        self._bools = inexact and case.dtype.kind == "bool" and (pure or len(case.arrays) == 1)
        self.arrays = self.widen(case.arrays)
        self._reference = reference_of(case.operation)

    def widen(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Inputs as the reference takes them; the very same ones where the result is exact."""
        if self.case.sample.exact:
            return list(arrays)
        return [
            a.astype(np.float64)
            if self._bools and a.dtype.kind == "b"
            else widened(a, self._integers)
            for a in arrays
        ]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        args, kwargs = fill_arrays(self.case.tree(), list(arrays))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # The mean of nothing is NaN for tensors; NumPy warns of it as well.
            warnings.simplefilter("ignore", RuntimeWarning)
            results = results_of(self._reference(*args, **kwargs))
            view = self.case.sample.view
            return results if view is None else results_of(view(*results))


def takes(case: Case, results: Sequence[Tensor]) -> bool:
    """Whether the reference takes a call that has such results: strangers' need not take all."""
    oracle = Oracle(case, inexact=any(r.dtype.is_inexact for r in results))
    try:
        oracle(oracle.arrays)
    except REFUSALS:
        return False
    return True


class Expected(NamedTuple):
    """What a case's results are compared with: values, and how far each moves with the inputs."""

    values: list[np.ndarray]
    sensitivity: Sequence[np.ndarray | float]
    base: float


class Judge:
    """Compares results of one case with the reference, which runs once for all of them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._known: dict[tuple[bool, bool], Expected] = {}

    def expected(self, *, inexact: bool, composed: bool) -> Expected:
        """The reference's values and their tolerance.

        Args:
            inexact: whether any result is.
            composed: whether results may have been rounded several times.
        """
        known = self._known.get((inexact, composed))
        if known is None:
            known = self._known[inexact, composed] = self._expected(inexact, composed)
        return known

    def _expected(self, inexact: bool, composed: bool) -> Expected:
        case = self.case
        oracle = Oracle(case, inexact=inexact)
        values = oracle(oracle.arrays)
        base = 0.0 if case.sample.exact else base_tolerance(case.operation, composed=composed)
        direct = case.operation.traits.kind == "elementwise" and not composed
        sensitivity: Sequence[np.ndarray | float] = [0.0] * len(values)
        if inexact and base and not direct:
            sensitivity = sensitivities(oracle, oracle.arrays, values)
        return Expected(values, sensitivity, base * case.sample.condition)

    def check(self, results: Sequence[Tensor], ran: Iterable[Operation]) -> None:
        """Raises an `AssertionError` that says what differs most, if anything does.

        Args:
            results: what the backend returned for the case.
            ran: the operations that it took: a function that puts several together may round
                often.
        """
        case = self.case
        composed = is_composed(case.operation, ran)
        inexact = any(r.dtype.is_inexact for r in results)
        values, sensitivity, base = self.expected(inexact=inexact, composed=composed)
        assert len(results) == len(values), (
            f"{len(results)} results, the reference has {len(values)}"
        )
        for number, (result, want, moves) in enumerate(
            zip(results, values, sensitivity, strict=True)
        ):
            allowed = allowance(base, result.dtype, moves, given=case.dtype, composed=composed)
            problem = compare(
                result.numpy(),
                want,
                result.dtype,
                allowed=allowed,
                magnitude=case.sample.magnitude,
                exact=case.sample.exact,
            )
            assert problem is None, f"result {number} ({result.dtype}): {problem}"


def check_values(case: Case, results: Sequence[Tensor], ran: Iterable[Operation]) -> None:
    """Compares results of a case with its reference, as `Judge.check` does."""
    Judge(case).check(results, ran)
