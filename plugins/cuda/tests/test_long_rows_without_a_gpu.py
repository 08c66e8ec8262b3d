"""Rows that many warps share: the bits of the processor's kernels, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled
from test_without_a_gpu import softmax

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import launch_of
from ingle.fusion.render.c.long_rows import MOST_THREADS, threads_of_row


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "longgpu", patch)


def results(flat: Any, first: int, rows: int, length: int) -> list[Any]:
    """Reductions of rows that begin at an element of memory, and what follows from them."""
    x = it.reshape(flat[first:], (rows, length))
    whole = it.astype(x * 4.0, it.int32)
    return [
        it.softmax(x, axis=-1), it.logsumexp(x, axis=-1), it.max(x, axis=-1), it.min(x, axis=-1),
        it.any(x > 13.5, axis=-1), it.all(x < 13.5, axis=-1), it.sum(whole, axis=-1),
        it.mean(it.square(x - it.mean(x, axis=-1, keepdims=True)), axis=-1),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float16])
@pytest.mark.parametrize(
    ("rows", "length", "first"),
    [(3, 4097, 0), (2, 6144, 0), (2, 6144, 1), (4, 50257, 0), (5, 18001, 0)],
)
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: Any, rows: int, length: int, first: int
) -> None:
    """Whole blocks of a row and the rest of one, pairs that are aligned and such as are not."""
    values = np.random.default_rng(length).normal(size=rows * length + first) * 4
    values[first] = -np.inf

    def both(on: str) -> list[Any]:
        flat = it.asarray(values.astype(np.float32), device=on).astype(dtype)
        program = compile(lambda flat: results(flat, first, rows, length))
        if on == "longgpu":
            sources = explain(program, flat, source=True, runs=0).sources
            assert any("of_blocks_" in s for s in sources)
        return [it.astype(v, it.float64).numpy() for v in program(flat)]

    for found, expected in zip(both("longgpu"), both("cpu"), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_whole_array_is_a_row(device: Any) -> None:
    """Chosen elements of many rows, and whether any choice is wrong: one row of many warps."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4100, 7)).astype(np.float32)
    chosen = rng.integers(-7, 7, size=(4100, 1))

    def program(table: Any, chosen: Any) -> list[Any]:
        found = it.take_along_axis(table, it.where(chosen < 0, chosen + 7, chosen), axis=-1)
        return [found * 2.0, it.any(chosen > 6)]

    given = [it.asarray(v, device="longgpu") for v in (table, chosen)]
    sources = explain(compile(program), *given, source=True, runs=0).sources
    assert any("of_blocks_bool" in source for source in sources)
    found, wrong = compile(program)(*given)
    np.testing.assert_array_equal(found.numpy(), 2 * np.take_along_axis(table, chosen % 7, -1))
    assert not wrong.item()


def test_nothing_is_lost_of_rows_with_what_is_no_number(device: Any) -> None:
    """NaN anywhere in a row makes its reductions NaN, and no others."""
    x = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    x[0, 4999] = x[2, 17] = np.nan
    found = compile(lambda x: (it.max(x, axis=-1), it.logsumexp(x, axis=-1)))(
        it.asarray(x, device="longgpu")
    )
    for values in found:
        np.testing.assert_array_equal(np.isnan(values.numpy()), [True, False, True])


@pytest.mark.parametrize("length", [4097, 6144, 50257, 128256, 262144])
def test_warps_have_as_many_blocks_as_others(compiled: Any, length: int) -> None:
    """All but the last few, whatever the length; a kernel is compiled once for many lengths."""
    blocks, warps = -(-length // 2048), threads_of_row(length) // 32
    assert warps * 32 <= MOST_THREADS
    assert -(-blocks // warps) * (warps - 1) < blocks
    numbers = [64, length, length, 1, length, 1]
    source, grid, units = launch_of(softmax("bfloat16"), "nest", numbers, 132)
    assert (grid.blocks, grid.threads, grid.grain, units) == (64, warps * 32, 1, 64)
    assert source is not None
    assert (
        source
        == launch_of(softmax("bfloat16"), "nest", [8, length - length // 5000, *numbers[2:]], 132)[
            0
        ]
    )
    if length == 50257:
        assert compiled(source)[:4] == b"\x7fELF"
