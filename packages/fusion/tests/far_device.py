"""A device in a process of its own: memory that nobody else sees, work that is done later, errors
that come later still. It stands for hardware in tests of plans, and computes by gcc."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import pickle
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

_FLAGS = ["-std=c11", "-O1", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
_NOTHING = 0xA5
"""What every byte is at first: new memory has no content."""


def _put(pipe: BinaryIO, message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(struct.pack("q", len(data)) + data)
    pipe.flush()


def _taken(pipe: BinaryIO) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(pipe.read(*struct.unpack("q", head)))


class _Hardware:
    """What runs in the process: commands in order, each a while after it came."""

    def __init__(self, nbytes: int, delay: float) -> None:
        self._memory = mmap.mmap(-1, nbytes)
        self._memory.write(bytes([_NOTHING]) * nbytes)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._delay = delay
        self._kernels: dict[int, Any] = {}
        self.error = ""

    def compile(self, number: int, source: str, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
            text.write_text(source)
            subprocess.run(["gcc", *_FLAGS, str(text), "-o", str(library), "-lm"], check=True)
            self._kernels[number] = getattr(ctypes.CDLL(str(library)), name)

    def launch(
        self, number: int, pointers: list[int], args: list[int], begin: int, end: int
    ) -> None:
        time.sleep(self._delay)
        slots = (ctypes.c_void_p * len(pointers))(*pointers)
        numbers = (ctypes.c_int64 * len(args))(*args)
        self._kernels[number](slots, numbers, *map(ctypes.c_int64, (begin, end, 0)))

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def read(self, address: int, nbytes: int) -> bytes:
        return ctypes.string_at(address, nbytes)

    def synchronize(self) -> bytes:
        return b""

    def fail(self, text: str) -> None:
        self.error = text

    def serve(self) -> None:
        given, told = sys.stdin.buffer, sys.stdout.buffer
        _put(told, self.base)
        while True:
            ticket, command, *rest = _taken(given)
            found = None
            try:
                if not self.error:
                    found = getattr(self, command)(*rest)
            except Exception as error:  # whoever waits next hears of it
                self.error = repr(error)
            if command in ("read", "synchronize"):
                _put(told, (ticket, self.error, found))
                self.error = ""


if __name__ == "__main__":
    try:
        _Hardware(int(sys.argv[1]), float(sys.argv[2])).serve()
    except (EOFError, BrokenPipeError):
        sys.exit()

import numpy as np  # noqa: E402  (the process computes without it)

from ingle.fusion.device import Ordered  # noqa: E402
from ingle.fusion.device.kernel_backend import Held, KernelBackend  # noqa: E402
from ingle.tensor import plugins  # noqa: E402
from ingle.tensor.contract import Backend  # noqa: E402
from ingle.tensor.device import Device  # noqa: E402
from ingle.tensor.errors import BackendError, LostDeviceError  # noqa: E402
from ingle.tensor.hooks import hookimpl  # noqa: E402
from ingle.tensor.locks import renewed  # noqa: E402
from ingle.tensor.memory import Pool  # noqa: E402


class _Range:
    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes


class _Source:
    """Ranges of the process's memory, the first that fits."""

    def __init__(self, base: int, nbytes: int) -> None:
        self._free = [(base, nbytes)]
        self._nbytes = nbytes

    def allocate(self, nbytes: int) -> _Range:
        wanted = -(-nbytes // 64) * 64
        for place, (address, size) in enumerate(self._free):
            if size >= wanted:
                self._free[place] = (address + wanted, size - wanted)
                return _Range(address, wanted)
        raise MemoryError(f"the far process has {self._nbytes} bytes")

    def free(self, memory: Any) -> None:
        """Gives a range back; those that touch are one, or large values would find no room."""
        merged: list[tuple[int, int]] = []
        for address, size in sorted([*self._free, (memory.address, memory.nbytes)]):
            if merged and sum(merged[-1]) == address:
                address, size = merged[-1][0], merged.pop()[1] + size
            if size:
                merged.append((address, size))
        self._free = merged


class Far(KernelBackend):
    """The backend.

    Args:
        device: its name in Ingle.
        nbytes: the device's memory.
        delay: seconds before each kernel.
    """

    name = "far"
    language = "c"

    def __init__(self, device: Device, nbytes: int = 1 << 26, delay: float = 0.0) -> None:
        super().__init__(device)
        self._process = os.getpid()
        command = [sys.executable, __file__, str(nbytes), str(delay)]
        self.hardware = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.hardware.stdin is not None
        assert self.hardware.stdout is not None
        self._given, self._told = self.hardware.stdin, self.hardware.stdout
        self._speaking = renewed(self, "_speaking")
        self._count = self._kernels_made = 0
        self._pool = Pool(_Source(_taken(self._told), nbytes), "direct")
        self._answers: dict[int, Any] = {}
        self._told_more = threading.Condition()
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # An interrupt in the middle of a message would leave the rest of it to the next one.
        self._threads = [threading.Thread(target=t) for t in (self._listen, self._speak)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends the process."""
        self._commands.put(None)
        self.hardware.kill()
        self.hardware.wait()
        for thread in self._threads:
            thread.join()
        self._told.close()
        with contextlib.suppress(OSError):  # what is left has nobody to go to
            self._given.close()

    def memory(self) -> Pool:
        return self._pool

    def _listen(self) -> None:
        while True:
            try:
                ticket, *answer = _taken(self._told)
            except EOFError:
                ticket, answer = 0, ["gone"]
            with self._told_more:
                self._answers[ticket] = answer
                self._told_more.notify_all()
            if not ticket:
                return

    def _speak(self) -> None:
        with contextlib.suppress(OSError):  # which the listener meets as well
            while (command := self._commands.get()) is not None:
                _put(self._given, command)

    def tell(self, *command: Any) -> int:
        """Puts a command into the queue, and returns its ticket."""
        if os.getpid() != self._process:
            raise BackendError(f"{self.device} was opened before the fork; use 'spawn'")
        with self._speaking:
            self._count += 1
            ticket = self._count
            self._commands.put((ticket, *command))
        if 0 in self._answers:
            raise LostDeviceError(f"{self.device}: the process is gone")
        return ticket

    def _ask(self, *command: Any) -> bytes:
        return self._answer(self.tell(*command))

    def _answer(self, ticket: int) -> bytes:
        answers = self._answers
        with self._told_more:
            self._told_more.wait_for(lambda: ticket in answers or 0 in answers)
            answer = answers.pop(ticket, None)
        if answer is None:
            raise LostDeviceError(f"{self.device}: the process is gone")
        failed, data = answer
        if failed:
            raise BackendError(f"{self.device}: {failed}")
        return data  # type: ignore[no-any-return]

    def compile_source(self, source: str, name: str) -> int:
        self._kernels_made += 1
        self.tell("compile", self._kernels_made, source, name)
        return self._kernels_made

    def launch(
        self, kernel: Any, pointers: Sequence[int], args: Sequence[int], begin: int, end: int
    ) -> None:
        self.tell("launch", kernel, [*map(int, pointers)], [*map(int, args)], begin, end)

    def allocate(self, nbytes: int) -> Held:
        return Held(self._pool.allocate(nbytes))

    def write(self, address: int, array: np.ndarray) -> None:
        self.tell("write", address, array.tobytes())

    def read(self, address: int, array: np.ndarray) -> None:
        found = np.frombuffer(self._ask("read", address, array.nbytes), array.dtype)
        array[...] = found.reshape(array.shape)

    def begin_flags(self, handles: Sequence[Ordered]) -> Callable[[], Sequence[bool]]:
        tickets = [self.tell("read", h.address, math.prod(h.shape)) for h in handles]
        found: list[bool] = []

        def wait() -> list[bool]:
            while len(found) < len(tickets):
                found.append(any(self._answer(tickets[len(found)])))
            return found

        return wait

    def synchronize(self) -> None:
        self._ask("synchronize")


class Noted(Far):
    """Notes what it is asked for, and when somebody waits for an answer: device and command.

    Attributes:
        log: of all devices of the kind.
        asked: its commands.
    """

    log: ClassVar[list[tuple[str, str]]] = []

    @property
    def asked(self) -> list[str]:
        return [what for _, what in self.log]

    def tell(self, *command: Any) -> int:
        self.log.append((str(self.device), command[0]))
        return super().tell(*command)

    def _answer(self, ticket: int) -> bytes:
        self.log.append((str(self.device), "waits"))
        return super()._answer(ticket)


class Plugin:
    """Two devices, `far` and `far:1`, as installing would bring them.

    Attributes:
        made: those that were used.
    """

    NBYTES = 1 << 28

    def __init__(self) -> None:
        self.made: list[Far] = []

    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {"far": "far_device:description"}

    def create(self, index: int) -> Backend:
        backend = Far(Device("far", index), self.NBYTES, delay=2e-4)
        self.made.append(backend)
        return backend.composition()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Inside, programs find them; then they are gone."""
        plugins.register("far", self)
        try:
            yield
        finally:
            plugins.unregister("far")
            while self.made:
                self.made.pop().close()


plugin = Plugin()
description = plugins.BackendDescription(
    plugin.create, lambda: 2, priority=-100, summary="a process with memory of its own"
)

Opened = Callable[..., Any]


@contextlib.contextmanager
def opening(kind: type[Far] = Far) -> Iterator[Opened]:
    """Opens devices of a kind, `far` unless they are named, until the end of the block."""
    made: list[Far] = []

    def make(name: str = "far", **options: Any) -> Far:
        backend = kind(Device(name), **options)
        plugins._backends[backend.device] = backend.composition()
        made.append(backend)
        return backend

    try:
        yield make
    finally:
        for backend in made:
            del plugins._backends[backend.device]
            backend.close()
