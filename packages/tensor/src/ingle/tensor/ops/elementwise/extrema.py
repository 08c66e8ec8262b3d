"""The larger or smaller of two, and values kept within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Scalar
from ...dispatch import Operand, TensorLike, call2, handle_of, promote, refuse_storage, run, wrap
from ...dtypes import DType
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._families import PLAIN, binary
from .._guarding import guarded
from .._rules import ORDERED, REAL, elementwise_rule
from .comparison import less
from .where import where

if TYPE_CHECKING:
    from ...tensor import Tensor


def _share(g: Tensor, lost: Tensor, tied: Tensor) -> Tensor:
    # An operand that does not lose to a NaN has won.
    return where(tied, g * 0.5, where(lost, 0, g))


def _extremum(
    name: str, public: Callable[..., Any], body: Callable[..., Any], reference: Any, down: bool
) -> Any:
    def of(g: Tensor, x: Any, other: Any) -> Tensor:
        return _share(g, less(other, x) if down else less(x, other), x == other)

    return binary(
        name,
        public,
        vjp={"x1": lambda g, x1, x2: of(g, x1, x2), "x2": lambda g, x1, x2: of(g, x2, x1)},
        kinds=ORDERED,
        body=body,
        reference=reference,
        **PLAIN,
    ).op()


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger element of each pair; NaN if one is NaN. Equal ones share the gradient.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.maximum(it.asarray([1, 5]), 3).tolist()
    [3, 5]
    """
    return call2(_MAXIMUM, x1, x2)


def _maximum(x1: Any, x2: Any) -> Tensor:
    # Of two NaN or equal ones either will do; one NaN is chosen because it is no number.
    return where(less(x2, x1) | _is_nan(x1), x1, x2)


_MAXIMUM = _extremum("maximum", maximum, _maximum, np.maximum, down=False)


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller element of each pair; NaN if one is NaN. Equal ones share the gradient.

    Args:
        x1, x2: tensors that broadcast, or one of them a number; promoted to one real dtype.

    >>> import ingle.tensor as it
    >>> it.minimum(it.asarray([1, 5]), 3).tolist()
    [1, 3]
    """
    return call2(_MINIMUM, x1, x2)


def _minimum(x1: Any, x2: Any) -> Tensor:
    return where(less(x1, x2) | _is_nan(x1), x1, x2)


_MINIMUM = _extremum("minimum", minimum, _minimum, np.minimum, down=True)


@guarded
def clip(x: TensorLike, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element, or the bound that it lies beyond; NaN stays NaN.

    At a bound the gradient belongs to `x`, beyond it to the bound. Where `min` is larger than
    `max` the result is `max`, which has the gradient, too. Where both are equal nothing has that
    of elements below them, as in PyTorch.

    Args:
        x: a real tensor.
        min, max: tensors that broadcast with `x`, or numbers; no bound where None.

    Raises:
        DTypeError: `x` is complex or bool.

    >>> import ingle.tensor as it
    >>> it.clip(it.asarray([-1.0, 0.5, 2.0]), 0, 1).tolist()
    [0.0, 0.5, 1.0]
    """
    handle = handle_of(x, "clip")
    if min is None and max is None:
        return wrap(handle)
    given = [(name, v) for name, v in (("min", min), ("max", max)) if v is not None]
    promoted, *bounds = promote("clip", ("x", x), *given)
    dtype = promoted.dtype
    refuse_storage("clip", "x", dtype)
    if dtype.kind not in REAL:
        raise DTypeError(f"clip: x must be real numbers, got {dtype}; clip real(x) and imag(x)")
    low, high = _range(dtype)
    if min is None:
        bounds.insert(0, Scalar(low, dtype))
    if max is None:
        bounds.append(Scalar(high, dtype))
    return run(_CLIP, (promoted, *bounds))[0]


def _range(dtype: DType) -> tuple[float, float]:
    if dtype.is_floating:
        return float("-inf"), float("inf")
    info = np.iinfo(dtype.dtype)
    return int(info.min), int(info.max)


def _clip(x: Tensor, min: Any, max: Any) -> Tensor:
    return minimum(maximum(x, min), max)


def _clip_vjp(g: Tensor, x: Tensor, min: Any, max: Any) -> Tensor:
    return where((x < min) | (x > max), 0, g)


def _samples(draw: Draw) -> Iterator[Sample]:
    x = draw.apart((5, 8)) if draw.dtype.is_inexact else draw.array((5, 8), low=-9, high=9)
    yield Sample((x, 0, 1))
    yield Sample((x,), {"min": 0})
    yield Sample((x,), {"max": 1})
    yield Sample((x, draw.array((8,), low=-2, high=0), draw.array((5, 1), low=1)), gradient=False)
    yield Sample((draw.array((0, 3)), 0))


def _clip_reference(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, min, max)


_CLIP = Operation(
    "clip",
    tensors=("x", "min", "max"),
    rule=elementwise_rule("clip", REAL),
    traits=Traits("elementwise", cost="cheap"),
    vjp={
        "x": _clip_vjp,
        "min": lambda g, x, min, max: where((x < min) & (min < max), g, 0),
        "max": lambda g, x, min, max: where((x > max) | (min > max), g, 0),
    },
    body=_clip,
    public=clip,
    samples=_samples,
    reference=_clip_reference,
).op()


def _is_nan(x: Any) -> Any:
    return x != x  # of tensors and of numbers
