"""Mean average precision of detected boxes, as COCO evaluates it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.errors import ArgumentError, ShapeError

from .base import Doubles, Metric

Rows = dict[str, Doubles]
_RECALLS = np.linspace(0.0, 1.0, 101)


class MeanAveragePrecision(Metric):
    """mAP of boxes as COCO's (Lin et al., 2014): the mean over classes and IoU thresholds.

    In each image and class, boxes are matched from the highest score down, each with the free true
    box that it overlaps most, by at least the threshold. Precision, made to fall with recall, is
    averaged at the recalls 0, 0.01 ... 1. Classes of area are not told apart.

    Outputs are a list with one dict for each image, `{"boxes": (n, 4), "scores": (n,), "labels":
    (n,)}`, targets one with `{"boxes": (m, 4), "labels": (m,)}`, of tensors or arrays. Boxes are
    left, top, right, bottom; one of the outputs whose right is left of its left, as nets give them
    at first, overlaps nothing. A class without true boxes is left out; NaN if there is none.

    Where targets have `"crowd": (m,)`, as those of `CocoDetection`, boxes of crowds are not asked
    for, and what lies within one by the threshold is neither right nor wrong.

    Args:
        thresholds: of the intersection over union; 0.5, 0.55 ... 0.95 if not given.
        most: how many boxes of each image and class count, those of the highest scores.

    Raises:
        ShapeError: lists or arrays do not fit as said; the message names the image.
        ArgumentError: a true box has its right left of its left, or its bottom above its top.

    >>> from ingle.train import MeanAveragePrecision
    >>> import numpy as np
    >>> box = np.array([[0.0, 0.0, 10.0, 10.0]])
    >>> found = [{"boxes": box, "scores": np.array([0.9]), "labels": np.array([1])}]
    >>> metric = MeanAveragePrecision()
    >>> metric.update(found, [{"boxes": box * 0.8, "labels": np.array([1])}], 0.0)
    >>> metric.compute()
    0.3
    """

    name = "map"

    def __init__(self, thresholds: Sequence[float] | None = None, *, most: int = 100) -> None:
        name, given = "MeanAveragePrecision", [0.5 + 0.05 * i for i in range(10)]
        if thresholds is not None:
            if not isinstance(thresholds, Iterable):
                raise ArgumentError(f"{name}: thresholds must be a list, got {thresholds!r:.80}")
            given = [number(name, "each of thresholds", t) for t in thresholds]
        if not given or not all(0.0 < t <= 1.0 for t in given):
            raise ArgumentError(
                f"MeanAveragePrecision: thresholds must be within 0 and 1, got {given}"
            )
        self.thresholds = np.array(given)
        self.most = whole(name, "most", most, least=1)
        self.reset()

    def reset(self) -> None:
        self.images: list[tuple[Rows, Rows]] = []

    def update(self, outputs: Any, targets: Any, loss: float) -> None:
        if not (isinstance(outputs, list | tuple) and isinstance(targets, list | tuple)):
            raise ShapeError(
                "MeanAveragePrecision: outputs and targets must be lists with a dict for each "
                f"image, got {type(outputs).__name__} and {type(targets).__name__}"
            )
        if len(outputs) != len(targets):
            raise ShapeError(
                f"MeanAveragePrecision: there are outputs of {len(outputs)} images and targets "
                f"of {len(targets)}; give one dict for each image in both, with boxes of shape "
                "(0, 4) where there are none"
            )
        # All are read before any is kept, so that an error leaves the metric as it was.
        read = [
            (_rows("outputs", i, o, ("scores", "labels")), _rows("targets", i, t, ("labels",)))
            for i, (o, t) in enumerate(zip(outputs, targets, strict=True))
        ]
        self.images.extend(read)

    def compute(self) -> float:
        labels = sorted(
            {float(one) for _, true in self.images for one in true["labels"][true["crowd"] == 0]}
        )
        if not labels:
            return float("nan")
        return float(np.mean([self._of_class(label) for label in labels]))

    def _of_class(self, label: float) -> float:
        scores: list[Doubles] = []
        hits: list[NDArray[np.bool_]] = []
        within: list[NDArray[np.bool_]] = []
        total = 0
        for found, true in self.images:
            mine, crowd = found["labels"] == label, true["crowd"] > 0
            wanted = true["boxes"][(true["labels"] == label) & ~crowd]
            crowds = true["boxes"][(true["labels"] == label) & crowd]
            order = np.argsort(-found["scores"][mine], kind="stable")[: self.most]
            boxes = found["boxes"][mine][order]
            total += len(wanted)
            scores.append(found["scores"][mine][order])
            hits.append(self._matched(boxes, wanted))
            covered = overlaps(boxes, crowds, of_first=True).max(axis=1, initial=0.0)
            within.append(covered >= self.thresholds[:, None] - 1e-10)
        order = np.argsort(-np.concatenate(scores), kind="stable")
        ordered, passed = (np.concatenate(part, axis=1)[:, order] for part in (hits, within))
        rows = [row[row | ~passes] for row, passes in zip(ordered, passed, strict=True)]
        return float(np.mean([_interpolated(row, total) for row in rows]))

    def _matched(self, boxes: Doubles, wanted: Doubles) -> NDArray[np.bool_]:
        """Which boxes hit, by threshold; boxes begin with that of the highest score."""
        overlap = overlaps(boxes, wanted)
        hits = np.zeros((len(self.thresholds), len(boxes)), np.bool_)
        for t, threshold in enumerate(self.thresholds):
            free = np.ones(len(wanted), np.bool_)
            for b in range(len(boxes)):
                candidates = np.where(free, overlap[b], -1.0)
                best = int(candidates.argmax()) if len(wanted) else -1
                if best >= 0 and candidates[best] >= threshold - 1e-10:
                    free[best], hits[t, b] = False, True
        return hits

    def state(self) -> dict[str, Any]:
        return {"images": [[_listed(found), _listed(true)] for found, true in self.images]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.images = [(_arrays(found), _arrays(true)) for found, true in state["images"]]


def overlaps(first: Doubles, second: Doubles, *, of_first: bool = False) -> Doubles:
    """The intersection over union of each of n boxes with each of m: (n, m).

    Args:
        first: (n, 4), left, top, right, bottom.
        second: (m, 4), likewise.
        of_first: whether it is the intersection over the first box instead, for crowds.

    >>> import numpy as np
    >>> from ingle.train.metrics.detection import overlaps
    >>> overlaps(np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[1.0, 0.0, 3.0, 2.0]])).round(4)
    array([[0.3333]])
    """
    corner = np.maximum(first[:, None, :2], second[None, :, :2])
    other = np.minimum(first[:, None, 2:], second[None, :, 2:])
    common = np.clip(other - corner, 0.0, None).prod(axis=-1)
    sizes = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=-1) for boxes in (first, second)]
    union = sizes[0][:, None] + (0.0 if of_first else sizes[1][None, :] - common)
    union = np.broadcast_to(union, common.shape)
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0))


def _interpolated(hits: NDArray[np.bool_], total: int) -> float:
    """The mean over 101 recalls of the best precision at that recall or a higher one."""
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    place = np.searchsorted(right / total, _RECALLS, side="left")
    return float(np.append(falling, 0.0)[np.minimum(place, len(falling))].mean())


def _rows(side: str, image: int, given: Any, keys: tuple[str, ...]) -> Rows:
    if not isinstance(given, Mapping) or not {"boxes", *keys} <= set(given):
        shown = sorted(given) if isinstance(given, Mapping) else type(given).__name__
        raise ShapeError(
            f"MeanAveragePrecision: {side} of image {image} of the batch must be a dict with "
            f"{', '.join(('boxes', *keys))}, got {shown}"
        )
    rows = {key: _host(given[key]) for key in ("boxes", *keys)}
    count = len(rows["labels"]) if rows["labels"].ndim else -1
    if side == "targets":
        keys = (*keys, "crowd")
        rows["crowd"] = _host(given["crowd"]) if "crowd" in given else np.zeros(max(count, 0))
    if rows["boxes"].shape != (count, 4) or any(rows[key].shape != (count,) for key in keys):
        shapes = ", ".join(f"{key} {list(rows[key].shape)}" for key in rows)
        raise ShapeError(
            f"MeanAveragePrecision: {side} of image {image} of the batch must be boxes (n, 4)"
            f"{''.join(f', {key} (n,)' for key in keys)}, got {shapes}; no boxes are (0, 4)"
        )
    if side == "targets" and (rows["boxes"][:, 2:] < rows["boxes"][:, :2]).any():
        raise ArgumentError(
            f"MeanAveragePrecision: {side} of image {image} of the batch have a box whose right "
            "is left of its left, or bottom above its top; boxes are left, top, right, bottom, "
            "not left, top, width, height"
        )
    return rows


def _host(part: Any) -> Doubles:
    return np.asarray(part.numpy() if isinstance(part, Tensor) else part).astype(np.float64)


def _listed(rows: Rows) -> dict[str, Any]:
    return {key: array.tolist() for key, array in rows.items()}


def _arrays(lists: Mapping[str, Any]) -> Rows:
    arrays = {key: np.array(value, np.float64) for key, value in lists.items()}
    if "scores" not in arrays:  # checkpoints from before had none
        arrays.setdefault("crowd", np.zeros(len(arrays["labels"])))
    return arrays | {"boxes": arrays["boxes"].reshape(-1, 4)}
