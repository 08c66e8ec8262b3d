"""MNIST: 70,000 handwritten digits of 28x28 pixels (LeCun, Cortes, Burges, 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from .arrays import Array, ArrayDataset, check_labels
from .downloads import cache_folder
from .downloads import download as fetch
from .errors import DataFileError, DataValueError, MissingDataError
from .idx import read_idx
from .images import as_floats

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
CHECKSUMS = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""SHA-256 of the gzipped files as their authors published them."""

Split = Literal["train", "valid", "test"]


def mnist(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 20.0,
    progress: bool = True,
) -> ArrayDataset:
    """MNIST, or another data set in its files, as pairs of an image and a label.

    The images are float32 of shape (1, 28, 28) from 0 (background) to 1, the labels int64. The
    training files are split as is customary: their first five sixths (50,000) are for training,
    the last sixth (10,000) for validation.

    Args:
        folder: where the four IDX files are, gzipped or not, or in `MNIST/raw` below; missing ones
            are downloaded there. The user's cache folder if not given (see `cache_folder`).
        split: "train", "valid" or "test".
        download: whether to fetch missing files.
        mirrors: the addresses to fetch from, each ending in a slash.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: a file is missing and `download` is False.
        DownloadError: a file is missing and no mirror delivered it.
        DataFileError: a file is truncated, corrupt, or does not fit the others.

    >>> from ingle.dataset import mnist
    >>> mnist("data", download=False)
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.MissingDataError: mnist: data has no train-images-idx3-ubyte.gz ...
    """
    check_split("mnist", split)
    base = cache_folder() / "mnist" if folder is None else Path(folder).expanduser()
    return labelled_images(
        "mnist", base, "MNIST", split, CHECKSUMS, mirrors if download else None, timeout, progress
    )


def check_split(name: str, split: str) -> None:
    """Raises `DataValueError` for a split that is none."""
    if split not in ("train", "valid", "test"):
        raise DataValueError(f"{name}: split must be 'train', 'valid' or 'test', got {split!r}")


def labelled_images(
    who: str,
    base: Path,
    torch_folder: str,
    split: Split,
    checksums: Mapping[str, str],
    mirrors: Sequence[str] | None,
    timeout: float,
    progress: bool,
) -> ArrayDataset:
    """A split of a data set in four files as MNIST's; without mirrors nothing is downloaded.

    `torch_folder` names the folder in which PyTorch keeps the files below `base`.
    """
    part = "t10k" if split == "test" else "train"
    paths = []
    for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
        found = _find((base, base / torch_folder / "raw"), name)
        if found is None and mirrors is not None:
            urls = [f"{mirror}{name}.gz" for mirror in mirrors]
            target = base / f"{name}.gz"
            found = fetch(urls, target, sha256=checksums[name], timeout=timeout, progress=progress)
        if found is None:
            raise MissingDataError(
                f"{who}: {base} has no {name}.gz and no {name}; put the four files of the data "
                "set there, or pass download=True"
            )
        paths.append(found)
    images, labels = _read(*paths)
    if split != "test":
        border = len(images) - len(images) // 6
        chosen = slice(None, border) if split == "train" else slice(border, None)
        images, labels = images[chosen], labels[chosen]
    return ArrayDataset(as_floats(images[:, None]), labels.astype(np.int64))


def _find(places: Sequence[Path], name: str) -> Path | None:
    dotted = name.replace("-idx", ".idx")  # how some archives spell it
    for place in places:
        for candidate in (f"{name}.gz", name, f"{dotted}.gz", dotted):
            if (place / candidate).is_file():
                return place / candidate
    return None


def _read(images_path: Path, labels_path: Path) -> tuple[Array, Array]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise DataFileError(
            f"{images_path}: expected images of 28x28 bytes, got {images.dtype} of shape "
            f"{images.shape}; is this another data set's file?"
        )
    if labels.shape != (len(images),):
        raise DataFileError(
            f"{labels_path}: expected one label for each of the {len(images)} images in "
            f"{images_path.name}, got shape {labels.shape}; the two files do not belong together"
        )
    try:
        check_labels(labels, 10)
    except DataValueError as error:
        raise DataFileError(f"{labels_path}: {error}") from None
    return images, labels
