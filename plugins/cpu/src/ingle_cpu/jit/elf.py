"""Object files in the ELF format: their sections, symbols and relocations.

64-bit little-endian files (System V ABI, chapter 4), as LLVM writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NOTHING, SYMBOLS, RELOCATIONS, NO_BITS, BARE_RELOCATIONS = 0, 2, 4, 8, 9
"""Kinds of sections."""
LONGEST_NAME = 4096
WRITABLE, ALLOCATED = 1, 2
"""Flags of sections."""


class DamagedObjectError(ValueError):
    """The bytes are no such file, or numbers in it point out of it."""


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


def read_elf(image: bytes) -> Elf:
    """The header and the sections of an object file.

    Args:
        image: all its bytes.

    Raises:
        DamagedObjectError: it is cut off, or a number in it points out of it.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise DamagedObjectError(f"no 64-bit ELF file: it starts with {image[:6]!r}")
    (machine,) = _numbers(image, "<H", 18)
    (first,) = _numbers(image, "<Q", 40)
    size, count, names = _numbers(image, "<HHH", 58)
    raw = [_numbers(image, "<IIQQQQIIQQ", first + i * size) for i in range(count)]
    if raw and names >= count:
        raise DamagedObjectError(f"names are in section {names} of {count}")
    texts = raw[names][4] if raw else 0
    sections = [
        Section(_text(image, texts + name), kind, flags, at, length, link, info, align, entry)
        for name, kind, flags, _, at, length, link, info, align, entry in raw
    ]
    for section in sections:
        if section.kind not in (NOTHING, NO_BITS) and section.at + section.size > len(image):
            raise DamagedObjectError(
                f"section {section.name} ends at byte {section.at + section.size} of {len(image)}"
            )
    return Elf(image, machine, sections)


def _numbers(image: bytes, layout: str, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(layout) > len(image):
        raise DamagedObjectError(f"numbers are at byte {at} of {len(image)}")
    return struct.unpack_from(layout, image, at)


def _text(image: bytes, at: int) -> str:
    end = image.find(b"\0", at, at + LONGEST_NAME) if at < len(image) else -1
    if end < 0:
        raise DamagedObjectError(f"a name is at byte {at} of {len(image)}")
    return image[at:end].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Elf:
    """An object file; made by `read_elf`.

    Attributes:
        image: all its bytes.
        machine: the number of the kind of machine that it is for.
        sections: in order.
    """

    image: bytes
    machine: int
    sections: list[Section]

    def _rows(self, section: Section, layout: str) -> Iterator[tuple[int, ...]]:
        """The entries of a table."""
        if section.entry != struct.calcsize(layout) or section.size % section.entry:
            raise DamagedObjectError(
                f"{section.name} has {section.size} bytes in entries of {section.entry}"
            )
        return struct.iter_unpack(layout, self.image[section.at :][: section.size])

    def symbols(self) -> list[Symbol]:
        """The symbols; relocations name them by their position. The first one is none."""
        found = []
        for section in self.sections:
            if section.kind == SYMBOLS:
                if section.link >= len(self.sections):
                    raise DamagedObjectError(f"names are in section {section.link}")
                texts = self.sections[section.link].at
                for name, _, _, place, value, _ in self._rows(section, "<IBBHQQ"):
                    found.append(Symbol(_text(self.image, texts + name), place, value))
        return found

    def relocations(self) -> Iterator[tuple[int, Relocation]]:
        """Each with the number of the section that it is about."""
        for section in self.sections:
            if section.kind == RELOCATIONS:
                for place, info, addend in self._rows(section, "<QQq"):
                    yield section.info, Relocation(place, info & 0xFFFFFFFF, info >> 32, addend)
