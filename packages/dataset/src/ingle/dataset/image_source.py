"""Folders of images: one folder for each class, or images with masks of their pixels' classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import IndexedDataset, position
from .errors import DataFileError, MissingDataError
from .folders import files_below, inside, labelled_files
from .images import SUFFIXES, Mode, Size, as_array, check_image_options, opened, read_image


class ImageFolder(IndexedDataset[tuple[NDArray[Any], np.int64]]):
    """Images in one folder for each class, as pairs of an image and a label.

    `FOLDER/cat/1.jpg` is of the class "cat". Files are found at once and read when asked for, also
    from folders within a class's. Labels count the classes in the order of their names.

    Args:
        folder: with a folder for each class.
        size: (height, width) to resize to, which batches need unless all images are of one size.
        mode: "RGB", "RGBA" or "L" for grey.
        dtype: "float32" for values from 0 to 1, "uint8" for 0 to 255.
        draft: whether large JPEG files are decoded at a part of their size; see `read_image`.
        fast: whether images are resized by `cykooz-resizer`; see `read_image`.
        classes: the names of the classes in the order of their labels, such as those of another
            folder; all that are there if not given.

    Raises:
        MissingDataError: the folder, or that of a class, is not there.
        DataFileError: there are no classes, or one has no images; for a sample, that its file is
            no image.
        MissingExtraError: Pillow is not installed, or with `fast` `cykooz-resizer` is not.

    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from ingle.dataset import ImageFolder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, colour in (("night", "black"), ("day", "white")):
    ...         pathlib.Path(folder, name).mkdir()
    ...         Image.new("RGB", (6, 4), colour).save(pathlib.Path(folder, name, "1.png"))
    ...     images = ImageFolder(folder, size=(2, 2))
    ...     image, label = images[0]
    >>> images.classes, image.shape, float(image.mean()), int(label)
    (('day', 'night'), (3, 2, 2), 1.0, 0)
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        size: Size | None = None,
        mode: Mode = "RGB",
        dtype: str = "float32",
        draft: bool = False,
        fast: bool = False,
        classes: Sequence[str] | None = None,
    ) -> None:
        check_image_options(size, mode, dtype, fast)
        self.draft = draft
        self.fast = fast
        self.folder = Path(folder)
        self.paths, self.labels, self.classes = labelled_files(self.folder, SUFFIXES, classes)
        self.size = size
        self.mode: Mode = mode
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int, /) -> tuple[NDArray[Any], np.int64]:
        at = position(index, len(self), self)
        image = read_image(
            self.paths[at], size=self.size, mode=self.mode, dtype=self.dtype, draft=self.draft,
            fast=self.fast,
        )  # fmt: skip
        return image, self.labels[at]

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.folder)!r}, {len(self)} images, {len(self.classes)} classes)"


class SegmentationFolder(IndexedDataset[tuple[NDArray[Any], NDArray[np.int64]]]):
    """Images with a mask each, whose pixels are classes, as pairs of an image and its labels.

    An image and its mask have the same name but for the ending, below their two folders. Masks are
    grey or palette images; the value of a pixel is its class. Images are resized smoothly, masks to
    the nearest pixel, so that no class is made up.

    Args:
        images: the folder of the images.
        masks: the folder of the masks.
        size: (height, width) to resize both to.
        mode: "RGB", "RGBA" or "L" for grey; of the images.
        dtype: "float32" for values from 0 to 1, "uint8" for 0 to 255; of the images.
        fast: whether images are resized by `cykooz-resizer`; see `read_image`.
        classes: how many there are; masks are then checked to hold 0 to `classes - 1`.
        ignore: a value that masks may hold beside the classes, customarily 255 for borders.

    Raises:
        MissingDataError: a folder is not there, or an image has no mask, or a mask no image.
        DataFileError: there are no images, or two of one name; for a sample, that a file is no
            image, that image and mask differ in size, or that a pixel is of no class.
        MissingExtraError: Pillow is not installed, or with `fast` `cykooz-resizer` is not.

    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from ingle.dataset import SegmentationFolder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("images", "masks"):
    ...         pathlib.Path(folder, name).mkdir()
    ...     Image.new("RGB", (4, 4), "green").save(pathlib.Path(folder, "images", "a.jpg"))
    ...     Image.new("L", (4, 4), 1).save(pathlib.Path(folder, "masks", "a.png"))
    ...     pairs = SegmentationFolder(folder + "/images", folder + "/masks", classes=2)
    ...     image, labels = pairs[0]
    >>> image.shape, labels.shape, labels.dtype, int(labels.max())
    ((3, 4, 4), (4, 4), dtype('int64'), 1)
    """

    def __init__(
        self,
        images: str | Path,
        masks: str | Path,
        *,
        size: Size | None = None,
        mode: Mode = "RGB",
        dtype: str = "float32",
        fast: bool = False,
        classes: int | None = None,
        ignore: int | None = None,
    ) -> None:
        check_image_options(size, mode, dtype, fast)
        self.fast = fast
        self.pairs = _pairs(Path(images), Path(masks))
        self.size = size
        self.mode: Mode = mode
        self.dtype = dtype
        self.classes = classes
        self.ignore = ignore

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int, /) -> tuple[NDArray[Any], NDArray[np.int64]]:
        image_path, mask_path = self.pairs[position(index, len(self), self)]
        mask, whole = opened(mask_path), opened(image_path)
        if mask.mode not in ("L", "P", "1", "I", "I;16"):
            raise DataFileError(
                f"{mask_path}: the mask is a {mask.mode} image; expected one value a pixel: grey "
                "(L), palette (P) or 16 bits (I;16)"
            )
        if mask.size != whole.size:
            (width, height), (w, h) = mask.size, whole.size
            raise DataFileError(
                f"{mask_path}: the mask has {width}x{height} pixels, and {image_path.name} has "
                f"{w}x{h}; they do not belong together"
            )
        labels = np.asarray(mask).astype(np.int64)
        self._check(labels, mask_path)
        if self.size is not None:
            labels = labels[np.ix_(*map(_nearest, labels.shape, self.size))]
        image = as_array(whole, image_path, self.size, self.mode, self.dtype, self.fast)
        return image, labels

    def _check(self, labels: NDArray[np.int64], path: Path) -> None:
        if self.classes is None:
            return
        wrong = (labels < 0) | (labels >= self.classes)
        if self.ignore is not None:
            wrong &= labels != self.ignore
        if wrong.any():
            y, x = (int(n) for n in np.argwhere(wrong)[0])
            beside = "" if self.ignore is None else f" and {self.ignore}"
            raise DataFileError(
                f"{path}: the pixel at row {y}, column {x} is {labels[y, x]}; {self.classes} "
                f"classes have labels 0 to {self.classes - 1}{beside} ({int(wrong.sum())} pixels "
                "are wrong); correct the mask, or pass ignore= for pixels of no class"
            )

    def __repr__(self) -> str:
        return f"SegmentationFolder({len(self)} images with masks)"


def _nearest(size: int, wanted: int) -> NDArray[np.int64]:
    """Which of `size` pixels lies nearest to the centre of each of `wanted`."""
    return ((2 * np.arange(wanted, dtype=np.int64) + 1) * size) // (2 * wanted)


def _pairs(images: Path, masks: Path) -> list[tuple[Path, Path]]:
    by_name = [_by_name(folder) for folder in (images, masks)]
    lonely = sorted(by_name[0].keys() ^ by_name[1].keys())
    if lonely:
        has, lacks = (images, masks) if lonely[0] in by_name[0] else (masks, images)
        raise MissingDataError(
            f"{has / lonely[0]}: {lacks} has no file of this name ({len(lonely)} of "
            f"{len(by_name[0] | by_name[1])} stand alone); add it, or move the other away"
        )
    return [(by_name[0][name], by_name[1][name]) for name in sorted(by_name[0])]


def _by_name(folder: Path) -> dict[str, Path]:
    inside(folder)
    found: dict[str, Path] = {}
    for path in files_below(folder, SUFFIXES):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in found:
            raise DataFileError(
                f"{path}: {found[name].name} has the same name but for its ending; delete one"
            )
        found[name] = path
    if not found:
        raise DataFileError(f"{folder}: there are no images (files in {', '.join(SUFFIXES)})")
    return found
