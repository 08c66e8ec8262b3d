"""LLVM IR as text -> addresses of machine code in this process.

The text is the identity of its code: equal texts are compiled once a process, and once a machine
where the cache on disk works. Code is generated at level 3 without LLVM's pass pipeline, since
kernels come as explicit vector code; the pipeline would triple the time for nothing.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ingle.fusion.device import DiskStore, disk, give_way
from ingle.tensor.errors import BackendError
from ingle.tensor.locks import ReentrantLock, once
from ingle.tensor.transactions import commit_lock

from .elf import DamagedObjectError
from .external_symbols import process_symbols
from .host import Host, host, llvm, require_room
from .loader import NotLoadableError, load
from .object_symbols import UnknownObjectError, undefined_symbols

_reduction = [True]
"""Whether LLVM's option is set, which it is unless somebody says otherwise."""
MOST = 4096
"""So many modules stay in memory without anybody who holds them: some 8 KiB each."""
ROOM = 64 << 20
"""Bytes without which no module is given to LLVM: it ends the process where it gets no memory."""
_LASTING_CODE: dict[tuple[int, ...], Code] = {}
"""What stays in memory for good: few modules, which every plan uses."""


class KernelCompileError(BackendError):
    """LLVM refused a kernel's text, or its code needs what this process lacks."""


class IRSource(NamedTuple):
    """One module of LLVM IR.

    Attributes:
        text: the module, without a target line: the engine's machine is the target.
        names: the functions whose addresses are wanted, in this order.
        reduced: whether LLVM looks for cheaper ways to count through loops (strength reduction).
            It takes as long as all the rest, and finds nothing where few pointers run along.
        polished: whether LLVM takes all pains with the machine code. Where a module calls kernels
            more than it computes, that is no faster, and takes a third longer.
    """

    text: str
    names: tuple[str, ...]
    reduced: bool = True
    polished: bool = True


class Code:
    """Functions in memory, which stay there for as long as somebody holds this.

    Attributes:
        addresses: of the functions.
        names: of the functions.
        key: of the object on disk.
    """

    __slots__ = ("__weakref__", "addresses", "key", "names")

    def __init__(
        self, addresses: tuple[int, ...], unload: Callable[[], object], key: str,
        names: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.addresses = addresses
        self.names = names
        self.key = key
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
        self, machine: Host, cache: DiskStore, symbols: Mapping[str, int] | None = None
    ) -> None:
        self.machine = machine
        self.symbols = dict(symbols or {})
        self._cache = cache
        self._fingerprint = machine.fingerprint
        self._loaded: WeakValueDictionary[str, Code] = WeakValueDictionary()
        self._recent: OrderedDict[str, Code] = OrderedDict()
        self._lock = ReentrantLock()
        self._generators: dict[bool, Any] = {}
        self._jit: Any = None
        self._links = 0
        self._compiled = self._from_disk = self._found = 0

    @property
    def counts(self) -> Counts:
        """What this engine has done so far."""
        return Counts(self._compiled, self._from_disk, self._found)

    def code(self, source: IRSource) -> Code:
        """A module's functions, compiled if this machine never saw the text.

        Raises:
            CompileError: LLVM does not accept the text, a function is missing, or the code calls
                a symbol that is not among the allowed ones.
        """
        text = repr(source[1:]).encode() + source.text.encode()
        key = hashlib.sha256(self._fingerprint + text).hexdigest()
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._loaded[key] = self._obtain(source, key)
            else:
                self._found += 1
            self._note(found)
        return found

    def recalled(self, key: str, names: tuple[str, ...]) -> Code | None:
        """Functions whose text another process has compiled, by the key of their `Code`.

        None if they are not on disk any more, or cannot be loaded.
        """
        with self._lock:
            found = self._loaded.get(key)
            if found is not None and found.names == names:
                self._found += 1
            else:
                image = self._cache.get(key)
                found = None if image is None else self._loadable(image, names, key)
                if found is None:
                    return None
                self._loaded[key] = found
            self._note(found)
        return found

    def _note(self, code: Code) -> None:
        self._recent[code.key] = code
        self._recent.move_to_end(code.key)
        while len(self._recent) > MOST:
            self._recent.popitem(last=False)

    def addresses(self, source: IRSource) -> tuple[int, ...]:
        """The addresses of a module's functions, which stay in memory for good; see `code`."""
        code = self.code(source)
        _LASTING_CODE[code.addresses] = code
        return code.addresses

    def compile(self, sources: Iterable[IRSource]) -> list[Code]:
        """`code` of several modules.

        One module of all would not be faster: LLVM's time goes with the instructions, and a module
        each can be found again when another program needs only some of them.
        """
        return [self.code(source) for source in sources]

    def object_code(self, source: IRSource) -> bytes:
        """The object file of a module: compiled, neither cached nor loaded.

        Raises:
            KernelCompileError: LLVM refuses it.
            OutOfMemoryError: the process may not have the memory that LLVM may need.
        """
        with self._lock:
            require_room(f"{', '.join(source.names)} cannot be compiled", ROOM)
            self._set_reduction(source.reduced)
            return self._object_code(source)

    def _set_reduction(self, on: bool) -> None:
        """An option of the whole process, so it is set before each module that wants another."""
        if _reduction != [on]:
            _reduction[:] = ()  # Ctrl-C may come behind the call
            llvm().set_option("", f"-disable-lsr={'false' if on else 'true'}")
            _reduction[:] = [on]

    def _object_code(self, source: IRSource) -> bytes:
        give_way()  # LLVM works without the interpreter
        try:
            module = llvm().parse_assembly(source.text)
            return bytes(self._generator(source.polished).emit_object(module))
        except RuntimeError as error:
            self._generators.clear()  # whatever state it left them in
            raise KernelCompileError(
                f"LLVM does not accept the module of {', '.join(source.names)}: {error}"
            ) from error

    def _generator(self, polished: bool) -> Any:
        """LLVM's generator of code, kept: reading what the processor has takes it longer than most
        of its passes over a small kernel."""
        found = self._generators.get(polished)
        if found is None:
            found = self._generators[polished] = _target_machine(self.machine, polished)
        return found

    def hold_over_forks(self) -> None:
        """Lets no fork happen while this engine compiles: the child would inherit LLVM's lock."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._hold, after_in_parent=self._let_go, after_in_child=self._let_go
            )

    def _hold(self) -> None:
        # In this order: a thread that commits writes may compile what it runs meanwhile.
        commit_lock.acquire()
        self._lock.acquire()

    def _let_go(self) -> None:
        self._lock.release()
        commit_lock.release()

    def _obtain(self, source: IRSource, key: str) -> Code:
        image = self._cache.get(key)
        found = None if image is None else self._loadable(image, source.names, key)
        if found is not None:
            return found
        image = self.object_code(source)
        found = self._load(image, source.names, key)
        self._compiled += 1
        self._cache.put(key, image)
        return found

    def _loadable(self, image: bytes, names: tuple[str, ...], key: str) -> Code | None:
        """What was on disk; an entry that this process cannot load counts as absent."""
        try:
            found = self._load(image, names, key)
        except KernelCompileError:
            return None
        self._from_disk += 1
        return found

    def _load(self, image: bytes, names: tuple[str, ...], key: str) -> Code:
        try:
            undefined = undefined_symbols(image)
        except UnknownObjectError as error:
            raise KernelCompileError(f"the code of {', '.join(names)}: {error}") from error
        missing = sorted(undefined - self.symbols.keys())
        if missing:
            raise KernelCompileError(
                f"the code of {', '.join(names)} calls {', '.join(missing)}, which this "
                "process does not offer; write it as instructions that the machine has"
            )
        try:
            return Code(*load(image, names, self.symbols), key, names)
        except DamagedObjectError as error:
            raise KernelCompileError(f"the code of {', '.join(names)}: {error}") from error
        except NotLoadableError:
            return self._load_with_llvm(image, names, key, undefined)

    def _load_with_llvm(
        self, image: bytes, names: tuple[str, ...], key: str, undefined: frozenset[str]
    ) -> Code:
        if self._jit is None:
            machine = _target_machine(self.machine)
            self._jit = llvm().create_lljit_compiler(machine, use_jit_link=False)
        builder = llvm().JITLibraryBuilder().add_object_img(image)
        for name in undefined:
            builder.import_symbol(name, self.symbols[name])
        for name in names:
            builder.export_symbol(name)
        # LLVM takes a library's name once only, also if its load failed.
        self._links += 1
        try:
            tracker = builder.link(self._jit, f"{key}-{self._links}")
        except RuntimeError as error:
            raise KernelCompileError(f"cannot load {', '.join(names)}: {error}") from error
        # LLVM unloads what its tracker stood for.
        return Code(tuple([tracker[name] for name in names]), tracker.close, key, names)


def lasting() -> list[Code]:
    """What stays in memory for good."""
    return list(_LASTING_CODE.values())


def _target_machine(machine: Host, polished: bool = True) -> Any:
    target = llvm().Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3 if polished else 1, jit=True
    )


@once
def engine() -> Engine:
    """The engine of this process, for the machine it runs on: LLVM takes no two."""
    made = Engine(host(), disk(), process_symbols())
    made.hold_over_forks()
    return made
