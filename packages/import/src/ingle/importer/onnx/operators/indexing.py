"""Reading and writing at places that are values."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Host, Value, bounded, host, namespace, numpy_dtype


def _positive(indices: Array, n: int) -> Array:
    """Places counted from the end become places from the start."""
    xp = namespace(indices)
    if numpy_dtype(indices).kind == "u":
        return indices
    if isinstance(indices, np.ndarray):
        return np.where(indices < 0, indices + n, indices)
    return xp.where(indices < 0, indices + n, indices)


@operator("Gather")
def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Slices along an axis by places of any shape."""
    at = axis % max(x.ndim, 1)
    if isinstance(x, np.ndarray):
        return np.take(x, indices, axis=at)
    places = _positive(indices, x.shape[at])
    if places.ndim == 1:
        return it.take(x, places, axis=at)
    found = it.take(x, it.reshape(places, (-1,)), axis=at)
    return it.reshape(found, (*x.shape[:at], *places.shape, *x.shape[at + 1 :]))


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """For each place of the result the element at that index along an axis."""
    places = _positive(indices, x.shape[axis])
    key = tuple(
        slice(0, n) if a != axis % x.ndim else slice(None) for a, n in enumerate(places.shape)
    )
    return it.take_along_axis(x[key], places, axis=axis)


def _flat_places(shape: tuple[int, ...], indices: Tensor) -> Tensor:
    """Rows of indices as places of a tensor whose first axes are one."""
    places: Tensor | None = None
    for a in range(indices.shape[-1]):
        one = _positive(indices[..., a], shape[a])
        places = one if places is None else places * shape[a] + one
    assert places is not None
    return places


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The elements or slices at rows of indices."""
    batch, depth = x.shape[:batch_dims], indices.shape[-1]
    rest = x.shape[batch_dims + depth :]
    if not depth:
        raise ModelError("GatherND: the last axis of indices is empty")
    count = int(np.prod(batch, dtype=np.int64))
    inner = x.shape[batch_dims : batch_dims + depth]
    flat = it.reshape(x, (count * int(np.prod(inner, dtype=np.int64)), *rest))
    places = it.reshape(_flat_places(inner, indices.astype(it.int64)), (count, -1))
    lead = it.reshape(it.arange(count, dtype=it.int64, device=x.device), (count, 1))
    places = places + lead * int(np.prod(inner, dtype=np.int64))
    found = it.take(flat, it.reshape(places, (-1,)), axis=0)
    return it.reshape(found, (*indices.shape[:-1], *rest))


COMBINED = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements")
def scatter_elements(
    x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """`x` with elements written at places along an axis, or combined with what is there."""
    if isinstance(x, np.ndarray) and not isinstance(updates, Tensor):
        return _scattered_on_host(x, host(indices), updates, axis, reduction)
    x, updates = _tensor(x, updates), _tensor(updates, x)
    places = _positive(_tensor(indices, x), x.shape[axis])
    if reduction == "none":
        return it.put_along_axis(x, places, updates, axis=axis)
    if reduction not in COMBINED:
        raise ModelError(f"ScatterElements: reduction {reduction!r} is none of {sorted(COMBINED)}")
    return it.put_along_axis(x, places, updates, axis=axis, reduce=COMBINED[reduction])


operator("Scatter")(
    lambda x, indices, updates, *, axis=0: scatter_elements(x, indices, updates, axis=axis)
)


def _tensor(x: Value, like: Value) -> Tensor:
    return x if isinstance(x, Tensor) else it.asarray(x, device=getattr(like, "device", None))


def _scattered_on_host(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str
) -> np.ndarray:
    result = x.copy()
    at: list[np.ndarray] = list(np.indices(indices.shape))
    at[axis] = np.where(indices < 0, indices + x.shape[axis], indices)
    if reduction == "none":
        result[tuple(at)] = updates
        return result
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    ufunc.at(result, tuple(at), updates)
    return result


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """`x` with elements or slices written at rows of indices."""
    depth = indices.shape[-1]
    inner, rest = x.shape[:depth], x.shape[depth:]
    flat = it.reshape(x, (int(np.prod(inner, dtype=np.int64)), *rest))
    places = it.reshape(_flat_places(inner, indices.astype(it.int64)), (-1,))
    rows = it.reshape(updates, (places.shape[0], *rest))
    if reduction == "none":
        done = it.scatter_set(flat, places, rows, axis=0)
    elif reduction == "add":
        done = it.scatter_add(flat, places, rows, axis=0)
    elif reduction in COMBINED:
        done = it.scatter_reduce(flat, places, rows, COMBINED[reduction], axis=0)
    else:
        raise ModelError(f"ScatterND: reduction {reduction!r} is none of {sorted(COMBINED)}")
    return it.reshape(done, x.shape)


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2,
    mode: str = "linear",
) -> Tensor:  # fmt: skip
    """A cache with new entries along an axis, from a place of each sample on."""
    at, count = axis % past.ndim, past.shape[axis % past.ndim]
    n = past.shape[0]
    first = (
        it.zeros(n, dtype=it.int64, device=past.device)
        if write_indices is None
        else write_indices.astype(it.int64)
    )
    steps = it.arange(update.shape[at], dtype=it.int64, device=past.device)
    places = it.reshape(first, (n, 1)) + steps
    if mode == "circular":
        places = it.remainder(places, count)
    shape = [1] * past.ndim
    shape[0], shape[at] = n, update.shape[at]
    places = it.broadcast_to(it.reshape(places, tuple(shape)), update.shape)
    return it.put_along_axis(past, places, update, axis=at)


@operator("NonZero")
def nonzero(x: Tensor) -> Tensor:
    """The places of what is not zero, one column each."""
    if x.ndim == 0:
        return it.asarray(np.stack(np.nonzero(np.atleast_1d(x.numpy()))), device=x.device)
    return it.stack(it.nonzero(x))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Host, values: Tensor, *, axis: int = -1) -> Tensor:
    """The second value at each index along a new axis, the first elsewhere."""
    count = int(depth.reshape(-1)[0])
    bounded("OneHot", [*indices.shape, count])
    places = _positive(indices.astype(it.int64), count)
    at = axis % (indices.ndim + 1)
    steps = it.reshape(
        it.arange(count, dtype=it.int64, device=indices.device), (count, *[1] * (indices.ndim - at))
    )
    hit = it.equal(it.expand_dims(places, at), steps)
    return it.where(hit, values[1], values[0])


@operator("TopK", 10)
def top_k(
    x: Tensor,
    k: Host,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,  # noqa: A002
) -> tuple[Tensor, Tensor]:
    """The largest or smallest along an axis with their places; of equals the first comes first."""
    count = int(k.reshape(-1)[0])
    order = it.argsort(x, axis=axis, descending=bool(largest), stable=True)
    key = (slice(None),) * (axis % x.ndim) + (slice(0, count),)
    places = order[key]
    return it.take_along_axis(x, places, axis=axis), places.astype(it.int64)


@operator("TopK", 1)
def top_k_before_10(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return top_k(x, np.asarray(k), axis=axis)


@operator("Unique")
def unique(
    x: Host,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002
) -> tuple[Host, Host, Host, Host]:
    """Every value once, with its first place, the place of each among them, and how often it is."""
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)
