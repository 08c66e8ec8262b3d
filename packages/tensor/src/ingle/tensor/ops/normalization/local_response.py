"""Normalisation of each element by its neighbours in other channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run
from ...errors import ArgumentError, ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import MOST, as_size, widened
from ..elementwise.cast import astype
from ..elementwise.powers import pow, square
from ..movement.padding import pad
from ..movement.slicing import slice_axis
from .layer import TRAITS, require_float

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def local_response_norm(
    x: TensorLike, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divides by (k + alpha / size * sum of squares of nearby channels)^beta.

    Krizhevsky et al.: ImageNet classification with deep convolutional neural networks (2012).

    Args:
        x: (batch, channels, ...), floats, with at least three axes.
        size: how many channels count, the element's own in their middle (`size // 2` before it).
        alpha, beta, k: the constants of the formula.

    Raises:
        ShapeError: `x` has fewer than three axes.

    >>> import ingle.tensor as it
    >>> it.local_response_norm(it.ones((1, 2, 1)), 2, alpha=8.0, beta=1.0, k=0.0).tolist()
    [[[0.25], [0.125]]]
    """
    name = "local_response_norm"
    handle, count = handle_of(x, name), as_size(size, name, "size", least=1, most=MOST)
    if len(handle.shape) < 3:
        raise ShapeError(
            f"{name}: x must be (batch, channels, ...) with at least 3 axes, got shape "
            f"{handle.shape}"
        )
    numbers = {"alpha": alpha, "beta": beta, "k": k}
    for argument, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ArgumentError(f"{name}: {argument} must be a number, got {value!r}")
    op = LOCAL_RESPONSE_NORM.op(size=count, **{n: float(v) for n, v in numbers.items()})
    return run(op, (handle,))[0]


def _rule(x: Aval, *, size: int, alpha: float, beta: float, k: float) -> Aval:
    require_float("local_response_norm", x)
    return x


def _body(x: Tensor, *, size: int, alpha: float, beta: float, k: float) -> Tensor:
    wide, channels = widened(x), x.shape[1]
    # Beyond the first and last channel there is nothing but zeros.
    before, behind = (min(n, channels) for n in (size // 2, (size - 1) // 2))
    sides = [(0, 0), (before, behind), *((0, 0),) * (x.ndim - 2)]
    squares = pad(square(wide), sides)
    total = slice_axis(squares, 1, 0, channels)
    for first in range(1, before + behind + 1):
        total = total + slice_axis(squares, 1, first, channels)
    return astype(wide * pow(total * (alpha / size) + k, -beta), x.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((2, 5, 3)), 3), {"alpha": 0.5}, condition=8)
        yield Sample((draw.array((1, 3, 2, 5)), 2), {"alpha": 1.0, "beta": 0.5, "k": 2.0})
        yield Sample((draw.array((2, 2, 3)), 5), {"alpha": 1.0}, condition=8)
        yield Sample((draw.array((0, 2, 3)), 2))


def _reference(
    x: Any, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    out: Any = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(axis=1)) ** beta
    return out


LOCAL_RESPONSE_NORM = Operation(
    "local_response_norm",
    tensors=("x",),
    statics=("size", "alpha", "beta", "k"),
    rule=_rule,
    traits=TRAITS,
    body=_body,
    public=local_response_norm,
    samples=_samples,
    reference=_reference,
)
