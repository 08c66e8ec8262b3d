"""Object files of kernels become code in this process without LLVM.

LLVM compiles for a process, not for a library: all addresses in an object are absolute and whole
(x86-64's large code model, `movz` and `movk` on ARM64). So to load it is to copy its sections into
fresh pages and to write addresses into them. That takes 20 microseconds, where LLVM itself takes
60 milliseconds to come into memory, which a process that finds its kernels on disk can do without.

Pages are writable first and executable then, never both. What is no such object (other systems,
data that is written to, unknown relocations) is left to LLVM.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ingle.tensor.errors import OutOfMemoryError

from .elf import (
    ALLOCATED,
    BARE_RELOCATIONS,
    NO_BITS,
    WRITABLE,
    DamagedObjectError,
    Elf,
    Symbol,
    read_elf,
)

_X86_64, _ARM64 = 62, 183
_NATIVE = {"x86_64": _X86_64, "aarch64": _ARM64}
_STUB = struct.pack("<II", 0x58000050, 0xD61F0200)
"""ARM64: `ldr x16, [pc + 8]`, `br x16`; the address that is jumped to comes behind it."""
_FAILED = 2**64 - 1
_UNWINDING = ".eh_frame"
"""Kernels raise nothing, so that nobody unwinds through them."""

Patch = Callable[[bytearray, int, int], None]


class NotLoadableError(Exception):
    """An object that only LLVM can load."""


class Loaded(NamedTuple):
    """An object in memory.

    Attributes:
        addresses: of its functions.
        unload: gives its memory back; nobody may be in the code then, or come into it again.
    """

    addresses: tuple[int, ...]
    unload: Callable[[], object]


def load(image: bytes, names: Sequence[str], symbols: Mapping[str, int]) -> Loaded:
    """An object's functions, loaded into this process.

    Args:
        image: the object file.
        names: the functions.
        symbols: name -> address of what it may call outside.

    Raises:
        NotLoadableError: it is not of the simple form that can be loaded here.
        OutOfMemoryError: the system has no memory for it.
        DamagedObjectError: it is no object file, or numbers in it point out of it.
    """
    if sys.platform != "linux":
        raise NotLoadableError(f"the system is {sys.platform}")
    elf = read_elf(image)
    if elf.machine != _NATIVE.get(os.uname().machine):
        raise NotLoadableError(f"code for another machine ({elf.machine})")
    loader = _Loader(elf, symbols)
    loader.place()
    return loader.load(names)


class _Loader:
    """Gives an object's sections their places, and fills them."""

    def __init__(self, elf: Elf, symbols: Mapping[str, int]) -> None:
        self._elf = elf
        self._outside = symbols
        self._symbols = elf.symbols()
        self._places: dict[int, int] = {}
        self._stubs: dict[str, int] = {}
        self._size = 0

    def place(self) -> None:
        """Gives each section its place in the memory to come.

        Raises:
            NotLoadableError: a section is of a kind that cannot be loaded here.
            DamagedObjectError: numbers in it do not agree.
        """
        for number, section in enumerate(self._elf.sections):
            if section.kind == BARE_RELOCATIONS:
                raise NotLoadableError("it has relocations whose addends lie in the code")
            if not section.flags & ALLOCATED or section.name == _UNWINDING:
                continue
            if section.flags & WRITABLE or section.kind == NO_BITS:
                raise NotLoadableError(f"section {section.name} is written to")
            if section.align & (section.align - 1) or section.align > mmap.PAGESIZE:
                raise DamagedObjectError(f"{section.name} is aligned to {section.align}")
            self._places[number] = self._room(section.size, max(section.align, 1))
        if sum(self._elf.sections[n].size for n in self._places) > len(self._elf.image):
            raise DamagedObjectError("its sections are larger than the file")
        if not self._size:
            raise DamagedObjectError("it holds no code")
        if self._elf.machine == _ARM64:
            # A call reaches 128 MiB, and what it calls may lie anywhere.
            for symbol in self._symbols:
                if symbol.section == 0 and symbol.name:
                    self._stubs[symbol.name] = self._room(len(_STUB) + 8, 8)

    def _room(self, size: int, align: int) -> int:
        start = -(-self._size // align) * align
        self._size = start + size
        return start

    def load(self, names: Sequence[str]) -> Loaded:
        defined = {s.name: s for s in self._symbols if s.section in self._places}
        missing = [name for name in names if name not in defined]
        if missing:
            raise NotLoadableError(f"there is no function {', '.join(missing)}")
        for name in names:
            if defined[name].value >= self._elf.sections[defined[name].section].size:
                raise DamagedObjectError(f"{name} begins behind the end of its section")
        base = _pages(self._size)
        try:
            ctypes.memmove(base, bytes(self._filled(base)), self._size)
            _make_executable(base, self._size)
            addresses = tuple([self._address(defined[name], base) for name in names])
        except BaseException:
            _libc().munmap(base, self._size)
            raise
        return Loaded(addresses, partial(_libc().munmap, base, self._size))

    def _filled(self, base: int) -> bytearray:
        code = bytearray(self._size)
        for number, place in self._places.items():
            section = self._elf.sections[number]
            code[place : place + section.size] = self._elf.image[section.at :][: section.size]
        for name, place in self._stubs.items():
            code[place : place + 16] = _STUB + struct.pack("<Q", self._found_outside(name))
        for number, (at, kind, symbol, addend) in self._elf.relocations():
            if number not in self._places:
                continue
            patch = _PATCHES.get((self._elf.machine, kind))
            if patch is None:
                raise NotLoadableError(f"relocations of kind {kind} are unknown")
            width = 8 if patch is _whole else 4
            if at + width > self._elf.sections[number].size or symbol >= len(self._symbols):
                raise DamagedObjectError(f"a relocation of symbol {symbol} at byte {at}")
            place = self._places[number] + at
            known = self._symbols[symbol]
            if patch is _call:
                near = self._stubs.get(known.name)
                target = self._address(known, 0) if near is None else near
                patch(code, place, target + addend - place)
            else:
                patch(code, place, self._address(known, base) + addend)
        return code

    def _address(self, symbol: Symbol, base: int) -> int:
        if symbol.section == 0:
            return self._found_outside(symbol.name)
        place = self._places.get(symbol.section)
        if place is None:
            raise NotLoadableError(f"{symbol.name!r} is in section {symbol.section}")
        # The address behind the last byte may be meant, by the end of a loop over a table.
        if symbol.value > self._elf.sections[symbol.section].size:
            raise DamagedObjectError(f"{symbol.name!r} is at byte {symbol.value} of its section")
        return base + place + symbol.value

    def _found_outside(self, name: str) -> int:
        if name not in self._outside:
            raise NotLoadableError(f"it calls {name!r}, which is not offered")
        return self._outside[name]


def _whole(code: bytearray, place: int, value: int) -> None:
    struct.pack_into("<Q", code, place, value & (2**64 - 1))


def _quarter(number: int) -> Patch:
    """For `movz` and `movk`: 16 bits of an address, in bits 5 to 20 of the instruction."""

    def patch(code: bytearray, place: int, value: int) -> None:
        (word,) = struct.unpack_from("<I", code, place)
        bits = (value >> (16 * number)) & 0xFFFF
        struct.pack_into("<I", code, place, word & ~(0xFFFF << 5) | bits << 5)

    return patch


def _call(code: bytearray, place: int, distance: int) -> None:
    """For `bl` and `b`: the distance in instructions, in the lower 26 bits."""
    (word,) = struct.unpack_from("<I", code, place)
    struct.pack_into("<I", code, place, word & ~0x3FFFFFF | distance >> 2 & 0x3FFFFFF)


_PATCHES: dict[tuple[int, int], Patch] = {
    (_X86_64, 1): _whole,
    (_ARM64, 257): _whole,
    **{(_ARM64, kind): _quarter(n) for kind, n in ((264, 0), (266, 1), (268, 2), (269, 3))},
    (_ARM64, 282): _call,
    (_ARM64, 283): _call,
}
"""Machine and kind of relocation -> what is done. The numbers are those of the two ABIs: 64; ABS64,
MOVW_UABS_G0_NC to G3, JUMP26, CALL26."""


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _pages(size: int) -> int:
    """Writable pages. They are nobody's in Python, which would give them back when it goes down,
    while other threads are in the code."""
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: int = _libc().mmap(None, size, access, kind, -1, 0)
    if address in (None, _FAILED):
        raise _refused("there are no pages for it", size)
    return address


def _make_executable(address: int, size: int) -> None:
    # Linux brings instruction and data caches into line when pages become executable.
    if _libc().mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise _refused("pages cannot be made executable", size)


def _refused(what: str, size: int) -> Exception:
    """What to raise where the system has given no pages: LLVM may know another way, but ends the
    process where there is no memory."""
    number = ctypes.get_errno()
    if number == errno.ENOMEM:
        return OutOfMemoryError(
            f"a kernel's code of {size} bytes: {what}, as the system has no memory left for this "
            "process; free tensors, or raise the limit (`ulimit -v`)",
            size,
        )
    return NotLoadableError(f"{what}: {os.strerror(number)}")
