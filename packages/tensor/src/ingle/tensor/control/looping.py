"""while_loop: a loop that ends when a predicate says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..contract import Aval
from ..device import Device
from ..errors import BatchError, ShapeError, TraceError
from ..operation import Operation, Traits
from ..ops import any as any_
from ..ops import reshape, where
from ..ops._batching import repeated
from ..programs import Program, recorded, writing_down
from ..sample import Draw, Sample
from ..tensor import Tensor
from ..transactions import transaction
from ._cells import refuse_numbers, trace_with_cells, write_back
from ._leaves import (
    Predicate,
    Sides,
    agreeing,
    as_tensors,
    avals_of,
    checked_function,
    device_of,
    filled,
    operands,
    read_predicate,
    tensors_of,
)
from ._loop_gradient import loop_training, loop_vjp
from ._programs import unified
from ._rules import batched, check_operands, program_of, take_step, with_constants

Function = Callable[..., Any]


def while_loop(condition: Function, body: Function, init: Any, /) -> Any:
    """Runs `carry = body(carry)` as long as `condition(carry)` holds, and returns the last carry.

    It differs from `while` where values are missing: where the function around is traced it
    is one step; in `vmap` it goes on until it ends for every element, and each keeps the carry
    with which it ended.

    Where it is one step, a backward pass computes the carry of every step again from the first,
    since how much it would have to keep depends on how often the loop ran; and there is no second
    derivative. `scan` with a fixed length, with `where` to keep a carry that is finished, has both.

    Args:
        condition: from the carry to a 0-d bool tensor.
        body: from the carry to the next, of the same structure, shapes and dtypes. It may use
            other tensors, and read and write cells.
        init: the first carry: nested tuples, lists and dicts of tensors and numbers.

    Raises:
        OperandError: an argument or a result is of the wrong kind or structure.
        ShapeError, DTypeError: a leaf of the carry changes in a step; the condition is no bool.

    >>> import ingle.tensor as it
    >>> it.while_loop(lambda x: x < 100, lambda x: x * 3, 2).item()
    162
    """
    checked_function("while_loop", "condition", condition)
    checked_function("while_loop", "body", body)
    where_ = device_of(init)
    carry = as_tensors("while_loop", "init", init, where_)
    loop = _Loop(condition, body, carry, where_)
    return _one_step(loop) if writing_down() else _run(loop)


def _run(loop: _Loop) -> Any:
    carry = loop.init
    while True:
        choice = loop.predicate(carry)
        if not choice.known:
            raise TraceError("while_loop: its body is asked to run where it is only traced")
        if not choice.some:
            return carry
        carry = loop.step(carry) if choice.all else _some_step(loop, carry, choice.tensor)


class _Loop:
    """The functions of a loop, whose results are checked."""

    def __init__(
        self, condition: Function, body: Function, init: Any, where: Device | None
    ) -> None:
        self.condition = condition
        self.body = body
        self.init = init
        self.where = where

    def predicate(self, carry: Any) -> Predicate:
        return read_predicate("while_loop", "the condition", self.condition(carry), self.where)

    def step(self, carry: Any) -> Any:
        return filled(self.init, agreeing(_CARRY, self.body(carry), self.init))

    def of(self, tensors: Sequence[Tensor]) -> Any:
        return filled(self.init, tensors)


_CARRY = Sides(
    "while_loop",
    "the carry",
    "after it",
    "before a step",
    "a carry keeps its shapes and dtypes: cast or reshape what the body returns, or init",
    carried=True,
)


def _some_step(loop: _Loop, carry: Any, going: Tensor) -> Any:
    """A step for those elements of a batch that go on."""
    with transaction() as scope:
        after = loop.step(carry)
        if scope.writes:
            raise BatchError(
                "while_loop: its body writes to a cell, but has ended for some elements of the "
                "batch; carry the value instead"
            )
    pairs = zip(tensors_of(after), tensors_of(carry), strict=True)
    return loop.of([where(going, new, old) for new, old in pairs])


def _one_step(loop: _Loop) -> Any:
    """Both functions are traced once; cells that the body writes are carried too."""
    init = tensors_of(loop.init)

    def condition(*tensors: Tensor) -> Tensor:
        return loop.predicate(loop.of(tensors)).tensor

    def body(*tensors: Tensor) -> Any:
        return loop.step(loop.of(tensors))

    traced, cells, _ = trace_with_cells([condition, body], avals_of(init), loop.where)
    refuse_numbers("while_loop", traced, "any number of times")
    carry = [*init, *[c.raw for c in cells]]
    test = traced[0].program
    first = Program.of(test.inputs, test.steps, test.outputs[:1])
    programs, closed = unified(
        len(carry), [first, traced[1].program], [t.closed for t in traced]
    )  # fmt: skip
    op = WHILE_LOOP.op(condition=programs[0], body=programs[1])
    outputs = take_step(op, [*carry, *operands(closed)], programs[0].inputs)
    write_back(cells, outputs[len(init) :], {})
    return loop.of(outputs[: len(init)])


def _rule(*avals: Aval, condition: Program, body: Program) -> tuple[Aval, ...]:
    check_operands("while_loop", avals, condition)
    check_operands("while_loop", avals, body)
    for before, after in zip(body.inputs, body.results, strict=False):
        if before != after:
            raise ShapeError(f"while_loop: a carry is {before} before a step and {after} after it")
    return body.results


def _body(*operands: Any, condition: Program, body: Program) -> tuple[Tensor, ...]:
    count = len(body.outputs)
    constants = operands[count:]
    loop = _Loop(
        lambda carry: condition.run(*carry, *constants)[0],
        lambda carry: body.run(*carry, *constants),
        operands[:count],
        device_of(operands),
    )
    result: tuple[Tensor, ...] = _run(loop)
    return result


def _batch(
    flags: tuple[bool, ...], *operands: Any, condition: Program, body: Program
) -> tuple[Tensor, ...]:
    """A loop over whole batches, which goes on while some element does."""
    first = next(x for x, flag in zip(operands, flags, strict=True) if flag)
    size, device = first.shape[0], first.device
    count = len(body.outputs)
    own, have = list(flags), body.reached(flags)
    while any(h and not f for h, f in zip(have, own[:count], strict=True)):
        own[:count] = [f or h for f, h in zip(own[:count], have, strict=True)]
        have = body.reached(own)
    differs = condition.reached(own)[0]
    if differs:
        own[:count] = [True] * count
        have = body.reached(own)
    test, of_test = (
        batched("while_loop", condition, own, size, device) if any(own) else (condition, ())
    )
    step, of_step = batched("while_loop", body, own, size, device)
    arity = len(operands)
    (test, step), constants = unified(arity, [test, step], [of_test, of_step])
    carried = list(zip(own[:count], have, strict=True))

    def going(*inputs: Tensor) -> tuple[Tensor, ...]:
        return (any_(test.run(*inputs)[0]),)

    def advanced(*inputs: Tensor) -> list[Tensor]:
        after = [
            repeated(y, size) if flag and not h else y
            for y, (flag, h) in zip(step.run(*inputs), carried, strict=True)
        ]
        if not differs:
            return after
        goes = test.run(*inputs)[0]
        return [
            where(reshape(goes, (size,) + (1,) * (new.ndim - 1)), new, old)
            for new, old in zip(after, inputs, strict=False)
        ]

    avals = test.inputs
    op = WHILE_LOOP.op(
        condition=program_of(going, avals, device) if differs else test,
        body=program_of(advanced, avals, device),
    )
    given = [
        repeated(x, size) if wanted and not flag else x
        for x, flag, wanted in zip(operands, flags, own, strict=True)
    ]
    found = take_step(op, with_constants(given, constants), avals)
    return tuple(
        y if flag else repeated(y, size) for y, flag in zip(found, own[:count], strict=True)
    )


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample(
        (_below, _grown, (draw.integers((), 3, "int32"), draw.array((3,)))), gradient=False
    )
    yield Sample((_below, _grown, (draw.integers((), 3, "int32"), draw.array(()))), gradient=False)


def _below(carry: Any) -> Any:
    return carry[0] < 5


def _grown(carry: Any) -> Any:
    return carry[0] + 1, carry[1] + carry[1]


def _reference(condition: Function, body: Function, init: Any) -> Any:
    while condition(init):
        init = body(init)
    return init


WHILE_LOOP = Operation(
    "while_loop",
    tensors=("operands",),
    variadic=True,
    many_outputs=True,
    statics=("condition", "body"),
    rule=_rule,
    traits=Traits("opaque", bound="compute", storage=True, unrolled=True),
    vjp={"operands": loop_vjp},
    training=loop_training,
    body=_body,
    batch=_batch,
    public=recorded(while_loop),
    samples=_samples,
    reference=_reference,
)
