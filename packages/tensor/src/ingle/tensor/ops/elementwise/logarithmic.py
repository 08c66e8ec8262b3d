"""Logarithms with something around them: xlogy and logit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, TensorLike, as_floating, call2_floating, run1, wrap
from .._families import binary, unary
from .._guarding import guarded
from .exponential import log, log1p
from .extrema import clip
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def xlogy(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1 * log(x2)`, and 0 where `x1` is 0, unless `x2` is NaN.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.

    >>> import ingle.tensor as it
    >>> it.xlogy(it.asarray([0.0, 2.0]), it.asarray([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    return call2_floating(_XLOGY, x1, x2)


def _log(x: Any) -> Any:
    if not isinstance(x, (int, float)):
        return log(x)
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _xlogy(x1: Any, x2: Any) -> Tensor:
    zero = (x2 == x2) & (x1 == 0)
    return where(zero, 0, x1 * _log(x2))


def _by_factor(g: Tensor, x1: Tensor, x2: Any) -> Tensor:
    if isinstance(x2, (int, float)):
        return where(x1 == 0, 0, g * _log(x2)) if x2 <= 0 else g * _log(x2)
    still = (x1 == 0) & (x2 <= 0)
    return where(still, 0, g * log(where(still, 1, x2)))


def _by_number(g: Tensor, x1: Any, x2: Tensor) -> Tensor:
    still = (x2 == 0) & (x1 == 0)
    return where(still, 0, g * (x1 / where(still, 1, x2)))


_XLOGY = binary(
    "xlogy",
    xlogy,
    vjp={"x1": _by_factor, "x2": _by_number},
    kinds=("float",),
    low=0.25,
    high=4.0,
    body=_xlogy,
    reference="scipy.special:xlogy",
    precision="high",
    condition=2,
).op()


@guarded
def logit(x: TensorLike, /, eps: float | None = None) -> Tensor:
    """`log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN beyond.

    Args:
        x: shares in [0, 1]; integers are cast to the default float dtype.
        eps: keeps the shares in [eps, 1 - eps] first, with a gradient of 0 beyond.

    >>> import ingle.tensor as it
    >>> it.logit(it.asarray([0.5, 0.0])).tolist()
    [0.0, -inf]
    """
    handle = as_floating(x, "logit")
    if eps is not None:
        handle = clip(wrap(handle), float(eps), 1 - float(eps))._handle
    return run1(_LOGIT, handle)


def _logit(x: Tensor) -> Tensor:
    """`log1p((1 - 2 m) / m)` for the smaller m of x and 1 - x: both differences are exact where
    they are small, so that no digits are lost around 1/2."""
    upper = x > 0.5
    least = where(upper, 1 - x, x) + 0.0  # of -0.0, too, the quotient is inf
    size = log1p((1 - least * 2) / least)
    return where(x < 0.5, -size, size)


def _logit_reference(x: Any) -> Any:
    from scipy.special import logit as oracle

    return oracle(x)


_LOGIT = unary(
    "logit",
    logit,
    vjp=lambda g, x: where((x < 0) | (x > 1), math.nan, g / (x * (1 - x))),
    kinds=("float",),
    domain=(0.05, 0.95),
    body=_logit,
    reference=lambda x, eps=None: _logit_reference(x if eps is None else np.clip(x, eps, 1 - eps)),
    precision="high",
    condition=4,
).op()
