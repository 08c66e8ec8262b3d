"""The arithmetic of a plan on numbers, as data: from a graph's scalars to those of its kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from ingle.tensor.followed import is_followed, plain, spelled
from ingle.tensor.tape import NAMES, Tape

Host = Callable[..., "Sequence[Any] | None"]

_NAME = re.compile(r"[xy](0|[1-9][0-9]{0,8})")
_FUNCTIONS = frozenset(f.__name__ for f in (abs, round, type, int, float, bool))
"""Of Python's own."""
_NODES: tuple[type[ast.AST], ...] = (
    ast.Module, ast.Assign, ast.If, ast.Return, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.Call, ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context,
)  # fmt: skip


class ScalarProgram(NamedTuple):
    """What a plan computes of its numbers before it runs.

    Attributes:
        given: how many numbers it is given; they are called `x0`, `x1`, …
        lines: what is computed, in the words of a `Tape`.
        results: for each number that the kernels take the name of what was computed, or a tuple
            of the one number that it always is.
        functions: what else the lines call, by name; a program that calls some cannot be kept.
    """

    given: int
    lines: tuple[str, ...]
    results: tuple[str | tuple[Any], ...]
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({})

    @staticmethod
    def of(tape: Tape, results: Sequence[Any]) -> ScalarProgram:
        """What a tape computes; results that are plain numbers are part of it."""
        found = [spelled(tape, r) if is_followed(r) else (plain(r),) for r in results]
        ours = [f if _named(f) else (plain(r),) for f, r in zip(found, results, strict=True)]
        return ScalarProgram(tape.count, tuple(tape.lines), tuple(ours), dict(tape.functions))

    def taking(self, sources: Sequence[int], constants: Sequence[Any]) -> ScalarProgram:
        """The same with other results: those at some places among these and then some constants."""
        every = [*self.results, *[(c,) for c in constants]]
        return self._replace(results=tuple([every[k] for k in sources]))

    def function(self) -> Host:
        """Computes the results; None where a guard fails."""
        if not self.lines and self.results == tuple([f"x{i}" for i in range(self.given)]):
            return _unchanged
        scope = {**NAMES, **self.functions}
        names = []
        # There may be hundreds of constants: those that follow each other come by one name.
        for is_named, results in groupby(self.results, lambda r: isinstance(r, str)):
            if is_named:
                names += [f"{result}, " for result in results]
            else:
                scope[f"c{len(names)}"] = tuple([result[0] for result in results])
                names.append(f"*c{len(names)}, ")
        inputs = ", ".join(f"x{i}" for i in range(self.given))
        body = "\n    ".join([*self.lines, f"return ({''.join(names)})"])
        exec(f"def run({inputs}):\n    {body}\n", scope)
        run: Host = scope["run"]
        return run

    def is_arithmetic(self) -> bool:
        """Whether it is what tapes write, and nothing else: asked of what comes from outside."""
        defined = {f"x{i}" for i in range(self.given)}
        for line in self.lines:
            if not _is_line(line, defined):
                return False
        return all(not isinstance(r, str) or r in defined for r in self.results)


def _unchanged(*numbers: Any) -> Sequence[Any]:
    return numbers


def _named(result: Any) -> bool:
    return isinstance(result, str) and _NAME.fullmatch(result) is not None


def _is_line(line: str, defined: set[str]) -> bool:
    """Whether a line gives a name a value, or is a guard; the name is defined from then on."""
    try:
        module = ast.parse(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if len(module.body) != 1 or not all(_is_known(n, defined) for n in ast.walk(module.body[0])):
        return False
    match module.body[0]:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if not _named(name) or _stores(value):
                return False
            defined.add(name)
            return True
        case ast.If(body=[ast.Return(value=ast.Constant(value=None))], orelse=[]):
            return True
    return False


def _stores(value: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) for n in ast.walk(value))


def _is_known(node: ast.AST, defined: set[str]) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and not node.keywords
        return named and (node.func.id in NAMES or node.func.id in _FUNCTIONS)  # type: ignore[attr-defined]
    if isinstance(node, ast.Name):
        name = node.id
        if isinstance(node.ctx, ast.Store):
            return _named(name)
        return name in defined or name in NAMES or name in _FUNCTIONS
    if isinstance(node, ast.Constant):
        return node.value is None or type(node.value) in (bool, int, float)
    return True
