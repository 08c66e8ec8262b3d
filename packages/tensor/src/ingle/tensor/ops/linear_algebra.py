"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..contract import Aval
from ..dispatch import TensorLike, handle_of, promote, run2
from ..errors import DTypeError, ShapeError
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import NUMERIC, broadcast_shapes, conj, sum_to

if TYPE_CHECKING:
    from ..tensor import Tensor


def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The matrix product over the last two axes; leading axes broadcast.

    A 1-d operand counts as a row (left) or column (right) and its axis is dropped again.

    Raises:
        ShapeError: an operand is 0-d, or the inner sizes differ.

    >>> import ingle.tensor as it
    >>> it.matmul(it.ones((2, 3)), it.ones((3,))).tolist()
    [3.0, 3.0]
    """
    from .manipulation import reshape

    a, b = handle_of(x1, "matmul", "x1"), handle_of(x2, "matmul", "x2")
    if not a.shape or not b.shape:
        raise ShapeError(
            f"matmul: needs at least one axis each, got {a.shape} and {b.shape}; "
            "multiply by a number with *"
        )
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if not row and not column:
        return run2(_MATMUL, *promote("matmul", ("x1", x1), ("x2", x2)))
    left = reshape(x1, (1, *a.shape)) if row else x1
    right = reshape(x2, (*b.shape, 1)) if column else x2
    out = run2(_MATMUL, *promote("matmul", ("x1", left), ("x2", right)))
    drop = {-2} if row else set()
    drop |= {-1} if column else set()
    return reshape(out, tuple(n for i, n in enumerate(out.shape) if i - out.ndim not in drop))


def _rule(x1: Aval, x2: Aval) -> Aval:
    if x1.dtype.kind not in NUMERIC:
        raise DTypeError(f"matmul: needs numbers, got {x1.dtype}; cast first with x.astype(...)")
    if x1.shape[-1] != x2.shape[-2]:
        raise ShapeError(
            f"matmul: inner sizes differ: {x1.shape} @ {x2.shape} needs "
            f"{x1.shape[-1]} == {x2.shape[-2]} (last axis of x1, second last of x2)"
        )
    lead = broadcast_shapes("matmul", x1.shape[:-2], x2.shape[:-2])
    return Aval((*lead, x1.shape[-2], x2.shape[-1]), x1.dtype)


def _left(g: Tensor, x2: Tensor, x1_aval: Aval) -> Tensor:
    return sum_to(g @ conj(x2).mT, x1_aval.shape)


def _right(g: Tensor, x1: Tensor, x2_aval: Aval) -> Tensor:
    if len(x2_aval.shape) == 2 and g.ndim > 2:
        # One product over all leading axes instead of a batch of them and a sum.
        from .manipulation import reshape

        flat = reshape(x1, (-1, x1.shape[-1])) if x1.size else x1.reshape((0, x1.shape[-1]))
        return conj(flat).mT @ reshape(g, (flat.shape[0], g.shape[-1]))
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
    public=matmul,
    samples=_samples,
    reference=np.matmul,
).op()
