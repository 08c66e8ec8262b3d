"""Operations whose results are views of one tensor, which NumPy makes as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.eager import ArrayHandle, Kernel
from ingle.tensor.operation import Op


class ViewCall:
    """A kernel that makes a view of its first operand; the others are places.

    Args:
        device: the backend.
        kernel: NumPy's, for operands of one shape.
        usual: runs the operation where memory is short, and asks the pool for what it keeps.
    """

    def __init__(
        self, device: Any, kernel: Kernel,
        usual: Callable[[Op, Sequence[Handle | Scalar]], Sequence[Handle]],
    ) -> None:  # fmt: skip
        self._device = device
        self._kernel = kernel
        self._usual = usual

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
        x: Any = inputs[0]
        try:
            if len(inputs) == 1:
                made = self._kernel(op, x.array)
            else:
                places = [s.value if type(s) is Scalar else s.array for s in inputs[1:]]  # type: ignore[union-attr]
                made = self._kernel(op, x.array, *places)
        except MemoryError:
            return self._usual(op, inputs)
        if x.owned is None and type(made) is np.ndarray:
            return (ArrayHandle(self._device, made, x.dtype),)
        found: Sequence[Handle] = self._device.wrap(op, made, inputs)
        return found

    def followed_by(self, ops: Sequence[Op], calls: Sequence[ViewCall]) -> ViewCall:
        """One call of this view and of others, each of them of the one before it."""
        first, kernels = self._kernel, [call._kernel for call in calls]

        def kernel(op: Op, x: np.ndarray, *places: Any) -> Any:
            made = first(op, x, *places)
            for after, view in zip(ops, kernels, strict=True):
                made = view(after, made)
            return made

        def usual(op: Op, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
            made = self._usual(op, inputs)
            for after, call in zip(ops, calls, strict=True):
                made = call._usual(after, made)
            return made

        return ViewCall(self._device, kernel, usual)
