"""Settings of the environment: the variables `INGLE_*`, all read in one way.

A variable that is empty or blank counts as unset, as in a shell script whose own variable is empty.
A value that makes no sense is a `SettingError` with the variable, its value and what it may be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .errors import SettingError

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")


def setting(name: str) -> str | None:
    """What a variable says, without blanks around it; None if it is unset or empty.

    >>> setting("INGLE_NOT_SET") is None
    True
    """
    return os.environ.get(name, "").strip() or None


def switch(name: str, default: bool) -> bool:
    """A variable that is 0 or 1 (also: no, yes, off, on, false, true).

    Raises:
        SettingError: it is something else.
    """
    said = setting(name)
    if said is None:
        return default
    if said.lower() not in _ON + _OFF:
        raise wrong(name, said, f"give 0 or 1, or unset it for {int(default)}")
    return said.lower() in _ON


def whole_number(name: str, least: int, most: int, meaning: str) -> int | None:
    """A variable that holds a whole number from `least` to `most`; None if it is unset.

    Args:
        name: the variable.
        least: the smallest number that it may hold.
        most: the largest one.
        meaning: what the number is and what holds without one, for the error.

    Raises:
        SettingError: it holds no such number.
    """
    said = setting(name)
    if said is None:
        return None
    # Thousands of digits are refused by `int` with an error of its own.
    plain = said.isascii() and said.isdigit() and len(said) < 20
    if not plain or not least <= int(said) <= most:
        raise wrong(name, said, f"give {meaning}, a whole number from {least} to {most}")
    return int(said)


def one_of(name: str, choices: Sequence[str]) -> str | None:
    """A variable that holds one of some words; None if it is unset.

    Raises:
        SettingError: it holds none of them.
    """
    said = setting(name)
    if said is not None and said not in choices:
        raise wrong(name, said, f"give {' or '.join(map(repr, choices))}, or unset it")
    return said


def folder(name: str) -> Path | None:
    """A variable that names a folder, where `~` is the user's own; None if it is unset.

    Raises:
        SettingError: it begins with `~` and there is no such user.
    """
    said = setting(name)
    if said is None:
        return None
    try:
        return Path(said).expanduser().absolute()
    except RuntimeError as error:
        raise wrong(name, said, f"give the whole path of a folder ({error})") from None


def runs_on_host() -> bool:
    """Whether the host computes what a backend has no kernel for: not with
    `INGLE_HOST_FALLBACK=error`.

    Raises:
        SettingError: the variable holds neither `error` nor `warn`.
    """
    return one_of("INGLE_HOST_FALLBACK", ("error", "warn")) != "error"


def wrong(name: str, said: str, advice: str) -> SettingError:
    """The error about a variable whose value makes no sense."""
    shown = said if len(said) <= 80 else f"{said[:77]}..."
    return SettingError(f"the variable {name} is {shown!r}: {advice}")
