"""Products of matrices and what is built on them."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Tensor

from ..registry import operator
from .arithmetic import placed


@operator("MatMul")
def matmul(x: Tensor, y: Tensor) -> Tensor:
    return it.matmul(x, y)


@operator("Gemm", 7)
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,  # noqa: N803
) -> Tensor:  # fmt: skip
    """`alpha` times the product of two matrices, either transposed, plus `beta` times `c`."""
    plain = alpha == 1 and beta == 1 and transB and not transA
    if plain and c is not None and tuple(c.shape) == (b.shape[0],):
        return it.linear(a, b, c)
    product = it.matmul(a.mT if transA else a, b.mT if transB else b)
    product = product if alpha == 1 else product * _number(alpha, product)
    if c is None:
        return product
    return product + (c if beta == 1 else c * _number(beta, c))


def _number(value: float, beside: Tensor) -> float:
    return int(value) if beside.dtype.is_integer else value


@operator("Gemm", 1)
def gemm_before_7(
    a: Tensor, b: Tensor, c: Tensor, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0,
    transA: int = 0, transB: int = 0,  # noqa: N803
) -> Tensor:  # fmt: skip
    return gemm(
        a,
        b,
        placed(c, 2, -1) if broadcast else c,
        alpha=alpha,
        beta=beta,
        transA=transA,
        transB=transB,
    )


@operator("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return it.einsum(equation.replace(" ", ""), *xs)


@operator("Det")
def det(x: Tensor) -> Tensor:
    return it.linalg.det(x)


@operator("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """The product of eight-bit integers in int32; each may have a zero of its own."""
    return it.matmul(shifted(a, a_zero, -1), shifted(b, b_zero, -2))


def shifted(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """In int32, less what stands for zero; one for each row or column is put at `axis`."""
    wide = x.astype(it.int32)
    if zero is None:
        return wide
    zero = zero.astype(it.int32)
    if zero.ndim == 1 and zero.shape[0] > 1:
        zero = it.expand_dims(zero, axis) if axis == -1 else zero
    return wide - zero
