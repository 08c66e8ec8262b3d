"""Indices of which it is known without a look at them that they are inside of what they index.

The place of an extreme along an axis is less than the axis is long, whatever lies there. A step
that looks up what it has just chosen (the next token's row, the nearest code, the value of the best
action) need not wait for a check of that index before it writes over its state. Nor are the rows
that an embedding took, and was checked for, checked again where its gradient adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


class KnownPlaces:
    """For values of a log, a size below which all their elements are known to be.

    Attributes:
        trusted: how many indices have not been checked for it.
    """

    def __init__(self) -> None:
        self.trusted = 0
        self._merged: dict[int, tuple[Op, int]] = {}
        """What merged the indices of several axes, and the value as of which it is known."""
        self._below: dict[int, tuple[Any, int]] = {}
        """That size, and the value as of which it is known."""

    def note(self, op: Op, inputs: Sequence[Any], result: Any) -> None:
        """Notes the result of an operation, if its elements are places or those of a known one."""
        traits = op.operation.traits
        below: Any = None
        if traits.family == "argreduce":
            below = inputs[0].shape[op.attributes["axis"]]
        elif traits.family == "cast" or (
            # What a pad puts around a value is another one, so it has two tensors.
            traits.kind == "movement" and traits.access is None and len(op.operation.tensors) == 1
        ):
            below = self.below(inputs[0])
            if (merged := self.merged(inputs[0])) is not None:
                self._merged[result.number] = merged, result.number
        dtype = result.dtype
        if below is not None and dtype.is_integer and below - 1 <= np.iinfo(dtype.dtype).max:
            self._below[result.number] = below, result.number

    def note_rows(self, op: Op, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Notes the indices of rows that an operation took, with whose body they were checked."""
        if op.operation.traits.row_indices is None:
            return
        indices, table = (inputs[n] for n in op.operation.traits.row_indices)
        if self.below(indices) is None:
            self._below[indices.number] = table.shape[0], results[0].number

    def note_merged(self, op: Op, results: Sequence[Any]) -> None:
        """Notes what an operation made of the indices of several axes."""
        if op.operation.traits.checks_indices:
            self._merged[results[0].number] = op, results[0].number

    def merged(self, value: Any) -> Op | None:
        """What merged the indices of several axes to a value, if one did."""
        found = self._merged.get(getattr(value, "number", -1))
        return None if found is None else found[0]

    def below(self, value: Any) -> Any:
        """A size below which all elements are, none of them negative; None if nothing is known."""
        found = self._below.get(getattr(value, "number", -1))
        return None if found is None else found[0]

    def is_inside(self, indices: Any, size: Any) -> bool:
        """Whether indices of an axis of a size need no check.

        Where sizes are symbols, a plan that is made for many holds for those that answer alike.
        """
        below = self.below(indices)
        inside = below is not None and bool(below <= size)
        self.trusted += inside
        return inside

    def takes_inside(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether the indices that a body computes need no check, for these inputs."""
        if op.operation.traits.row_indices is None:
            return op.operation.traits.indexes_inside
        indices, table = op.operation.traits.row_indices
        return self.is_inside(inputs[indices], inputs[table].shape[0])

    def forget(self, count: int) -> None:
        """Values from this one on are no more."""
        self._below = {n: known for n, known in self._below.items() if known[1] < count}
        self._merged = {n: known for n, known in self._merged.items() if known[1] < count}
