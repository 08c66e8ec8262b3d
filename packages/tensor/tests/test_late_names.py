"""What programs import, and when: names of packages are there before their modules are."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = "ingle.train", "ingle.importer", "ingle.dashboard", "ingle.fusion"


def run(code: str) -> str:
    """What a new process prints."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_sum_on_the_default_device_loads_no_package_that_it_does_not_need() -> None:
    heavy = "{'ingle.nn', 'ingle.optim', 'ingle.dataset', 'ingle.train.learner', 'onnx', 'psutil', "
    heavy += "'ingle.importer.onnx', 'pyopencl', 'cuda', 'rich', 'ingle.fusion.explanation'}"
    code = f"import sys, ingle.tensor as it; it.ones(2) + 1.0; print({heavy} & set(sys.modules))"
    assert run(code) == "set()"


@pytest.mark.slow
@pytest.mark.parametrize("package", LATE)
def test_late_names_are_seen_before_they_are_loaded(package: str) -> None:
    code = f"""
import importlib, sys, threading
package = importlib.import_module({package!r})
assert {package + ".names"!r} not in sys.modules
assert not hasattr(package, "__wrapped__")
assert {package + ".names"!r} not in sys.modules
seen = []
name = {{"ingle.train": "Learner", "ingle.importer": "load_onnx"}}.get({package!r}, "Run")
name = "explain" if {package!r} == "ingle.fusion" else name
def ask():
    seen.append(getattr(package, name))
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert seen == [vars(package)[name]] * 4
assert name in dir(package) and name in package.__all__
stars = {{}}
exec("from {package} import *", stars)
assert stars[name] is seen[0] and "late_names" not in stars
try:
    package.no_such_name
except AttributeError as error:
    print(error)
"""
    assert run(code) == f"module {package!r} has no attribute 'no_such_name'"


@pytest.mark.slow
def test_names_of_other_libraries_are_answered_before_the_package_is_loaded() -> None:
    code = "import ingle.train as t\ntry: t.Trainer\nexcept AttributeError as e: print(e)"
    assert "here: Learner(model, optimizer, loss)" in run(code)
