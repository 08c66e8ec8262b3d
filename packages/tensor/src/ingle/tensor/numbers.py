"""Numbers of the host that a recording can follow: counters, learning rates, random places.

A `Tape` gives out numbers that know how they were computed from its inputs. They are ordinary
ints and floats to everyone else, and arithmetic on them is written down, so that the next run can
compute them from new inputs without running the user's code. Where a number leaves the tape, in a
comparison, as an index, as a string, the outcome becomes a guard: a run for which it would differ
needs a recording of its own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Number: TypeAlias = "int | float"


class Tape:
    """Arithmetic on numbers, written down as it happens.

    Attributes:
        count: how many inputs there are; they are called `x0`, `x1`, …
        lines: what is computed, as Python over `NAMES`; `return None` where a guard fails.
        writer: the backend for what is made of such numbers alone; None for the device's.
    """

    def __init__(self) -> None:
        self.count = 0
        self.writer: Any = None
        self.lines: list[str] = []
        self._known: dict[str, str] = {}
        self._guards: dict[str, None] = {}
        self._names = 0

    def input(self, value: Any) -> Any:
        """A number that will be given anew to each run; a bool or complex one must stay."""
        name = f"x{self.count}"
        self.count += 1
        if type(value) not in (int, float):
            self.guard(f"{name} == {value!r}")
            return value
        return Followed(self, name, value)

    def note(self, expression: str, value: Any) -> Any:
        """The result of an expression over names, followed if it is a number."""
        name = self._known.get(expression)
        if name is None:
            name = self._known[expression] = f"y{self._names}"
            self._names += 1
            self.lines.append(f"{name} = {expression}")
        return Followed(self, name, value) if type(value) in (int, float) else value

    def guard(self, condition: str) -> None:
        """Runs must fulfil the condition, or be recorded anew."""
        if condition not in self._guards:
            self._guards[condition] = None
            self.lines.append(f"if not ({condition}): return None")

    def program(self, results: Sequence[Number]) -> Callable[..., tuple[Number, ...] | None]:
        """A function of the inputs that returns the results, or None where a guard fails.

        Results that are plain numbers are constants of it.
        """
        names = "".join(f"{spelled(self, r)}, " for r in results)
        inputs = ", ".join(f"x{i}" for i in range(self.count))
        body = "\n    ".join([*self.lines, f"return ({names})"])
        scope = dict(NAMES)
        exec(f"def run({inputs}):\n    {body}\n", scope)
        run: Callable[..., tuple[Number, ...] | None] = scope["run"]
        return run

    @property
    def text(self) -> str:
        """What is computed, line by line: equal texts compute the same."""
        return "\n".join(self.lines)


def spelled(tape: Tape, value: Any) -> str:
    """A number as it is written in a tape: its name there, or itself."""
    if type(value) is Followed:
        if value.tape is tape:
            return value.name
        value.tape.guard(f"{value.name} == {value.value!r}")
    number = plain(value)
    return repr(int(number) if isinstance(number, int) else float(number))


def plain(value: Any) -> Any:
    """The number without its history, for those who keep it; tuples of numbers too."""
    if type(value) is Followed:
        return value.value
    if type(value) is tuple:
        return tuple(map(plain, value))
    return value


def is_followed(value: object) -> bool:
    """Whether a number knows how it was computed."""
    return type(value) is Followed


def _binary(function: Callable[[Any, Any], Any], sign: str, swapped: bool) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        value = function(plain(a), plain(b))
        tape = self.tape
        return tape.note(f"{spelled(tape, a)} {sign} {spelled(tape, b)}", value)

    return method


def _comparison(function: Callable[[Any, Any], bool], sign: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        outcome = function(plain(self), plain(other))
        text = f"{self.name} {sign} {spelled(self.tape, other)}"
        self.tape.guard(text if outcome else f"not {text}")
        return outcome

    return method


def _unary(function: Callable[[Any], Any], text: str) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        return self.tape.note(text.format(self.name), function(plain(self)))

    return method


def _leaving(convert: Callable[..., Any]) -> Callable[..., Any]:
    """A method through which the number leaves the tape: its value becomes a guard."""

    def method(self: Any, *args: Any) -> Any:
        value = plain(self)
        if value == value:
            self.tape.guard(f"{self.name} == {value!r}")
        return convert(value, *args)

    return method


def _truth(self: Any) -> bool:
    outcome = bool(plain(self))
    self.tape.guard(self.name if outcome else f"not {self.name}")
    return outcome


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


def _round(self: Any, digits: int | None = None) -> Any:
    tail = "" if digits is None else f", {digits!r}"
    return self.tape.note(f"round({self.name}{tail})", round(plain(self), digits))


_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_FUNCTIONS = {
    name: getattr(math, name)
    for name in ("sqrt", "exp", "log", "cos", "sin", "tanh", "floor", "ceil", "trunc")
}


class Followed:
    """A number that knows how it was computed.

    To `isinstance` it is the int or float that it stands for. It derives from neither, since
    Python's own arithmetic and `math` would then take the value and never ask.

    Attributes:
        tape: where it is written down.
        name: what it is called there.
        value: what it is in the run that is recorded.
    """

    __slots__ = ("name", "tape", "value")

    __array_ufunc__ = None

    def __init__(self, tape: Tape, name: str, value: Number) -> None:
        self.tape = tape
        self.name = name
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.value)

    __bool__ = _truth
    __divmod__ = _divmod
    __round__ = _round
    __neg__ = _unary(operator.neg, "-{}")
    __pos__ = _unary(operator.pos, "+{}")
    __abs__ = _unary(abs, "abs({})")
    __invert__ = _unary(operator.invert, "~{}")
    __floor__ = _unary(math.floor, "floor({})")
    __ceil__ = _unary(math.ceil, "ceil({})")
    __trunc__ = _unary(math.trunc, "trunc({})")
    __hash__ = _leaving(hash)
    __int__ = _leaving(int)
    __float__ = _leaving(float)
    __complex__ = _leaving(complex)
    __index__ = _leaving(operator.index)
    __repr__ = _leaving(repr)
    __str__ = _leaving(str)
    __format__ = _leaving(format)
    __reduce__ = _leaving(lambda value: (type(value), (value,)))
    is_integer = _leaving(float.is_integer)

    @property
    def real(self) -> Followed:
        return self

    @property
    def imag(self) -> int:
        return 0

    def conjugate(self) -> Followed:
        return self


for _name, _sign in _ARITHMETIC.items():
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Followed, f"__{_name}__", _binary(_function, _sign, swapped=False))
    setattr(Followed, f"__r{_name}__", _binary(_function, _sign, swapped=True))
for _name, _sign in _COMPARISONS.items():
    setattr(Followed, f"__{_name}__", _comparison(getattr(operator, _name), _sign))

NAMES: dict[str, Any] = {"inf": math.inf, "nan": math.nan, **_FUNCTIONS}
"""What the lines of a tape refer to."""


def _mathematical(name: str) -> Callable[[float], float]:
    function = getattr(math, name)

    def compute(x: float) -> float:
        if is_followed(x):
            return x.tape.note(f"{name}({x.name})", function(plain(x)))  # type: ignore[attr-defined,no-any-return]
        return function(x)  # type: ignore[no-any-return]

    compute.__name__ = name
    compute.__doc__ = f"`math.{name}` of a number that a recording may follow."
    return compute


sqrt, cos, exp, log = map(_mathematical, ("sqrt", "cos", "exp", "log"))
