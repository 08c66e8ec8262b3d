"""Paths and names in the pages on the sources are those of the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CHANGES = DOCS / "where-to-change.md"
PAGES = [CHANGES, DOCS / "architecture.md", DOCS / "kernels.md"]
BASES = {
    "fusion": ROOT / "packages" / "fusion" / "src" / "ingle" / "fusion",
    "tensor": ROOT / "packages" / "tensor" / "src" / "ingle" / "tensor",
    "autodiff": ROOT / "packages" / "autodiff" / "src" / "ingle" / "autodiff",
    "nn": ROOT / "packages" / "nn" / "src" / "ingle" / "nn",
    "optim": ROOT / "packages" / "optim" / "src" / "ingle" / "optim",
    "router": ROOT / "packages" / "router" / "src" / "ingle" / "router",
    "ingle_cpu": ROOT / "plugins" / "cpu" / "src" / "ingle_cpu",
    "ingle_numpy": ROOT / "plugins" / "numpy" / "src" / "ingle_numpy",
    "ingle_cuda": ROOT / "plugins" / "cuda" / "src" / "ingle_cuda",
    "ingle_opencl": ROOT / "plugins" / "opencl" / "src" / "ingle_opencl",
}
"""What a path of a page may begin with, besides a folder of the root."""

PATH = re.compile(r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:md|txt|toml|yml)|VERSION)`")
NAMED = re.compile(r"`(\w+)` in\s+`([\w./-]+\.py)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def place(path: str) -> Path:
    """Where a path of a page leads."""
    first, _, rest = path.partition("/")
    return BASES[first] / rest if first in BASES else ROOT / path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_exists(page: Path) -> None:
    paths = PATH.findall(prose(page))
    assert paths
    assert not [path for path in paths if not place(path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_stands_in_the_file_that_is_said_to_have_it(page: Path) -> None:
    found = NAMED.findall(prose(page))
    assert found
    wrong = [
        (name, path)
        for name, path in found
        if not re.search(rf"\b{name}\b", place(path).read_text("utf-8"))
    ]
    assert not wrong


def test_each_change_names_files_and_tests() -> None:
    _, *sections = re.split(r"^## … ", CHANGES.read_text("utf-8"), flags=re.MULTILINE)
    assert len(sections) == 20
    for section in sections:
        head, _, tests = section.partition("\nTests: ")
        assert PATH.search(head), section
        assert [p for p in PATH.findall(tests) if "/test_" in p], section
