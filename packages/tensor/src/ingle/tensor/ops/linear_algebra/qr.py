"""The decomposition of a matrix into an orthogonal and a triangular one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, run
from ...errors import ArgumentError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from ..creation.filled import zeros, zeros_like
from ..movement.joining import concat
from ..movement.slicing import slice_axis
from ._matrices import (
    DECOMPOSITION,
    adjoint,
    beside,
    check_dtype,
    lower_half,
    matrices,
    sample_matrix,
)
from .linear_systems import solve

if TYPE_CHECKING:
    from ...tensor import Tensor


class QR(NamedTuple):
    """`x == Q @ R`, with orthonormal columns in `Q` and zeros below the diagonal of `R`.

    Of `mode="r"`, `Q` is empty.
    """

    Q: Tensor
    R: Tensor


@guarded
def qr(x: TensorLike, /, *, mode: str = "reduced") -> QR:
    """`x` as the product of `Q`, which has orthonormal columns, and the upper triangular `R`.

    The signs (phases) of the columns of `Q` and the rows of `R` are the library's choice.

    Args:
        x: matrices of shape `(..., m, n)`, of full rank if there are to be gradients.
        mode: `"reduced"` for `Q` with min(m, n) columns, `"complete"` for m columns. The further
            columns are arbitrary but for the space that they span: gradients are right for what
            depends on nothing else of them, such as `q2 @ conj(q2).mT`. `"r"` for `R` alone, as of
            `"reduced"`, beside a `Q` without elements.

    Raises:
        ArgumentError: another `mode`.

    >>> import ingle.tensor as it
    >>> q, r = it.linalg.qr(it.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> [round(v, 5) for v in it.abs(r)[0].tolist()]
    [5.0, 2.2]
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr: mode={mode!r} must be 'reduced', 'complete' or 'r'")
    if mode == "r":
        r = run(_QR.op(mode="reduced"), (matrices("qr", x),))[1]
        return QR(zeros((0,), dtype=r.dtype, device=r.device), r)
    return QR(*run(_QR.op(mode=mode), (matrices("qr", x),)))


def _rule(x: Aval, *, mode: str) -> tuple[Aval, Aval]:
    check_dtype("qr", x)
    *lead, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return Aval((*lead, m, k), x.dtype), Aval((*lead, k, n), x.dtype)


def _vjp(g: tuple[Any, Any], q: Tensor, r: Tensor, x: Tensor, mode: str) -> Tensor:
    m, n = x.shape[-2:]
    gq = zeros_like(q) if g[0] is None else g[0]
    gr = zeros_like(r) if g[1] is None else g[1]
    if mode == "complete" and m > n:
        gq, q = beside(gq, q, n)
        r, gr = slice_axis(r, -2, 0, n), slice_axis(gr, -2, 0, n)
    if m >= n:
        return _tall(gq, gr, q, r)
    # Of x = [x1 x2] the square x1 gives q, and the rest of r is adjoint(q) @ x2.
    r1, g1 = slice_axis(r, -1, 0, m), slice_axis(gr, -1, 0, m)
    x2, g2 = slice_axis(x, -1, m, n - m), slice_axis(gr, -1, m, n - m)
    return concat([_tall(gq + x2 @ adjoint(g2), g1, q, r1), q @ g2], axis=-1)


def _tall(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2013)."""
    half = lower_half(r @ adjoint(gr) - adjoint(gq) @ q)
    return adjoint(solve(r, adjoint(gq + q @ (half + adjoint(half)))))


def _unsigned(q: Any, r: Any) -> tuple[Any, Any]:
    # Signs cancel in the product, and in that of the first column with the first row.
    return q @ r, q[..., :, :1] @ r[..., :1, :]


def _squared(q: Any, r: Any) -> Any:
    return r.conj().mT @ r


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in map(draw.shape, ((5, 3), (3, 3), (2, 3, 5), (1, 2), (3, 0))):
        yield Sample(
            (sample_matrix(draw, shape),), condition=32, magnitude=1.0,
            view=_unsigned if shape[-1] else None,
        )  # fmt: skip
    yield Sample(
        (sample_matrix(draw, (5, 3)),), {"mode": "complete"}, condition=32,
        magnitude=1.0, view=_unsigned,
    )  # fmt: skip
    yield Sample(
        (sample_matrix(draw, (3, 2)),), {"mode": "r"}, condition=32, magnitude=4.0, view=_squared
    )


def _reference(x: Any, mode: str = "reduced") -> Any:
    found = np.linalg.qr(x, mode=mode)  # type: ignore[call-overload]
    return (np.zeros(0, x.dtype), found) if mode == "r" else found


_QR = Operation(
    "qr",
    tensors=("x",),
    statics=("mode",),
    outputs=("q", "r"),
    rule=_rule,
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    batch=(),
    public=qr,
    samples=_samples,
    reference=_reference,
)
