"""Recording for `compile`: one run of the user's function, from which all later runs are made."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import copy_context
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.asking import asking
from ingle.tensor.blocks import block, holding
from ingle.tensor.callers import caller
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.followed import is_followed, is_number, plain
from ingle.tensor.interruptions import Outside
from ingle.tensor.moving import standing_for_move
from ingle.tensor.operation import Op
from ingle.tensor.tape import Tape
from ingle.tensor.transactions import Scope

from ..errors import CompileError
from ..ir.graph import constant_entry
from ..support.source_location import Line, user_line
from .log import LazyHandle, Log, current

if TYPE_CHECKING:
    from ..fusion import Fusion


class Tracer(Log):
    """Writes a function down that is run once on promises instead of values.

    Attributes:
        tape: what the function computes of Python numbers.
        lines: for each entry of the log the line that asked for it.
        sources: for each input of the log where it comes from: what `source` was told, or None
            for a tensor that the function found by itself and that is a constant of it.
        contents: of constants that were made while recording: a digest, since each recording
            makes them anew.
        places: the hardware backends of values that are not on the recording's own device.
        outside: while it is active, tells handlers of signals and finalizers from the function.
    """

    is_tracer = True

    def __init__(self, backend: Fusion) -> None:
        super().__init__(backend)
        self.tape = Tape(where=user_line)
        self.lines: list[Line] = []
        self.sources: list[Any] = []
        self.contents: dict[int, str] = {}
        self.places: dict[int, Backend] = {}
        self.avals = []
        self._scalars: dict[Any, int] = {}
        self.outside: Outside | None = None
        self._asked: Line | None = None
        self._last = Line(None, 0)

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        try:
            if op.operation.traits.dynamic_shape:
                raise CompileError(
                    f"{user_line()}: {op.operation.name} has a result whose shape depends on "
                    "values, and there are none yet inside a compiled function. Use it.where with "
                    "a mask, give a size if the function takes one, or leave this part out of "
                    "compile"
                )
            handles = self.record_steps(op, inputs)
            self._locate()
        finally:
            self._asked = None
        return handles

    def _repair(self) -> None:
        super()._repair()
        if self.avals is not None:
            del self.avals[sum([type(entry[0]) is Op for entry in self.written]) :]

    def promise(self, tensor: Tensor, source: object) -> Tensor:
        """A tensor that stands for an input; `source` says where later runs find it.

        The same handle behind two sources makes two inputs: in a later run they may differ.
        """
        handle = tensor._handle
        fusion, below = self._recording(handle), handle
        if isinstance(handle, LazyHandle):
            below = handle.value  # type: ignore[assignment]  # first, as in `computed`
            if handle.pending_in is not None or not isinstance(below, Handle):
                below = handle.computed()
        if fusion is None:
            raise CompileError(
                f"a compiled function works on one device, or on those of one router: this one "
                f"began on {self.backend.device} and takes a tensor of shape {below.shape} on "
                f"{handle.backend.device}; move it with to_device"
            )
        # No operand: what the function finds by itself is another input, a constant of it.
        number = self._count
        if below.owned is not None:
            below.owned.add(self.given)
        self.given.append(below)
        self.sources.append(source)
        promise = self.input(Aval(below.shape, below.dtype))
        self._locate()
        if fusion is not self.backend:
            self.places[number], promise.backend = below.backend, fusion
        return Tensor(promise)

    def _recording(self, handle: Handle) -> Fusion | None:
        """The decorator, of those that are recorded here, that a handle belongs to."""
        if isinstance(handle, LazyHandle):
            backend = handle.backend
            return backend if backend is self.backend or self.takes(backend) else None
        return self.backend if handle.backend is self.backend.hardware else None

    def takes(self, backend: Fusion) -> bool:
        group = self.backend.group
        return backend is self.backend or (group is not None and backend.group is group)

    def record_for(
        self, backend: Fusion, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...]:
        handles = self.record(op, inputs)
        for handle in handles:
            self._place(handle, backend)
        return handles

    def _place(self, handle: LazyHandle, backend: Fusion) -> None:
        handle.backend = backend
        if backend is self.backend:
            self.places.pop(handle.number, None)
        else:
            self.places[handle.number] = backend.hardware

    def move(self, handle: LazyHandle, target: Backend) -> LazyHandle:
        """The value on another device of the group: a step that changes the place alone."""
        there = next((f for f in self._devices() if f is target), None)
        if there is None:
            raise CompileError(
                f"{user_line()}: a tensor (shape {handle.shape}) is moved from "
                f"{handle.backend.device} to {target.device} inside a compiled function, which "
                "works on one device, or on those of one router; move it before the call, return "
                "it, or join the devices by ingle.router.Router"
            )
        (moved,) = self.record(standing_for_move(handle.shape), (handle,))
        self._place(moved, there)
        return moved

    def _devices(self) -> Iterable[Fusion]:
        group = self.backend.group
        return (self.backend,) if group is None else group.fusions.values()

    def input(self, aval: Aval) -> LazyHandle:
        """A promise of an input that has no handle yet."""
        number = self._count
        self._count = number + 1
        self.written.append(("input", *aval))
        return LazyHandle(self.backend, aval, self, number)

    @block
    def active(self) -> Generator[None, Any, None]:
        """Operations of this thread are recorded here inside."""
        # That of the `with` statement: between are this generator and the one that goes on with it.
        self.outside = outside = Outside(sys._getframe(2))
        with holding(current, self):
            try:
                yield
            finally:
                outside.end()

    def operand(self, handle: Handle) -> int:
        known = len(self.given)
        number = super().operand(handle)
        if len(self.given) > known:
            if handle.owned is not None:
                handle.owned.share()  # a constant of all later runs
            self.sources.append(None)
            if handle.backend is not self.backend.hardware:
                self.places[number] = handle.backend
            self._locate()
        return number

    def number(self, scalar: Scalar) -> int:
        value: Any = scalar.value
        if is_followed(value):
            key: Any = (value.tape, value.name, scalar.dtype)
            number = self._scalars.get(key)
            if number is None:
                number = self._scalars[key] = super().number(scalar)
        else:
            entry = constant_entry(value, scalar.dtype)
            key = entry[:3]
            number = self._scalars.get(key)
            if number is None:
                self.written.append(entry)
                number = self._scalars[key] = self._count
                self._count += 1
        self._locate()
        return number

    def uploaded(self, handle: Handle, array: np.ndarray) -> None:
        """Notes what a constant holds that the function makes of host data."""
        digest = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16)
        self.contents[id(handle)] = digest.hexdigest()

    def interrupted(self) -> bool:
        return self.outside is not None and self.outside.speaks()

    def records_next(self) -> bool:
        if self.outside is None:
            return True
        between, frame = self.outside.asker()
        if between:
            return False
        self._asked = self._line_of(frame)
        return True

    def finish(self, wanted: LazyHandle) -> None:
        raise CompileError(
            f"{user_line()}: {asking()}the value of a tensor (shape {wanted.shape}, "
            f"{wanted.dtype}) is asked for inside a compiled function, where there is none yet. "
            "Use it.where or it.cond instead of a branch, return the tensor and read it outside, "
            "or leave this part out of compile"
        )

    def _locate(self) -> None:
        missing = len(self.written) - len(self.lines)
        if missing:
            asked = self._asked
            self.lines += (self._line_of(caller()) if asked is None else asked,) * missing

    def _line_of(self, frame: FrameType | None) -> Line:
        """The line at which a frame is: the same object as the last one if it is that."""
        code, number = (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
        last = self._last
        if last.code is not code or last.number != number:
            last = self._last = Line(code, number)
        return last

    @block
    def at_one_line(self) -> Generator[None, Any, None]:
        """What is promised inside is asked for by one line."""
        self._asked = self._line_of(caller())
        try:
            yield
        finally:
            self._asked = None


class TracingScope(Scope):
    """Shows cells to the function that is recorded: tensors as inputs, numbers on the tape.

    Attributes:
        counts: the cells that showed a number, in order, by first reading.
        fixed: cells that hold something else, with what they held; it is a constant.
        born: cells that were made while recording.
    """

    __slots__ = ("_before", "_shown", "born", "counts", "fixed", "tracer")

    def __init__(self, tracer: Tracer, parent: Scope | None) -> None:
        super().__init__(parent)
        self.tracer = tracer
        self.counts: list[Cell[Any]] = []
        self.fixed: dict[Cell[Any], Any] = {}
        self.born: list[Cell[Any]] = []
        self._shown: dict[Cell[Any], Any] = {}
        self._before = copy_context()

    def read(self, cell: Cell[Any]) -> Any:
        if cell in self.writes:
            return self.writes[cell]
        if cell not in self._shown:
            self._shown[cell] = self._show(cell)
        return self._shown[cell]

    def read_each(self, cells: Sequence[Cell[Any]]) -> list[Any]:
        with self.tracer.at_one_line():
            return super().read_each(cells)

    def provide(self, cell: Cell[Any], make: Callable[[], Any]) -> bool:
        """Gives a cell a value as if it had had it before; False if it cannot be so.

        See `ingle.tensor.providing`. Nothing of it is recorded.
        """
        if cell in self.writes or (cell in self._shown and cell not in self.fixed):
            return False
        self._before.copy().run(lambda: cell.rebind(make()))
        self._shown.pop(cell, None)
        if cell in self.fixed:  # where it stands among others is part of what was recorded
            self._shown[cell] = self.fixed[cell] = self._held(cell)
        return True

    def shown(self) -> list[Any]:
        """The numbers that the cells in `counts` showed, without their history."""
        return [plain(self._shown[cell]) for cell in self.counts]

    def _show(self, cell: Cell[Any]) -> Any:
        value = self._held(cell)
        if isinstance(value, Tensor):
            handle = value._handle
            if isinstance(handle, LazyHandle) and handle.pending_in is self.tracer:
                self.born.append(cell)
                return value
            return self.tracer.promise(value, cell)
        if is_number(value):
            self.counts.append(cell)
            return self.tracer.tape.input(value)
        if is_followed(value):
            self.born.append(cell)
            return value
        self.fixed[cell] = value
        return value

    def _held(self, cell: Cell[Any]) -> Any:
        return cell._value if self.parent is None else self.parent.read(cell)
