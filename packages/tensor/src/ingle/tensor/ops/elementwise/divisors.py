"""Greatest common divisors and least common multiples of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import Operand, call2
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import elementwise_rule

if TYPE_CHECKING:
    from ...tensor import Tensor


def _samples(draw: Draw) -> Iterator[Sample]:
    for a, b in (((17,), (17,)), ((5, 1), (3,)), ((0, 3), ())):
        yield Sample((draw.array(a, low=-12, high=13), draw.array(b, low=-12, high=13)))
    if draw.dtype.is_integer:
        yield Sample((draw.array((8,), low=-12, high=13), 6))


def _operation(name: str, public: Callable[..., Any], reference: Any) -> Operation:
    # Euclid's algorithm has no fixed number of steps, so it is a kernel and not a body.
    return Operation(
        name,
        tensors=("x1", "x2"),
        rule=elementwise_rule(name, ("unsigned", "signed")),
        traits=Traits("elementwise"),
        vjp={},
        public=public,
        samples=_samples,
        reference=reference,
    )


def gcd(x1: Operand, x2: Operand, /) -> Tensor:
    """The greatest common divisor of each pair of integers, not negative; that of 0 and 0 is 0.

    Args:
        x1, x2: integer tensors that broadcast, or one of them a number; promoted to one dtype.

    >>> import ingle.tensor as it
    >>> it.gcd(it.asarray([12, -9, 0]), 6).tolist()
    [6, 3, 6]
    """
    return call2(_GCD, x1, x2)


_GCD = _operation("gcd", gcd, np.gcd).op()


def lcm(x1: Operand, x2: Operand, /) -> Tensor:
    """The least common multiple of each pair of integers, not negative; that of 0 is 0.

    Args:
        x1, x2: integer tensors that broadcast, or one of them a number; promoted to one dtype,
            in which a multiple that does not fit wraps.

    >>> import ingle.tensor as it
    >>> it.lcm(it.asarray([4, -9, 0]), 6).tolist()
    [12, 18, 0]
    """
    return call2(_LCM, x1, x2)


_LCM = _operation("lcm", lcm, np.lcm).op()
