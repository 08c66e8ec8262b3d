"""The regularized incomplete gamma functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..dispatch import Operand, call2_floating
from ..errors import GradientError
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import elementwise_rule

if TYPE_CHECKING:
    from ..tensor import Tensor


def igamma(x1: Operand, x2: Operand, /) -> Tensor:
    """The integral of `t**(x1 - 1) * exp(-t)` from 0 to `x2`, divided by `gamma(x1)`.

    It is the share of a gamma distribution of shape `x1` below `x2`; NaN for negative numbers.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.
            There is a gradient by `x2` only.

    >>> import ingle.tensor as it
    >>> it.igamma(it.asarray([1.0, 1.0]), it.asarray([0.0, float("inf")])).tolist()
    [0.0, 1.0]
    """
    return call2_floating(_IGAMMA, x1, x2)


def igammac(x1: Operand, x2: Operand, /) -> Tensor:
    """`1 - igamma(x1, x2)`, exact to the last places where that is small.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one float dtype.
            There is a gradient by `x2` only.

    >>> import ingle.tensor as it
    >>> it.igammac(it.asarray([1.0, 1.0]), it.asarray([0.0, float("inf")])).tolist()
    [1.0, 0.0]
    """
    return call2_floating(_IGAMMAC, x1, x2)


def _density(x1: Any, x2: Any, like: Tensor) -> Tensor:
    """The density of the gamma distribution of shape `x1` at `x2`."""
    from .creation import full
    from .exponential import exp
    from .gamma_functions import lgamma
    from .logarithmic import xlogy

    if isinstance(x1, (bool, int, float)):
        x1 = full((), x1, dtype=like.dtype, device=like.device)
    return exp(xlogy(x1 - 1, x2) - x2 - lgamma(x1))


def _by_shape(name: str) -> Callable[..., Tensor]:
    def refuse(g: Tensor) -> Tensor:
        raise GradientError(
            f"{name}: there is no gradient by x1, the shape of the distribution, only by x2; "
            "detach() x1 if it should count as a constant"
        )

    return refuse


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for a, b in (((17,), (17,)), ((3, 1), (5,)), ((), (0,))):
            x1, x2 = draw.array(a, low=0.3, high=9), draw.array(b, low=0.1, high=12)
            yield Sample((x1, x2), gradient=(1,), condition=64)


def _operation(name: str, public: Callable[..., Any], sign: int, reference: str) -> Any:
    return Operation(
        name,
        tensors=("x1", "x2"),
        rule=elementwise_rule(name, ("float",)),
        # Both take as many steps as their series need, so that they are kernels and not bodies.
        traits=Traits("elementwise", precision="high", bound="compute"),
        vjp={
            "x1": _by_shape(name),
            "x2": lambda g, x1, x2, out: g * _density(x1, x2, out) * sign,
        },
        public=public,
        samples=_samples,
        reference=reference,
    ).op()


_IGAMMA = _operation("igamma", igamma, 1, "scipy.special:gammainc")
_IGAMMAC = _operation("igammac", igammac, -1, "scipy.special:gammaincc")
