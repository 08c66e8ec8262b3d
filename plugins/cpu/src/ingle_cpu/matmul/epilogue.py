"""What happens to the sums of a contraction, as a kernel of the nests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import Epilogue as Epilogue
from ingle.fusion.device.kernels import Instruction, Operand, epilogue_nest, layout
from ingle.fusion.device.llvm import render
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .problem import Problem
from .tile import compute_dtype


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


class NestArgs(NamedTuple):
    """An epilogue's arguments, and where the inner size and the first column are among them."""

    numbers: list[int]
    inner_at: int
    column_at: int


def nest_args(
    problem: Problem,
    epilogue: Epilogue,
    strides: Sequence[Sequence[int]],
    scalars: Sequence[int],
) -> NestArgs:
    """What an epilogue is called with."""
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
    return NestArgs(found, outer, layout(nest).scalar(len(epilogue.scalars)))


def _check_lane(operand: Operand, strides: Sequence[int]) -> None:
    wanted = {"unit": 1, "zero": 0}.get(operand.lane)
    if wanted is not None and strides[-1] != wanted:
        raise ValueError(f"an operand with lane {operand.lane!r} has stride {strides[-1]} along j")


def epilogue_source(epilogue: Epilogue, outer: int, dtype: str, target: Target) -> IRSource:
    """The module of an epilogue."""
    nest = epilogue_nest(epilogue, outer, dtype)
    return IRSource(render(nest, "epilogue", target), ("epilogue",), reduced=False)
