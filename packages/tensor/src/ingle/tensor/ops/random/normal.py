"""Normally distributed floats: the inverse of the normal distribution's integral, by polynomials.

Only additions, multiplications, divisions and square roots of IEEE arithmetic are used, each
rounded by itself, because libraries' logarithms differ in the last bit from one another. Backends
must not contract them, and then draw the same numbers bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Shape
from ...device import Device
from ...dispatch import TensorLike, call1, create
from ...dtypes import DType, default_float, float32, float64, int32, int64
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, dtype_argument
from ..elementwise.bitcast import bitcast
from ..elementwise.exponential import exp
from ..elementwise.powers import sqrt, square
from ..elementwise.where import where
from .bits import WORDS, Place
from .uniform import draw_samples, float_rule, reference_uniform, uniform_values

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
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
    to = dtype_argument(dtype, "random_normal", default_float)
    op = RANDOM_NORMAL.op(shape=as_shape(shape, "random_normal"), dtype=to)
    return create(op, device, Place.of("random_normal", place).scalars())


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


def inverse_normal(p: TensorLike) -> Tensor:
    """The number below which a standard normal one lies with probability `p`, 0 < p < 1.

    Wichura: Algorithm AS 241, The percentage points of the normal distribution (Applied
    Statistics 37, 1988), with a logarithm of its own. In float32 and float64.

    >>> import ingle.tensor as it
    >>> it.inverse_normal(it.asarray([0.5])).tolist()
    [0.0]
    """
    return call1(_INVERSE_NORMAL, p, "p")


def _inverse_normal(p: Tensor) -> Tensor:
    q = p - 0.5
    r = 0.180625 - q * q
    central = q * _ratio(r, *CENTRAL)
    tail = where(q < 0, p, 1.0 - p)
    s = sqrt(-polynomial_log(tail))
    outer = where(s <= 5.0, _ratio(s - 1.6, *NEAR), _ratio(s - 5.0, *FAR))
    return where(r >= 0, central, where(q < 0, -outer, outer))


def _ratio(x: Tensor, over: Sequence[float], under: Sequence[float]) -> Tensor:
    return _horner(x, over) / _horner(x, under)


def _share_rule(p: Aval) -> Aval:
    if p.dtype not in (float32, float64):
        raise DTypeError(f"inverse_normal: p must be float32 or float64, got {p.dtype}; cast it")
    return p


def _share_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype in (float32, float64):
        for low, high in ((0.1, 0.4), (0.6, 0.9), (0.001, 0.02)):
            p = draw.array((17,), low=low, high=high)
            yield Sample((p,), condition=4, magnitude=1.0, special=False)


_INVERSE_NORMAL = Operation(
    "inverse_normal",
    tensors=("p",),
    rule=_share_rule,
    traits=Traits("elementwise", precision="high"),
    # One over the density there; the bits that the logarithm works with have no gradient.
    vjp={"p": lambda g, out: g * exp(square(out) * 0.5) * math.sqrt(2 * math.pi)},
    body=_inverse_normal,
    public=inverse_normal,
    samples=_share_samples,
    reference="scipy.special:ndtri",
).op()


def polynomial_log(x: TensorLike) -> Tensor:
    """The natural logarithm of positive, normal floats within 2 ulp, without a library's log.

    x = m * 2**e with m in [sqrt(1/2), sqrt(2)), and log m = 2 artanh((m - 1) / (m + 1)) as a
    series in the square of that quotient, which is below 0.0295. In float32 and float64.
    """
    return call1(_POLYNOMIAL_LOG, x)


def _polynomial_log(x: Tensor) -> Tensor:
    wide = x.dtype is float64
    integer, bits = (int64, 52) if wide else (int32, 23)
    half = SQRT_HALF_BITS[wide]
    i = bitcast(x, integer) - half
    m = bitcast((i & ((1 << bits) - 1)) + half, x.dtype)
    e = (i >> bits).astype(x.dtype)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = _horner(z, [2.0 / k for k in range(23 if wide else 11, 1, -2)]) * z
    high, low = LOG_2[wide]
    return e * high + (s * 2.0 + (s * series + e * low))


def _log_rule(x: Aval) -> Aval:
    if x.dtype not in (float32, float64):
        raise DTypeError(f"polynomial_log: x must be float32 or float64, got {x.dtype}; cast it")
    return x


def _log_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype in (float32, float64):
        for low, high in ((0.6, 1.4), (0.001, 0.02), (3.0, 1e6)):
            x = draw.array((17,), low=low, high=high)
            # The bits that the body works with have no gradient.
            yield Sample((x,), condition=4, gradient=False, special=False)


_POLYNOMIAL_LOG = Operation(
    "polynomial_log",
    tensors=("x",),
    rule=_log_rule,
    traits=Traits("elementwise", precision="high"),
    vjp={"x": lambda g, x: g / x},
    body=_polynomial_log,
    public=polynomial_log,
    samples=_log_samples,
    reference=np.log,
).op()

# By whether the dtype is float64: the bits of sqrt(1/2), and log 2 in two parts.
SQRT_HALF_BITS = {True: 0x3FE6A09E667F3BCD, False: 0x3F3504F3}
LOG_2 = {
    True: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
    False: (0.693359375, -2.12194440e-4),
}
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
CENTRAL, NEAR, FAR = (_A, _B), (_C, _D), (_E, _F)
"""Numerators and denominators for the middle and for the two parts of the tails."""


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total
