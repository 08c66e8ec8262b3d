"""In which dtype the library writes a product, and whether it writes what a call stores itself."""

from __future__ import annotations

import math

from ingle.fusion.device.kernels import HALVES, ContractionCall, accumulator_dtype

from .cublas import LARGEST

_FEW_TERMS = 4096
"""Terms of the sums of half types up to which a product is no longer than what passes these sums to
its epilogue in float32."""


def dtype_of_sums(call: ContractionCall) -> str:
    """In which dtype the library passes sums to an epilogue: that of the operation's result where
    to move them in a wider one would take about as long as the product."""
    short = call.dtype in HALVES and call.sizes[2] <= _FEW_TERMS and call.windows is None
    return call.dtype if short else accumulator_dtype(call.dtype)


def direct_result(call: ContractionCall) -> str | None:
    """The dtype in which the library can write what a call stores, where it does no more than
    round the sums."""
    if len(call.operands) != 1 or len(call.stores) != 1:
        return None
    names = [instruction.name for instruction in call.code]
    dtype = call.dtypes[0]
    rounded = names == ["result", "cast"] and dtype == call.dtype and dtype in HALVES
    if not rounded and (names != ["result"] or dtype != accumulator_dtype(call.dtype)):
        return None
    return dtype if _is_written(call, 0) else None


def _is_written(call: ContractionCall, number: int) -> bool:
    """Whether the library can write an operand where it lies."""
    strides, n = call.operands[number].strides, call.sizes[1]
    *_, row, column = strides
    if not ((column == 1 or n == 1) and (n <= row <= LARGEST or call.sizes[0] == 1)):
        return False
    steps = zip(strides, call.batch, strict=False)
    return all(step > 0 for step, size in steps if size > 1)


def added_row(call: ContractionCall) -> int | None:
    """The operand that is added to each row of sums, such as a layer's bias, where the library can
    do all that a call does: add it, round to half types, and store."""
    if call.dtype not in HALVES or len(call.operands) != 2 or len(call.stores) != 1:
        return None
    if math.prod(call.batch) != 1 or call.windows is not None:
        return None
    ((store, at),) = call.stores
    (other,) = {0, 1} - {store}
    rounded = call.code[at]
    if rounded.name != "cast" or {rounded.dtype, *call.dtypes} != {call.dtype}:
        return None
    added = call.code[rounded.args[0]]
    if added.name != "add":
        return None
    parts = {call.code[n].name: call.code[n] for n in added.args}
    if parts.keys() != {"result", "cast"} or call.code[parts["cast"].args[0]].name != "load":
        return None
    *_, along, across = call.operands[other].strides
    m, n, _ = call.sizes
    repeats = (not along or m == 1) and (across == 1 or n == 1)
    return other if repeats and _is_written(call, store) else None
