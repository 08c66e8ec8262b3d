"""Folders of large packages are stages: each imports only what stands below it, and says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from workspace import MEMBERS, ROOT, Member, nodes

FUSION = ROOT / "packages" / "fusion" / "src" / "ingle" / "fusion"
CPU = ROOT / "plugins" / "cpu" / "src" / "ingle_cpu"
CUDA = ROOT / "plugins" / "cuda" / "src" / "ingle_cuda"
OPERATIONS = ROOT / "packages" / "tensor" / "src" / "ingle" / "tensor" / "ops"

STAGES = {
    FUSION: (
        "support", "kernel", "render", "ir", "record", "passes", "grouping", "lowering", "schedule",
        "symbolic", "runtime", "compiled", "explanation", "device",
    ),
    CPU: (
        "jit", "threads", "matmul", "attention", "codes", "stacks", "launch", "background", "eager",
    ),
    CUDA: ("driver", "arrays", "products", "codes", "attention", "graphs"),
}  # fmt: skip
"""From the bottom to the top. Files beside the folders stand at either end, and may be imported."""


README_LINES = 15


def folders(root: Path) -> list[Path]:
    """The folder and all below it that hold modules."""
    return sorted({f.parent for f in root.rglob("*.py")})


def imports(file: Path, root: Path) -> Iterator[tuple[str, int]]:
    """The folders of `root` that a file imports from when it runs, with the line."""
    for_types = _for_types(file)
    for node in nodes(file):
        if not isinstance(node, ast.ImportFrom) or not node.level or id(node) in for_types:
            continue
        base = file.parent
        for _ in range(node.level - 1):
            base = base.parent
        names = node.module.split(".") if node.module else [node.names[0].name]
        target = base.joinpath(*names)
        if target.is_relative_to(root):
            inside = target.relative_to(root).parts
            if inside:
                yield inside[0], node.lineno


@cache
def _for_types(file: Path) -> set[int]:
    """Nodes under `if TYPE_CHECKING:`."""
    return {
        id(inner)
        for node in nodes(file)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }


@pytest.mark.parametrize("root", STAGES, ids=lambda root: root.name)
def test_stages_import_downwards(root: Path) -> None:
    order = STAGES[root]
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {used}/"
        for height, stage in enumerate(order)
        for file in (root / stage).rglob("*.py")
        for used, line in imports(file, root)
        if used in order[height + 1 :]
    ]
    assert not wrong, f"from the bottom to the top: {', '.join(order)}"


@pytest.mark.parametrize("root", STAGES, ids=lambda root: root.name)
def test_every_folder_is_a_stage(root: Path) -> None:
    found = {f.relative_to(root).parts[0] for f in folders(root) if f != root}
    assert found == set(STAGES[root])


@pytest.mark.parametrize("root", [*STAGES, OPERATIONS], ids=lambda root: root.name)
def test_every_folder_says_what_lives_there(root: Path) -> None:
    subjects: Sequence[Path] = [f for f in folders(root) if f.name != "functions"]
    silent = [str(f.relative_to(ROOT)) for f in subjects if not (f / "README.md").is_file()]
    assert not silent
    long = {
        str(f.relative_to(ROOT)): n
        for f in subjects
        if (n := len((f / "README.md").read_text("utf-8").splitlines())) > README_LINES
    }
    assert not long


@pytest.mark.parametrize("root", STAGES, ids=lambda root: root.name)
def test_files_named_in_signs_exist(root: Path) -> None:
    gone = [
        f"{folder.relative_to(ROOT)}/README.md names {name}"
        for folder in folders(root)
        if (folder / "README.md").is_file()
        for name in (folder / "README.md").read_text("utf-8").split("`")[1::2]
        if name.endswith(".py") and not any(_found(folder, name))
    ]
    assert not gone


def _found(folder: Path, name: str) -> Iterator[bool]:
    yield (ROOT / name).is_file()
    yield (folder / name).resolve().is_file()
    yield any(folder.glob(name))


MUTUAL = {
    "tensor": (
        "tensor.ops", "tensor.cell", "tensor.operators", "tensor.pytorch_methods", "tensor.tensor",
        "tensor.random", "tensor.transactions",
    ),
    "dataset": (
        "dataset.base", "dataset.batching", "dataset.ordering", "dataset.sampling",
        "dataset.transforms", "dataset.views",
    ),
}  # fmt: skip
"""Modules that need each other by nature. Gradients and bodies of operations are operations, and
tensors have them as methods; methods of a dataset make other datasets."""


def _all_imports(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of a distribution that a file imports when it runs, at once or later."""
    package = _module(file) if file.name == "__init__.py" else _module(file).rpartition(".")[0]
    for_types = _for_types(file)
    for node in nodes(file):
        if not isinstance(node, ast.ImportFrom) or id(node) in for_types:
            continue
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*(above if node.level else []), *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            if whole in modules or base in modules:
                yield whole if whole in modules else base


def _module(file: Path) -> str:
    parts = file.parts[file.parts.index("src") + 1 :]
    return ".".join(parts[:-1] if file.name == "__init__.py" else (*parts[:-1], file.stem))


@pytest.mark.parametrize("distribution", MEMBERS, ids=str)
def test_no_module_needs_itself(distribution: Member) -> None:
    modules = {_module(f): f for f in distribution.sources}
    needs = {name: set(_all_imports(f, modules)) - {name} for name, f in modules.items()}
    needing = {name for name in needs if name in _reached(name, needs)}
    mutual = tuple([f"ingle.{name}" for name in MUTUAL.get(str(distribution), ())])
    circle = [n for n in needing if not any(n == m or n.startswith(f"{m}.") for m in mutual)]
    assert not circle, "one of these needs a part of another: move it below both"
    assert not [m for m in mutual if not any(n.startswith(m) for n in needing)]


def _reached(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    """What a module needs, and what that needs."""
    found, rest = set[str](), [name]
    while rest:
        new = needs[rest.pop()] - found
        found |= new
        rest += new
    return found
