"""Object files loaded without LLVM: the same code as LLVM loads, and nothing that is not simple."""

import ctypes
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingle.fusion.support.disk_store import DiskStore
from ingle.tensor.errors import OutOfMemoryError
from ingle_cpu.jit import loader
from ingle_cpu.jit.elf import DamagedObjectError, read_elf
from ingle_cpu.jit.engine import Engine, IRSource, KernelCompileError
from ingle_cpu.jit.external_symbols import process_symbols
from ingle_cpu.jit.host import Host, host
from ingle_cpu.jit.loader import NotLoadableError, _libc, _Loader, load

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems load with LLVM")

TABLE = """
@squares = internal constant [8 x i64] [i64 0, i64 1, i64 4, i64 9, i64 16, i64 25, i64 36, i64 49]
define i64 @square(i64 %n) {
  %place = getelementptr [8 x i64], ptr @squares, i64 0, i64 %n
  %found = load i64, ptr %place
  ret i64 %found
}
define double @third(double %x) {
  %y = fdiv double %x, 3.0
  ret double %y
}
"""
COPY = """
declare ptr @memcpy(ptr, ptr, i64)
define void @copy(ptr %to, ptr %from, i64 %n) {
  call ptr @memcpy(ptr %to, ptr %from, i64 %n)
  call ptr @memcpy(ptr %to, ptr %from, i64 %n)
  ret void
}
"""
COUNTER = """
@count = internal global i64 41
define i64 @next() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
"""


def object_of(text: str, machine: Host | None = None) -> bytes:
    return Engine(machine or host(), DiskStore(None)).object_code(IRSource(text, ("f",)))


def numbers_of(image: bytes) -> list[tuple[int, int]]:
    """Where an ELF file's numbers are, and their widths (System V ABI, chapter 4)."""
    found = [(18, 2), (40, 8), (58, 2), (60, 2), (62, 2)]
    (first,) = struct.unpack_from("<Q", image, 40)
    section = ((0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8))
    symbol = ((0, 4), (6, 2), (8, 8))
    relocation = ((0, 8), (8, 4), (12, 4), (16, 8))
    for number, known in enumerate(read_elf(image).sections):
        found += [(first + 64 * number + at, width) for at, width in section]
        fields = {2: symbol, 4: relocation}.get(known.kind, ())
        for row in range(known.at, known.at + known.size, 24) if fields else ():
            found += [(row + at, width) for at, width in fields]
    return found


@linux
class TestLoad:
    def test_code_and_constants(self) -> None:
        square, third = load(object_of(TABLE), ("square", "third"), {}).addresses
        f = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(square)
        assert [f(n) for n in range(8)] == [n * n for n in range(8)]
        g = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(third)
        assert g(1.0) == 1.0 / 3.0

    def test_calls_outside(self) -> None:
        (address,) = load(object_of(COPY), ("copy",), process_symbols()).addresses
        source, target = ctypes.create_string_buffer(b"hello"), ctypes.create_string_buffer(6)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
        call(ctypes.addressof(target), ctypes.addressof(source), 6)
        assert target.value == b"hello"

    def test_pages_are_not_writable(self) -> None:
        (address, _) = load(object_of(TABLE), ("square", "third"), {}).addresses
        with open("/proc/self/maps", encoding="ascii") as lines:
            for line in lines:
                span, access, *_ = line.split()
                first, last = (int(x, 16) for x in span.split("-"))
                if first <= address < last:
                    assert access == "r-xp"
                    return
        raise AssertionError("the code is nowhere")

    @pytest.mark.parametrize(
        ("image", "why"),
        [
            (b"", "starts with b''"),
            (b"hello" * 40, "starts with b'helloh'"),
            (b"\x7fELF\x02\x01", "at byte 18 of 6"),
            (b"\x7fELF\x02\x01" + bytes(200), "another machine"),
        ],
    )
    def test_what_is_no_object(self, image: bytes, why: str) -> None:
        with pytest.raises((NotLoadableError, DamagedObjectError), match=why):
            load(image, ("f",), {})

    @pytest.mark.parametrize("text", [TABLE, COPY])
    def test_numbers_that_point_out_of_the_file(self, text: str) -> None:
        """Every number of the header, of sections, symbols and relocations, made an extreme one."""
        image = object_of(text)
        names = ("square", "third") if text is TABLE else ("copy",)
        refused = 0
        for at, width in numbers_of(image):
            for value in (0, 1, 3, len(image) - 1, len(image), 2**31 - 1, 2**63, 2**64 - 1):
                damaged = bytearray(image)
                damaged[at : at + width] = value.to_bytes(8, "little")[:width]
                try:
                    loaded = load(bytes(damaged), names, process_symbols())
                except (NotLoadableError, DamagedObjectError):
                    refused += 1
                else:
                    loaded.unload()
        assert refused > 300

    @pytest.mark.parametrize(
        ("field", "value", "why"),
        [
            (24, 1 << 40, r"\.l?text ends at byte"),  # where its bytes are
            (32, 1 << 40, r"\.l?text ends at byte"),  # how many
            (32, 0, "square begins behind"),
            (48, 3, "is aligned to 3"),
            (48, 1 << 32, f"is aligned to {1 << 32}"),
        ],
    )
    def test_a_section_that_makes_no_sense(self, field: int, value: int, why: str) -> None:
        damaged = bytearray(object_of(TABLE))
        (number,) = (s.section for s in read_elf(bytes(damaged)).symbols() if s.name == "square")
        (first,) = struct.unpack_from("<Q", damaged, 40)
        struct.pack_into("<Q", damaged, first + 64 * number + field, value)
        with pytest.raises(DamagedObjectError, match=why):
            load(bytes(damaged), ("square", "third"), {})

    def test_the_engine_does_not_hand_a_damaged_object_to_llvm(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(host(), DiskStore(None), process_symbols())
        damaged = bytearray(object_of(TABLE))
        (first,) = struct.unpack_from("<Q", damaged, 40)
        for number, section in enumerate(read_elf(bytes(damaged)).sections):
            if section.flags & 2:
                struct.pack_into("<Q", damaged, first + 64 * number + 48, 1 << 32)
        monkeypatch.setattr(engine, "object_code", lambda source: bytes(damaged))
        monkeypatch.setattr(engine, "_load_with_llvm", lambda *_: pytest.fail("LLVM got it"))
        with pytest.raises(KernelCompileError, match="is aligned to"):
            engine.code(IRSource(TABLE, ("square",)))

    def test_a_function_that_is_missing(self) -> None:
        with pytest.raises(NotLoadableError, match="no function nothing"):
            load(object_of(TABLE), ("nothing",), {})

    def test_a_symbol_that_is_missing(self) -> None:
        with pytest.raises(NotLoadableError, match="memcpy"):
            load(object_of(COPY), ("copy",), {})

    def test_data_that_is_written_to_is_left_to_llvm(self) -> None:
        with pytest.raises(NotLoadableError, match=r"section \.l?data is written to"):
            load(object_of(COUNTER), ("next",), {})
        (address,) = Engine(host(), DiskStore(None)).addresses(IRSource(COUNTER, ("next",)))
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 42

    @pytest.mark.parametrize("call", ["mmap", "mprotect"])
    def test_no_memory_is_an_error_before_llvm_ends_the_process(
        self, call: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(host(), DiskStore(None))
        engine.object_code(IRSource(TABLE, ("square", "third")))  # LLVM is in memory
        monkeypatch.setattr(engine, "_load_with_llvm", lambda *_: pytest.fail("LLVM got it"))

        def refused(*_: object) -> int:
            ctypes.set_errno(errno.ENOMEM)
            return 2**64 - 1

        libc = Refusing(_libc(), call, refused)
        monkeypatch.setattr(loader, "_libc", lambda: libc)
        with pytest.raises(OutOfMemoryError, match=r"code of .* bytes: .*no memory left"):
            engine.code(IRSource(TABLE, ("square", "third")))
        monkeypatch.undo()
        (square, _) = engine.addresses(IRSource(TABLE, ("square", "third")))
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(square)(5) == 25

    def test_code_for_another_machine(self) -> None:
        other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
        machine = Host(f"{other}-unknown-linux-gnu", "", "")
        start_all()
        with pytest.raises(NotLoadableError, match="another machine"):
            load(object_of(TABLE, machine), ("square",), {})


class Refusing:
    """The C library, one of whose functions is another."""

    def __init__(self, libc: ctypes.CDLL, name: str, function: Callable[..., int]) -> None:
        self._libc = libc
        self.__dict__[name] = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._libc, name)


def start_all() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def test_addresses_in_code_for_arm() -> None:
    """`movz` and three `movk` make an address; calls go to a stub that jumps anywhere."""
    start_all()
    machine = Host("aarch64-unknown-linux-gnu", "generic", "")
    base = 0x1234_5678_9ABC_0000
    loader = _Loader(read_elf(object_of(TABLE, machine)), {})
    loader.place()
    code = bytes(loader._filled(base))
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    made = [
        sum(((word >> 5) & 0xFFFF) << (16 * ((word >> 21) & 3)) for word in words[i : i + 4])
        for i in range(len(words) - 3)
        if [(word >> 21) & 3 for word in words[i : i + 4]] == [0, 1, 2, 3]
        and all(word & 0x1F800000 == 0x12800000 for word in words[i : i + 4])
    ]
    tables = [
        base + place
        for number, place in loader._places.items()
        if loader._elf.sections[number].name == ".rodata"
    ]
    assert made == tables

    loader = _Loader(read_elf(object_of(COPY, machine)), {"memcpy": 0xFEED_BEEF_0123_4567})
    loader.place()
    code = bytes(loader._filled(base))
    words = struct.unpack(f"<{len(code) // 4}I", code)
    calls = [(i, word) for i, word in enumerate(words) if word >> 26 in (0b100101, 0b000101)]
    (stub,) = loader._stubs.values()
    assert len(calls) == 2
    for i, word in calls:
        assert (i + (word & 0x3FFFFFF)) * 4 % (1 << 28) == stub
    jump = struct.pack("<IIQ", 0x58000050, 0xD61F0200, 0xFEED_BEEF_0123_4567)
    assert code[stub : stub + 16] == jump


@pytest.mark.slow
@linux
def test_a_process_that_finds_its_kernels_never_loads_llvm(tmp_path: Path) -> None:
    program = (
        "import sys, ingle.tensor as it, ingle_cpu.jit.engine as e\n"
        "x = it.arange(1000, dtype='float32', device='cpu')\n"
        "print(float(it.sum(it.exp(-x) * x)))\n"
        "print(float(it.sum(it.exp(-x) * x)))\n"
        "print(e.engine().counts.compiled > 0, 'llvmlite.binding' in sys.modules)\n"
    )
    environment = {**os.environ, "INGLE_CACHE_DIR": str(tmp_path), "INGLE_CACHE": "1"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    (*values, first), (*again, second) = outputs
    assert (first, second) == ("True True", "False False")
    assert values == again
