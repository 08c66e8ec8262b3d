"""The level that operations pass through while they are only traced, and what they leave there."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from ..asking import asking
from ..blocks import WithBlock, holding
from ..callers import caller
from ..contract import Aval, Backend, Handle, Scalar
from ..device import Device, backend_of
from ..dispatch import watched
from ..errors import TraceError
from ..followed import is_followed
from ..interruptions import Outside
from ..operation import Op, infer
from ..ops.elementwise.detaching import STOP_GRADIENT
from ..plugins import transform
from ..tensor import Tensor
from .program import Program, Step

_writing: ContextVar[bool] = ContextVar("ingle_writing_down", default=False)


def writing_down() -> bool:
    """Whether this runs only to be traced: structure is then kept, not unrolled.

    >>> from ingle.tensor.programs import writing_down, written_down
    >>> with written_down():
    ...     inside = writing_down()
    >>> writing_down(), inside
    (False, True)
    """
    return _writing.get()


def written_down() -> WithBlock[bool]:
    """What runs inside is traced: `call`, `scan` and `while_loop` become one step each.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, trace, written_down
    >>> def counted(x: it.Tensor) -> it.Tensor:
    ...     return it.scan(lambda c, _: (c + 1.0, c), x, length=3)[0]
    >>> with written_down():
    ...     traced = trace(counted, [Aval((), it.float32)])
    >>> len(traced.program.steps)
    1
    """
    return holding(_writing, True)


def loops_once() -> WithBlock[bool]:
    """What runs inside is traced, as with `written_down`, unless operations are watched:
    a search for a NaN, or a count of operations, needs to see each step of a loop.

    >>> from ingle.tensor.programs import loops_once, writing_down
    >>> with loops_once():
    ...     writing_down()
    True
    """
    return holding(_writing, _writing.get() or not watched())


class TracedHandle(Handle):
    """A tensor of which only shape and dtype are known, by its number in a trace.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, TracedHandle, trace
    >>> def shown(x: it.Tensor) -> it.Tensor:
    ...     print(isinstance(x._handle, TracedHandle), x.shape)
    ...     return x
    >>> _ = trace(shown, [Aval((3,), it.float32)])
    True (3,)
    """

    __slots__ = ("number",)

    backend: Tracer
    abstract = True

    def __init__(self, backend: Tracer, aval: Aval, number: int) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.number = number

    def detached(self) -> Handle:
        return self.backend.execute(STOP_GRADIENT.op(), (self,))[0]


class TracedMoveError(TraceError):
    """A tensor is moved to another device where it is only traced.

    A program runs on one device. What need not be a program runs as it is instead.

    >>> from ingle.tensor.errors import TraceError
    >>> from ingle.tensor.programs import TracedMoveError
    >>> issubclass(TracedMoveError, TraceError)
    True
    """


class _Taken(NamedTuple):
    """A step as it was traced: what it takes, and the number of its first result."""

    op: Op
    inputs: tuple[int | Scalar, ...]
    first: int
    results: int


class Tracer:
    """Writes down what it is asked to execute, at a level above everything around it.

    Attributes:
        redirect: another tracer, above this one, that traces what concerns this one meanwhile.
        ended: whether nothing more may be traced.
        outside: tells handlers of signals and finalizers from the function that is traced.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Tracer, tracing
    >>> with tracing("numpy") as tracer:
    ...     isinstance(tracer, Tracer), tracer.ended
    (True, False)
    """

    def __init__(self, device: Device | str | None, level: int) -> None:
        below: Backend = backend_of(device)
        while below.level:
            below = below.inner  # type: ignore[attr-defined]
        self.inner = below
        self.device = below.device
        self.name = f"tracer({below.name})"
        self.level = level
        self.redirect: Tracer | None = None
        self.ended = False
        self.outside: Outside | None = None
        self._avals: list[Aval] = []
        self._inputs: list[int] = []
        self._steps: list[_Taken] = []
        self._closed: dict[object, tuple[int, Handle | Scalar]] = {}
        # Inside of no_grad nothing is recorded; a program has to remember that.
        self._records = _records(level)

    def __repr__(self) -> str:
        return f"Tracer({self.inner!r}, level={self.level})"

    def input(self, aval: Aval) -> Tensor:
        """An argument of what is traced."""
        self._inputs.append(len(self._avals))
        return Tensor(self._new(aval))

    def _new(self, aval: Aval) -> TracedHandle:
        self._avals.append(aval)
        return TracedHandle(self, aval, len(self._avals) - 1)

    def interrupted(self) -> bool:
        """Whether what asks came in between, so that it computes what it needs by itself."""
        return self.outside is not None and self.outside.speaks()

    def upload(self, array: np.ndarray) -> Handle:
        return self.inner.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        raise TraceError(
            f"{asking()}the value of a {handle.dtype} tensor of shape {handle.shape} is asked "
            f"for at {user_line()}, but what makes it is only being traced. Use where or cond "
            "instead of if, while_loop or scan instead of a loop over values, and return what "
            "you want to look at"
        )

    def synchronize(self) -> None:
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)

    def move(self, handle: Handle, target: Backend) -> Handle:
        raise TracedMoveError(
            f"a tensor of shape {handle.shape} is moved from {self.device} to {target.device} at "
            f"{user_line()}, in what is only traced (the body of a loop, a branch), which "
            "runs on one device; move it before, or what comes out behind"
        )

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        if self.redirect is not None:
            return self.redirect.execute(op, inputs)
        if self.ended:
            raise TraceError(
                f"{op.operation.name}: a tensor is used at {user_line()} outside of the function "
                "that was traced with it and has no value; return it from there instead"
            )
        if op.operation.traits.dynamic_shape:
            raise TraceError(
                f"{op.operation.name}: at {user_line()} the shape of its result depends on values, "
                "which do not exist while this is traced. Give it a size where it takes one, "
                "or use where with a mask"
            )
        avals = infer(op, inputs)
        taken = tuple(
            [x if isinstance(x, Scalar) and _is_constant(x) else self.number(x) for x in inputs]
        )
        self._steps.append(_Taken(op, taken, len(self._avals), len(avals)))
        made: tuple[Handle, ...] = tuple([self._new(a) for a in avals])
        if self._records is None or op.operation is STOP_GRADIENT or self._records(self.level):
            return made
        return tuple([h.detached() for h in made])

    def number(self, handle: Handle | Scalar) -> int:
        """The number of a tensor; one of a lower level becomes an input.

        So does a scalar of which another recording knows how it was computed.
        """
        if isinstance(handle, TracedHandle) and handle.backend is self:
            return handle.number
        key = _identity(handle)
        found = self._closed.get(key)
        if found is None:
            if handle.backend is not None and handle.backend.level >= self.level:
                raise TraceError(
                    f"at {user_line()} a tensor of shape {handle.shape} comes out of a transform "
                    "that ended, or has not begun; return it from the function it belongs to"
                )
            if isinstance(handle, Handle) and handle.owned is not None:
                handle.owned.share()
            found = (len(self._avals), handle)
            self._avals.append(Aval(handle.shape, handle.dtype))
            self._closed[key] = found
        return found[0]

    def asked(self) -> list[tuple[Op, list[Aval | Scalar]]]:
        """What was executed so far with shapes and dtypes of its inputs, needed or not.

        >>> import ingle.tensor as it
        >>> from ingle.tensor.programs import Aval, tracing
        >>> with tracing("numpy") as tracer:
        ...     _ = it.exp(tracer.input(Aval((3,), it.float32)))
        >>> [(op.operation.name, [str(x) for x in inputs]) for op, inputs in tracer.asked()]
        [('exp', ['float32[3]'])]
        """
        return [
            (step.op, [x if isinstance(x, Scalar) else self._avals[x] for x in step.inputs])
            for step in self._steps
        ]

    def program(
        self, outputs: Sequence[Tensor], kept: Sequence[Handle | Scalar] = ()
    ) -> tuple[Program, list[Handle | Scalar]]:
        """What leads to the outputs, and its inputs after those that were declared.

        Args:
            outputs: tensors that the program returns.
            kept: handles that are inputs even if no step takes them.
        """
        ends = [self.number(x._handle) for x in outputs]
        live = {*ends, *map(self.number, kept)}
        steps = []
        for step in reversed(self._steps):
            if not live.isdisjoint(range(step.first, step.first + step.results)):
                steps.append(step)
                live.update([x for x in step.inputs if not isinstance(x, Scalar)])
        closed = [(n, h) for n, h in self._closed.values() if n in live]
        order = [*self._inputs, *[n for n, _ in closed]]
        inputs = [self._avals[n] for n in order]
        for step in reversed(steps):
            order += range(step.first, step.first + step.results)
        place = {n: i for i, n in enumerate(order)}
        renumbered = [
            Step(
                step.op,
                tuple([x if isinstance(x, Scalar) else place[x] for x in step.inputs]),
                step.results,
            )
            for step in reversed(steps)
        ]
        return Program.of(inputs, renumbered, [place[n] for n in ends]), [h for _, h in closed]


def _is_constant(x: Scalar) -> bool:
    return not is_followed(x.value)


def _identity(handle: Handle | Scalar) -> object:
    """Equal for handles of one tensor: a differentiable cell shows a new one at each read."""
    if isinstance(handle, Scalar):
        return id(handle.value), handle.dtype
    key = getattr(handle, "gradient_key", None)
    if key is None:
        return id(handle)
    return id(key), id(handle.base()), handle.backend.level


def _records(level: int) -> Callable[[int], bool] | None:
    """What says whether a level is recorded; None where that does not matter for a program: inside
    of `no_grad` nothing is, whatever is inside of the program."""
    ask: Callable[[int], bool] | None = transform("records")
    return ask if ask is not None and ask(level) else None


def user_line() -> str:
    """The place outside of Ingle that led here: file, line, function and text.

    >>> from ingle.tensor.programs import user_line
    >>> isinstance(user_line(), str)
    True
    """
    frame = caller()
    if frame is None:
        return "an unknown line"
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line).strip()
    shown = f"{code.co_filename}:{line}, in {code.co_name}"
    return f"{shown}: {text!r}" if text else shown
