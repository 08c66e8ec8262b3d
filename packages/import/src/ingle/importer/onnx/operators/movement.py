"""What moves elements and changes none: on tensors, shapes of the host and strings alike."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Host, Value, bounded, ints, namespace


@operator("Identity")
def identity(x: Value) -> Value:
    return x


@operator("Shape")
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Host:
    """The sizes of axes, on the host."""
    return np.asarray(x.shape[start:end], np.int64)


@operator("Size")
def size(x: Value) -> Host:
    return np.asarray(int(np.prod(x.shape, dtype=np.int64)), np.int64)


@operator("Reshape", 5)
def reshape(x: Array, shape: Host, *, allowzero: int = 0) -> Array:
    """Another shape: -1 is what is left, 0 the size of the same axis unless `allowzero`."""
    sizes = ints(shape)
    if not allowzero:
        sizes = [x.shape[a] if n == 0 else n for a, n in enumerate(sizes)]
    return namespace(x).reshape(x, tuple(sizes))


@operator("Reshape", 1)
def reshape_before_5(
    x: Array, *, shape: list[int], consumed_inputs: list[int] | None = None
) -> Array:
    return reshape(x, np.asarray(shape))


@operator("Flatten")
def flatten(x: Array, *, axis: int = 1) -> Array:
    """A matrix: the axes before `axis` are its rows."""
    at = axis if axis >= 0 else axis + x.ndim
    rows = int(np.prod(x.shape[:at], dtype=np.int64))
    columns = int(np.prod(x.shape[at:], dtype=np.int64))
    return namespace(x).reshape(x, (rows, columns))


@operator("Squeeze", 13)
def squeeze(x: Array, axes: Host | None = None) -> Array:
    chosen = [a for a, n in enumerate(x.shape) if n == 1] if axes is None else ints(axes)
    return namespace(x).squeeze(x, axis=tuple(chosen)) if chosen else x


@operator("Squeeze", 1)
def squeeze_before_13(x: Array, *, axes: list[int] | None = None) -> Array:
    return squeeze(x, None if axes is None else np.asarray(axes, np.int64))


@operator("Unsqueeze", 13)
def unsqueeze(x: Array, axes: Host) -> Array:
    """Axes of size one, at places counted in the result."""
    chosen = ints(axes)
    ndim = x.ndim + len(chosen)
    new = {a % ndim for a in chosen}
    if len(new) != len(chosen):
        raise ModelError(f"Unsqueeze: the axes {chosen} name one twice")
    sizes = iter(x.shape)
    return namespace(x).reshape(x, tuple(1 if a in new else next(sizes) for a in range(ndim)))


@operator("Unsqueeze", 1)
def unsqueeze_before_13(x: Array, *, axes: list[int]) -> Array:
    return unsqueeze(x, np.asarray(axes))


@operator("Transpose")
def transpose(x: Array, *, perm: list[int] | None = None) -> Array:
    return namespace(x).permute_dims(x, tuple(perm or range(x.ndim)[::-1]))


@operator("Concat")
def concat(*xs: Array, axis: int = 1) -> Array:
    return xs[0] if len(xs) == 1 else namespace(*xs).concat(xs, axis=axis)


@operator("Expand")
def expand(x: Array, shape: Host) -> Array:
    """Broadcast in both directions: an axis of the target may be one where that of `x` is not."""
    target = it.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))
    return namespace(x).broadcast_to(x, bounded("Expand", target))


@operator("Tile", 6)
def tile(x: Array, repeats: Host) -> Array:
    counts = ints(repeats)
    bounded("Tile", [n * k for n, k in zip(x.shape, counts, strict=True)])
    return namespace(x).tile(x, tuple(counts))


@operator("Tile", 1)
def tile_before_6(x: Array, tiles: Host, axis: Host) -> Array:
    """Repeated along one axis."""
    repeats = np.ones(x.ndim, np.int64)
    repeats[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
    return tile(x, repeats)


@operator("Slice", 10)
def slice_(
    x: Array, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None
) -> Array:
    """A range of some axes; limits beyond the ends are the ends."""
    first, last = ints(starts), ints(ends)
    over = list(range(len(first))) if axes is None else ints(axes)
    by = [1] * len(first) if steps is None else ints(steps)
    key = [slice(None)] * x.ndim
    for a, start, stop, step in zip(over, first, last, by, strict=True):
        n = x.shape[a]
        key[a] = _range(start, stop, step, n)
    return x[tuple(key)]


def _range(start: int, stop: int, step: int, n: int) -> slice:
    if step == 0:
        raise ModelError("Slice: a step is 0")
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first = min(max(start + n if start < 0 else start, max(low, 0)), high)
    last = min(max(stop + n if stop < 0 else stop, low), high)
    return slice(first, None if last < 0 else last, step)


@operator("Slice", 1)
def slice_before_10(
    x: Array, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Array:
    return slice_(
        x, np.asarray(starts), np.asarray(ends), None if axes is None else np.asarray(axes)
    )


@operator("Split", 13)
def split(
    x: Array, split: Host | None = None, *, axis: int = 0, num_outputs: int | None = None,
    outputs: int,
) -> tuple[Array, ...]:  # fmt: skip
    """Parts along an axis: of given sizes, or so many, of which the last may be smaller."""
    n = x.shape[axis]
    if split is not None:
        sizes = ints(split)
    else:
        count = num_outputs or outputs
        part = -(-n // count)
        sizes = [min(part, max(n - i * part, 0)) for i in range(count)]
    if sum(sizes) != n:
        raise ModelError(f"Split: parts of {sizes} do not make the {n} of axis {axis}")
    ends = np.cumsum(sizes)
    key = [slice(None)] * x.ndim
    parts = []
    for end, length in zip(ends.tolist(), sizes, strict=True):
        key[axis] = slice(end - length, end)
        parts.append(x[tuple(key)])
    return tuple(parts)


@operator("Split", 1)
def split_before_13(
    x: Array, sizes: Host | None = None, *, axis: int = 0, split: list[int] | None = None,
    outputs: int,
) -> Array:  # fmt: skip
    chosen = sizes if split is None else np.asarray(split)
    return globals()["split"](x, chosen, axis=axis, outputs=outputs)


@operator("Pad", 11)
def pad(
    x: Array, pads: Host, value: Host | None = None, axes: Host | None = None, *,
    mode: str = "constant",
) -> Array:  # fmt: skip
    """Wider at both ends of axes; a negative width cuts."""
    over = list(range(x.ndim)) if axes is None else [a % x.ndim for a in ints(axes)]
    widths = ints(pads)
    if len(widths) != 2 * len(over):
        raise ModelError(f"Pad: {len(widths)} widths for {len(over)} axes, expected two for each")
    ends = [(0, 0)] * x.ndim
    for i, a in enumerate(over):
        ends[a] = widths[i], widths[i + len(over)]
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, ends, strict=True))]
    more = [(max(a, 0), max(b, 0)) for a, b in ends]
    fill = 0 if value is None or not value.size else value.reshape(-1)[0].item()
    return _padded(x, more, mode, fill)


def _padded(x: Array, widths: list[tuple[int, int]], mode: str, fill: float) -> Array:
    bounded("Pad", [n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)])
    if isinstance(x, np.ndarray):
        extra = {"constant_values": fill} if mode == "constant" else {}
        return np.pad(x, widths, mode=mode, **extra)  # type: ignore[call-overload]
    if mode == "constant":
        return it.pad(x, widths, value=fill)
    # One axis after the other by places, which has no limit on the width.
    for a, (before, behind) in enumerate(widths):
        if before or behind:
            places = np.pad(np.arange(x.shape[a]), (before, behind), mode=mode)  # type: ignore[call-overload]
            x = it.take(x, it.asarray(places, device=x.device), axis=a)
    return x


@operator("Pad", 2)
def pad_before_11(
    x: Array, *, pads: list[int], mode: str = "constant", value: float = 0.0
) -> Array:
    return pad(x, np.asarray(pads), np.asarray(value), mode=mode)


@operator("Pad", 1)
def pad_before_2(
    x: Array, *, paddings: list[int], mode: str = "constant", value: float = 0.0
) -> Array:
    return pad(x, np.asarray(paddings), np.asarray(value), mode=mode)


@operator("CenterCropPad")
def center_crop_pad(x: Array, shape: Host, *, axes: list[int] | None = None) -> Array:
    """Cut or padded with zeros to a size, around the middle."""
    over = list(range(x.ndim)) if axes is None else axes
    for a, n in zip(over, ints(shape), strict=True):
        have = x.shape[a]
        key = [slice(None)] * x.ndim
        if have > n:
            key[a] = slice((have - n) // 2, (have - n) // 2 + n)
            x = x[tuple(key)]
        elif have < n:
            widths = [(0, 0)] * x.ndim
            widths[a] = (n - have) // 2, n - have - (n - have) // 2
            x = _padded(x, widths, "constant", 0)
    return x


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels become blocks of pixels."""
    n, c, h, w = x.shape
    b = blocksize
    inner = c // (b * b)
    if mode == "DCR":
        parts = it.permute_dims(it.reshape(x, (n, b, b, inner, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = it.permute_dims(it.reshape(x, (n, inner, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return it.reshape(parts, (n, inner, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels become channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = it.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return it.reshape(it.permute_dims(parts, order), (n, c * b * b, h // b, w // b))


@operator("Trilu")
def trilu(x: Tensor, k: Host | None = None, *, upper: int = 1) -> Tensor:
    """A triangle of each matrix, zeros elsewhere."""
    at = 0 if k is None else int(k.reshape(-1)[0])
    if not x.size:
        return x
    return it.triu(x, k=at) if upper else it.tril(x, k=at)


@operator("ReverseSequence")
def reverse_sequence(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first steps of each sequence, as many as its length, in the other order."""
    steps = it.arange(x.shape[time_axis], device=x.device, dtype=it.int64)
    sizes = it.expand_dims(lengths.astype(it.int64), 1)
    places = it.where(steps < sizes, sizes - 1 - steps, steps)
    if batch_axis > time_axis:
        places = it.matrix_transpose(places)
    places = it.reshape(places, (*places.shape, *[1] * (x.ndim - 2)))
    return it.take_along_axis(x, it.broadcast_to(places, x.shape), axis=time_axis)


@operator("Compress")
def compress(x: Array, condition: Host, *, axis: int | None = None) -> Array:
    """The slices along an axis for which the condition holds."""
    if axis is None:
        x, axis = namespace(x).reshape(x, (-1,)), 0
    places = np.flatnonzero(condition[: x.shape[axis]])
    return taken(x, places, axis)


def taken(x: Array, places: np.ndarray, axis: int) -> Array:
    """Slices of an array or tensor by places of the host."""
    if isinstance(x, np.ndarray):
        return np.take(x, places, axis=axis)
    return it.take(x, it.asarray(places, device=x.device), axis=axis)


@operator("Upsample", 9)
def upsample(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    """Larger by factors, as before `Resize`."""
    from .images import resized

    factors = [float(s) for s in scales]
    sizes = [int(n * s) for n, s in zip(x.shape, factors, strict=True)]
    return resized(x, sizes, factors, mode=mode, transform="asymmetric", nearest="floor")


@operator("Upsample", 7)
def upsample_before_9(x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    return upsample(x, np.asarray(scales), mode=mode)


@operator("Upsample", 1)
def upsample_before_7(
    x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    """Of pictures alone, whose two axes have a factor each."""
    mode = "linear" if mode == "bilinear" else mode
    return upsample(x, np.asarray([1.0, 1.0, height_scale, width_scale]), mode=mode)
