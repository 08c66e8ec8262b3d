"""Scalars of plans as bits, on a stream that notes what is put into it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from ingle.fusion.device.executables import bits_of_number
from ingle_cuda.driver.sources import NUMBERS_AT_ONCE
from ingle_cuda.graphs.scalar_table import ScalarTable

DTYPES = ["int64", "float32", "bfloat16", "int64"]


class Backend:
    """Memory of a device, in which the kernel that writes numbers has run."""

    stream = None

    def __init__(self) -> None:
        self.memory = (ctypes.c_int64 * 2048)(*[-7] * 2048)
        self.launches = 0
        self.fails_at = -1

    def allocate(self, nbytes: int) -> Any:
        assert nbytes <= ctypes.sizeof(self.memory)
        return SimpleNamespace(address=ctypes.addressof(self.memory))

    def kernel(self, source: str, name: str) -> str:
        return name

    def enqueue(self, kernel: str, given: Any, blocks: int, threads: int, stream: Any) -> None:
        self.launches += 1
        if self.launches == self.fails_at:
            raise KeyboardInterrupt
        to, many, *numbers = given
        assert many <= threads == NUMBERS_AT_ONCE
        ctypes.memmove(to, (ctypes.c_int64 * many)(*numbers[:many]), 8 * many)


def step(scalars: list[int], *fixed: int) -> Any:
    """A kernel that reads these scalars, and numbers that never change behind them."""
    given = (ctypes.c_int64 * (2 + len(scalars) + len(fixed)))(5, 6, *[0] * len(scalars), *fixed)
    return SimpleNamespace(scalars=scalars, numbers=(2, len(scalars) + len(fixed)), given=given)


def expected(values: list[Any], *numbers: int) -> list[int]:
    return [bits_of_number(values[n], DTYPES[n]) for n in numbers]


def test_numbers_lie_where_each_kernel_reads_its_own() -> None:
    backend: Any = Backend()
    table = ScalarTable(backend, [step([1, 0], 8), step([]), step([2, 1], 9, 10)], DTYPES)
    values = [3, 0.5, 1.5, 4]
    table.write(values)
    wanted = [*expected(values, 1, 0), 8, *expected(values, 2, 1), 9, 10]
    assert backend.memory[: len(wanted)] == wanted
    assert table.bits(values) == dict(zip((0, 1, 2), expected(values, 0, 1, 2), strict=True))
    assert table.address == ctypes.addressof(backend.memory)


@pytest.mark.parametrize("other", [0.0, -0.0, 1e300, float("nan"), 2, True])
def test_only_other_numbers_are_written(other: Any) -> None:
    backend: Any = Backend()
    table = ScalarTable(backend, [step([0, 1, 2])], DTYPES)
    values = [10**12, 0.0, 0.0, 1]
    table.write(values)
    table.write([int(str(values[0])), *values[1:3], 2])  # the last one is of no kernel
    assert backend.launches == 1
    values[1] = values[2] = other
    table.write(values)
    assert backend.launches == 1 + (expected(values, 1) != [0])
    assert backend.memory[:3] == expected(values, 0, 1, 2)


def test_many_numbers_take_several_launches_and_all_come_again_after_an_interrupt() -> None:
    backend: Any = Backend()
    table = ScalarTable(backend, [step([n % 2]) for n in range(NUMBERS_AT_ONCE + 7)], DTYPES)
    table.write([1, 2.0, 0.0, 0])
    assert backend.launches == 2
    backend.fails_at = 4
    with pytest.raises(KeyboardInterrupt):
        table.write([5, 2.0, 0.0, 0])
    table.write([1, 2.0, 0.0, 0])
    assert backend.launches == 6
    wanted = expected([1, 2.0], 0, 1) * NUMBERS_AT_ONCE
    assert backend.memory[: NUMBERS_AT_ONCE + 7] == wanted[: NUMBERS_AT_ONCE + 7]


def test_kernels_without_numbers_need_no_memory() -> None:
    backend: Any = Backend()
    table = ScalarTable(backend, [step([]), step([])], DTYPES)
    table.write([1, 2.0, 0.0, 0])
    assert (table.address, backend.launches) == (0, 0)
