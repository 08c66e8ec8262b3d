"""Joining and cutting as NumPy names it by directions, quarter turns, and Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, promote_tensors, wrap
from ...errors import AxisError
from .._guarding import guarded
from .._rules import as_ints, as_size, normalize_axis
from ..elementwise.arithmetic import multiply
from .axes import swapaxes
from .joining import concat, listed
from .rearranging import flip
from .shapes import reshape
from .slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def hstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Tensors beside each other: joined along axis 1, those of at most one axis along axis 0.

    Args:
        arrays: at least one tensor; numbers of axes and other sizes agree.

    >>> import ingle.tensor as it
    >>> it.hstack([it.asarray([[1], [2]]), it.asarray([[3], [4]])]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = _tensors("hstack", arrays)
    parts = [reshape(x, (1,)) if not x.ndim else x for x in parts]
    return concat(parts, axis=0 if parts[0].ndim == 1 else 1)


@guarded
def vstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Tensors below each other: joined along axis 0, where one of a single axis is a row.

    Args:
        arrays: at least one tensor; numbers of axes and other sizes agree.

    >>> import ingle.tensor as it
    >>> it.vstack([it.asarray([1, 2]), it.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    parts = _tensors("vstack", arrays)
    return concat([reshape(x, (1, -1)) if x.ndim < 2 else x for x in parts], axis=0)


@guarded
def dstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Tensors behind each other: joined along axis 2, which those of fewer axes get.

    Args:
        arrays: at least one tensor; one of a single axis is a row.

    >>> import ingle.tensor as it
    >>> it.dstack([it.asarray([1, 2]), it.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    parts = _tensors("dstack", arrays)
    rows = [reshape(x, (1, -1)) if x.ndim < 2 else x for x in parts]
    return concat([reshape(x, (*x.shape, 1)) if x.ndim == 2 else x for x in rows], axis=2)


@guarded
def column_stack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Columns beside each other, to a matrix: joined along axis 1.

    Args:
        arrays: at least one tensor; one of a single axis is a column.

    >>> import ingle.tensor as it
    >>> it.column_stack([it.asarray([1, 2]), it.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = _tensors("column_stack", arrays)
    return concat([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in parts], axis=1)


@guarded
def tensor_split(
    x: TensorLike, indices_or_sections: int | Sequence[int], /, *, axis: int = 0
) -> tuple[Tensor, ...]:
    """The tensor cut into a number of pieces along an axis, or at certain places.

    Args:
        x: a tensor.
        indices_or_sections: how many pieces, of which the first ones are larger by one where the
            size does not divide; or where each piece but the first begins, as slices take it.
        axis: along which to cut.

    >>> import ingle.tensor as it
    >>> [p.tolist() for p in it.tensor_split(it.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    >>> [p.tolist() for p in it.tensor_split(it.arange(5), [1, -1])]
    [[0], [1, 2, 3], [4]]
    """
    name = "tensor_split"
    shape = handle_of(x, name).shape
    place = normalize_axis(axis, len(shape), name)
    size = shape[place]
    if isinstance(indices_or_sections, Sequence):
        given = as_ints(indices_or_sections, name, "indices_or_sections")
        cuts = [*given, size]
        starts = [0, *given]
    else:
        # More pieces than that are a mistake; all but one for each element would be empty.
        most = max(size, 1) + 4096
        count = as_size(indices_or_sections, name, "indices_or_sections", 1, most)
        each, more = divmod(size, count)
        ends = [each * i + min(i, more) for i in range(count + 1)]
        starts, cuts = ends[:-1], ends[1:]
    pieces = [slice(a, b).indices(size) for a, b in zip(starts, cuts, strict=True)]
    return tuple([slice_axis(x, place, a, max(b - a, 0)) for a, b, _ in pieces])


@guarded
def rot90(x: TensorLike, /, k: int = 1, *, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Quarter turns in the plane of two axes, from the first towards the second.

    Args:
        x: a tensor of at least two axes.
        k: how many turns; negative ones go the other way.
        axes: two of them.

    Raises:
        AxisError: `axes` are not two different ones.

    >>> import ingle.tensor as it
    >>> it.rot90(it.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    name = "rot90"
    ndim, pair = len(handle_of(x, name).shape), as_ints(axes, name, "axes")
    found = tuple([normalize_axis(a, ndim, name, "axes") for a in pair])
    if len(found) != 2 or found[0] == found[1]:
        raise AxisError(f"{name}: axes must be two different axes, got {axes!r}")
    first, second = found
    turns = k % 4
    if turns == 2:
        return flip(x, axis=found)
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second) if turns else flip(x, axis=())


@guarded
def kron(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The Kronecker product: a copy of `x2` for each element of `x1`, multiplied with it.

    Args:
        x1, x2: tensors, promoted to one dtype; that of fewer axes gets such of size 1 in front.

    Returns:
        A tensor whose sizes are the products of theirs.

    >>> import ingle.tensor as it
    >>> it.kron(it.asarray([1, 10]), it.asarray([[1, 2]])).tolist()
    [[1, 2, 10, 20]]
    """
    a, b = promote_tensors("kron", ("x1", x1), ("x2", x2))
    ndim = max(a.ndim, b.ndim)
    left, right = ((1,) * (ndim - x.ndim) + x.shape for x in (a, b))
    spread = reshape(a, tuple([n for size in left for n in (size, 1)]))
    repeated = reshape(b, tuple([n for size in right for n in (1, size)]))
    sizes = tuple([n * m for n, m in zip(left, right, strict=True)])
    return reshape(multiply(spread, repeated), sizes)


def _tensors(name: str, arrays: Sequence[TensorLike]) -> list[Tensor]:
    return [wrap(handle_of(x, name, f"arrays[{i}]")) for i, x in enumerate(listed(name, arrays))]
