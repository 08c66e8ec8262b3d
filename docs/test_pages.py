"""The documentation runs: each page's code from top to bottom, in one namespace for the page.

A `python` block is executed; with `>>>` prompts its output is compared as in a doctest. In a
`console` block each line that starts with `$ ` is run, and what follows it is compared with what
it prints, where `...` stands for anything. Blocks of other languages are only shown. A page that
says `<!-- needs torch -->` is skipped where that is not installed.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytorch_names import PAGE, pytorch_names

from ingle.tensor.operation import OPERATIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("p*s/*/README.md")),
]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs (\w+) -->")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the page before its first."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start(2)))


def run_python(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    """Runs a block in a namespace; tracebacks name the page and its lines."""
    if ">>> " in block.text:
        test = doctest.DocTestParser().get_doctest(
            block.text, namespace, page.name, str(page), block.line
        )
        report: list[str] = []
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
        namespace.update(test.globs)
        assert not report, "".join(report)
    else:
        exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)


def run_console(block: Block, page: Path, folder: Path) -> None:
    """Runs the commands of a block in a folder and compares what they print."""
    for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        words = shlex.split(command)
        if words[0] == "python":
            words[0] = sys.executable
        else:
            words[0] = str(Path(sys.executable).with_name(words[0]))
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}: {command}\n{done.stdout}{done.stderr}"
        same = doctest.OutputChecker().check_output(wanted, done.stdout, FLAGS)
        assert same or not wanted, f"{page.name}: {command}\n{done.stdout}"


@pytest.fixture(autouse=True)
def operations_of_their_own() -> Iterator[None]:
    """What a page registers ends with it: other tests of the process go through the registry."""
    before = dict(OPERATIONS)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in NEEDS.findall(page.read_text("utf-8")):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            run_python(block, page, namespace)
        elif block.language == "console":
            run_console(block, page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    lost = [to for to in LINK.findall(page.read_text("utf-8")) if not (page.parent / to).exists()]
    assert not lost


def test_the_page_of_pytorchs_names_is_new() -> None:
    page = PAGE.read_text("utf-8")
    # Names that got a home since it was written are no fault of it.
    lost = [line for line in pytorch_names().splitlines() if line not in page]
    assert all(line.startswith("- **") for line in lost), "write it anew: nox -f nox.py -s names"
