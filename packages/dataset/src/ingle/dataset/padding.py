"""Batches of samples that differ in length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .batching import collate_with, stack
from .errors import DataValueError


class Padding:
    """Collates like `collate`, but fills arrays up at the end of one axis to a common length.

    Every array of a sample that has the axis is padded, numbers and texts are not. Where a model
    must know what is padding, have the length in the sample: `dataset.map(lambda t: (t, len(t)))`.

    Args:
        value: what fills up.
        axis: along which arrays may differ; counted without the axis of the batch.
        multiple: lengths are rounded up to a multiple of it. Few different shapes are few kernels
            to compile.

    Raises:
        DataValueError: `multiple` or `axis` is no such integer; in a loop, that arrays differ in
            another axis, in their number of axes, or cannot hold `value`.

    >>> from ingle.dataset import Loader, Padding
    >>> texts = [[1, 2, 3], [4], [5, 6]]
    >>> lengths = [len(t) for t in texts]
    >>> loader = Loader(texts, 2, lengths=lengths, collate=Padding(-1))
    >>> [batch.tolist() for batch in loader]
    [[[4, -1], [5, 6]], [[1, 2, 3]]]
    """

    def __init__(self, value: float = 0, *, axis: int = 0, multiple: int = 1) -> None:
        for name, number, least in (("axis", axis, 0), ("multiple", multiple, 1)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise DataValueError(
                    f"Padding: {name} must be an integer of at least {least}, got {number!r}"
                )
        self.value = value
        self.axis = axis
        self.multiple = multiple

    def __call__(self, samples: Sequence[Any]) -> Any:
        """The batch of a list of samples."""
        return collate_with(samples, self._stack)

    def _stack(self, arrays: list[Any], where: str) -> Any:
        shapes = [a.shape for a in arrays]
        if any(len(s) != len(shapes[0]) for s in shapes) or len(shapes[0]) <= self.axis:
            return stack(arrays, where)
        longest = max(s[self.axis] for s in shapes)
        length = -(-longest // self.multiple) * self.multiple
        return stack([self._padded(a, length, where) for a in arrays], where)

    def _padded(self, array: Any, length: int, where: str) -> Any:
        shape = list(array.shape)
        shape[self.axis] = length
        if array.size == 0 and array.dtype == np.float64:
            array = array.astype(np.result_type(self.value))  # an empty list says nothing of types
        if not _holds(array.dtype, self.value):
            raise DataValueError(
                f"Padding: {where} is {array.dtype}, which cannot hold {self.value!r}; choose "
                "another value, or convert the samples"
            )
        whole = np.full(shape, self.value, array.dtype)
        whole[tuple(slice(n) for n in array.shape)] = array
        return whole


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    """Whether an array can hold a number as it is, but for rounding of fractions."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return value == value and limits.min <= value <= limits.max and value == int(value)
    return dtype.kind in "fc" or (dtype.kind == "b" and value in (0, 1))
