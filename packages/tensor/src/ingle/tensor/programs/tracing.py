"""Writing down what a function computes, without computing it.

The function runs once on handles that have a shape and a dtype and no value. Tensors of lower
levels that it uses besides its arguments (what it closes over, cells that it reads) become further
inputs of the program: so gradients and batches of them go on to work.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..blocks import block
from ..cell import Cell
from ..contract import Aval, Handle, Scalar
from ..device import Device, staged_on
from ..errors import OperandError
from ..followed import is_followed
from ..interruptions import Outside
from ..levels import next_level
from ..pytree import flatten, unflatten
from ..tape import Tape
from ..tensor import Tensor
from ..transactions import Scope, current_scope, scope_of
from .program import Program
from .tracer import Tracer, written_down


@block
def tracing(device: Device | str | None, *, making: bool = False) -> Generator[Tracer, Any, None]:
    """A tracer for what runs inside.

    Args:
        device: where the program will run.
        making: whether tensors that are created inside belong to the program; else they are
            created once, and are inputs.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import tracing
    >>> with tracing("numpy") as tracer:
    ...     tracer.device
    Device('numpy')
    """
    with next_level() as level, written_down():
        tracer = Tracer(device, level)
        # The frame of the `with` statement: between are this generator and its caller.
        tracer.outside = outside = Outside(sys._getframe(2))
        with staged_on(tracer) if making else contextlib.nullcontext():
            try:
                yield tracer
            finally:
                tracer.ended = True
                outside.end()


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as it was traced.

    Attributes:
        program: takes the arguments and `closed`; returns the tensors among the leaves of
            `result`, then the values of `cells`.
        closed: what the function used besides its arguments.
        result: what it returned; its tensors have no values.
        cells: those it wrote tensors to.
        numbers: cells that it wrote other numbers to than they had, with these.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, Traced, trace
    >>> traced = trace(lambda x: {"y": x + 1.0}, [Aval((3,), it.float32)])
    >>> isinstance(traced, Traced), traced.result["y"].shape, traced.cells
    (True, (3,), ())
    """

    program: Program
    closed: tuple[Handle | Scalar, ...]
    result: Any
    cells: tuple[Cell[Any], ...]
    numbers: Mapping[Cell[Any], Any]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """The result with values: those that the program returned."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(x, Tensor) else x for x in flatten(self.result)]
        return unflatten(self.result, leaves)

    def run(self, *arguments: Tensor) -> Any:
        """What the function would return for these arguments."""
        closed = [x.value if isinstance(x, Scalar) else Tensor(x) for x in self.closed]
        return self.filled(self.program.run(*arguments, *closed))


def trace(
    function: Callable[..., Any],
    avals: Sequence[Aval],
    device: Device | str | None = None,
    *,
    scope: Scope | None = None,
    tape: Tape | None = None,
) -> Traced:
    """Writes down what a function computes from tensors of these shapes and dtypes.

    Args:
        function: takes that many tensors and returns nested tuples, lists and dicts of tensors,
            and of whatever else.
        avals: shapes and dtypes of its arguments.
        device: where the program will run.
        scope: what cells are read and written through; one of its own if not given. What is written
            is not committed.
        tape: what follows the numbers that the scope shows, if it shows any that are followed.

    Raises:
        TraceError: the function asks for the value of a tensor, or for a shape that depends on it.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, trace
    >>> w = it.asarray([1.0, 2.0])
    >>> traced = trace(lambda x: x * w, [Aval((2,), it.float32)])
    >>> print(traced.program)
    %0: float32[2]
    %1: float32[2]
    %2: float32[2] = multiply() of %0, %1
    return %2
    >>> traced.run(it.asarray([3.0, 4.0])).tolist()
    [3.0, 8.0]
    """
    scope = Scope(current_scope()) if scope is None else scope
    with tracing(device) as tracer:
        before, scope.outside = scope.outside, tracer.outside
        try:
            with scope_of(scope):
                if tape is not None:
                    tape.writer = tracer
                result = function(*[tracer.input(a) for a in avals])
                written = {c: v for c, v in scope.writes.items() if isinstance(v, Tensor)}
                tensors = [x for x in flatten(result) if isinstance(x, Tensor)]
                program, closed = tracer.program([*tensors, *written.values()])
        finally:
            scope.outside = before
    numbers = {
        c: v for c, v in scope.writes.items() if c not in written and not same_number(c.raw, v)
    }
    return Traced(program, tuple(closed), result, tuple(written), numbers)


def same_number(a: Any, b: Any) -> bool:
    """Whether two values of a cell are known to be the same; nothing is noted on their tapes.

    >>> from ingle.tensor.programs import same_number
    >>> same_number(1, 1), same_number(1, 1.0), same_number(float("nan"), float("nan"))
    (True, False, False)
    """
    if is_followed(a) or is_followed(b):
        return a is b
    return type(a) is type(b) and bool(a == b)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which is traced at each call and then run as a program.

    Tensors in its arguments become inputs of the program. It shows what a compiler would see.

    Raises:
        OperandError: the function writes to cells.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import recorded
    >>> double = recorded(lambda x: it.scan(lambda c, _: (c * 2, None), x, None, length=3)[0])
    >>> double(it.asarray(1.5)).item()
    12.0
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves = flatten((args, kwargs))
        given = [x for x in leaves if isinstance(x, Tensor)]

        def of_tensors(*tensors: Tensor) -> Any:
            rest = iter(tensors)
            some, named = unflatten(
                (args, kwargs), [next(rest) if isinstance(x, Tensor) else x for x in leaves]
            )
            return function(*some, **named)

        where = given[0].device if given else None
        traced = trace(of_tensors, [Aval(x.shape, x.dtype) for x in given], where)
        if traced.cells or traced.numbers:
            raise OperandError("recorded: the function writes to cells; return the values instead")
        return traced.run(*given)

    return run
