"""Cells that are written inside of branches, loops and regions while these are traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..cell import Cell
from ..contract import Aval
from ..device import Device
from ..errors import TraceError
from ..programs import Traced, same_number, trace
from ..tensor import Tensor
from ..transactions import Scope, current_scope, transaction


def write_back(
    cells: Sequence[Cell[Any]], values: Sequence[Tensor], numbers: Mapping[Cell[Any], Any]
) -> None:
    """Gives cells what a region wrote to them."""
    for cell, value in zip(cells, values, strict=True):
        cell.rebind(value)
    for cell, number in numbers.items():
        cell.rebind(number)


def refuse_numbers(name: str, traced: Sequence[Traced], times: str) -> None:
    """Raises where a number of the host would have to change inside of what is traced."""
    for cell, number in [item for t in traced for item in t.numbers.items()]:
        raise TraceError(
            f"{name}: a {type(cell).__name__} that holds the number {cell.raw!r} is set to "
            f"{number!r} inside, which is traced once and runs {times}; {_advice(cell)}"
        )


def merged_number(name: str, cell: Cell[Any], numbers: Sequence[Any]) -> Any:
    """The number that a cell holds after one of several branches, whichever that is."""
    merge = getattr(cell, "merged", None)
    if merge is not None:
        return merge(numbers)
    if not all(same_number(n, numbers[0]) for n in numbers):
        raise TraceError(
            f"{name}: a {type(cell).__name__} holds the number {' or '.join(map(repr, numbers))} "
            f"after it, which depends on the branch that is taken; {_advice(cell)}"
        )
    return numbers[0]


def _advice(cell: Cell[Any]) -> str:
    if hasattr(cell, "draw"):
        return "draw outside and pass the draws in"
    return "return the number, or keep it in the cell as a 0-d tensor"


def trace_with_cells(
    functions: Sequence[Callable[..., Any]],
    avals: Sequence[Aval],
    device: Device | None,
    make_scope: Callable[[], Scope] | None = None,
) -> tuple[list[Traced], list[Cell[Any]], list[Scope]]:
    """Functions of tensors that may write cells, as functions of these cells' values too.

    Each is traced as a function of the avals and of the values of all cells that one of
    them writes, and returns a pair of its own result and of their new values. The scopes are those
    that cells were read and written through.
    """
    cells: list[Cell[Any]] = []
    while True:
        known = [*avals, *map(_aval, cells)]
        scopes = [make_scope() if make_scope else Scope(current_scope()) for _ in functions]
        traced = [
            trace(
                _showing(f, cells, len(avals)),
                known,
                device,
                scope=s,
                tape=getattr(s, "tape", None),
            )
            for f, s in zip(functions, scopes, strict=True)
        ]
        fresh = [c for t in traced for c in t.cells]
        if not fresh:
            return traced, cells, scopes
        cells += dict.fromkeys(fresh)


def _aval(cell: Cell[Any]) -> Aval:
    return Aval(cell.shape, cell.dtype)


def _showing(
    function: Callable[..., Any], cells: Sequence[Cell[Any]], count: int
) -> Callable[..., Any]:
    def run(*tensors: Tensor) -> Any:
        shown = dict(zip(cells, tensors[count:], strict=True))
        with transaction(commit=False, replay=shown) as scope:
            result = function(*tensors[:count])
        late = [c for c in scope.writes if c not in shown]
        for cell in late:
            cell.rebind(scope.writes[cell])
        return result, [scope.writes.get(c, shown[c]) for c in cells]

    return run
