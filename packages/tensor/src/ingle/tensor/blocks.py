"""State that a thread or task has inside a `with` block, and never keeps behind it.

A handler of signals raises wherever Python looks for signals: after calls, and where functions
begin. The first instruction of a `__exit__` that is written in Python is such a place, so that
Ctrl-C there leaves everything set which that function was to take back, for all that the thread
does afterwards. No handler runs between the instructions of C code. So the two ends of a `Block`
are C functions that go on with a generator, which stands inside of its own `try` at that moment.

`finally` begins with one call of a C function for the same reason: what is raised after that call
finds the state restored, and nothing can be raised before it. Several states are several blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from .kept_contexts import idle, kept

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

After = Callable[[], None]


class _Enter:
    """`__enter__`: of a block the C function that begins it, which `with` looks up and calls."""

    def __get__(self, block: WithBlock[Any] | None, kind: type) -> Callable[..., Any]:
        if block is None:
            return _enter
        running: Any = block._running
        if running.gi_suspended or running.gi_frame is None:
            raise RuntimeError("a block is entered once: make a new one for each `with` statement")
        begin: Callable[[], Any] = running.__next__
        return begin


class _Exit:
    """`__exit__`: of a block the C function that ends it, which `with` looks up when it begins."""

    def __get__(self, block: WithBlock[Any] | None, kind: type) -> Callable[..., Any]:
        if block is None:
            return _exit
        # Sends all of them, one after the other, and returns the first, as all keys are equal.
        return partial(max, (), key=block._running.send)


def _enter(block: WithBlock[Any]) -> Any:
    """What `ExitStack` finds in the class."""
    return block.__enter__()


def _exit(block: WithBlock[Any], *error: object) -> None:
    block.__exit__(*error)


class WithBlock(Generic[T]):
    """Entered by one `with` statement, or as a decorator by each call of a function.

    Args:
        begun: makes the generator that `with` goes on with: once to enter, and four times to leave,
            sending `()` and the three arguments of `__exit__`.
    """

    __slots__ = ("_begun", "_running")

    if TYPE_CHECKING:

        def __enter__(self) -> T: ...
        def __exit__(self, *error: object) -> None: ...

    else:
        __enter__ = _Enter()
        __exit__ = _Exit()

    def __init__(self, begun: Callable[[], Generator[Any, Any, Any]]) -> None:
        self._begun = begun
        self._running: Any = begun()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        begun = self._begun

        @wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with WithBlock(begun):
                return function(*args, **kwargs)

        return inside


def block(work: Callable[P, Generator[T, Any, After | None]]) -> Callable[P, WithBlock[T]]:
    """Makes blocks of a generator function, as `contextlib.contextmanager` makes managers.

    The function yields once, what `as` names, and never learns what the block raises; what it
    returns is called if that is nothing.

    >>> from ingle.tensor.blocks import block
    >>> depth = []
    >>> @block
    ... def deeper():
    ...     count = len(depth)
    ...     try:
    ...         depth.append(count)
    ...         yield count
    ...     finally:
    ...         del depth[count:]
    >>> with deeper(), deeper() as count:
    ...     count, depth
    (1, [0, 1])
    >>> depth
    []
    """

    @wraps(work)
    def made(*args: P.args, **kwargs: P.kwargs) -> WithBlock[T]:
        return WithBlock(partial(_driven, partial(work, *args, **kwargs)))

    return made


def holding(variable: ContextVar[Any], value: T) -> WithBlock[T]:
    """A context variable has the value inside; what `as` names.

    >>> from contextvars import ContextVar
    >>> from ingle.tensor.blocks import holding
    >>> depth = ContextVar("depth", default=0)
    >>> with holding(depth, 2):
    ...     depth.get()
    2
    >>> depth.get()
    0
    """
    return WithBlock(partial(_held, variable, value))


def call_holding(
    variable: ContextVar[T],
    value: T,
    function: Callable[P, R],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Calls a function while a context variable has the value: `holding` for what is called often.

    >>> from contextvars import ContextVar
    >>> from ingle.tensor.blocks import call_holding
    >>> depth = ContextVar("depth", default=0)
    >>> call_holding(depth, 2, depth.get), depth.get()
    (2, 0)
    """
    before = variable.get()
    try:
        variable.set(value)
        return function(*args, **kwargs)
    finally:
        variable.set(before)
        if kept and idle:
            kept.clear()


_of_values: list[ContextVar[Any]] = []


def of_values(variable: ContextVar[T | None]) -> ContextVar[T | None]:
    """Says of a context variable, whose default is None, that it holds values of the program that
    runs; returns it."""
    _of_values.append(variable)
    return variable


def context_without_values() -> Context:
    """A copy of the context for work that may take longer than the block at hand: what such
    variables hold here would live until it is done."""
    made = copy_context()
    made.run(_let_go_of_values)
    return made


def _let_go_of_values() -> None:
    for variable in _of_values:
        if variable.get() is not None:
            variable.set(None)


def while_set(variable: ContextVar[Any], value: T) -> Generator[T, Any, None]:
    """A part of a generator that a block goes on with: a context variable has the value until the
    block ends."""
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        variable.set(before)
        if kept and idle:
            kept.clear()


def _held(variable: ContextVar[T], value: T) -> Generator[Any, Any, None]:
    yield from while_set(variable, value)
    yield 0
    yield 0
    yield 0
    yield 0


def _driven(work: Callable[[], Generator[Any, Any, After | None]]) -> Generator[Any, Any, None]:
    after = yield from work()
    kind = yield 0
    if kind is None and after is not None:
        after()
    yield 0
    yield 0
    yield 0
