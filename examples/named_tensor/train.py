"""Attention written with names of axes, which learns to turn rows around: `python train.py`.

`named.py` is a wrapper of one's own around tensors: gradients, `compile` and devices are those of
the tensors in it. The net reads rows of symbols and writes them backwards; a picture shows where
each head looks.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from named import Named

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.fusion import compile

mpl.use("Agg")
import matplotlib.pyplot as plt


def weights(*sizes: int) -> nn.Parameter:
    """Random numbers that keep the size of what they multiply; the first axis is summed over."""
    return nn.Parameter(it.random.normal(sizes) / math.sqrt(sizes[0]))


class Reader(nn.Module):
    """Symbols to the scores of symbols, by one layer of attention."""

    def __init__(self, symbols: int, time: int, width: int, heads: int) -> None:
        self.heads = heads
        self.meaning, self.place = weights(symbols, width), weights(time, width)
        self.query, self.key = weights(width, width), weights(width, width)
        self.value, self.out = weights(width, width), weights(width, symbols)

    def look(self, rows: it.Tensor) -> tuple[Named, Named]:
        """Where each position looks, by head, and what there is to be seen."""
        x = Named(self.meaning.value[rows], "batch time width")
        x = x + Named(self.place.value, "time width")

        def projected(matrix: nn.Parameter, time: str) -> Named:
            y = x.dot(Named(matrix.value, "width mixed"), "width").rename(time=time)
            return y.split("mixed", head=self.heads, part=y.size("mixed") // self.heads)

        query, key = projected(self.query, "time"), projected(self.key, "seen")
        scores = query.dot(key, "part") / math.sqrt(query.size("part"))
        return scores.softmax("seen"), projected(self.value, "seen")

    def forward(self, rows: it.Tensor) -> it.Tensor:
        where, what = self.look(rows)
        found = where.dot(what, "seen").join("width", "head", "part")
        scores = found.dot(Named(self.out.value, "width symbol"), "width")
        return scores.tensor("batch", "time", "symbol")


def load(given: argparse.Namespace) -> tuple[np.ndarray, list[str]]:
    """Rows of symbols, and what these are: lines of a file, or random letters."""
    if given.data is not None:
        lines = given.data.read_text("utf-8").splitlines()
        texts = [line[: given.time] for line in lines if len(line) >= given.time]
        symbols = sorted(set("".join(texts)))
        numbers = {symbol: i for i, symbol in enumerate(symbols)}
        return np.array([[numbers[s] for s in text] for text in texts], np.int64), symbols
    rows = np.random.default_rng(given.seed).integers(0, 12, (4000, given.time))
    return rows, list("abcdefghijkl")


def draw(path: Path, looks: np.ndarray) -> None:
    """Where each head looks, as a matrix of positions."""
    figure, every = plt.subplots(1, len(looks), figsize=(2.4 * len(looks), 2.6), dpi=110)
    for i, (axes, look) in enumerate(zip(np.atleast_1d(every), looks, strict=True)):
        axes.imshow(look, cmap="GnBu", vmin=0)
        axes.set(title=f"head {i}", xlabel="seen", ylabel="time" if i == 0 else "")
        axes.set(xticks=[], yticks=[])
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and draws; returns the share of symbols that are right in rows held back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="text file whose lines take the place of letters")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--time", type=int, default=10, help="symbols of a row")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/named_tensor"))
    given = parser.parse_args(argv)

    given.out.mkdir(parents=True, exist_ok=True)
    rows, symbols = load(given)
    cut = len(rows) * 9 // 10
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        model = Reader(len(symbols), given.time, given.width, given.heads)
        optimizer = optim.Adam(model, lr=optim.schedule.Cosine(given.lr, steps=given.steps))

        @compile
        def step(rows: it.Tensor) -> it.Tensor:
            loss = it.cross_entropy(
                it.reshape(model(rows), (-1, len(symbols))),
                it.reshape(it.flip(rows, axis=1), (-1,)),
            )
            optimizer.step(loss.backward())
            return loss

        rng = np.random.default_rng(given.seed)
        for i in range(1, given.steps + 1):
            loss = step(it.asarray(rows[rng.integers(0, cut, given.batch_size)]))
            if i % max(1, given.steps // 5) == 0:
                print(f"step {i:4}  loss {float(loss):.4f}")
        with no_grad():
            told = it.argmax(model(it.asarray(rows[cut:])), axis=2).numpy()
            where, _ = model.look(it.asarray(rows[cut:]))
            looks = where.mean("batch").tensor("head", "time", "seen").numpy()
    draw(given.out / "attention.png", looks)
    right = float((told[:, ::-1] == rows[cut:]).mean())
    for row, answer in zip(rows[cut : cut + 3], told, strict=False):
        print(f"{''.join(symbols[i] for i in row)}  ->  {''.join(symbols[i] for i in answer)}")
    print(f"right symbols: {right:.4f}")
    return right


if __name__ == "__main__":
    main()
