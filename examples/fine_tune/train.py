"""Teaches a published model one's own classes: `python -m fine_tune.train --data photos`.

From the folder `examples`, for the models beside it. `FOLDER/CLASS/FILE` are the pictures, a
quarter of which is held back; or `FOLDER/train` and `FOLDER/test` with such folders. All of the
model but its last layer stays as it is, so that each picture goes through it once; what comes out
is kept, and a new last layer learns from it. `--predict` tells pictures afterwards.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from models.pictures import DEVIATION, MEAN, prepared
from models.resnet import ResNet
from PIL import Image

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle import importer
from ingle.autodiff import no_grad
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, Dataset, ImageFolder, Loader
from ingle.fusion import compile
from ingle.train import Accuracy, EarlyStopping, Learner

PUBLISHED = {
    "resnet18": "https://download.pytorch.org/models/resnet18-f37072fd.pth",
    "resnet34": "https://download.pytorch.org/models/resnet34-b627a593.pth",
    "resnet50": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}
RANDOM = "random"
"""In place of a file: a trunk that has learned nothing, to see what the published one is worth."""


def trunk_of(name: str, weights: str | None) -> ResNet:
    """The model whose features are used, frozen."""
    if weights == RANDOM:
        model = ResNet.named(name).eval()
    else:
        model = ResNet.from_pretrained(weights or PUBLISHED[name])
    return model.freeze()


def pictures(folder: Path, size: int, seed: int) -> tuple[Any, Any, tuple[str, ...]]:
    """Pictures to learn from and to test with, and the names of the classes."""
    side = (size, size)
    if (folder / "train").is_dir():
        train = ImageFolder(folder / "train", size=side)
        return train, ImageFolder(folder / "test", size=side, classes=train.classes), train.classes
    every = ImageFolder(folder, size=side)
    first, second = every.split(0.75, 0.25, seed=seed)
    return first, second, every.classes


def features(model: ResNet, given: Dataset[Any], batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """What the last layer sees of each picture, (N, features), and their classes."""
    look = [it.asarray(np.array(a, np.float32)[:, None, None]) for a in (MEAN, DEVIATION)]
    seen = compile(lambda x: model.features((x - look[0]) / look[1]))
    found, labels = [], []
    with no_grad():
        for x, y in Loader(given, batch_size):
            found.append(seen(it.asarray(x)).numpy())
            labels.append(np.asarray(y))
    return np.concatenate(found), np.concatenate(labels)


def joined(model: ResNet, head: nn.Linear, mean: np.ndarray, deviation: np.ndarray) -> ResNet:
    """The model with a last layer that learned from standardized features."""
    weight = head.weight.numpy() / deviation
    model.fc = nn.Linear(head.in_features, head.out_features)
    offset = head.state_dict()["bias"].numpy() - weight @ mean
    model.fc.load_state_dict({"weight": weight, "bias": offset})
    return model


def predict(out: Path, files: Sequence[Path]) -> list[str]:
    """Tells pictures by what was learned."""
    settings = out / "settings.json"
    if not settings.is_file():
        raise SystemExit(f"error: {settings} is not there: train first, with the same --out")
    kept = json.loads(settings.read_text("utf-8"))
    model = ResNet.from_pretrained(out / "model.safetensors")
    batch = []
    for file in files:
        with Image.open(file) as image:
            batch.append(prepared(image, kept["size"]))
    chances = it.softmax(model(it.asarray(np.stack(batch))), axis=-1).numpy()
    found = [kept["classes"][i] for i in chances.argmax(-1)]
    for file, name, row in zip(files, found, chances, strict=True):
        print(f"{file}: {name}, {row.max():.1%}")
    return found


def main(argv: Sequence[str] | None = None) -> float | list[str]:
    """Trains and tests; returns the share of pictures that are told right, or what was told."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of folders of pictures")
    parser.add_argument("--predict", type=Path, nargs="+", metavar="PICTURE")
    parser.add_argument("--model", choices=PUBLISHED, default="resnet18")
    parser.add_argument("--weights", help=f"a file or URL, or {RANDOM!r}; downloaded if not given")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/fine_tune"))
    given = parser.parse_args(argv)
    if given.data is None and given.predict is None:
        parser.error("give --data FOLDER to train, or --predict PICTURE")
    with it.device(given.device or it.default_device()):
        if given.predict is not None:
            return predict(given.out, given.predict)
        it.random.seed(given.seed)
        train, test, classes = pictures(given.data, given.size, given.seed)
        print(f"{len(train)} pictures to train and {len(test)} to test, of {', '.join(classes)}")
        model = trunk_of(given.model, given.weights)
        (x, y), (tested, labels) = (features(model, d, given.batch_size) for d in (train, test))
        mean, deviation = x.mean(0), np.maximum(x.std(0), 1e-6)
        head = nn.Linear(x.shape[1], len(classes))
        learner = Learner(
            head,
            optim.AdamW(head, lr=given.lr, weight_decay=0.1),
            it.cross_entropy,
            metrics=[Accuracy()],
            callbacks=[EarlyStopping("valid/loss", patience=8, restore_best=True)],
            progress=Dashboard(given.out),
        )
        data = [ArrayDataset((a - mean) / deviation, b) for a, b in ((x, y), (tested, labels))]
        batches = Loader(data[0], given.batch_size, shuffle=True, seed=given.seed)
        learner.fit(batches, epochs=given.epochs, valid=Loader(data[1], 256))
        model = joined(model, head.eval(), mean, deviation)
        told = np.asarray(model.fc(it.asarray(tested)).numpy()).argmax(-1)
    given.out.mkdir(parents=True, exist_ok=True)
    importer.save_safetensors(given.out / "model.safetensors", model)
    kept = {"classes": list(classes), "size": given.size}
    settings = given.out / "settings.json"
    with nn.writing(settings):
        settings.write_text(json.dumps(kept), "utf-8")
    accuracy = float((told == labels).mean())
    print(f"{given.out / 'model.safetensors'}: the whole model, for --predict")
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
