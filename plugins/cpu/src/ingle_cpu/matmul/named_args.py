"""Reading the arguments and pointers of a kernel by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ingle.fusion.device.llvm import Values, Writer

Args = TypeVar("Args", bound=tuple[Any, ...])


def loaded_args(w: Writer, kind: type[Args], place: str = "%args") -> Args:
    """Arguments, int64 each, as a record of the names that the instructions gave them.

    Args:
        w: of the kernel.
        kind: the record, a `NamedTuple`.
        place: a pointer to the first of them.
    """
    found = []
    for number, name in enumerate(kind._fields):  # type: ignore[attr-defined]
        at = w.let("arg", f"getelementptr i64, ptr {place}, i64 {number}")
        found.append(w.let(name, f"load i64, ptr {at}, align 8"))
    return kind(*found)


def loaded_pointers(w: Writer, names: Sequence[str]) -> Values:
    """The pointers of a kernel, in order."""
    found = []
    for number, name in enumerate(names):
        place = w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {number}")
        found.append(w.let(name, f"load ptr, ptr {place}, align 8"))
    return found
