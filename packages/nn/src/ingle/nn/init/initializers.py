"""Initializers: classes whose instances make tensors of first values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypedDict

import numpy as np

from ingle.tensor import Cell, Device, DType, Tensor, asarray, full, random
from ingle.tensor.contract import Shape
from ingle.tensor.dtypes import as_dtype, default_float
from ingle.tensor.errors import ArgumentError, ShapeError

Mode = Literal["fan_in", "fan_out"]


class Init(Protocol):
    """What layers take as `weight_init` and `bias_init`: an `Initializer`, or any such function.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> def halves(shape, dtype=None, device=None, generator=None):
    ...     return it.full(shape, 0.5, dtype=dtype, device=device)
    >>> nn.Linear(2, 1, weight_init=halves).weight.tolist()
    [[0.5, 0.5]]
    """

    def __call__(
        self,
        shape: Sequence[int],
        dtype: object = None,
        device: Device | str | None = None,
        generator: random.Generator | None = None,
    ) -> Tensor: ...


class Place(TypedDict):
    """What `random`'s functions take besides a shape and numbers.

    >>> from ingle.nn.init import Place
    >>> place: Place = {"dtype": "float32", "device": None, "generator": None}
    >>> random.normal((2, 3), **place).shape
    (2, 3)
    """

    dtype: object
    device: Device | str | None
    generator: random.Generator | None


class Initializer:
    """Base of the initializers, which write `fill`: call one for a tensor, or `reset` a parameter.

    >>> from ingle.nn import Linear, init
    >>> layer = Linear(2, 3, weight_init=init.Constant(0.5))
    >>> init.Zeros().reset(layer.weight)
    >>> float(layer.weight.sum())
    0.0
    """

    def __call__(
        self,
        shape: Sequence[int],
        dtype: object = None,
        device: Device | str | None = None,
        generator: random.Generator | None = None,
    ) -> Tensor:
        """A tensor of first values.

        Args:
            shape: of the parameter.
            dtype: the default float dtype if not given.
            device: the default device if not given.
            generator: where random numbers come from; the default generator if not given.
        """
        return self.fill(tuple(shape), {"dtype": dtype, "device": device, "generator": generator})

    def fill(self, shape: Shape, place: Place) -> Tensor:
        """The tensor that a call returns."""
        raise NotImplementedError(f"{type(self).__name__} must define fill")

    def reset(self, parameter: Cell[Tensor], generator: random.Generator | None = None) -> None:
        """Gives a parameter or buffer new first values, of its shape, dtype and device."""
        parameter.value = self(parameter.shape, parameter.dtype, parameter.device, generator)


@dataclass(frozen=True)
class Constant(Initializer):
    """The same number everywhere.

    >>> from ingle.nn import init
    >>> init.Constant(2.0)((2,)).tolist()
    [2.0, 2.0]
    """

    value: float

    def fill(self, shape: Shape, place: Place) -> Tensor:
        return full(shape, self.value, dtype=_float(place), device=place["device"])


@dataclass(frozen=True)
class Zeros(Constant):
    """Zeros.

    >>> from ingle.nn import init
    >>> init.Zeros()((2,)).tolist()
    [0.0, 0.0]
    """

    value: float = 0.0


@dataclass(frozen=True)
class Ones(Constant):
    """Ones.

    >>> from ingle.nn import init
    >>> init.Ones()((2,)).tolist()
    [1.0, 1.0]
    """

    value: float = 1.0


@dataclass(frozen=True)
class Uniform(Initializer):
    """Equally likely in [low, high).

    >>> from ingle.nn import init
    >>> bool((init.Uniform(2.0, 3.0)((8,)) >= 2.0).all())
    True
    """

    low: float = 0.0
    high: float = 1.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        return random.uniform(shape, self.low, self.high, **place)


@dataclass(frozen=True)
class Normal(Initializer):
    """Normally distributed.

    >>> from ingle.nn import init
    >>> init.Normal(std=0.02)((3, 4)).shape
    (3, 4)
    """

    mean: float = 0.0
    std: float = 1.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        return random.normal(shape, self.mean, self.std, **place)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normally distributed between `low` and `high`, which are values, not multiples of `std`.

    >>> from ingle.nn import init
    >>> bool((abs(init.TruncatedNormal(std=1.0)((50,))) <= 2.0).all())
    True
    """

    mean: float = 0.0
    std: float = 1.0
    low: float = -2.0
    high: float = 2.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        return random.truncated_normal(shape, self.mean, self.std, self.low, self.high, **place)


@dataclass(frozen=True)
class XavierUniform(Initializer):
    """Uniform within gain * sqrt(6 / (fan_in + fan_out)); Glorot and Bengio (AISTATS 2010).

    >>> from ingle.nn import init
    >>> bool((abs(init.XavierUniform()((2, 4))) <= 1.0).all())
    True
    """

    gain: float = 1.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        bound = self.gain * math.sqrt(6.0 / max(1, sum(fans(shape))))
        return Uniform(-bound, bound).fill(shape, place)


@dataclass(frozen=True)
class XavierNormal(Initializer):
    """Normal with std = gain * sqrt(2 / (fan_in + fan_out)); Glorot and Bengio (AISTATS 2010).

    >>> from ingle.nn import init
    >>> init.XavierNormal()((2, 4)).shape
    (2, 4)
    """

    gain: float = 1.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        std = self.gain * math.sqrt(2.0 / max(1, sum(fans(shape))))
        return Normal(0.0, std).fill(shape, place)


@dataclass(frozen=True)
class _Kaiming(Initializer):
    a: float = 0.0
    mode: Mode = "fan_in"
    nonlinearity: str = "leaky_relu"

    def std(self, shape: Sequence[int]) -> float:
        """The standard deviation for a weight of this shape."""
        if self.mode not in ("fan_in", "fan_out"):
            raise ArgumentError(
                f"{type(self).__name__}: mode must be 'fan_in' or 'fan_out', got {self.mode!r}"
            )
        fan = fans(shape)[self.mode == "fan_out"]
        return calculate_gain(self.nonlinearity, self.a) / math.sqrt(max(1, fan))


@dataclass(frozen=True)
class KaimingUniform(_Kaiming):
    """Uniform with std = gain / sqrt(fan); He et al. (ICCV 2015).

    Args:
        a: the slope of leaky ReLU.
        mode: `"fan_in"` keeps the scale of activations, `"fan_out"` that of gradients.
        nonlinearity: what follows; see `calculate_gain`.

    >>> from ingle.nn import init
    >>> init.KaimingUniform(nonlinearity="relu")((8, 2)).shape
    (8, 2)
    """

    def fill(self, shape: Shape, place: Place) -> Tensor:
        bound = math.sqrt(3.0) * self.std(shape)
        return Uniform(-bound, bound).fill(shape, place)


@dataclass(frozen=True)
class KaimingNormal(_Kaiming):
    """Normal with std = gain / sqrt(fan); He et al. (ICCV 2015).

    Args:
        a: the slope of leaky ReLU.
        mode: `"fan_in"` keeps the scale of activations, `"fan_out"` that of gradients.
        nonlinearity: what follows; see `calculate_gain`.

    >>> from ingle.nn import init
    >>> init.KaimingNormal(mode="fan_out")((8, 2, 3, 3)).shape
    (8, 2, 3, 3)
    """

    def fill(self, shape: Shape, place: Place) -> Tensor:
        return Normal(0.0, self.std(shape)).fill(shape, place)


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """Orthonormal rows or columns, whichever are fewer, times `gain`; Saxe et al. (ICLR 2014).

    Axes after the first count as one. The factorization runs on the host in float64.

    >>> import ingle.tensor as it
    >>> from ingle.nn import init
    >>> q = init.Orthogonal()((2, 5), "float64")
    >>> [[round(abs(v), 6) for v in row] for row in (q @ q.T).tolist()]
    [[1.0, 0.0], [0.0, 1.0]]
    """

    gain: float = 1.0

    def fill(self, shape: Shape, place: Place) -> Tensor:
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal: needs at least 2 axes, got shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        wide: Place = {**place, "dtype": "float64"}
        draw = random.normal((max(rows, columns), min(rows, columns)), **wide)
        q, r = np.linalg.qr(draw.numpy())
        # QR leaves the signs open; these make the result uniform over orthogonal matrices.
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        q = q.T if rows < columns else q
        values = self.gain * q.reshape(shape)
        return asarray(values, dtype=_float(place), device=place["device"])


def _float(place: Place) -> DType:
    return default_float() if place["dtype"] is None else as_dtype(place["dtype"])


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """`(fan_in, fan_out)` of a weight's shape.

    Raises:
        ShapeError: a shape of fewer than two axes.

    >>> from ingle.nn import init
    >>> init.fans((32, 1, 5, 5))
    (25, 800)
    """
    if len(shape) < 2:
        raise ShapeError(
            f"fans: a weight of shape {tuple(shape)} has no fan in and fan out, which need 2 axes; "
            "initialize vectors with Constant, Uniform or Normal"
        )
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, slope: float = 0.01) -> float:
    """The factor that keeps the scale of activations through a nonlinearity, as in PyTorch.

    Args:
        nonlinearity: `"linear"`, `"sigmoid"`, `"tanh"`, `"relu"`, `"leaky_relu"`, `"selu"`, or the
            name of a convolution.
        slope: of leaky ReLU.

    Raises:
        ArgumentError: an unknown nonlinearity.

    >>> from ingle.nn import init
    >>> init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(
            f"calculate_gain: unknown nonlinearity {nonlinearity!r}; known are "
            f"{', '.join([*_GAINS, 'leaky_relu'])}"
        )
    return _GAINS[nonlinearity]
