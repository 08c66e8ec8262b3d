"""Large arrays in memory of a pool: fresh pages from the system cost more than most kernels.

An array of the pool is an ordinary NumPy array. Its memory goes back when it and all its views are
gone, which NumPy itself keeps track of: below them lies a `Root` that gives the block back.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.tensor import settings
from ingle.tensor.memory import (
    Block,
    HostMemory,
    HostSource,
    Label,
    Owners,
    Pool,
    pool_from_environment,
)
from ingle.tensor.operation import Op

Array = np.ndarray[Any, Any]

OFF = settings.setting("INGLE_MEMORY") == "off"
LARGE = sys.maxsize if OFF else 128 << 10
"""Bytes from which on arrays come from the pool. The C library keeps what is smaller, too."""

pool = Pool(HostSource(), "direct") if OFF else pool_from_environment(HostSource())
"""The pool of the process: all devices of this backend are the same host."""


class Root(np.ndarray):
    """What a block's arrays are views of. No array of this class is ever handed out.

    Attributes:
        block: the memory.
        owned: the ledger of its holders, if it may be written in place.
    """

    __slots__ = ("block", "owned")

    block: Block
    owned: Owners | None

    def __del__(self) -> None:
        block = getattr(self, "block", None)
        if block is not None:
            block.release()


class Export(np.ndarray):
    """What a NumPy view of a tensor's memory that may be written in place is a view of.

    It holds the memory as long as any array that was made from it lives, and stands in the ledger.
    """

    __slots__ = ("source",)

    source: Array


def empty(shape: Sequence[int], dtype: Any, op: Op | str = "a temporary") -> Array:
    """Like `np.empty`, from the pool if it is large; `op` is who asks."""
    kind = np.dtype(dtype)
    if math.prod(shape) * kind.itemsize < LARGE:
        return np.empty(shape, kind)
    return _pooled(op, tuple(shape), kind, None)


def zeros(shape: Sequence[int], dtype: Any, op: Op | str = "a temporary") -> Array:
    """Like `np.zeros`, from the pool if it is large."""
    if math.prod(shape) * np.dtype(dtype).itemsize < LARGE:
        return np.zeros(shape, dtype)
    out = empty(shape, dtype, op)
    out.fill(0)
    return out


def owned(op: Op, shape: tuple[int, ...], dtype: Any, owners: Owners) -> Array:
    """An array of the pool that may be written in place, with the ledger of its holders."""
    return _pooled(op, shape, dtype, owners)


def _pooled(op: Op | str, shape: tuple[int, ...], dtype: Any, owned: Owners | None) -> Array:
    name = op if isinstance(op, str) else op.operation.name
    block = pool.allocate(math.prod(shape) * dtype.itemsize, Label(name, shape, dtype))
    memory = block.memory
    assert isinstance(memory, HostMemory)
    root = np.ndarray.__new__(Root, shape, dtype, memory.buffer, memory.start + block.offset)
    root.block = block
    root.owned = owned
    return root.view(np.ndarray)


def empty_like(model: Array, dtype: Any = None, op: Op | str = "a temporary") -> Array:
    """Like `np.empty_like`: of the shape of `model`, with the axes in the same order in memory."""
    dtype = model.dtype if dtype is None else dtype
    if model.nbytes < LARGE:
        return np.empty_like(model, dtype, subok=False)
    strides = model.strides
    if model.flags.c_contiguous or 0 in strides:
        return empty(model.shape, dtype, op)
    order = sorted(range(model.ndim), key=lambda i: -abs(strides[i]))
    made = empty([model.shape[i] for i in order], dtype, op)
    return made.transpose(sorted(range(model.ndim), key=order.__getitem__))


def copied(array: Array, op: Op | str) -> Array:
    """A copy whose last axis is innermost."""
    if array.nbytes < LARGE:
        return np.array(array, order="C")
    out = empty(array.shape, array.dtype, op)
    np.copyto(out, array)
    return out


def ledger(array: Array) -> Owners | None:
    """The ledger of the memory that an array lies in, if it has one."""
    root = _root(array)
    return None if root is None else root.owned


def _root(array: Any) -> Root | None:
    # `as_strided` puts an object of its own between a view and its base, and knows that, too.
    base = array.base
    while base is not None and type(base) is not Root:
        base = getattr(base, "base", None)
    return base


def exported(array: Array, owned: Owners) -> Array:
    """A view of an array that counts among the holders, as do all that NumPy makes from it."""
    base = _root(array)
    assert base is not None, "memory with a ledger has a root"
    memory: Any = base.block.memory
    offset = memory.start + array.__array_interface__["data"][0] - memory.address
    root = np.ndarray.__new__(
        Export, array.shape, array.dtype, memory.buffer, offset, array.strides
    )
    root.source = array
    owned.add(root)
    return root.view(np.ndarray)


_results: dict[Any, Any] = {}


def output(op: Op, ufunc: np.ufunc, *arrays: Any) -> Array | None:
    """Where a ufunc of these arrays, one of them large, may write its result; None if unknown."""
    key = (ufunc, *[a.dtype for a in arrays])
    if key not in _results:
        try:
            _results[key] = ufunc.resolve_dtypes((*key[1:], None))[-1]
        except TypeError:
            _results[key] = None
    dtype = _results[key]
    if dtype is None:
        return None
    first = arrays[0]
    shape = first.shape
    for a in arrays[1:]:
        if a.shape != shape and a.shape:
            shape = np.broadcast_shapes(shape, a.shape)
    for a in arrays:
        if a.shape == shape and type(a) is np.ndarray:
            return empty_like(a, dtype, op)
    return empty(shape, dtype, op)
