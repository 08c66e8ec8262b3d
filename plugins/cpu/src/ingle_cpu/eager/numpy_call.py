"""Operations that NumPy's kernels run, which were found once for their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.eager import ArrayHandle, Kernel
from ingle.tensor.operation import Op

OFTEN = 256
"""Calls of NumPy's kernel before one of our own is compiled, which takes as long as a thousand."""


class ArithmeticCall:
    """A kernel that computes one result, and what is around it.

    Args:
        device: the backend.
        kernel: NumPy's.
        result: its shape and dtype.

    Attributes:
        left: how many calls there are until a kernel of our own is worth making.
    """

    def __init__(self, device: Any, kernel: Kernel, result: Aval) -> None:
        self.left = OFTEN
        self.result = result
        self._device = device
        self._kernel = kernel

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        device, (shape, dtype) = self._device, self.result
        arrays = [x.array() if type(x) is Scalar else x.array for x in inputs]  # type: ignore[union-attr]
        made = device.compute(self._kernel, op, arrays)
        if not shape:  # NumPy returns its own scalars for 0-d results.
            return (ArrayHandle(device, np.asarray(made), dtype),)
        handle = ArrayHandle(device, made, dtype)
        return (handle if made.flags.c_contiguous else device.in_order(handle),)

    def a_while(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """Runs it as often as NumPy's kernel is the one to take; None from then on."""
        self.left -= 1
        return self(op, inputs) if self.left > 0 else None


class MovementCall:
    """A kernel that moves elements, and computes nothing that NumPy could warn of.

    Args:
        device: the backend.
        kernel: NumPy's.
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
        device = self._device
        arrays = [x.array() if type(x) is Scalar else x.array for x in inputs]  # type: ignore[union-attr]
        try:
            made = self._kernel(op, *arrays)
        except MemoryError:
            return self._usual(op, inputs)
        return [
            x if x.array.flags.c_contiguous else device.in_order(x)
            for x in device.wrap(op, made, inputs)
        ]
