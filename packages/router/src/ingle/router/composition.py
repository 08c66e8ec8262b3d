"""What composites are made of, so that a member can be asked for each part before anything runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.dispatch import execute_body
from ingle.tensor.dtypes import DType
from ingle.tensor.eager import REFERENCE
from ingle.tensor.errors import IngleError
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program, tracing

Operand: TypeAlias = Aval | Scalar
"""A tensor without its values, or the number that stands for all numbers of its dtype."""

TURNS = 2
"""How many turns of a loop are written down: what one needs, and what joins the results of two."""


class Asked(NamedTuple):
    """An operation with the operands that it is asked for.

    Attributes:
        op: the operation.
        operands: as `operands_of` makes them.
    """

    op: Op
    operands: tuple[Operand, ...]

    @property
    def avals(self) -> list[Aval]:
        """Shapes and dtypes of the operands, as `supports` takes them."""
        return [Aval(x.shape, x.dtype) for x in self.operands]


def operands_of(values: Iterable[Any]) -> tuple[Operand, ...]:
    """Handles, numbers or avals without what differs from call to call."""
    return tuple(
        [any_number(x.dtype) if isinstance(x, Scalar) else Aval(x.shape, x.dtype) for x in values]
    )


@cache
def any_number(dtype: DType) -> Scalar:
    """Stands for the numbers of a dtype: what a member has does not hang on their values.

    It is neither 0 nor 1, for which bodies leave work out, and where it may be, a probability.
    """
    if dtype.is_inexact:
        return Scalar(0.5, dtype)
    return Scalar(2 if dtype.is_integer else True, dtype)


def parts(whole: Asked) -> list[Asked]:
    """The operations that a composite asks for, with those of the programs that it carries.

    Bodies are one for all devices, so this holds for each member. Where a body needs a value to go
    on, as that of a loop with a condition does, these are its programs and what comes before.
    """
    found: dict[Asked, None] = {}
    for value in whole.op.attributes.values():
        if isinstance(value, Program):
            for step in value.steps:
                taken = [x if isinstance(x, Scalar) else value.avals[x] for x in step.inputs]
                found[Asked(step.op, operands_of(taken))] = None
    op, operands = _shortened(whole)
    with tracing(REFERENCE, making=True) as tracer:
        inputs = [x if isinstance(x, Scalar) else tracer.input(x)._handle for x in operands]
        # It may ask for a value, or not take a number that stands for others.
        with contextlib.suppress(IngleError):
            execute_body(op, inputs, tracer.device)
        for asked, taken in tracer.asked():
            found[Asked(asked, operands_of(taken))] = None
    return list(found)


def _shortened(whole: Asked) -> tuple[Op, Sequence[Operand]]:
    """A loop with few turns, as all of them ask for the same."""
    op, operands = whole
    loop = None if op.operation.loop is None else op.operation.loop(op)
    if loop is None or loop.length <= TURNS:
        return whole
    sliced = range(loop.carries, loop.carries + loop.sequences)
    return loop.of_length(TURNS), [
        Aval((TURNS, *x.shape[1:]), x.dtype) if place in sliced else x
        for place, x in enumerate(operands)
    ]
