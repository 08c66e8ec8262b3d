"""LLVM IR as text -> addresses of machine code in this process.

The text is the identity of its code: equal texts are compiled once a process, and once a machine
where the cache on disk works. Code is generated at level 3 without LLVM's pass pipeline, since
kernels come as explicit vector code; the pipeline would triple the time for nothing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ingle.tensor.errors import BackendError

from .cache import DiskCache, disk
from .host import Host, host, llvm
from .loading import NotLoadableError, load
from .objects import UnknownObjectError, undefined_symbols
from .symbols import process_symbols

_reduction = [True]
"""Whether LLVM's option is set, which it is unless somebody says otherwise."""
MOST = 4096
"""So many modules stay in memory without anybody who holds them: some 8 KiB each."""
_KEPT: dict[tuple[int, ...], Code] = {}
"""What stays in memory for good: few modules, which every plan uses."""


class CompileError(BackendError):
    """LLVM refused a kernel's text, or its code needs what this process lacks."""


class Source(NamedTuple):
    """One module of LLVM IR.

    Attributes:
        text: the module, without a target line: the engine's machine is the target.
        names: the functions whose addresses are wanted, in this order.
        reduced: whether LLVM looks for cheaper ways to count through loops (strength reduction).
            It takes as long as all the rest, and finds nothing where few pointers run along.
    """

    text: str
    names: tuple[str, ...]
    reduced: bool = True


class Code:
    """Functions in memory, which stay there for as long as somebody holds this.

    Attributes:
        addresses: of the functions.
    """

    __slots__ = ("__weakref__", "addresses")

    def __init__(self, addresses: tuple[int, ...], unload: Callable[[], object]) -> None:
        self.addresses = addresses
        # Not at the end of the process, when other threads are still in their code.
        weakref.finalize(self, unload).atexit = False


class Counts(NamedTuple):
    """How often texts were compiled, loaded from disk, and found in memory."""

    compiled: int
    loaded: int
    found: int


class Engine:
    """Compiles for one machine and loads the code into this process.

    Args:
        machine: what code is generated for; its architecture must be this process's to be loaded.
        cache: the objects on disk.
        symbols: name -> address of the functions outside that code may call. Code that needs any
            other is refused.
    """

    def __init__(
        self, machine: Host, cache: DiskCache, symbols: Mapping[str, int] | None = None
    ) -> None:
        self.machine = machine
        self.symbols = dict(symbols or {})
        self._cache = cache
        self._fingerprint = machine.fingerprint
        self._loaded: WeakValueDictionary[bytes, Code] = WeakValueDictionary()
        self._recent: OrderedDict[bytes, Code] = OrderedDict()
        self._lock = threading.RLock()
        self._jit: Any = None
        self._links = 0
        self._compiled = self._from_disk = self._found = 0

    @property
    def counts(self) -> Counts:
        """What this engine has done so far."""
        return Counts(self._compiled, self._from_disk, self._found)

    def code(self, source: Source) -> Code:
        """A module's functions, compiled if this machine never saw the text.

        Raises:
            CompileError: LLVM does not accept the text, a function is missing, or the code calls
                a symbol that is not among the allowed ones.
        """
        key = hashlib.sha256(repr(source[1:]).encode() + source.text.encode()).digest()
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._loaded[key] = self._obtain(source)
            else:
                self._found += 1
            self._recent[key] = found
            self._recent.move_to_end(key)
            if len(self._recent) > MOST:
                self._recent.popitem(last=False)
        return found

    def addresses(self, source: Source) -> tuple[int, ...]:
        """The addresses of a module's functions, which stay in memory for good; see `code`."""
        code = self.code(source)
        _KEPT[code.addresses] = code
        return code.addresses

    def compile(self, sources: Iterable[Source]) -> list[Code]:
        """`code` of several modules.

        One module of all would not be faster: LLVM's time goes with the instructions, and a module
        each can be found again when another program needs only some of them.
        """
        return [self.code(source) for source in sources]

    def object_code(self, source: Source) -> bytes:
        """The object file of a module: compiled, neither cached nor loaded."""
        with self._lock:
            self._set_reduction(source.reduced)
            return self._object_code(source)

    def _set_reduction(self, on: bool) -> None:
        """An option of the whole process, so it is set before each module that wants another."""
        if _reduction != [on]:
            llvm().set_option("", f"-disable-lsr={'false' if on else 'true'}")
            _reduction[:] = [on]

    def _object_code(self, source: Source) -> bytes:
        try:
            module = llvm().parse_assembly(source.text)
            return bytes(_target_machine(self.machine).emit_object(module))
        except RuntimeError as error:
            raise CompileError(
                f"LLVM does not accept the module of {', '.join(source.names)}: {error}"
            ) from error

    def hold_over_forks(self) -> None:
        """Lets no fork happen while this engine compiles: the child would inherit LLVM's lock."""
        if hasattr(os, "register_at_fork"):
            lock = self._lock
            os.register_at_fork(
                before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
            )

    def _obtain(self, source: Source) -> Code:
        way = repr(source.reduced).encode()
        key = hashlib.sha256(self._fingerprint + way + source.text.encode()).hexdigest()
        image = self._cache.get(key)
        if image is not None:
            try:
                found = self._load(source, image, key)
            except CompileError:
                image = None  # an entry that this process cannot load counts as absent
            else:
                self._from_disk += 1
                return found
        image = self.object_code(source)
        found = self._load(source, image, key)
        self._compiled += 1
        self._cache.put(key, image)
        return found

    def _load(self, source: Source, image: bytes, key: str) -> Code:
        try:
            undefined = undefined_symbols(image)
        except UnknownObjectError as error:
            raise CompileError(f"the code of {', '.join(source.names)}: {error}") from error
        missing = sorted(undefined - self.symbols.keys())
        if missing:
            raise CompileError(
                f"the code of {', '.join(source.names)} calls {', '.join(missing)}, which this "
                "process does not offer; write it as instructions that the machine has"
            )
        try:
            return Code(*load(image, source.names, self.symbols))
        except NotLoadableError:
            return self._load_with_llvm(source, image, key, undefined)

    def _load_with_llvm(
        self, source: Source, image: bytes, key: str, undefined: frozenset[str]
    ) -> Code:
        if self._jit is None:
            machine = _target_machine(self.machine)
            self._jit = llvm().create_lljit_compiler(machine, use_jit_link=False)
        builder = llvm().JITLibraryBuilder().add_object_img(image)
        for name in undefined:
            builder.import_symbol(name, self.symbols[name])
        for name in source.names:
            builder.export_symbol(name)
        # LLVM takes a library's name once only, also if its load failed.
        self._links += 1
        try:
            tracker = builder.link(self._jit, f"{key}-{self._links}")
        except RuntimeError as error:
            raise CompileError(f"cannot load {', '.join(source.names)}: {error}") from error
        # LLVM unloads what its tracker stood for.
        return Code(tuple([tracker[name] for name in source.names]), tracker.close)


def _target_machine(machine: Host) -> Any:
    target = llvm().Target.from_triple(machine.triple)
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=3, jit=True)


@functools.cache
def engine() -> Engine:
    """The engine of this process, for the machine it runs on."""
    made = Engine(host(), disk(), process_symbols())
    made.hold_over_forks()
    return made
