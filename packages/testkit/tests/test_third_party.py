"""The example of a stranger's backend: installed as its own distribution, found, checked, used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.tensor.operation import OPERATIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "third_party_backend"

TRAINING = """
import ingle.tensor as it
from ingle.tensor.sample import Draw

draw = Draw(1)
with it.device("toy"):
    x, y = it.asarray(draw.array((33, 5))), it.asarray(draw.integers((33,), 3))
    cells = [
        it.Cell(it.asarray(draw.array(s, low=-0.5, high=0.5)), differentiable=True)
        for s in ((5, 17), (17,), (17, 3), (3,))
    ]
    losses = []
    for step in range(40):
        hidden = it.maximum(x @ cells[0] + cells[1], 0.0)
        p = it.softmax(hidden @ cells[2] + cells[3], axis=1)
        loss = -it.sum(it.log(it.take_along_axis(p, it.reshape(y, (33, 1)), axis=1))) / 33.0
        losses.append(loss.item())
        grads = loss.backward()
        with it.transaction():
            for cell in cells:
                cell.value = cell.raw - grads[cell] * 0.3
assert str(loss.device) == "toy", loss.device
assert losses[-1] < 0.8 * losses[0], losses
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment variables of a Python that has the example installed."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), str(EXAMPLE)], check=True)
    assert (target / "ingle_toy" / "backend.py").is_file()
    return {**os.environ, "PYTHONPATH": str(target)}


def run(environment, cwd, *arguments):
    """Runs Python outside of the repository; returns what it printed, or fails with it."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_found(environment, tmp_path):
    report = json.loads(run(environment, tmp_path, "-m", "ingle.tensor", "info", "--json"))
    assert report["distributions"]["ingle-toy"] == "0.1.0"
    assert report["plugins"]["toy"] == "ingle_toy.plugin"
    assert "toy" in [d["name"] for d in report["devices"]]
    assert report["default"] in ("cpu", "numpy")
    assert report["problems"] == []


SOME = "add or softmax or conv_channels_last or take or sort"
"""Of a primitive, a composite, a contraction, an index and an order; the night has all."""


@pytest.mark.slow
def test_it_passes_the_smoke_tier(environment, tmp_path):
    arguments = "-m pytest --pyargs ingle.testkit --backend=toy --tier=smoke -q -p no:cacheprovider"
    out = run(environment, tmp_path, *arguments.split(), "-W", "error", "-k", SOME)
    assert " passed" in out.splitlines()[-1]


@pytest.mark.nightly
def test_it_passes_the_standard_tier(environment, tmp_path):
    arguments = "-m pytest --pyargs ingle.testkit --backend=toy -q -p no:cacheprovider"
    out = run(environment, tmp_path, *arguments.split(), "-W", "error", "--ingle-table")
    # Decompositions and transforms are no core kernels and have no body: only they run on the host.
    rows = (line.split() for line in out.splitlines())
    hosted = {row[0] for row in rows if row[1:2] == ["host"]}
    assert hosted == {
        o.name for o in OPERATIONS.values() if o.body is None and o.traits.family is None
    }


def test_it_trains_a_model(environment, tmp_path):
    run(environment, tmp_path, "-W", "error", "-c", TRAINING)


def test_a_backend_in_a_hundred_and_fifty_lines():
    files = sorted(EXAMPLE.rglob("*.py"))
    assert sum(len(f.read_text().splitlines()) for f in files) <= 150
