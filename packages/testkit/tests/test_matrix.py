"""The table of all backends: rows of those that work, and of those that don't."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ingle.testkit.matrix import Job, Line, Outcome, table

pytestmark = pytest.mark.slow

PLUGIN = """
from ingle.tensor.hooks import hookimpl
from ingle.tensor.plugins import BackendDescription

description = BackendDescription(create=dict, count=lambda: 0, missing="it is in the shop")
broken = BackendDescription(create=dict, count=lambda: 1 / 0)

class Plugin:
    @hookimpl
    def ingle_backends(self):
        return {"away": "absent:description", "odd": "absent:broken"}

from ingle.tensor import plugins
plugins.register("absent", Plugin())
"""


def run_matrix(folder, *options):
    (folder / "absent.py").write_text(PLUGIN)
    (folder / "job.py").write_text("print('test accuracy: 0.75')")
    program = "import absent, runpy; runpy.run_module('ingle.testkit.matrix', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", program, *options], capture_output=True, text=True, cwd=folder
    )


def test_each_backend_is_a_row(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import ingle.tensor as it\n"
        "def test_device(): assert it.default_device().name == 'numpy'\n"
        "def test_wrong(): assert False\n"
        "def test_host():\n"
        "    import warnings\n"
        "    from ingle.tensor.eager import HostFallbackWarning\n"
        "    warnings.warn('it runs on the host', HostFallbackWarning)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = run_matrix(
        tmp_path, "--backend=numpy", f"--tests={tmp_path / 'test_some.py'}", "--job", "job.py"
    )
    head, row, *others = done.stdout.splitlines()
    assert head.split()[0] == "device"
    found = dict(zip(head.split(), row.replace(" of ", "/").split(), strict=True))
    passed, every = found["testkit"].split("/")
    assert passed == every
    assert int(every) > 500
    assert found | {"testkit": ""} == {
        "device": "numpy", "native": found["native"], "composed": found["composed"],
        "host": "0", "missing": "0", "testkit": "", "tests": "2/3", "accuracy": "0.750",
        "speed": "1.00x",
    }  # fmt: skip
    assert int(found["native"]) > 100
    assert "away: no device: it is in the shop" in others
    assert any(line.startswith("odd: no device: ") for line in others)
    assert done.returncode == 1  # a test failed


def test_a_backend_that_is_not_there_is_an_error(tmp_path):
    done = run_matrix(tmp_path, "--backend=nowhere")
    assert done.returncode == 1
    assert "nowhere: not installed; there are" in done.stdout


def test_what_is_unknown_is_shown_as_such():
    line = Line("chalk", {}, Outcome(0, 1), None, Job(None, 1.0))
    assert table([line]).splitlines()[1].split() == [
        "chalk", "?", "?", "?", "?", "0", "of", "1", "-", "-", "-",
    ]  # fmt: skip
