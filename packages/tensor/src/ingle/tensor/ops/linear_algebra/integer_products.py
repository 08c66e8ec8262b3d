"""Products of matrices of bytes, summed exactly in int32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run2
from ...dtypes import float32, int8, int32, uint8
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import broadcast_shapes
from ..elementwise.cast import astype
from ..movement.slicing import slice_axis
from .products import matmul

if TYPE_CHECKING:
    from ...tensor import Tensor

EXACT = 1 << 24
"""Up to here float32 holds every integer."""
_LARGEST = {int8: 128, uint8: 255}


def matmul_integer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The matrix product of int8 or uint8 tensors in int32, exact; leading axes broadcast.

    What quantized layers are made of. A backend with instructions for it has a kernel of its own;
    elsewhere the sums are computed in float32, as many terms at a time as it holds exactly.

    Args:
        x1: (..., m, k), int8 or uint8.
        x2: (..., k, n), int8 or uint8.

    Returns:
        (..., m, n) in int32.

    Raises:
        DTypeError: an operand is neither int8 nor uint8.
        ShapeError: an operand has less than two axes, or the inner sizes differ.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[100, -128]], dtype="int8")
    >>> it.matmul_integer(x, it.asarray([[100], [127]], dtype="int8")).tolist()
    [[-6256]]
    """
    a = handle_of(x1, "matmul_integer", "x1")
    return run2(MATMUL_INTEGER, a, handle_of(x2, "matmul_integer", "x2"))


def _rule(x1: Aval, x2: Aval) -> Aval:
    for name, x in (("x1", x1), ("x2", x2)):
        if x.dtype not in _LARGEST:
            raise DTypeError(
                f"matmul_integer: {name} must be int8 or uint8, got {x.dtype}; matmul takes others"
            )
    if len(x1.shape) < 2 or len(x2.shape) < 2:
        raise ShapeError(
            f"matmul_integer: x1 and x2 need at least two axes, got {x1.shape} and {x2.shape}; "
            "reshape a vector to (1, n) or (n, 1)"
        )
    if x1.shape[-1] != x2.shape[-2]:
        raise ShapeError(
            f"matmul_integer: inner sizes differ: {x1.shape} @ {x2.shape} needs "
            f"{x1.shape[-1]} == {x2.shape[-2]} (last axis of x1, second last of x2)"
        )
    lead = broadcast_shapes("matmul_integer", x1.shape[:-2], x2.shape[:-2], arguments=("x1", "x2"))
    return Aval((*lead, x1.shape[-2], x2.shape[-1]), int32)


def _body(x1: Tensor, x2: Tensor) -> Tensor:
    most = EXACT // (_LARGEST[x1.dtype] * _LARGEST[x2.dtype])
    inner = x1.shape[-1]
    a, b = astype(x1, float32), astype(x2, float32)
    total = None
    for start in range(0, max(inner, 1), most):
        size = min(most, inner - start)
        part = a, b
        if size < inner:
            part = slice_axis(a, -1, start, size), slice_axis(b, -2, start, size)
        product = astype(matmul(*part), int32)
        total = product if total is None else total + product
    assert total is not None
    return total


def _samples(draw: Draw) -> Iterator[Sample]:
    for a, b, one, other in (
        ((2, 3), (3, 5), int8, int8),
        ((17, 33), (33, 8), uint8, int8),
        ((3, 1, 2, 5), (2, 5, 3), int8, uint8),
        ((0, 3), (3, 2), int8, int8),
        ((2, 0), (0, 3), int8, int8),
        ((2, 1100), (1100, 3), int8, int8),
        ((2, 600), (600, 2), uint8, uint8),
    ):
        x = draw.array(a, low=-128, high=256 if one is uint8 else 128, dtype=one)
        y = draw.array(b, low=-128, high=256 if other is uint8 else 128, dtype=other)
        yield Sample((x, y), gradient=False, exact=True)


def _reference(x1: Any, x2: Any) -> Any:
    return np.matmul(np.asarray(x1, np.int64), np.asarray(x2, np.int64)).astype(np.int32)


MATMUL_INTEGER = Operation(
    "matmul_integer",
    tensors=("x1", "x2"),
    rule=_rule,
    traits=Traits("contraction", family="bytes", bound="compute", exactly_rounded=True),
    vjp={},
    body=_body,
    public=matmul_integer,
    samples=_samples,
    reference=_reference,
).op()
