"""Cells: the one mutable thing. Parameters, buffers, optimizer state and generators are cells.

Reads and writes pass through the current `Scope`, if there is one: its writes are committed
together when it ends, or not at all when it raises. Transforms, checkpointing and
`optimizer.step` use scopes.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from .blocks import After, WithBlock, block, holding
from .contract import Backend, Shape
from .device import Device
from .dtypes import DType
from .errors import BatchError, DTypeError, OperandError, ShapeError
from .interruptions import Newcomers, Outside, is_from_outside, newcomers
from .locks import Lock
from .number_protocol import NumberProtocol
from .operators import CellOperators, Operators
from .ops.indexing.subscript import updated
from .plugins import transform
from .pytorch_methods import Elements
from .tensor import Tensor

T = TypeVar("T")
R = TypeVar("R")


class Scope:
    """Writes that wait, over a parent scope or the cells themselves.

    Attributes:
        reads: the first raw value that each cell showed inside, for replays.
        writes: values written inside.
        replay: raw values shown instead of the cells' own, for replays.
        outside: tells what comes in between: handlers of signals, and finalizers too where a
            function is only traced, read and write the cells themselves.
    """

    __slots__ = ("outside", "parent", "reads", "replay", "writes")

    def __init__(self, parent: Scope | None, replay: dict[Cell[Any], Any] | None = None) -> None:
        self.parent = parent
        self.outside: Outside | Newcomers | None = None if parent is None else parent.outside
        self.reads: dict[Cell[Any], Any] = {}
        self.writes: dict[Cell[Any], Any] = {}
        self.replay = replay

    def read(self, cell: Cell[Any]) -> Any:
        if cell in self.writes:
            return self.writes[cell]
        if self.replay is not None and cell in self.replay:
            return self.replay[cell]
        value = cell._value if self.parent is None else self.parent.read(cell)
        self.reads.setdefault(cell, value)
        return value

    def before(self, cell: Cell[Any]) -> Any:
        """The raw value of a cell without the writes of this scope."""
        return cell._value if self.parent is None else self.parent.read(cell)

    def commit(self) -> set[Backend]:
        """Hands the writes to the parent scope, or to the cells; whose values these got."""
        if self.parent is not None:
            self.parent.writes.update(self.writes)
            return set()
        for cell, value in self.writes.items():
            _note_replaced(cell, value)
        commit_writes(self.writes.items())
        return self.backends()

    def backends(self) -> set[Backend]:
        """Those of the values that were written."""
        return {v._handle.backend for v in self.writes.values() if isinstance(v, Tensor)}


commit_lock = threading.RLock()
"""Held while a group of writes is committed, so that those of several threads never mix.

A thread that holds it sees cells that belong together as one group left them, and no other thread
writes groups meanwhile: for short read-modify-write steps on state that threads share.
"""
if hasattr(os, "register_at_fork"):
    # A child that is made in the middle of a commit would wait for it forever, and have half of it.
    os.register_at_fork(
        before=commit_lock.acquire, after_in_parent=commit_lock.release,
        after_in_child=commit_lock.release,
    )  # fmt: skip
_scope: ContextVar[Scope | None] = ContextVar("ingle_cell_scope", default=None)


class Commits:
    """A sequence count of commits: even between two of them, odd during one.

    A reader that finds the same even count before and after has read no group of writes in part.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def begin(self) -> None:
        """A commit begins; with `commit_lock`."""
        self.count |= 1

    def end(self) -> None:
        """It has ended."""
        self.count = (self.count | 1) + 1


commits = Commits()


def commit_writes(writes: Collection[tuple[Cell[Any], Any]]) -> None:
    """Gives cells their new values, all of them."""
    with commit_lock:
        commits.begin()
        try:
            for cell, value in writes:
                cell._store(value)
        except BaseException:
            # Ctrl-C in the middle: it goes on when the group is whole.
            for cell, value in writes:
                cell._store(value)
            raise
        finally:
            commits.end()


@block
def transaction(
    *, commit: bool = True, replay: dict[Cell[Any], Any] | None = None, flush: bool = True
) -> Generator[Scope, Any, After | None]:
    """Cell writes inside are committed together at the end, or not at all if the block raises.

    A handler of signals that comes in between has no part in it.

    Args:
        commit: False discards the writes even if nothing raises.
        replay: values that cells show inside instead of their own.
        flush: False lets values that are only traced so far stay so: for writes in the
            middle of a computation.

    >>> import ingle.tensor as it
    >>> counter = it.Cell(0)
    >>> with it.transaction(commit=False):
    ...     counter.value = 5
    >>> counter.value
    0
    """
    before = _scope.get()
    scope = Scope(current_scope(), replay)
    if scope.outside is None:
        scope.outside = newcomers()
    try:
        _scope.set(scope)
        yield scope
    finally:
        _scope.set(before)
    # Passed on whole: the scope knows old values, and if nobody else does, their memory may be
    # written over.
    ended = [scope]
    return partial(_commit, ended, flush) if commit else None


def _commit(ended: list[Scope], flush: bool) -> None:
    scope = ended.pop()
    cells, several = list(scope.writes), len(scope.backends()) > 1
    # One device knows old tensors itself, and may write over them. What one has written over cannot
    # be taken back when another one fails, so that those of several are kept.
    before = {c: c._value for c in cells if several or not isinstance(c._value, Tensor)}
    written = scope.commit()
    del scope
    # A group of writes is where a recording backend begins to compute: the end of a step.
    try:
        for backend in written if flush else ():
            begin = getattr(backend, "flush", None)
            if begin is not None:
                begin(cells)
    except Exception as error:
        if not is_from_outside(error):  # else it goes on where somebody asks for a value
            commit_writes(before.items())
        raise


def _note_replaced(cell: Cell[Any], value: Any) -> None:
    """Has a value that is about to be a cell's, and may still fail, remember the last one."""
    if isinstance(value, Tensor) and isinstance(cell._value, Tensor):
        value._handle.replaces(cell._value._handle, cell)


def call_alone(cells: Sequence[Cell[Any]], call: Callable[[], R]) -> R:
    """Calls a function while nobody else steps these cells; with `commit_lock`."""
    if not cells:
        return call()
    lock = cells[0].step_lock
    assert lock is not None, cells[0]
    with lock:
        return call_alone(cells[1:], call)


def current_scope() -> Scope | None:
    """The scope that reads and writes of cells pass through here, if there is one."""
    scope = _scope.get()
    if scope is not None and scope.outside is not None and scope.outside.speaks():
        return None
    return scope


def scope_of(scope: Scope) -> WithBlock[Scope | None]:
    """Reads and writes of cells pass through this scope inside; nothing is committed."""
    return holding(_scope, scope)


class Cell(NumberProtocol, CellOperators, Operators, Generic[T]):
    """Holds one value that changes: a tensor, or a Python number such as a counter.

    A cell counts once by identity, however many paths lead to it (tied weights). Operations take
    cells where they take tensors and read them. One that holds a number computes like the number.

    Args:
        value: the first value. A tensor's shape and dtype stay; use `rebind` to change them.
        differentiable: whether a read shows a tensor that gradients are recorded for.

    >>> import ingle.tensor as it
    >>> c = it.Cell(it.asarray([1.0, 2.0]))
    >>> c.value = c + 1.0
    >>> c.value.tolist()
    [2.0, 3.0]
    """

    __slots__ = ("__weakref__", "_value", "differentiable", "version")

    _value: T
    step_lock: Lock | None = None
    """Held by a thread that steps the cell, from its read to the write that follows from it."""

    def __init__(self, value: T, *, differentiable: bool = False) -> None:
        self._value = _lowered(value)
        self.differentiable = differentiable
        self.version = 0

    @property
    def value(self) -> T:
        """The value now; gradients are recorded for it if the cell is differentiable."""
        scope = current_scope()
        value: T = self._value if scope is None else scope.read(self)
        if self.differentiable:
            lift = transform("lift")
            if lift is not None:
                return lift(self, value)  # type: ignore[no-any-return]
        return _shown(value)

    @value.setter
    def value(self, value: T) -> None:
        old = self.raw
        if isinstance(old, Tensor):
            self._check(old, value)
        self.rebind(value)

    @property
    def raw(self) -> T:
        """The value now, without recording gradients."""
        scope = current_scope()
        return _shown(self._value if scope is None else scope.read(self))

    def rebind(self, value: T) -> None:
        """Replaces the value, whatever its shape, dtype and device."""
        value = _lowered(value)
        scope = current_scope()
        if scope is None:
            _note_replaced(self, value)
            self._store(value)
        else:
            scope.writes[self] = value

    def __ingle_tensor__(self) -> Tensor:
        value = self.value
        if not isinstance(value, Tensor):
            raise OperandError(f"a cell that holds {value!r} is no tensor operand")
        return value

    @property
    def shape(self) -> Shape:
        """The shape of the tensor that the cell holds."""
        return self._held().shape

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor that the cell holds."""
        return self._held().dtype

    @property
    def device(self) -> Device:
        """The device of the tensor that the cell holds."""
        return self._held().device

    @property
    def ndim(self) -> int:
        """The number of axes of the tensor that the cell holds."""
        return self._held().ndim

    @property
    def size(self) -> Elements:
        """The number of elements of the tensor that the cell holds."""
        return self._held().size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the tensor that the cell holds."""
        return self._held().nbytes

    def detach(self) -> Tensor:
        """The tensor that the cell holds, without recording gradients."""
        return self._held()

    def numpy(self) -> np.ndarray:
        """The values of the tensor that the cell holds, as a NumPy array; see `Tensor.numpy`."""
        return self._held().numpy()

    def item(self) -> Any:
        """What the cell holds as a Python number: a number, or a tensor of one element."""
        number = self._plain()
        return self._held().item() if number is None else number

    def tolist(self) -> Any:
        """What the cell holds as nested lists of Python numbers, or as one number."""
        number = self._plain()
        return self._held().tolist() if number is None else number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        number = self._plain()
        if number is None:
            return self._held().__array__(dtype, copy)
        return np.array(number, dtype, copy=True if copy is None else copy)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value = updated(self._held(), key, value)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._held())

    def _plain(self) -> Any:
        value = self.raw
        return value if isinstance(value, (bool, int, float, complex)) else None

    def _number(self, to: str) -> Any:
        value = self.raw
        if isinstance(value, Tensor):
            return value._number(to)
        number = self._plain()
        if number is None:
            raise OperandError(f"{to}(cell): the cell holds no number but {value!r}")
        return number

    def __bool__(self) -> bool:
        holds_truth = isinstance(self.raw, Tensor) or self._plain() is not None
        return bool(self._number("bool")) if holds_truth else True

    def __index__(self) -> int:
        number = self._plain()
        return self._held().__index__() if number is None else operator.index(number)

    def __str__(self) -> str:
        value = self.raw
        single = value.ndim == 0 if isinstance(value, Tensor) else self._plain() is not None
        return str(value) if single else repr(self)

    def _held(self) -> Tensor:
        value = self.raw
        if not isinstance(value, Tensor):
            raise OperandError(f"a cell that holds {value!r} has no shape, dtype or device")
        return value

    __hash__ = object.__hash__

    def _store(self, value: T) -> None:
        self._value = value
        self.version += 1

    def _check(self, old: Any, new: Any) -> None:
        if not isinstance(new, Tensor):
            raise OperandError(
                f"this cell holds a tensor, got {type(new).__name__}; use asarray(...)"
            )
        if old.shape != new.shape:
            raise ShapeError(
                f"this cell holds shape {old.shape}, got {new.shape}; "
                "use cell.rebind(value) to change its shape"
            )
        if old.dtype is not new.dtype:
            raise DTypeError(
                f"this cell holds {old.dtype}, got {new.dtype}; cast with value.astype(...) or use "
                "cell.rebind(value)"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


def _lowered(value: T) -> T:
    if not isinstance(value, Tensor):
        return value
    handle = value._handle
    if handle.backend.level:
        handle = handle.detached()
    if handle.base() is not handle:
        raise BatchError(
            f"a cell cannot hold a tensor of shape {value.shape} that differs among the elements "
            "of a vmap; return it instead, or write outside"
        )
    return Tensor(handle)  # type: ignore[return-value]


def _shown(value: T) -> T:
    # `x += y` rebinds a Tensor object: a cell's own must not be in anyone else's hands.
    return Tensor(value._handle) if isinstance(value, Tensor) else value  # type: ignore[return-value]
