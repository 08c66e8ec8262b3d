"""The digits to train on: MNIST, or scikit-learn's where MNIST is not to be had."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ingle.dataset import ArrayDataset, DownloadError, MissingExtraError, digits, mnist


@dataclass
class Digits:
    """The three parts of a data set."""

    name: str
    train: ArrayDataset
    valid: ArrayDataset
    test: ArrayDataset


def load_digits(folder: Path | None, offline: bool) -> Digits:
    """MNIST from a folder, from the cache or from the net; else scikit-learn's 1,797 digits.

    Args:
        folder: where MNIST's files are, or go. With it, MNIST is used or an error raised.
        offline: True takes scikit-learn's digits at once.
    """
    if folder is None and offline:
        return _small()
    try:
        train = mnist(folder, "train", timeout=4.0)
        return Digits(
            "MNIST", train, mnist(folder, "valid", timeout=4.0), mnist(folder, "test", timeout=4.0)
        )
    except (DownloadError, MissingExtraError) as error:
        if folder is not None:
            raise
        print(f"MNIST is not to be had ({str(error).splitlines()[0]})")
        print("using scikit-learn's 1,797 digits; for MNIST give --data DIR with its files")
        return _small()


def _small() -> Digits:
    return Digits("scikit-learn's digits", digits("train"), digits("valid"), digits("test"))


def augment(batch: Any, rng: np.random.Generator) -> Any:
    """Images turned by up to 12 degrees, scaled by up to 12 %, sheared and shifted a little.

    A thousand digits are few: without it a net learns their places by heart.
    """
    images, labels = batch
    count, size = len(images), images.shape[-1]
    angle = rng.uniform(-0.21, 0.21, count)
    zoom = rng.uniform(0.88, 1.12, (2, count))
    shear = rng.uniform(-0.15, 0.15, count)
    shift = rng.uniform(-2, 2, (2, count, 1, 1))
    cos, sin = np.cos(angle), np.sin(angle)
    # Where each pixel of the result comes from, around the middle of the image.
    matrix = np.array([[cos, -sin], [sin + shear, cos]]) / zoom
    grid = np.mgrid[:size, :size] - (size - 1) / 2
    rows, columns = np.einsum("ijn,jrc->inrc", matrix, grid) + shift + (size - 1) / 2
    return _sample(images[:, 0], rows, columns)[:, None], labels


def _sample(images: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Bilinear interpolation, with zeros outside of the images."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    last = padded.shape[1] - 1.001
    rows, columns = np.clip(rows + 1, 0, last), np.clip(columns + 1, 0, last)
    top, left = rows.astype(int), columns.astype(int)
    down, right = rows - top, columns - left
    n = np.arange(len(images))[:, None, None]
    upper = padded[n, top, left] * (1 - right) + padded[n, top, left + 1] * right
    lower = padded[n, top + 1, left] * (1 - right) + padded[n, top + 1, left + 1] * right
    return np.asarray(upper * (1 - down) + lower * down, np.float32)
