"""Sums of a scan's backward pass that are taken behind its loop.

The gradient of a weight that each step multiplies by is the sum of a product of each step. Behind
the loop that is one product, over all rows of all steps: of values that are stacked, and mostly are
so anyway. In the loop the whole weight's sum would pass through memory in each step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..contract import Aval, Scalar
from ..operation import Op
from ..ops import matmul, permute_dims, reshape, sum
from ..ops.reductions.basic import SUM
from ..precision import suspended
from ..programs import Program, Step
from ..tensor import Tensor
from ._rules import take_step

UNARY = frozenset({"permute_dims", "reshape", "sum"})
"""Linear operations: that of a sum is the sum of theirs."""
_TURNED = (1, 0)
_OF_ROWS = SUM.op(axis=(0,), keepdims=False)


class _Factor(NamedTuple):
    """A matrix of each step: a value, or that with its axes exchanged."""

    number: int
    turned: bool


class Summand(NamedTuple):
    """A part of a sum over all steps.

    Attributes:
        factors: of the product of each step; one if it is no product.
        then: what is done with the sum.
    """

    factors: tuple[_Factor, ...]
    then: tuple[Op, ...]

    @property
    def numbers(self) -> list[int]:
        """Of the values that must be stacked."""
        return [factor.number for factor in self.factors]


class Sum(NamedTuple):
    """What is added up over the steps of a loop, as what it is added up of."""

    terms: tuple[Summand, ...]

    @property
    def numbers(self) -> list[int]:
        """Of the values that must be stacked."""
        return [number for term in self.terms for number in term.numbers]


def sums_behind(
    program: Program, numbers: Sequence[int], stacked: Collection[int], same: Collection[int]
) -> dict[int, Sum]:
    """Which of some values are better summed up behind the loop.

    Args:
        program: a step of the loop.
        numbers: of the values.
        stacked: numbers of values that are stacked anyway.
        same: numbers of values that are the same in each step, and are not stacked.
    """
    makers = dict(_makers(program))
    sizes = [math.prod(a.shape) for a in program.avals]
    have = set(stacked)
    kept: dict[int, Sum] = {}
    # First those with products, since what these have stacked serves the others.
    for products in (True, False):
        for n in [n for n in numbers if n not in kept]:
            found = Sum(tuple(_terms(program, makers, n, have)))
            if products and all(len(term.factors) == 1 for term in found.terms):
                continue
            new = {x for x in found.numbers if x not in have}
            most = sizes[n] if products else 0
            if new.isdisjoint(same) and math.fsum([sizes[x] for x in new]) <= most:
                have |= new
                kept[n] = found
    return kept


def _makers(program: Program) -> Iterator[tuple[int, Step]]:
    """For values that are the only result of a step this step."""
    number = program.arity
    for step in program.steps:
        if step.results == 1:
            yield number, step
        number += step.results


def _terms(
    program: Program, makers: dict[int, Step], number: int, have: Collection[int]
) -> Iterator[Summand]:
    """What a value is the sum of; `have` are the numbers of what is stacked anyway."""
    todo: list[tuple[int, tuple[Op, ...]]] = [(number, ())]
    while todo:
        number, then = todo.pop()
        step = None if number in have else makers.get(number)
        inputs = [] if step is None else [x for x in step.inputs if not isinstance(x, Scalar)]
        if step is not None and len(inputs) == len(step.inputs):
            name, avals = step.op.operation.name, program.avals
            if name == "add" and all(avals[x] == avals[number] for x in inputs):
                todo += [(x, then) for x in reversed(inputs)]
                continue
            if name in UNARY:
                todo.append((inputs[0], (step.op, *then)))
                continue
            if name == "matmul" and all(len(avals[x].shape) == 2 for x in inputs):
                yield Summand(tuple([_factor(makers, x) for x in inputs]), then)
                continue
        yield Summand((_Factor(number, False),), then)


def _factor(makers: dict[int, Step], number: int) -> _Factor:
    step = makers.get(number)
    if step is not None and step.op.operation.name == "permute_dims":
        (x,) = step.inputs
        if step.op.attributes["axes"] == _TURNED and isinstance(x, int):
            return _Factor(x, True)
    return _Factor(number, False)


def taken(found: Sum, stacks: Mapping[int, Tensor]) -> Tensor:
    """The value of a sum.

    Args:
        stacks: of the numbers that it asks for, values of all steps.
    """
    with suspended():  # the step has the dtypes that it was traced with
        first, *others = [_value(term, stacks) for term in found.terms]
        for other in others:
            first = first + other
        return first


def _value(term: Summand, stacks: Mapping[int, Tensor]) -> Tensor:
    values, then = [stacks[number] for number in term.numbers], term.then
    if len(values) == 1 and then and then[0] == _OF_ROWS:
        # As the sum of what a product before the loop is given: it is taken once for both biases.
        x, then = values[0], then[1:]
        value = sum(reshape(x, (math.prod(x.shape[:2]), *x.shape[2:])), axis=0)
    elif len(values) == 1:
        value = sum(values[0], axis=0)
    else:
        left, right = term.factors
        rows = _rows(values[0], not left.turned), _rows(values[1], right.turned)
        value = matmul(permute_dims(rows[0], _TURNED), rows[1])
    for op in then:
        (value,) = take_step(op, [value], [Aval(value.shape, value.dtype)])
    return value


def _rows(x: Tensor, turned: bool) -> Tensor:
    """The rows of a matrix of each step, one below the other; of which the columns, if turned."""
    if turned:
        x = permute_dims(x, (0, 2, 1))
    steps, rows, columns = x.shape
    return reshape(x, (steps * rows, columns))
