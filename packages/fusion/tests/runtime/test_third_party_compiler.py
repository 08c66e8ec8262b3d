"""A stranger's plugin that only compiles and launches: installed, found, checked, trained on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "third_party_compiler"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")

TRAINING = """
import numpy as np
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.device import backend_of
from ingle.tensor.sample import Draw


def train(device, wrap):
    draw = Draw(1)
    with it.device(device):
        x, y = it.asarray(draw.array((33, 5))), it.asarray(draw.integers((33,), 3))
        cells = [
            it.Cell(it.asarray(draw.array(s, low=-0.5, high=0.5)), differentiable=True)
            for s in ((5, 17), (17,), (17, 3), (3,))
        ]

        def step(x, y):
            hidden = it.relu(x @ cells[0] + cells[1])
            loss = it.cross_entropy(hidden @ cells[2] + cells[3], y)
            grads = loss.backward()
            with it.transaction():
                for cell in cells:
                    cell.value = cell.raw - grads[cell] * 0.3
            return loss

        step = wrap(step)
        return [step(x, y).item() for _ in range(40)]


expected = train("numpy", lambda step: step)
assert expected[-1] < 0.8 * expected[0], expected
for wrap in (compile, lambda step: step):
    np.testing.assert_allclose(train("gcc", wrap), expected, rtol=1e-4)
backend = backend_of("gcc")
backend = getattr(backend, "inner", backend)
print("kernels", len(backend._kernels), "host", dict(backend.host_fallbacks))
assert not backend.host_fallbacks
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment variables of a Python that has the example installed."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), str(EXAMPLE)], check=True)
    assert (target / "ingle_gcc" / "backend.py").is_file()
    path = os.pathsep.join(p for p in (str(target), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path, "INGLE_GCC_FLAGS": "-O1"}


def run(environment, cwd, *arguments):
    """Runs Python outside of the repository; returns what it printed, or fails with it."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_found(environment, tmp_path):
    report = json.loads(run(environment, tmp_path, "-m", "ingle.tensor", "info", "--json"))
    assert report["distributions"]["ingle-gcc"] == "0.1.0"
    assert "gcc" in [d["name"] for d in report["devices"]]
    assert report["default"] != "gcc"
    assert report["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False])
def test_it_trains_a_model(environment, tmp_path, fused):
    variables = environment if fused else {**environment, "INGLE_FUSION": "0"}
    out = run(variables, tmp_path, "-W", "error", "-c", TRAINING)
    assert "host {}" in out


CHOSEN = (
    "test_training or test_round_trip or test_threads or test_protocol or test_forward and "
    "(softmax or cross_entropy or gelu or layer_norm or matmul or sum or argmax or where)"
)
"""The rest of the smoke tier compiles thousands of kernels: it is for the night."""


@pytest.mark.slow
def test_it_passes_some_of_the_smoke_tier(environment, tmp_path):
    arguments = "-m pytest --pyargs ingle.testkit --backend=gcc --tier=smoke -q -p no:cacheprovider"
    out = run(environment, tmp_path, *arguments.split(), "-W", "error", "-k", CHOSEN)
    assert " passed" in out.splitlines()[-1]


@pytest.mark.nightly
@pytest.mark.parametrize("tier", ["smoke", "standard"])
def test_it_passes_a_whole_tier(environment, tmp_path, tier):
    # Exact, since half types are otherwise not rounded within a kernel, and a first run, operation
    # by operation, has other bits than the second one.
    exact = {**environment, "INGLE_FUSION_EXACT": "1"}
    arguments = "-m pytest --pyargs ingle.testkit --backend=gcc -q -p no:cacheprovider"
    out = run(exact, tmp_path, *arguments.split(), f"--tier={tier}", "-W", "error")
    assert " passed" in out.splitlines()[-1]


def test_a_backend_in_two_hundred_and_fifty_lines():
    files = sorted(EXAMPLE.rglob("*.py"))
    assert sum(len(f.read_text().splitlines()) for f in files) <= 250
