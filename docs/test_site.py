"""The site: every public name has a place on it, and its pages are those of docs/."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from api_pages import INNER, MODULES, folders, members, names_of, page, pages, public_names
from docstrings import to_rst
from staging import contents, inside

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_public_module_has_a_page() -> None:
    packages = {
        f"ingle.{folder.name}"
        for folder in ROOT.glob("packages/*/src/ingle/*")
        if (folder / "py.typed").exists()
    }
    exported = {
        value.__name__
        for name in MODULES
        for value in public_names(importlib.import_module(name)).values()
        if inspect.ismodule(value)
    }
    assert packages <= set(MODULES)
    assert exported - set(MODULES) == INNER


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented(module: str) -> None:
    silent = [n.path for n in names_of(module) if n.kind != "data" and not inspect.getdoc(n.value)]
    assert not silent, "a public name carries a docstring"


def test_every_public_name_is_on_one_page() -> None:
    text = "\n".join(pages().values())
    for module in MODULES:
        for name in names_of(module):
            shown = name.name if name.kind == "data" else name.path
            entries = re.findall(rf"^\.\. (?:auto|py:)\w+:: {re.escape(shown)}$", text, re.M)
            assert entries, name.path
            assert name.kind == "data" or len(entries) == 1, name.path


def test_the_first_page_lists_every_page() -> None:
    listed = contents((DOCS / "index.md").read_text("utf-8"))
    lost = [p.name for p in DOCS.glob("*.md") if p.name != "index.md" and p.name not in listed]
    assert not lost, "add it to a list of docs/index.md"


def test_a_class_is_shown_with_what_it_brings() -> None:
    class Private:
        def lent(self) -> None: ...

    class Public(Private):
        def shown(self) -> None:
            """Shown there."""

    class Made(Public):
        def shown(self) -> None: ...
        def grow(self, by: int = 1) -> None:
            """Grows."""

        @property
        def width(self) -> int:
            return 1

        def _hidden(self) -> None: ...

    for cls in (Private, Public, Made):
        cls.__module__ = "ingle.made"
    everything: Any = frozenset({Public, Made})
    assert members(Public, everything) == ["lent", "shown"]
    assert members(Made, everything) == ["grow", "width"]


def test_a_page_has_a_table_and_sections_by_file() -> None:
    names = names_of("ingle.train")
    text = page("ingle.train", "What it is.", names, frozenset())
    table, sections = text.split("Callbacks\n---------\n")
    assert all(f"`~{name.path}`" in table for name in names)
    assert sections.index("EarlyStopping") < sections.index("Learner\n-------\n")


def test_a_large_module_has_a_page_for_each_folder() -> None:
    found = folders(names_of("ingle.tensor"))
    assert {n.name for n in found["control"]} == {"call", "cond", "scan", "while_loop"}
    assert "Cell" in {n.name for n in found[""]}


@pytest.mark.parametrize(
    ("markdown", "rst"),
    [
        ("`x`s", r"``x``\ s"),
        ("a`x`", r"a\ ``x``"),
        ("see `ingle.nn.Linear`", "see :py:obj:`ingle.nn.Linear`"),
        ("[Ba](https://a.b/c_d)", "`Ba <https://a.b/c_d>`__"),
        ("in *x*, |y| of name_", r"in \*x\*, \|y\| of name\_"),
        ("Args:\n    *args: all", "Args:\n    *args: all"),
        ("so:\n\n>>> `a`\n'_b_'\n\n`c`", "so:\n\n>>> `a`\n'_b_'\n\n``c``"),
    ],
)
def test_docstrings_become_what_sphinx_reads(markdown: str, rst: str) -> None:
    assert to_rst(markdown) == rst


def test_links_out_of_the_pages_become_paths() -> None:
    page = DOCS / "index.md"
    assert inside("[a](../CONTRIBUTING.md#b)", page) == "[a](contributing.md#b)"
    assert inside("[a](fusion.md#b)", page) == "[a](fusion.md#b)"
    assert inside("[the runner](../bench/run.py)", page) == "the runner (`bench/run.py`)"
    assert inside("[`nox.py`](../nox.py)", page) == "`nox.py`"
    assert inside("[a](lost.md), [b](../lost.md)", page) == "[a](lost.md), [b](../lost.md)"
    contributing = ROOT / "CONTRIBUTING.md"
    assert inside("[a](docs/fusion.md)", contributing) == "[a](fusion.md)"
