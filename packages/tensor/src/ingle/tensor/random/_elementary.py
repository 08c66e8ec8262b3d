"""exp, and uniform floats without their ends, from IEEE arithmetic alone.

Libraries' exponentials differ in the last bit, as their logarithms do; what is made of these here
is equal on every backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..contract import Shape
from ..device import Device
from ..dispatch import TensorLike, as_number, handle_of, wrap
from ..dtypes import DType, as_dtype, default_float, float32, float64, int32, int64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops._rules import as_shape, broadcast_shapes
from ..ops.random.bits import Place, blocks
from ..ops.random.uniform import words_of
from ..tensor import Tensor
from .basic import Shape as ShapeLike
from .basic import uniform
from .generator import Generator, draws_from

Parameter = float | TensorLike
"""A parameter of a distribution: a number, or a tensor with one for each element."""


def exp(x: Tensor) -> Tensor:
    """The exponential of float32 or float64 values within 2 ulp; 0 below the normal numbers.

    x = n * log 2 + r with |r| below 0.35, and exp r by its Taylor series.
    """
    wide = x.dtype is float64
    integer, bits, bias = (int64, 52, 1023) if wide else (int32, 23, 127)
    high, low = (6.93147180369123816490e-01, 1.90821492927058770002e-10) if wide else _LN2_FLOAT32
    least, most = (1 - bias) * math.log(2), bias * math.log(2)
    kept = ops.clip(x, least + 1, most)
    n = ops.round(kept * (1 / math.log(2)))
    r = (kept - n * high) - n * low
    total = r * (1 / math.factorial(_TERMS[wide])) + 1 / math.factorial(_TERMS[wide] - 1)
    for k in range(_TERMS[wide] - 2, -1, -1):
        total = total * r + 1 / math.factorial(k)
    scale = ops.bitcast((n.astype(integer) + bias) << bits, x.dtype)
    out = ops.where(x < least + 1, 0, total * scale)
    return ops.where(x > most, float("inf"), out)


_LN2_FLOAT32 = (0.693359375, -2.12194440e-4)
_TERMS = {True: 13, False: 7}


def open_uniform(
    shape: Shape, dtype: DType, device: Device | str | None, generator: Generator | None
) -> Tensor:
    """Uniform floats inside of (0, 1): where 0 comes, half the least step is taken instead."""
    return inside(uniform(shape, dtype=dtype, device=device, generator=generator))


def inside(u: Tensor) -> Tensor:
    """Uniform floats with half the least step in place of 0."""
    return ops.where(u == 0, 2.0**-54 if u.dtype is float64 else 2.0**-25, u)


def float_dtype(name: str, dtype: object) -> DType:
    """The float dtype of a result: the default one if not given."""
    to = default_float() if dtype is None else as_dtype(dtype)
    if not to.is_floating:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {to}")
    return to


def wide_dtype(dtype: DType) -> DType:
    """What a distribution of a dtype is computed in."""
    return float64 if dtype is float64 else float32


def parameters(
    name: str,
    shape: ShapeLike | None,
    dtype: DType,
    device: Device | str | None,
    *given: tuple[str, Parameter],
) -> tuple[Shape, list[Tensor]]:
    """The shape to draw, and the parameters as positive tensors of a dtype that broadcast to it."""
    found = []
    for argument, value in given:
        value = as_number(value)
        if isinstance(value, (bool, int, float)):
            tensor, positive = ops.full((), float(value), dtype=dtype, device=device), value > 0
        else:
            tensor = ops.astype(wrap(handle_of(value, name, argument)).detach(), dtype)
            positive = bool(ops.all(tensor > 0))
        if not positive:
            raise ArgumentError(f"{name}: {argument} must be positive, got {tensor.tolist()}")
        found.append(tensor)
    common = broadcast_shapes(name, *(p.shape for p in found))
    size = common if shape is None else as_shape(shape, name)
    if broadcast_shapes(name, common, size) != size:
        raise ShapeError(f"{name}: parameters of shape {common} do not broadcast to {size}")
    return size, [ops.broadcast_to(p, size) for p in found]


class Draws(NamedTuple):
    """What one attempt at numbers draws from: it makes `size` of a kind and uses up `taken`.

    The first `taken` are those that a draw of so many gives, since a number follows from its place
    in the stream alone. So few sizes serve all counts, and devices have their plans for these.
    """

    taken: int
    size: int
    device: Device | str | None
    generator: Generator | None

    def uniform(self, dtype: DType) -> Tensor:
        """As `open_uniform`."""
        return inside(ops.random_uniform(self.size, self._place(dtype), **self._made(dtype)))

    def normal(self, dtype: DType) -> Tensor:
        """Standard normal numbers."""
        return ops.random_normal(self.size, self._place(dtype), **self._made(dtype))

    def _place(self, dtype: DType) -> Place:
        generator = draws_from("random", self.generator)
        return generator.draw(blocks((self.taken,), words_of(dtype)))

    def _made(self, dtype: DType) -> dict[str, Any]:
        return {"dtype": dtype, "device": self.device}


def until_accepted(
    attempt: Callable[..., tuple[Tensor, Tensor]], generator: Generator | None, *given: Tensor
) -> Tensor:
    """Draws for parameters of one shape, and again for those elements that were rejected.

    Args:
        attempt: from `Draws` and parameters along one axis to values and whether each is accepted.
        generator: what the draws are from.
        given: the parameters.
    """
    shape, device = given[0].shape, given[0].device
    size = math.prod(shape)
    flat = [ops.reshape(p, (size,)) for p in given]
    values, accepted = attempt(Draws(size, size, device, generator), *flat)
    left = np.flatnonzero(~accepted.numpy())
    while left.size:
        count, last = left.size, left.size - 1
        size = max(1 << last.bit_length(), _FEWEST)
        # The last one is repeated, and its value with it.
        places = ops.asarray(np.pad(left, (0, size - count), mode="edge"), device=device)
        draws = Draws(count, size, device, generator)
        again, accepted = attempt(draws, *(ops.take(p, places) for p in flat))
        own = ops.minimum(ops.arange(size, device=device), last)
        values = ops.scatter_set(values, places, ops.take(again, own))
        left = left[~accepted.numpy()[:count]]
    return ops.reshape(values, shape)


_FEWEST = 64
"""How many are drawn again at least, so that the last few attempts are all of one size."""
