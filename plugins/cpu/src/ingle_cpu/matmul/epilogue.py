"""What happens to the sums of a contraction, as a kernel of the nests."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.kernel.code import Code, Instruction
from ingle.fusion.kernel.nest import Map, Nest, Operand, layout
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import Target

from ..jit.engine import IRSource
from .abi import MAX_NEST_ARGS
from .blocking import Problem
from .pack import compute_dtype


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


def identity(dtype: str) -> Epilogue:
    """The epilogue that stores the sums, rounded to a dtype, as operand 0.

    >>> identity("bfloat16").stores
    ((0, 1),)
    """
    made = compute_dtype(dtype)
    code = [Instruction("result", made, (), (0, 0))]
    if made != dtype:
        code.append(Instruction("cast", dtype, (0,)))
    return Epilogue(tuple(code), (Operand(dtype, True),), ((0, len(code) - 1),))


def is_identity(epilogue: Epilogue) -> bool:
    """Whether it stores the sums as they are, and nothing else."""
    stored = len(epilogue.stores) == len(epilogue.operands) == 1
    return stored and len(epilogue.code) == 1 and epilogue.code[0].name == "result"


def nest_args(
    problem: Problem,
    epilogue: Epilogue,
    strides: Sequence[Sequence[int]],
    scalars: Sequence[int],
) -> tuple[list[int], int, int]:
    """The epilogue's arguments, and where the inner size and the first column are among them."""
    if problem.n > 1 and problem.m and math.prod(problem.batch):
        for operand, steps in zip(epilogue.operands, strides, strict=True):
            _check_lane(operand, steps)
    outer = len(problem.batch) + 1
    nest = epilogue_nest(epilogue, outer, compute_dtype(problem.a_dtype))
    found = [*problem.batch, problem.m, 0]
    found += [0] * outer + [1]  # of the tile; the driver knows its row stride
    for steps in strides:
        found += steps
    found += [*scalars, 0]
    if len(found) > MAX_NEST_ARGS:
        raise ValueError(f"an epilogue with {len(epilogue.operands)} operands is too large")
    return found, outer, layout(nest).scalar(len(epilogue.scalars))


def _check_lane(operand: Operand, strides: Sequence[int]) -> None:
    wanted = {"unit": 1, "zero": 0}.get(operand.lane)
    if wanted is not None and strides[-1] != wanted:
        raise ValueError(f"an operand with lane {operand.lane!r} has stride {strides[-1]} along j")


@functools.lru_cache(maxsize=4096)
def epilogue_nest(epilogue: Epilogue, outer: int, dtype: str) -> Nest:
    """The epilogue as a nest: operand 0 is the tile, and the last scalar its first column."""
    column = len(epilogue.scalars)
    code: list[Instruction] = []
    place: list[int] = []
    for name, made, args, value in epilogue.code:
        args = tuple(place[a] for a in args)
        if name == "result":
            name, value = "load", 0
        elif name in ("load", "gather"):
            value += 1
        code.append(Instruction(name, made, args, value))
        if name == "index" and value == -1:
            code.append(Instruction("scalar", "int64", (), column))
            code.append(Instruction("add", "int64", (len(code) - 2, len(code) - 1)))
        place.append(len(code) - 1)
    stores = tuple((k + 1, place[at]) for k, at in epilogue.stores)
    operands = (Operand(dtype), *epilogue.operands)
    scalars = (*epilogue.scalars, "int64")
    return Nest(outer, operands, scalars, (Map(tuple(code), stores),))


def epilogue_source(epilogue: Epilogue, outer: int, dtype: str, target: Target) -> IRSource:
    """The module of an epilogue."""
    nest = epilogue_nest(epilogue, outer, dtype)
    return IRSource(render(nest, "epilogue", target), ("epilogue",), reduced=False)
