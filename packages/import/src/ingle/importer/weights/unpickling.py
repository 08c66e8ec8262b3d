"""Pickles read without running anything of theirs: names stand for what a table here has.

A pickle is a program that may call any function it names. Before one runs, all of its instructions
are read; each name must be in the table, whose entries only build arrays and dicts. A memo place
that would take memory out of proportion is refused too.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..errors import WeightsError


class Named:
    """A name of a pickle that stands for nothing to be called, such as a storage's class."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


Table = Mapping[tuple[str, str], Any]
PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
}


def length_of(file: IO[bytes], what: str) -> int:
    """How many bytes the pickle at the file's place takes; the place stays. Refuses bad memos."""
    start = file.tell()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > 1 << 24:
                raise WeightsError(f"{what}: a pickle that asks for {argument} memo places")
            if opcode.name in ("EXT1", "EXT2", "EXT4"):
                raise WeightsError(f"{what}: a pickle that uses registered extensions")
    except WeightsError:
        raise
    except Exception as error:  # pickletools raises whatever its parts do
        raise WeightsError(f"{what}: its pickle is damaged: {error}") from error
    length = file.tell() - start
    file.seek(start)
    return length


def load(
    file: IO[bytes], what: str, table: Table, persistent: Callable[[Any], Any] | None = None
) -> Any:
    """The object of the pickle at the file's place.

    Args:
        file: is left behind the pickle.
        what: the file and the part of it, for messages.
        table: what names stand for, besides `OrderedDict` and `set`.
        persistent: gives what stands outside of the pickle, by its identity.

    Raises:
        WeightsError: the pickle is damaged, or names something that the table has not.
    """
    data = file.read(length_of(file, what))
    unpickler = _Unpickler(io.BytesIO(data), what, {**PLAIN, **table}, persistent)
    try:
        return unpickler.load()
    except WeightsError:
        raise
    except Exception as error:  # a wrong pickle raises what the wrong call does
        raise WeightsError(
            f"{what}: its pickle makes no sense: {type(error).__name__}: {error}"
        ) from error


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: IO[bytes], what: str, table: Table, persistent: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(file, encoding="latin1")
        self._what = what
        self._table = table
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        found = self._table.get((module, name))
        if found is None:
            raise WeightsError(
                f"{self._what}: refused: its pickle names {module}.{name}, which is no part of a "
                "state dict and could run anything. If you trust the file, load it where it was "
                "made and save only model.state_dict(), best as safetensors"
            )
        return found

    def persistent_load(self, pid: Any) -> Any:
        if self._persistent is None:
            raise WeightsError(f"{self._what}: its pickle points outside of itself")
        return self._persistent(pid)
