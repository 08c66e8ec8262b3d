"""What a template does with the sums of a contraction, as a nest over its tiles."""

from __future__ import annotations

import functools
from typing import NamedTuple

from ..kernel.code import Code, Instruction
from ..kernel.nest import Map, Nest, Operand
from .contraction import ContractionCall

_LANES = {0: "zero", 1: "unit"}


class Epilogue(NamedTuple):
    """What happens to the sums.

    Attributes:
        code: its leaf `result` is the sum, `load k` is operand k at the same place, `index` axes
            are the batch axes, i, and -1 for j.
        operands: inputs and outputs besides the sum.
        stores: (operand, instruction) for each output.
        scalars: dtypes of the scalar arguments.
    """

    code: Code
    operands: tuple[Operand, ...]
    stores: tuple[tuple[int, int], ...]
    scalars: tuple[str, ...] = ()


def epilogue_of(call: ContractionCall) -> Epilogue:
    """The epilogue of a call; its operands' strides are those of the call's."""
    stored = {k for k, _ in call.stores}
    operands = [
        Operand(dtype, k in stored, "unit" if k in stored else _LANES.get(o.strides[-1], "strided"))
        for k, (o, dtype) in enumerate(zip(call.operands, call.dtypes, strict=True))
    ]
    return Epilogue(call.code, tuple(operands), call.stores, call.scalar_dtypes)


@functools.lru_cache(maxsize=4096)
def epilogue_nest(epilogue: Epilogue, outer: int, dtype: str, parts: int = 1) -> Nest:
    """The epilogue as a nest: operand 0 is the tile, and the last scalar its first column.

    Args:
        outer: the number of batch axes, and 1 for the rows.
        dtype: of the sums, as they lie in memory.
        parts: of the sums, each an operand, which are added from the first to the last.
    """
    column = len(epilogue.scalars)
    code: list[Instruction] = []
    place: list[int] = []
    for name, made, args, value in epilogue.code:
        args = tuple(place[a] for a in args)
        if name == "result":
            name, value = "load", 0
            for part in range(1, parts):
                code.append(Instruction(name, dtype, args, value))
                code.append(Instruction("load", dtype, (), part))
                name, args, value = "add", (len(code) - 2, len(code) - 1), None
            if made != dtype:
                code.append(Instruction(name, dtype, args, value))
                name, args, value = "cast", (len(code) - 1,), None
        elif name in ("load", "gather"):
            value += parts
        code.append(Instruction(name, made, args, value))
        if name == "index" and value == -1:
            code.append(Instruction("scalar", "int64", (), column))
            code.append(Instruction("add", "int64", (len(code) - 2, len(code) - 1)))
        place.append(len(code) - 1)
    stores = tuple((k + parts, place[at]) for k, at in epilogue.stores)
    operands = (*[Operand(dtype)] * parts, *epilogue.operands)
    scalars = (*epilogue.scalars, "int64")
    return Nest(outer, operands, scalars, (Map(tuple(code), stores),))
