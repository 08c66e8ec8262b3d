"""From the values of a table's row to a dict or a dataclass, with every value checked."""

from __future__ import annotations

import dataclasses
import types as python_types
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import DataFileError, DataValueError

Convert = Callable[[Any], Any]
Types = Mapping[str, Convert]

_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}


class RowMaker:
    """Makes rows of one table: dicts of its columns, or objects of a dataclass.

    Args:
        place: the file, or file and table, that errors name.
        columns: the names of the table's columns, in their order.
        row: a dataclass whose fields are columns; dicts if None.
        types: functions that convert a column's values; they go before the types of the fields.
        text: whether all values arrive as text, as in a CSV file.

    Raises:
        DataFileError: the table lacks a column, or has one twice.
        DataValueError: `row` is no dataclass, or has a field of a type that is not known here.
    """

    def __init__(
        self,
        place: str,
        columns: Sequence[str],
        row: type | None,
        types: Types | None,
        text: bool,
    ) -> None:
        self._given = (place, tuple(columns), row, types, text)
        self.place = place
        self.columns = tuple(columns)
        self.row = row
        twice = sorted({c for c in columns if columns.count(c) > 1})
        if twice:
            raise DataFileError(
                f"{place}: the column {twice[0]!r} is there {columns.count(twice[0])} times; "
                "rename one in the file"
            )
        types = dict(types or {})
        names = self.columns if row is None else _fields(row)
        for name in (*names, *types):
            if name not in self.columns:
                raise DataFileError(f"{place}: {_missing(name, self.columns)}")
        hints = {} if row is None else get_type_hints(row)
        self._parts = [
            (name, self.columns.index(name), _converter(name, types, hints, text)) for name in names
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        # The functions that convert are local, so another process makes them anew.
        return type(self), self._given

    def __call__(self, values: Sequence[Any], where: str) -> Any:
        """The row of `values`; errors say `where` it stands."""
        made: dict[str, Any] = {}
        for name, at, convert in self._parts:
            try:
                made[name] = convert(values[at])
            except Exception as error:
                wanted = (
                    str(error)
                    if isinstance(error, _UnfitError)
                    else f"{type(error).__name__}: {error}"
                )
                raise DataFileError(
                    f"{self.place}: {where}: column {name!r} has {values[at]!r:.80}: {wanted}"
                ) from error
        if self.row is None:
            return made
        try:
            return self.row(**made)
        except Exception as error:
            raise DataFileError(
                f"{self.place}: {where}: {self.row.__name__} refuses {made!r:.200}: "
                f"{type(error).__name__}: {error}"
            ) from error


class _UnfitError(ValueError):
    """A value is not of its column's type; the message says what was expected."""


def _fields(row: type) -> tuple[str, ...]:
    if not (isinstance(row, type) and dataclasses.is_dataclass(row)):
        raise DataValueError(f"row must be a dataclass, got {row!r}; leave it out for dicts")
    return tuple(f.name for f in dataclasses.fields(row) if f.init)


def _missing(name: str, columns: Sequence[str]) -> str:
    near = get_close_matches(name, columns, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no column {name!r}, only {', '.join(map(repr, columns))}{hint}"


def _converter(name: str, types: Types, hints: Mapping[str, Any], text: bool) -> Convert:
    wanted: Any = types.get(name, hints.get(name, Any))
    none = False
    if get_origin(wanted) in (Union, python_types.UnionType):
        parts = [a for a in get_args(wanted) if a is not type(None)]
        none = len(parts) < len(get_args(wanted))
        wanted = parts[0] if len(parts) == 1 else wanted
    if get_origin(wanted) is Literal:
        convert = choice({str(c): c for c in get_args(wanted)})
    elif wanted is Any:
        return _itself
    elif wanted in (str, int, float, bool, bytes):
        convert = (_FROM_TEXT if text else _FROM_VALUE).get(wanted, _itself)
    elif name in types and callable(wanted):
        return _or_none(wanted, text) if none else wanted
    else:
        raise DataValueError(
            f"the field {name!r} has the type {wanted!r}, and columns are read as str, int, float, "
            f"bool, Literal or one of these `| None`; pass types={{{name!r}: a function of the "
            "value}"
        )
    return _or_none(convert, text) if none else convert


def _or_none(convert: Convert, text: bool) -> Convert:
    def optional(value: Any) -> Any:
        return None if value is None or (text and value == "") else convert(value)

    return optional


def _itself(value: Any) -> Any:
    return value


def choice(choices: Mapping[str, Any]) -> Convert:
    """Converts a text to what a mapping has for it."""

    def chosen(value: Any) -> Any:
        if str(value) not in choices:
            raise _UnfitError(f"expected one of {', '.join(map(repr, choices))}; correct it")
        return choices[str(value)]

    return chosen


def _number(kind: type) -> Convert:
    def number(value: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            cure = (
                f"make the type `{kind.__name__} | None`" if value.strip() == "" else "correct it"
            )
            raise _UnfitError(
                f"expected {_ARTICLES[kind]}; {cure}, or read the column as str"
            ) from None

    return number


def _truth(value: str) -> bool:
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise _UnfitError("expected true or false, yes or no, 1 or 0")
    return word in _TRUE


def _bytes(value: str) -> bytes:
    return value.encode("utf-8")


def _typed(kind: type, *also: type) -> Convert:
    def typed(value: Any) -> Any:
        if isinstance(value, (kind, *also)) and not isinstance(value, bool):
            return kind(value)
        cure = f"make the type `{kind.__name__} | None`" if value is None else "correct it"
        raise _UnfitError(f"expected {_ARTICLES[kind]}, got {type(value).__name__}; {cure}")

    return typed


def _bit(value: Any) -> bool:
    if value not in (0, 1):
        raise _UnfitError("expected 0 or 1")
    return bool(value)


_ARTICLES = {int: "an integer", float: "a number", str: "a text", bytes: "bytes"}
_FROM_TEXT: dict[type, Convert] = {
    int: _number(int), float: _number(float), bool: _truth, bytes: _bytes,
}  # fmt: skip
_FROM_VALUE: dict[type, Convert] = {
    int: _typed(int), float: _typed(float, int), str: _typed(str), bytes: _typed(bytes), bool: _bit,
}  # fmt: skip
