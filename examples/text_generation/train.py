"""Teaches a transformer to write, character by character, and lets it: `python train.py`.

The text is the documentation of Python's standard library, which every Python has with it;
`--data FILE` takes another one. Afterwards `--generate "some words"` goes on with them.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, Loader
from ingle.train import Accuracy, Learner, Perplexity


class Writer(nn.Module):
    """The scores of the next character at each place, from all characters up to it."""

    def __init__(self, characters: int, length: int, width: int, heads: int, layers: int) -> None:
        self.length = length
        self.embed = nn.Embedding(characters, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, dropout=0.0, activation="gelu",
                    batch_first=True, norm_first=True,
                )
                for _ in range(layers)
            ]
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)

    def forward(self, text: it.Tensor) -> it.Tensor:
        places = it.arange(text.shape[1])
        x = self.embed(text) + self.place(places)
        later = it.expand_dims(places, 1) < places
        for block in self.blocks:
            x = block(x, src_mask=later)
        scores: it.Tensor = self.head(self.norm(x))
        return scores


def loss_of(scores: it.Tensor, text: it.Tensor) -> it.Tensor:
    """The mean cross entropy of all places."""
    return it.cross_entropy(it.reshape(scores, (-1, scores.shape[-1])), it.reshape(text, (-1,)))


def read(file: Path | None, most: int) -> str:
    """The text to learn from."""
    if file is not None:
        return file.read_text("utf-8")[:most]
    return "\n".join(pydoc_data.topics.topics.values())[:most]


def windows(numbers: np.ndarray, length: int) -> ArrayDataset:
    """Pieces of a text, each with the same one moved by a character."""
    count = (len(numbers) - 1) // length
    inputs = numbers[: count * length].reshape(count, length)
    targets = numbers[1 : count * length + 1].reshape(count, length)
    return ArrayDataset(inputs, targets)


def generate(
    model: Writer, alphabet: str, start: str, count: int, temperature: float, seed: int = 0
) -> str:
    """Goes on with a text by `count` characters, drawn as the model finds them likely."""
    rng, known = np.random.default_rng(seed), [alphabet.find(c) for c in start]
    numbers = [k for k in known if k >= 0] or [0]
    model.eval()
    for _ in range(count):
        recent = np.array([numbers[-model.length :]])
        # One length for all, so that one plan serves: what is behind the end is not looked at.
        padded = np.pad(recent, ((0, 0), (0, model.length - recent.shape[1])))
        scores = model(it.asarray(padded))[0, recent.shape[1] - 1].numpy().astype(np.float64)
        scores = scores / max(temperature, 1e-6)
        chances = np.exp(scores - scores.max())
        numbers.append(int(rng.choice(len(alphabet), p=chances / chances.sum())))
    return "".join(alphabet[n] for n in numbers)


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and writes; returns the loss on text that it was not trained on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a text file")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--generate", metavar="TEXT", help="only write, with the weights of --out")
    parser.add_argument("--count", type=int, default=400, help="how many characters to write")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--most", type=int, default=400_000, help="characters to learn from")
    parser.add_argument("--length", type=int, default=96)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/text_generation"))
    given = parser.parse_args(argv)
    weights, settings = given.out / "model.safetensors", given.out / "settings.json"

    with it.device(given.device or it.default_device()):
        if given.generate is not None:
            if not settings.is_file():
                raise SystemExit(
                    f"error: {settings} is not there: train first, with the same --out"
                )
            kept = json.loads(settings.read_text("utf-8"))
            model = Writer(len(kept["alphabet"]), *kept["sizes"])
            nn.load(weights, model)
            print(generate(model, kept["alphabet"], given.generate, given.count, given.temperature))
            return float("nan")
        text = read(given.data, given.most)
        alphabet = "".join(sorted(set(text)))
        numbers = np.array([alphabet.index(c) for c in text], np.int64)
        cut = len(numbers) * 9 // 10
        train, valid = (windows(n, given.length) for n in (numbers[:cut], numbers[cut:]))
        it.random.seed(given.seed)
        sizes = given.length, given.width, given.heads, given.layers
        model = Writer(len(alphabet), *sizes)
        batches = Loader(train, given.batch_size, shuffle=True, seed=given.seed, drop_last=True)
        steps = given.epochs * len(batches)
        rate = optim.schedule.Cosine(given.lr, steps=steps, warmup=min(100, steps // 10))
        learner = Learner(
            model,
            optim.AdamW(model, lr=rate, weight_decay=0.1),
            loss_of,
            metrics=[Accuracy(), Perplexity()],
            max_grad_norm=1.0,
            progress=Dashboard(given.out),
        )
        history = learner.fit(
            batches, epochs=given.epochs, valid=Loader(valid, given.batch_size, drop_last=True)
        )
        nn.save(weights, model)
        with nn.writing(settings):
            settings.write_text(json.dumps({"alphabet": alphabet, "sizes": sizes}), "utf-8")
        written = generate(model, alphabet, "The ", given.count, given.temperature)
    print(written)
    print(f"validation loss: {history[-1]['valid/loss']:.4f} for each character")
    return history[-1]["valid/loss"]


if __name__ == "__main__":
    main()
