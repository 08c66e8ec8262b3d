"""Text -> code: addresses, the cache on disk and everything that can be wrong with it."""

import ctypes
import inspect
import json
import os
import subprocess
import sys
import threading
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ingle.fusion.support.disk_store import CacheWarning, DiskStore
from ingle.tensor.errors import BackendError, OutOfMemoryError
from ingle.tensor.locks import once
from ingle_cpu.jit import engine as engine_module
from ingle_cpu.jit.engine import Engine, IRSource, KernelCompileError
from ingle_cpu.jit.external_symbols import process_symbols
from ingle_cpu.jit.host import Host, host, llvm
from ingle_cpu.jit.object_symbols import UnknownObjectError, undefined_symbols
from ingle_cpu.matmul.driver import driver_source
from ingle_cpu.threads.pool import runner_addresses


def adder(number: int, name: str = "f") -> IRSource:
    text = f"define i64 @{name}(i64 %x) {{\n %y = add i64 %x, {number}\n ret i64 %y\n}}\n"
    return IRSource(text, (name,))


def call(address: int, value: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value)


def engine_at(folder: Path | None) -> Engine:
    return Engine(host(), DiskStore(folder), process_symbols())


def _mappings() -> int:
    """How many pieces of memory this process has; 0 where the system does not say."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else 0


CALLS_FREM = IRSource(
    "define double @f(double %x, double %y) {\n %r = frem double %x, %y\n ret double %r\n}", ("f",)
)


WITHOUT_MEMORY = """
import ctypes, resource
from pathlib import Path
from ingle.fusion.support.disk_store import DiskStore
from ingle_cpu.jit.engine import Engine, IRSource
from ingle_cpu.jit.host import host

names = [f"f{n}" for n in range(4000)]
text = "".join(f"define i64 @{n}(i64 %x) {{ %y = add i64 %x, 1 ret i64 %y }}" for n in names)
small = IRSource("define i64 @f(i64 %x) { %y = add i64 %x, 1 ret i64 %y }", ("f",))
engine = Engine(host(), DiskStore(None))
engine.object_code(IRSource("", ()))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), resource.RLIM_INFINITY))
try:
    engine.object_code(IRSource(text, tuple(names)))
except MemoryError as error:
    found = type(error).__name__
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
(address,) = engine.addresses(small)
print(found, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(2))
"""


def test_code_that_calls_kernels_takes_less_of_llvms_pains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop over a plan's kernels and that over tiles: other modules are what computes. LLVM is
    told of the machine once for each."""
    asked: list[IRSource] = []
    addresses = engine_module.Engine.addresses

    def noted(self: Engine, source: IRSource) -> tuple[int, ...]:
        asked.append(source)
        return addresses(self, source)

    monkeypatch.setattr(engine_module.Engine, "addresses", noted)
    runner_addresses()
    (runner,) = asked
    driver = driver_source()
    for source in (runner, driver):
        assert (source.reduced, source.polished) == (False, False)
    levels: list[bool] = []
    target_machine = engine_module._target_machine

    def machine_of(machine: Host, polished: bool = True) -> Any:
        levels.append(polished)
        return target_machine(machine, polished)

    monkeypatch.setattr(engine_module, "_target_machine", machine_of)
    engine = engine_at(None)
    for source in (driver, adder(5), adder(6), driver):
        assert engine.object_code(source)
    assert levels == [False, True]


def test_threads_that_ask_at_once_get_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would hold a lock of its own, and LLVM's context is one of the process."""
    known, entered = host(), threading.Barrier(2)

    def slowly() -> Host:
        with suppress(threading.BrokenBarrierError):
            entered.wait(0.1)  # for the other one, which comes where nothing holds it up
        return known

    monkeypatch.setattr(engine_module, "host", slowly)
    monkeypatch.setattr(Engine, "hold_over_forks", lambda engine: None)
    anew = once(inspect.unwrap(engine_module.engine))
    monkeypatch.setattr(engine_module, "engine", anew)
    found: list[Engine] = []
    threads = [
        threading.Thread(target=lambda: found.append(engine_module.engine())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]


class TestEngine:
    def test_runs_what_the_text_says(self) -> None:
        (address,) = engine_at(None).addresses(adder(5))
        assert call(address, 37) == 42

    def test_equal_texts_are_compiled_once(self) -> None:
        engine = engine_at(None)
        assert engine.addresses(adder(1)) == engine.addresses(adder(1))
        assert engine.counts == (1, 0, 1)

    def test_one_name_in_two_modules(self) -> None:
        engine = engine_at(None)
        one, two = engine.compile([adder(1), adder(2)])
        assert (call(*one.addresses, 0), call(*two.addresses, 0)) == (1, 2)

    def test_several_functions_of_one_module_come_in_the_order_asked_for(self) -> None:
        source = IRSource(adder(1, "a").text + adder(2, "b").text, ("b", "a"))
        b, a = engine_at(None).addresses(source)
        assert (call(a, 0), call(b, 0)) == (1, 2)

    def test_code_that_nobody_holds_is_unloaded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ingle_cpu.jit.engine.MOST", 3)
        engine = engine_at(None)
        held = engine.code(adder(-1))
        kept = engine.addresses(adder(-2))
        first = weakref.ref(engine.code(adder(0)))
        for n in range(1, 6):
            engine.code(adder(n))
        assert first() is None
        assert call(*held.addresses, 5) == 4
        assert call(*kept, 5) == 3
        assert engine.code(adder(-1)) is held
        compiled = engine.counts.compiled
        engine.code(adder(0))
        assert engine.counts.compiled == compiled + 1

    @pytest.mark.slow
    def test_there_is_room_for_any_number_of_modules_one_after_the_other(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Linux lets a process have 65,530 mappings, of which each module takes one or more."""
        monkeypatch.setattr("ingle_cpu.jit.engine.MOST", 8)
        engine = engine_at(None)
        engine.code(adder(0))
        before = _mappings()
        for n in range(200):
            assert call(*engine.code(adder(n)).addresses, 1) == n + 1
        assert _mappings() - before < 50

    def test_text_that_is_no_ir(self) -> None:
        with pytest.raises(KernelCompileError, match="does not accept the module of f"):
            engine_at(None).addresses(IRSource("define nonsense", ("f",)))

    def test_a_function_that_is_not_there(self) -> None:
        with pytest.raises(KernelCompileError, match="cannot load g"):
            engine_at(None).addresses(IRSource(adder(1).text, ("g",)))

    def test_the_engine_works_after_a_failure(self) -> None:
        engine = engine_at(None)
        for _ in range(2):
            with pytest.raises(KernelCompileError):
                engine.addresses(IRSource(adder(1).text, ("g",)))
        assert call(*engine.addresses(adder(1)), 1) == 2

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's here")
    def test_no_memory_is_an_error_where_llvm_would_end_the_process(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "OutOfMemoryError 3\n", "")

    def test_no_memory_for_llvm_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> NoReturn:
            raise OSError("no")

        monkeypatch.setattr("ingle_cpu.jit.host.late", fails)
        with pytest.raises(BackendError, match="llvmlite does not load"):
            llvm.__wrapped__()
        monkeypatch.setattr("mmap.mmap", fails)
        with pytest.raises(OutOfMemoryError, match="cannot compile kernels: LLVM may need 192 MiB"):
            llvm.__wrapped__()

    def test_code_that_calls_what_the_process_lacks_is_refused_before_it_is_loaded(self) -> None:
        with pytest.raises(KernelCompileError, match="calls fmod"):
            engine_at(None).addresses(CALLS_FREM)

    def test_copies_may_call_memcpy(self) -> None:
        text = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
        define void @f(ptr %a, ptr %b, i64 %n) {
          call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
          ret void
        }"""
        (address,) = engine_at(None).addresses(IRSource(text, ("f",)))
        target = ctypes.create_string_buffer(6)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
        function(address)(ctypes.addressof(target), b"ingle", 5)
        assert target.value == b"ingle"

    def test_threads_share_one_compilation(self) -> None:
        engine = engine_at(None)
        found: list[tuple[int, ...]] = []
        threads = [
            threading.Thread(target=lambda: found.append(engine.addresses(adder(9))))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        assert engine.counts.compiled == 1


class TestObjects:
    @pytest.mark.parametrize(
        "triple",
        [
            "x86_64-unknown-linux-gnu",
            "aarch64-unknown-linux-gnu",
            "arm64-apple-macosx",
            "x86_64-pc-windows-msvc",
        ],
    )
    def test_undefined_symbols_of_each_format(self, triple: str) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = Host(triple, "", "")
        # Microsoft's tools mark objects that use floating point.
        marks = {"_fltused"}
        assert undefined_symbols(engine_for(machine).object_code(CALLS_FREM)) - marks == {"fmod"}
        assert not undefined_symbols(engine_for(machine).object_code(adder(1))) - marks

    @pytest.mark.parametrize("image", [b"", b"hello", b"\x7fELF\x02\x01" + bytes(10)])
    def test_what_is_no_object(self, image: bytes) -> None:
        with pytest.raises(UnknownObjectError):
            undefined_symbols(image)


def engine_for(machine: Host) -> Engine:
    return Engine(machine, DiskStore(None))


class TestDisk:
    def test_a_second_process_compiles_nothing(self, tmp_path: Path) -> None:
        engine_at(tmp_path / "k").addresses(adder(3))
        second = engine_at(tmp_path / "k")
        assert call(*second.addresses(adder(3)), 4) == 7
        assert second.counts == (0, 1, 0)

    def test_other_features_other_entries(self, tmp_path: Path) -> None:
        engine_at(tmp_path / "k").addresses(adder(3))
        machine = host()._replace(features=host().features + ",-avx512f")
        other = Engine(machine, DiskStore(tmp_path / "k"))
        other.addresses(adder(3))
        assert other.counts.compiled == 1

    def test_a_damaged_entry_is_compiled_again(self, tmp_path: Path) -> None:
        engine_at(tmp_path / "k").addresses(adder(3))
        (entry,) = (tmp_path / "k").iterdir()
        data = bytearray(entry.read_bytes())
        data[-1] ^= 1
        entry.write_bytes(data)
        second = engine_at(tmp_path / "k")
        assert call(*second.addresses(adder(3)), 4) == 7
        assert second.counts.compiled == 1
        assert engine_at(tmp_path / "k")._cache.get(entry.name) is not None

    def test_an_entry_under_the_name_of_another_is_compiled_again(self, tmp_path: Path) -> None:
        """A sync tool or a restored backup may exchange files, each of which is whole."""
        engine_at(tmp_path / "k").compile([adder(3), adder(4)])
        first, second = (tmp_path / "k").iterdir()
        first.rename(tmp_path / "first")
        second.rename(first)
        (tmp_path / "first").rename(second)
        again = engine_at(tmp_path / "k")
        assert [call(*code.addresses, 4) for code in again.compile([adder(3), adder(4)])] == [7, 8]
        assert again.counts.compiled == 2

    def test_an_entry_that_cannot_be_loaded_is_compiled_again(self, tmp_path: Path) -> None:
        engine_at(tmp_path / "k").addresses(adder(3))
        (entry,) = (tmp_path / "k").iterdir()
        DiskStore(tmp_path / "k").put(entry.name, b"no object at all")
        assert call(*engine_at(tmp_path / "k").addresses(adder(3)), 4) == 7

    def test_a_place_where_no_folder_can_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.warns(CacheWarning, match="is not kept in"):
            cache = DiskStore(tmp_path / "file" / "k")
        engine = Engine(host(), cache)
        assert call(*engine.addresses(adder(1)), 1) == 2

    def test_a_full_disk_warns_once_and_the_work_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        engine = engine_at(tmp_path / "k")
        monkeypatch.setattr(os, "replace", full)
        with pytest.warns(CacheWarning, match="No space left on device"):
            assert call(*engine.addresses(adder(1)), 1) == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert call(*engine.addresses(adder(2)), 1) == 3
        assert list((tmp_path / "k").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are asked each time")
@pytest.mark.parametrize(
    "entry",
    [b"", b"{", b"\xff", b"null", b'["a"]', b"[1, 2, 3, 4]", b'{"a": 1}', b"[" * 100_000,
     b'["a-b", "c", "sse2", "20"]', b'["a-b", "c", "+x,,-y", "20"]'],
)  # fmt: skip
def test_a_description_of_the_machine_in_another_form_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: bytes
) -> None:
    store = DiskStore(tmp_path / "k")
    monkeypatch.setattr("ingle_cpu.jit.host.disk", lambda: store)
    asked = host.__wrapped__()
    (path,) = (tmp_path / "k").iterdir()
    store.put(path.name, entry)
    assert host.__wrapped__() == asked
    assert json.loads(store.get(path.name) or b"") == list(asked)
