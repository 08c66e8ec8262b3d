"""Arithmetic on numbers of the host, recorded as Python.

A `Tape` gives out numbers that know how they were computed from its inputs. Arithmetic on them is
recorded, so that the next run can compute them from new inputs without running the user's
code. Where a number leaves the tape the outcome becomes a guard: a run for which it would differ
needs a recording of its own.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .followed import NUMPY, Followed, Number, is_followed, is_number, leave, spelled, type_name

MATHEMATICAL = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    "gamma", "lgamma", "degrees", "radians", "fabs", "pow", "atan2", "hypot", "fmod", "remainder",
    "copysign", "ldexp", "floor", "ceil", "trunc", "isfinite", "isinf", "isnan",
)  # fmt: skip
FUNCTIONS: dict[str, Any] = {name: getattr(math, name) for name in MATHEMATICAL}
NAMES: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "np": np, **FUNCTIONS, **{t.__name__: t for t in NUMPY},
}  # fmt: skip
"""What the lines of a tape refer to."""


class Tape:
    """Arithmetic on numbers, recorded as it happens.

    Attributes:
        count: how many inputs there are; they are called `x0`, `x1`, …
        lines: what is computed, as Python over `NAMES`; `return None` where a guard fails.
        functions: what else the lines call, by name; see `on_host`.
        writer: the backend for what is made of such numbers alone; None for the device's.
        where: tells the asker of something, or None; and `guarded`, what it said for each guard.
    """

    def __init__(self, where: Callable[[], object] | None = None) -> None:
        self.count = 0
        self.writer: Any = None
        self.lines: list[str] = []
        self.functions: dict[str, Callable[..., Any]] = {}
        self.where = where
        self.guarded: dict[str, object] = {}
        self._known: dict[str, str] = {}
        self._names = 0

    def input(self, value: Any) -> Any:
        """A number that will be given anew to each run; a bool or complex one must stay."""
        name = f"x{self.count}"
        self.count += 1
        if not is_number(value):
            self.guard(f"{name} == {value!r}")
            return value
        return Followed(self, name, value)

    def note(self, expression: str, value: Any, *operands: Any) -> Any:
        """The result of an expression over names, followed if it is a number.

        Args:
            expression: in the names of the operands and of `NAMES`.
            value: what it is in the run that is recorded.
            operands: what it is made of; where the value is no number, these have to stay.
        """
        if not is_number(value):
            for x in operands:
                leave(x)
            return value
        name = self._known.get(expression)
        if name is None:
            name = self._known[expression] = f"y{self._names}"
            self._names += 1
            self.lines.append(f"{name} = {expression}")
        return Followed(self, name, value)

    def call(self, function: Callable[..., Any], values: Sequence[Any], value: Any) -> Any:
        """The result of a function of numbers that later runs call again."""
        name = next((n for n, f in self.functions.items() if f is function), None)
        if name is None:
            name = f"called{len(self.functions)}"
            self.functions[name] = function
        given = ", ".join(spelled(self, v) for v in values)
        return self._typed(self.note(f"{name}({given})", value))

    def power(self, a: Any, b: Any, value: Any) -> Any:
        """`a ** b`: the one sign of arithmetic whose result has a type that depends on values."""
        number = self.note(f"{spelled(self, a)} ** {spelled(self, b)}", value, a, b)
        # A positive float to any power is a float.
        return number if type(a) is float and a > 0 else self._typed(number)

    def _typed(self, number: Any) -> Any:
        if is_followed(number):
            self.guard(f"type({number.name}) is {type_name(number.value)}")
        return number

    def guard(self, condition: str) -> None:
        """Runs must fulfil the condition, or be recorded anew."""
        if condition not in self.guarded:
            self.guarded[condition] = self.where() if self.where else None
            self.lines.append(f"if not ({condition}): return None")

    def program(self, results: Sequence[Number]) -> Callable[..., tuple[Number, ...] | None]:
        """A function of the inputs that returns the results, or None where a guard fails.

        Results that are plain numbers are constants of it. It is compiled when it is first called.
        """
        names = "".join(f"{spelled(self, r)}, " for r in results)
        lines = [*self.lines, f"return ({names})"]
        compiled = functools.cache(lambda: self._compiled(lines))
        return lambda *numbers: compiled()(*numbers)

    def ended(self) -> Tape:
        """What is recorded so far, to which numbers that somebody kept add nothing."""
        tape = copy.copy(self)
        tape.lines, tape.guarded = list(self.lines), dict(self.guarded)
        return tape

    def failing(self, values: Sequence[Any]) -> str | None:
        """The guard that these inputs do not fulfil, if there is one."""
        head, tail = "if not (", "): return None"
        lines = [
            f"{x[:-4]}{x[len(head) : -len(tail)]!r}" if x.startswith(head) else x
            for x in self.lines
        ]
        found: Any = self._compiled([*lines, "return None"])(*values)
        return found  # type: ignore[no-any-return]

    def _compiled(self, lines: Sequence[str]) -> Callable[..., tuple[Number, ...] | None]:
        inputs = ", ".join(f"x{i}" for i in range(self.count))
        body = "\n    ".join(lines)
        scope = {**NAMES, **self.functions}
        exec(f"def run({inputs}):\n    {body}\n", scope)
        run: Callable[..., tuple[Number, ...] | None] = scope["run"]
        return run

    @property
    def text(self) -> str:
        """What is computed, line by line: equal texts compute the same."""
        return "\n".join(self.lines)
