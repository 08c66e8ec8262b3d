"""The backend as the default device: who gets it, what it costs to begin, what if it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import Device
from ingle_cpu.jit.engine import engine

pytestmark = pytest.mark.slow


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a fresh process says."""
    env = {k: v for k, v in os.environ.items() if k != "INGLE_DEVICE"} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_it_is_the_default():
    assert it.default_device() == it.ones(2).device == Device("cpu")
    with it.device("numpy"):
        assert it.ones(2).device == Device("numpy")
    assert it.ones(2, device="numpy").device == Device("numpy")


def test_the_variable_overrules_it():
    code = "import ingle.tensor as it; print(it.ones(2).device)"
    assert python(code, INGLE_DEVICE="numpy").stdout == "numpy\n"
    assert python(code).stdout == "cpu\n"


def test_info_shows_both_devices():
    done = subprocess.run(
        [sys.executable, "-m", "ingle.tensor", "info"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert any(x.strip().startswith("cpu:0") and "<- default" in x for x in lines)
    assert any(x.strip().startswith("numpy:0") for x in lines)


def test_small_operations_load_no_compiler():
    code = (
        "import sys, ingle.tensor as it\n"
        "assert 'ingle_cpu' not in sys.modules\n"
        "x = it.ones(3) + 1\n"
        "x[1] = 5\n"
        "assert x[::-1].tolist() == [2.0, 5.0, 2.0], x\n"
        "print(x)\n"
        "assert 'llvmlite' in sys.modules and 'llvmlite.binding' not in sys.modules\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tensor([2., 5., 2.]")


WITHOUT = "import sys; sys.modules['llvmlite'] = None\n"
COMPUTES = (
    "import ingle.tensor as it\n"
    "x = it.exp(it.zeros(2)) + 1\n"
    "print(x.device, x.tolist(), it.default_device())\n"
)


def test_without_llvmlite_numpy_is_the_default():
    done = python(WITHOUT + COMPUTES)
    assert done.stdout == "numpy [2.0, 2.0] numpy\n", done.stderr
    assert done.stderr.count("PluginWarning") == 1
    assert "llvmlite is not installed" in done.stderr
    assert "pip install" in done.stderr
    asked = python(WITHOUT + "import ingle.tensor as it; it.ones(1, device='cpu')")
    assert "llvmlite is not installed" in asked.stderr.splitlines()[-1]
    info = python(WITHOUT + "from ingle.tensor.cli import main; main(['info'])").stdout
    assert "problems:\n  backend 'cpu': llvmlite is not installed" in info
    assert "<- default" in next(x for x in info.splitlines() if "numpy:0" in x)


def broken(tmp_path: Path, source: str) -> str:
    """A path on which llvmlite is something else."""
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(source)
    return os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_a_broken_llvmlite_costs_a_warning(tmp_path):
    path = broken(tmp_path, "raise OSError('libstdc++ is too old')")
    done = python(COMPUTES, PYTHONPATH=path)
    assert done.stdout == "numpy [2.0, 2.0] numpy\n", done.stderr
    assert "libstdc++ is too old" in done.stderr


def test_a_compiler_that_does_not_load_is_an_error_with_a_cure(tmp_path):
    done = python(COMPUTES, PYTHONPATH=broken(tmp_path, ""))
    assert "llvmlite does not load" in done.stderr.splitlines()[-1]
    assert "INGLE_DEVICE=numpy" in done.stderr.splitlines()[-1]


FUNCTIONS = {
    "elementwise": lambda x: it.exp(x) * 2.0,
    "sum": lambda x: it.sum(it.tanh(x)),
    "mean": lambda x: it.mean(x, axis=0),
    "variance": lambda x: it.var(x, axis=-1),
    "softmax": lambda x: it.softmax(x, axis=-1),
    "layer_norm": lambda x: it.layer_norm(x, x.shape[-1:]),
    "product": lambda x: x @ x.T,
    "loss": lambda x: it.cross_entropy(x[:, :10], it.zeros(x.shape[0], dtype="int64")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_new_shapes_compile_no_new_kernels(name):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    for shape in ((65, 66), (70, 73), (72, 127), (128, 80), (97, 99)):
        function(it.asarray(rng.normal(size=shape))).numpy()
    before = engine().counts
    for rows, columns in rng.integers(65, 128, (40, 2)):  # of one kind: small ones are NumPy's
        x = rng.normal(size=(rows, columns))
        with it.device("numpy"):
            expected = function(it.asarray(x)).numpy()
        np.testing.assert_allclose(function(it.asarray(x)).numpy(), expected, rtol=1e-9, atol=1e-12)
    after = engine().counts
    more = after.compiled + after.loaded - before.compiled - before.loaded
    assert more <= (4 if name == "product" else 0)  # tiles come in a few sizes
