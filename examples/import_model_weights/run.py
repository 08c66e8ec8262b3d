"""Weights of another library in a module of one's own: `python run.py`.

scikit-learn learns to read digits. Its weights, saved as NumPy arrays, have other names than the
module here, and its matrices are the other way round; they are renamed and turned as they are read.
`--weights FILE` takes a file that is there already: `.npz`, `.safetensors`, `.pth` or `.gguf`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer

RENAME = {
    r"^coefs\.0$": "hidden.weight",
    r"^intercepts\.0$": "hidden.bias",
    r"^coefs\.1$": "out.weight",
    r"^intercepts\.1$": "out.bias",
}
"""What the file's names are here; regular expressions, applied in order."""
TURNED = r"\.weight$"
"""Matrices that the file has as (in, out)."""
TRAINED = 1300
"""Digits to learn from; the others are told."""


class Reader(nn.Module):
    """Digits of 8 x 8 pixels to the scores of ten classes."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        self.hidden = nn.Linear(64, width)
        self.out = nn.Linear(width, classes)

    def forward(self, x: it.Tensor) -> it.Tensor:
        scores: it.Tensor = self.out(it.relu(self.hidden(x)))
        return scores


def digits() -> tuple[np.ndarray, np.ndarray]:
    """All pictures, (1797, 64) from 0 to 1, and what they show."""
    table = load_digits()
    return (table.data / 16.0).astype(np.float32), table.target


def learned(path: Path, seed: int) -> MLPClassifier:
    """Lets scikit-learn learn, and saves its weights under its own names."""
    x, y = digits()
    model = MLPClassifier((64,), max_iter=60, random_state=seed, tol=0.0)
    model.fit(x[:TRAINED], y[:TRAINED])
    arrays = {f"coefs.{i}": a for i, a in enumerate(model.coefs_)}
    arrays |= {f"intercepts.{i}": a for i, a in enumerate(model.intercepts_)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return model


def main(argv: Sequence[str] | None = None) -> float:
    """Reads the weights and tells digits; returns the share that is told right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, help="a file with the names of scikit-learn")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/import_model_weights"))
    given = parser.parse_args(argv)
    x, y = digits()
    theirs = None
    path = given.weights
    if path is None:
        path = given.out / "sklearn.npz"
        theirs = learned(path, given.seed)

    print(f"{path} has")
    for line in importer.open_weights(path).describe():
        print(f"  {line}")
    with it.device(given.device or it.default_device()):
        model = Reader().eval()
        print(importer.load_weights(model, path, rename=RENAME, transpose=TURNED))
        chances = it.softmax(model(it.asarray(x[TRAINED:])), axis=-1).numpy()
        if theirs is not None:
            apart = np.abs(chances - theirs.predict_proba(x[TRAINED:])).max()
            print(f"chances differ from scikit-learn's by at most {apart:.1e}")

        # A net with other classes takes what fits, and says what does not.
        other = Reader(classes=3)
        report = importer.load_weights(other, path, rename=RENAME, transpose=TURNED, strict=False)
        print(f"into a net of three classes: {report}")
    importer.save_safetensors(given.out / "model.safetensors", model)
    print(f"{given.out / 'model.safetensors'}: the same for others, under the names of here")
    accuracy = float((chances.argmax(-1) == y[TRAINED:]).mean())
    print(f"test accuracy: {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
