"""Functions of several tensors whose axes have names: products and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..errors import AxisError, OperandError
from .tensor import NamedTensor, Names, joint_sizes, names_of


def dot(*operands: NamedTensor, over: Names) -> NamedTensor:
    """The product of tensors, summed over the axes of some names; see `einsum`.

    Args:
        operands: named tensors. Axes that several share and that are not summed over are matched.
        over: the names to sum over.

    Raises:
        AxisError: none of the operands has an axis of that name.

    >>> import ingle.tensor as it
    >>> from ingle.tensor import named
    >>> x = named.named(it.ones((2, 3)), "batch feature")
    >>> w = named.named(it.ones((4, 3)), "unit feature")
    >>> named.dot(x, w, over="feature").sizes
    {'batch': 2, 'unit': 4}
    """
    sizes = joint_sizes("dot", operands)
    gone = names_of(over)
    for n in gone:
        if n not in sizes:
            raise AxisError(f"dot: there is no axis {n!r} among {tuple(sizes)}")
    number = {n: i for i, n in enumerate(sizes)}
    arguments: list[Any] = []
    for x in operands:
        arguments += [x.tensor, [number[n] for n in x.names]]
    kept = tuple(n for n in sizes if n not in gone)
    return NamedTensor(ops.einsum(*arguments, [number[n] for n in kept]), kept)


def concat(tensors: Sequence[NamedTensor], name: str, /) -> NamedTensor:
    """Tensors one behind another along the axis of a name; the others are aligned.

    >>> import ingle.tensor as it
    >>> from ingle.tensor import named
    >>> a, b = named.named(it.zeros((2, 3)), "x y"), named.named(it.zeros((3, 5)), "y x")
    >>> named.concat([a, b], "x").sizes
    {'x': 7, 'y': 3}
    """
    first = _first("concat", tensors)
    at = first.axis(name)
    parts = [_same_axes("concat", first, x).tensor for x in tensors]
    return NamedTensor(ops.concat(parts, axis=at), first.names)


def stack(tensors: Sequence[NamedTensor], name: str, /) -> NamedTensor:
    """Tensors side by side along a new axis, the first, with a name of its own.

    >>> import ingle.tensor as it
    >>> from ingle.tensor import named
    >>> named.stack([named.named(it.zeros(3), "x")] * 2, "copy").sizes
    {'copy': 2, 'x': 3}
    """
    first = _first("stack", tensors)
    parts = [_same_axes("stack", first, x).tensor for x in tensors]
    return NamedTensor(ops.stack(parts, axis=0), (name, *first.names))


def _first(name: str, tensors: Sequence[NamedTensor]) -> NamedTensor:
    if not tensors or not all(isinstance(x, NamedTensor) for x in tensors):
        raise OperandError(f"{name}: needs at least one named tensor, and nothing else")
    return tensors[0]


def _same_axes(name: str, first: NamedTensor, x: NamedTensor) -> NamedTensor:
    if set(x.names) != set(first.names):
        raise AxisError(f"{name}: the tensors have different axes, {first.names} and {x.names}")
    return x.align_to(first.names)
