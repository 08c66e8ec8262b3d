"""Fashion-MNIST: 70,000 pictures of clothes in the form of MNIST (Xiao, Rasul, Vollgraf, 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .arrays import ArrayDataset
from .downloads import cache_folder
from .mnist_source import Split, check_split, labelled_images

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)
CHECKSUMS = {
    "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
"""SHA-256 of the gzipped files as their authors published them."""

FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
"""What the labels 0 to 9 of Fashion-MNIST mean."""


def fashion_mnist(
    folder: str | Path | None = None,
    split: Split = "train",
    *,
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 20.0,
    progress: bool = True,
) -> ArrayDataset:
    """Fashion-MNIST, as pairs of an image and a label; `FASHION_CLASSES` names the labels.

    The images are float32 of shape (1, 28, 28) from 0 (background) to 1, the labels int64. The
    first five sixths (50,000) of the training files are for training, the last sixth (10,000) for
    validation, as with `mnist`.

    Args:
        folder: where the four IDX files are, gzipped or not, or in `FashionMNIST/raw` below;
            missing ones are downloaded there. The user's cache folder if not given.
        split: "train", "valid" or "test".
        download: whether to fetch missing files.
        mirrors: the addresses to fetch from, each ending in a slash.
        timeout: seconds without an answer after which a mirror is given up.
        progress: whether to show a bar while downloading.

    Raises:
        MissingDataError: a file is missing and `download` is False.
        DownloadError: a file is missing and no mirror delivered it.
        DataFileError: a file is truncated, corrupt, or does not fit the others.

    >>> from ingle.dataset import FASHION_CLASSES, fashion_mnist
    >>> images, labels = fashion_mnist("data", "test").arrays  # doctest: +SKIP
    >>> FASHION_CLASSES[9]
    'Ankle boot'
    """
    check_split("fashion_mnist", split)
    base = cache_folder() / "fashion_mnist" if folder is None else Path(folder).expanduser()
    given = mirrors if download else None
    return labelled_images(
        "fashion_mnist", base, "FashionMNIST", split, CHECKSUMS, given, timeout, progress
    )
