"""Every module can be imported, and what is imported late by name is there."""

from __future__ import annotations

import subprocess
import sys

from workspace import MEMBERS, ROOT

PROGRAM = r"""
import importlib, re, sys
from pathlib import Path

LATE = re.compile(r'\blate\(\s*"(ingle[a-z_.]+)"\s*\)(?:\s*\.(\w+))?')
failed = []
for folder in map(Path, sys.argv[1:]):
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if parts[-1] == "__main__":
            continue
        try:
            importlib.import_module(name)
            for module, attribute in LATE.findall(file.read_text("utf-8")):
                found = importlib.import_module(module)
                if attribute and not hasattr(found, attribute):
                    failed.append(f"{name}: {module} has no {attribute}")
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
print("\n".join(failed), end="")
"""


def test_every_module_can_be_imported_and_has_what_is_asked_for_late() -> None:
    """Types say nothing of what stands in a string, and no test needs modules for every device."""
    folders = [str(member.folder / "src") for member in MEMBERS]
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *folders]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""


UNUSED = (
    "asyncio", "cffi", "decimal", "difflib", "email", "fractions", "http", "importlib.metadata",
    "ingle.autodiff", "ingle.fusion", "ingle.optim.schedule.names", "ingle.tensor.checked",
    "ingle.tensor.pytorch_names", "ingle.testkit", "ingle_cpu", "ingle_numpy", "llvmlite",
    "matplotlib", "multiprocessing", "numpy.random", "numpy.testing", "random", "scipy",
    "secrets", "socket", "ssl", "statistics", "subprocess", "tempfile", "torch", "unittest",
    "urllib.request",
)  # fmt: skip
"""What programs need late, few or none of them."""


OF_COMPILE = ("ingle.autodiff", "ingle.fusion", "ingle.optim.schedule.names")
"""What of this `compile` needs."""


def test_an_import_loads_nothing_that_is_needed_later() -> None:
    program = (
        "import sys, numpy\n"
        "before = set(sys.modules)\n"  # what NumPy loads, some versions of it more
        "def loaded():\n"
        "    print(*sorted(set(sys.modules) & set(sys.argv[1:]) - before), sep=',')\n"
        "import ingle.tensor, ingle.nn, ingle.optim\n"
        "loaded()\n"
        "from ingle.fusion import compile\n"
        "loaded()\n"
    )
    command = [sys.executable, "-c", program, *UNUSED, "html"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    plain, compiling = run.stdout.split("\n")[:2]
    assert plain == ""
    assert set(compiling.split(",")) - set(OF_COMPILE) <= {""}
