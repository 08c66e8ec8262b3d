"""Numbers of the host that know how they were computed.

They are ordinary ints and floats to everyone else. Arithmetic on them is recorded on a `Tape`;
where one leaves the tape, in a comparison, as an index, as a string, the outcome becomes a guard.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from .tape import Tape

Number: TypeAlias = "int | float"
NUMPY = {t for t in np.sctypeDict.values() if np.dtype(t).kind in "iuf"}
"""NumPy's types of single numbers that can be followed."""
_NUMBERS = {int, float, *NUMPY}


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
        return f"{type_name(value)}({value.item()!r})"
    return repr(int(value) if isinstance(value, int) else float(value))


def type_name(value: Any) -> str:
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
    """The number for a caller that does not follow it: from here on it has to be this one."""
    if type(value) is not Followed:
        return value
    value.tape.guard(exactly(value.name, value.value))
    return value.value


def plain(value: Any) -> Any:
    """The number without its history, to be kept; tuples of numbers too."""
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


def tried(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The function of plain numbers; where it raises, it has to be these numbers that do so."""
    try:
        return function(*map(plain, values))
    except Exception:
        for x in values:
            leave(x)
        raise


def _is_operand(x: object) -> bool:
    return isinstance(x, (int, float)) or type(plain(x)) in NUMPY


def _binary(function: Callable[[Any, Any], Any], sign: str, swapped: bool) -> Callable[..., Any]:
    def method(self: Any, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return builtins.pow(leave(self), leave(other), leave(modulo))
        if isinstance(other, complex) and not is_followed(other):
            self = leave(self)
        elif not _is_operand(other):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        value = tried(function, (a, b))
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
        return self.tape.note(text.format(self.name), tried(function, (self,)), self)

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
    value = tried(lambda x: round(x, places), (self,))
    return self.tape.note(f"round({self.name}, {places!r})", value, self)


_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class Followed:
    """A number that knows how it was computed.

    To `isinstance` it is the int or float that it stands for. It derives from neither, since
    Python's own arithmetic and `math` would then take the value and never ask.

    Attributes:
        tape: where it is recorded.
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
        """NumPy's functions of numbers are recorded; with arrays the number has to stay."""
        name = ufunc.__name__
        # Comparisons hand NumPy's own numbers on as arrays without axes.
        inputs = tuple([x[()] if isinstance(x, np.ndarray) and not x.shape else x for x in inputs])
        known: Any = getattr(np, name, None)
        numbers = all(map(_is_operand, inputs)) and ufunc.nout == 1 and not kwargs
        if method == "__call__" and numbers and known is ufunc:
            value = tried(ufunc, inputs)
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
