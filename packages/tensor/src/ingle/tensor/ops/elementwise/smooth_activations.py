"""Smooth activations: sigmoid, softplus, gelu and their kin. None overflows for large inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, handle_of, run1, wrap
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import elementwise_rule, normalize_axis, widened
from ..movement.joining import concat
from ..movement.slicing import slice_axis
from ..special.erf import erf
from ..special.short import short_ndtr
from ._activation import activation, apply
from .arithmetic import abs, negative
from .cast import astype
from .complex import real
from .exponential import exp, log1p
from .extrema import clip, maximum, minimum
from .powers import square
from .trigonometry import tanh
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715
"""The coefficient in the approximation of gelu by tanh."""


def _expit(x: Any) -> Any:
    from scipy.special import expit

    return expit(x)


def sigmoid(x: TensorLike, /) -> Tensor:
    """`1 / (1 + exp(-x))`.

    Args:
        x: a float or complex tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.sigmoid(it.asarray([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    handle = handle_of(x, "sigmoid")
    return _complex_sigmoid(wrap(handle)) if handle.dtype.is_complex else apply(_SIGMOID, x)


def _sigmoid(x: Tensor) -> Tensor:
    # exp overflows to infinity for very negative x, and 1 / inf is the right 0.
    return 1.0 / (1.0 + exp(-x))


_SIGMOID = activation(
    "sigmoid",
    sigmoid,
    body=_sigmoid,
    vjp=lambda g, out: g * (out * (1.0 - out)),
    reference=_expit,
    precision="high",
).op()


def logsigmoid(x: TensorLike, /) -> Tensor:
    """`log(sigmoid(x))`, without overflow.

    >>> import ingle.tensor as it
    >>> it.logsigmoid(it.asarray([-1000.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """
    return apply(_LOG_SIGMOID, x)


def _log_sigmoid_vjp(g: Tensor, x: Tensor) -> Tensor:
    return g * sigmoid(negative(x))


def _log_expit(x: Any) -> Any:
    from scipy.special import log_expit

    return log_expit(x)


_LOG_SIGMOID = activation(
    "logsigmoid",
    logsigmoid,
    body=lambda x: minimum(x, 0) - log1p(exp(negative(abs(x)))),
    vjp=_log_sigmoid_vjp,
    reference=_log_expit,
    precision="high",
).op()


@guarded
def softplus(x: TensorLike, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta * x)) / beta`, without overflow; `x` where `beta * x > threshold`.

    Raises:
        ArgumentError: `beta` is 0.

    >>> import ingle.tensor as it
    >>> it.softplus(it.asarray([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """
    if not beta:
        raise ArgumentError("softplus: beta divides and must not be 0")
    return apply(_SOFTPLUS, x, beta, threshold)


def _softplus_body(x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x * beta
    return where(scaled > threshold, x, _softplus(scaled) / beta)


def _softplus_reference(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(x * beta > threshold, x, np.logaddexp(x * beta, 0) / beta)


_SOFTPLUS = activation(
    "softplus",
    softplus,
    parameters=("beta", "threshold"),
    body=_softplus_body,
    vjp=lambda g, x, beta, threshold: where(
        x * beta > threshold, g, g * sigmoid(x * beta)
    ),
    reference=_softplus_reference,
    calls=((), (2.0, 3.3)),
    precision="high",
).op()  # fmt: skip


def silu(x: TensorLike, /) -> Tensor:
    """`x * sigmoid(x)`, also known as swish (Elfwing et al., arXiv 1702.03118).

    Args:
        x: a float or complex tensor; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.silu(it.asarray([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    handle = handle_of(x, "silu")
    if handle.dtype.is_complex:
        return wrap(handle) * _complex_sigmoid(wrap(handle))
    return apply(_SILU, x)


def _silu_vjp(g: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


_SILU = activation(
    "silu",
    silu,
    body=lambda x: x * sigmoid(x),
    vjp=_silu_vjp,
    reference=lambda x: x * _expit(x),
    precision="high",
).op()


def mish(x: TensorLike, /) -> Tensor:
    """`x * tanh(softplus(x))` (Misra, arXiv 1908.08681).

    >>> import ingle.tensor as it
    >>> it.mish(it.asarray([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    return apply(_MISH, x)


def _mish_vjp(g: Tensor, x: Tensor) -> Tensor:
    t = tanh(softplus(x))
    return g * (t + x * (1.0 - square(t)) * sigmoid(x))


_MISH = activation(
    "mish",
    mish,
    body=lambda x: x * tanh(_softplus(x)),
    vjp=_mish_vjp,
    reference=lambda x: x * np.tanh(np.logaddexp(x, 0)),
    condition=8,
    precision="high",
).op()


@guarded
def gelu(x: TensorLike, /, *, approximate: str = "none") -> Tensor:
    """`x` times the normal distribution function of `x` (Hendrycks and Gimpel, arXiv 1606.08415).

    Args:
        x: a float tensor; integers are cast to the default float dtype.
        approximate: `"none"`, or `"tanh"` for the paper's approximation.

    Raises:
        ArgumentError: another approximation.

    >>> import ingle.tensor as it
    >>> it.gelu(it.asarray([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return run1(_GELU.op(approximate=approximate), as_floating(x, "gelu"))


def _gelu_body(x: Tensor, *, approximate: str) -> Tensor:
    # In a half type 1 + erf would lose what the result keeps.
    wide = widened(x)
    if approximate == "none":
        return astype(wide * 0.5 * (1.0 + erf(wide * _SQRT_HALF)), x.dtype)
    inner = _SQRT_2_PI * (wide + CUBIC * square(wide) * wide)
    return astype(wide * 0.5 * (1.0 + tanh(inner)), x.dtype)


def _gelu_vjp(g: Tensor, x: Tensor, approximate: str) -> Tensor:
    if approximate == "none":
        wide = widened(x)
        below = 0.5 * (1.0 + erf(x * _SQRT_HALF)) if wide is x else short_ndtr(wide)
        density = exp(square(wide) * -0.5) * (1.0 / math.sqrt(2 * math.pi))
        return astype(widened(g) * (below + wide * density), x.dtype)
    # Beyond 20 tanh is flat, and the square of x might be infinite.
    near = clip(x, -20.0, 20.0)
    t = tanh(_SQRT_2_PI * (near + CUBIC * square(near) * near))
    slope = _SQRT_2_PI * (1.0 + 3.0 * CUBIC * square(near))
    return g * (0.5 * (1.0 + t) + 0.5 * near * (1.0 - square(t)) * slope)


def _gelu_reference(x: Any, approximate: str = "none") -> Any:
    from scipy.special import ndtr

    if approximate == "none":
        return x * ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + CUBIC * x**3)))


def _gelu_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for shape in ((), (0,), (2, 17), (5, 3)):
            for approximate in ("none", "tanh"):
                # Below -3 the result is a difference of nearly equal numbers.
                x = draw.array(shape, low=-3.0, high=6.0)
                yield Sample((x,), {"approximate": approximate}, condition=1000)


_GELU = Operation(
    "gelu",
    tensors=("x",),
    statics=("approximate",),
    rule=lambda x, *, approximate: elementwise_rule("gelu", ("float",))(x),
    traits=Traits("elementwise", precision="high"),
    vjp={"x": _gelu_vjp},
    body=_gelu_body,
    public=gelu,
    samples=_gelu_samples,
    reference=_gelu_reference,
)


def softsign(x: TensorLike, /) -> Tensor:
    """`x / (1 + |x|)`.

    >>> import ingle.tensor as it
    >>> it.softsign(it.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    return apply(_SOFTSIGN, x)


_SOFTSIGN = activation(
    "softsign",
    softsign,
    body=lambda x: x / (1.0 + abs(x)),
    vjp=lambda g, x: g / square(1.0 + abs(x)),
    reference=lambda x: x / (1 + np.abs(x)),
).op()


def tanhshrink(x: TensorLike, /) -> Tensor:
    """`x - tanh(x)`.

    >>> import ingle.tensor as it
    >>> it.tanhshrink(it.asarray([0.0, 50.0])).tolist()
    [0.0, 49.0]
    """
    return apply(_TANH_SHRINK, x)


_TANH_SHRINK = activation(
    "tanhshrink",
    tanhshrink,
    body=lambda x: x - tanh(x),
    vjp=lambda g, x: g * square(tanh(x)),
    reference=lambda x: x - np.tanh(x),
    # x and tanh(x) cancel near 0.
    domain=(0.5, 4.0),
    condition=64,
).op()


@guarded
def glu(x: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second (Dauphin et al., 1612.08083).

    Args:
        x: floats; integers are cast.
        axis: the axis that is halved.

    Raises:
        ShapeError: the size of the axis is odd.

    >>> import ingle.tensor as it
    >>> it.glu(it.asarray([4.0, 0.0])).tolist()
    [2.0]
    """
    handle = as_floating(x, "glu")
    return run1(_GLU.op(axis=normalize_axis(axis, len(handle.shape), "glu")), handle)


def _glu_rule(x: Aval, *, axis: int) -> Aval:
    if not x.dtype.is_floating:
        raise DTypeError(f"glu: x must be float, got {x.dtype}; cast first with x.astype(...)")
    if x.shape[axis] % 2:
        raise ShapeError(
            f"glu: axis {axis} of x, which is cut into halves, must be even, got {x.shape}"
        )
    return Aval((*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :]), x.dtype)


def _halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    half = x.shape[axis] // 2
    return slice_axis(x, axis, 0, half), slice_axis(x, axis, half, half)


def _glu_body(x: Tensor, *, axis: int) -> Tensor:
    value, gate = _halves(x, axis)
    return value * sigmoid(gate)


def _glu_vjp(g: Tensor, x: Tensor, axis: int) -> Tensor:
    value, gate = _halves(x, axis)
    s = sigmoid(gate)
    return concat([g * s, g * value * (s * (1.0 - s))], axis=axis)


def _glu_reference(x: Any, axis: int = -1) -> Any:
    from scipy.special import expit

    value, gate = np.split(x, 2, axis=axis)
    return value * expit(gate)


def _glu_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((3, 8)),), condition=4)
        yield Sample((draw.array((2, 8, 5)),), {"axis": 1}, condition=4)
        yield Sample((draw.array((0, 2)),))


_GLU = Operation(
    "glu",
    tensors=("x",),
    statics=("axis",),
    rule=_glu_rule,
    traits=Traits("opaque"),
    vjp={"x": _glu_vjp},
    body=_glu_body,
    public=glu,
    samples=_glu_samples,
    reference=_glu_reference,
)


def _complex_sigmoid(x: Tensor) -> Tensor:
    """By the exponential that does not overflow."""
    right = real(x) >= 0
    e = exp(where(right, -x, x))
    return where(right, 1, e) / (1 + e)


def _softplus(x: Tensor) -> Tensor:
    return maximum(x, 0) + log1p(exp(negative(abs(x))))
