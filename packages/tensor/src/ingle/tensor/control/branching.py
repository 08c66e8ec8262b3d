"""cond: one of two functions, by a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..errors import ShapeError
from ..operation import Operation, Traits
from ..ops import reshape, where
from ..ops._batching import repeated
from ..programs import Program, Traced, recorded
from ..sample import Draw, Sample
from ..tensor import Tensor
from ..transactions import Scope, transaction
from ._branch_gradient import cond_training, cond_vjp
from ._cells import merged_number, trace_with_cells, write_back
from ._leaves import (
    Predicate,
    Sides,
    agreeing,
    as_tensors,
    avals_of,
    checked_function,
    device_of,
    filled,
    read_predicate,
    tensors_of,
)
from ._leaves import operands as closed_operands
from ._programs import unified
from ._rules import (
    batched,
    check_operands,
    program_of,
    take_step,
    with_constants,
)

Function = Callable[..., Any]


def cond(predicate: Any, then: Function, otherwise: Function, /, *operands: Any) -> Any:
    """`then(*operands)` if the predicate holds, `otherwise(*operands)` if not.

    Only one of them runs, as with `if`. It differs from `if` where the predicate has no value:
    where the function around is traced, both branches are, and one is taken at each run; in
    `vmap`, elements whose predicates differ make both run, and each takes its own (gradients of the
    other are multiplied by 0, so they should be finite).

    Args:
        predicate: a 0-d bool tensor, or a bool.
        then, otherwise: functions of the operands that return nested tuples, lists and dicts of
            tensors and numbers. They may use other tensors, and read and write cells.
        *operands: their arguments.

    Raises:
        OperandError, ShapeError, DTypeError: the branches differ in what they return; only seen
            where both run.

    >>> import ingle.tensor as it
    >>> x = it.asarray(-3.0)
    >>> it.cond(x > 0, lambda x: x * 2, lambda x: -x, x).item()
    3.0
    """
    checked_function("cond", "then", then)
    checked_function("cond", "otherwise", otherwise)
    where_ = device_of(predicate, operands)
    choice = read_predicate("cond", "predicate", predicate, where_)
    branches = tuple(
        _Branch(name, function, operands, where_)
        for name, function in (("then", then), ("otherwise", otherwise))
    )
    if choice.known and (choice.all or not choice.some):
        return branches[not choice.all].run()
    if choice.batched:
        return _both(choice.tensor, branches)
    return _one_step(choice, branches, operands, where_)


class _Branch:
    """A function with its arguments, whose results are tensors."""

    def __init__(
        self, name: str, function: Function, args: Sequence[Any], where: Device | None
    ) -> None:
        self.name = name
        self.function = function
        self.args = args
        self.where = where

    def run(self, *tensors: Tensor) -> Any:
        """The result, for other tensors among the arguments if some are given."""
        args = filled(self.args, tensors) if tensors else self.args
        return as_tensors("cond", f"the result of {self.name}", self.function(*args), self.where)


_SIDES = Sides(
    "cond",
    "the result",
    "from otherwise",
    "from then",
    "both branches must return the same shapes and dtypes: cast or reshape one of them",
)


def _both(predicate: Tensor, branches: Sequence[_Branch]) -> Any:
    """Both branches run, and each element of a batch takes its own."""
    results, scopes = [], []
    for branch in branches:
        with transaction(commit=False) as scope:
            results.append(branch.run())
        scopes.append(scope)
    first, second = tensors_of(results[0]), agreeing(_SIDES, results[1], results[0])
    _merge_cells(predicate, scopes)
    return filled(results[0], [where(predicate, a, b) for a, b in zip(first, second, strict=True)])


def _merge_cells(predicate: Tensor, scopes: Sequence[Scope]) -> None:
    """Cells get what the branches wrote to them; each element of a batch what its own did."""
    for cell in dict.fromkeys([c for s in scopes for c in s.writes]):
        values = [s.writes.get(cell, cell.raw) for s in scopes]
        if isinstance(values[0], Tensor):
            cell.rebind(where(predicate, *values))
        else:
            cell.rebind(merged_number("cond", cell, values))


def _one_step(
    choice: Predicate, branches: Sequence[_Branch], args: Sequence[Any], where: Device | None
) -> Any:
    """Both branches are traced."""
    given = tensors_of(args)
    traced, cells, _ = trace_with_cells([b.run for b in branches], avals_of(given), where)
    numbers = {
        cell: merged_number("cond", cell, [t.numbers.get(cell, cell.raw) for t in traced])
        for cell in dict.fromkeys([c for t in traced for c in t.numbers])
    }
    values = [*given, *[c.raw for c in cells]]
    shown = [t.result[0] for t in traced]
    agreeing(_SIDES, shown[1], shown[0])
    ordered = [traced[0].program, _in_order(traced[1], shown)]
    programs, closed = unified(len(values), ordered, [t.closed for t in traced])
    op = COND.op(then=programs[0], otherwise=programs[1])
    inputs = [choice.tensor, *values, *closed_operands(closed)]
    outputs = take_step(op, inputs, [Aval((), choice.tensor.dtype), *programs[0].inputs])
    count = len(tensors_of(shown[0]))
    write_back(cells, outputs[count:], numbers)
    return filled(shown[0], outputs[:count])


def _in_order(traced: Traced, shown: Sequence[Any]) -> Program:
    """The second branch with its outputs in the order of the first: dicts may differ in theirs."""
    place = {id(x): i for i, x in enumerate(tensors_of(shown[1]))}
    program = traced.program
    order = [place[id(x)] for x in agreeing(_SIDES, shown[1], shown[0])]
    rest = range(len(order), len(program.outputs))
    outputs = [program.outputs[i] for i in (*order, *rest)]
    return Program.of(program.inputs, program.steps, outputs)


def _rule(predicate: Aval, *operands: Aval, then: Program, otherwise: Program) -> tuple[Aval, ...]:
    check_operands("cond", operands, then)
    check_operands("cond", operands, otherwise)
    if predicate.shape or predicate.dtype.kind != "bool":
        raise ShapeError(f"cond: the predicate must be one bool, got {predicate}")
    for a, b in zip(then.results, otherwise.results, strict=True):
        if a != b:
            raise ShapeError(f"cond: the branches return {a} and {b}; they must agree")
    return then.results


def _body(
    predicate: Tensor, *operands: Any, then: Program, otherwise: Program
) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = cond(predicate, then.run, otherwise.run, *operands)
    return result


def _batch(
    flags: tuple[bool, ...],
    predicate: Tensor,
    *operands: Any,
    then: Program,
    otherwise: Program,
) -> tuple[Tensor, ...]:
    """One branch for the whole batch, or both where each element has a predicate of its own."""
    first = next(x for x, flag in zip((predicate, *operands), flags, strict=True) if flag)
    size, device = first.shape[0], first.device
    own = flags[1:]
    parts: list[tuple[Program, Sequence[Handle | Scalar], Sequence[bool]]] = []
    for branch in (then, otherwise):
        whole = batched("cond", branch, own, size, device) if any(own) else (branch, ())
        parts.append((*whole, branch.reached(own)))
    if not flags[0]:
        return _one_of(predicate, operands, parts, size)
    chosen = [
        [
            y if flag else repeated(y, size)
            for y, flag in zip(p.run(*with_constants(operands, c)), reached, strict=True)
        ]
        for p, c, reached in parts
    ]
    return tuple(
        where(reshape(predicate, (size,) + (1,) * (a.ndim - 1)), a, b)
        for a, b in zip(*chosen, strict=True)
    )


def _one_of(
    predicate: Tensor,
    operands: Sequence[Any],
    parts: Sequence[tuple[Program, Sequence[Handle | Scalar], Sequence[bool]]],
    size: int,
) -> tuple[Tensor, ...]:
    """The branches for the whole batch, whose results have the axis where either's do."""
    have = [a or b for a, b in zip(parts[0][2], parts[1][2], strict=True)]
    count = len(operands)
    programs, closed = unified(
        count, [_repeating(p, r, have, size, predicate.device) for p, _, r in parts],
        [c for _, c, _ in parts],
    )  # fmt: skip
    op = COND.op(then=programs[0], otherwise=programs[1])
    inputs = [predicate, *with_constants(operands, closed)]
    found = take_step(op, inputs, [Aval((), predicate.dtype), *programs[0].inputs])
    return tuple(y if flag else repeated(y, size) for y, flag in zip(found, have, strict=True))


def _repeating(
    program: Program, has: Sequence[bool], wanted: Sequence[bool], size: int, device: Device
) -> Program:
    if list(has) == list(wanted):
        return program

    def run(*inputs: Tensor) -> list[Tensor]:
        results = program.run(*inputs)
        return [
            repeated(y, size) if w and not h else y
            for y, h, w in zip(results, has, wanted, strict=True)
        ]

    return program_of(run, program.inputs, device)


def _samples(draw: Draw) -> Iterator[Sample]:
    for holds in (True, False):
        x, y = draw.array((3, 5), low=0.5), draw.array((5,), low=0.5)
        yield Sample((np.asarray(holds), _first, _second, x, y), gradient=(1, 2))
    yield Sample((np.asarray(True), _twice, _same, draw.array((0, 3))), gradient=(1,))
    yield Sample((np.asarray(False), _twice, _same, draw.array(()), 3), gradient=(1,))


def _first(x: Any, y: Any) -> Any:
    return x * y, [x + y]


def _second(x: Any, y: Any) -> Any:
    return x * x * y, [x - y]


def _twice(x: Any, number: int = 2) -> Any:
    return x + x


def _same(x: Any, number: int = 2) -> Any:
    return x * number


def _reference(predicate: Any, then: Function, otherwise: Function, *operands: Any) -> Any:
    return then(*operands) if predicate else otherwise(*operands)


COND = Operation(
    "cond",
    tensors=("predicate", "operands"),
    variadic=True,
    many_outputs=True,
    statics=("then", "otherwise"),
    rule=_rule,
    traits=Traits("opaque", bound="compute", storage=True),
    vjp={"operands": cond_vjp},
    training=cond_training,
    body=_body,
    batch=_batch,
    public=recorded(cond),
    samples=_samples,
    reference=_reference,
)
