"""Which symbols an object file expects from outside: read before it is loaded.

Code generation may turn an instruction into a call of a support function that a Python process
does not have (a half-precision conversion, a remainder). A loader that finds no such symbol jumps
to nothing, so that the symbols are checked against a list of allowed ones first.

Formats: ELF (see `elf.py`), Mach-O (Apple's `mach-o/loader.h`, `mach-o/nlist.h`) and
COFF (Microsoft's PE format), 64-bit little-endian each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .elf import read_elf

_MACHO_MAGIC = 0xFEEDFACF
_MACHO_SYMTAB = 2
_MACHO_TYPE_MASK = 0x0E
_MACHO_STAB = 0xE0
_COFF_EXTERNAL = 2


class UnknownObjectError(ValueError):
    """The bytes are no object file of a known format, or they are cut off."""


def undefined_symbols(image: bytes) -> frozenset[str]:
    """The names that an object file uses and does not define.

    Args:
        image: the whole object file.

    Raises:
        UnknownObjectError: the bytes are no 64-bit little-endian ELF, Mach-O or COFF object.
    """
    try:
        if image[:6] == b"\x7fELF\x02\x01":
            return frozenset(_elf(image))
        if len(image) >= 4 and struct.unpack_from("<I", image)[0] == _MACHO_MAGIC:
            return frozenset(_macho(image))
        if image[:2] in (b"\x64\x86", b"\x64\xaa"):
            return frozenset(_coff(image))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise UnknownObjectError(
            f"object file of {len(image)} bytes is cut off: {error}"
        ) from error
    raise UnknownObjectError(f"no ELF, Mach-O or COFF object: it starts with {image[:4]!r}")


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def _elf(image: bytes) -> Iterator[str]:
    for symbol in read_elf(image).symbols():
        if symbol.section == 0 and symbol.name:
            yield symbol.name


def _macho(image: bytes) -> Iterator[str]:
    (commands,) = struct.unpack_from("<I", image, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", image, at)
        if size < 8:
            raise UnknownObjectError(f"a load command at byte {at} has {size} bytes")
        if command == _MACHO_SYMTAB:
            symbols, count, names, _ = struct.unpack_from("<IIII", image, at + 8)
            for i in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", image, symbols + 16 * i)
                if not kind & (_MACHO_STAB | _MACHO_TYPE_MASK) and not value:
                    yield _text(image, names + name).removeprefix("_")
        at += size


def _coff(image: bytes) -> Iterator[str]:
    symbols, count = struct.unpack_from("<II", image, 8)
    names = symbols + 18 * count
    index = 0
    while index < count:
        at = symbols + 18 * index
        raw = image[at : at + 8]
        value, section, _, storage, auxiliary = struct.unpack_from("<IhHBB", image, at + 8)
        if section == 0 and value == 0 and storage == _COFF_EXTERNAL:
            zeros, offset = struct.unpack("<II", raw)
            yield _text(image, names + offset) if not zeros else raw.rstrip(b"\0").decode()
        index += 1 + auxiliary
