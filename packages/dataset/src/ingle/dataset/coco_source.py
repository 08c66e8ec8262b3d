"""Images with boxes around objects, in the JSON format of COCO (Lin et al., 2014)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import IndexedDataset, position
from .errors import DataFileError, MissingDataError
from .images import Mode, Size, as_array, check_image_options, opened

Target = dict[str, Any]


class CocoDetection(IndexedDataset[tuple[NDArray[Any], Target]]):
    """Images and the objects in them, from a file of annotations as COCO has.

    A sample is an image and a dict of `boxes` (float32 of shape (n, 4): left, top, right, bottom in
    pixels of the image as returned), `labels` (int64 of shape (n,)), `crowd` (bool of shape (n,))
    and `image_id`. Labels count the categories in the order of their ids, which have gaps in COCO.
    Use `collate_detections` in a loader.

    Args:
        annotations: the JSON file, with `images`, `annotations` and `categories`.
        folder: where the images are.
        size: (height, width) to resize images to, with their boxes; as they are if not given.
        mode: "RGB", "RGBA" or "L" for grey.
        dtype: "float32" for values from 0 to 1, "uint8" for 0 to 255.
        fast: whether images are resized by `cykooz-resizer`; see `read_image`.

    Raises:
        MissingDataError: the file is not there, or for a sample, its image is not.
        DataFileError: the file is no JSON of this form, or an annotation names an image or
            category that is not there, or its box is none; for a sample, that its file is no image
            or of another size. The error names file and annotation.
        MissingExtraError: Pillow is not installed, or with `fast` `cykooz-resizer` is not.

    >>> import json, pathlib, tempfile
    >>> from PIL import Image
    >>> from ingle.dataset import CocoDetection
    >>> notes = {
    ...     "images": [{"id": 7, "file_name": "a.png", "width": 8, "height": 4}],
    ...     "categories": [{"id": 18, "name": "dog"}],
    ...     "annotations": [{"id": 1, "image_id": 7, "category_id": 18, "bbox": [1, 0, 2, 4]}],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (8, 4)).save(pathlib.Path(folder, "a.png"))
    ...     _ = pathlib.Path(folder, "notes.json").write_text(json.dumps(notes))
    ...     image, target = CocoDetection(folder + "/notes.json", folder)[0]
    >>> image.shape, target["boxes"].tolist(), target["labels"].tolist()
    ((3, 4, 8), [[1.0, 0.0, 3.0, 4.0]], [0])
    """

    def __init__(
        self,
        annotations: str | Path,
        folder: str | Path,
        *,
        size: Size | None = None,
        mode: Mode = "RGB",
        dtype: str = "float32",
        fast: bool = False,
    ) -> None:
        check_image_options(size, mode, dtype, fast)
        self.fast = fast
        self.path = Path(annotations)
        self.folder = Path(folder)
        self.size = size
        self.mode: Mode = mode
        self.dtype = dtype
        notes = _parsed(self.path)
        parts = [_entries(notes, part, self.path) for part in _PARTS]
        self._images, categories, boxes = parts
        by_id = sorted(categories.values(), key=lambda category: category["id"])
        self.category_ids = tuple(category["id"] for category in by_id)
        self.classes = tuple(str(category.get("name", category["id"])) for category in by_id)
        labels = {identity: label for label, identity in enumerate(self.category_ids)}
        self.image_ids = tuple(self._images)
        self._targets = self._by_image(boxes, labels)

    def _by_image(
        self, notes: Mapping[Any, Mapping[str, Any]], labels: Mapping[Any, int]
    ) -> dict[Any, list[tuple[list[float], int, bool]]]:
        found: dict[Any, list[tuple[list[float], int, bool]]] = {i: [] for i in self._images}
        for identity, note in notes.items():
            where = f"{self.path}: annotation {identity}"
            if note["image_id"] not in found:
                raise DataFileError(
                    f"{where} is of the image {note['image_id']}, which is not in images"
                )
            if note["category_id"] not in labels:
                raise DataFileError(
                    f"{where} is of the category {note['category_id']}, which is not in categories"
                )
            box = _box(note["bbox"], where)
            crowd = bool(note.get("iscrowd", 0))
            found[note["image_id"]].append((box, labels[note["category_id"]], crowd))
        return found

    def __len__(self) -> int:
        return len(self.image_ids)

    def __getitem__(self, index: int, /) -> tuple[NDArray[Any], Target]:
        identity = self.image_ids[position(index, len(self), self)]
        entry = self._images[identity]
        path = self.folder / entry["file_name"]
        notes = self._targets[identity]
        boxes = np.array([box for box, _, _ in notes], dtype=np.float32).reshape(-1, 4)
        whole = opened(path)
        width, height = whole.size
        noted = (entry.get("width", width), entry.get("height", height))
        if noted != (width, height):
            raise DataFileError(
                f"{path}: the image has {width}x{height} pixels, and {self.path.name} says "
                f"{noted[0]}x{noted[1]}; its boxes are those of another image"
            )
        if self.size is not None:
            scale = np.array([self.size[1] / width, self.size[0] / height] * 2, dtype=np.float32)
            boxes *= scale
        image = as_array(whole, path, self.size, self.mode, self.dtype, self.fast)
        return image, {
            "boxes": boxes,
            "labels": np.array([label for _, label, _ in notes], dtype=np.int64),
            "crowd": np.array([crowd for _, _, crowd in notes], dtype=bool),
            "image_id": identity,
        }

    def __repr__(self) -> str:
        return f"CocoDetection({str(self.path)!r}, {len(self)} images, {len(self.classes)} classes)"


_PARTS = {
    "images": ("file_name",),
    "categories": (),
    "annotations": ("image_id", "category_id", "bbox"),
}
"""The lists of the file, and what each entry has beside its id."""

_KINDS: dict[str, type] = {
    "id": int, "image_id": int, "category_id": int, "file_name": str, "bbox": list,
}  # fmt: skip
_WORDS: dict[type, str] = {
    int: "an integer", str: "a text", list: "[left, top, width, height]",
}  # fmt: skip


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        notes = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except OSError as error:
        if path.is_dir():
            raise DataFileError(
                f"{path}: it is a folder, and the file with the notes was expected; the file "
                "comes first: CocoDetection(annotations, folder)"
            ) from None
        raise DataFileError(f"{path}: it cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{path}: it is no JSON: {error}; copy or download it again") from None
    if not isinstance(notes, dict) or any(not isinstance(notes.get(p), list) for p in _PARTS):
        have = ", ".join(notes) if isinstance(notes, dict) else type(notes).__name__
        raise DataFileError(
            f"{path}: expected an object with the lists {', '.join(_PARTS)}, got {have:.200}"
        )
    return notes


def _entries(notes: Mapping[str, Any], part: str, path: Path) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for number, entry in enumerate(notes[part]):
        for name in ("id", *_PARTS[part]):
            if not isinstance(entry, dict) or name not in entry:
                raise DataFileError(
                    f"{path}: {part}[{number}] has no {name!r}: {entry!r:.120}; add it"
                )
        for name in ("id", *_PARTS[part]):
            kind = _KINDS[name]
            if not isinstance(entry[name], kind):
                raise DataFileError(
                    f"{path}: {part}[{number}] has the {name} {entry[name]!r:.80}; expected "
                    f"{_WORDS[kind]}"
                )
        if entry["id"] in found:
            raise DataFileError(
                f"{path}: {part}[{number}] has the id {entry['id']}, which another one has"
            )
        found[entry["id"]] = entry
    return found


def _box(given: list[Any], where: str) -> list[float]:
    """Left, top, width and height as left, top, right and bottom."""
    numbers = [n for n in given if isinstance(n, int | float) and math.isfinite(n)]
    if len(numbers) != 4 or len(given) != 4:
        raise DataFileError(
            f"{where} has the bbox {given!r:.80}; expected [left, top, width, height]"
        )
    left, top, width, height = map(float, numbers)
    if width <= 0 or height <= 0:
        raise DataFileError(
            f"{where} has the bbox {given!r:.80}, whose width and height must be above zero"
        )
    return [left, top, left + width, top + height]


def collate_detections(samples: Sequence[tuple[NDArray[Any], Target]]) -> tuple[Any, list[Target]]:
    """A batch of images with different numbers of boxes.

    Args:
        samples: pairs of an image and a target of any kind.

    Returns:
        The images, stacked where all are of one shape and a list of arrays otherwise, and a list of
        the targets.

    >>> import numpy as np
    >>> from ingle.dataset import collate_detections
    >>> images, targets = collate_detections(
    ...     [(np.zeros((3, 2, 2)), {"boxes": np.zeros((n, 4))}) for n in (1, 5)]
    ... )
    >>> images.shape, [t["boxes"].shape for t in targets]
    ((2, 3, 2, 2), [(1, 4), (5, 4)])
    """
    images = [image for image, _ in samples]
    same = len({image.shape for image in images}) == 1
    return (np.stack(images) if same else images), [target for _, target in samples]
