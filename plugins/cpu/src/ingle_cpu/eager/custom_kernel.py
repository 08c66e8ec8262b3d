"""Kernels that people wrote themselves: a nest, or LLVM IR with the signature of every kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ingle.fusion.device import CustomKernel
from ingle.fusion.device.executables import bits_of_number
from ingle.fusion.device.kernels import Nest
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from ..jit.engine import Code, IRSource, engine
from ..launch.table_builder import WORTH, kernel_of
from ..threads.table import IdleTables, kernel_table


class CustomCall:
    """An operation with somebody's kernel, for operands of certain shapes and dtypes.

    Args:
        device: the backend.
        kernel: source, arguments and units of work.
        op, inputs: what it is for.
    """

    def __init__(
        self, device: Any, kernel: CustomKernel, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> None:
        self._device = device
        self._results = infer(op, inputs)
        self._numbers = [i for i, x in enumerate(inputs) if isinstance(x, Scalar)]
        self._args = len(kernel.args)
        count = len(inputs) - len(self._numbers) + len(self._results)
        elements = max([_elements(a) for a in (*inputs, *self._results)])
        grain = max(1, WORTH * kernel.units // max(1, elements))
        code = _code(kernel)
        args = [*kernel.args, *[0] * len(self._numbers)]
        table = kernel_table(code, range(count), count, args, units=kernel.units, grain=grain)
        self._tables = IdleTables(table)
        self._releases = elements >= WORTH

    def __call__(self, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs the kernel."""
        device = self._device
        results = tuple([device.empty(aval) for aval in self._results])
        tensors = [device.in_order(x) for x in inputs if isinstance(x, Handle)]
        table = self._tables.taken()
        table.bases[:] = [h.address for h in (*tensors, *results)]
        for place, i in enumerate(self._numbers, self._args):
            table.args[place] = bits_of_number(inputs[i].value, inputs[i].dtype.name)  # type: ignore[union-attr]
        table.run(release=self._releases)
        self._tables.idle.append(table)
        return results


def _elements(x: Handle | Scalar | Aval) -> int:
    return math.prod(x.shape)


def _code(kernel: CustomKernel) -> Code:
    if isinstance(kernel.source, Nest):
        return kernel_of(kernel.source)
    return engine().code(IRSource(kernel.source, (kernel.name,)))
