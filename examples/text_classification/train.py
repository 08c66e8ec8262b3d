"""Teaches a transformer what texts are about: `python train.py`, then `--predict "some text"`.

Without `--data` it tells apart what chapters of Python's documentation are about: statements,
types, operators, … With `--data FILE.csv` it takes rows of a label and a text; with `--ag-news` it
downloads AG News, to the folder `--data` if given. A `--tokenizer FILE` of the package `tokenizers`
takes the place of words.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.dashboard import Dashboard
from ingle.dataset import ArrayDataset, CsvDataset, Loader, ag_news
from ingle.train import Accuracy, EarlyStopping, Learner

Tokenize = Callable[[str], list[int]]
PADDING, UNKNOWN = 0, 1
WORDS = re.compile(r"\w+|[^\w\s]")
SUBJECTS = {
    "statements": ("assert", "break", "continue", "del", "for", "global", "if", "import", "pass",
                   "raise", "return", "try", "while", "with", "function", "class", "assignment"),
    "types": ("bltin-code-objects", "typesmapping", "typesseq", "typesfunctions", "typesmethods",
              "typesmodules", "types", "objects", "specialnames", "customization"),
    "expressions": ("binary", "bitwise", "booleans", "calls", "comparisons", "lambda", "power",
                    "shifting", "slicings", "subscriptions", "unary", "numeric-types"),
    "text": ("strings", "formatstrings", "string-methods", "typesseq-mutable"),
}  # fmt: skip
"""Chapters of Python's documentation, by what they are about."""


class Classifier(nn.Module):
    """The scores of labels: a transformer encoder over words, and the mean of what it makes."""

    def __init__(self, words: int, labels: int, length: int, width: int, layers: int) -> None:
        self.embed = nn.Embedding(words, width, padding_idx=PADDING)
        self.place = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(width, labels)

    def forward(self, text: it.Tensor) -> it.Tensor:
        padding = text == PADDING
        x = self.drop(self.embed(text) + self.place(it.arange(text.shape[1])))
        x = self.encoder(x, src_key_padding_mask=padding)
        there = it.expand_dims(it.astype(~padding, x.dtype), 2)
        mean = it.sum(x * there, axis=1) / it.maximum(it.sum(there, axis=1), 1.0)
        scores: it.Tensor = self.head(mean)
        return scores


def chapters(length: int) -> list[tuple[str, str]]:
    """Pieces of Python's documentation with what they are about."""
    found = []
    for subject, names in SUBJECTS.items():
        for name in names:
            words = pydoc_data.topics.topics.get(name, "").split()
            pieces = [words[i : i + length] for i in range(0, len(words), length)]
            found += [(subject, " ".join(piece)) for piece in pieces if len(piece) > 8]
    return found


def read(given: argparse.Namespace) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Labels and texts to train on, and to test with."""
    if given.ag_news:
        names = "world", "sports", "business", "technology"
        news = [ag_news(given.data, split="train"), ag_news(given.data, split="test")]
        first, second = ([(names[int(k)], text) for text, k in part] for part in news)
        return first, second
    if given.data is not None:
        found = CsvDataset(given.data, columns=["label", "text"])
        rows = [(row["label"], row["text"]) for row in found]
    else:
        rows = chapters(given.length // 2)
    order = np.random.default_rng(given.seed).permutation(len(rows))
    shuffled = [rows[i] for i in order]
    cut = len(rows) * 8 // 10
    return shuffled[:cut], shuffled[cut:]


def words_of(text: str) -> list[str]:
    """The words and signs of a text, in small letters."""
    return WORDS.findall(text.lower())


def tokenizer_of(file: Path | None, words: Sequence[str]) -> tuple[Tokenize, int]:
    """What turns a text into numbers, and how many there are: words, or those of `tokenizers`."""
    if file is not None:
        try:
            from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise SystemExit("error: --tokenizer needs `pip install tokenizers`") from None

        known = Tokenizer.from_file(str(file))
        return (lambda text: [i + 2 for i in known.encode(text).ids]), known.get_vocab_size() + 2
    numbers = {word: i for i, word in enumerate(words, 2)}
    return (lambda text: [numbers.get(w, UNKNOWN) for w in words_of(text)]), len(words) + 2


def padded(texts: Sequence[str], tokenize: Tokenize, length: int) -> np.ndarray:
    """Texts as rows of numbers of one length."""
    found = np.full((len(texts), length), PADDING, np.int64)
    for row, text in zip(found, texts, strict=True):
        tokens = tokenize(text)[:length]
        row[: len(tokens)] = tokens
    return found


def predict(out: Path, text: str) -> list[tuple[str, float]]:
    """Labels with their probabilities, the likeliest first."""
    settings = out / "settings.json"
    if not settings.is_file():
        raise SystemExit(f"error: {settings} is not there: train first, with the same --out")
    kept = json.loads(settings.read_text("utf-8"))
    file = kept["tokenizer"] and Path(kept["tokenizer"])
    tokenize, count = tokenizer_of(file, kept["words"])
    model = Classifier(count, len(kept["labels"]), *kept["sizes"]).eval()
    nn.load(out / "model.safetensors", model)
    scores = model(it.asarray(padded([text], tokenize, kept["sizes"][0])))
    chances = it.softmax(scores, axis=-1)[0].tolist()
    return sorted(zip(kept["labels"], chances, strict=True), key=lambda pair: -pair[1])


def main(argv: Sequence[str] | None = None) -> float:
    """Trains and tests, or predicts; returns the accuracy on texts held back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="CSV file: a label, a text")
    parser.add_argument("--ag-news", action="store_true", help="news of four kinds, downloaded")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json of `tokenizers`")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--predict", metavar="TEXT", help="only say what a text is about")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--length", type=int, default=64, help="words of a text")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/text_classification"))
    given = parser.parse_args(argv)

    with it.device(given.device or it.default_device()):
        if given.predict is not None:
            for label, chance in predict(given.out, given.predict):
                print(f"{chance:6.1%}  {label}")
            return float("nan")
        train, test = read(given)
        labels = sorted({label for label, _ in train})
        count = Counter(word for _, text in train for word in words_of(text))
        words = [word for word, n in count.most_common(20_000) if n > 1]
        tokenize, size = tokenizer_of(given.tokenizer, words)
        print(f"{len(train)} texts to train and {len(test)} to test, of {len(labels)} labels")

        def arrays(rows: Sequence[tuple[str, str]]) -> ArrayDataset:
            numbers = np.array([labels.index(label) for label, _ in rows], np.int64)
            return ArrayDataset(padded([text for _, text in rows], tokenize, given.length), numbers)

        it.random.seed(given.seed)
        sizes = given.length, given.width, given.layers
        model = Classifier(size, len(labels), *sizes)
        batches = Loader(arrays(train), given.batch_size, shuffle=True, seed=given.seed)
        steps = given.epochs * len(batches)
        rate = optim.schedule.Cosine(given.lr, steps=steps, warmup=min(50, steps // 10))
        learner = Learner(
            model,
            optim.AdamW(model, lr=rate, weight_decay=0.05),
            it.cross_entropy,
            metrics=[Accuracy()],
            max_grad_norm=1.0,
            callbacks=[EarlyStopping("valid/accuracy", mode="max", patience=8, restore_best=True)],
            progress=Dashboard(given.out),
        )
        tested = Loader(arrays(test), given.batch_size)
        learner.fit(batches, epochs=given.epochs, valid=tested)
        accuracy = float(learner.evaluate(tested, [Accuracy()])["accuracy"])
        nn.save(given.out / "model.safetensors", model)
    kept = {
        "labels": labels, "words": words, "sizes": sizes,
        "tokenizer": given.tokenizer and str(given.tokenizer),
    }  # fmt: skip
    settings = given.out / "settings.json"
    with nn.writing(settings):
        settings.write_text(json.dumps(kept), "utf-8")
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
