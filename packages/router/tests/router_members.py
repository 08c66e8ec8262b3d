"""Members for tests: twins of a kind, and a device with memory of its own.

What is on that one the host cannot read.

Values are kept under numbers in a table that stands for another address space. Operations are
queued and run by a thread, late, so that errors come at the next wait. The device can be lost.
"""

import queue
import threading
import time
from functools import cache

import numpy as np
import pytest

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dispatch import execute_body
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.errors import BackendError, LostDeviceError
from ingle.tensor.operation import infer
from ingle.tensor.plugins import describe
from ingle_cpu.backend import Cpu
from ingle_numpy.backend import NumpyBackend


class RemoteHandle(Handle):
    """The number of a value in the device's memory."""

    __slots__ = ("place",)

    def __init__(self, backend, aval, place):
        self.backend = backend
        self.shape, self.dtype = aval
        self.place = place

    def ensure(self):
        self.backend.ensure(self)

    def __del__(self):
        self.backend.memory.pop(self.place, None)


class Remote:
    """Computes with NumPy in a thread of its own.

    Attributes:
        lacks: names of operations that it has no kernel for.
        fails: an error that the next operation of a name raises, late.
        peers: other devices of this kind that it can copy to.
        dlpack: whether it exports by DLPack.
    """

    level = 0
    name = "remote"

    def __init__(self, device, *, lacks=(), delay=0.0):
        self.device = device
        self.lacks = set(lacks)
        self.delay = delay
        self.fails = {}
        self.lost = None
        self.peers = []
        self.memory = {}
        self.ran = []
        self._kernels = NumpyBackend(device)
        self._count = 0
        self._queue = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        while (job := self._queue.get()) is not None:
            time.sleep(self.delay)
            job()
            self._queue.task_done()

    def stop(self):
        self._queue.put(None)
        self._thread.join()

    def _wait(self):
        self._queue.join()
        if self.lost is not None:
            raise LostDeviceError(self.lost)

    def _value(self, place):
        found = self.memory[place]
        if isinstance(found, Exception):
            raise found
        return found

    def _new(self, aval):
        self._count += 1
        return RemoteHandle(self, aval, self._count)

    def supports(self, op, avals):
        return op.operation.name not in self.lacks and self._kernels.supports(op, avals)

    def execute(self, op, inputs):
        if self.lost is not None:
            raise LostDeviceError(self.lost)
        name = op.operation.name
        if not self.supports(op, [Aval(x.shape, x.dtype) for x in inputs]):
            if op.operation.body is None:
                raise RuntimeError(f"remote: no kernel for {name}")
            return execute_body(op, inputs, self.device)
        self.ran.append(name)
        outputs = [self._new(a) for a in infer(op, inputs)]
        places = [h.place for h in outputs]
        held = list(inputs)

        def job():
            try:
                if name in self.fails:
                    raise self.fails.pop(name)
                given = [
                    x if isinstance(x, Scalar) else self._kernels.upload(self._value(x.place))
                    for x in held
                ]
                made = self._kernels.execute(op, given)
                values = [np.array(self._kernels.download(h)) for h in made]
            except Exception as error:  # whoever reads the results hears of it
                values = [error] * len(places)
            held.clear()
            self.memory.update(zip(places, values, strict=True))

        self._queue.put(job)
        return tuple(outputs)

    def upload(self, array):
        if self.lost is not None:
            raise LostDeviceError(self.lost)
        handle = self._new(Aval(array.shape, from_numpy_dtype(array.dtype)))
        self.memory[handle.place] = np.array(array)
        return handle

    def ensure(self, handle):
        self._wait()
        self._value(handle.place)

    def download(self, handle):
        self._wait()
        return self._value(handle.place).copy()

    def copy(self, handle, target):
        if handle.backend is not self or target not in self.peers:
            return None
        self._wait()
        made = target._new(Aval(handle.shape, handle.dtype))
        target.memory[made.place] = self._value(handle.place).copy()
        return made

    def synchronize(self):
        self._wait()


class Exporting(Remote):
    """One that speaks DLPack, to those on the host at least."""

    def to_dlpack(self, handle, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.download(handle).__dlpack__(max_version=max_version)

    def from_dlpack(self, producer, *, copy=None):
        return self.upload(np.from_dlpack(producer))


class Copying(Remote):
    """One that writes down its copies among its operations."""

    def copy(self, handle, target):
        if handle.backend is self:
            self.ran.append("copy")
        return super().copy(handle, target)


class Adding(Remote):
    """One that adds values of several of its kind, and counts how often."""

    sums = 0

    def reduce(self, groups):
        if any(not isinstance(h.backend, Adding) for group in groups for h in group):
            return None
        made = []
        for first, *others in groups:
            assert first.backend is self
            value = self.download(first)
            for other in others:
                value = value + other.backend.download(other)
            made.append(self.upload(value))
        self.sums += 1
        return made


def twin(kind, number):
    """A second device of a kind, as if the machine had another one."""
    return {"cpu": Cpu, "numpy": NumpyBackend}[kind](Device(kind, number))


@cache
def has_opencl():
    """Whether there is an OpenCL device."""
    try:
        return describe("opencl").count() > 0
    except BackendError:
        return False


def members_of(kind, remote):
    """The members that a name of a pair stands for."""
    if kind == "opencl+cpu" and not has_opencl():
        pytest.skip("the device opencl is not installed here")
    return {
        "opencl+cpu": lambda: ("opencl", "cpu"),
        "cpu+numpy": lambda: ("cpu", "numpy"),
        "two cpus": lambda: ("cpu", twin("cpu", 1)),
        "two numpys": lambda: ("numpy", twin("numpy", 1)),
        "cpu+remote": lambda: ("cpu", remote(kind=Exporting)),
        "remote+numpy": lambda: (remote(), "numpy"),
    }[kind]()
