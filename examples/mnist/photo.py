"""From any photograph or drawing of one digit to an image as MNIST has them.

The steps are those of the data set's authors (LeCun et al., 1998): the digit fills a box of 20x20
pixels, and its centre of mass lies in the middle of 28x28, white on black. Before them comes what
a photograph needs: uneven light is taken out, ink is told from paper, dust is dropped, and lines
that would be too thin to see are thickened.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError

WORK = 160
"""The longer side, in pixels, of the image that the digit is looked for in."""
LINE = 2.2
"""The least width of a line, in pixels of the result."""


class PhotoError(ValueError):
    """The image cannot be read or shows no digit."""


def read_digit(path: str | Path) -> np.ndarray:
    """The digit in an image file, float32 of shape (28, 28), 0 for paper and 1 for ink.

    Raises:
        PhotoError: there is no such file, it is no image, or the image is blank.
    """
    grey = _grey(Path(path))
    ink = _ink(grey)
    threshold = _otsu(ink)
    mask = _without_dust(ink > threshold)
    if _is_blank(ink, mask):
        raise PhotoError(
            f"{path}: there is no digit to be seen: the image is blank or has too little contrast; "
            "give one with dark ink on light paper, or the other way round"
        )
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    strength = np.clip(ink / np.percentile(ink[mask], 60), 0, 1) * mask
    return _centred(_scaled(strength[box], mask[box]))


def _grey(path: Path) -> np.ndarray:
    """The image in greys from 0 to 1, upright, on white where it is transparent, at most WORK."""
    try:
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGBA")
    except FileNotFoundError:
        raise PhotoError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise PhotoError(f"{path}: this is a folder; give an image file") from None
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise PhotoError(
            f"{path}: this image cannot be read ({error}); give a whole PNG or JPEG file"
        ) from None
    paper = Image.new("RGBA", image.size, "white")
    grey = Image.alpha_composite(paper, image).convert("L")
    zoom = WORK / max(grey.size)
    size = (max(1, round(grey.width * zoom)), max(1, round(grey.height * zoom)))
    how = Image.Resampling.BOX if zoom < 1 else Image.Resampling.BICUBIC
    return np.asarray(grey.resize(size, how), float) / 255


def _ink(grey: np.ndarray) -> np.ndarray:
    """How far each pixel stands out from the paper, in the direction in which the ink does."""
    smooth = np.asarray(
        Image.fromarray((grey * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1.0)), float
    )
    difference = smooth / 255 - _paper(grey)
    dark, light = np.percentile(-difference, 99.5), np.percentile(difference, 99.5)
    ink: np.ndarray = np.maximum(-difference if dark > light else difference, 0)
    return ink


def _paper(grey: np.ndarray) -> np.ndarray:
    """The light on the paper: a surface of second order through the pixels that are no ink."""
    y, x = np.mgrid[-1 : 1 : grey.shape[0] * 1j, -1 : 1 : grey.shape[1] * 1j]
    terms = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=-1).reshape(-1, 6)
    values = grey.ravel()
    # The paper is the more frequent grey, and reaches the border. Ink is left out bit by bit.
    edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    surface = np.full(values.shape, np.median(edge))
    keep = np.abs(values - surface) < max(0.15, np.percentile(np.abs(values - surface), 60))
    for _ in range(6):
        weights = np.linalg.lstsq(terms[keep], values[keep], rcond=None)[0]
        surface = terms @ weights
        distance = np.abs(values - surface)
        keep = distance < max(0.02, 2.5 * np.median(distance[keep]))
    return surface.reshape(grey.shape)


def _otsu(ink: np.ndarray) -> float:
    """The threshold that parts the values into two groups as far apart as can be (Otsu, 1979)."""
    counts, edges = np.histogram(ink, 128)
    centres = (edges[:-1] + edges[1:]) / 2
    low = np.cumsum(counts)
    high = low[-1] - low
    total = np.cumsum(counts * centres)
    # Empty groups have no mean; their factor of 0 keeps them from being chosen.
    means = total / np.maximum(low, 1), (total[-1] - total) / np.maximum(high, 1)
    apart = low * high * (means[0] - means[1]) ** 2
    return float(edges[1 + int(apart.argmax())])


def _without_dust(mask: np.ndarray) -> np.ndarray:
    """The mask without small pieces, and without what comes in from the border, if all is not that.

    A photograph's border shows the table, a shadow, the next line of writing.
    """
    labels, sizes = np.zeros(mask.shape, int), [0]
    for start in zip(*np.nonzero(mask), strict=True):
        if not labels[start]:
            labels[start] = len(sizes)
            sizes.append(_flood(mask, labels, start))
    areas = np.array(sizes)
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        outside = np.unique(edge)
        if np.delete(areas, outside).sum() >= 0.2 * areas.max():
            areas[outside] = 0
    kept = areas >= 0.08 * areas.max()
    kept[0] = False
    return np.asarray(kept[labels])


def _flood(mask: np.ndarray, labels: np.ndarray, start: tuple[int, ...]) -> int:
    """Gives a connected piece the label of its first pixel; returns its size."""
    todo, size, label = deque([start]), 0, labels[start]
    while todo:
        row, column = todo.popleft()
        size += 1
        for at in ((row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            inside = 0 <= at[0] < mask.shape[0] and 0 <= at[1] < mask.shape[1]
            if inside and mask[at] and not labels[at]:
                labels[at] = label
                todo.append(at)
    return size


def _is_blank(ink: np.ndarray, mask: np.ndarray) -> bool:
    """Whether what stands out is too faint, too scattered or too large to be a digit."""
    if not mask.any() or mask.mean() > 0.6:
        return True
    strength, noise = np.median(ink[mask]), np.percentile(ink[~mask], 90)
    return bool(strength < 0.06 or strength < 2.5 * noise or mask.sum() < 12)


def _scaled(strength: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The digit with its longer side 20 pixels, its lines at least LINE wide."""
    zoom = 20 / max(strength.shape[0], strength.shape[1])
    image = Image.fromarray((strength * 255).astype(np.uint8))
    border = int(np.count_nonzero(mask & ~_eroded(mask)))
    width = 2 * float(strength.sum()) / max(border, 1)
    grow = max(0, round((LINE / zoom - width) / 2))
    if grow:
        image = ImageOps.expand(image, grow)
        image = image.filter(ImageFilter.MaxFilter(2 * grow + 1))
        zoom = 20 / max(image.width, image.height, 1)
    size = (max(1, round(image.width * zoom)), max(1, round(image.height * zoom)))
    small = np.asarray(image.resize(size, Image.Resampling.LANCZOS), float)
    return small / max(float(small.max()), 1.0)


def _eroded(mask: np.ndarray) -> np.ndarray:
    padded = np.pad(mask, 1)
    shifted = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
    return np.asarray(np.logical_and.reduce([mask, *shifted]))


def _centred(digit: np.ndarray) -> np.ndarray:
    """The digit in 28x28 pixels, its centre of mass in the middle."""
    rows, columns = digit.shape
    total = digit.sum()
    top = round(13.5 - float((digit.sum(1) @ np.arange(rows)) / total))
    left = round(13.5 - float((digit.sum(0) @ np.arange(columns)) / total))
    top, left = min(max(top, 0), 28 - rows), min(max(left, 0), 28 - columns)
    image = np.zeros((28, 28), np.float32)
    image[top : top + rows, left : left + columns] = digit
    return image
