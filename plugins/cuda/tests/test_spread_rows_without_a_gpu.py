"""Rows that a block of threads takes each: the bits of the processor's kernels, on a played GPU,
and sources that NVRTC compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled
from test_without_a_gpu import softmax

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import AFTER_OTHERS, Grid, for_rows
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Reduce

DEVICE = "spreadgpu"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


def norm(x: Any, weight: Any) -> Any:
    """By the root of the mean square."""
    wide = x.astype(it.float32)
    scale = it.rsqrt(it.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return (wide * scale).astype(x.dtype) * weight


@compile
def normed(x: Any, weight: Any) -> tuple[Any, ...]:
    """Sums and bools over a row, and what follows at each place."""
    above = it.any(x > 3.0, axis=-1, keepdims=True)
    return norm(x, weight), it.where(above, x, weight)


@compile
def softened(x: Any, weight: Any) -> tuple[Any, ...]:
    """Extremes and sums over a row."""
    return (it.softmax(x * weight, axis=-1),)


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        one, other = (it.astype(v, it.float64).numpy() for v in (a, b))
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float16])
@pytest.mark.parametrize(
    ("rows", "length", "first"),
    [(1, 2048, 0), (3, 1024, 0), (2, 2056, 0), (1, 4096, 0), (1, 3072, 0), (2, 2048, 1)],
)
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: Any, rows: int, length: int, first: int
) -> None:
    """Of one block of sums and of several, of blocks that are not full, and where 16 bytes are not
    aligned."""
    rng = np.random.default_rng(length)
    drawn = rng.normal(size=rows * length + first), rng.normal(size=length)
    results = []
    for on in (DEVICE, "cpu"):
        flat, weight = (it.asarray(v, device=on).astype(dtype) for v in drawn)
        x = it.reshape(flat[first:], (rows, length))
        for function, last in ((normed, "at_sum_0_0[i] = "), (softened, "at_sum_1_0[i] = ")):
            if on == DEVICE:
                sources = explain(function, x, weight, source=True, runs=0).sources
                assert any(last in source for source in sources)
            results.append(function(x, weight))
    same(results[0] + results[1], results[2] + results[3])


@pytest.mark.slow
def test_rows_of_a_table(device: Any) -> None:
    """The elements of an embedding's row are at computed places."""

    @compile
    def read(table: Any, places: Any, weight: Any) -> Any:
        return (norm(it.take(table, places, axis=0), weight),)

    rng = np.random.default_rng(1)
    table, weight = rng.normal(size=(7, 2048)), rng.normal(size=2048)
    results = []
    for on in (DEVICE, "cpu"):
        given = [it.asarray(v, device=on).astype(it.bfloat16) for v in (table, weight)]
        places = it.asarray(np.array([5]), device=on)
        if on == DEVICE:
            sources = explain(read, given[0], places, given[1], source=True, runs=0).sources
            assert any("at_sum_" in source for source in sources)
        results.append(read(given[0], places, given[1]))
    same(*results)


def test_losses_that_a_kernel_adds_up_wait_for_their_classes_side_by_side(device: Any) -> None:
    """Nothing goes over them again, but each looks at a place that it holds."""
    loss = compile(it.cross_entropy)
    rng = np.random.default_rng(3)
    drawn, classes = rng.normal(size=(1032, 5)), rng.integers(0, 5, 1032)
    classes[[4, 1031]] = -100  # which are left out
    results = []
    for on in (DEVICE, "cpu"):
        given = it.asarray(drawn.astype(np.float32), device=on), it.asarray(classes, device=on)
        if on == DEVICE:
            sources = explain(loss, *given, source=True, runs=0).sources
            assert any("at_sum_0_1[i] = " in source for source in sources)
        results.append([loss(*given)])
    same(*results)


@pytest.mark.slow
@pytest.mark.parametrize("computed", [False, True])
def test_weights_are_asked_for_before_a_kernel_waits(device: Any, computed: bool) -> None:
    """But for those that the plan itself has written; all else once it has waited, at once."""

    @compile
    def normed(weight: Any, matrix: Any) -> Any:
        x = it.sum(matrix, axis=0, keepdims=True)
        weight = it.sum(matrix * matrix, axis=0) if computed else weight
        return norm(x, weight), x, weight

    rng = np.random.default_rng(2)
    drawn = [rng.normal(size=shape) for shape in ((2048,), (300, 2048))]
    results = []
    for on in (DEVICE, "cpu"):
        given = [it.asarray(v.astype(np.float32), device=on) for v in drawn]
        if on == DEVICE:
            sources = explain(normed, *given, source=True, runs=0).sources
            (source,) = [s for s in sources if "at_sum_0_0[i] = " in s]
            early, late, *_ = source[source.index("INGLE_KERNEL(nest,") :].split(AFTER_OTHERS)
            assert early.count(".whole[0] = ") == (not computed)
            assert late.count(".whole[0] = ") == 2 - (not computed)
        results.append(normed(*given))
    same(*results)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_rows_have_a_block_each(compiled: Any, dtype: str) -> None:
    nest = softmax(dtype)
    source, grid = for_rows(nest, "nest", (100, 2048, 2048, 1, 2048, 1), 132)
    assert grid == Grid(100, 256, 1)
    assert source is not None
    assert compiled(source)[:4] == b"\x7fELF"
    for rows, length in ((133, 2048), (100, 768), (100, 2049)):
        numbers = (rows, length, length, 1, length, 1)
        assert for_rows(nest, "nest", numbers, 132)[1].threads != 256


def sums_in_turn(count: int) -> Nest:
    """Sums, each of a row less the sum before it, and a map of the last."""
    stages: list[Any] = []
    for n in range(count + 1):
        b = CodeBuilder()
        x = b.load(0, "float32")
        if n:
            x = b.append("sub", "float32", (x, b.append("result", "float32", (), (n - 1, 0))))
        code, (root,) = b.finish(x)
        stages.append(Reduce(code, (("sum", root),)) if n < count else Map(code, ((1, root),)))
    return Nest(1, (Operand("float32"), Operand("float32", True)), (), tuple(stages))


@pytest.mark.parametrize(
    ("sums", "length", "spread"),
    [(2, 4096, True), (3, 4096, False), (3, 3072, False), (5, 2048, True), (6, 2048, False)],
)
def test_shared_memory_is_enough_for_all_sums(
    compiled: Any, sums: int, length: int, spread: bool
) -> None:
    nest = sums_in_turn(sums)
    source, _ = for_rows(nest, "nest", (1, length, length, 1, length, 1), 132)
    found = source is not None and "at_sum_0_0[i] = " in source
    assert found == spread
    if spread:
        assert compiled(source)[:4] == b"\x7fELF"
