"""Which operations the passes know how to put into kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.elementwise.dependence import DEPEND

from ..ir.regions import ASSEMBLED
from ..kernel.code import DTYPES
from ..kernel.lowering import SORTS, can_lower, reduction_of, running_of

LONGEST_NETWORK = 16
"""Elements of a row up to which its sorting network is small enough to stay in registers."""


def is_product(op: Op) -> bool:
    """Whether an operation is a matrix product."""
    return op.operation.traits.family == "matmul"


def sorts(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether a network finds the order of the rows that an operation sorts."""
    name, x = op.operation.name, avals[0]
    if name not in SORTS or not 1 <= x.shape[op.attributes["axis"]] <= LONGEST_NETWORK:
        return False
    return x.dtype.name in DTYPES and (name == "sort" or x.dtype.itemsize <= 4)


def generates(contracts: Callable[[Sequence[Aval]], bool]) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether kernels can be generated for an operation, on a device with these products.

    Args:
        contracts: whether the device has a template for a matrix product.
    """

    def asked(op: Op, avals: Sequence[Aval]) -> bool:
        traits = op.operation.traits
        if is_product(op):
            return contracts(avals)
        if op.operation is DEPEND:
            return True
        if traits.family == "movement":
            return avals[0].dtype.name in DTYPES
        if op.operation.name in SORTS:
            return sorts(op, avals)
        if op.operation.name in ASSEMBLED or running_of(op) is not None:
            return all(a.dtype.name in DTYPES for a in avals)
        if traits.family == "gather":
            return all(a.dtype.name in DTYPES for a in avals)
        if reduction_of(op) is not None:
            truth = reduction_of(op) in ("any", "all")
            return avals[0].dtype.name in (DTYPES if truth else DTYPES - {"bool"})
        return can_lower(op, avals)

    return asked
