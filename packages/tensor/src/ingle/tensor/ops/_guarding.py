"""A decorator for public functions: plain arguments are checked, and errors speak in their name."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from ..errors import ArgumentError, IngleError, spoken_by

P = ParamSpec("P")
R = TypeVar("R")

Check = Callable[[Any], bool]
LONGEST = 60
"""How many characters of a value a message shows."""


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose bad calls say where they are bad.

    Arguments that are annotated as `bool`, `int`, `float`, `complex`, `str`, one of several, or
    None besides, have to be such. What is raised by other functions, which this one is made of,
    gets this one's name, and says what it was called with.

    Args:
        function: with annotations that are text, as `from __future__ import annotations` makes
            them.
    """
    name = function.__name__
    # Signatures would say the same, and take a tenth of an import's time.
    code, annotations = inspect.unwrap(function).__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    by_name = {n: check for n in names if (check := _check_of(str(annotations.get(n, ""))))}
    by_place = _by_place(names[: code.co_argcount], by_name)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for key, value in kwargs.items():
            check = by_name.get(key)
            if check is not None and not check(value):
                _refuse(name, key, annotations[key], value)
        if len(by_place) > 1:
            for (key, check), value in zip(by_place, args, strict=False):
                if check is not None and not check(value):
                    _refuse(name, key, annotations[key], value)
        try:
            return function(*args, **kwargs)
        except IngleError as error:
            given = f" ({name} was called with {_arguments(function, args, kwargs)})"
            told = spoken_by(name, error, given)
            if told is error:
                raise
            raise told from None

    return call


def _by_place(
    names: Sequence[str], by_name: dict[str, Check]
) -> tuple[tuple[str, Check | None], ...]:  # fmt: skip
    places = [(name, by_name.get(name)) for name in names]
    while places and places[-1][1] is None:
        places.pop()
    return tuple(places)


_NAMES = {
    "bool": "True or False",
    "int": "an integer",
    "float": "a number",
    "complex": "a number",
    "str": "a string",
    "None": "None",
}


def _check_of(annotation: str) -> Check | None:
    """What an annotation asks for, if that is plain."""
    wanted = frozenset(annotation.split(" | "))
    return _check(wanted) if wanted <= _NAMES.keys() else None


@functools.cache
def _check(wanted: frozenset[str]) -> Check:
    kinds: list[type] = []
    plain: set[type] = {type(None)} if "None" in wanted else set()
    for word, kind in (
        ("int", numbers.Integral), ("float", numbers.Real), ("complex", numbers.Complex),
        ("str", str),
    ):  # fmt: skip
        if word in wanted:
            kinds.append(kind)
    if "bool" in wanted:
        plain.add(bool)
    plain |= {
        t for t, words in (
            (int, {"int", "float", "complex"}), (float, {"float", "complex"}),
            (complex, {"complex"}), (str, {"str"}),
        ) if words & wanted
    }  # fmt: skip

    def check(value: Any) -> bool:
        kind = type(value)
        return kind in plain or (kind is not bool and isinstance(value, tuple(kinds)))

    return check


def _refuse(name: str, argument: str, annotation: str, value: object) -> None:
    words = dict.fromkeys(_NAMES[word] for word in annotation.split(" | "))
    raise ArgumentError(f"{name}: {argument} must be {' or '.join(words)}, got {shown(value)}")


def shown(value: object) -> str:
    """A value in a message: a tensor, or a cell's, by dtype and shape, others by as much text as
    fits."""
    value = getattr(value, "raw", value)
    if hasattr(value, "_handle"):
        handle = value._handle
        sizes = ", ".join(map(str, handle.shape))
        return f"{handle.dtype}[{sizes}] on {handle.backend.device}"
    if isinstance(value, (tuple, list)) and any(
        hasattr(getattr(v, "raw", v), "_handle") for v in value
    ):
        return f"[{', '.join(map(shown, value))}]"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> str:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return "arguments that do not fit its signature"
    return ", ".join(f"{k}={shown(v)}" for k, v in bound.items())
