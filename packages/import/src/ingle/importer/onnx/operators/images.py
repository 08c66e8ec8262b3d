"""Pictures: resizing, sampling at places, reading files."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dtypes import integer_range
from ingle.tensor.errors import MissingPackageError

from ...errors import ModelError
from ..registry import operator
from ..values import Host, bounded, ints


@operator("Resize", 11)
def resize(
    x: Tensor, roi: Host | None = None, scales: Host | None = None, sizes: Host | None = None, *,
    antialias: int = 0, axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    """Another size, by factors or sizes of all or some axes."""
    over = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    out, factor = list(x.shape), [1.0] * x.ndim
    if sizes is not None and sizes.size:
        wanted = ints(sizes)
        ratios = [n / x.shape[a] for n, a in zip(wanted, over, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            one = (min if keep_aspect_ratio_policy == "not_larger" else max)(ratios)
            ratios = [one] * len(over)
            wanted = [math.floor(one * x.shape[a] + 0.5) for a in over]
        for a, n, ratio in zip(over, wanted, ratios, strict=True):
            out[a], factor[a] = n, ratio
    elif scales is not None and scales.size:
        for a, s in zip(over, scales.astype(np.float64).tolist(), strict=True):
            factor[a], out[a] = s, math.floor(x.shape[a] * s)
    else:
        raise ModelError("Resize: neither scales nor sizes are given")
    region = None
    if roi is not None and roi.size:
        ends = roi.astype(np.float64).tolist()
        region = {a: (ends[i], ends[i + len(over)]) for i, a in enumerate(over)}
    return resized(
        x, out, factor, mode=mode, transform=coordinate_transformation_mode, nearest=nearest_mode,
        cubic=cubic_coeff_a, antialias=bool(antialias), exclude=bool(exclude_outside),
        region=region, beyond=extrapolation_value,
    )  # fmt: skip


@operator("Resize", 10)
def resize_before_11(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    factors = scales.astype(np.float64).tolist()
    out = [math.floor(n * s) for n, s in zip(x.shape, factors, strict=True)]
    return resized(x, out, factors, mode=mode, transform="asymmetric", nearest="floor")


def resized(
    x: Tensor, out: list[int], factor: list[float], *, mode: str, transform: str, nearest: str,
    cubic: float = -0.75, antialias: bool = False, exclude: bool = False,
    region: dict[int, tuple[float, float]] | None = None, beyond: float = 0.0,
) -> Tensor:  # fmt: skip
    """One axis after the other: each new element is a weighted sum of a few old ones."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ModelError(f"Resize: mode must be nearest, linear or cubic, got {mode!r}")
    bounded("Resize", out)
    dtype = x.dtype
    if mode != "nearest" and not dtype.is_floating:
        x = x.astype(it.float64)
    outside: Tensor | None = None
    for a in range(x.ndim):
        ends = (region or {}).get(a, (0.0, 1.0))
        crop = transform == "tf_crop_and_resize"
        if out[a] == x.shape[a] and factor[a] == 1 and (not crop or ends == (0.0, 1.0)):
            continue
        n = x.shape[a]
        at = _places(out[a], n, factor[a], transform, ends)
        if mode == "nearest":
            places = np.clip(_rounded(at, nearest), 0, n - 1).astype(np.int64)
            x = it.take(x, it.asarray(places, device=x.device), axis=a)
        else:
            x = _weighted(x, a, *_taps(at, n, factor[a], mode, cubic, antialias, exclude))
        if crop and ((at < 0) | (at > n - 1)).any():
            lost = it.asarray((at < 0) | (at > n - 1), device=x.device)
            lost = it.reshape(lost, (-1, *[1] * (x.ndim - 1 - a)))
            outside = lost if outside is None else it.logical_or(outside, lost)
    if outside is not None:
        x = it.where(it.broadcast_to(outside, x.shape), beyond, x)
    if x.dtype is not dtype:
        low, high = integer_range(dtype)
        x = it.clip(it.round(x), low, high).astype(dtype)
    return x


def _places(
    count: int, n: int, scale: float, transform: str, ends: tuple[float, float]
) -> np.ndarray:
    """Where the centre of each new element lies among the old ones."""
    i = np.arange(count, dtype=np.float64)
    whole = scale * n
    if transform == "asymmetric":
        return i / scale
    if transform == "align_corners":
        return i * (n - 1) / (whole - 1) if whole != 1 else np.zeros(count)
    if transform == "tf_crop_and_resize":
        start, stop = ends
        if whole == 1:
            return np.full(count, (start + stop) * (n - 1) / 2)
        return start * (n - 1) + i * (stop - start) * (n - 1) / (whole - 1)
    centre = (i + 0.5) / scale - 0.5
    if transform == "half_pixel":
        return centre
    if transform == "pytorch_half_pixel":
        return centre if whole != 1 else np.full(count, -0.5)
    if transform == "half_pixel_symmetric":
        return centre + n / 2 * (1 - count / whole)
    raise ModelError(f"Resize: coordinate_transformation_mode {transform!r} is none of ONNX's")


def _rounded(at: np.ndarray, how: str) -> np.ndarray:
    rules: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5), "floor": np.floor, "ceil": np.ceil,
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    }  # fmt: skip
    if how not in rules:
        raise ModelError(f"Resize: nearest_mode {how!r} is none of ONNX's")
    return rules[how](at)


def _taps(
    at: np.ndarray, n: int, scale: float, mode: str, cubic: float, antialias: bool, exclude: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights [new, taps] of the old elements that each new one is made of."""
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    count = 2 * math.ceil(reach)
    places = np.floor(at)[:, None] + np.arange(1 - count // 2, count // 2 + 1)
    distance = np.abs(places - at[:, None]) * stretch
    weights = np.maximum(1 - distance, 0) if mode == "linear" else _keys(distance, cubic)
    if exclude:
        weights = np.where((places < 0) | (places >= n), 0, weights)
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, n - 1).astype(np.int64), weights


def _keys(d: np.ndarray, a: float) -> np.ndarray:
    """The cubic kernel (Keys, IEEE Trans. ASSP 29, 1981)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = a * (((d - 5) * d + 8) * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _weighted(x: Tensor, axis: int, places: np.ndarray, weights: np.ndarray) -> Tensor:
    total: Tensor | None = None
    behind = [1] * (x.ndim - 1 - axis)
    for k in range(places.shape[1]):
        if not weights[:, k].any():
            continue
        part = it.take(x, it.asarray(places[:, k], device=x.device), axis=axis)
        factor = it.asarray(weights[:, k].reshape(-1, *behind), dtype=x.dtype, device=x.device)
        total = part * factor if total is None else total + part * factor
    assert total is not None
    return total


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:  # fmt: skip
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return it.grid_sample(
        x, grid, mode=names.get(mode, mode), padding_mode=padding_mode,
        align_corners=bool(align_corners),
    )  # fmt: skip


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Host, *, align_corners: int = 0) -> Tensor:
    return it.affine_grid(theta, ints(size), align_corners=bool(align_corners))


@operator("ImageDecoder")
def image_decoder(data: Host, *, pixel_format: str = "RGB") -> Host:
    """The pixels of a picture's file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError(
            "ImageDecoder needs Pillow: pip install ingle-import[images]"
        ) from error
    try:
        picture = Image.open(io.BytesIO(data.astype(np.uint8).tobytes()))
        if pixel_format == "Grayscale":
            return np.asarray(picture.convert("L"))[:, :, None]
        pixels = np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ModelError(f"ImageDecoder: the bytes are no picture: {error}") from error
    if pixel_format not in ("RGB", "BGR"):
        raise ModelError(f"ImageDecoder: pixel_format {pixel_format!r} is none of ONNX's")
    return pixels if pixel_format == "RGB" else pixels[:, :, ::-1]
