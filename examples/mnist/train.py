"""Trains a classifier of handwritten digits: `python examples/mnist/train.py`.

Takes MNIST from --data, the cache or the net, else scikit-learn's digits. Writes to --out:
`model.safetensors`, `predictions.png`, `confusion.png`, `loss.png`, the history of the training
and checkpoints, from which --resume continues as if nothing had happened.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from data import Digits, augment, load_digits
from model import CLASSES, MODELS

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import DatasetError, Loader
from ingle.tensor.errors import IngleError
from ingle.train import (
    Accuracy,
    Callback,
    CheckpointStore,
    ConfusionMatrix,
    EarlyStopping,
    JSONLLogger,
    Learner,
)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: epochs for many digits and for few, the highest rate, the batch.

    Of many digits, twice as many make a batch.
    """

    epochs_many: int
    epochs_few: int
    lr: float
    batch_size: int
    augmented: bool = False


RECIPES = {
    "linear": Recipe(epochs_many=30, epochs_few=200, lr=5e-3, batch_size=128),
    "mlp": Recipe(epochs_many=10, epochs_few=30, lr=2e-3, batch_size=64),
    "cnn": Recipe(epochs_many=1, epochs_few=16, lr=1e-3, batch_size=64, augmented=True),
}


def main() -> None:
    options = parse()
    try:
        run(options)
    except (DatasetError, IngleError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command with --resume continues")


def run(options: argparse.Namespace) -> None:
    """Everything, from the data to the last line."""
    start = time.perf_counter()
    figures = import_figures()
    data = load_digits(options.data, options.digits)
    print(f"{data.name}: {len(data.train)} to train, {len(data.valid)} to validate, "
          f"{len(data.test)} to test")  # fmt: skip
    with it.device(options.device or it.default_device()):
        learner = fit(options, data)
        report = evaluate(learner, data)
    accuracy = report["accuracy"]
    nn.save(
        options.out / "model.safetensors",
        learner.model,
        metadata={"model": options.model, "data": data.name, "test accuracy": accuracy},
    )
    figures.draw(options.out, learner.model, data.test, report["confusion"])
    print(f"{time.perf_counter() - start:.0f} s; see {options.out}")
    print(f"test accuracy: {accuracy:.4f}")


def fit(options: argparse.Namespace, data: Digits) -> Learner:
    """Trains the chosen model as its recipe says."""
    recipe = RECIPES[options.model]
    few = len(data.train) < 10_000
    epochs = options.epochs or (recipe.epochs_few if few else recipe.epochs_many)
    size = recipe.batch_size * (1 if few else 2)
    train = Loader(
        data.train, size, shuffle=True, seed=options.seed,
        augment=augment if few and recipe.augmented else None,
    )  # fmt: skip
    it.random.seed(options.seed)
    model = MODELS[options.model]()
    print(model.summary())
    steps = epochs * len(train)
    rate = optim.schedule.Cosine(recipe.lr, steps=steps, warmup=min(50, steps // 10))
    store = CheckpointStore(options.out / "checkpoints", monitor="valid/accuracy", keep=2)
    if not options.resume:
        store.clear()
    learner = Learner(
        model,
        optim.Adam(model, lr=recipe.lr if options.model == "linear" else rate),
        it.cross_entropy,
        metrics=[Accuracy()],
        checkpoints=store,
        callbacks=callbacks(options),
    )
    learner.fit(train, epochs=epochs, valid=Loader(data.valid, 256), resume=options.resume)
    return learner


def callbacks(options: argparse.Namespace) -> list[Callback]:
    """A history for the loss curve; the linear net also stops when its loss changes little."""
    found: list[Callback] = [JSONLLogger(options.out / "history.jsonl")]
    if options.model == "linear":
        found.append(EarlyStopping("train/loss", patience=3, min_delta=2e-3))
    return found


def evaluate(learner: Learner, data: Digits) -> dict[str, Any]:
    """Accuracy and confusion matrix on digits that training never saw."""
    return learner.evaluate(Loader(data.test, 256), [Accuracy(), ConfusionMatrix(CLASSES)])


def import_figures() -> ModuleType:
    """The module that draws; before training, so that a missing package costs no time."""
    try:
        import figures
    except ImportError as error:
        sys.exit(f"error: drawing needs matplotlib ({error}): pip install matplotlib")
    return figures


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits.")
    parser.add_argument("--model", choices=MODELS, default="cnn")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--data", type=Path, help="folder with MNIST's four files")
    parser.add_argument("--digits", action="store_true", help="use scikit-learn's digits")
    parser.add_argument("--epochs", type=positive, help="how often to go through the data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/mnist"))
    parser.add_argument("--resume", action="store_true", help="continue what --out holds")
    return parser.parse_args()


def positive(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    main()
