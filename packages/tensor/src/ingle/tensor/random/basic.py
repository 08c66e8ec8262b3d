"""Uniform and normal floats, integers, bools and permutations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops
from ..device import Device, default_device
from ..dispatch import TensorLike, as_floating, as_number, handle_of, wrap
from ..dtypes import as_dtype, default_float, default_int, float32, float64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops import _rules
from ..ops._checks_at_run import required
from ..ops.random.bits import blocks
from ..ops.random.pairs import random_pairs
from ..ops.random.uniform import words_of
from ..tensor import Tensor
from .generator import Generator, draws_from

Shape = int | Sequence[int]


def uniform(
    shape: Shape = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats equally likely in [low, high).

    Args:
        shape: of the result.
        low, high: the range; rounding may reach `high` itself if it is not (0, 1).
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    Raises:
        ArgumentError: `low` exceeds `high`, or two integers may both be sizes or the range.

    >>> import ingle.tensor as it
    >>> it.random.uniform((2, 3)).shape
    (2, 3)
    """
    if type(shape) is type(low) is int and type(high) is float and low >= high:
        # Elsewhere such numbers are the range, or two sizes.
        raise ArgumentError(
            f"uniform: {shape}, {low} may be a range or two sizes, and the shape comes first; "
            f"write uniform((), {shape}, {low}), or uniform(({shape}, {low}))"
        )
    size = _rules.as_shape(shape, "uniform")
    to = default_float() if dtype is None else as_dtype(dtype)
    _rules.check_numbers("uniform", low=low, high=high)
    if not low <= high:
        raise ArgumentError(f"uniform: low must not exceed high, got low={low}, high={high}")
    place = draws_from("uniform", generator).draw(blocks(size, words_of(to)))
    x = ops.random_uniform(size, place, dtype=to, device=device)
    return x if (low, high) == (0.0, 1.0) else x * float(high - low) + float(low)


def normal(
    shape: Shape = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed floats.

    Args:
        shape: of the result.
        mean, std: of the distribution.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    Raises:
        ArgumentError: `std` is negative, or two integers may both be sizes.

    >>> import ingle.tensor as it
    >>> it.random.normal(3, dtype="float64").dtype
    float64
    """
    size = _rules.as_shape(shape, "normal")
    to = default_float() if dtype is None else as_dtype(dtype)
    if type(shape) is type(mean) is int and mean > 0:
        # Functions such as `zeros` take sizes one by one; here the second is something else.
        raise ArgumentError(
            f"normal: {shape}, {mean} may be two sizes or a size and a mean; write "
            f"normal(({shape}, {mean})), or normal({shape}, mean={mean}.0)"
        )
    _rules.check_numbers("normal", mean=mean, std=std)
    if not std >= 0:
        raise ArgumentError(f"normal: std must not be negative, got {std}")
    place = draws_from("normal", generator).draw(blocks(size, words_of(to)))
    x = ops.random_normal(size, place, dtype=to, device=device)
    return x if (mean, std) == (0.0, 1.0) else x * float(std) + float(mean)


def truncated_normal(
    shape: Shape = (),
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed floats between `low` and `high`, by inverting the integral.

    Args:
        shape: of the result.
        mean, std: of the normal distribution before it is cut.
        low, high: the bounds, as values and not as multiples of `std`.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them.
        generator: to draw from; the default generator if not given.

    Raises:
        ArgumentError: `low` is not less than `high`, or `std` is not positive.

    >>> import ingle.tensor as it
    >>> x = it.random.truncated_normal(1000, low=-1.0, high=1.0)
    >>> bool((abs(x) <= 1).all())
    True
    """
    to = default_float() if dtype is None else as_dtype(dtype)
    _rules.check_numbers("truncated_normal", mean=mean, std=std, low=low, high=high)
    if not (low < high and std > 0):
        raise ArgumentError(
            f"truncated_normal: needs low < high and std > 0, got {low=}, {high=}, {std=}"
        )
    wide = float64 if to is float64 else float32
    # Near 1 the probabilities of a tail lose all digits, so the upper tail is drawn as the lower.
    flip = (low - mean) > (mean - high)
    bounds = [
        (mean - v if flip else v - mean) / std for v in ((high, low) if flip else (low, high))
    ]
    below, above = (0.5 * math.erfc(-b / math.sqrt(2.0)) for b in bounds)
    p = uniform(shape, below, above, dtype=wide, device=device, generator=generator)
    tiny = 2.0**-1022 if wide is float64 else 2.0**-126
    x = ops.inverse_normal(ops.clip(p, tiny, 1.0 - (2.0**-53 if wide is float64 else 2.0**-24)))
    return ops.clip(x * (-std if flip else std) + mean, low, high).astype(to)


def randint(
    low: int,
    high: int | None = None,
    shape: Shape = (),
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers in [low, high), or in [0, low) if `high` is not given.

    Each comes with a probability that differs from the others' by less than (high - low) / 2**64.

    Raises:
        DTypeError: `dtype` holds no integers.
        ArgumentError: `low` is not less than `high`.

    >>> import ingle.tensor as it
    >>> x = it.random.randint(6, shape=(100,))
    >>> bool((x >= 0).all()), bool((x < 6).all())
    (True, True)
    """
    if high is None:
        low, high = 0, low
    size = _rules.as_shape(shape, "randint")
    to = default_int() if dtype is None else as_dtype(dtype)
    if not to.is_integer:
        raise DTypeError(f"randint: dtype must be an integer dtype, got {to}")
    span = _rules.as_int(high, "randint", "high") - _rules.as_int(low, "randint", "low")
    if not 0 < span < 1 << 63:
        raise ArgumentError(f"randint: needs low < high, got low={low}, high={high}")
    place = draws_from("randint", generator).draw(blocks(size, 2))
    return (random_pairs(size, place, device=device) % span).astype(to) + low


def rand_like(
    x: TensorLike,
    /,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats equally likely in [0, 1), of a tensor's shape, dtype and device.

    Args:
        x: a tensor; its values do not matter.
        dtype: a float dtype; that of `x` if not given.
        device: where to put them; that of `x` if not given.
        generator: to draw from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> it.random.rand_like(it.zeros((2, 3))).shape
    (2, 3)
    """
    shape, to, where = _like("rand_like", x, dtype, device)
    return uniform(shape, dtype=to, device=where, generator=generator)


def randn_like(
    x: TensorLike,
    /,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Floats of the standard normal distribution, of a tensor's shape, dtype and device.

    Args:
        x, dtype, device, generator: see `rand_like`.

    >>> import ingle.tensor as it
    >>> it.random.randn_like(it.zeros((2, 3))).shape
    (2, 3)
    """
    shape, to, where = _like("randn_like", x, dtype, device)
    return normal(shape, dtype=to, device=where, generator=generator)


def randint_like(
    x: TensorLike,
    low: int,
    high: int | None = None,
    /,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers in [low, high), or in [0, low), of a tensor's shape, dtype and device.

    Args:
        x: a tensor; its values do not matter.
        low, high: the range.
        dtype: an integer dtype; that of `x` if not given.
        device, generator: see `rand_like`.

    >>> import ingle.tensor as it
    >>> it.random.randint_like(it.asarray([5, 5]), 1).tolist()
    [0, 0]
    """
    shape, to, where = _like("randint_like", x, dtype, device)
    return randint(low, high, shape, dtype=to, device=where, generator=generator)


def _like(
    name: str, x: TensorLike, dtype: object, device: Device | str | None
) -> tuple[Shape, object, Device | str]:
    """The shape of a tensor, and its dtype and device if no other ones are asked for."""
    handle = handle_of(x, name)
    to = _rules.dtype_argument(dtype, name, lambda: handle.dtype)
    if name == "randint_like":
        if not to.is_integer:
            raise DTypeError(f"{name}: dtype must be an integer dtype, got {to}; give dtype=")
    elif not to.is_floating:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {to}; give dtype=")
    return handle.shape, to, handle.backend.device if device is None else device


def bernoulli(
    p: float | TensorLike,
    shape: Shape | None = None,
    *,
    device: Device | str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Bools that are True with probability `p`.

    Args:
        p: the probability of True: a number, or a tensor with one for each element.
        shape: of the result; that of `p` if not given.
        device: where to put them, if `p` is a number; the default device if not given.
        generator: what they are drawn from; the default generator if not given.

    Raises:
        ArgumentError: `p` is not in [0, 1]. Of a tensor that is an index out of range of the run
            inside of `compile`.
        ShapeError: `p` does not broadcast to `shape`.

    >>> import ingle.tensor as it
    >>> it.random.bernoulli(1.0, 3).tolist()
    [True, True, True]
    >>> it.random.bernoulli(it.asarray([0.0, 1.0])).tolist()
    [False, True]
    """
    name = "bernoulli"
    p = as_number(p)
    if isinstance(p, (bool, int, float)):
        if not 0 <= p <= 1:
            raise ArgumentError(f"{name}: p must be in [0, 1], got {p}")
        size = _rules.as_shape(() if shape is None else shape, name)
        return uniform(size, dtype=float32, device=device, generator=generator) < p
    given = wrap(as_floating(p, name, "p")).detach()
    if not given.dtype.is_floating:
        raise DTypeError(f"{name}: p must be real, got {given.dtype}")
    size = given.shape if shape is None else _rules.as_shape(shape, name)
    if _rules.broadcast_shapes(name, given.shape, size, arguments=("p", "shape")) != size:
        raise ShapeError(f"{name}: p of shape {given.shape} does not broadcast to {size}")
    inside = ops.all((given >= 0) & (given <= 1))
    given = required(given, inside, f"{name}: all of p must be in [0, 1], got {given.shape} of it")
    to = float64 if given.dtype is float64 else float32
    return uniform(size, dtype=to, device=given.device, generator=generator) < given


def permutation(
    n: int, *, device: Device | str | None = None, generator: Generator | None = None
) -> Tensor:
    """The integers below `n` in random order, all orders equally likely up to ties of 64 bits.

    Args:
        n: how many.
        device: where to put them; the default device if not given.
        generator: what they are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> sorted(it.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    size = _rules.as_size(n, "permutation", "n")
    place = draws_from("permutation", generator).draw(blocks((size,), 2))
    return ops.argsort(random_pairs(size, place, device=device or default_device()))
