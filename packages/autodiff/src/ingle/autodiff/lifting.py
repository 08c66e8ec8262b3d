"""What transforms share: levels, and arguments that are lifted to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ingle.tensor import Cell, Gradients, Tensor, zeros_like
from ingle.tensor.errors import ArgumentError, GradientError, OperandError
from ingle.tensor.pytree import tree_map

from .nodes import TrackedHandle
from .tracked import Shown, leaf
from .trees import leaves, rebuild


def lifted(argument: Any, level: int, name: str) -> Lifted:
    """An argument lifted to a level.

    Args:
        argument: nested tensors; a cell, an object with `__ingle_cells__` such as a module, or
            nested lists, tuples and dicts of these.
        level: where its values are tracked.
        name: the transform's, for errors.
    """
    cells = _cells(argument, name)
    if cells is None:
        keys: list[object] = []

        def lift(x: Any) -> Tensor:
            handle = leaf(_differentiable(x, name)._handle, level)
            keys.append(handle.node)
            return Tensor(handle)

        value = tree_map(lift, argument)
        return Lifted(argument, keys, value, {})
    shown = {c: (c.raw._handle, Tensor(leaf(c.value._handle, level, c))) for c in cells}
    return Lifted(Gradients({cell: cell.raw for cell in cells}), [*cells], argument, shown)


def _differentiable(x: Any, name: str) -> Tensor:
    if isinstance(x, Tensor) and x.dtype.is_inexact:
        return x
    kind = f"a {x.dtype} tensor" if isinstance(x, Tensor) else type(x).__name__
    if isinstance(x, Iterator):
        kind += ", which can be gone through once; write list(...)"
    raise OperandError(
        f"{name}: differentiates by float tensors, nested tuples, lists and dicts of them, "
        f"cells and modules; got {kind}"
    )


class Lifted(NamedTuple):
    """One argument that a function is differentiated by, lifted to a level.

    Attributes:
        tree: the values before; those of cells are a `Gradients` container.
        keys: what the engine keeps the gradient of each leaf of `tree` by.
        value: the argument to call the function with.
        shown: what its cells show meanwhile.
    """

    tree: Any
    keys: Sequence[object]
    value: Any
    shown: Shown

    def collect(self, found: dict[object, Tensor]) -> Any:
        """Gradients in the structure of the argument, zeros where none was found."""
        values = zip(self.keys, leaves(self.tree), strict=True)
        return rebuild(self.tree, [found[k] if k in found else zeros_like(x) for k, x in values])


def _cells(argument: Any, name: str) -> list[Cell[Any]] | None:
    if isinstance(argument, Cell):
        if not argument.differentiable:
            raise GradientError(f"{name}: this cell is frozen; its gradient is not recorded")
        return [argument]
    show = getattr(argument, "__ingle_cells__", None)
    if show is not None:
        return [c for c in show() if c.differentiable]
    inner = _inside(argument)
    found = [_cells(x, name) for x in inner]
    if not any(cells is not None for cells in found):
        return None
    if None in found:
        raise OperandError(
            f"{name}: one argument has both tensors and cells or modules in it; give the cells and "
            "modules as an argument of their own, and argnums=(0, 1)"
        )
    return list(dict.fromkeys([cell for cells in found for cell in cells or ()]))


def _inside(argument: Any) -> Sequence[Any]:
    """What a list, a tuple or a dict holds."""
    if isinstance(argument, dict):
        return list(argument.values())
    return argument if isinstance(argument, (list, tuple)) else ()


def shown_by(arguments: Sequence[Lifted]) -> Shown:
    """What the cells of all arguments show."""
    return {cell: shown for argument in arguments for cell, shown in argument.shown.items()}


def normal_places(argnums: int | tuple[int, ...], count: int, name: str) -> tuple[int, ...]:
    """Positions of arguments as numbers in [0, count)."""
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    for place in places:
        if not -count <= place < count:
            raise ArgumentError(
                f"{name}: argnums={argnums}, but the call has {count} positional arguments"
            )
    return tuple(place % count for place in places)


def tracked_at(value: Any, level: int) -> TrackedHandle | None:
    """The handle of a tensor that is tracked at just this level."""
    handle = value._handle if isinstance(value, Tensor) else None
    if isinstance(handle, TrackedHandle) and handle.backend.level == level:
        return handle
    return None


def lowered(value: Any, level: int) -> Any:
    """A result without what was recorded of it at this level."""
    handle = tracked_at(value, level)
    return value if handle is None else Tensor(handle.inner)
