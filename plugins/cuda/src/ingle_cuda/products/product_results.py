"""In which dtype the library writes a product, and whether it writes what a call stores itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import (
    HALVES,
    Code,
    ContractionCall,
    Instruction,
    accumulator_dtype,
)

from .cublas import LARGEST

_FEW_TERMS = 4096
"""Terms of the sums of half types up to which a product is no longer than what passes these sums to
its epilogue in float32."""


def dtype_of_sums(call: ContractionCall) -> str:
    """In which dtype the library passes sums to an epilogue: that of the operation's result where
    to move them in a wider one would take about as long as the product."""
    short = sums_are_short(call.dtype, call.sizes[2]) and call.windows is None
    return call.dtype if short else accumulator_dtype(call.dtype)


def sums_are_short(dtype: str, terms: int) -> bool:
    """Whether sums of so many terms are passed on in a half type."""
    return dtype in HALVES and terms <= _FEW_TERMS


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


class AddedRow(NamedTuple):
    """A row that is added to each row of sums, such as a layer's bias.

    Attributes:
        row: the operand that it is.
        store: the operand in which the rounded sums are stored.
        rest: what else the call does with these, as the epilogue of one that reads them as its
            sums; None if it does no more.
        others: its operands, by their numbers in the call.
    """

    row: int
    store: int
    rest: ContractionCall | None
    others: tuple[int, ...]


def added_row(call: ContractionCall) -> AddedRow | None:
    """The row that the library can add, round to half types and store as a call wants it."""
    if call.dtype not in HALVES or math.prod(call.batch) != 1 or call.windows is not None:
        return None
    for store, at in call.stores:
        taken = _sum_with_row(call.code, at)
        if taken is None:
            continue
        row = call.code[taken[-1]].value
        *_, along, across = call.operands[row].strides
        m, n, _ = call.sizes
        repeats = (not along or m == 1) and (across == 1 or n == 1)
        halves = call.code[at].dtype == call.dtypes[store] == call.dtypes[row] == call.dtype
        others = tuple([k for k in range(len(call.operands)) if k not in (row, store)])
        if not (repeats and halves and row != store and _is_written(call, store)):
            continue
        if len(call.stores) == 1 and not others:
            return AddedRow(row, store, None, ())
        rest = _rest(call, (at, *taken), store, others)
        if rest is not None:
            return AddedRow(row, store, rest, others)
    return None


def _sum_with_row(code: Code, at: int) -> tuple[int, ...] | None:
    """The instructions of a sum, with what is added and rounded; the last one loads the row."""
    if code[at].name != "cast" or code[code[at].args[0]].name != "add":
        return None
    added = code[at].args[0]
    for total, wide in (code[added].args, code[added].args[::-1]):
        if code[total].name == "result" and code[wide].name == "cast":
            (loaded,) = code[wide].args
            return (added, total, wide, loaded) if code[loaded].name == "load" else None
    return None


def _rest(
    call: ContractionCall, taken: Sequence[int], store: int, others: Sequence[int]
) -> ContractionCall | None:
    """A call whose epilogue begins with what is stored; None where it needs more of the sums.

    Args:
        taken: instructions that the library does, first the one whose result it stores.
        store: the operand in which it does.
        others: the operands that are left.
    """
    code = [Instruction("result", call.dtype, (), (0, 0))]
    place = {taken[0]: 0}
    for number, instruction in enumerate(call.code):
        if number in taken:
            continue
        if instruction.name == "result" or any(arg not in place for arg in instruction.args):
            return None
        value = instruction.value
        if instruction.name in ("load", "gather"):
            if value not in others:
                return None
            value = others.index(value)
        place[number] = len(code)
        args = tuple([place[arg] for arg in instruction.args])
        code.append(instruction._replace(args=args, value=value))
    stores = [(k, at) for k, at in call.stores if k != store]
    if not stores or any(at not in place for _, at in stores):
        return None
    return call._replace(
        code=tuple(code), stores=tuple([(others.index(k), place[at]) for k, at in stores]),
        operands=tuple([call.operands[k] for k in others]),
        dtypes=tuple([call.dtypes[k] for k in others]),
    )  # fmt: skip
