"""`vmap`: a function of one element as a function of a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor import Tensor, moveaxis, transaction
from ingle.tensor.contract import Backend
from ingle.tensor.device import Device
from ingle.tensor.errors import ArgumentError, AxisError, OperandError, ShapeError
from ingle.tensor.levels import next_level
from ingle.tensor.ops import _batching as rules
from ingle.tensor.pytree import flatten, unflatten

from .batching import Batching
from .transform_arguments import of_functions

Axes = Any


@of_functions
def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[..., Any]:
    """A function that does for each element of a batch what `function` does for one, at once.

    Operations run on the whole batch by their rooms' traits and batching rules; composites
    without one run their bodies. What has neither runs in a loop, with a `BatchLoopWarning`.

    Args:
        function: takes and returns tensors, possibly nested in tuples, lists and dicts, and
            whatever else it likes. Python sees one element and none of its values.
        in_axes: along which axis each argument is batched, None for those that are the same for
            all elements: one for all positional arguments, or a tuple with one for each, which may
            have the argument's structure or the beginning of it. Keyword arguments, cells and
            modules are the same for all elements.
        out_axes: where the batch axis goes in each result, in the same manner. Results that are
            the same for all elements are repeated; None leaves them as they are.

    Random numbers and tensors that are created inside are the same for all elements, unless they
    are passed in. Cells may be written, with values that are the same for all elements.

    Raises:
        ArgumentError: nothing is batched, or the axes do not have the structure of the values.
        ShapeError, AxisError: sizes along the batch axes differ, or an axis is out of range.
        BatchError: a value is read inside, a result's shape depends on one, or a cell is written
            with values that differ.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import grad, vmap
    >>> x, w = it.asarray([[1.0, 2.0], [3.0, 4.0]]), it.asarray([1.0, -1.0])
    >>> vmap(lambda row, w: it.sum(row * w), in_axes=(0, None))(x, w).tolist()
    [-1.0, -1.0]
    >>> vmap(grad(lambda row: it.sum(row * row)))(x).tolist()
    [[2.0, 4.0], [6.0, 8.0]]
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        values = flatten(args)
        places = _spread(in_axes, args, "in_axes")
        places = [p if isinstance(x, Tensor) else None for x, p in zip(values, places, strict=True)]
        size = _size(values, places)
        with next_level() as level, transaction():
            lift = _Lift(level, size)
            lifted = [
                x if place is None else lift(moveaxis(x, place, 0))
                for x, place in zip(values, places, strict=True)
            ]
            result = function(*unflatten(args, lifted), **kwargs)
        outputs = flatten(result)
        targets = _spread(out_axes, result, "out_axes")
        lowered = [
            _result(y, place, level, size) for y, place in zip(outputs, targets, strict=True)
        ]
        return unflatten(result, lowered)

    return run


class _Lift:
    """Makes tensors with a batch axis in front into batched ones, of one backend a device."""

    def __init__(self, level: int, size: int) -> None:
        self.level = level
        self.size = size
        self.backends: dict[Device, Batching] = {}

    def __call__(self, x: Tensor) -> Tensor:
        below: Backend = x.backend
        found = self.backends.get(x.device)
        if found is None:
            found = Batching(below, self.level, self.size, self.backends)
        return found.lift(x)


def _spread(axes: Axes, tree: Any, name: str) -> list[int | None]:
    """An axis for each leaf of a tree, from axes that have the beginning of its structure."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(flatten(tree))
    if isinstance(axes, dict) and isinstance(tree, dict) and set(axes) == set(tree):
        return [p for key in tree for p in _spread(axes[key], tree[key], name)]
    both = isinstance(axes, (tuple, list)) and isinstance(tree, (tuple, list))
    if both and len(axes) == len(tree):
        return [p for a, t in zip(axes, tree, strict=True) for p in _spread(a, t, name)]
    kind = type(tree).__name__
    size = f" of {len(tree)}" if isinstance(tree, (tuple, list, dict)) else ""
    raise ArgumentError(
        f"vmap: {name} must be an integer, None, or have the structure of the values; got {axes!r} "
        f"for a {kind}{size}"
    )


def _size(values: Sequence[Any], places: Sequence[int | None]) -> int:
    sizes: dict[int, tuple[int, ...]] = {}
    for x, place in zip(values, places, strict=True):
        if place is not None:
            if not -x.ndim <= place < x.ndim:
                raise AxisError(
                    f"vmap: in_axes={place} is out of range for an argument of shape {x.shape}"
                )
            sizes[x.shape[place]] = x.shape
    if not sizes:
        raise ArgumentError("vmap: none of the arguments is a tensor that in_axes gives an axis")
    if len(sizes) > 1:
        raise ShapeError(
            f"vmap: the batch axes differ in size: {', '.join(map(str, sizes))}, of arguments of "
            f"shapes {', '.join(map(str, sizes.values()))}"
        )
    (size,) = sizes
    return size


def _result(y: Any, place: int | None, level: int, size: int) -> Any:
    if not isinstance(y, Tensor):
        if place is None or y is None:
            return y
        raise OperandError(
            f"vmap: the function must return tensors, got {type(y).__name__}; give it the "
            "out_axes None to return it as it is"
        )
    backend = y.backend
    if not (isinstance(backend, Batching) and backend.level == level):
        return (
            y if place is None else moveaxis(rules.repeated(y, size), 0, _checked_place(y, place))
        )
    if place is None:
        raise ArgumentError(
            f"vmap: out_axes=None for a result of shape {y.shape} that differs among elements"
        )
    return moveaxis(backend.lower(y), 0, _checked_place(y, place))


def _checked_place(y: Tensor, place: int) -> int:
    if not -y.ndim - 1 <= place <= y.ndim:
        raise AxisError(f"vmap: out_axes={place} is out of range for a result of shape {y.shape}")
    return place
