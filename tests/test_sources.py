"""Rules that every source file keeps: sizes, exports, and interpreters that name no operation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from workspace import MEMBERS, ROOT, Member, nodes, parsed

from ingle.tensor.late_names import exporting
from ingle.tensor.operation import Access, Updates

INTERPRETERS = [m for m in MEMBERS if str(m) in {"autodiff", "fusion", "router", "remote"}]
KERNELS = {"kernel", "render"}
"""Folders of what computes: there operations have names, as in a backend."""
GRAPHS = {"grouping", "ir", "lowering", "passes"}
"""Folders that make graphs: they may write an operation by its name, but read its traits."""
BY_NAME = {"movement", "matmul"}
"""Families whose operations are named: the views, whose arithmetic is that of the name, and the
product."""
CONTAINERS = (set, list, dict, tuple, str, bytes, Counter, re.Pattern, ast.AST)
BYTES_COMPARED = re.compile(r"\.tobytes\(\) ==.*\.tobytes\(\)$")
SOURCES = [f for m in MEMBERS for f in m.sources]


def operation_names() -> set[str]:
    import ingle.tensor  # noqa: F401 (defines the operations)
    from ingle.tensor.operation import OPERATIONS

    assert len(OPERATIONS) > 20
    return set(OPERATIONS)


def named_in_graphs(file: Path) -> Iterator[tuple[str, int]]:
    """Names by which a file asks for an operation; it may make one: `OPERATIONS["add"]`.

    What kernels call their instructions is no name of an operation, unless it is compared with one,
    and families have names of their own.
    """
    from ingle.fusion.kernel.code import COMPOSITE, CORE
    from ingle.fusion.kernel.nest import COMBINES
    from ingle.tensor.operation import OPERATIONS

    known = {o.name for o in OPERATIONS.values() if o.traits.family in BY_NAME}
    instructions = {*CORE, *COMPOSITE, *COMBINES} | set(get_args(Access)) | set(get_args(Updates))
    free = {
        id(node.slice)
        for node in nodes(file)
        if isinstance(node, ast.Subscript) and "OPERATIONS" in ast.dump(node.value)
    } | {
        id(inner)
        for node in nodes(file)
        if (isinstance(node, ast.Compare) and ".traits.family" in ast.unparse(node.left))
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "Operation")
        for inner in ast.walk(node)
    }
    asked = {
        id(inner)
        for node in nodes(file)
        if isinstance(node, (ast.Compare, ast.Match)) and ".operation.name" in ast.unparse(node)
        for inner in ast.walk(node)
    }
    for name, line, node in _spoken(file):
        if isinstance(node, ast.Attribute) or id(node) in free or name in known:
            continue
        if isinstance(node, ast.ImportFrom) or name not in instructions or id(node) in asked:
            yield name, line


def spoken_names(file: Path) -> Iterator[tuple[str, int]]:
    """Names by which a file could mean an operation: imports, attributes, strings."""
    yield from ((name, line) for name, line, _ in _spoken(file))


def _spoken(file: Path) -> Iterator[tuple[str, int, ast.AST]]:
    docstrings = {
        id(n.body[0].value)
        for n in nodes(file)
        if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and n.body
        and isinstance(n.body[0], ast.Expr)
    }
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom):
            yield from ((a.name, node.lineno, node) for a in node.names)
        elif isinstance(node, ast.Attribute):
            # `seen.add(x)`: what Python's containers, `math` and NumPy have too says nothing.
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            known = any(hasattr(c, node.attr) for c in CONTAINERS)
            if not known and owner not in ("math", "np"):
                yield node.attr, node.lineno, node
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value), node.lineno, node


@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=str)
def test_interpreters_name_no_operation(interpreter: Member) -> None:
    operations = operation_names()
    named = [
        f"{file.relative_to(ROOT)}:{line} names {name}"
        for file in interpreter.sources
        if not KERNELS.intersection(file.parts)
        for name, line in (
            named_in_graphs(file) if GRAPHS.intersection(file.parts) else spoken_names(file)
        )
        if name in operations
    ]
    assert not named, "read a trait or a rule of the operation instead"


def test_files_are_small() -> None:
    long = {
        str(f.relative_to(ROOT)): n
        for f in SOURCES
        if (n := len(f.read_text("utf-8").splitlines())) > 600
    }
    assert not long, "split these by subject; aim at 400 lines"


COMPILERS = [m for m in MEMBERS if str(m) in {"tensor", "autodiff", "fusion"} or m.is_plugin]
LANGUAGES = ("render/c/", "render/llvm/")
"""What renders the same in another language has the same name there."""


@pytest.mark.parametrize("compiler", COMPILERS, ids=str)
def test_a_class_name_has_one_meaning(compiler: Member) -> None:
    found: dict[str, set[str]] = {}
    for file in compiler.sources:
        place = str(file.relative_to(compiler.folder))
        written = re.sub("|".join(LANGUAGES), "render/", place)
        for node in nodes(file):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(written)
    assert not {name: sorted(files) for name, files in found.items() if len(files) > 1}


READY_AT_ONCE = {
    "Cublas": "opens the library, and checks that it did",
    "CublasLt": "opens the library, and checks that it did",
    "DiskStore": "opens its folder",
    "Generator": "starts its stream",
    "Inquiry": "notes that symbols are positive",
    "NestRenderer": "writers of code prepare what they write, once",
    "HeldNest": "writers of code prepare what they write, once",
    "Newcomers": "counts the handlers on the stack now",
    "Operation": "checks its gradient rules",
    "PeakTracker": "a tree holds for its elements from the start",
    "Queue": "lays out memory that it shares with native code",
    "ShortNest": "writers of code prepare what they write, once",
    "Table": "checks its entries, and lays out memory that it shares with native code",
    "ThreadPool": "lays out memory that it shares with native code",
    "Tuner": "reads its file",
}
"""Classes whose constructors call their own methods, with the reason."""


def test_constructors_only_keep_what_they_are_given() -> None:
    """Work is done by a function or a method that says what it does, and can be called or not."""
    working = {
        node.name: f"{file.relative_to(ROOT)}:{node.lineno} {node.name} calls {sorted(called)}"
        for member in COMPILERS
        for file in member.sources
        for node in nodes(file)
        if isinstance(node, ast.ClassDef) and (called := _called_by_constructor(node))
    }
    assert not [text for name, text in working.items() if name not in READY_AT_ONCE]
    assert working.keys() >= READY_AT_ONCE.keys(), "these need no exception any more"


def _called_by_constructor(node: ast.ClassDef) -> set[str]:
    """The methods of a class that its own constructor calls."""
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
    constructor = methods.get("__init__")
    return {
        call.func.attr
        for call in (ast.walk(constructor) if constructor else ())
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "self"
        and call.func.attr in methods
    }


def test_what_raises_says_so() -> None:
    """A public function with an example, that raises by itself, has a section `Raises`."""
    silent = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in SOURCES
        for node in nodes(file)
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and ">>>" in (text := ast.get_docstring(node) or "")
        and "Raises:" not in text
        and any(isinstance(n, ast.Raise) and n.exc is not None for n in ast.walk(node))
    ]
    assert not silent, "say under Raises: what is raised, and when"


def test_public_modules_only_export(member: Member) -> None:
    """The `__init__` that users import holds a docstring and lines `from .x import y as y`.

    So does the file `names` of a package that imports them late.
    """
    if member.module is None:
        return
    folder = member.folder / "src" / Path(*member.module.split("."))
    files = [path for name in ("__init__", "names") if (path := folder / f"{name}.py").exists()]
    for file, node in [(path, node) for path in files for node in parsed(path).body]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if is_lazy_export(node):
            continue
        place = f"{file.relative_to(ROOT)}:{node.lineno}"
        assert isinstance(node, ast.ImportFrom), f"{place} is no export"
        if ast.unparse(node) == "from .ops import *":
            continue  # the rooms: the list of operations is theirs
        for alias in node.names:
            assert alias.asname, f"{place}: write `{alias.name} as {alias.name}`"


def test_no_late_name_is_a_module(member: Member) -> None:
    """Importing the module would bind it to the package, and the name would never be looked for."""
    if member.module is None:
        return
    module = importlib.import_module(member.module)
    folder = Path(*module.__path__)
    if (folder / "names.py").exists():
        modules = {file.stem for file in folder.iterdir() if file.suffix in ("", ".py")}
        shadowed = [
            n for n in modules & set(dir(module)) if not inspect.ismodule(getattr(module, n))
        ]
        assert not shadowed


def is_lazy_export(node: ast.stmt) -> bool:
    """`if TYPE_CHECKING:` and `def __getattr__`, where an export must not load its module."""
    if isinstance(node, ast.FunctionDef):
        return node.name == "__getattr__"
    if isinstance(node, ast.ImportFrom):
        return node.module == "typing"
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name)


def test_public_names_have_docstrings(member: Member) -> None:
    if member.module is None:
        return
    module = importlib.import_module(member.module)
    silent = [
        name
        for name, value in vars(exporting(module)).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and not inspect.getdoc(value)
    ]
    assert not silent


WITH_EXAMPLES = (
    "nn", "nn.init", "nn.quantization", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
    "nn.utils.parametrizations", "optim", "optim.schedule", "train", "train.metrics.perceptual",
    "dataset", "dataset.augment", "dashboard", "autodiff", "fusion", "importer", "router",
    "tensor.memory", "tensor.programs",
)  # fmt: skip


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_public_names_have_an_example(name: str) -> None:
    module = importlib.import_module(f"ingle.{name}")
    tree = ast.parse(inspect.getsource(exporting(module)))
    taken = [
        a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname
    ]
    made = [n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
    public = [n for n in {*taken, *made} if not n.startswith("_")]
    assert public
    found = {n: getattr(module, n) for n in public}
    bare = [
        n
        for n, value in found.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and ">>>" not in (value.__doc__ or "")
    ]
    assert not bare


def test_operations_have_an_example_samples_and_a_reference() -> None:
    import ingle.tensor as it
    from ingle.tensor.operation import OPERATIONS

    named = [o for o in OPERATIONS.values() if hasattr(it, getattr(o.public, "__name__", ""))]
    # A training form is checked through the operation that it belongs to.
    training = {id(o.training) for o in OPERATIONS.values()}
    public = [o for o in named if id(o) not in training]
    assert len(public) > 20
    for operation in public:
        assert ">>>" in (operation.public.__doc__ or ""), f"{operation.name} has no example"
        assert operation.samples is not None, f"{operation.name} has no samples"
        assert operation.reference is not None, f"{operation.name} has no reference"


def test_operations_are_registered_beside_their_functions() -> None:
    """Between a function and its registration stands what one of the two needs, and no more: its
    rules, its gradients, its samples and its reference, in reading order."""
    from ingle.tensor.operation import LATE_ROOMS, OPERATIONS, Operation

    for late in (*LATE_ROOMS, "ingle.optim.updates"):
        importlib.import_module(late)
    rooms: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        rooms.setdefault(getattr(operation.public, "__module__", ""), []).append(operation)
    far = []
    for file in SOURCES:
        room = ".".join(file.with_suffix("").parts[file.parts.index("src") + 1 :])
        if room not in rooms:
            continue
        body = parsed(file).body
        names = {o.name: getattr(o.public, "__name__", "") for o in rooms[room]}
        definitions = _definitions(body)
        for operation in rooms[room]:
            public, training = names[operation.name], operation.training
            others = {n for n in names.values() if n != public}
            if isinstance(training, Operation):
                others.discard(names.get(training.name, ""))
            for made in (node for node in body if operation.name in _registered(node)):
                start = definitions[public].lineno if public in definitions else made.lineno
                needed = _needed(made, definitions) | _needed(definitions.get(public), definitions)
                far += [
                    f"{file.relative_to(ROOT)}: {name} in {operation.name}"
                    for name, node in definitions.items()
                    if start < node.lineno < made.lineno and (name not in needed or name in others)
                ]
    assert not far, "register an operation before the next function"


def _definitions(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The functions, classes and values of a module, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {t.id: node for t in node.targets if isinstance(t, ast.Name)}
    return found


def _needed(node: ast.AST | None, definitions: dict[str, ast.stmt]) -> set[str]:
    """The definitions that a statement names, and those that these name."""
    found: set[str] = set()
    waiting = [node] if node is not None else []
    while waiting:
        for inner in ast.walk(waiting.pop()):
            if isinstance(inner, ast.Name) and inner.id in definitions and inner.id not in found:
                found.add(inner.id)
                waiting.append(definitions[inner.id])
    return found


def _registered(node: ast.stmt) -> set[str]:
    """The names of what a statement makes: they come first."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return set()
    calls = (n for n in ast.walk(node.value) if isinstance(n, ast.Call) and n.args)
    first = (c.args[0] for c in calls)
    return {a.value for a in first if isinstance(a, ast.Constant) and isinstance(a.value, str)}


def test_assertions_compare_no_byte_strings(member: Member) -> None:
    """pytest would explain a failure by a diff of all bytes, for hours; see `same_bits`."""
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in [*member.sources, *(member.folder / "tests").rglob("*.py")]
        if (text := file.read_text("utf-8")).count(".tobytes()") > 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert) and BYTES_COMPARED.search(ast.unparse(node.test))
    ]
    assert not found


def test_nothing_names_one_machine() -> None:
    homes = re.compile("|".join(rf"(?<![\w.])/{d}/\w" for d in ("work", "tmp", "root", "home")))
    suffixes = {".py", ".md", ".toml", ".txt", ".yml", ".cfg", ".json", ".svg"}
    folders = ("bench", "docs", "examples", "packages", "plugins", "tests", ".ci", ".github")
    files = [f for d in folders for f in (ROOT / d).rglob("*") if f.suffix in suffixes]
    files += [f for f in ROOT.iterdir() if f.suffix in suffixes]
    named = [
        f"{f.relative_to(ROOT)}: {found[0]}"
        for f in files
        if ".venv" not in f.parts and (found := homes.search(f.read_text("utf-8")))
    ]
    assert not named


def test_warnings_are_of_the_callers_line():
    """A number of calls between a warning and the user's line differs from device to device."""
    apart = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in SOURCES
        for node in nodes(file)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "warnings.warn"
        and file.name != "callers.py"
    ]
    assert not apart, "call ingle.tensor.callers.warn(text, category)"


def test_locks_are_those_that_handlers_of_signals_leave_free():
    """`ReentrantLock` in place of Python's own, and a condition with a lock of that kind."""
    torn = re.compile(r"threading\.(RLock|Condition)\(\)")
    found = [
        f"{file}:{number}"
        for file in SOURCES
        if file.name != "locks.py"
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if torn.search(line) and "_LOCKS" not in line
    ]
    assert found == []
