"""Finalizers that compute when Python goes down, and has no imports any more."""

import gc
import subprocess
import sys

import pytest

import ingle.tensor as it

PROGRAM = """
import ingle.tensor as it
from ingle import nn
from ingle.fusion import compile

class Last:
    def __init__(self, what):
        self.what = what
    def __del__(self):
        print(self.what(), flush=True)

x = it.ones((300, 300))
model = nn.Linear(4, 4)
step = compile(lambda v: it.sum(model(v) * 0 + 2))
for _ in range(3):
    step(it.ones((2, 4))).item()
pending, waiting = x + 1.0, x * 3.0
weight = it.ones(3).require_grad()
loss = it.sum(weight * weight)
gradients = loss.backward()
last = Last(lambda: ({what}))
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("what", "said"),
    [("it.sum(x * 2).item()", "180000.0"), ("it.zeros(3).tolist()", "[0.0, 0.0, 0.0]"),
     ("it.random.normal((2,)).shape", "(2,)"), ("step(it.ones((2, 4))).item()", "16.0"),
     ("step(it.ones((5, 4))).item()", "40.0"), ("float(x[0, 0] + 1)", "2.0"),
     ("(x @ x)[0, 0].item()", "300.0"),
     ("float(pending[0, 0]), float(waiting[0, 0]), (pending + waiting)[0, 0].item()",
      "(2.0, 3.0, 5.0)"),
     ("float(loss), gradients[weight].tolist()", "(3.0, [2.0, 2.0, 2.0])"),
     ("sorted(model.state_dict()), hasattr(x, 'rows')", "(['bias', 'weight'], False)")],
)  # fmt: skip
def test_an_object_that_goes_with_the_process(what, said):
    done = run(PROGRAM.replace("{what}", what))
    assert (done.stdout.strip(), done.stderr) == (said, "")


@pytest.mark.slow
def test_a_save_says_from_where_to_save(tmp_path):
    path = tmp_path / "last.safetensors"
    done = run(PROGRAM.replace("{what}", f"nn.save({str(path)!r}, model)"))
    assert "CheckpointError: save: " in done.stderr
    assert "atexit.register" in done.stderr
    assert not path.exists()
    code = f"import atexit\natexit.register(lambda: nn.save({str(path)!r}, model))\n"
    done = run(PROGRAM.replace("{what}", "1") + code)
    assert (done.stdout.strip(), done.stderr, path.exists()) == ("1", "", True)


@pytest.mark.slow
def test_gradients_say_from_where_to_compute_them():
    what = "it.mean(model(it.ones((2, 4))) ** 2).backward()[model.weight].shape"
    done = run(PROGRAM.replace("{what}", what))
    assert "GradientError: backward: Python goes down" in done.stderr
    assert "atexit.register" in done.stderr
    code = f"import atexit\natexit.register(lambda: print({what}))\n"
    done = run(PROGRAM.replace("{what}", "1") + code)
    assert (done.stdout.split("\n")[0], done.stderr) == ("(4, 4)", "")


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_values_that_go_in_a_cycle_with_who_asks_for_them(device):
    """The collector clears weak references to values before it calls finalizers."""

    class Dying:
        def __init__(self):
            self.me = self
            self.first, self.second = base + 1.0, base * 3.0

        def __del__(self):
            said.extend([self.second.tolist(), (self.first + self.second).tolist()])

    said: list[object] = []
    with it.device(device):
        base = it.ones(2)
        kept = base - 1.0
        Dying()
        gc.collect()
        assert said == [[3.0, 3.0], [5.0, 5.0]]
        assert (kept + 1.0).tolist() == [1.0, 1.0]
