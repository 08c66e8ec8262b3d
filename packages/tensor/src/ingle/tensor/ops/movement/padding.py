"""Elements added around a tensor, or cut off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import Number, TensorLike, handle_of, run2, wrap
from ...errors import ArgumentError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import LARGEST, as_int
from ..elementwise.where import weak_scalar
from .extending import extended
from .slicing import slice, slice_update

if TYPE_CHECKING:
    from ...tensor import Tensor

Widths = int | Sequence[int] | Sequence[Sequence[int]]
Mode = Literal["constant", "reflect", "edge", "replicate", "circular", "wrap"]


@guarded
def pad(x: TensorLike, widths: Widths, /, *, mode: Mode = "constant", value: Number = 0) -> Tensor:
    """The tensor with elements added before and after along each axis.

    Args:
        x: a tensor.
        widths: how many: one number for all sides, `(before, after)` for all axes, or such a
            pair for each axis. Negative widths cut elements off.
        mode: `"constant"` adds `value`; `"edge"` (or `"replicate"`) the outermost element;
            `"reflect"` mirrors at the outermost element, which is not repeated; `"circular"`
            (or `"wrap"`) continues with the other end.
        value: what `"constant"` adds.

    Raises:
        ShapeError: an axis is too short for the mode: `"reflect"` adds at most its size less one,
            `"circular"` at most its size.

    >>> import ingle.tensor as it
    >>> x = it.asarray([1, 2, 3])
    >>> it.pad(x, (1, 2)).tolist(), it.pad(x, (1, -1), mode="edge").tolist()
    ([0, 1, 2, 3, 0, 0], [1, 1, 2])
    """
    handle = handle_of(x, "pad")
    pairs = _pairs(widths, handle.shape)
    if mode not in _MODES:
        raise ArgumentError(f"pad: mode={mode!r} is none of {', '.join(map(repr, _MODES))}")
    whole = [max(0, n + a + b) for n, (a, b) in zip(handle.shape, pairs, strict=True)]
    if math.prod(n for n in whole if n) > LARGEST:
        raise ShapeError(
            f"pad: widths must not make more elements than memory can address, got {widths!r:.60}"
        )
    cropped = _cropped(wrap(handle), pairs)
    low = tuple(max(before, 0) for before, _ in pairs)
    high = tuple(max(after, 0) for _, after in pairs)
    fill = weak_scalar("pad", "value", value, handle.dtype) if mode == "constant" else None
    if not any(low) and not any(high):
        return cropped
    if fill is not None:
        return run2(_PAD.op(low=low, high=high), cropped._handle, fill)
    return extended(cropped, low, high, _MODES[mode])


def _rule(x: Aval, value: Aval, *, low: Shape, high: Shape) -> Aval:
    shape = tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True))
    return Aval(shape, x.dtype)


def _body(x: Tensor, value: Number, *, low: Shape, high: Shape) -> Tensor:
    from ..creation.filled import full

    shape = tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True))
    return slice_update(full(shape, value, dtype=x.dtype, device=x.device), x, low)


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3, 5)), ((1, 2), (0, 3))))
    yield Sample((draw.array((2, 0, 3)), 1), {"value": 1})
    yield Sample((draw.array((8,)), (2, 2)))


def _reference(x: Any, widths: Any, value: Any = 0) -> Any:
    return np.pad(x, widths, constant_values=value)


_PAD = Operation(
    "pad",
    tensors=("x", "value"),
    statics=("low", "high"),
    rule=_rule,
    traits=Traits("movement"),
    vjp={"x": lambda g, x_aval, low: slice(g, low, x_aval.shape)},
    body=_body,
    public=pad,
    samples=_samples,
    reference=_reference,
)


def _pairs(widths: Any, shape: Shape) -> list[tuple[int, int]]:
    if hasattr(widths, "__index__"):
        n = as_int(widths, "pad", "widths")
        return [(n, n)] * len(shape)
    if not isinstance(widths, (list, tuple)):
        raise ArgumentError(
            f"pad: widths must be a number, a pair (before, after), or a pair for each axis, got "
            f"{widths!r:.60}"
        )
    given = list(widths)
    if len(given) == 2 and all(hasattr(n, "__index__") for n in given):
        given = [tuple(given)] * len(shape)
    paired = all(isinstance(p, (list, tuple)) and len(p) == 2 for p in given)
    if len(given) != len(shape) or not paired:
        raise ArgumentError(
            f"pad: widths={widths!r} must be a number, a pair (before, after), or a pair for each "
            f"of the {len(shape)} axes of shape {shape}{_of_pytorch(given, len(shape))}"
        )
    return [(as_int(a, "pad", "widths"), as_int(b, "pad", "widths")) for a, b in given]


def _of_pytorch(given: list[Any], axes: int) -> str:
    """What a flat list of PyTorch's, the last axis first, has to be; empty for anything else."""
    if len(given) % 2 or len(given) > 2 * axes or not all(isinstance(n, int) for n in given):
        return ""
    pairs = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
    whole = [(0, 0)] * (axes - len(pairs)) + pairs[::-1]
    return f"; PyTorch's, which begins with the last axis, is {tuple(whole)}"


def _cropped(x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    if all([before >= 0 <= after for before, after in pairs]):  # noqa: C419 (faster)
        return x
    starts = [max(-before, 0) for before, _ in pairs]
    sizes = [
        n - start - max(-after, 0)
        for n, start, (_, after) in zip(x.shape, starts, pairs, strict=True)
    ]
    short = [i for i, n in enumerate(sizes) if n < 0]
    if short:
        raise ShapeError(
            f"pad: widths must not cut off more than axis {short[0]} of x {x.shape} has, got "
            f"{pairs[short[0]]}"
        )
    return slice(x, [s if n else 0 for s, n in zip(starts, sizes, strict=True)], sizes)


_MODES = {
    "constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge",
    "circular": "circular", "wrap": "circular",
}  # fmt: skip
"""Names of each mode."""
