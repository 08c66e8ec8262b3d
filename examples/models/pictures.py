"""From pictures to labels: how they are made ready, and the command of models that tell them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer
from ingle.importer import WeightsError
from ingle.tensor import Device

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pictures of ImageNet, red, green and blue; published with the weights."""

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of a checkpoint, by name."""


class PictureModel(nn.Module):
    """Pictures (N, 3, height, width) to scores (N, classes).

    The published files have no configuration: sizes are those of the weights themselves.
    """

    @classmethod
    def from_shapes(cls, shapes: Shapes) -> Self:
        """A model with random weights of these shapes."""
        raise NotImplementedError(f"{cls.__name__} has no from_shapes")

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str],
        *,
        dtype: object = None,
        device: Device | str | None = None,
        checksums: Mapping[str, str] | None = None,
        progress: bool = True,
    ) -> Self:
        """The model of a file of weights, of a folder that has one, or of the URL of either.

        Raises:
            WeightsError: the weights are missing, damaged, or of another model.
        """
        path = importer.fetch_pretrained(source, checksums=checksums, progress=progress)
        weights = importer.open_weights(path)
        shapes = {name: weights.shape(name) for name in weights}
        try:
            where = it.device(device or it.default_device())
            with where, it.default_dtypes(floating=dtype):
                model = cls.from_shapes(shapes)
        except KeyError as error:
            raise WeightsError(
                f"{path}: there is no {error} in it, so these are not weights of {cls.__name__}"
            ) from None
        importer.load_weights(model, path)
        return model.eval()


def count_of(shapes: Shapes, pattern: str) -> int:
    """How many different numbers stand in the group of a pattern among the names."""
    return len({found[1] for name in shapes if (found := re.match(pattern, name))})


def prepared(image: Image.Image, size: int = 224) -> np.ndarray:
    """A picture as these models were trained to see it, (3, size, size).

    Its shorter side is made 8/7 of `size` long, the middle is cut out, colors are standardized.
    """
    side = round(size * 8 / 7)
    width, height = image.size
    scale = side / min(width, height)
    image = image.convert("RGB").resize(
        (max(side, int(width * scale)), max(side, int(height * scale))), Image.Resampling.BILINEAR
    )
    left, top = round((image.width - size) / 2), round((image.height - size) / 2)
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), np.float32) / 255.0
    mean, deviation = np.array(MEAN, np.float32), np.array(DEVIATION, np.float32)
    standard = (pixels - mean) / deviation
    return np.ascontiguousarray(standard.transpose(2, 0, 1))


def labels_of(folder: Path, file: Path | None) -> list[str] | None:
    """The names of classes: a line each of `file` or of `labels.txt`, or `config.json`'s."""
    beside = folder if folder.is_dir() else folder.parent
    file = beside / "labels.txt" if file is None and (beside / "labels.txt").is_file() else file
    if file is not None:
        return file.read_text("utf-8").splitlines()
    if (beside / "config.json").is_file():
        config = importer.read_config(beside)
        if names := config.get("label_names"):
            return list(names)
        if table := config.get("id2label"):
            return [table[str(i)] for i in range(len(table))]
    return None


def main(
    kind: type[PictureModel], doc: str | None, argv: Sequence[str] | None = None
) -> list[list[tuple[str, float]]]:
    """The command of a model that tells pictures: prints the likeliest classes of each."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", nargs="+", type=Path, metavar="PICTURE")
    parser.add_argument("--weights", required=True, help="a file or a folder, or the URL of one")
    parser.add_argument("--labels", type=Path, help="a file with the name of a class in each line")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--dtype", default="float32", help="what the weights are computed in")
    parser.add_argument("--top", type=int, default=5, help="how many classes to print")
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    given = parser.parse_args(argv)
    path = importer.fetch_pretrained(given.weights)
    labels = labels_of(path, given.labels)
    with it.device(given.device or it.default_device()):
        model = kind.from_pretrained(path, dtype=given.dtype)
        batch = []
        for picture in given.pictures:
            with Image.open(picture) as image:
                batch.append(prepared(image, given.size))
        scores: Any = model(it.asarray(np.stack(batch)).astype(given.dtype))
        chances = it.softmax(scores.astype("float32"), axis=-1).numpy()
    if labels is not None and len(labels) != chances.shape[1]:
        raise SystemExit(
            f"error: there are {len(labels)} labels, and the model tells {chances.shape[1]} classes"
        )
    found = []
    for picture, row in zip(given.pictures, chances, strict=True):
        best = np.argsort(-row, kind="stable")[: given.top]
        names = [f"class {i}" if labels is None else labels[i] for i in best]
        found.append([(n, float(row[i])) for n, i in zip(names, best, strict=True)])
        print(picture)
        for name, chance in found[-1]:
            print(f"  {chance:6.1%} {name}")
    return found
