"""Products of matrices and vectors: matmul, tensordot, vecdot, outer; matrix_transpose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run2, wrap
from ...errors import AxisError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...prepared import remembered
from ...sample import Draw, Sample
from .._batching import matmul_batch
from .._guarding import guarded
from .._rules import NUMERIC, as_int, broadcast_shapes, conj, normalize_axes, normalize_axis, sum_to
from ..elementwise.arithmetic import multiply
from ..movement.shapes import permute_dims, reshape
from ..reductions.basic import sum as reduce_sum

if TYPE_CHECKING:
    from ...tensor import Tensor


def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The matrix product over the last two axes; leading axes broadcast.

    A 1-d operand counts as a row (left) or column (right) and its axis is dropped again.

    Args:
        x1, x2: (..., m, k) and (..., k, n), or (k,); numbers, promoted to one dtype.

    Raises:
        ShapeError: an operand is 0-d, or the inner sizes differ.

    >>> import ingle.tensor as it
    >>> it.matmul(it.ones((2, 3)), it.ones((3,))).tolist()
    [3.0, 3.0]
    """
    a, b = handle_of(x1, "matmul", "x1"), handle_of(x2, "matmul", "x2")
    if not a.shape or not b.shape:
        raise ShapeError(
            f"matmul: needs at least one axis each, got {a.shape} and {b.shape}; "
            "multiply by a number with *"
        )
    if len(a.shape) > 1 and len(b.shape) > 1:
        return run2(_MATMUL, *promote("matmul", ("x1", x1), ("x2", x2)))
    return _of_vectors(x1, x2)


@remembered
def _of_vectors(x1: TensorLike, x2: TensorLike) -> Tensor:
    """A product where one operand is a vector, or both are."""
    a, b = handle_of(x1, "matmul", "x1"), handle_of(x2, "matmul", "x2")
    row, column = len(a.shape) == 1, len(b.shape) == 1
    left = reshape(x1, (1, *a.shape)) if row else x1
    right = reshape(x2, (*b.shape, 1)) if column else x2
    out = run2(_MATMUL, *promote("matmul", ("x1", left), ("x2", right)))
    drop = {-2} if row else set()
    drop |= {-1} if column else set()
    return reshape(out, tuple(n for i, n in enumerate(out.shape) if i - out.ndim not in drop))


def _rule(x1: Aval, x2: Aval) -> Aval:
    if x1.dtype.kind not in NUMERIC:
        raise DTypeError(f"matmul: x1 must be numbers, got {x1.dtype}; cast with x.astype(...)")
    if x1.shape[-1] != x2.shape[-2]:
        raise ShapeError(
            f"matmul: inner sizes differ: {x1.shape} @ {x2.shape} needs "
            f"{x1.shape[-1]} == {x2.shape[-2]} (last axis of x1, second last of x2)"
        )
    lead = broadcast_shapes("matmul", x1.shape[:-2], x2.shape[:-2], arguments=("x1", "x2"))
    return Aval((*lead, x1.shape[-2], x2.shape[-1]), x1.dtype)


def _left(g: Tensor, x2: Tensor, x1_aval: Aval) -> Tensor:
    return sum_to(g @ conj(x2).mT, x1_aval.shape)


def _right(g: Tensor, x1: Tensor, x2_aval: Aval) -> Tensor:
    if len(x2_aval.shape) == 2 and g.ndim > 2:
        # One product over all leading axes instead of a batch of them and a sum.
        rows = math.prod(x1.shape[:-1])
        flat, cotangent = reshape(x1, (rows, x1.shape[-1])), reshape(g, (rows, g.shape[-1]))
        return matmul(conj(flat).mT, cotangent)
    return sum_to(conj(x1).mT @ g, x2_aval.shape)


def _samples(draw: Draw) -> Iterator[Sample]:
    for a, b in (
        ((2, 3), (3, 5)), ((17, 33), (33, 8)), ((3, 1, 2, 5), (2, 5, 3)), ((5,), (5,)),
        ((3,), (3, 2)), ((2, 5, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 5, 3), (3, 8)),
    ):  # fmt: skip
        yield Sample((draw.array(a), draw.array(b)), condition=8)


_MATMUL = Operation(
    "matmul",
    tensors=("x1", "x2"),
    rule=_rule,
    traits=Traits("contraction", family="matmul", precision="low", bound="compute"),
    vjp={"x1": _left, "x2": _right},
    batch=matmul_batch,
    public=matmul,
    samples=_samples,
    reference=np.matmul,
).op()


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """Each matrix of a stack transposed: the last two axes exchanged.

    Raises:
        ShapeError: `x` has fewer than two axes.

    >>> import ingle.tensor as it
    >>> it.matrix_transpose(it.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    n = len(handle_of(x, "matrix_transpose").shape)
    if n < 2:
        raise ShapeError(f"matrix_transpose: x must have at least 2 axes, got {n}")
    return permute_dims(x, (*range(n - 2), n - 1, n - 2))


@guarded
def tensordot(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
) -> Tensor:
    """Products summed over several pairs of axes; the other axes of `x1` come first.

    Args:
        x1, x2: tensors; promoted to one numeric dtype.
        axes: how many of the last axes of `x1` meet the first of `x2`, or the axes of each, which
            meet in pairs.

    Raises:
        ShapeError: two axes that meet differ in size.

    >>> import ingle.tensor as it
    >>> it.tensordot(it.ones((2, 3, 5)), it.ones((3, 5, 7))).shape
    (2, 7)
    """
    a, b = handle_of(x1, "tensordot", "x1"), handle_of(x2, "tensordot", "x2")
    left, right = _meeting(axes, len(a.shape), len(b.shape))
    inner = tuple(a.shape[i] for i in left)
    if inner != tuple(b.shape[i] for i in right):
        raise ShapeError(
            f"tensordot: axes {left} of {a.shape} and {right} of {b.shape} must have equal sizes"
        )
    rows = tuple(i for i in range(len(a.shape)) if i not in left)
    columns = tuple(i for i in range(len(b.shape)) if i not in right)
    outer_shape = (*(a.shape[i] for i in rows), *(b.shape[i] for i in columns))
    count = math.prod(inner)
    n, m = math.prod(a.shape[i] for i in rows), math.prod(b.shape[i] for i in columns)
    matrix1 = reshape(permute_dims(x1, (*rows, *left)), (n, count))
    matrix2 = reshape(permute_dims(x2, (*right, *columns)), (count, m))
    return reshape(matmul(matrix1, matrix2), outer_shape)


def _meeting(axes: Any, n1: int, n2: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if hasattr(axes, "__index__"):
        count = as_int(axes, "tensordot", "axes")
        if not 0 <= count <= min(n1, n2):
            raise AxisError(
                f"tensordot: axes must be at most the number of axes of x1 ({n1}) and x2 ({n2}), "
                f"got {count}"
            )
        return tuple(range(n1 - count, n1)), tuple(range(count))
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise AxisError(f"tensordot: axes must be a number or a pair of sequences, got {axes!r}")
    found = []
    for of, n in zip(axes, (n1, n2), strict=True):
        if not isinstance(of, (list, tuple)):
            raise AxisError(f"tensordot: axes must be a pair of sequences, got {axes!r:.60}")
        normalize_axes(tuple(of), n, "tensordot", "axes")
        found.append(tuple(as_int(i, "tensordot", "axes") % n for i in of))
    if len(found[0]) != len(found[1]):
        raise AxisError(f"tensordot: axes={axes!r} must name as many axes of x1 as of x2")
    return found[0], found[1]


@guarded
def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The dot products of vectors along an axis, `sum(conj(x1) * x2)`; other axes broadcast.

    Args:
        x1, x2: tensors; promoted to one numeric dtype.
        axis: of the vectors, counted from the end: -1 is the last axis of each.

    Raises:
        ShapeError: the vectors differ in size.

    >>> import ingle.tensor as it
    >>> it.vecdot(it.asarray([1, 2]), it.asarray([[3, 4], [5, 6]])).tolist()
    [11, 17]
    """
    a, b = promote("vecdot", ("x1", x1), ("x2", x2))
    if a.dtype.kind not in NUMERIC:
        raise DTypeError(f"vecdot: x1 must be numbers, got {a.dtype}; cast with x.astype(...)")
    ndim = max(len(a.shape), len(b.shape))
    place = normalize_axis(axis, min(len(a.shape), len(b.shape)), "vecdot")
    back = place - min(len(a.shape), len(b.shape)) if axis < 0 else axis - ndim
    if a.shape[back] != b.shape[back]:
        raise ShapeError(
            f"vecdot: vectors along axis {axis} of {a.shape} and {b.shape} differ in size"
        )
    products = conj(wrap(a)) * wrap(b)  # type: ignore[arg-type]
    return reduce_sum(products, axis=back, dtype=a.dtype)


@guarded
def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The product of each element of one vector with each of another.

    Args:
        x1, x2: (m,) and (n,).

    Raises:
        ShapeError: an operand has another number of axes than one.

    >>> import ingle.tensor as it
    >>> it.outer(it.asarray([1, 2]), it.asarray([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = handle_of(x1, "outer", "x1"), handle_of(x2, "outer", "x2")
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(f"outer: x1 and x2 must have one axis, got {a.shape} and {b.shape}")
    return multiply(reshape(x1, (a.shape[0], 1)), x2)
