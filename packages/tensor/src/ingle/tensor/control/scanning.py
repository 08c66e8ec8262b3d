"""scan: a loop of known length over the first axis of tensors, with a carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..contract import Aval
from ..device import Device
from ..errors import ArgumentError, OperandError, ShapeError
from ..operation import Loop, Op, Operation, Traits
from ..ops import moveaxis, stack, unstack, zeros
from ..ops._batching import repeated
from ..ops._rules import as_int
from ..programs import Program, recorded, trace, writing_down
from ..sample import Draw, Sample
from ..tensor import Tensor
from ._cells import trace_with_cells, write_back
from ._leaves import (
    Sides,
    agreeing,
    as_tensors,
    avals_of,
    checked_function,
    device_of,
    filled,
    operands,
    paths,
    tensors_of,
)
from ._numbers import NumberScope, numbers_of_steps
from ._rules import batched, check_operands, program_of, take_step, with_constants
from ._scan_gradient import scan_training, scan_vjp
from ._scan_products import taken_before

Function = Callable[..., Any]


def scan(
    function: Function,
    init: Any,
    xs: Any = None,
    /,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Runs `carry, y = function(carry, x)` for each `x` along the first axis of `xs`.

    It differs from a loop in Python where the function around is traced: it is one step
    then, whatever the length, and not a step for each `x`.

    Args:
        function: takes the carry and a slice of `xs` and returns a pair: the next carry, of the
            same structure, shapes and dtypes, and anything made of tensors and numbers. It may
            use other tensors, and read and write cells.
        init: the first carry: nested tuples, lists and dicts of tensors and numbers.
        xs: the same of tensors that agree in the size of their first axis; None for no slices.
        length: how many steps; needed where `xs` is None.
        reverse: whether the last slice comes first. What belongs to a slice stays at its place.

    Returns:
        The last carry, and the second results stacked along a new first axis.

    Raises:
        OperandError: an argument or a result is of the wrong kind or structure.
        ShapeError, DTypeError: a leaf of the carry changes in a step; first axes differ.

    >>> import ingle.tensor as it
    >>> total, sums = it.scan(lambda c, x: (c + x, c + x), 0, it.asarray([1, 2, 3]))
    >>> total.item(), sums.tolist()
    (6, [1, 3, 6])
    """
    checked_function("scan", "function", function)
    where = device_of(init, xs)
    carry = as_tensors("scan", "init", init, where)
    slices = as_tensors("scan", "xs", xs, where)
    steps = _length(slices, length)
    loop = _Scan(function, carry, where)
    if writing_down():
        return _one_step(loop, slices, steps, bool(reverse))
    rows = [unstack(x) for x in tensors_of(slices)]
    results = []
    for i in range(steps - 1, -1, -1) if reverse else range(steps):
        carry, y = loop.step(carry, filled(slices, [row[i] for row in rows]))
        results.append(y)
    if reverse:
        results.reverse()
    return carry, _stacked(results) if results else _no_results(loop, slices)


class _Scan:
    """The function of a scan, whose results are checked."""

    def __init__(self, function: Function, init: Any, where: Device | None) -> None:
        self.function = function
        self.init = init
        self.where = where

    def step(self, carry: Any, x: Any) -> tuple[Any, Any]:
        result = self.function(carry, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise OperandError(
                f"scan: the function must return a pair (carry, y), got {type(result).__name__}"
                + (f" of {len(result)}" if isinstance(result, tuple) else "")
            )
        after = agreeing(CARRY, result[0], self.init)
        return filled(self.init, after), as_tensors("scan", "y", result[1], self.where)


CARRY = Sides(
    "scan",
    "the carry",
    "after it",
    "before a step",
    "a carry keeps its shapes and dtypes: cast or reshape what the function returns, or init",
    carried=True,
)


def _length(xs: Any, length: int | None) -> int:
    sizes: dict[int, str] = {}
    for path, x in paths(xs):
        if isinstance(x, Tensor):
            if not x.shape:
                raise ShapeError(f"scan: xs{path} is 0-d, there is no axis to go along")
            sizes.setdefault(x.shape[0], path)
    if length is not None:
        number = as_int(length, "scan", "length")
        if number < 0:
            raise ArgumentError(f"scan: length must not be negative, got {number}")
        sizes.setdefault(number, "")
        if len(sizes) > 1:
            raise ShapeError(f"scan: length={number}, but xs has {next(iter(sizes))} slices")
        return number
    if len(sizes) > 1:
        (a, first), (b, second), *_ = sizes.items()
        raise ShapeError(f"scan: xs{first} has {a} slices along its first axis, xs{second} {b}")
    if not sizes:
        raise ArgumentError("scan: xs has no tensors, so length=... must say how many steps")
    return next(iter(sizes))


def _stacked(results: Sequence[Any]) -> Any:
    first = results[0]
    sides = Sides(
        "scan", "y", "after one step", "after another", "they are stacked: make them alike"
    )
    leaves = [agreeing(sides, y, first) for y in results]
    return filled(first, [stack(column) for column in zip(*leaves, strict=True)])


def _no_results(loop: _Scan, xs: Any) -> Any:
    """What stacking no results gives: the function says their shapes and dtypes."""
    given = tensors_of(xs)
    count = len(tensors_of(loop.init))
    traced = trace(
        lambda *x: loop.step(filled(loop.init, x[:count]), filled(xs, x[count:]))[1],
        [*avals_of(tensors_of(loop.init)), *[Aval(x.shape[1:], x.dtype) for x in given]],
        loop.where,
    )
    empty = [
        zeros((0, *y.shape), dtype=y.dtype, device=loop.where) for y in tensors_of(traced.result)
    ]
    return filled(traced.result, empty)


def _one_step(loop: _Scan, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """The function is traced once; cells that it writes are carried too."""
    init, slices = tensors_of(loop.init), tensors_of(xs)
    count = len(init)
    avals = [*avals_of(init), *[Aval(x.shape[1:], x.dtype) for x in slices]]

    def of_tensors(*tensors: Tensor) -> tuple[Any, Any]:
        return loop.step(filled(loop.init, tensors[:count]), filled(xs, tensors[count:]))

    (traced,), cells, (scope,) = trace_with_cells([of_tensors], avals, loop.where, NumberScope)
    assert isinstance(scope, NumberScope)
    numbers = numbers_of_steps("scan", traced, scope, length, reverse, loop.where)
    body = _ordered(traced.program, count, len(slices), len(cells), list(numbers.varying))
    closed = {**dict(enumerate(operands(traced.closed))), **numbers.constant}
    constants = [x for place, x in closed.items() if place not in numbers.varying]
    sliced = [*slices, *numbers.varying.values()]
    inputs = [*init, *[c.raw for c in cells], *sliced, *constants]
    carries = count + len(cells)
    body, sequences, inputs = taken_before(body, carries, len(sliced), length, inputs)
    op = SCAN.op(
        body=body, carries=carries, sequences=sequences, length=length, reverse=reverse
    )  # fmt: skip
    outputs = take_step(op, inputs, _operand_avals(body, op.attributes))
    carried, ys = traced.result[0]
    write_back(cells, outputs[count : count + len(cells)], numbers.last)
    return filled(carried, outputs[:count]), filled(ys, outputs[count + len(cells) :])


def _ordered(
    program: Program, carries: int, sequences: int, cells: int, varying: Sequence[int]
) -> Program:
    """The program with cells behind the carry, and with what varies behind the slices.

    It takes the carry, slices, cells and what it closes over, of which `varying` are the places of
    what is sliced too, and returns the carry, second results and cells.
    """
    if not cells and not varying:
        return program
    closed = carries + sequences + cells
    order = [*range(carries), *range(carries + sequences, closed)]
    order += [*range(carries, carries + sequences), *[closed + i for i in varying]]
    order += [i for i in range(closed, program.arity) if i - closed not in varying]
    places = sorted(range(len(order)), key=order.__getitem__)
    moved = program.taking([program.inputs[i] for i in order], places)
    ends = moved.outputs
    return Program.of(
        moved.inputs, moved.steps,
        [*ends[:carries], *ends[len(ends) - cells :], *ends[carries : len(ends) - cells]],
    )  # fmt: skip


def _operand_avals(body: Program, attributes: Any) -> list[Aval]:
    first = attributes["carries"]
    last = first + attributes["sequences"]
    return [
        Aval((attributes["length"], *a.shape), a.dtype) if first <= i < last else a
        for i, a in enumerate(body.inputs)
    ]


def _rule(*avals: Aval, body: Program, **attributes: Any) -> tuple[Aval, ...]:
    carries, length = attributes["carries"], attributes["length"]
    one = [
        Aval(a.shape[1:], a.dtype) if carries <= i < carries + attributes["sequences"] else a
        for i, a in enumerate(avals)
    ]
    check_operands("scan", one, body)
    for before, after in zip(body.inputs[:carries], body.results[:carries], strict=True):
        if before != after:
            raise ShapeError(f"scan: a carry is {before} before a step and {after} after it")
    stacked = [Aval((length, *a.shape), a.dtype) for a in body.results[carries:]]
    return (*body.results[:carries], *stacked)


def _body(
    *operands: Any, body: Program, carries: int, sequences: int, length: int, reverse: bool
) -> tuple[Tensor, ...]:
    carry = operands[:carries]
    rows = [unstack(x) for x in operands[carries : carries + sequences]]
    constants = operands[carries + sequences :]
    columns: list[list[Tensor]] = [[] for _ in body.outputs[carries:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        results = body.run(*carry, *[row[i] for row in rows], *constants)
        carry = results[:carries]
        for column, y in zip(columns, results[carries:], strict=True):
            column.append(y)
    if reverse:
        columns = [column[::-1] for column in columns]
    if length:
        return (*carry, *map(stack, columns))
    where = device_of(operands)
    empty = [zeros((0, *a.shape), dtype=a.dtype, device=where) for a in body.results[carries:]]
    return (*carry, *empty)


def _loop(op: Op) -> Loop:
    have = op.attributes
    return Loop(
        have["carries"], have["sequences"], have["length"], have["reverse"], _size(have["body"]),
        lambda length: op.operation.op(**{**have, "length": length}),
    )  # fmt: skip


def _size(program: Program) -> int:
    """How many operations a program has, with those of each step of a loop in it."""
    sizes = []
    for step in program.steps:
        loop = step.op.operation.loop
        inner = None if loop is None else loop(step.op)
        sizes.append(1 if inner is None else inner.length * inner.size)
    return sum(sizes)


def _batch(
    flags: tuple[bool, ...],
    *operands: Any,
    body: Program,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """A scan whose carry has the batch axis wherever a step brings it there."""
    first = next(x for x, flag in zip(operands, flags, strict=True) if flag)
    size, device = first.shape[0], first.device
    own, have = list(flags), body.reached(flags)
    while any(h and not f for h, f in zip(have, own[:carries], strict=False)):
        own[:carries] = [f or h for f, h in zip(own[:carries], have, strict=False)]
        have = body.reached(own)
    given = list(operands)
    for i, (flag, wanted) in enumerate(zip(flags, own, strict=True)):
        if wanted and not flag:
            given[i] = repeated(given[i], size)
        elif flag and carries <= i < carries + sequences:
            given[i] = moveaxis(given[i], 0, 1)
    whole, constants = batched("scan", body, own, size, device)
    whole = _with_batched_carry(whole, own[:carries], have, size, device)
    op = SCAN.op(body=whole, carries=carries, sequences=sequences, length=length, reverse=reverse)
    inputs = with_constants(given, constants)
    found = take_step(op, inputs, _operand_avals(whole, op.attributes))
    carried = [
        y if flag else repeated(y, size)
        for y, flag in zip(found[:carries], own[:carries], strict=True)
    ]
    stacked = [
        moveaxis(y, 1, 0) if flag else repeated(y, size)
        for y, flag in zip(found[carries:], have[carries:], strict=True)
    ]
    return (*carried, *stacked)


def _with_batched_carry(
    body: Program, own: Sequence[bool], have: Sequence[bool], size: int, device: Device
) -> Program:
    """The body with the batch axis in every carry that has it before a step."""
    if all(h or not f for f, h in zip(own, have, strict=False)):
        return body

    def run(*inputs: Tensor) -> list[Tensor]:
        results = list(body.run(*inputs))
        for i, (flag, has) in enumerate(zip(own, have, strict=False)):
            if flag and not has:
                results[i] = repeated(results[i], size)
        return results

    return program_of(run, body.inputs, device)


def _samples(draw: Draw) -> Iterator[Sample]:
    start, xs, w = draw.array((3,)), draw.array((5, 3), high=1.0), draw.array((3,), high=0.5)
    yield Sample((_weighted, (start, w), xs))
    yield Sample((_weighted, (start, w), xs), {"reverse": True})
    yield Sample((_weighted, (start, w), draw.array((0, 3))))
    yield Sample((_doubled, draw.array((2, 1)), None), {"length": 3})
    yield Sample((_doubled, draw.array(()), {"x": draw.array((8, 2))}))


def _weighted(carry: Any, x: Any) -> Any:
    h, w = carry
    h = h * w + x
    return (h, w), (h * x, h)


def _doubled(carry: Any, x: Any) -> Any:
    return carry + carry, carry


def _reference(
    function: Function,
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> Any:
    leaves = [x for _, x in paths(xs) if x is not None]
    steps = len(leaves[0]) if leaves else length or 0
    order = range(steps)[::-1] if reverse else range(steps)
    carry, ys = init, []
    for i in order:
        carry, y = function(carry, _row(xs, i))
        ys.append(y)
    if not ys:
        y = function(init, _row(xs, None))[1]
        found = [np.zeros((0, *np.shape(x))) for _, x in paths(y)]
    else:
        rows = [[x for _, x in paths(y)] for y in (ys[::-1] if reverse else ys)]
        found = [np.stack(column) for column in zip(*rows, strict=True)]
    return [x for _, x in paths(carry)] + found


def _row(xs: Any, i: int | None) -> Any:
    if xs is None:
        return None
    if isinstance(xs, dict):
        return {k: _row(x, i) for k, x in xs.items()}
    return np.zeros(xs.shape[1:]) if i is None else xs[i]


SCAN = Operation(
    "scan",
    tensors=("operands",),
    variadic=True,
    many_outputs=True,
    statics=("body", "carries", "sequences", "length", "reverse"),
    rule=_rule,
    traits=Traits("opaque", bound="compute", storage=True),
    vjp={"operands": scan_vjp},
    training=scan_training,
    body=_body,
    loop=_loop,
    batch=_batch,
    public=recorded(scan),
    samples=_samples,
    reference=_reference,
)
