"""scikit-learn's 1,797 handwritten digits, enlarged to the form of MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import ArrayDataset
from .errors import DataValueError, MissingExtraError
from .mnist_source import Split
from .views import split as split_dataset

SHARES = {"train": 0.7, "valid": 0.1, "test": 0.2}
_SEED = 1797


def digits(split: Split = "train") -> ArrayDataset:
    """Real handwritten digits that need no network, as pairs of an image and a label.

    They are the test part of the UCI data set "Optical Recognition of Handwritten Digits" (Alpaydin
    and Kaynak, 1998), 8x8 pixels of 17 greys, which scikit-learn ships. `enlarge` brings them to
    28x28. The split is fixed and holds each class in the same share: 1,258 images for training,
    180 for validation, 359 for testing.

    Args:
        split: "train", "valid" or "test".

    Returns:
        Images, float32 of shape (1, 28, 28) from 0 (background) to 1, with int64 labels.

    Raises:
        MissingExtraError: scikit-learn is not installed.

    >>> from ingle.dataset import digits
    >>> images, labels = digits("test").arrays
    >>> images.shape, labels.shape
    ((359, 1, 28, 28), (359,))
    """
    if split not in SHARES:
        raise DataValueError(f"digits: split must be 'train', 'valid' or 'test', got {split!r}")
    small, labels = _load()
    parts = split_dataset(labels, *SHARES.values(), seed=_SEED, labels=labels)
    chosen = parts[list(SHARES).index(split)].indices
    return ArrayDataset(enlarge(small[chosen] / 16)[:, None], labels[chosen].astype(np.int64))


def enlarge(images: NDArray[Any]) -> NDArray[np.float32]:
    """8x8 images as 28x28 ones: magnified 2.5 times into the middle 20x20 pixels, as MNIST's are.

    Interpolates with the cubic kernel of Keys (1981, a = -1/2), taking what lies outside of the
    image as background, and clips to [0, 1].

    Args:
        images: shape (n, 8, 8), values from 0 to 1.
    """
    weights = _weights(8, 28, 2.5)
    large: NDArray[np.float32] = np.clip(weights @ images @ weights.T, 0, 1).astype(np.float32)
    return large


def _weights(size: int, out: int, zoom: float) -> NDArray[np.float64]:
    """How much each of `size` pixels gives to each of `out` pixels, with centres aligned."""
    centres = (np.arange(out) - (out - 1) / 2) / zoom + (size - 1) / 2
    t = np.abs(centres[:, None] - np.arange(size))
    near = 1.5 * t**3 - 2.5 * t**2 + 1
    far = -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _load() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError(
            f'digits needs scikit-learn ({error}): pip install "ingle-dataset[digits]"'
        ) from None
    bunch = load_digits()
    return bunch.images, bunch.target
