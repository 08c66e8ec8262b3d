"""Continuous distributions beyond the uniform and the normal one.

All are made of uniform and normal floats by IEEE arithmetic, so that they are equal on every
backend; only the sum that `dirichlet` divides by may differ in its last bit. Half types are drawn
as float32 and rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..contract import Shape
from ..device import Device
from ..dispatch import TensorLike, handle_of, wrap
from ..dtypes import DType, float64
from ..errors import ArgumentError, ShapeError
from ..ops._rules import as_shape, check_numbers
from ..ops.random.bits import Place, blocks
from ..ops.random.normal import polynomial_log as log
from ..ops.random.uniform import words_of
from ..tensor import Tensor
from ._elementary import (
    Parameter,
    exp,
    float_dtype,
    open_uniform,
    parameters,
    wide_dtype,
)
from ._places import AnyPlace, drawn_together, uniform_inside
from ._rejection import may_hold, reserved, until_accepted
from .basic import Shape as ShapeLike
from .basic import normal
from .generator import Generator, draws_from


def exponential(
    shape: ShapeLike = (),
    rate: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Waiting times for what happens `rate` times in a unit of time.

    Args:
        shape: of the result.
        rate: one over the mean.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> bool((it.random.exponential(100) >= 0).all())
    True
    """
    _positive("exponential", rate=rate)
    to, size = float_dtype("exponential", dtype), as_shape(shape, "exponential")
    return (_waiting(size, wide_dtype(to), device, generator) * (1.0 / rate)).astype(to)


def laplace(
    shape: ShapeLike = (),
    loc: float = 0.0,
    scale: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats with the density `exp(-|x - loc| / scale) / (2 * scale)`.

    Args:
        shape: of the result.
        loc, scale: the mean, and the mean distance from it.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> it.random.laplace((2, 3)).shape
    (2, 3)
    """
    check_numbers("laplace", loc=loc)
    _positive("laplace", scale=scale)
    to, size = float_dtype("laplace", dtype), as_shape(shape, "laplace")
    first = _waiting(size, wide_dtype(to), device, generator)
    second = _waiting(size, wide_dtype(to), device, generator)
    return ((first - second) * float(scale) + float(loc)).astype(to)


def gumbel(
    shape: ShapeLike = (),
    loc: float = 0.0,
    scale: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """`loc - scale * log(-log(u))` for uniform u: what is left of the largest of many floats.

    Args:
        shape: of the result.
        loc, scale: the mode, and the width.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> it.random.gumbel((2, 3)).shape
    (2, 3)
    """
    check_numbers("gumbel", loc=loc)
    _positive("gumbel", scale=scale)
    to, size = float_dtype("gumbel", dtype), as_shape(shape, "gumbel")
    u = open_uniform(size, wide_dtype(to), device, generator)
    return (log(-log(u)) * -float(scale) + float(loc)).astype(to)


def cauchy(
    shape: ShapeLike = (),
    loc: float = 0.0,
    scale: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Quotients of two normal floats, times `scale`, plus `loc`: without mean or variance.

    Args:
        shape: of the result.
        loc, scale: the median, and the median distance from it.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> it.random.cauchy((2, 3)).shape
    (2, 3)
    """
    check_numbers("cauchy", loc=loc)
    _positive("cauchy", scale=scale)
    to, size = float_dtype("cauchy", dtype), as_shape(shape, "cauchy")
    over, under = (
        normal(size, dtype=wide_dtype(to), device=device, generator=generator) for _ in range(2)
    )
    return (over / under * float(scale) + float(loc)).astype(to)


def log_normal(
    shape: ShapeLike = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats whose logarithms are normally distributed.

    Args:
        shape: of the result.
        mean, std: of the logarithms.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> bool((it.random.log_normal(100) > 0).all())
    True
    """
    to = float_dtype("log_normal", dtype)
    wide = wide_dtype(to)
    return exp(normal(shape, mean, std, dtype=wide, device=device, generator=generator)).astype(to)


def gamma(
    concentration: Parameter,
    rate: Parameter = 1.0,
    shape: ShapeLike | None = None,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats with the density `x ** (concentration - 1) * exp(-rate * x)`, but for a factor.

    Marsaglia, Tsang: A simple method for generating gamma variables (2000). The result has no
    gradient by the parameters.

    Args:
        concentration, rate: positive numbers or tensors.
        shape: of the result; that to which the parameters broadcast if not given.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them, if the parameters are numbers.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> it.random.gamma(it.asarray([0.5, 5.0]), shape=(100, 2)).shape
    (100, 2)
    """
    to = float_dtype("gamma", dtype)
    given = ("concentration", concentration), ("rate", rate)
    _, (a, b) = parameters("gamma", shape, wide_dtype(to), device, *given)
    places = _places(a, generator)
    return drawn_together(_gamma, to, places, a, b, name="gamma")


def _gamma(dtype: DType, places: Sequence[AnyPlace], a: Tensor, b: Tensor) -> Tensor:
    return (exp(_log_gamma(a, *places)) / b).astype(dtype)


def beta(
    a: Parameter,
    b: Parameter,
    shape: ShapeLike | None = None,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats in [0, 1] with the density `x ** (a - 1) * (1 - x) ** (b - 1)`, but for a factor.

    Args:
        a, b: positive numbers or tensors.
        shape: of the result; that to which the parameters broadcast if not given.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them, if the parameters are numbers.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> x = it.random.beta(0.5, 0.5, 100)
    >>> bool(((x >= 0) & (x <= 1)).all())
    True
    """
    to = float_dtype("beta", dtype)
    _, (p, q) = parameters("beta", shape, wide_dtype(to), device, ("a", a), ("b", b))
    places = [*_places(p, generator), *_places(q, generator)]
    return drawn_together(_beta, to, places, p, q, name="beta")


def _beta(dtype: DType, places: Sequence[AnyPlace], p: Tensor, q: Tensor) -> Tensor:
    one, other = _log_gamma(p, *places[:2]), _log_gamma(q, *places[2:])
    return (1.0 / (exp(other - one) + 1.0)).astype(dtype)


def dirichlet(
    concentration: TensorLike | Sequence[float],
    shape: ShapeLike = (),
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Random distributions: positive floats that sum to 1 along the last axis.

    Args:
        concentration: positive, of at least one axis, of which the last is that of the
            distributions.
        shape: of the result before the shape of the concentration.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them, if the concentration is a sequence.
        generator: to draw from; the default generator if not given.

    Raises:
        ShapeError: `concentration` has no axes.

    >>> import ingle.tensor as it
    >>> it.random.dirichlet([1.0, 2.0, 3.0], (5,)).shape
    (5, 3)
    """
    to = float_dtype("dirichlet", dtype)
    if isinstance(concentration, (list, tuple)):
        concentration = ops.asarray(concentration, dtype=float64, device=device)
    weights = wrap(handle_of(concentration, "dirichlet", "concentration"))
    if not weights.ndim:
        raise ShapeError("dirichlet: concentration must have at least one axis, got a 0-d tensor")
    whole = (*as_shape(shape, "dirichlet"), *weights.shape)
    named = ("concentration", weights)
    size, (a,) = parameters("dirichlet", whole, wide_dtype(to), None, named)
    if not size[-1]:
        return ops.astype(a, to)
    return drawn_together(_dirichlet, to, _places(a, generator), a, name="dirichlet")


def _dirichlet(dtype: DType, places: Sequence[AnyPlace], a: Tensor) -> Tensor:
    logs = _log_gamma(a, *places)
    parts = exp(logs - ops.max(logs, axis=-1, keepdims=True))
    return (parts / ops.sum(parts, axis=-1, keepdims=True)).astype(dtype)


def _positive(name: str, **numbers: float) -> None:
    check_numbers(name, **numbers)
    for argument, value in numbers.items():
        if not value > 0:
            raise ArgumentError(f"{name}: {argument} must be positive, got {value}")


def _waiting(
    shape: Shape, dtype: DType, device: Device | str | None, generator: Generator | None
) -> Tensor:
    return -log(open_uniform(shape, dtype, device, generator))


_GAMMA = "normal", "uniform"
"""What an attempt at a gamma float draws."""


def _places(a: Tensor, generator: Generator | None) -> tuple[Place, Place]:
    """Where the numbers of gamma floats are: those of attempts, and of one float each."""
    attempts = reserved(generator, _GAMMA, a.shape, a.dtype)
    return attempts, draws_from("gamma", generator).draw(blocks(a.shape, words_of(a.dtype)))


def _log_gamma(a: Tensor, attempts: AnyPlace, place: AnyPlace) -> Tensor:
    """Logarithms of gamma floats of rate 1: those of small ones underflow to 0 themselves."""
    small = a < 1

    def attempt(x: Tensor, u: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        root = x / ops.sqrt(d * 9.0) + 1.0
        cube = ops.where(root > 0, root * root * root, 1)
        logs = log(cube)
        accepted = (root > 0) & (log(u) < x * x * 0.5 + d - d * cube + d * logs)
        return log(d) + logs, accepted

    # A gamma float of a + 1, times u ** (1 / a), is one of a.
    shifted = ops.where(small, a + 1.0, a) - 1 / 3
    out = until_accepted(attempt, _GAMMA, attempts, shifted)
    if not may_hold(small):
        return out
    u = uniform_inside(a.shape, a.dtype, place, a.device)
    return ops.where(small, out + log(u) / a, out)
