"""Decompositions and systems of equations, by cuSOLVER and cuBLAS.

What these cannot solve is left to the host, which finds it out again and says so in its words: a
matrix that is singular or not positive definite, and NaN or infinities, where they answer with NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ingle.tensor.operation import Op

_MOST_AT_ONCE = 32
"""Rows of matrices up to which singular values of many are found by one kernel."""
_WORTH_IT = 128
"""Rows of a matrix from which on a GPU decomposes it sooner than the host. Measured on an H100."""


class UnsolvedError(Exception):
    """The library has no answer; the host says why."""


def _finite(xp: Any, *arrays: Any) -> None:
    for x in arrays:
        if not bool(xp.isfinite(x).all()):
            raise UnsolvedError


def _solved(function: Callable[..., Any]) -> Callable[..., Any]:
    """A call that raises `UnsolvedError` where the library reports that it failed."""

    def call(xp: Any, op: Op, *arrays: Any) -> Any:
        _finite(xp, *arrays)
        try:
            return function(xp, *arrays, **op.attributes)
        except xp.linalg.LinAlgError as error:
            raise UnsolvedError from error

    return call


def _named(name: str) -> Callable[..., Any]:
    """CuPy's function of a name, with the operation's attributes as its arguments."""

    def function(xp: Any, x: Any, **attributes: Any) -> Any:
        return getattr(xp.linalg, name)(x, **attributes)

    return function


def _qr(xp: Any, x: Any, mode: str) -> Any:
    found = xp.linalg.qr(x, mode=mode)
    return (xp.zeros(0, x.dtype), found) if mode == "r" else tuple(found)


def _singular_values(xp: Any, x: Any) -> Any:
    return xp.linalg.svd(x, compute_uv=False)


def _solve(xp: Any, x1: Any, x2: Any) -> Any:
    if x2.ndim == 1:
        return xp.linalg.solve(x1, x2[:, None])[..., 0]
    batch = xp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1 = xp.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    x2 = xp.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    return xp.linalg.solve(x1, x2)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: _solved(_named(name)) for name in ("cholesky", "eigh", "inv", "slogdet", "svd")},
    "qr": _solved(_qr),
    "solve": _solved(_solve),
    "svdvals": _solved(_singular_values),
}
"""Each takes CuPy, the operation and matrices."""


def pays(name: str, shape: tuple[int, ...]) -> bool:
    """Whether the library is quicker than the host: some decompose one matrix after the other.

    >>> pays("qr", (1000, 4, 4)), pays("qr", (256, 256)), pays("svd", (1000, 4, 4))
    (False, True, True)
    """
    rows = min(shape[-2:])
    if name == "qr":
        return rows >= _WORTH_IT
    if name in ("svd", "svdvals"):
        alone = math.prod(shape[:-2]) == 1
        return max(shape[-2:]) <= _MOST_AT_ONCE or (alone and rows >= _WORTH_IT)
    return True
