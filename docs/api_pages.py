"""Writes docs/api/: the public names of each package with the first line of their docstrings.

Run it with `nox -f nox.py -s api`; a test compares the names with what the packages export.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent / "api"
MODULES = [
    "ingle.tensor", "ingle.tensor.fft", "ingle.tensor.linalg", "ingle.tensor.memory",
    "ingle.tensor.named", "ingle.tensor.programs", "ingle.tensor.random", "ingle.tensor.errors",
    "ingle.autodiff", "ingle.fusion",
    "ingle.nn", "ingle.nn.init", "ingle.optim", "ingle.optim.schedule", "ingle.dataset",
    "ingle.train", "ingle.testkit",
]  # fmt: skip


def public_names(module: ModuleType) -> dict[str, Any]:
    """What a module is meant to offer: what it exports, or what it defines if it is no package."""
    named = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    if hasattr(module, "__path__"):
        source = inspect.getsource(module)
        exports = set(re.findall(r"^ *from \.\S* import \S+ as (\w+)", source, re.MULTILINE))
        return {n: getattr(module, n) for n in sorted(exports, key=str.lower) if n[0] != "_"}
    own = {
        n: v
        for n, v in named.items()
        if getattr(v, "__module__", None) == module.__name__ and callable(v)
    }
    return dict(sorted(own.items(), key=lambda item: item[0].lower()))


def summary(value: Any) -> str:
    """The first sentence or line of a docstring, as a table's cell."""
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|")


def signature(name: str, value: Any) -> str:
    """The name with its parameters, without their types."""
    if not inspect.isroutine(value):
        return name
    parameters = inspect.signature(value).parameters.values()
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"{name}{inspect.Signature(bare)}"


def page(name: str) -> str:
    """The page of a module."""
    module = importlib.import_module(name)
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Other names": []}
    for key, value in public_names(module).items():
        routine, is_class = inspect.isroutine(value), inspect.isclass(value)
        group = "Functions" if routine else "Classes" if is_class else "Other names"
        text = summary(value) if routine or is_class or inspect.ismodule(value) else repr(value)
        groups[group].append(f"| `{signature(key, value)}` | {text} |")
    tables = [
        f"## {title}\n\n| name | |\n|---|---|\n" + "\n".join(rows) + "\n"
        for title, rows in groups.items()
        if rows
    ]
    return f"# {name}\n\n{inspect.getdoc(module)}\n\n" + "\n".join(tables)


def listed(name: str) -> list[str]:
    """The names on the page that is there now."""
    text = (FOLDER / f"{name}.md").read_text("utf-8")
    return re.findall(r"^\| `(\w+)", text, re.MULTILINE)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in MODULES:
        (FOLDER / f"{name}.md").write_text(page(name), "utf-8")


if __name__ == "__main__":
    main()
