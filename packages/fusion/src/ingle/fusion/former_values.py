"""What cells held before they got values that are only recorded, for the case that these fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from weakref import ref

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Handle
from ingle.tensor.transactions import commit_writes

from .record.log import LazyHandle


class FormerValues:
    """The values that cells held when a stream began, and in between.

    A plan may write over a value that nobody holds, so that what the stream has as an input or will
    compute is noted by its number there. It is looked up when something has failed and before the
    stream forgets its inputs; a plan that fails has written over none.

    Attributes:
        noted: cells with the numbers or handles of what they held, in order of the writes.
    """

    def __init__(self) -> None:
        self.noted: list[tuple[ref[Cell[Any]], Handle | int]] = []
        self._found: list[tuple[ref[Cell[Any]], Any]] = []

    def note(self, cell: Cell[Any], old: Handle | int) -> None:
        """A cell gets another value than this one."""
        self.noted.append((ref(cell), old))

    def numbers(self) -> list[int]:
        """Of the values in the stream, each once."""
        return sorted({old for _, old in self.noted if isinstance(old, int)})

    def find(self, values: Mapping[int, Any]) -> None:
        """Keeps the values themselves, or errors in place of those that failed, too."""
        self._found = [
            (cell, values[old] if isinstance(old, int) else old) for cell, old in self.noted
        ]

    def forget(self) -> None:
        """The stream has run, and lets go of its inputs."""
        self.noted = []

    def put_back(self, written: Collection[Cell[Any]] = ()) -> None:
        """Gives cells whose values have failed the last one that has not, and these cells as well,
        whose values belong together."""
        found, self._found = self._found, []
        together = set(written)
        back: dict[Cell[Any], Tensor] = {}
        for reference, old in reversed(found):  # the last value that there is
            cell = reference()
            if cell is None or cell in back or _has_failed(old):
                continue
            if cell in together or _has_failed(getattr(cell._value, "_handle", None)):
                back[cell] = Tensor(old)
        commit_writes(back.items())


def _has_failed(value: Any) -> bool:
    if isinstance(value, LazyHandle):
        value = value.value
    return isinstance(value, BaseException)
