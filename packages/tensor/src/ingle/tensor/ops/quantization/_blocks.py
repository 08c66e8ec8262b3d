"""Blocks of a tensor that share a parameter, such as a scale.

Along each axis such a parameter has as many entries as there are blocks, so that its shape says how
the tensor is divided: 1 where a block takes the whole axis, the axis' size where each index is one.
A 0-d parameter belongs to the whole tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...contract import Shape
from ...dispatch import TensorLike, handle_of
from ...errors import ShapeError
from .._batching import Batched, repeated
from .._rules import normalize_axis
from ..elementwise.cast import astype
from ..movement.shapes import reshape
from ..reductions.basic import sum as reduce_sum

if TYPE_CHECKING:
    from ...tensor import Tensor


def check_blocks(name: str, argument: str, shape: Shape, of: Shape) -> None:
    """Raises where a parameter's shape does not divide that of a tensor into blocks."""
    fits = len(shape) == len(of) and all(
        n % c == 0 if c else not n for c, n in zip(shape, of, strict=True)
    )
    if shape and not fits:
        raise ShapeError(
            f"{name}: {argument} of shape {shape} does not divide {of} into blocks: it must be 0-d,"
            " or have as many axes, with sizes that divide the others"
        )


def along_axis(name: str, argument: str, value: TensorLike, x: TensorLike, axis: int) -> Tensor:
    """A 1-d tensor with one entry for each index of an axis, in as many axes as `x` has."""
    shape, given = handle_of(x, name).shape, handle_of(value, name, argument)
    place = normalize_axis(axis, len(shape), name)
    if given.shape != (shape[place],):
        raise ShapeError(
            f"{name}: {argument} must have shape ({shape[place]},), one entry for each index of "
            f"axis {axis} of x, which has shape {shape}; got {given.shape}"
        )
    return reshape(value, tuple(n if i == place else 1 for i, n in enumerate(shape)))


def split(shape: Shape, *parameters: Any) -> tuple[Shape, list[Any]]:
    """Shapes in which a tensor and its blocks' parameters broadcast: each axis as blocks, within.

    Where every block is one element or a whole axis, they broadcast as they are.
    """
    shapes = [p.shape for p in parameters if getattr(p, "shape", ())]
    if all(c in (1, n) for s in shapes for c, n in zip(s, shape, strict=True)):
        return shape, list(parameters)
    counts = [max(s[i] for s in shapes) for i in range(len(shape))]
    whole = tuple(v for c, n in zip(counts, shape, strict=True) for v in (c, n // c if c else 1))
    apart = [
        reshape(p, tuple(v for c in p.shape for v in (c, 1))) if getattr(p, "shape", ()) else p
        for p in parameters
    ]
    return whole, apart


def of_batch(batched: Batched, x: Tensor, *parameters: Any) -> list[Any]:
    """A batch of tensors and their blocks' parameters as one tensor and its own: along the batch
    there are as many blocks as elements, or one for what is the same for all."""
    given = zip((x, *parameters), batched, strict=True)
    size = next(value.shape[0] for value, has_axis in given if has_axis)
    found = [x if batched[0] else repeated(x, size)]
    for parameter, has_axis in zip(parameters, batched[1:], strict=True):
        shape = getattr(parameter, "shape", ())
        if has_axis:
            inside = shape[1:] or (1,) * (found[0].ndim - 1)
            found.append(reshape(parameter, (size, *inside)))
        else:
            found.append(reshape(parameter, (1, *shape)) if shape else parameter)
    return found


def gathered(g: Tensor, like: Tensor) -> Tensor:
    """A cotangent in split shape, summed over each block."""
    if not like.shape:
        return astype(reduce_sum(g), like.dtype)
    if g.ndim > like.ndim:
        inner = tuple(range(1, g.ndim, 2))
        outer = tuple(2 * i for i, n in enumerate(like.shape) if n == 1)
        return astype(reshape(reduce_sum(g, axis=(*inner, *outer)), like.shape), like.dtype)
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1)
    return astype(reduce_sum(g, axis=axes, keepdims=True), like.dtype)
