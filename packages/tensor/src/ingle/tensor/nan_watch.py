"""Which operation made the first NaN, of which module and line: a mode for looking for it.

Everywhere else a NaN is a value like others and runs through to the loss. Inside `anomaly()` each
result is read as soon as it is computed, so that nothing runs ahead or fused.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from . import dispatch
from .blocks import block, call_holding, holding
from .contract import Handle, Scalar
from .errors import AnomalyError, IngleError
from .locks import renewed
from .operation import Op
from .programs import Program
from .programs.tracer import user_line

active = 0
"""How many blocks of `anomaly()` there are, in all threads: asked before results are skipped."""

_all: set[Watch] = set()
_lock = renewed(sys.modules[__name__], "_lock")
_current: ContextVar[Watch | None] = ContextVar("ingle_anomaly", default=None)


class Watch:
    """One block of `anomaly()`.

    Attributes:
        infinite: whether infinities count too.
        modules: those whose `forward` runs, the outermost first.
        places: where the recorded operations ran, by the number of their step.
    """

    def __init__(self, infinite: bool) -> None:
        self.infinite = infinite
        self.modules: list[Any] = []
        self.places: dict[int, str] = {}
        self.bad = "NaN or infinite" if infinite else "NaN"

    @block
    def inside(self, module: Any) -> Generator[None, Any, None]:
        """Operations inside are this module's."""
        count = len(self.modules)
        try:
            self.modules.append(module)
            yield
        finally:
            del self.modules[count:]

    @contextlib.contextmanager
    def backward_of(self, step: int) -> Iterator[None]:
        """Operations inside belong to the gradient of a recorded step."""
        try:
            yield
        except AnomalyError as error:
            if error.backward:
                raise
            where = self.places.get(step, "an operation that was recorded before")
            told = AnomalyError(f"{error}\nThis is the backward pass of {where}")
            told.backward = True
            raise told from None

    def look(self, op: Op, inputs: Sequence[Handle | Scalar], outputs: Sequence[Handle]) -> None:
        """Raises if an output has a NaN; notes where recorded operations ran."""
        name = op.operation.name
        for x in outputs:
            step = getattr(x, "node", None)
            if step is not None:
                self.places[step.order] = f"{name}{self._module()}, at {user_line()}"
            count = self._bad(x)
            if count:
                self._look_inside(op, inputs)
                raise AnomalyError(
                    f"{name}: {count} of {np.prod(x.shape, dtype=int)} elements of the result "
                    f"({x.dtype}, shape {x.shape}) are {self.bad}; "
                    f"{'; '.join(self._told(op, inputs))}{self._module()}, at {user_line()}"
                )

    def _look_inside(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        """Raises for the operation of a program that gives the first such element: of a step of a
        loop, of a branch."""
        if op.operation.body is None or not _carries_programs(op):
            return
        device = next(x.backend for x in inputs if isinstance(x, Handle)).device
        with holding(_current, self):
            dispatch.execute_body(op, inputs, device)

    def _bad(self, x: Handle | Scalar) -> int:
        values = _values(x)
        if values is None:
            return 0
        return int(np.sum(~np.isfinite(values) if self.infinite else np.isnan(values)))

    def _told(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Iterator[str]:
        names = op.operation.tensors
        for i, x in enumerate(inputs):
            name = names[min(i, len(names) - 1)]
            if isinstance(x, Scalar):
                yield f"{name} is {x.value}"
                continue
            values, count = _values(x), self._bad(x)
            if count:
                yield f"{name} (shape {x.shape}) has {count} such elements already"
            elif values is not None and values.size:
                low, high = values.real.min(), values.real.max()
                yield f"{name} (shape {x.shape}) is between {low:.4g} and {high:.4g}"

    def _module(self) -> str:
        if not self.modules:
            return ""
        root, inner = self.modules[0], self.modules[-1]
        path = next((path for path, m in root.named_modules() if m is inner), "")
        kind = type(inner).__name__
        of = f"{path!r} of {type(root).__name__}" if path else "the model"
        return f", in {of} ({kind})"


def _values(x: Handle | Scalar) -> np.ndarray | None:
    """The elements, if these are floats that exist."""
    if isinstance(x, Scalar) or not x.dtype.is_inexact:
        return None
    base = x.base()
    if base.abstract:
        return None
    values = base.backend.download(base)
    return values if values.dtype.isbuiltin == 1 else values.astype(np.float32)


def _carries_programs(op: Op) -> bool:
    return any(isinstance(value, Program) for value in op.attributes.values())


def _explained(op: Op, error: IngleError) -> IngleError:
    """What an operation in a program gave, as that of the loop or branch that has the program."""
    if not isinstance(error, AnomalyError) or not _carries_programs(op):
        return error
    told = AnomalyError(f"{error}\nThis is a step of {op.operation.name}")
    told.backward = error.backward
    return told


def current() -> Watch | None:
    """The innermost block of `anomaly()` here."""
    return _current.get() if active else None


def _look(op: Op, inputs: Sequence[Handle | Scalar], outputs: Sequence[Handle]) -> None:
    watch = _current.get()
    if watch is not None:
        call_holding(_current, None, watch.look, op, inputs, outputs)


@block
def anomaly(*, infinite: bool = False) -> Generator[None, Any, None]:
    """Raises `AnomalyError` at the first operation that gives NaN, forward or backward.

    The message names the operation, how its inputs were, the module and the line of the program;
    in the backward pass those of the operation whose gradient it is. Compiled functions run as they
    were written. Everything is read at once and nothing is fused, so it is slow: for the step that
    goes wrong.

    Args:
        infinite: whether infinities count too.

    >>> import ingle.tensor as it
    >>> x = it.asarray([1.0, -1.0])
    >>> with it.anomaly():
    ...     it.sum(it.log(x))
    Traceback (most recent call last):
        ...
    ingle.tensor.errors.AnomalyError: log: 1 of 2 elements of the result (float32, shape (2,)) are \
NaN; x (shape (2,)) is between -1 and 1, at ...
    """
    watch = Watch(infinite)
    with holding(_current, watch):
        try:
            _begin(watch)
            yield
        finally:
            try:
                _end(watch)
            except BaseException:  # Ctrl-C: it goes on when nobody watches any more
                _end(watch)
                raise


def _begin(watch: Watch) -> None:
    global active
    with _lock:
        _all.add(watch)
        active = len(_all)
        dispatch.watch(_look, _explained)


def _end(watch: Watch) -> None:
    global active
    with _lock:
        _all.discard(watch)
        active = len(_all)
        if not active:
            dispatch.watch(None)
