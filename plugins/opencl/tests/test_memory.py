"""Memory of the device: its limits, and drivers that find out late that there is none."""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.tensor.errors import OutOfMemoryError
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of, limits_of


def drawn(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_memory_has_limits_and_statistics(backend: Any) -> None:
    with pytest.raises(
        OutOfMemoryError, match=r"cannot allocate .* for a value of float32.*buffers have at most"
    ):
        it.zeros((backend.limits.largest,), device="opencl").numpy()
    stats = it.memory.stats("opencl")
    before = stats.in_use
    x = it.asarray(np.zeros(1 << 20, np.float32), device="opencl")
    assert it.memory.stats("opencl").in_use >= before + (4 << 20)
    del x
    assert it.memory.stats("opencl").in_use < before + (4 << 20)


def test_no_more_is_asked_for_than_the_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers promise more, and the process would end when it is used."""
    hardware, device = device_of(0), Device("opencl_small")
    small = OpenCLBackend(device, hardware, limits_of(hardware)._replace(total=1 << 20))
    monkeypatch.setitem(plugins._backends, device, small.composition())
    kept = [it.asarray(drawn((1 << 16,)), device=device) for _ in range(3)]
    with pytest.raises(OutOfMemoryError, match="the device has 1048576 bytes, and 786432 are"):
        it.asarray(drawn((1 << 17,)), device=device)
    with pytest.raises(OutOfMemoryError, match="Largest holders"):
        (it.concat(kept) * 2.0).numpy()
    del kept[0]
    more = it.asarray(drawn((1 << 17,)), device=device)  # of what was let go of
    np.testing.assert_array_equal(more.numpy(), drawn((1 << 17,)))
    np.testing.assert_array_equal(kept[1].numpy(), drawn((1 << 16,)))


class Tight:
    """A driver that finds memory for what it has promised when a command needs it, and has none for
    the commands of some numbers.

    Attributes:
        kept: bytes that the pool keeps for later, at each command.
    """

    def __init__(self, backend: OpenCLBackend, cl: Any, refused: Container[int] = ()) -> None:
        self._cl = cl
        self._backend = backend
        self._refused = refused
        self.kept: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cl, name)
        return functools.partial(self._asked, name, found) if name[:8] == "enqueue_" else found

    def _asked(self, name: str, command: Any, *arguments: Any, **options: Any) -> Any:
        self.kept.append(self._backend.memory().statistics().kept)
        if len(self.kept) - 1 in self._refused:
            raise self._cl.RuntimeError(f"{name} failed: OUT_OF_HOST_MEMORY")
        return command(*arguments, **options)


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> OpenCLBackend:
    made = OpenCLBackend(Device("opencl_tight"), device_of(0))
    monkeypatch.setitem(plugins._backends, made.device, made.composition())
    return made


@pytest.mark.slow
def test_a_command_without_memory_is_put_again_when_there_is_more(tight: OpenCLBackend) -> None:
    """Each of a program's commands, where the pool keeps what was let go of."""
    given = drawn((300, 40))
    planned = compile(lambda x: it.exp(x @ it.matrix_transpose(x)) * 2.0)

    def program() -> np.ndarray:
        found: np.ndarray = planned(it.asarray(given, device="opencl_tight")).numpy()
        return found

    cl = tight._cl
    program()
    expected = program()
    tight._cl = driver = Tight(tight, cl)
    program()
    commands = len(driver.kept)
    assert commands >= 4  # a copy to the device, packing, a product, a copy back
    for number in range(commands):
        it.asarray(given, device="opencl_tight")  # let go of, and kept
        tight._cl = driver = Tight(tight, cl, {number})
        np.testing.assert_array_equal(program(), expected)
        assert len(driver.kept) == commands + 1
        assert driver.kept[number + 1] == 0


def test_memory_that_is_short_for_good_is_told(tight: OpenCLBackend) -> None:
    x, cl = it.asarray(drawn((40,)), device="opencl_tight"), tight._cl
    (x * 3.0).numpy()
    tight._cl = driver = Tight(tight, cl, range(1000))
    with pytest.raises(OutOfMemoryError, match=r"opencl_tight: no memory while .*OUT_OF_HOST"):
        (x * 3.0).numpy()
    assert len(driver.kept) < 10
    tight._cl = cl
    np.testing.assert_array_equal((x * 3.0).numpy(), drawn((40,)) * np.float32(3))
