"""The main job as a user runs it: train, resume, look at the files, predict pictures."""

import gzip
import math
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from ingle import nn
from ingle.dataset import digits

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE))

from photo import PhotoError, read_digit  # noqa: E402

# Handwriting as lines through points of the unit square.
STROKES = {
    0: [[(0.5, 0.1), (0.3, 0.2), (0.22, 0.5), (0.3, 0.8), (0.5, 0.9), (0.7, 0.8), (0.78, 0.5),
         (0.7, 0.2), (0.5, 0.1)]],
    1: [[(0.35, 0.3), (0.52, 0.1), (0.5, 0.9)]],
    2: [[(0.25, 0.3), (0.35, 0.13), (0.6, 0.1), (0.74, 0.28), (0.65, 0.48), (0.25, 0.88),
         (0.8, 0.88)]],
    3: [[(0.25, 0.15), (0.5, 0.1), (0.7, 0.2), (0.68, 0.4), (0.45, 0.48), (0.7, 0.55),
         (0.75, 0.75), (0.55, 0.9), (0.25, 0.85)]],
    4: [[(0.6, 0.1), (0.2, 0.6), (0.8, 0.6)], [(0.6, 0.1), (0.58, 0.92)]],
    5: [[(0.72, 0.1), (0.33, 0.1), (0.3, 0.45), (0.55, 0.42), (0.74, 0.58), (0.7, 0.8),
         (0.5, 0.9), (0.25, 0.83)]],
    6: [[(0.65, 0.1), (0.4, 0.3), (0.27, 0.6), (0.32, 0.83), (0.52, 0.9), (0.7, 0.78),
         (0.68, 0.6), (0.5, 0.52), (0.3, 0.64)]],
    7: [[(0.22, 0.12), (0.78, 0.12), (0.6, 0.5), (0.45, 0.9)]],
    8: [[(0.5, 0.48), (0.3, 0.35), (0.33, 0.17), (0.5, 0.1), (0.67, 0.17), (0.7, 0.35),
         (0.5, 0.48), (0.28, 0.65), (0.3, 0.84), (0.5, 0.9), (0.7, 0.84), (0.72, 0.65),
         (0.5, 0.48)]],
    9: [[(0.7, 0.35), (0.52, 0.5), (0.32, 0.4), (0.33, 0.2), (0.52, 0.1), (0.7, 0.2), (0.7, 0.4),
         (0.62, 0.9)]],
}  # fmt: skip


def drawing(digit, *, size=(280, 280), width=20, box=(40, 40, 200), ink=0, paper=255):
    """A digit drawn with a pen of `width` into the square `box`, smoothed."""
    image = Image.new("L", (size[0] * 4, size[1] * 4), paper)
    pen = ImageDraw.Draw(image)
    left, top, side = box
    for stroke in STROKES[digit]:
        points = [((left + x * side) * 4, (top + y * side) * 4) for x, y in stroke]
        pen.line(points, fill=ink, width=width * 4, joint="curve")
        for x, y in points:
            pen.ellipse([x - width * 2, y - width * 2, x + width * 2, y + width * 2], fill=ink)
    return image.resize(size, Image.Resampling.LANCZOS)


def photograph(digit, *, ink=40, paper=200, noise=9, seed=0):
    """A drawing under uneven light, with noise, blurred, a little turned, a shadow in a corner."""
    values = drawing(digit, size=(640, 480), width=18, box=(120, 90, 280), ink=ink, paper=paper)
    y, x = np.mgrid[:480, :640]
    light = 0.55 + 0.36 * x / 640 + 0.2 * y / 480
    grains = np.random.default_rng(seed).normal(0, noise, (480, 640))
    shaded = np.clip(np.asarray(values, float) * light + grains, 0, 255).astype(np.uint8)
    return Image.fromarray(shaded).filter(ImageFilter.GaussianBlur(1)).rotate(4, fillcolor=110)


def transparent(digit):
    image = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    mask = drawing(digit, size=(200, 200), width=16, box=(20, 20, 160), ink=255, paper=0)
    image.paste((20, 30, 160, 255), mask=mask)
    return image


KINDS = {
    "black on white": drawing,
    "white on black": lambda d: drawing(d, ink=255, paper=0),
    "as small as MNIST": lambda d: drawing(
        d, size=(28, 28), width=2, box=(4, 4, 20), ink=255, paper=0
    ),
    "off centre": lambda d: drawing(d, size=(400, 300), width=11, box=(250, 5, 140)),
    "a thin pen": lambda d: drawing(
        d, size=(600, 800), width=6, box=(300, 420, 260), ink=30, paper=235
    ),
    "photograph": photograph,
    "chalk": lambda d: photograph(d, ink=215, paper=55, noise=6),
    "transparent": transparent,
}


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "black on white"])
def test_every_picture_of_a_digit_becomes_the_same_image(tmp_path, kind):
    path = tmp_path / "digit.png"
    for digit in STROKES:
        drawing(digit).save(path)
        plain = read_digit(path)
        KINDS[kind](digit).save(path)
        image = read_digit(path)
        assert (image.shape, image.dtype) == ((28, 28), np.float32)
        similarity = float((plain * image).sum() / np.sqrt((plain**2).sum() * (image**2).sum()))
        assert similarity > 0.75, f"{digit}: {similarity:.2f}"


def test_the_image_is_framed_as_mnists_are(tmp_path):
    drawing(7, size=(500, 300), box=(280, 20, 200)).save(tmp_path / "digit.png")
    image = read_digit(tmp_path / "digit.png")
    rows, columns = np.flatnonzero(image.max(1) > 0.1), np.flatnonzero(image.max(0) > 0.1)
    assert 19 <= max(np.ptp(rows), np.ptp(columns)) + 1 <= 20
    at = np.arange(28)
    centre = image.sum(1) @ at / image.sum(), image.sum(0) @ at / image.sum()
    np.testing.assert_allclose(centre, 13.5, atol=0.6)


@pytest.mark.parametrize(
    "values",
    [
        np.full((100, 120), 255),
        np.zeros((50, 50)),
        np.tile(np.linspace(60, 200, 200), (150, 1)),
        200 + np.random.default_rng(0).normal(0, 6, (200, 200)),
        np.full((1, 1), 128),
    ],
    ids=["white", "black", "shaded", "noise", "one pixel"],
)
def test_a_picture_without_a_digit_is_refused(tmp_path, values):
    path = tmp_path / "blank.png"
    Image.fromarray(np.clip(values, 0, 255).astype(np.uint8)).save(path)
    with pytest.raises(PhotoError, match=r"no digit to be seen.*give one with dark ink"):
        read_digit(path)


def test_files_that_are_no_pictures_are_refused(tmp_path):
    with pytest.raises(PhotoError, match="there is no such file"):
        read_digit(tmp_path / "none.png")
    with pytest.raises(PhotoError, match="this is a folder"):
        read_digit(tmp_path)
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(PhotoError, match="cannot be read"):
        read_digit(tmp_path / "text.png")
    drawing(3).save(tmp_path / "cut.png")
    data = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(PhotoError, match="cannot be read"):
        read_digit(tmp_path / "cut.png")


def script(name, *arguments, hide=(), check=True):
    """Runs one of the scripts, with some packages as if they were not installed."""
    code = "import runpy, sys\n" + "".join(f"sys.modules[{m!r}] = None\n" for m in hide)
    code += f"sys.argv = {[name, *map(str, arguments)]!r}\nsys.path.insert(0, {str(HERE)!r})\n"
    code += f"runpy.run_path({str(HERE / name)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def accuracy_of(out):
    """What the last line says."""
    match = re.fullmatch(r"test accuracy: ([01]\.\d{4})", out.splitlines()[-1])
    assert match, out
    return float(match[1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder and the output of a whole training of the two-layer net."""
    folder = tmp_path_factory.mktemp("mlp")
    return folder, script("train.py", "--digits", "--model", "mlp", "--out", folder).stdout


@pytest.mark.slow
def test_the_two_layer_net_reaches_95_percent(trained):
    folder, out = trained
    assert accuracy_of(out) >= 0.95
    for name in ("predictions.png", "confusion.png", "loss.png"):
        with Image.open(folder / name) as image:
            assert min(image.size) > 400
            assert len(image.convert("L").getcolors()) > 20


@pytest.mark.slow
def test_resuming_a_finished_training_changes_nothing(trained):
    folder, out = trained
    before = (folder / "model.safetensors").read_bytes()
    again = script("train.py", "--digits", "--model", "mlp", "--out", folder, "--resume").stdout
    assert accuracy_of(again) == accuracy_of(out)
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_prediction_needs_nothing_of_training(trained, tmp_path):
    folder, _ = trained
    paths = []
    for digit in STROKES:
        for kind in ("black on white", "a thin pen", "photograph", "chalk"):
            paths.append(tmp_path / f"{digit} {kind}.png")
            KINDS[kind](digit).save(paths[-1])
    hidden = ["ingle.autodiff", "ingle.train", "ingle.dataset", "ingle.optim", "matplotlib"]
    out = script(
        "predict.py", "--checkpoint", folder / "model.safetensors", *paths, hide=hidden
    ).stdout
    found = re.findall(r"(\d) [^/\\]*\.png: (\d) \((\d+\.\d)%\)$", out, re.MULTILINE)
    assert len(found) == len(paths)
    assert sum(a == b for a, b, _ in found) >= 0.8 * len(paths)
    shares = [float(p) for p in re.findall(r"^  \d +(\d+\.\d)%", out, re.MULTILINE)]
    assert len(shares) == 10 * len(paths)
    assert math.isclose(sum(shares[:10]), 100, abs_tol=0.6)


@pytest.mark.slow
def test_predict_says_what_is_wrong(trained, tmp_path):
    folder, _ = trained
    model = folder / "model.safetensors"
    checkpoint = next((folder / "checkpoints").glob("step-*"))
    (tmp_path / "broken.safetensors").write_bytes(model.read_bytes()[:1000])
    drawing(3).save(tmp_path / "3.png")
    for arguments, message in (
        ((model, tmp_path / "none.png"), "there is no such file"),
        ((tmp_path / "none.safetensors", tmp_path / "3.png"), "there is no such file"),
        ((tmp_path / "broken.safetensors", tmp_path / "3.png"), "broken.safetensors"),
        ((checkpoint, tmp_path / "3.png"), "does not say which of linear, mlp, cnn"),
    ):
        done = script("predict.py", "--checkpoint", *arguments, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_train_says_what_is_wrong(tmp_path):
    for arguments, message in (
        (("--device", "abacus"), "no backend named 'abacus'"),
        (("--epochs", "0"), "at least 1"),
        (("--model", "transformer"), "invalid choice"),
    ):
        done = script("train.py", "--digits", "--out", tmp_path, *arguments, check=False)
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03\0\0")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"")
    done = script("train.py", "--data", tmp_path, "--out", tmp_path / "out", check=False)
    assert "truncated in its header" in done.stderr
    done = script("train.py", "--digits", "--out", tmp_path, hide=["matplotlib"], check=False)
    assert "pip install matplotlib" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_a_picture_that_has_no_room_is_named(tmp_path):
    pytest.importorskip("matplotlib")
    from figures import confusion_matrix

    path = tmp_path / "confusion.png"
    path.symlink_to("/dev/full")
    with pytest.raises(nn.FileWriteError, match=r"confusion.png: cannot be written: No space left"):
        confusion_matrix(path, np.eye(10, dtype=int))


@pytest.mark.slow
def test_the_linear_net_stops_by_itself(tmp_path):
    out = script("train.py", "--digits", "--model", "linear", "--out", tmp_path).stdout
    assert accuracy_of(out) >= 0.9045
    assert "stopped: train/loss has not improved" in out


@pytest.mark.slow
def test_mnists_files_are_taken_from_a_folder(tmp_path):
    for split, part in (("train", "train"), ("test", "t10k")):
        images, labels = digits(split).arrays
        for kind, array in (("images-idx3", images[:300, 0] * 255), ("labels-idx1", labels[:300])):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            data = head + array.astype(np.uint8).tobytes()
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(data))
    out = script(
        "train.py", "--data", tmp_path, "--model", "linear", "--epochs", "3", "--out", tmp_path
    ).stdout
    assert "MNIST: 250 to train, 50 to validate, 300 to test" in out
    assert accuracy_of(out) > 0.5


@pytest.mark.nightly
def test_the_convolutional_net_reaches_98_percent(tmp_path):
    out = script("train.py", "--digits", "--out", tmp_path).stdout
    assert accuracy_of(out) >= 0.98
