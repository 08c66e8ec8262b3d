"""Object files in the ELF format: their sections, symbols and relocations.

64-bit little-endian files (System V ABI, chapter 4), as LLVM writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

SYMBOLS, RELOCATIONS, NO_BITS = 2, 4, 8
"""Kinds of sections."""
WRITABLE, ALLOCATED = 1, 2
"""Flags of sections."""


class Section(NamedTuple):
    """A part of the file.

    Attributes:
        name: such as ".text".
        kind, flags: see above.
        at, size: where its bytes are in the file, and how many it has in memory.
        link, info: numbers of other sections; what they mean goes by the kind.
        align: what its address in memory is a multiple of.
        entry: the bytes of an entry where it is a table.
    """

    name: str
    kind: int
    flags: int
    at: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    """A name: `section` is where it is defined, 0 if it is not, and `value` the place in there."""

    name: str
    section: int
    value: int


class Relocation(NamedTuple):
    """Place `at` of a section needs the address of a symbol plus `addend`, in the way of `kind`."""

    at: int
    kind: int
    symbol: int
    addend: int


class Elf:
    """An object file.

    Args:
        image: all its bytes.

    Raises:
        struct.error, ValueError: it is cut off.
    """

    def __init__(self, image: bytes) -> None:
        self.image = image
        (self.machine,) = struct.unpack_from("<H", image, 18)
        (first,) = struct.unpack_from("<Q", image, 40)
        size, count, names = struct.unpack_from("<HHH", image, 58)
        raw = [struct.unpack_from("<IIQQQQIIQQ", image, first + i * size) for i in range(count)]
        texts = raw[names][4] if raw else 0
        self.sections = [
            Section(self._text(texts + name), kind, flags, at, length, link, info, align, entry)
            for name, kind, flags, _, at, length, link, info, align, entry in raw
        ]

    def _text(self, at: int) -> str:
        return self.image[at : self.image.index(b"\0", at)].decode()

    def symbols(self) -> list[Symbol]:
        """The symbols; relocations name them by their position. The first one is none."""
        found = []
        for section in self.sections:
            if section.kind == SYMBOLS:
                texts = self.sections[section.link].at
                for at in range(section.at, section.at + section.size, section.entry):
                    name, _, _, place, value = struct.unpack_from("<IBBHQ", self.image, at)
                    found.append(Symbol(self._text(texts + name), place, value))
        return found

    def relocations(self) -> Iterator[tuple[int, Relocation]]:
        """Each with the number of the section that it is about."""
        for section in self.sections:
            if section.kind == RELOCATIONS:
                for at in range(section.at, section.at + section.size, section.entry):
                    place, info, addend = struct.unpack_from("<QQq", self.image, at)
                    yield section.info, Relocation(place, info & 0xFFFFFFFF, info >> 32, addend)
