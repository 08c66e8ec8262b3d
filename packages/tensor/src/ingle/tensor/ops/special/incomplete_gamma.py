"""The regularized incomplete gamma functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, call2_floating
from ...errors import GradientError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import elementwise_rule

if TYPE_CHECKING:
    from ...tensor import Tensor


Rules = Mapping[str | tuple[str, ...], Callable[..., Any]]
"""Gradient rules by the names of inputs."""


def _density(x1: Any, x2: Any, like: Tensor) -> Tensor:
    """The density of the gamma distribution of shape `x1` at `x2`."""
    from ..elementwise.exponential import exp
    from ..elementwise.logarithmic import xlogy
    from .gamma_functions import lgamma

    shape = _as_tensor(x1, like)
    return exp(xlogy(shape - 1, x2) - x2 - lgamma(shape))


def _as_tensor(x: Any, like: Tensor) -> Tensor:
    from ..creation.filled import full

    if isinstance(x, (bool, int, float)):
        return full((), x, dtype=like.dtype, device=like.device)
    return x  # type: ignore[no-any-return]


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for a, b in (((17,), (17,)), ((3, 1), (5,)), ((), (0,))):
            x1, x2 = draw.array(a, low=0.3, high=9), draw.array(b, low=0.1, high=12)
            # There is no second derivative by x1; the first has samples of its own.
            yield Sample((x1, x2), gradient=(1,), condition=64)


def _operation(name: str, public: Callable[..., Any], vjp: Rules, reference: Any) -> Any:
    return Operation(
        name,
        tensors=("x1", "x2"),
        rule=elementwise_rule(name, ("float",)),
        # All take as many steps as their series need, so that they are kernels and not bodies.
        traits=Traits("elementwise", precision="high", bound="compute"),
        vjp=vjp,
        public=public,
        samples=_samples,
        reference=reference,
    ).op()


def _rules(sign: int) -> Rules:
    return {
        "x1": lambda g, x1, x2: g * _by_shape(x1, x2) * sign,
        "x2": lambda g, x1, x2, out: g * _density(x1, x2, out) * sign,
    }


def igamma(x1: Operand, x2: Operand, /) -> Tensor:
    """The integral of `t**(x1 - 1) * exp(-t)` from 0 to `x2`, divided by `gamma(x1)`.

    It is the share of a gamma distribution of shape `x1` below `x2`; NaN for negative numbers.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.
            The first derivative by `x1` has none by `x1` in turn.

    >>> import ingle.tensor as it
    >>> it.igamma(it.asarray([1.0, 1.0]), it.asarray([0.0, float("inf")])).tolist()
    [0.0, 1.0]
    """
    return call2_floating(_IGAMMA, x1, x2)


_IGAMMA = _operation("igamma", igamma, _rules(1), "scipy.special:gammainc")


def igammac(x1: Operand, x2: Operand, /) -> Tensor:
    """`1 - igamma(x1, x2)`, exact to the last places where that is small.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.
            The first derivative by `x1` has none by `x1` in turn.

    >>> import ingle.tensor as it
    >>> it.igammac(it.asarray([1.0, 1.0]), it.asarray([0.0, float("inf")])).tolist()
    [1.0, 0.0]
    """
    return call2_floating(_IGAMMAC, x1, x2)


_IGAMMAC = _operation("igammac", igammac, _rules(-1), "scipy.special:gammaincc")


def _by_shape(x1: Operand, x2: Operand) -> Tensor:
    """The derivative of `igamma` by `x1`."""
    return call2_floating(_IGAMMA_BY_SHAPE, x1, x2)


def _again_by_shape(g: Tensor) -> Tensor:
    raise GradientError(
        "igamma: there is no second derivative by x1, the shape of the distribution; detach() x1 "
        "if it should count as a constant"
    )


def _mixed(g: Tensor, x1: Any, x2: Any, out: Tensor) -> Tensor:
    """The density's derivative by the shape."""
    from ..elementwise.exponential import log
    from .gamma_functions import digamma

    return g * _density(x1, x2, out) * (log(_as_tensor(x2, out)) - digamma(_as_tensor(x1, out)))


def _slope_reference(a: Any, x: Any) -> Any:
    """The integral of the density's derivative by the shape over log(t), up to x or from there on.

    Gauss' rule on short pieces; the side is chosen where the integrand has mostly one sign.
    """
    from scipy import special

    a, x = np.broadcast_arrays(a, x)
    known = (a >= 0) & (x >= 0) & ~((a == 0) & (x == 0))
    inside = known & (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    edges = np.where(known, np.where(a == 0, -special.exp1(np.where(known, x, 1.0)), 0.0), np.nan)
    a, x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    middles = np.arange(200)[:, None] + 0.5
    lower = x < a
    # Below, e**(a u) vanishes slowly for small a; above, exp(-e**u) is 0 some steps from log(x).
    reach = np.where(lower, 40.0 / np.minimum(a, 1.0), 8.0)
    steps = (middles + nodes / 2).ravel() / 200
    u = np.log(x) + np.where(lower, -1, 1) * np.multiply.outer(steps, reach)
    density = np.exp(a * u - np.exp(u) - special.gammaln(a)) * (u - special.digamma(a))
    total = np.tensordot(np.tile(weights, 200) / 400, density, axes=1) * reach
    return np.where(inside, np.where(lower, total, -total), edges)


_IGAMMA_BY_SHAPE = _operation(
    "igamma_by_shape",
    _by_shape,
    {"x1": _again_by_shape, "x2": _mixed},
    _slope_reference,
)
