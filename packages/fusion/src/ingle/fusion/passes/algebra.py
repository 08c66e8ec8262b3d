"""Algebra that keeps every bit: operations that change nothing, and cheaper ones that do the same.

IEEE arithmetic allows less than one would think: `x + 0.0` is not `x` where `x` is -0.0, `x * 0.0`
is not 0 for NaN, and sums may not be put in another order. What is here holds for every value. NaN
stays NaN, whose sign and payload no operation promises anyhow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ingle.tensor.dtypes import DType
from ingle.tensor.operation import OPERATIONS, Laws, Op

from ..ir.graph import Graph, Node
from ..kernel.code import HALVES

Work: TypeAlias = "tuple[Op, tuple[int, ...]]"

POWERS = {"float16": 14, "bfloat16": 126, "float32": 126, "float64": 1022}
"""Up to which power of two its inverse is a normal number, too."""
FLOATS = (("float16", "float32", "float64"), ("bfloat16", "float32", "float64"))
"""Each holds all values of those before it."""


class Algebra:
    """Looks at operations that are about to be appended to a graph.

    Args:
        graph: it grows between calls.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._inverses: dict[int, int] = {}
        self._makers: dict[int, Node] = {}
        self._read = 0

    def cheaper(self, op: Op, args: tuple[int, ...]) -> Work:
        """An operation with the same results."""
        traits = op.operation.traits
        laws = traits.laws
        if laws.by_inverse is not None:
            inverse = self._inverse(args[1])
            if inverse is not None:
                return OPERATIONS[laws.by_inverse].op(), (args[0], inverse)
        elif laws.even:
            inner = self._maker(args[0])
            unsigned = self._dtype(args[0]).kind == "unsigned"  # where -1 is large
            if inner is not None and inner.op.operation.traits.laws.negates and not unsigned:
                return op, inner.args
        elif traits.access == "join":
            return op, tuple([p for p in args if 0 not in self._shape(p)]) or args
        elif laws.converts:
            inner = self._maker(args[0])
            if inner is not None and inner.op.operation.traits.laws.converts:
                before = self._dtype(inner.args[0])
                if _holds_all(self._dtype(args[0]), before):
                    return op, inner.args
        elif op.operation.name == "reshape" or traits.family == "gather":
            args = self._before_reshape(op, args)
            return self._moved_narrow(op, args) or (op, args)
        return op, args

    def _before_reshape(self, op: Op, args: tuple[int, ...]) -> tuple[int, ...]:
        """What a reshape of a reshape takes that was just computed, and so lies in order.

        Products lie in memory, where a reshape is a view: whoever else reads it finds it there.
        """
        inner = self._maker(args[0])
        if inner is None or not inner.op.operation.name == op.operation.name == "reshape":
            return args
        source = self._maker(inner.args[0])
        kinds = ("movement", "contraction")
        computed = source is not None and source.op.operation.traits.kind not in kinds
        return inner.args if computed else args

    def _moved_narrow(self, op: Op, args: tuple[int, ...]) -> Work | None:
        """Elements of a half type that are moved before they are widened: readers widen them, and
        the half is what lies in memory."""
        inner = self._maker(args[0])
        if inner is None or not inner.op.operation.traits.laws.converts:
            return None
        before = self._dtype(inner.args[0])
        if before.name not in HALVES or not _holds_all(self._dtype(args[0]), before):
            return None
        return inner.op, self._graph.node(op, (*inner.args, *args[1:]))

    def unchanged(self, op: Op, args: tuple[int, ...], shape: Sequence[int]) -> int | None:
        """The argument that is the operation's result, of this shape, if one is."""
        found = self._same(op, args)
        if found is None or self._graph.values[found].kind not in ("input", "result"):
            return None
        return found if self._graph.values[found].aval.shape == tuple(shape) else None

    def _same(self, op: Op, args: tuple[int, ...]) -> int | None:
        if op.operation.name in ("reshape", "broadcast_to"):
            return args[0]
        traits = op.operation.traits
        if traits.access == "join":
            return args[0] if len(args) == 1 else None
        found = self._by_laws(traits.laws, op, args)
        return None if found is None or self._is_turned(found) else found

    def _is_turned(self, value: int) -> bool:
        """Whether a value lies in memory with another axis last.

        What is computed from one lies in the order of its axes when it is computed alone, and a
        product takes its sums in an order that depends on how its operands lie.
        """
        maker = self._maker(value)
        while maker is not None and maker.op.operation.traits.kind == "movement" and maker.args:
            if maker.op.operation.name == "permute_dims":
                axes = maker.op.attributes["axes"]
                if axes and axes[-1] != len(axes) - 1:
                    return True
            maker = self._maker(maker.args[0])
        return False

    def _by_laws(self, laws: Laws, op: Op, args: tuple[int, ...]) -> int | None:
        if laws.neutral is not None:
            x, y = args
            if self._is(y, laws.neutral):
                return x
            return y if laws.commutes and self._is(x, laws.neutral) else None
        if laws.idempotent:  # a choice has a condition before its two operands
            return args[-1] if args[-1] == args[-2] else None
        if laws.negates:
            inner = self._maker(args[0])
            negated = inner is not None and inner.op.operation.traits.laws.negates
            return inner.args[0] if inner is not None and negated else None
        same = laws.converts and op.attributes["dtype"] == self._dtype(args[0])
        return args[0] if same else None

    def _dtype(self, value: int) -> DType:
        return self._graph.values[value].aval.dtype

    def _shape(self, value: int) -> tuple[int, ...]:
        return self._graph.values[value].aval.shape

    def _number(self, value: int) -> Any:
        found = self._graph.values[value]
        return found.data if found.kind == "constant" and found.aval.shape == () else None

    def _is(self, value: int, number: float) -> bool:
        """Whether a value is this real constant; zeros of floats have a sign."""
        data, dtype = self._number(value), self._dtype(value)
        if data is None or dtype.is_complex or dtype.kind == "bool" or data != number:
            return False
        if data != 0 or not dtype.is_floating:
            return True
        return math.copysign(1.0, data) == math.copysign(1.0, number)

    def _inverse(self, value: int) -> int | None:
        """One over a constant as a constant, where the dtype holds it: of powers of two."""
        data, dtype = self._number(value), self._dtype(value)
        if data is None or not dtype.is_floating or not math.isfinite(data):
            return None
        mantissa, exponent = math.frexp(data)
        if abs(mantissa) != 0.5 or abs(exponent - 1) > POWERS[dtype.name]:
            return None
        if value not in self._inverses:
            self._inverses[value] = self._graph.constant(1.0 / data, dtype)
        return self._inverses[value]

    def _maker(self, value: int) -> Node | None:
        for node in self._graph.nodes[self._read :]:
            self._makers.update(dict.fromkeys(node.results, node))
        self._read = len(self._graph.nodes)
        return self._makers.get(value)


def _holds_all(wide: DType, narrow: DType) -> bool:
    """Whether a dtype holds every value of another."""
    if any(narrow.name in line and wide.name in line[line.index(narrow.name) :] for line in FLOATS):
        return True
    if wide is narrow or narrow.name == "bool":
        return True
    kinds = [np.dtype(d.dtype) for d in (narrow, wide)]
    return all(k.kind in "iu" for k in kinds) and np.can_cast(kinds[0], kinds[1], "safe")
