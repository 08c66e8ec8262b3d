"""Functions of numbers as one step each of what is recorded: later runs call them again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .cell import Cell
from .errors import OperandError
from .followed import is_followed, is_number, leave, plain
from .transactions import Scope, current_scope, scope_of

P = ParamSpec("P")
R = TypeVar("R")


def on_host(function: Callable[P, R]) -> Callable[P, R]:
    """The function of numbers, which a compiled function calls anew at each of its own calls.

    What Python computes of numbers while a function is compiled is recorded, but where a number
    goes to `math`, to a table or into a branch, what comes out holds for this number alone, and
    another one is recorded anew. A function that is marked with this is called again instead.
    Learning rate schedules are called so by optimizers.

    Args:
        function: takes numbers and returns a number that depends on nothing else, or on what may
            be looked up at each call. One that uses cells is recorded like other code.

    Raises:
        OperandError: it is not a function.

    >>> import math
    >>> import ingle.tensor as it
    >>> rate = it.on_host(lambda step: 0.1 * math.cos(step))
    >>> rate(0)
    0.1
    """
    if not callable(function):
        raise OperandError(
            f"on_host: needs a function of numbers, got {type(function).__name__}; write "
            "on_host(f)(x), or @on_host above a function"
        )

    @functools.wraps(function)
    def compute(*args: P.args, **kwargs: P.kwargs) -> R:
        return called(function, *args, **kwargs)

    return compute


def called(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What the function returns for these numbers, followed if one of them is."""
    given: tuple[Any, ...] = args
    tape = next((x.tape for x in given if is_followed(x)), None)
    if tape is None or kwargs or not all(is_number(plain(x)) for x in args):
        return function(*args, **kwargs)
    scope = _Noticing(current_scope())
    try:
        with scope_of(scope):
            value = function(*map(plain, args))  # type: ignore[call-arg]
    except Exception:
        for x in args:
            leave(x)
        raise
    if scope.used or not is_number(value):
        return function(*args, **kwargs)
    return tape.call(function, args, value)  # type: ignore[no-any-return]


class _Noticing(Scope):
    """Notices that somebody asks for a cell; what it shows is only good for going on.

    Attributes:
        used: whether somebody did.
    """

    __slots__ = ("used",)

    def __init__(self, parent: Scope | None) -> None:
        super().__init__(parent)
        self.used = False

    def read(self, cell: Cell[Any]) -> Any:
        self.used = True
        scope = self.parent
        while scope is not None and cell not in scope.writes:
            scope = scope.parent
        return plain(cell._value if scope is None else scope.writes[cell])
