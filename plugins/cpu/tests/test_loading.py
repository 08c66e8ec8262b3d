"""Object files loaded without LLVM: the same code as LLVM loads, and nothing that is not simple."""

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ingle_cpu.cache import DiskCache
from ingle_cpu.elf import Elf
from ingle_cpu.engine import Engine, Source
from ingle_cpu.host import Host, host
from ingle_cpu.loading import NotLoadableError, _Loader, load
from ingle_cpu.symbols import process_symbols

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
    return Engine(machine or host(), DiskCache(None)).object_code(Source(text, ("f",)))


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
            (b"", "unpack"),
            (b"\x7fELF\x02\x01" + bytes(200), "another machine"),
            (b"hello" * 40, "unpack"),
        ],
    )
    def test_what_is_no_object(self, image: bytes, why: str) -> None:
        with pytest.raises(NotLoadableError, match=why):
            load(image, ("f",), {})

    def test_a_function_that_is_missing(self) -> None:
        with pytest.raises(NotLoadableError, match="KeyError: 'nothing'"):
            load(object_of(TABLE), ("nothing",), {})

    def test_a_symbol_that_is_missing(self) -> None:
        with pytest.raises(NotLoadableError, match="memcpy"):
            load(object_of(COPY), ("copy",), {})

    def test_data_that_is_written_to_is_left_to_llvm(self) -> None:
        with pytest.raises(NotLoadableError, match=r"section \.l?data is written to"):
            load(object_of(COUNTER), ("next",), {})
        (address,) = Engine(host(), DiskCache(None)).addresses(Source(COUNTER, ("next",)))
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 42

    def test_code_for_another_machine(self) -> None:
        other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
        machine = Host(f"{other}-unknown-linux-gnu", "", "")
        start_all()
        with pytest.raises(NotLoadableError, match="another machine"):
            load(object_of(TABLE, machine), ("square",), {})


def start_all() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def test_addresses_in_code_for_arm() -> None:
    """`movz` and three `movk` make an address; calls go to a stub that jumps anywhere."""
    start_all()
    machine = Host("aarch64-unknown-linux-gnu", "generic", "")
    base = 0x1234_5678_9ABC_0000
    loader = _Loader(Elf(object_of(TABLE, machine)), {})
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

    loader = _Loader(Elf(object_of(COPY, machine)), {"memcpy": 0xFEED_BEEF_0123_4567})
    code = bytes(loader._filled(base))
    words = struct.unpack(f"<{len(code) // 4}I", code)
    calls = [(i, word) for i, word in enumerate(words) if word >> 26 in (0b100101, 0b000101)]
    (stub,) = loader._stubs.values()
    assert len(calls) == 2
    for i, word in calls:
        assert (i + (word & 0x3FFFFFF)) * 4 % (1 << 28) == stub
    jump = struct.pack("<IIQ", 0x58000050, 0xD61F0200, 0xFEED_BEEF_0123_4567)
    assert code[stub : stub + 16] == jump


@linux
def test_a_process_that_finds_its_kernels_never_loads_llvm(tmp_path: Path) -> None:
    program = (
        "import sys, ingle.tensor as it, ingle_cpu.engine as e\n"
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
