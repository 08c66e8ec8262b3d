"""Products that a scan need not take in each of its steps.

The product of a slice with a matrix that is the same in each step does not wait for the carry: it
is taken for all slices at once, before the loop, which then goes along the results. So is its
gradient. Generated kernels give a row of a product the same bits whatever other rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..contract import Aval, Scalar
from ..operation import Op
from ..precision import suspended
from ..programs import Program, Step
from ._rules import take_step

PRODUCTS = frozenset({"matmul", "linear"})
"""Operations whose first operand may have more axes in front, with more rows of the same."""
LARGER = 4
"""By which factor what is taken before may be larger than what the scan reads and stacks anyway."""


class _Product(NamedTuple):
    """A step of a body that does not wait for the carry.

    Attributes:
        op: what it does.
        operands: places among the inputs of the body: of a slice, then of what is the same in each
            step, where there may be numbers too.
        number: of its result.
    """

    op: Op
    operands: tuple[int | Scalar, ...]
    number: int


def taken_before(
    body: Program, carries: int, sequences: int, length: int, inputs: Sequence[Any]
) -> tuple[Program, int, list[Any]]:
    """A scan whose products of slices are taken before it.

    Args:
        body, carries, sequences, length: as the attributes of a scan.
        inputs: what it is to run on.

    Returns:
        The body, how many sequences it has, and what it runs on instead.
    """
    products = _products(body, carries, sequences)
    if not products:
        return body, sequences, list(inputs)
    last = carries + sequences
    avals = [body.avals[p.number] for p in products]
    known = {i: i for i in range(body.arity)}
    known |= {p.number: body.arity + i for i, p in enumerate(products)}
    wide = body.rebuilt([*body.inputs, *avals], known, body.outputs)
    # What products alone took is no operand any more.
    gone = {i for p in products for i in p.operands if not isinstance(i, Scalar)} - wide.used()
    slices = [i for i in range(carries, last) if i not in gone]
    constants = [i for i in range(last, body.arity) if i not in gone]
    order = [*range(carries), *slices, *range(body.arity, wide.arity), *constants]
    places = {old: new for new, old in enumerate(order)}
    narrow = wide.rebuilt([wide.avals[i] for i in order], places, wide.outputs)
    with suspended():  # the body has the dtypes that it was traced with
        made = [_at_once(body, p, length, inputs) for p in products]
    given = [*inputs, *made]
    return narrow, len(slices) + len(products), [given[i] for i in order]


def _at_once(body: Program, product: _Product, length: int, inputs: Sequence[Any]) -> Any:
    values: list[Any] = []
    avals: list[Aval] = []
    for place, x in enumerate(product.operands):
        if isinstance(x, Scalar):
            values.append(x.value)
            avals.append(Aval((), x.dtype))
        else:
            shape, dtype = body.avals[x]
            values.append(inputs[x])
            avals.append(Aval(shape if place else (length, *shape), dtype))
    return take_step(product.op, values, avals)[0]


def _products(body: Program, carries: int, sequences: int) -> list[_Product]:
    """Those that are worth the memory, in which their results stand all at once."""
    last = carries + sequences
    sizes = [math.prod(a.shape) for a in (*body.inputs[carries:last], *body.results[carries:])]
    left = LARGER * sum(sizes)
    found: list[_Product] = []
    number = body.arity
    for step in body.steps:
        size = math.prod(body.avals[number].shape)
        if _is_of_slice(body, step, carries, last) and size <= left:
            left -= size
            found.append(_Product(step.op, step.inputs, number))
        number += step.results
    return found


def _is_of_slice(body: Program, step: Step, carries: int, last: int) -> bool:
    """Whether a step is the product of rows of a slice with what is the same in each step."""
    if step.op.operation.name not in PRODUCTS:
        return False
    first, *same = step.inputs
    if isinstance(first, Scalar) or not carries <= first < last:
        return False
    if not all(isinstance(x, Scalar) or last <= x < body.arity for x in same):
        return False
    second = same[0]
    matrices = len(body.avals[first].shape) >= 2 and not isinstance(second, Scalar)
    return matrices and len(body.avals[second].shape) == 2  # type: ignore[index]
