"""Writes to cells that are committed together, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .blocks import After, WithBlock, block, holding, of_values, while_set
from .contract import Backend
from .interruptions import Newcomers, Outside, is_from_outside, newcomers
from .locks import ReentrantLock
from .tensor import Tensor

if TYPE_CHECKING:
    from .cell import Cell

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

    def read_each(self, cells: Sequence[Cell[Any]]) -> list[Any]:
        """What `read` gives for each of these, which one line asks for."""
        return list(map(self.read, cells))

    def before(self, cell: Cell[Any]) -> Any:
        """The raw value of a cell without the writes of this scope."""
        return cell._value if self.parent is None else self.parent.read(cell)

    def commit(self) -> set[Backend]:
        """Hands the writes to the parent scope, or to the cells; whose values these got."""
        if self.parent is not None:
            self.parent.writes.update(self.writes)
            return set()
        for cell, value in self.writes.items():
            note_replaced(cell, value)
        commit_writes(self.writes.items())
        return self.backends()

    def backends(self) -> set[Backend]:
        """Those of the values that were written."""
        return {v._handle.backend for v in self.writes.values() if isinstance(v, Tensor)}


commit_lock = ReentrantLock()
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
_scope: ContextVar[Scope | None] = of_values(ContextVar("ingle_cell_scope", default=None))


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
    scope = Scope(current_scope(), replay)
    if scope.outside is None:
        scope.outside = newcomers()
    yield from while_set(_scope, scope)
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


def note_replaced(cell: Cell[Any], value: Any) -> None:
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
