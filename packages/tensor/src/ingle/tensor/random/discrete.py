"""Counts and choices: Poisson numbers, classes, samples with and without replacement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops
from ..control import while_loop
from ..device import Device
from ..dispatch import TensorLike, as_floating, wrap
from ..dtypes import DType, as_dtype, default_int, float64, int64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops._checks_at_run import required
from ..ops._rules import as_int, as_shape, normalize_axis
from ..ops.random.bits import MASK, blocks
from ..ops.random.normal import polynomial_log as log
from ..ops.random.pairs import random_pairs
from ..ops.random.uniform import words_of
from ..tensor import Tensor
from ._elementary import Parameter, exp, parameters, wide_dtype
from ._places import AnyPlace, drawn_together, uniform_inside
from ._rejection import may_hold, reserved, until_accepted
from .basic import Shape as ShapeLike
from .continuous import gumbel
from .generator import Generator, draws_from

_LARGE = 10.0
"""The rate from which on Poisson numbers are drawn by rejection."""
_TOGETHER = 8
"""How many probabilities are added between two looks at whether all have found their number."""
_Carry = tuple[Tensor, Tensor, Tensor, Tensor]
_LOG_FACTORIALS = [math.lgamma(i + 1.0) for i in range(10)]
_STEPS = 1 << 31
"""Weights count in multiples of the largest one over this: sums of integers have no rounding."""


def poisson(
    rate: Parameter,
    shape: ShapeLike | None = None,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """How often something happens that happens `rate` times on average, independently.

    Hörmann: The transformed rejection method for generating Poisson random variables (1993);
    below a rate of 10 by adding up probabilities. Computed in float64.

    Args:
        rate: positive number or tensor.
        shape: of the result; that of the rate if not given.
        dtype: an integer or float dtype; the default integer dtype if not given.
        device: where to put them, if the rate is a number.
        generator: to draw from; the default generator if not given.

    Raises:
        DTypeError: `dtype` holds neither integers nor floats.

    >>> import ingle.tensor as it
    >>> it.random.poisson(3.0, (2, 3)).shape
    (2, 3)
    """
    to = default_int() if dtype is None else as_dtype(dtype)
    if not (to.is_integer or to.is_floating):
        raise DTypeError(f"poisson: dtype must be an integer or float dtype, got {to}")
    _, (mean,) = parameters("poisson", shape, float64, device, ("rate", rate))
    place = draws_from("poisson", generator).draw(blocks(mean.shape, words_of(float64)))
    attempts = reserved(generator, _ATTEMPT, mean.shape, float64)
    table = ops.asarray(_LOG_FACTORIALS, dtype=float64, device=mean.device)
    return drawn_together(_poisson, to, (place, attempts), mean, table, name="poisson")


def _poisson(dtype: DType, places: Sequence[AnyPlace], mean: Tensor, table: Tensor) -> Tensor:
    place, attempts = places
    large = mean >= _LARGE
    out = ops.zeros(mean.shape, dtype=float64, device=mean.device)
    if may_hold(~large):
        out = _by_addition(ops.where(large, 1, mean), place)
    if may_hold(large):
        out = ops.where(large, _by_rejection(mean, large, attempts, table), out)
    return out.astype(dtype)


def categorical(
    logits: TensorLike,
    shape: ShapeLike = (),
    *,
    axis: int = -1,
    generator: Generator | None = None,
) -> Tensor:
    """Class numbers with the probabilities `softmax(logits)`.

    One is where the logits plus `gumbel` noise are largest. Several independent ones are searched
    in the running sum of the probabilities, as in `multinomial`.

    Args:
        logits: real numbers, -inf for a class that never comes.
        shape: of independent draws, before the shape of the logits without their classes.
        axis: of the classes.
        generator: to draw from; the default generator if not given.

    Returns:
        The default integer dtype.

    Raises:
        ShapeError: `logits` are not real, or of no class.

    >>> import ingle.tensor as it
    >>> it.random.categorical(it.asarray([float("-inf"), 0.0]), 3).tolist()
    [1, 1, 1]
    """
    scores = wrap(as_floating(logits, "categorical", "logits")).detach()
    place = normalize_axis(axis, scores.ndim, "categorical")
    if not scores.dtype.is_floating or not scores.shape[place]:
        raise ShapeError(
            f"categorical: logits must be real and of at least one class, got {scores.dtype} of "
            f"shape {scores.shape}"
        )
    wide, lead = wide_dtype(scores.dtype), as_shape(shape, "categorical")
    count = math.prod(lead)
    last = ops.moveaxis(scores.astype(wide), place, -1)
    if count < 2 or not last.size:
        noise = gumbel(
            (*lead, *last.shape), dtype=wide, device=scores.device, generator=generator
        )  # fmt: skip
        return ops.argmax(last + noise, axis=-1)
    top = ops.max(last, axis=-1, keepdims=True)
    # Infinities are not subtracted from each other.
    weights = exp(ops.where(last == top, 0.0, last - top))
    rest, classes = last.shape[:-1], last.shape[-1]
    rows = ops.reshape(weights, (math.prod(rest), classes))
    found = _with_replacement(rows, count, generator).astype(default_int())
    return ops.reshape(ops.permute_dims(found, (1, 0)), (*lead, *rest))


def multinomial(
    weights: TensorLike,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn with probabilities in proportion to weights, as in PyTorch.

    Args:
        weights: (classes,) or (rows, classes), not negative, in each row one at least positive.
            With replacement they count in multiples of the largest one over 2**31.
        num_samples: how many for each row.
        replacement: whether an index may come several times. Without, they come in the order in
            which they were drawn.
        generator: to draw from; the default generator if not given.

    Returns:
        (num_samples,) or (rows, num_samples), in the default integer dtype.

    Raises:
        ArgumentError: the weights are not as said, or fewer are positive than are to be drawn
            without replacement. Inside of `compile` that is an index out of range of the run.

    >>> import ingle.tensor as it
    >>> sorted(it.random.multinomial(it.asarray([0.5, 0.0, 2.0]), 2).tolist())
    [0, 2]
    """
    name = "multinomial"
    given = wrap(as_floating(weights, name, "weights")).detach()
    count = as_int(num_samples, name, "num_samples")
    if given.ndim not in (1, 2) or not given.dtype.is_floating or count < 0:
        raise ShapeError(
            f"{name}: weights must be real, (classes,) or (rows, classes), and num_samples not "
            f"negative, got {given.dtype} of shape {given.shape} and {count}"
        )
    rows = ops.reshape(given, (-1, given.shape[-1])) if given.size else given
    least = 1 if replacement else max(count, 1)
    message = (
        f"{name}: weights must be finite, not negative, and at least {least} of each row "
        f"positive, got shape {given.shape}"
    )
    if not given.size:
        raise ArgumentError(message)
    good = (rows >= 0) & ops.isfinite(rows)
    positive = ops.sum(rows > 0, axis=-1)
    rows = required(rows, ops.all(good) & ops.all(positive >= least), message)
    draw = _with_replacement if replacement else _without_replacement
    out = draw(rows.astype(wide_dtype(rows.dtype)), count, generator).astype(default_int())
    return out if given.ndim == 2 else ops.reshape(out, (count,))


def _without_replacement(rows: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Where the logarithms plus `gumbel` are largest: Efraimidis, Spirakis (2006) in logarithms."""
    noise = gumbel(rows.shape, dtype=rows.dtype, device=rows.device, generator=generator)
    logs = ops.where(rows > 0, log(ops.where(rows > 0, rows, 1)), float("-inf"))
    return ops.topk(logs + noise, count)[1]


def _with_replacement(rows: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Random integers below the sum of the weights as integers, searched in their running sum."""
    n, classes = rows.shape
    share = rows / ops.max(rows, axis=-1, keepdims=True)
    steps = ops.floor(share * float(_STEPS)).astype(int64)
    total = ops.sum(steps, axis=-1, keepdims=True)
    ends = ops.cumulative_sum(ops.reshape(steps, (n * classes,)))
    begin = ops.cumulative_sum(total, axis=0) - total
    place = draws_from("multinomial", generator).draw(blocks((n, count), 2))
    pairs = random_pairs((n, count), place, device=rows.device)
    # Without the lowest bit of the first word, so that they are int64.
    wide = (pairs >> 33 << 32 | pairs & MASK).astype(int64)
    found = ops.searchsorted(ends, wide % total + begin, side="right")
    first = ops.reshape(ops.arange(n, dtype=int64, device=rows.device) * classes, (n, 1))
    return found - first


def _by_addition(rate: Tensor, place: AnyPlace) -> Tensor:
    """The number of probabilities that add up to less than a uniform float."""
    u = uniform_inside(rate.shape, float64, place, rate.device)

    def goes_on(carry: _Carry) -> Tensor:
        i, _, _, total = carry
        # More than 100 come with a probability below 1e-60, the rounding of the sum with one of
        # 1e-16.
        return ops.any(u > total) & (i < 100)

    def more(carry: _Carry) -> _Carry:
        i, k, p, total = carry
        for _ in range(_TOGETHER):
            k = ops.where(u > total, i, k)
            p = p * rate / i
            total = total + p
            i = i + 1.0
        return i, k, p, total

    p, one = exp(-rate), ops.ones((), dtype=float64, device=rate.device)
    k: Tensor = while_loop(goes_on, more, (one, ops.zeros_like(rate), p, p))[1]
    return k


_ATTEMPT = "uniform", "uniform"


def _by_rejection(rate: Tensor, large: Tensor, place: AnyPlace, table: Tensor) -> Tensor:
    def attempt(u: Tensor, v: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        u = u - 0.5
        b = ops.sqrt(rate) * 2.53 + 0.931
        a = b * 0.02483 - 0.059
        us = 0.5 - ops.abs(u)
        us = ops.where(us > 0, us, 2.0**-60)
        k = ops.floor((a * 2.0 / us + b) * u + rate + 0.43)
        fast = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
        safe = ops.where(k >= 0, k, 0)
        inverse = 1.1328 / (b - 3.4) + 1.1239
        height = log(v) + log(inverse) - log(a / (us * us) + b)
        below = height <= safe * log(rate) - rate - _log_factorial(safe, table)
        slow = (k >= 0) & ((us >= 0.013) | (v <= us)) & below
        return k, fast | slow

    return until_accepted(attempt, _ATTEMPT, place, ops.where(large, rate, _LARGE), wanted=large)


def _log_factorial(k: Tensor, table: Tensor) -> Tensor:
    """By Stirling's series, to 1e-10; below 10 from a table."""
    x = ops.where(k < 10, 10, k)
    z = 1.0 / (x * x)
    rest = (1 / 12 - z * (1 / 360 - z * (1 / 1260))) / x
    series = (x + 0.5) * log(x) - x + (0.5 * math.log(2 * math.pi) + rest)
    small = ops.take(table, ops.where(k < 10, k, 0).astype(int64))
    return ops.where(k < 10, small, series)
