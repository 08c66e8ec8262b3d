"""Uniform floats from random bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Shape
from ...device import Device
from ...dispatch import create
from ...dtypes import DType, bfloat16, default_float, float16, float32, float64
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, dtype_argument
from .bits import MASK, WORDS, Place, bits_at, reference_bits
from .pairs import pairs_at

if TYPE_CHECKING:
    from ...tensor import Tensor

BITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}
"""How many random bits an element has: as many as the dtype's significand holds."""


@guarded
def random_uniform(
    shape: int | Sequence[int],
    place: tuple[int, int],
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """Multiples of 2**-p in [0, 1), equally likely, p being the bits of the dtype's significand.

    Every step is exact, so the numbers are the same on every backend. A float64 uses up two words
    of the generator's output, other dtypes one.

    Args:
        shape: of the result.
        place: the key and the first counter; see `random_bits`.
        dtype: a float dtype, the default float dtype if not given.
        device: where to make them.

    >>> import ingle.tensor as it
    >>> x = it.random_uniform((1000,), (0, 0))
    >>> bool((x >= 0).all()), bool((x < 1).all())
    (True, True)
    """
    to = dtype_argument(dtype, "random_uniform", default_float)
    op = RANDOM_UNIFORM.op(shape=as_shape(shape, "random_uniform"), dtype=to)
    return create(op, device, Place.of("random_uniform", place).scalars())


def uniform_values(
    words: Sequence[int | Tensor], shape: Shape, dtype: DType, *, inside: bool = False
) -> Tensor:
    """Uniform floats from a place; `inside` sets the last bit, so that 0 and 1 never come.

    With `inside` the values are the middles of 2**(p - 1) equal steps, symmetric about one half.
    """
    least = 1 if inside else 0
    if dtype is not float64:
        bits = bits_at(words, shape) >> (32 - BITS[dtype]) | least
        return bits.astype(dtype) * 2.0 ** -BITS[dtype]
    # 26 bits of the first word above 27 of the second: a float64 holds them all.
    pairs = pairs_at(words, shape)
    bits = (pairs >> 38 << 27) | (pairs & MASK) >> 5 | least
    return bits.astype(float64) * 2.0**-53


def _body(*words: int, shape: Shape, dtype: DType) -> Tensor:
    return uniform_values(words, shape, dtype)


def float_rule(name: str, shape: Shape, dtype: DType) -> Aval:
    """The rule of operations that draw floats."""
    if dtype not in BITS:
        raise DTypeError(f"{name}: dtype must be one of {', '.join(map(str, BITS))}, got {dtype}")
    return Aval(shape, dtype)


def _rule(*words: Aval, shape: Shape, dtype: DType) -> Aval:
    return float_rule("random_uniform", shape, dtype)


def draw_samples(draw: Draw) -> Iterator[Sample]:
    """Samples of operations that draw floats of a shape from a place."""
    if draw.dtype in BITS:
        for shape in ((3, 5), (33,), (0,), ()):
            yield Sample(
                (shape, (0x0123456789ABCDEF, 41)),
                {"dtype": draw.dtype},
                gradient=False,
                exact=True,
            )


def reference_uniform(
    shape: int | Sequence[int],
    place: tuple[int, int],
    *,
    dtype: DType = float32,
    inside: bool = False,
) -> np.ndarray:
    """From the reference's bits, in float64, where everything is exact."""
    size = as_shape(shape, "reference_uniform")
    if dtype is float64:
        pairs = reference_bits((*size, 2), place).astype(np.uint64)
        whole = (pairs[..., 0] >> np.uint64(6) << np.uint64(27)) + (pairs[..., 1] >> np.uint64(5))
        return (whole | np.uint64(inside)).astype(np.float64) / 2.0**53
    bits = reference_bits(size, place) >> np.uint32(32 - BITS[dtype])
    return (bits | np.uint32(inside)).astype(np.float64) / 2.0 ** BITS[dtype]


RANDOM_UNIFORM = Operation(
    "random_uniform",
    tensors=WORDS,
    statics=("shape", "dtype"),
    rule=_rule,
    traits=Traits("random"),
    body=_body,
    public=random_uniform,
    samples=draw_samples,
    reference=reference_uniform,
)


def words_of(dtype: DType) -> int:
    """How many words of random bits an element of a dtype uses up."""
    return 2 if dtype is float64 else 1
