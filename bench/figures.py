"""Counts the sources: `python bench/figures.py [FOLDER …]`, tests and generated files left out.

Prints file lengths, function lengths, wide lines, and how many public functions have a docstring,
for the packages and plugins of this repository or for any other folders, so that projects are
counted alike.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(folder: Path) -> list[Path]:
    """Python files with something in them, without tests."""
    found = (f for f in folder.rglob("*.py") if not {"tests", "test", ".venv"} & {*f.parts})
    return sorted(f for f in found if f.stat().st_size)


def functions(tree: ast.AST, public: bool = True) -> Iterator[tuple[Function, bool]]:
    """Every function, with whether users can reach it: no underscore on the way, not nested."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node, public and not node.name.startswith("_")
            yield from functions(node, False)
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, public and not node.name.startswith("_"))
        else:
            yield from functions(node, public)


def quantile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(files: list[Path]) -> str:
    """One line of figures."""
    texts = [f.read_text("utf-8") for f in files]
    found = [found for text in texts for found in functions(ast.parse(text))]
    lines = [line for text in texts for line in text.splitlines()]
    sizes = [len(text.splitlines()) for text in texts]
    spans = [(f.end_lineno or f.lineno) - f.lineno + 1 for f, _ in found]
    documented = [ast.get_docstring(f) is not None for f, public in found if public]
    wide = sum(len(line) > 100 for line in lines) / len(lines)
    return (
        f"{len(files)} files, lines median {quantile(sizes, 0.5)} p90 {quantile(sizes, 0.9)} "
        f"max {max(sizes)}; functions median {quantile(spans, 0.5)} p95 {quantile(spans, 0.95)}; "
        f"{wide:.2%} of lines over 100 wide; "
        f"{sum(documented)} of {len(documented)} public functions documented"
    )


def main() -> None:
    folders = [Path(a) for a in sys.argv[1:]]
    folders = folders or sorted(f.parent / "src" for f in ROOT.glob("p*s/*/pyproject.toml"))
    everything = [f for folder in folders for f in sources(folder)]
    for folder in folders:
        if files := sources(folder):
            print(f"{folder.resolve().parent.name}: {figures(files)}")
    print(f"all: {figures(everything)}")


if __name__ == "__main__":
    main()
