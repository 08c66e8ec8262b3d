"""Regions of pictures: pooling inside of boxes, choosing among boxes."""

from __future__ import annotations

import math

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import Host


@operator("RoiAlign", 16)
def roi_align(
    x: Tensor, rois: Host, batch_indices: Host, *,
    coordinate_transformation_mode: str = "half_pixel", mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Each box as a small picture of samples between the pixels (He et al., arXiv 1703.06870)."""
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    out = (output_height, output_width)
    found = []
    for box, batch in zip(rois.astype(np.float64), batch_indices.tolist(), strict=True):
        corners = box * spatial_scale - shift
        sides = []
        for start, stop, cells, size in (
            (corners[1], corners[3], out[0], x.shape[2]),
            (corners[0], corners[2], out[1], x.shape[3]),
        ):  # fmt: skip
            length = stop - start if shift else max(stop - start, 1.0)
            each = sampling_ratio if sampling_ratio > 0 else math.ceil(length / cells)
            steps = (np.arange(cells * max(each, 1)) + 0.5) * length / (cells * max(each, 1))
            sides.append((_between(start + steps, size), max(each, 1)))
        found.append(_pooled(x[batch], sides, out, mode))
    if not found:
        return it.zeros((0, x.shape[1], *out), dtype=x.dtype, device=x.device)
    return it.stack(found)


def _between(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place the pixels on both sides and their weights; outside there is nothing."""
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.minimum(np.floor(at), size - 1).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    more = at - low
    weights = np.stack([1 - more, more]) * inside
    return low, high, weights


def _pooled(
    picture: Tensor, sides: list[tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]],
    out: tuple[int, int], mode: str,
) -> Tensor:  # fmt: skip
    ((rows, rows_each), (columns, columns_each)) = sides
    parts = []
    for i in range(2):
        for j in range(2):
            at_row = it.asarray(rows[i], device=picture.device)
            at_column = it.asarray(columns[j], device=picture.device)
            corner = it.take(it.take(picture, at_row, axis=1), at_column, axis=2)
            weight = np.multiply.outer(rows[2][i], columns[2][j])
            parts.append(corner * it.asarray(weight, dtype=picture.dtype, device=picture.device))
    shape = (picture.shape[0], out[0], rows_each, out[1], columns_each)
    if mode == "avg":
        return it.mean(it.reshape(parts[0] + parts[1] + parts[2] + parts[3], shape), axis=(2, 4))
    if mode != "max":
        raise ModelError(f"RoiAlign: mode must be avg or max, got {mode!r}")
    # The largest of weighted corners and not of their sum: so it is in the operator's definition.
    largest = it.maximum(it.maximum(parts[0], parts[1]), it.maximum(parts[2], parts[3]))
    return it.max(it.reshape(largest, shape), axis=(2, 4))


@operator("RoiAlign", 10)
def roi_align_before_16(
    x: Tensor, rois: Host, batch_indices: Host, *, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    return roi_align(
        x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


@operator("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Host, *, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Tensor:
    """The largest in each cell of each box, whose rows are (batch, x1, y1, x2, y2)."""
    found = []
    for batch, *box in rois.tolist():
        x1, y1, x2, y2 = (math.floor(v * spatial_scale + 0.5) for v in box)
        rows = _cells(y1, y2, pooled_shape[0], x.shape[2])
        columns = _cells(x1, x2, pooled_shape[1], x.shape[3])
        picture = x[int(batch)]
        empty = it.zeros(x.shape[1], dtype=x.dtype, device=x.device)
        cells = [
            it.max(picture[:, r, c], axis=(1, 2))
            if r.stop > r.start and c.stop > c.start
            else empty
            for r in rows
            for c in columns
        ]
        found.append(it.reshape(it.stack(cells, axis=1), (x.shape[1], *pooled_shape)))
    return it.stack(found)


def _cells(start: int, stop: int, count: int, size: int) -> list[slice]:
    each = max(stop - start + 1, 1) / count
    return [
        slice(
            min(max(math.floor(i * each) + start, 0), size),
            min(max(math.ceil((i + 1) * each) + start, 0), size),
        )
        for i in range(count)
    ]


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Host, scores: Host, most: Host | None = None, iou_threshold: Host | None = None,
    score_threshold: Host | None = None, *, center_point_box: int = 0,
) -> Host:  # fmt: skip
    """The best boxes of each class that overlap no better one too much: (batch, class, box)."""
    limit = 0 if most is None else int(most.reshape(-1)[0])
    overlap = 0.0 if iou_threshold is None else float(iou_threshold.reshape(-1)[0])
    least = -np.inf if score_threshold is None else float(score_threshold.reshape(-1)[0])
    found = []
    for b in range(boxes.shape[0]):
        corners = _corners(boxes[b], bool(center_point_box))
        for c in range(scores.shape[1]):
            order = np.argsort(-scores[b, c], kind="stable")
            order = order[scores[b, c][order] > least]
            kept: list[int] = []
            for i in order.tolist():
                if len(kept) == limit:
                    break
                if all(_iou(corners[i], corners[k]) <= overlap for k in kept):
                    kept.append(i)
            found += [(b, c, i) for i in kept]
    return np.asarray(found, np.int64).reshape(-1, 3)


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    if centred:
        half = boxes[:, 2:] / 2
        return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    return np.concatenate([
        np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    ], axis=1)  # fmt: skip


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    """The common area of two boxes as a part of what they cover together."""
    common = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    both = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common
    return float(common / both) if both > 0 else 0.0
