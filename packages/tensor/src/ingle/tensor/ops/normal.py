"""Normally distributed floats: the inverse of the normal distribution's integral, by polynomials.

Only additions, multiplications, divisions and square roots of IEEE arithmetic are used, each
rounded by itself, because libraries' logarithms differ in the last bit from one another. Backends
must not contract them, and then draw the same numbers bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..contract import Aval, Shape
from ..device import Device
from ..dispatch import create
from ..dtypes import DType, as_dtype, default_float, float32, float64, int32, int64
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import as_shape
from .bitcast import bitcast
from .powers import sqrt
from .random_bits import WORDS, Place
from .uniform import draw_samples, float_rule, reference_uniform, uniform_values
from .where import where

if TYPE_CHECKING:
    from ..tensor import Tensor


def random_normal(
    shape: int | Sequence[int],
    place: tuple[int, int],
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """Standard normal floats: `inverse_normal` of uniform ones. Half types are rounded float32.

    Args:
        shape: of the result.
        place: the key and the first counter; see `random_bits`.
        dtype: a float dtype, the default float dtype if not given.
        device: where to make them.

    >>> import ingle.tensor as it
    >>> x = it.random_normal((10000,), (0, 0))
    >>> abs(x.mean().item()) < 0.05, abs(x.std().item() - 1) < 0.05
    (True, True)
    """
    to = default_float() if dtype is None else as_dtype(dtype)
    op = RANDOM_NORMAL.op(shape=as_shape(shape, "random_normal"), dtype=to)
    return create(op, device, Place(*place).scalars())


def inverse_normal(p: Tensor) -> Tensor:
    """The number below which a standard normal one lies with probability `p`, 0 < p < 1.

    Wichura: Algorithm AS 241, The percentage points of the normal distribution (Applied
    Statistics 37, 1988), with a logarithm of its own. In float32 and float64.

    >>> import ingle.tensor as it
    >>> it.inverse_normal(it.asarray([0.5])).tolist()
    [0.0]
    """
    q = p - 0.5
    r = 0.180625 - q * q
    central = q * _ratio(r, _A, _B)
    tail = where(q < 0, p, 1.0 - p)
    s = sqrt(-polynomial_log(tail))
    outer = where(s <= 5.0, _ratio(s - 1.6, _C, _D), _ratio(s - 5.0, _E, _F))
    return where(r >= 0, central, where(q < 0, -outer, outer))


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def _ratio(x: Tensor, over: Sequence[float], under: Sequence[float]) -> Tensor:
    return _horner(x, over) / _horner(x, under)


def polynomial_log(x: Tensor) -> Tensor:
    """The natural logarithm of positive, normal floats within 2 ulp, without a library's log.

    x = m * 2**e with m in [sqrt(1/2), sqrt(2)), and log m = 2 artanh((m - 1) / (m + 1)) as a
    series in the square of that quotient, which is below 0.0295.
    """
    wide = x.dtype is float64
    integer, bits = (int64, 52) if wide else (int32, 23)
    half = 0x3FE6A09E667F3BCD if wide else 0x3F3504F3  # the bits of sqrt(1/2)
    i = bitcast(x, integer) - half
    m = bitcast((i & ((1 << bits) - 1)) + half, x.dtype)
    e = (i >> bits).astype(x.dtype)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = _horner(z, [2.0 / k for k in range(23 if wide else 11, 1, -2)]) * z
    high, low = (6.93147180369123816490e-01, 1.90821492927058770002e-10) if wide else _LN2_FLOAT32
    return e * high + (s * 2.0 + (s * series + e * low))


_LN2_FLOAT32 = (0.693359375, -2.12194440e-4)
# Coefficients of AS 241 (PPND16), the highest power first.
_A = (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
      4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
      1.3314166789178437745e2, 3.3871328727963666080e0)  # fmt: skip
_B = (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
      2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
      4.2313330701600911252e1, 1.0)  # fmt: skip
_C = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
      1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
      4.63033784615654529590e0, 1.42343711074968357734e0)  # fmt: skip
_D = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
      1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
      2.05319162663775882187e0, 1.0)  # fmt: skip
_E = (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
      2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
      5.46378491116411436990e0, 6.65790464350110377720e0)  # fmt: skip
_F = (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
      7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
      5.99832206555887937690e-1, 1.0)  # fmt: skip


def _body(*words: int, shape: Shape, dtype: DType) -> Tensor:
    to = float64 if dtype is float64 else float32
    return inverse_normal(uniform_values(words, shape, to, inside=True)).astype(dtype)


def _rule(*words: Aval, shape: Shape, dtype: DType) -> Aval:
    return float_rule("random_normal", shape, dtype)


def _reference(
    shape: int | Sequence[int], place: tuple[int, int], *, dtype: DType = float32
) -> np.ndarray:
    from scipy.special import ndtri

    to = float64 if dtype is float64 else float32
    return np.asarray(ndtri(reference_uniform(shape, place, dtype=to, inside=True)))


def _samples(draw: Draw) -> Iterator[Sample]:
    for sample in draw_samples(draw):
        # The polynomials are exact to some ulp of the largest intermediate value.
        yield replace(sample, exact=False, condition=8.0)


RANDOM_NORMAL = Operation(
    "random_normal",
    tensors=WORDS,
    statics=("shape", "dtype"),
    rule=_rule,
    traits=Traits("random"),
    body=_body,
    public=random_normal,
    samples=_samples,
    reference=_reference,
)
