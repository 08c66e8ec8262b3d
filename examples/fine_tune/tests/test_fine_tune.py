"""A new last layer learns patterns behind a trunk that has learned others."""

import numpy as np
import pytest
from PIL import Image

KINDS = {
    "checks": lambda a, b: a * b > 0,
    "dots": lambda a, b: a + b > 1.0,
    "stripes": lambda a, b: a > 0,
}
OTHERS = {
    "grids": lambda a, b: np.maximum(a, b) > 0.8,
    "waves": lambda a, b: a + 0.3 * b > 0,
    "diamonds": lambda a, b: abs(a) + abs(b) > 1.0,
    "spots": lambda a, b: a * b > 0.4,
    "lines": lambda a, b: a > 0.8,
    "squares": lambda a, b: np.minimum(a, b) > 0.0,
}


def drawn(kinds, count, seed):
    """Pictures of each kind, (N, 64, 64, 3), with its number: any colors, sizes, places."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:64, :64]
    pictures, labels = [], []
    for label, mask in enumerate(kinds.values()):
        for _ in range(count):
            period, turn = rng.uniform(10, 18), rng.uniform(0, np.pi)
            u = x * np.cos(turn) + y * np.sin(turn) + rng.uniform(0, 20)
            v = y * np.cos(turn) - x * np.sin(turn) + rng.uniform(0, 20)
            inside = mask(np.sin(2 * np.pi * u / period), np.sin(2 * np.pi * v / period))
            first, second = rng.integers(0, 110, 3), rng.integers(140, 256, 3)
            pixels = np.where(inside[..., None], first, second) + rng.normal(0, 8, (64, 64, 3))
            pictures.append(pixels.clip(0, 255).astype(np.uint8))
            labels.append(label)
    return np.stack(pictures), np.array(labels)


def save(folder, count, seed):
    pictures, labels = drawn(KINDS, count, seed)
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        (folder / list(KINDS)[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / list(KINDS)[label] / f"{i}.png")


def learned_trunk(path):
    """A small ResNet that has learned other patterns, as a file of weights."""
    from models.pictures import DEVIATION, MEAN
    from models.resnet import ResNet

    import ingle.tensor as it
    from ingle import importer, optim
    from ingle.dataset import ArrayDataset, Loader
    from ingle.train import Learner

    it.random.seed(0)
    pictures, labels = drawn(OTHERS, 80, 5)
    x = ((pictures / 255.0 - MEAN) / DEVIATION).transpose(0, 3, 1, 2).astype(np.float32)
    model = ResNet("basic", (1, 1, 1, 1), len(OTHERS), 8)
    batches = Loader(ArrayDataset(x, labels), 32, shuffle=True, seed=0)
    Learner(model, optim.AdamW(model, lr=5e-3), it.cross_entropy).fit(batches, epochs=6)
    importer.save_safetensors(path, model)


@pytest.mark.slow
def test_it_learns_patterns(script, tmp_path):
    learned_trunk(tmp_path / "trunk.safetensors")
    save(tmp_path / "photos", 53, 0)
    out = ["--out", str(tmp_path / "run"), "--size", "64"]
    given = ["--data", str(tmp_path / "photos"), "--weights", str(tmp_path / "trunk.safetensors")]
    assert script.main([*given, *out]) >= 0.9
    save(tmp_path / "new", 10, 1)
    files = sorted((tmp_path / "new").glob("*/*.png"))
    told = script.main(["--predict", *map(str, files), *out])
    assert np.mean([a == b.parent.name for a, b in zip(told, files, strict=True)]) >= 0.8


@pytest.mark.slow
def test_a_trunk_that_knows_nothing_is_worth_less(script, tmp_path):
    save(tmp_path / "photos" / "train", 30, 0)
    save(tmp_path / "photos" / "test", 10, 1)
    out = ["--out", str(tmp_path / "run"), "--size", "64", "--epochs", "20"]
    score = script.main(["--data", str(tmp_path / "photos"), "--weights", "random", *out])
    assert 0.4 <= score < 0.9


def test_what_is_missing_is_said(script, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script.main([])
    assert "give --data FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="train first"):
        script.main(["--predict", "a.png", "--out", str(tmp_path)])
