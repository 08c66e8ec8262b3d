"""Checks of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingle.tensor.errors import ArgumentError


def at_least(who: str, options: Mapping[str, Any], *names: str, least: float = 0.0) -> None:
    """Raises `ArgumentError` unless these options are numbers of at least `least`."""
    for name in names:
        if not options[name] >= least:
            raise ArgumentError(f"{who}: {name} must be at least {least}, got {options[name]}")


def fractions(who: str, options: Mapping[str, Any], name: str, count: int) -> None:
    """Raises `ArgumentError` unless an option is `count` numbers in [0, 1)."""
    values = options[name]
    if len(values) != count or not all(0.0 <= v < 1.0 for v in values):
        raise ArgumentError(f"{who}: {name} must be {count} numbers in [0, 1), got {values}")
