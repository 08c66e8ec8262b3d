"""The training loop written out, without `Learner`: `python train.py`.

A batch, a loss, its gradients, a step; metrics, a schedule, evaluation and a checkpoint are lines
of one's own. The step is compiled: recorded once, then run as a few kernels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dataset import Loader, digits, mnist
from ingle.fusion import compile


def main(argv: Sequence[str] | None = None) -> float:
    """Trains; returns the share of test digits that are recognized."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/custom_training_loop"))
    given = parser.parse_args(argv)

    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        parts = [
            digits(name) if given.data is None else mnist(given.data, name)
            for name in ("train", "test")
        ]
        train = Loader(parts[0], given.batch_size, shuffle=True, seed=given.seed, drop_last=True)
        test = Loader(parts[1], 256)
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)
        )
        schedule = optim.schedule.Cosine(given.lr, steps=given.epochs * len(train))
        optimizer = optim.AdamW(model, lr=schedule, weight_decay=1e-2, max_grad_norm=1.0)

        @compile
        def step(images: it.Tensor, labels: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
            scores = model(images)
            loss = it.cross_entropy(scores, labels)
            optimizer.step(loss.backward())
            return loss, it.sum(it.argmax(scores, axis=1) == labels)

        accuracy = 0.0
        for epoch in range(1, given.epochs + 1):
            start, total, right, seen = time.perf_counter(), 0.0, 0, 0
            model.train()
            for images, labels in train:
                loss, found = step(images, labels)
                total += float(loss) * len(labels)
                right += int(found)
                seen += len(labels)
            model.eval()
            with no_grad():
                hits = sum(int(it.sum(it.argmax(model(x), axis=1) == y)) for x, y in test)
            accuracy = hits / len(parts[1])
            print(
                f"epoch {epoch:2}  lr {optimizer.lr:.2g}  loss {total / seen:.4f}  "
                f"accuracy {right / seen:.4f}  test {accuracy:.4f}  "
                f"{seen / (time.perf_counter() - start):,.0f} digits/s"
            )
            nn.save(given.out / "model.safetensors", {"model": model, "optimizer": optimizer})
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
