"""The dashboard beside a training in a real terminal, and what is left where there is none."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request

import psutil
import pytest
import run_files
from terminals import AVAILABLE, Terminal

from ingle.dashboard import Dashboard, RunWarning, live, read_run
from ingle.dashboard.live import _Screen
from ingle.dashboard.reading import OUTPUT
from ingle.tensor.cli import main
from ingle.train import Control, RunFacts

TRAINING = """
    import os, sys, time
    import numpy as np
    import ingle.tensor as it
    from ingle import nn, optim
    from ingle.dashboard import Dashboard
    from ingle.dataset import ArrayDataset, Loader
    from ingle.train import Callback, Learner

    class Slow(Callback):
        def on_step(self, learner, loss):
            time.sleep(0.02)
            if learner.steps == 5:
                print("printed meanwhile")
            if {die} and os.path.exists(sys.argv[1] + "/now"):
                raise RuntimeError("out of luck")

    it.random.seed(0)
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    learner = Learner(
        model, optim.SGD(model, lr=0.1), it.mse_loss, callbacks=[Slow()],
        checkpoints=sys.argv[1] + "/kept", progress=Dashboard(sys.argv[1] + "/run"))
    with it.device("numpy"):
        learner.model.to("numpy")
        learner.fit(Loader(ArrayDataset(x, np.sin(3 * x)), 8), epochs={epochs})
    print("steps done:", learner.steps)
"""


def script(folder, epochs, die=False):
    path = folder / "training.py"
    path.write_text(textwrap.dedent(TRAINING.format(epochs=epochs, die=die)))
    return f"{sys.executable} {path} {folder}"


@pytest.mark.slow
def test_without_a_terminal_there_are_lines_and_a_run(tmp_path):
    command = script(tmp_path, 3).split()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "epoch 3/3  lr 0.1  train/loss" in done.stdout
    assert "steps done: 24" in done.stdout
    assert "\x1b" not in done.stdout
    run = read_run(tmp_path / "run")
    assert (run.status, run.step) == ("finished", 24)
    assert run.norms.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted there")
@pytest.mark.parametrize("fault", ["log", "process"])
def test_a_dashboard_that_cannot_be_opened_leaves_plain_lines(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(live, "_has_terminal", lambda: True)
    if fault == "log":
        (tmp_path / OUTPUT).mkdir()
    else:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    dashboard, before = Dashboard(tmp_path), len(os.listdir("/proc/self/fd"))
    with pytest.warns(RunWarning, match="cannot be opened .*plain lines"):
        dashboard.begin(RunFacts(1, 0, 0, ("numpy",)), Control())
    assert len(os.listdir("/proc/self/fd")) == before
    dashboard.end(None)


def test_a_log_that_somebody_deleted_ends_no_training(tmp_path, capfd):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    screen = _Screen(done, tmp_path / "gone.log", [os.dup(1), os.dup(2)])
    screen.close()
    assert "what the program printed meanwhile is lost" in capfd.readouterr().out


def process_of(*arguments):
    """The process that was started with these arguments among others."""
    for process in psutil.process_iter(["cmdline"]):
        if set(arguments) <= set(process.info["cmdline"] or []):
            return process
    raise AssertionError(f"no process has {arguments}")


needs_tmux = pytest.mark.skipif(not AVAILABLE, reason="tmux is not installed")


@pytest.mark.slow
@needs_tmux
def test_a_training_from_its_first_step_to_a_stop_by_key(tmp_path):
    with Terminal(tmp_path) as terminal:
        terminal.type(script(tmp_path, 500))
        seen = terminal.wait(lambda s: "● training" in s and "step 4" in s)
        assert terminal.alternate()
        assert len(seen.splitlines()) == 24
        terminal.press("3")
        # A line that comes in the moment of the key takes the log to its end once more.
        terminal.wait(lambda s: "printed meanwhile" in s or terminal.press("Home"))
        terminal.press("1")
        terminal.press("p")
        terminal.wait("‖ paused")
        assert read_run(tmp_path / "run").status == "paused"
        terminal.press("c", "2")
        terminal.wait("gradients")
        terminal.resize(100, 30)
        terminal.wait(lambda s: "Tanh" in s and len(s.splitlines()) == 30)
        terminal.press("1", "p")
        terminal.wait("● training")
        terminal.wait(lambda s: "wrote" in s)
        # Ctrl-C asks here.
        terminal.press("C-c")
        terminal.wait("stop?")
        terminal.press("y")
        terminal.wait("steps done:")
        assert not terminal.alternate()
        assert "stopped: stopped from the dashboard" in terminal.history()
        assert "printed meanwhile" in terminal.history()
        # The shell has a sane terminal again.
        terminal.type("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon; echo sa''ne")
        after = terminal.wait("sane")
        assert {"echo", "icanon"} <= set(after.split())
    assert list((tmp_path / "kept").glob("step-*"))


@pytest.mark.slow
@needs_tmux
@pytest.mark.parametrize("how", ["q", "kill"])
def test_training_goes_on_without_the_dashboard(tmp_path, how):
    with Terminal(tmp_path, 100, 30) as terminal:
        terminal.type(script(tmp_path, 60))
        terminal.wait("● training")
        if how == "q":
            terminal.press("q")
        else:
            process_of("ingle.dashboard", f"{tmp_path}/run").kill()
        terminal.wait(lambda s: not terminal.alternate())
        assert "epoch 60/60" in terminal.wait("steps done: 480")
        assert "opens the dashboard again" in terminal.history()
        terminal.type("echo sa''ne")
        terminal.wait("sane")
    assert read_run(tmp_path / "run").status == "finished"


@pytest.mark.slow
@needs_tmux
def test_an_exception_is_seen_when_the_dashboard_is_gone(tmp_path):
    with Terminal(tmp_path, 120, 40) as terminal:
        terminal.type(script(tmp_path, 500, die=True))
        terminal.wait("● training")
        (tmp_path / "now").touch()
        terminal.wait("out of luck")
        assert not terminal.alternate()
        assert "Traceback" in terminal.history()
    run = read_run(tmp_path / "run")
    assert (run.status, run.reason) == ("stopped", "RuntimeError: out of luck")


@pytest.mark.slow
@needs_tmux
@pytest.mark.parametrize("shell", ["sh", "bash --norc"])
def test_a_killed_training_takes_its_dashboard_along(tmp_path, shell):
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"{shell} is not here")
    with Terminal(tmp_path, 120, 40, shell) as terminal:
        terminal.type(script(tmp_path, 500))
        terminal.wait("● training")
        dashboard = process_of("ingle.dashboard", f"{tmp_path}/run")
        process_of(f"{tmp_path}/training.py", str(tmp_path)).kill()
        dashboard.wait(60)
        assert not terminal.alternate()
        assert read_run(tmp_path / "run").status == "lost"
        # The shell, which took the terminal before the dashboard had left it, has a sane one.
        terminal.type("echo sa''ne")
        terminal.wait("sane")
        terminal.type("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon; echo sa''nest")
        assert {"echo", "icanon"} <= set(terminal.wait("sanest").split())


@pytest.mark.slow
@needs_tmux
def test_show_opens_a_finished_run(tmp_path):
    run_files.write(tmp_path / "run", ended=True)
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{sys.executable} -m ingle.tensor train show {tmp_path}/run")
        terminal.wait("✓ finished")
        terminal.press("q")
        terminal.wait(lambda s: not terminal.alternate())


@pytest.mark.slow
def test_serving_it_to_a_browser(tmp_path, unused_port):
    pytest.importorskip("textual_serve")
    run_files.write(tmp_path / "run", ended=True)
    command = [sys.executable, "-m", "ingle.tensor", "train", "show", "--serve"]
    server = subprocess.Popen(
        [*command, f"--port={unused_port}", str(tmp_path / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        for _ in range(100):
            try:
                page = urllib.request.urlopen(f"http://localhost:{unused_port}", timeout=1).read()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.2)
        assert b"textual" in page.lower()
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


@pytest.fixture
def unused_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def test_show_without_a_terminal_writes_lines(tmp_path, capsys):
    run_files.write(tmp_path, ended=True)
    assert main(["train", "show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path}: finished" in out
    assert "epoch 4 of 4, step 200, 1:40 gone" in out
    assert "21 parameters on numpy" in out
    assert "valid/accuracy                 0.7   best 0.7 at step 200" in out


def test_runs_side_by_side(tmp_path, capsys):
    run_files.write(tmp_path / "first", ended=True)
    run_files.write(tmp_path / "second", seed=5)
    assert main(["train", "compare", str(tmp_path / "first"), str(tmp_path / "second")]) == 0
    out = capsys.readouterr().out
    head = out.splitlines()[0].split()
    assert head == ["first", "second"]
    rows = {line.rsplit(maxsplit=2)[0].strip(): line.split()[-2:] for line in out.splitlines()[1:9]}
    assert rows["status"] == ["finished", "training"]
    assert rows["steps"] == ["200", "125"]
    assert rows["best train/accuracy"] == ["0.8", "0.6"]
    assert "valid/loss" in out
    assert any(0x2801 <= ord(c) <= 0x28FF for c in out)


def test_commands_say_what_is_wrong(tmp_path, capsys):
    assert main(["train", "show", str(tmp_path / "none")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["train", "compare", str(tmp_path)]) == 1
    assert "there is no run here" in capsys.readouterr().err
