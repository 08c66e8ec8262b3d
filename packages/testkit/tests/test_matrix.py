"""The table of all backends: rows of those that work, and of those that don't."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ingle.testkit.limited import Ended, run
from ingle.testkit.matrix import Job, Line, Matrix, Outcome, remarks, table

NOT_RUN = Outcome(0, 0, 0, 0, "not run")

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


@pytest.mark.slow
def test_each_backend_is_a_row(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import ingle.tensor as it\n"
        "def test_device(): assert it.default_device().name == 'numpy'\n"
        "def test_wrong(): assert False\n"
        "def test_host():\n"
        "    import warnings\n"
        "    from ingle.tensor.eager import HostFallbackWarning\n"
        "    warnings.warn('it runs on the host', HostFallbackWarning)\n"
        "    warnings.warn('invalid value encountered in divide', RuntimeWarning)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = run_matrix(
        tmp_path, "--backend=numpy", f"--tests=some={tmp_path / 'test_some.py'}", "--job", "job.py"
    )
    head, row, *others = done.stdout.splitlines()
    assert head.split()[0] == "device"
    found = dict(zip(head.split(), row.replace(" of ", "/").split(), strict=True))
    passed, every = found["testkit"].split("/")
    assert passed == every
    assert int(every) > 500
    assert found | {"testkit": ""} == {
        "device": "numpy", "native": found["native"], "composed": found["composed"],
        "host": "0", "missing": "0", "testkit": "", "some": "2/3", "accuracy": "0.750",
        "speed": "1.00x",
    }  # fmt: skip
    assert int(found["native"]) > 100
    assert "away: no device: it is in the shop" in others
    assert any(line.startswith("odd: no device: ") for line in others)
    assert done.returncode == 1  # a test failed


@pytest.mark.slow
def test_a_backend_that_is_not_there_is_an_error(tmp_path):
    done = run_matrix(tmp_path, "--backend=nowhere")
    assert done.returncode == 1
    assert "nowhere: not installed; there are" in done.stdout


def test_what_is_unknown_is_shown_as_such():
    line = Line("chalk", {}, {"testkit": Outcome(0, 1)}, Job(None, 1.0))
    assert table([line]).splitlines()[1].split() == [
        "chalk", "?", "?", "?", "?", "0", "of", "1", "-", "-",
    ]  # fmt: skip
    assert not line.whole


def test_time_that_is_over_is_a_table_with_what_is_done():
    """Nothing has begun here; each cell says so."""
    matrix = Matrix(["numpy"], "smoke", {"some": ["nowhere"]}, ["job.py"], 1, 60, 0)
    matrix.measure()
    (line,) = matrix.lines()
    tests = {"testkit": NOT_RUN, "some": NOT_RUN}
    assert line == Line("numpy", {}, tests, Job(None, 0.0, "not run"))
    assert table([line]).count("not run") == 3


@pytest.mark.slow
def test_a_process_that_dies_is_a_cell_with_its_reason(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text(
        "import os, signal, pytest\n"
        "def test_one(): pass\n"
        "@pytest.mark.skip\n"
        "def test_two(): pass\n"
        "def test_three(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def test_four(): pass\n"
    )
    matrix = Matrix(["numpy"], "smoke", {"it": [str(file)]}, [], 1, 600, 600)
    matrix._suite("numpy", "it", 0, 1)
    (line,) = matrix.lines()
    assert str(line.tests["it"]) == "1 of 3 (died of SIGKILL)"
    assert remarks([line])[0].startswith("numpy: it: died of SIGKILL in ")
    assert remarks([line])[0].endswith("test_it.py::test_three")


@pytest.mark.slow
def test_shares_of_a_suite_are_the_suite(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text("".join(f"def test_{n}(): assert {n} != 3\n" for n in range(5)))
    matrix = Matrix(["numpy"], "smoke", {"it": [str(file)]}, [], 2, 600, 600)
    found = [matrix._suite("numpy", "it", k, 2) for k in range(2)]
    assert [str(outcome) for outcome in found] == ["3 of 3", "1 of 2"]
    assert matrix.lines()[0].tests["it"] == Outcome(4, 1, 0, 5)


def test_of_a_process_nothing_is_left():
    """Also where it has started others, and somebody stops it."""
    stop = threading.Event()
    program = "import subprocess, sys; subprocess.run(['sleep', '600'], stdout=sys.stdout)"
    waiting = threading.Timer(0.2, stop.set)
    waiting.start()
    ended = run([sys.executable, "-c", program], os.environ, 600, stop)
    waiting.join()
    assert ended == Ended(None, "", "interrupted")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_ended_the_table_comes_and_nothing_is_left(tmp_path, number):
    """Started as a shell starts what runs in the background: without Ctrl-C."""
    begun, file = tmp_path / "begun", tmp_path / "test_it.py"
    file.write_text(
        "import os, pathlib, time\n"
        "def test_long():\n"
        f"    pathlib.Path({str(begun)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    started = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "ingle.testkit.matrix",
         "--backend=numpy", f"--tests=it={file}", "--workers=2"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (begun.is_file() and begun.read_text()):
        assert started.poll() is None
        time.sleep(0.1)
    started.send_signal(number)
    said, _ = started.communicate()
    assert "0 of 1 (interrupted)" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_a_fixture_that_fails_behind_a_test_fails_it(tmp_path):
    (tmp_path / "t").write_text("collected 2\nbegins a\npassed a\nfailed a\nended a\nbegins b\n")
    assert Outcome.read(tmp_path / "t", "5 s") == Outcome(0, 1, 0, 2, "5 s", "b")
