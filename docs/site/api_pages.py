"""The pages of the site that list public names, written for Sphinx's autodoc.

A page describes a module; one that exports more than `MANY` names has a page for each of its
folders. A page begins with a table of its names and their first sentences. Their entries follow, by
the file that defines them. A test holds that every public module is in `MODULES`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from docstrings import to_rst

from ingle.tensor.late_names import exporting

MODULES = [
    "ingle.tensor", "ingle.tensor.fft", "ingle.tensor.linalg", "ingle.tensor.memory",
    "ingle.tensor.named", "ingle.tensor.programs", "ingle.tensor.random", "ingle.tensor.errors",
    "ingle.autodiff", "ingle.fusion",
    "ingle.nn", "ingle.nn.init", "ingle.nn.utils.rnn", "ingle.optim", "ingle.optim.schedule",
    "ingle.dataset", "ingle.importer", "ingle.importer.onnx_backend",
    "ingle.train", "ingle.dashboard", "ingle.router", "ingle.testkit",
]  # fmt: skip
INNER = {"ingle.tensor.numbers", "ingle.nn.structure", "ingle.nn.utils", "ingle.nn.functional"}
"""Modules that packages export for Ingle's other packages, or that hold what another one has."""

MANY = 120
"""How many names stand on one page at most."""


class Name(NamedTuple):
    """A public name: where it is exported, what it is, and the file that defines it."""

    module: str
    name: str
    value: Any
    source: Path | None

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def kind(self) -> str:
        """As autodoc's directives call it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"


def public_names(module: ModuleType) -> dict[str, Any]:
    """What a module is meant to offer: what it exports, or what it defines if it is no package."""
    named = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    if hasattr(module, "__path__"):
        source = inspect.getsource(exporting(module))
        exports = set(re.findall(r"^ *from \.\S* import \S+ as (\w+)", source, re.MULTILINE))
        return {n: getattr(module, n) for n in sorted(exports, key=str.lower) if n[0] != "_"}
    own = {
        n: v
        for n, v in named.items()
        if getattr(v, "__module__", None) == module.__name__ and callable(v)
    }
    return dict(sorted(own.items(), key=lambda item: item[0].lower()))


def names_of(module: str) -> list[Name]:
    """The public names of a module, without the modules among them, which have pages."""
    found = public_names(importlib.import_module(module)).items()
    return [Name(module, n, v, source(v)) for n, v in found if not inspect.ismodule(v)]


def source(value: Any) -> Path | None:
    """The file that defines a function or class."""
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return None
    try:
        file = inspect.getsourcefile(inspect.unwrap(value))
    except TypeError:
        return None
    return Path(file) if file else None


def summary(value: Any) -> str:
    """The first paragraph of a docstring in one line, as reStructuredText."""
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return to_rst(text).replace("\n", " ")


def described(value: Any) -> bool:
    """Whether a value has a docstring of its own, and not that of its type."""
    text = getattr(value, "__doc__", None)
    return bool(text) and (inspect.isclass(value) or text != type(value).__doc__)


def members(cls: type, public: frozenset[type]) -> list[str]:
    """The public methods and properties of a class that no other page's class brings along."""
    inherited = {base for shown in public_bases(cls, public) for base in shown.__mro__}
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is not cls and (base in inherited or not base.__module__.startswith("ingle")):
            continue
        for name, value in vars(base).items():
            if name[0] != "_" and (callable(value) or _is_descriptor(value)):
                found.setdefault(name, value)
    known = {name for base in inherited for name in vars(base)}
    return sorted((n for n, v in found.items() if v.__doc__ or n not in known), key=str.lower)


def public_bases(cls: type, public: frozenset[type]) -> list[type]:
    """The classes with an entry of their own that a class derives from, the nearest first."""
    return [base for base in cls.__mro__[1:] if base in public]


def _is_descriptor(value: Any) -> bool:
    return isinstance(value, (property, staticmethod, classmethod))


def title(text: str, line: str = "=") -> list[str]:
    """A heading."""
    return [text, line * len(text), ""]


def table(names: Iterable[Name]) -> list[str]:
    """Names, linked, beside what they are in a sentence."""
    rows = [".. list-table::", "   :class: names", "   :widths: 30 70", ""]
    for name in names:
        role = "func" if name.kind == "function" else "obj"
        says = summary(name.value) if described(name.value) else f"``{name.value!r}``"
        rows += [f"   * - :py:{role}:`~{name.path}`", f"     - {says}"]
    return [*rows, ""]


def entry(name: Name, public: frozenset[type]) -> list[str]:
    """The autodoc directive of a name."""
    if name.kind == "data":
        return [f".. py:data:: {name.name}", f"   :value: {name.value!r}", ""]
    lines = [f".. auto{name.kind}:: {name.path}"]
    if inspect.isclass(name.value) and (shown := members(name.value, public)):
        lines += [f"   :members: {', '.join(shown)}", "   :undoc-members:"]
    if inspect.isclass(name.value) and (bases := public_bases(name.value, public)):
        home = f"{bases[0].__module__}.{bases[0].__qualname__}"
        lines += ["", f"   Derives from :py:obj:`~{home}`."]
    return [*lines, ""]


def page(heading: str, text: str, names: list[Name], public: frozenset[type]) -> str:
    """A page: what it is about, the table of its names, each name by the file it comes from."""
    module = names[0].module
    lines = [*title(heading), text, "", f".. py:currentmodule:: {module}", "", *table(names)]
    sections: dict[str, list[Name]] = {}
    for name in names:
        sections.setdefault(name.source.stem if name.source else "", []).append(name)
    for stem, found in sorted(sections.items()):
        if len(sections) > 1:
            lines += title(stem.strip("_").replace("_", " ").capitalize() or "Values", "-")
        for name in found:
            lines += entry(name, public)
    return "\n".join(lines)


def folders(names: list[Name]) -> dict[str, list[Name]]:
    """Names by the folder below their module whose files define them; `""` for its own files."""
    root = Path(inspect.getfile(importlib.import_module(names[0].module))).parent
    found: dict[str, list[Name]] = {}
    for name in names:
        inside = name.source is not None and root in name.source.parents
        parts = name.source.relative_to(root).parts[:-1] if inside and name.source else ()
        found.setdefault("/".join(parts), []).append(name)
    return dict(sorted(found.items()))


def pages() -> dict[str, str]:
    """Every page by its file's name, the overview first."""
    everything = {module: names_of(module) for module in MODULES}
    public = public_classes()
    done = {"index.rst": ""}
    overview = [
        *title("Public names"),
        "What each package exports. A name that begins with an underscore, and a module that has",
        "no page here, may change in any version.",
        "",
    ]
    tree = [".. toctree::", "   :hidden:", ""]
    for module, names in everything.items():
        text = to_rst(inspect.getdoc(importlib.import_module(module)) or "")
        first = text.partition("\n")[0]
        parts = folders(names) if len(names) > MANY else {"": names}
        done[f"{module}.rst"] = page(module, text, parts.pop("", names), public)
        overview += [f":doc:`{module}`", f"   {first}", ""]
        tree.append(f"   {module}")
        for folder, found in parts.items():
            what = folder.split("/")[-1].replace("_", " ")
            file = f"{module}.{folder.replace('/', '.')}"
            done[f"{file}.rst"] = page(
                f"{module}: {what}", f"Exported by ``{module}``.", found, public
            )
            overview += [f"   - :doc:`{file}`", ""]
            tree.append(f"   {file}")
    done["index.rst"] = "\n".join([*overview, *tree, ""])
    return done


def public_classes() -> frozenset[type]:
    """The classes that have a place on a page."""
    values = (name.value for module in MODULES for name in names_of(module))
    return frozenset(v for v in values if inspect.isclass(v))
