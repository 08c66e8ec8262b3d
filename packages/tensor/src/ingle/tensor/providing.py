"""First values of cells that are as good as there from the beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .cell import Cell
from .transactions import Scope, current_scope

T = TypeVar("T")


def provide(cell: Cell[T], make: Callable[[], T]) -> None:
    """Gives a cell a value that it might have had all along, such as moments that are zeros.

    It is a write like any other, except in a function that is being traced for later runs:
    there the value is made beforehand, so that these find it and do not make it again.

    Args:
        cell: which holds neither a tensor nor a number.
        make: the value, of nothing that the function computes.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.providing import provide
    >>> c = it.Cell(())
    >>> provide(c, lambda: (it.Cell(0),))
    >>> len(c.raw)
    1
    """
    scope = current_scope()
    while type(scope) is Scope and scope.replay is None and cell not in scope.writes:
        scope = scope.parent
    beforehand: Any = getattr(scope, "provide", None)
    if beforehand is None or not beforehand(cell, make):
        cell.rebind(make())
