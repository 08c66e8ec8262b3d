"""Arguments of constructors: what all packages say of another kind of value, or of another name.

Where a text is compared with a number Python speaks of its own operators, and names neither what
was made nor the argument.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable
from pathlib import Path

from .errors import ArgumentError


def is_number(value: object) -> bool:
    """Whether it is one number: Python's, NumPy's, or a tensor, array or cell of one element.

    >>> is_number(0.5), is_number("0.5"), is_number([0.5])
    (True, False, False)
    """
    if isinstance(value, (int, float)):
        return True
    return hasattr(type(value), "__float__") and math.prod(getattr(value, "shape", ())) == 1


def number(who: str, argument: str, value: object) -> float:
    """A number as a float; a text is none, also where it reads as one.

    Raises:
        ArgumentError: it is no number.

    >>> number("Dropout", "p", 1)
    1.0
    """
    if is_number(value):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return float(value)  # type: ignore[arg-type]
    raise ArgumentError(f"{who}: {argument} must be a number, got {value!r:.80}")


def whole(who: str, argument: str, value: object, least: int | None = None) -> int:
    """A whole number, of at least `least` if that is given; a flag is none.

    Raises:
        ArgumentError: it is no whole number, or less than `least`.

    >>> whole("Linear", "in_features", 3, least=1)
    3
    """
    found = None
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        # Arrays and tensors of several elements have the method, too.
        with contextlib.suppress(TypeError):
            found = int(value.__index__())
    if found is None:
        raise ArgumentError(f"{who}: {argument} must be an integer, got {value!r:.80}")
    if least is not None and found < least:
        raise ArgumentError(f"{who}: {argument} must be at least {least}, got {found}")
    return found


def path(who: str, argument: str, value: object) -> Path:
    """A place in the file system.

    Raises:
        ArgumentError: it is neither text nor a path.

    >>> path("CSVLogger", "path", "runs/first.csv").name
    'first.csv'
    """
    if isinstance(value, (str, os.PathLike)):
        return Path(value)
    raise ArgumentError(f"{who}: {argument} must be text or a path, got {value!r:.80}")


def nearest(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that were most probably meant, the likeliest first; none where none is like it.

    Args:
        word: what was written.
        known: the names that there are.
        count: how many names at most.
        cutoff: how like a name must be, from 0 to 1 (`difflib.SequenceMatcher.ratio`).

    >>> nearest("axes", ["axis", "keepdims", "dtype"])
    ['axis']
    """
    from difflib import get_close_matches  # which only mistakes come to need

    return get_close_matches(word, list(known), n=count, cutoff=cutoff)


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """How a message on an unknown name goes on: the name that was meant, else `otherwise`.

    >>> "there is no option 'lrr'" + did_you_mean("lrr", ["lr", "eps"])
    "there is no option 'lrr'; did you mean 'lr'?"
    """
    near = nearest(word, known)
    return f"; did you mean {near[0]!r}?" if near else otherwise
