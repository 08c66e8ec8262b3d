"""The workspace as data, for the tests of its rules: members, their metadata, their imports."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text("utf-8").strip()


@dataclass(frozen=True)
class Import:
    """One import statement: the absolute module, where it stands."""

    module: str
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


@dataclass(frozen=True)
class Member:
    """A package or plugin: one folder that becomes one distribution."""

    folder: Path

    def __str__(self) -> str:
        return self.folder.name

    @cached_property
    def config(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))

    @property
    def project(self) -> dict[str, Any]:
        return self.config["project"]

    @property
    def distribution(self) -> str:
        return self.project["name"]

    @property
    def is_plugin(self) -> bool:
        return self.folder.parent.name == "plugins"

    @cached_property
    def module(self) -> str | None:
        """What users import; None for the umbrella, which has no code."""
        for marker in self.folder.glob("src/**/py.typed"):
            return ".".join(marker.parent.relative_to(self.folder / "src").parts)
        return None

    @cached_property
    def sources(self) -> list[Path]:
        return sorted(self.folder.glob("src/**/*.py"))

    @property
    def dependencies(self) -> set[str]:
        return names(self.project.get("dependencies", []))

    @property
    def optional(self) -> set[str]:
        extras = self.project.get("optional-dependencies", {}).values()
        return names(d for extra in extras for d in extra)

    @cached_property
    def imports(self) -> list[Import]:
        """Every absolute import of its sources, wherever it stands, and `"module:attribute"`s."""
        return [found for file in self.sources for found in imports_of(file)]

    @cached_property
    def attributes(self) -> set[str]:
        """Every attribute that its sources name."""
        found = (node for file in self.sources for node in nodes(file))
        return {node.attr for node in found if isinstance(node, ast.Attribute)}


def names(requirements: Any) -> set[str]:
    """The distribution names of requirement strings."""
    return {re.match(r"[\w.-]+", r)[0].lower() for r in requirements}


@cache
def parsed(file: Path) -> ast.Module:
    """The tree of a source file, kept for all rules that read it.

    Garbage is not looked for meanwhile: there is none among a million nodes.
    """
    gc.disable()
    try:
        return ast.parse(file.read_text("utf-8"))
    finally:
        gc.enable()


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source file's tree."""
    return tuple(ast.walk(parsed(file)))


def imports_of(file: Path) -> Iterator[Import]:
    for node in nodes(file):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, file, node.lineno)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module == "ingle":
                for alias in node.names:
                    yield Import(f"ingle.{alias.name}", file, node.lineno)
            else:
                yield Import(module, file, node.lineno)
        elif isinstance(node, ast.Constant):
            place = re.fullmatch(r"(ingle[\w.]*):\w+", str(node.value))
            if place:
                yield Import(place[1], file, node.lineno)


MEMBERS = [Member(p.parent) for p in sorted(ROOT.glob("p*s/*/pyproject.toml"))]
BY_DISTRIBUTION = {m.distribution: m for m in MEMBERS}
BY_MODULE = {m.module: m for m in MEMBERS if m.module}
