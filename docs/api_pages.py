"""Writes docs/api/, the public names of each package, and the page of PyTorch's names.

Run it with `nox -f nox.py -s api`; a test compares the names with what the packages export.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
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


def signature(name: str, value: Any, *, bound: bool = False) -> str:
    """The name with its parameters, without their types; alone where there are none to know."""
    if not callable(value):
        return name
    try:
        parameters = [*inspect.signature(value).parameters.values()]
    except ValueError:
        return name
    if bound:
        del parameters[:1]
    bare = [p.replace(annotation=inspect.Parameter.empty, default=_default(p)) for p in parameters]
    return f"{name}{inspect.Signature(bare)}"


class _Shown:
    """A default whose text would be an address."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(parameter: inspect.Parameter) -> Any:
    given = parameter.default
    if given is inspect.Parameter.empty or " at 0x" not in repr(given):
        return given
    return _Shown(getattr(given, "__name__", type(given).__name__))


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class that no other page's class brings along."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is not cls and (base in PUBLIC or not base.__module__.startswith("ingle")):
            continue
        if any(base is not cls and base in other.__mro__ for other in _public_bases(cls)):
            continue
        for name, value in vars(base).items():
            if name[0] != "_" and (callable(value) or _is_property(value)):
                found.setdefault(name, value)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _public_bases(cls: type) -> list[type]:
    return [base for base in cls.__mro__[1:] if base in PUBLIC]


def _is_property(value: Any) -> bool:
    return isinstance(value, (property, staticmethod, classmethod))


def described(name: str, cls: type) -> str:
    """A section for a class: how it is made, what it is, what it can do."""
    lines = [f"### `{signature(name, cls)}`", "", summary(cls), ""]
    bases = [base.__name__ for base in _public_bases(cls)]
    if bases:
        lines += [f"Derives from `{bases[0]}`, and has all that is there.", ""]
    for key, value in members(cls).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        text = summary(function)
        bound = not isinstance(value, staticmethod)
        shown = key if isinstance(value, property) else signature(key, function, bound=bound)
        lines.append(f"- `{shown}`" + (f": {text}" if text else ""))
    return "\n".join(lines).rstrip() + "\n"


def page(name: str) -> str:
    """The page of a module."""
    module = importlib.import_module(name)
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Other names": []}
    classes: list[str] = []
    for key, value in public_names(module).items():
        routine, is_class = inspect.isroutine(value), inspect.isclass(value)
        group = "Functions" if routine else "Classes" if is_class else "Other names"
        text = summary(value) if routine or is_class or inspect.ismodule(value) else repr(value)
        shown = signature(key, value) if routine else key
        groups[group].append(f"| `{shown}` | {text} |")
        if is_class:
            classes.append(described(key, value))
    tables = [
        f"## {title}\n\n| name | |\n|---|---|\n" + "\n".join(rows) + "\n"
        for title, rows in groups.items()
        if rows
    ]
    if classes:
        tables.append("## The classes\n")
    return f"# {name}\n\n{inspect.getdoc(module)}\n\n" + "\n".join([*tables, *classes])


def listed(name: str) -> list[str]:
    """The names on the page that is there now."""
    text = (FOLDER / f"{name}.md").read_text("utf-8")
    return re.findall(r"^\| `(\w+)", text, re.MULTILINE)


PUBLIC = frozenset(
    value
    for name in MODULES
    for value in public_names(importlib.import_module(name)).values()
    if inspect.isclass(value)
)
"""The classes that have a place on a page."""


def pytorch_names() -> str:
    """The page of PyTorch's names: what is called otherwise, and what is not offered and why."""
    from ingle.tensor.pytorch_names import home, refused, renamed

    def names(found: Iterable[str]) -> str:
        return ", ".join(f"`{n}`" for n in found)

    by_code: dict[str, list[str]] = {}
    for name, code in renamed.items():
        by_code.setdefault(code, []).append(name)
    called = [f"| {names(found)} | {_cell(code)} |" for code, found in by_code.items()]
    missing = {reason: [n for n in found if not home(n)] for reason, found in refused.items()}
    without = [f"- **{reason}:** {names(found)}" for reason, found in missing.items() if found]
    head = """# PyTorch's names

What the public names of `torch.Tensor`, `torch` and `torch.nn.functional` are called here. `it` is
`ingle.tensor`, `x` a tensor. Names that are not on this page are the same in `it`, `it.linalg`,
`it.fft` or `it.random`; errors give the same answers (`it.cat` says `it.concat`). `x.name_()`, in
place, is `x = x.name()`. How to move a program over is on [another page](pytorch.md).

## Other names

| PyTorch | Ingle |
|---|---|"""
    return "\n".join([head, *called, "\n## Not offered\n", *without, ""])


def _cell(code: str) -> str:
    return "`" + code.replace("|", "\\|") + "`"


def main() -> None:
    (FOLDER.parent / "pytorch-names.md").write_text(pytorch_names(), "utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name in MODULES:
        (FOLDER / f"{name}.md").write_text(page(name), "utf-8")


if __name__ == "__main__":
    main()
