"""Primitives that kernels compute in terms of others: matrix products, reductions of split axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..graph import Graph
from ..kernel.code import DTYPES, HALVES
from ..kernel.lowering import reduction_of
from ..kernel.nest import MAX_OUTER
from .views import Views

Body: TypeAlias = Callable[..., Tensor]


def decomposition(op: Op, avals: Sequence[Aval], products: bool) -> Body | None:
    """How kernels compute a primitive in terms of others, if they cannot do so at once.

    Args:
        products: whether matrix products are written out.
    """
    family = op.operation.traits.family
    if family == "matmul" and products and _can_spread(avals):
        return _product
    if op.operation.name == "scatter_add" and avals[0].dtype.name in HALVES:
        return lambda x, indices, updates: _added_wide(op, x, indices, updates)
    if reduction_of(op) not in (None, "argmax", "argmin") and _is_split(op, avals[0]):
        return lambda x: _by_runs(op, x)
    return None


def _can_spread(avals: Sequence[Aval]) -> bool:
    """Whether a product can be one nest: of numbers that kernels know, few axes, not empty."""
    return avals[0].dtype.name in DTYPES - {"bool"} and all(
        len(a.shape) <= MAX_OUTER and 0 not in a.shape for a in avals
    )


def _product(x1: Tensor, x2: Tensor) -> Tensor:
    """The sum over products of a row and a column; they are never in memory (see `spreading`)."""
    dtype = x1.dtype
    if dtype.name in HALVES:  # summed in float32, rounded once
        x1, x2 = x1.astype("float32"), x2.astype("float32")
    *left, m, k = x1.shape
    *right, _, n = x2.shape
    rows = it.reshape(x1, (*left, m, 1, k))
    columns = it.reshape(it.matrix_transpose(x2), (*right, 1, n, k))
    return it.sum(it.multiply(rows, columns), axis=-1, dtype=x1.dtype).astype(dtype)


def _added_wide(op: Op, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Half types are added up in float32 and rounded once."""
    axis = op.attributes["axis"]
    wide = it.scatter_add(x.astype("float32"), indices, updates.astype("float32"), axis=axis)
    return wide.astype(x.dtype)


def _runs(op: Op, aval: Aval) -> list[list[int]]:
    """The axes that a reduction folds, in runs of neighbours; axes of size 1 are no border."""
    axis = op.attributes["axis"]
    every = range(len(aval.shape))
    axes = every if axis is None else axis if isinstance(axis, tuple) else (axis,)
    runs: list[list[int]] = []
    beside = False
    for a in every:
        if aval.shape[a] == 1:
            continue
        if a in axes and beside:
            runs[-1].append(a)
        elif a in axes:
            runs.append([a])
        beside = a in axes
    return runs


def _is_split(op: Op, aval: Aval) -> bool:
    """Whether a reduction folds axes that do not lie side by side, which no row of a nest does."""
    return 0 not in aval.shape and len(_runs(op, aval)) > 1


def _by_runs(op: Op, x: Tensor) -> Tensor:
    """Run by run from the inside; sums of half types are rounded once."""
    fold: Any = getattr(it, op.operation.name)
    dtype, shape = x.dtype, x.shape
    more = {}
    rounds = op.operation.name in ("sum", "prod")
    if rounds:
        if dtype.name in HALVES:
            x = x.astype("float32")
        more["dtype"] = x.dtype
    for run in reversed(_runs(op, Aval(shape, dtype))):
        x = fold(x, axis=tuple(run), keepdims=True, **more)
    axis = op.attributes["axis"]
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not op.attributes["keepdims"]:
        x = it.reshape(x, tuple([n for a, n in enumerate(shape) if a not in axes]))
    return x.astype(dtype) if rounds else x


def spreading(graph: Graph, views: Views) -> set[int]:
    """Positions of maps that are larger than all that they read, and only there to be reduced.

    They begin the kernel that reduces them: anywhere else they would be written to memory.
    """
    users = graph.users()
    found = set()
    for position, node in enumerate(graph.nodes):
        if node.op.operation.traits.kind != "elementwise" or len(node.results) != 1:
            continue
        (value,) = node.results
        takers = users.get(value, [])
        reduced = len(takers) == 1 and value not in graph.outputs
        if reduced and reduction_of(graph.nodes[takers[0]].op) is not None:
            size = _elements(graph, value)
            if all(_elements(graph, views.of(a).root) < size for a in node.args):
                found.add(position)
    return found


def _elements(graph: Graph, value: int) -> int:
    return math.prod(graph.values[value].aval.shape)
