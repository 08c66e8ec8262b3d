"""The example runs, and its model learns on any two members."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "split.py"


@pytest.mark.slow
@pytest.mark.parametrize("members", [("cpu", "numpy"), ("numpy", "cpu")], ids=" ".join)
def test_it_trains(members):
    command = [sys.executable, "-W", "error", str(SCRIPT), *members, "--steps", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, loss, *report = done.stdout.splitlines()
    assert first == "router + router:1 = [11.0, 22.0] on router"
    before, after, parts = (float(w.rstrip(",")) for w in loss.split() if w[0].isdigit())
    assert after < 0.8 * before
    assert parts <= after
    assert report[0] == f"router is {members[0]}"
    assert report[2].startswith("router:1 -> router: ")
