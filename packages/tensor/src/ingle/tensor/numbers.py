"""Numbers of the host that a recording can follow: counters, learning rates, random places.

A `Tape` gives out numbers that know how they were computed from its inputs. They are ordinary
ints and floats to everyone else, and arithmetic on them is written down, so that the next run can
compute them from new inputs without running the user's code. Where a number leaves the tape, in a
comparison, as an index, as a string, the outcome becomes a guard: a run for which it would differ
needs a recording of its own.

Python's `math` takes floats and leaves no trace of what it was asked. So this module has the
functions of `math` for such numbers, NumPy's functions of single numbers are followed as they are,
and `on_host` makes one step of any function of numbers.
"""

from __future__ import annotations

import builtins
import copy
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Number: TypeAlias = "int | float"
_NUMPY = {t for t in np.sctypeDict.values() if np.dtype(t).kind in "iuf"}
_NUMBERS = {int, float, *_NUMPY}


class Tape:
    """Arithmetic on numbers, written down as it happens.

    Attributes:
        count: how many inputs there are; they are called `x0`, `x1`, …
        lines: what is computed, as Python over `NAMES`; `return None` where a guard fails.
        functions: what else the lines call, by name; see `on_host`.
        writer: the backend for what is made of such numbers alone; None for the device's.
        where: tells who asks for something, or None; and `guarded`, what it said for each guard.
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
            self.guard(f"type({number.name}) is {_type_name(number.value)}")
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
        """What is written down so far, to which numbers that somebody kept add nothing."""
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


def is_number(value: object) -> bool:
    """Whether it is a number that can be followed: an int or float, Python's or NumPy's."""
    return type(value) in _NUMBERS


def spelled(tape: Tape, value: Any) -> str:
    """A number as it is written in a tape: its name there, or itself."""
    if type(value) is Followed:
        if value.tape is tape:
            return value.name
        value = leave(value)
    if isinstance(value, np.generic):
        return f"{_type_name(value)}({value.item()!r})"
    return repr(int(value) if isinstance(value, int) else float(value))


def _type_name(value: Any) -> str:
    return type(value).__name__


def exactly(name: str, value: Any) -> str:
    """The condition that a number is this one: NaN is itself, and 0.0 is not -0.0."""
    if value != value:
        return f"{name} != {name}"
    number = repr(value.item() if isinstance(value, np.generic) else value)
    if value == 0 and isinstance(value, (float, np.floating)):
        return f"{name} == 0.0 and copysign(1.0, {name}) == {math.copysign(1.0, value)!r}"
    return f"{name} == {number}"


def leave(value: Any) -> Any:
    """The number for somebody who does not follow it: from here on it has to be this one."""
    if type(value) is not Followed:
        return value
    value.tape.guard(exactly(value.name, value.value))
    return value.value


def plain(value: Any) -> Any:
    """The number without its history, for those who keep it; tuples of numbers too."""
    if type(value) is Followed:
        return value.value
    if type(value) is tuple:
        return tuple(map(plain, value))
    return value


def as_float(value: Any) -> float:
    """Python's float of a number, which goes on to be followed if that is."""
    if isinstance(value, np.generic):
        value = value.item()
    return value * 1.0 if isinstance(value, (int, float)) else float(value)


def is_followed(value: object) -> bool:
    """Whether a number knows how it was computed."""
    return type(value) is Followed


def _tried(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The function of plain numbers; where it raises, it has to be these numbers that do so."""
    try:
        return function(*map(plain, values))
    except Exception:
        for x in values:
            leave(x)
        raise


def _is_operand(x: object) -> bool:
    return isinstance(x, (int, float)) or type(plain(x)) in _NUMPY


def _binary(function: Callable[[Any, Any], Any], sign: str, swapped: bool) -> Callable[..., Any]:
    def method(self: Any, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return builtins.pow(leave(self), leave(other), leave(modulo))
        if isinstance(other, complex) and not is_followed(other):
            self = leave(self)
        elif not _is_operand(other):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        value = _tried(function, (a, b))
        if not is_followed(self):
            return value
        tape = self.tape
        if sign == "**":
            return tape.power(a, b, value)
        return tape.note(f"{spelled(tape, a)} {sign} {spelled(tape, b)}", value, a, b)

    return method


def _comparison(function: Callable[[Any, Any], bool], sign: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        outcome = function(plain(self), plain(other))
        text = f"{self.name} {sign} {spelled(self.tape, other)}"
        self.tape.guard(text if outcome else f"not {text}")
        return outcome

    return method


def _unary(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        return self.tape.note(text.format(self.name), _tried(function, (self,)), self)

    return method


def _leaving(convert: Callable[..., Any]) -> Callable[..., Any]:
    """A method through which the number leaves the tape: its value becomes a guard."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return convert(leave(self), *args, **kwargs)

    return method


def _truth(self: Any) -> bool:
    outcome = bool(plain(self))
    self.tape.guard(self.name if outcome else f"not {self.name}")
    return outcome


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> Any:
    return other // self, other % self


def _round(self: Any, digits: int | None = None) -> Any:
    places = leave(digits)
    value = _tried(lambda x: round(x, places), (self,))
    return self.tape.note(f"round({self.name}, {places!r})", value, self)


_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_MATHEMATICAL = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    "gamma", "lgamma", "degrees", "radians", "fabs", "pow", "atan2", "hypot", "fmod", "remainder",
    "copysign", "ldexp", "floor", "ceil", "trunc", "isfinite", "isinf", "isnan",
)  # fmt: skip
_FUNCTIONS: dict[str, Any] = {name: getattr(math, name) for name in _MATHEMATICAL}


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
    __array__ = _leaving(lambda value, dtype=None, copy=None: np.array(value, dtype))
    __rdivmod__ = _rdivmod

    def __getattr__(self, name: str) -> Any:
        """What else numbers have, such as `hex` and NumPy's `dtype`, is asked of the value."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "item" and isinstance(self.value, np.generic):
            return lambda: self.tape.note(f"{self.name}.item()", self.value.item(), self)
        found = getattr(self.value, name)
        leave(self)
        return found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of numbers are written down; with arrays the number has to stay."""
        name = ufunc.__name__
        # Comparisons hand NumPy's own numbers on as arrays without axes.
        inputs = tuple([x[()] if isinstance(x, np.ndarray) and not x.shape else x for x in inputs])
        known: Any = getattr(np, name, None)
        numbers = all(map(_is_operand, inputs)) and ufunc.nout == 1 and not kwargs
        if method == "__call__" and numbers and known is ufunc:
            value = _tried(ufunc, inputs)
            text = f"np.{name}({', '.join(spelled(self.tape, x) for x in inputs)})"
            if isinstance(value, np.bool_):
                self.tape.guard(text if value else f"not {text}")
            return self.tape.note(text, value, *(() if isinstance(value, np.bool_) else inputs))
        return getattr(ufunc, method)(*map(leave, inputs), **kwargs)

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

NAMES: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "np": np, **_FUNCTIONS, **{t.__name__: t for t in _NUMPY},
}  # fmt: skip
"""What the lines of a tape refer to."""


def _mathematical(name: str) -> Callable[..., float]:
    function = _FUNCTIONS[name]

    @functools.wraps(function)
    def compute(*args: Any) -> Any:
        tape = next((x.tape for x in args if is_followed(x)), None)
        if tape is None:
            return function(*args)
        value = _tried(function, args)
        text = f"{name}({', '.join(spelled(tape, x) for x in args)})"
        if type(value) is bool:
            tape.guard(text if value else f"not {text}")
            return value
        return tape.note(text, value, *args)

    compute.__doc__ = f"`math.{name}` of numbers that a recording may follow."
    return compute


sqrt, cbrt, exp, exp2, expm1, log, log2, log10, log1p = map(_mathematical, _MATHEMATICAL[:9])
sin, cos, tan, asin, acos, atan = map(_mathematical, _MATHEMATICAL[9:15])
sinh, cosh, tanh, asinh, acosh, atanh = map(_mathematical, _MATHEMATICAL[15:21])
erf, erfc, gamma, lgamma, degrees, radians, fabs = map(_mathematical, _MATHEMATICAL[21:28])
pow, atan2, hypot, fmod, remainder, copysign, ldexp = map(_mathematical, _MATHEMATICAL[28:35])
floor, ceil, trunc, isfinite, isinf, isnan = map(_mathematical, _MATHEMATICAL[35:])
e, inf, nan, pi, tau = math.e, math.inf, math.nan, math.pi, math.tau
