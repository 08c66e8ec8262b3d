"""Primitives that kernels compute in terms of others: matrix products, reductions of split axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from ..ir.graph import Graph
from ..ir.reduction_axes import folded_axes
from ..ir.views import Views
from ..kernel.code import DTYPES, HALVES, number_of
from ..kernel.lowering import reduction_of
from ..kernel.nest import MAX_OUTER
from ..kernel.neutral import neutral_bits

_OF_BOOLS = frozenset({"max", "min", "argmax", "argmin"})
Body: TypeAlias = Callable[..., Tensor]


def decomposition(op: Op, avals: Sequence[Aval], products: bool) -> Body | None:
    """How kernels compute a primitive in terms of others, if they cannot do so at once.

    Args:
        products: whether matrix products are written out.
    """
    family = op.operation.traits.family
    if family == "matmul" and products and _can_spread(avals):
        return _product
    if reduction_of(op) in _OF_BOOLS and avals[0].dtype.name == "bool" and 0 not in avals[0].shape:
        return lambda x: _of_bools(op, x)
    replaces = not op.attributes.get("include_self", True)
    if replaces and avals[0].dtype.name in DTYPES:
        return lambda x, indices, updates: _without_self(op, x, indices, updates)
    rounds = op.operation.traits.updates in ("add", "prod")
    if rounds and avals[0].dtype.name in HALVES:
        return lambda x, indices, updates: _scattered_wide(op, x, indices, updates)
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
    if not dtype.is_floating and n != 1:  # in any order, so along what lies side by side
        rows, columns = it.reshape(x1, (*left, m, k, 1)), it.reshape(x2, (*right, 1, k, n))
        return it.sum(it.multiply(rows, columns), axis=-2, dtype=dtype)
    rows = it.reshape(x1, (*left, m, 1, k))
    columns = it.reshape(it.matrix_transpose(x2), (*right, 1, n, k))
    return it.sum(it.multiply(rows, columns), axis=-1, dtype=x1.dtype).astype(dtype)


def _scattered_wide(op: Op, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Half types are combined in float32 and rounded once."""
    return _scattered(op, x.astype("float32"), indices, updates.astype("float32")).astype(x.dtype)


def _without_self(op: Op, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The places that updates go to begin with what changes nothing."""
    dtype = x.dtype.name
    number = number_of(neutral_bits(_reduction(op), dtype), dtype)
    nothing = it.full(updates.shape, number, dtype=x.dtype, device=x.device)
    start = it.scatter_set(x, indices, nothing, axis=op.attributes["axis"])
    return _scattered(op, start, indices, updates)


def _scattered(op: Op, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = op.attributes["axis"]
    if op.operation.traits.updates == "add":
        return it.scatter_add(x, indices, updates, axis=axis)
    reduce = {"prod": "prod", "max": "amax", "min": "amin"}[_reduction(op)]
    return it.scatter_reduce(x, indices, updates, reduce, axis=axis)


def _reduction(op: Op) -> str:
    """What a scatter that reduces combines by, as reductions are named."""
    largest = op.attributes.get("largest")
    return "prod" if largest is None else "max" if largest else "min"


def _of_bools(op: Op, x: Tensor) -> Tensor:
    """Extremes of truths: whether any or all are true, or places in numbers."""
    rest = dict(op.attributes)
    name = reduction_of(op)
    if name in ("max", "min"):
        return (it.any if name == "max" else it.all)(x, **rest)
    dtype, find = rest.pop("dtype"), it.argmax if name == "argmax" else it.argmin
    return find(x.astype("uint8"), **rest).astype(dtype)


def _runs(op: Op, aval: Aval) -> list[list[int]]:
    """The axes that a reduction folds, in runs of neighbours; axes of size 1 are no border."""
    axes = folded_axes(op, len(aval.shape))
    runs: list[list[int]] = []
    beside = False
    for a in range(len(aval.shape)):
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
    rounds = reduction_of(op) in ("sum", "prod")
    if rounds:
        if dtype.name in HALVES:
            x = x.astype("float32")
        more["dtype"] = x.dtype
    for run in reversed(_runs(op, Aval(shape, dtype))):
        x = fold(x, axis=tuple(run), keepdims=True, **more)
    axes = folded_axes(op, len(shape))
    if not op.attributes["keepdims"]:
        x = it.reshape(x, tuple([n for a, n in enumerate(shape) if a not in axes]))
    return x.astype(dtype) if rounds else x


def spreading(graph: Graph, views: Views) -> set[int]:
    """Positions of maps that are larger than all that they read, and only there to be reduced.

    They begin the kernel that reduces them: anywhere else they would be written to memory.
    """
    users, outputs = graph.users(), frozenset(graph.outputs)
    found = set()
    for position, node in enumerate(graph.nodes):
        if node.op.operation.traits.kind != "elementwise" or len(node.results) != 1:
            continue
        (value,) = node.results
        takers = users.get(value, [])
        reduced = len(takers) == 1 and value not in outputs
        if reduced and reduction_of(graph.nodes[takers[0]].op) is not None:
            size = _elements(graph, value)
            if all(_elements(graph, views.of(a).root) < size for a in node.args):
                found.add(position)
    return found


def _elements(graph: Graph, value: int) -> int:
    return math.prod(graph.values[value].aval.shape)
