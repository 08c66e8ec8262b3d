"""Finalizers that compute when Python goes down, and has no imports any more."""

import subprocess
import sys

import pytest

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
last = Last(lambda: {what})
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [("it.sum(x * 2).item()", "180000.0"), ("it.zeros(3).tolist()", "[0.0, 0.0, 0.0]"),
     ("it.random.normal((2,)).shape", "(2,)"), ("step(it.ones((2, 4))).item()", "16.0"),
     ("step(it.ones((5, 4))).item()", "40.0"), ("float(x[0, 0] + 1)", "2.0"),
     ("(x @ x)[0, 0].item()", "300.0")],
)  # fmt: skip
def test_an_object_that_goes_with_the_process(what, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{what}", what)], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (said, "")
