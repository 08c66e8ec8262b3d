"""Images from files, by Pillow."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import DataFileError, DataValueError, MissingDataError, MissingExtraError

Mode = Literal["RGB", "RGBA", "L"]
Size = tuple[int, int]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of the files that are taken for images."""


def read_image(
    path: str | Path,
    *,
    size: Size | None = None,
    mode: Mode = "RGB",
    dtype: str = "float32",
    draft: bool = False,
    fast: bool = False,
) -> NDArray[Any]:
    """An image file as an array of shape (channels, height, width).

    Args:
        path: of the file, in any format that Pillow reads.
        size: (height, width) to resize to, with Pillow's bilinear filter; as it is if not given.
        mode: "RGB", "RGBA" or "L" for grey, to which other images are converted.
        dtype: "float32" for values from 0 to 1, "uint8" for 0 to 255, a quarter of the memory.
        draft: whether a JPEG file that is at least twice as large as `size` is decoded at a half, a
            quarter or an eighth of its size and resized from there: faster, and on average less
            than a grey level of 256 away.
        fast: whether `cykooz-resizer` resizes, which takes a tenth of Pillow's time. Pixels are
            at most one grey level of 256 away from Pillow's; in images with opacity, colors times
            opacity at most two.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: the file is truncated, corrupt or no image.
        DataValueError: an argument that makes no sense.
        MissingExtraError: Pillow is not installed, or with `fast` `cykooz-resizer` is not.

    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from ingle.dataset import read_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "red.png")
    ...     Image.new("RGB", (4, 2), "red").save(path)
    ...     image = read_image(path)
    >>> image.shape, image[:, 0, 0].tolist()
    ((3, 2, 4), [1.0, 0.0, 0.0])
    """
    check_image_options(size, mode, dtype, fast)
    image = opened(Path(path), size if draft else None)
    return as_array(image, Path(path), size, mode, dtype, fast)


def check_image_options(size: Size | None, mode: str, dtype: str, fast: bool) -> None:
    """Raises `DataValueError` for what no image can be read as."""
    if mode not in ("RGB", "RGBA", "L"):
        raise DataValueError(f"mode must be 'RGB', 'RGBA' or 'L', got {mode!r}")
    if dtype not in ("float32", "uint8"):
        raise DataValueError(f"dtype must be 'float32' or 'uint8', got {dtype!r}")
    if size is not None and not (
        isinstance(size, tuple)
        and len(size) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in size)
    ):
        raise DataValueError(f"size must be (height, width) of at least 1 each, got {size!r}")
    pillow()
    if fast:
        fast_resizer()


def opened(path: Path, least: Size | None = None) -> Any:
    """A Pillow image that is wholly read.

    Args:
        path: of the file.
        least: (height, width) that suffice, so that a larger JPEG file may be decoded at a half, a
            quarter or an eighth of its size.
    """
    image_module = pillow()
    try:
        with image_module.open(path) as image:
            if least is not None:
                image.draft(None, (least[1], least[0]))
            image.load()
            return image
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except MemoryError:
        raise
    # Decoders raise what they like on corrupt data: OSError, SyntaxError, struct.error, …
    except Exception as error:
        raise DataFileError(
            f"{path}: no image can be read from it: {error}; open it in a viewer, and delete or "
            "replace it"
        ) from error


def as_array(
    image: Any, path: Path, size: Size | None, mode: Mode, dtype: str, fast: bool
) -> NDArray[Any]:
    """A Pillow image in a mode and size as an array of shape (channels, height, width)."""
    if image.mode[0] in "IF":
        # Pillow cuts such values off at 255 when it converts them.
        raise DataFileError(
            f"{path}: the image has {image.mode} pixels, which do not fit into 8 bits; convert the "
            "file, or read it in a dataset of your own"
        )
    if image.mode != mode:
        image = image.convert(mode)
    if size is not None and image.size != (size[1], size[0]):
        image = (_fast if fast else _exact)(image, (size[1], size[0]))
    pixels = np.asarray(image)
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if dtype == "uint8":
        return np.ascontiguousarray(planes)
    scaled: NDArray[Any] = np.divide(planes, np.float32(255), dtype=np.float32, order="C")
    return scaled


def _exact(image: Any, size: tuple[int, int]) -> Any:
    return image.resize(size, pillow().Resampling.BILINEAR)


def _fast(image: Any, size: tuple[int, int]) -> Any:
    resizer, options = fast_resizer()
    resized = pillow().new(image.mode, size)
    resizer.resize_pil(image, resized, options)
    return resized


_of_thread = threading.local()


def fast_resizer() -> tuple[Any, Any]:
    """What resizes by vectors of the processor, and the filter that it is told.

    It has buffers that two threads may not use at once, so each thread has its own.
    """
    try:
        import cykooz_resizer as fast
    except ImportError as error:
        raise MissingExtraError(
            f'fast=True needs cykooz-resizer ({error}): pip install "ingle-dataset[fast-images]"'
        ) from None
    found: tuple[Any, Any] | None = getattr(_of_thread, "resizer", None)
    if found is None:
        bilinear = fast.ResizeAlg.convolution(fast.FilterType.bilinear)
        found = _of_thread.resizer = fast.Resizer(), fast.ResizeOptions(bilinear)
    return found


def pillow() -> Any:
    """Pillow's module `Image`."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(
            f'images need Pillow ({error}): pip install "ingle-dataset[images]"'
        ) from None
    return Image


def as_floats(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as float32 from 0 to 1, in C order.

    Each is cast as it is divided: an array in between would be as large as the result, and pages
    that nobody had before take longer than all of the arithmetic.

    >>> import numpy as np
    >>> as_floats(np.asarray([0, 51, 255], np.uint8)).tolist() == [0.0, np.float32(0.2), 1.0]
    True
    """
    return np.divide(pixels, np.float32(255), dtype=np.float32, order="C")
