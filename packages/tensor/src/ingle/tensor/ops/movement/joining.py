"""Several tensors as one, and one as several: concat, stack, unstack, split, chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, handles_of, promote_several, run
from ...errors import ArgumentError, OperandError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from .._batching import concat_batch
from .._guarding import guarded
from .._rules import as_int, as_ints, normalize_axis
from .shapes import MOVEMENT, permute_dims, reshape, reshaped
from .slicing import slice_axis, zeros_of

if TYPE_CHECKING:
    from ...tensor import Tensor


def concat(arrays: Sequence[TensorLike], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after another along an axis.

    Args:
        arrays: at least one tensor; promoted to one dtype. All sizes but that of `axis` agree.
        axis: along which to join; None flattens the tensors first.

    Raises:
        ShapeError: ranks or other sizes differ.

    >>> import ingle.tensor as it
    >>> it.concat([it.asarray([1, 2]), it.asarray([3])]).tolist()
    [1, 2, 3]
    """
    parts = listed("concat", arrays)
    if axis is None:
        parts, axis = [reshape(p, (-1,)) for p in parts], 0
    handles = promote_several("concat", "arrays", parts)
    return run(_op(normalize_axis(axis, len(handles[0].shape), "concat")), handles)[0]


@lru_cache(maxsize=64)
def _op(axis: int) -> Op:
    return CONCAT.op(axis=axis)


def _concat_rule(*arrays: Aval, axis: int) -> Aval:
    first = arrays[0].shape
    for a in arrays:
        others = [n for i, n in enumerate(a.shape) if i != axis]
        if len(a.shape) != len(first) or others != [n for i, n in enumerate(first) if i != axis]:
            raise ShapeError(
                f"concat: shapes {first} and {a.shape} must agree in all axes but axis {axis}"
            )
    size = sum(a.shape[axis] for a in arrays)
    return Aval((*first[:axis], size, *first[axis + 1 :]), arrays[0].dtype)


def _concat_vjp(
    g: Tensor, arrays_aval: tuple[Aval, ...], needs: tuple[bool, ...], axis: int
) -> tuple[Tensor | None, ...]:
    parts: list[Tensor | None] = []
    start = 0
    for aval, need in zip(arrays_aval, needs, strict=True):
        size = aval.shape[axis]
        parts.append(slice_axis(g, axis, start, size) if need else None)
        start += size
    return tuple(parts)


def _concat_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample(([draw.array((2, 3)), draw.array((1, 3)), draw.array((0, 3))],))
    yield Sample(([draw.array((3, 1, 2)), draw.array((3, 5, 2))],), {"axis": -2})
    yield Sample(([draw.array((8,))],))


CONCAT = Operation(
    "concat",
    tensors=("arrays",),
    variadic=True,
    statics=("axis",),
    rule=_concat_rule,
    traits=replace(MOVEMENT, access="join"),
    vjp={"arrays": _concat_vjp},
    batch=concat_batch,
    public=concat,
    samples=_concat_samples,
    reference=np.concatenate,
)

_FEW = 4
"""So many tensors are interleaved by one operation for each."""


@guarded
def stack(arrays: Sequence[TensorLike], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis, which is axis `axis` of the result.

    Args:
        arrays: tensors of one shape.
        axis: where the new axis stands in the result; negative ones count from the end.

    Raises:
        ShapeError: the shapes differ.

    >>> import ingle.tensor as it
    >>> it.stack([it.asarray([1, 2]), it.asarray([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    parts = listed("stack", arrays)
    handles = handles_of("stack", "arrays", parts)
    first = handles[0].shape
    for h in handles:
        if h.shape != first:
            raise ShapeError(
                f"stack: all shapes must be equal, got {first} and {h.shape}; "
                "use concat to join along an existing axis"
            )
    place = normalize_axis(axis, len(first) + 1, "stack")
    if place < len(first):
        # What stands one after the other along an axis stands so along a new one before it: two
        # operations, however many tensors there are.
        joined = run(_op(place), promote_several("stack", "arrays", parts))[0]
        return reshaped(joined._handle, (*first[:place], len(handles), *first[place:]))
    if first and len(handles) > _FEW:
        return permute_dims(stack(arrays), (*range(1, place + 1), 0))
    rows = [reshaped(h, (*first, 1)) for h in handles]
    return run(_op(place), promote_several("stack", "arrays", rows))[0]


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, each without that axis.

    Args:
        x: a tensor of at least one axis.
        axis: the axis that goes.

    >>> import ingle.tensor as it
    >>> [row.tolist() for row in it.unstack(it.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    handle = handle_of(x, "unstack")
    place = normalize_axis(axis, len(handle.shape), "unstack")
    return run(_unstack_op(place), (handle,))


@lru_cache(maxsize=64)
def _unstack_op(axis: int) -> Op:
    return UNSTACK.op(axis=axis)


def _unstack_rule(x: Aval, *, axis: int) -> tuple[Aval, ...]:
    return (Aval((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype),) * x.shape[axis]


def _unstack_body(x: Tensor, *, axis: int) -> tuple[Tensor, ...]:
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    pieces = (slice_axis(x, axis, i, 1) for i in range(x.shape[axis]))
    return tuple(reshaped(piece._handle, rest) for piece in pieces)


def _unstack_vjp(g: tuple[Tensor | None, ...], x_aval: Aval, axis: int) -> Tensor:
    known = next(part for part in g if part is not None)
    absent = zeros_of(Aval(known.shape, x_aval.dtype), known)
    return stack([absent if part is None else part for part in g], axis=axis)


def _unstack_batch(batched: tuple[bool, ...], x: Tensor, *, axis: int) -> tuple[Tensor, ...]:
    return unstack(x, axis=axis + 1)


def _unstack_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3, 2)),))
    yield Sample((draw.array((2, 3, 5)),), {"axis": 1})
    yield Sample((draw.array((1,)),))


def _unstack_reference(x: Any, axis: int = 0) -> Any:
    return list(np.moveaxis(x, axis, 0))


UNSTACK = Operation(
    "unstack",
    tensors=("x",),
    statics=("axis",),
    many_outputs=True,
    rule=_unstack_rule,
    traits=Traits("movement"),
    vjp={"x": _unstack_vjp},
    body=_unstack_body,
    batch=_unstack_batch,
    public=unstack,
    samples=_unstack_samples,
    reference=_unstack_reference,
)


@guarded
def split(x: TensorLike, size: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensor cut into pieces along an axis.

    Args:
        x: a tensor.
        size: the size of each piece (the last one may be smaller), or the sizes of all pieces.
        axis: along which to cut.

    Raises:
        ShapeError: the sizes do not add up to that of the axis.

    >>> import ingle.tensor as it
    >>> [p.tolist() for p in it.split(it.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    shape = handle_of(x, "split").shape
    place = normalize_axis(axis, len(shape), "split")
    length = shape[place]
    if isinstance(size, Sequence):
        sizes = as_ints(size, "split", "size")
        if any(n < 0 for n in sizes) or sum(sizes) != length:
            raise ShapeError(
                f"split: size={list(sizes)} must be sizes that add up to {length}, "
                f"that of axis {place} of shape {shape}"
            )
    else:
        step = as_int(size, "split", "size")
        if step < 1:
            raise ArgumentError(f"split: size must be at least 1, got {step}")
        sizes = tuple(min(step, length - i) for i in range(0, length, step)) or (0,)
    starts = np.cumsum((0, *sizes)).tolist()
    return tuple(slice_axis(x, place, i, n) for i, n in zip(starts, sizes, strict=False))


@guarded
def chunk(x: TensorLike, /, chunks: int, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensor cut into at most `chunks` pieces of equal size; the last one may be smaller.

    Args:
        x: a tensor.
        chunks: how many pieces at most.
        axis: the axis that is cut.

    Raises:
        ArgumentError: `chunks` is less than 1.

    >>> import ingle.tensor as it
    >>> [p.tolist() for p in it.chunk(it.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    count = as_int(chunks, "chunk", "chunks")
    if count < 1:
        raise ArgumentError(f"chunk: chunks must be at least 1, got {count}")
    shape = handle_of(x, "chunk").shape
    place = normalize_axis(axis, len(shape), "chunk")
    return split(x, max(1, -(-shape[place] // count)), axis=place)


def listed(name: str, arrays: object) -> list[Any]:
    """The tensors of a list or tuple of at least one."""
    if not isinstance(arrays, (list, tuple)):
        raise OperandError(
            f"{name}: needs a list or tuple of tensors, got {type(arrays).__name__}; "
            f"write {name}([a, b])"
        )
    if not arrays:
        raise ArgumentError(f"{name}: needs at least one tensor, got an empty list")
    return list(arrays)
