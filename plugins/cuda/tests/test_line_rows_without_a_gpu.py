"""Products of matrices with a vector or a few, 16 bytes at a time: the bits of the processor's
kernels, on a played GPU, and sources that NVRTC compiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import Grid, for_rows
from ingle.fusion.device.kernels import CodeBuilder, Nest, Operand, Reduce, Row
from ingle.fusion.render.c.cuda import AFTER_OTHERS
from ingle_cuda.graphs import launches
from ingle_cuda.graphs.branches import Footprints, Touch
from ingle_cuda.graphs.joined import JoinedStep

DEVICE = "linegpu"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), DEVICE, patch)


def products(a: Any, b: Any, x: Any, added: Any) -> tuple[Any, Any]:
    """Of one matrix and a vector with a row that is added, and of two with one another."""
    a, b, x = (v.astype(it.float32) for v in (a, b, x))
    one, other = it.sum(a * x, axis=-1), it.sum(b * x, axis=-1)
    return (one + added).astype(it.bfloat16), it.silu(one) * other


def on(device: str, dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Normal numbers."""
    rng = np.random.default_rng(len(shapes))
    drawn = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return [it.asarray(v, dtype=dtype, device=device) for v in drawn]


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        one, other = (it.astype(v, it.float64).numpy() for v in (a, b))
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float16])
@pytest.mark.parametrize(
    ("rows", "length", "lines"),
    [
        (5, 256, True), (3, 768, True), (130, 2048, True), (5, 2304, True), (5, 5632, True),
        (3, 8448, True), (5, 12800, True), (5, 300, False), (1, 2048, False),
    ],
)  # fmt: skip
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: Any, rows: int, length: int, lines: bool
) -> None:
    """Of rows of one block of sums and of several, of blocks that are not full, and of more rows
    than a warp takes."""
    shapes = [(rows, length), (rows, length), (1, length), (rows,)]
    both, own = compile(products), on(DEVICE, dtype, *shapes)
    sources = explain(both, *own, source=True, runs=0).sources
    assert any("const int there" in source for source in sources) == lines
    same(both(*own), both(*on("cpu", dtype, *shapes)))


def product_of_few(a: Any, b: Any, x: Any, added: Any, across: bool) -> tuple[Any, Any]:
    """Of a matrix and vectors with rows that are added, and of two with one another."""
    a, b, x = (v.astype(it.float32) for v in (a, b, x))
    one, other = (
        it.sum(x[None] * m[:, None] if across else x[:, None] * m[None], axis=-1) for m in (a, b)
    )
    added = it.matrix_transpose(added) if across else added
    return (one + added).astype(it.bfloat16), it.silu(one) * other


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(
    ("vectors", "rows", "length"),
    [(2, 21, 512), (3, 9, 2304), (5, 33, 256), (6, 12, 512), (2, 9, 5632), (2, 3, 256)],
)
def test_few_vectors_have_the_bits_of_each_alone(
    device: Any, dtype: Any, across: bool, vectors: int, rows: int, length: int
) -> None:
    """And the processor's, whichever of the outer axes is that of the vectors; two matrices that
    meet are read by one kernel."""
    few = compile(partial(product_of_few, across=across))
    shapes = [(rows, length), (rows, length), (vectors, length), (vectors, rows)]
    own = on(DEVICE, dtype, *shapes)
    sources = explain(few, *own, source=True, runs=0).sources
    assert sum(f"for (int v = 0; v < {vectors}; v++)" in source for source in sources) == 1
    found = few(*own)
    same(found, few(*on("cpu", dtype, *shapes)))
    alone = compile(products)
    a, b, x, added = own
    for v in range(vectors):
        row = [f[:, v] if across else f[v] for f in found]
        same(row, alone(a, b, x[v : v + 1], added[v]))


def test_rows_that_begin_anywhere(device: Any) -> None:
    """Elements go one by one where 16 bytes are not aligned."""

    @compile
    def product(flat: Any, x: Any) -> Any:
        rows = it.reshape(flat[1:], (6, 512)).astype(it.float32)
        return (it.sum(rows * x.astype(it.float32), axis=-1),)

    found, wanted = (product(*on(d, it.bfloat16, (6 * 512 + 1,), (512,))) for d in (DEVICE, "cpu"))
    same(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool"])
def test_integers_as_factors(device: Any, dtype: str) -> None:
    """As of weights that are kept as codes."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2 if dtype == "bool" else 100, (9, 512)).astype(dtype)
    x, scale = rng.normal(size=512).astype(np.float32), rng.normal(size=9).astype(np.float32)

    @compile
    def product(codes: Any, x: Any, scale: Any) -> Any:
        return (it.sum(codes.astype(it.float32) * x, axis=-1) * scale,)

    found, wanted = (
        product(*[it.asarray(v, device=d) for v in (codes, x, scale)]) for d in (DEVICE, "cpu")
    )
    same(found, wanted)
    exact = (codes.astype(np.float64) @ x.astype(np.float64)) * scale
    np.testing.assert_allclose(found[0].numpy(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_products_that_share_their_vector_are_one_launch(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries, keys and values; what stands between them comes behind them."""
    joined: list[int] = []
    together = JoinedStep.together

    def counted(step: JoinedStep, given: Any) -> Any:
        joined.append(len(given))
        return together(step, given)

    monkeypatch.setattr(JoinedStep, "together", counted)

    @compile
    def projected(x: Any, q: Any, k: Any, v: Any) -> Any:
        def of(w: Any) -> Any:
            product = it.sum(w.astype(it.float32) * x.astype(it.float32), axis=-1)
            return product.astype(it.bfloat16)

        queries = of(q)
        summed = it.sum(it.reshape(queries, (4, 16)), axis=0)
        return queries, summed, of(k), of(v)

    shapes = [(1, 512), (64, 512), (16, 512), (16, 512)]
    found, wanted = (projected(*on(d, it.bfloat16, *shapes)) for d in (DEVICE, "cpu"))
    same(found, wanted)
    assert joined == [3]


@pytest.mark.slow
@pytest.mark.parametrize("computed", [False, True])
def test_lines_are_asked_for_early_where_the_launch_before_does_not_write_them(
    device: Any, monkeypatch: pytest.MonkeyPatch, computed: bool
) -> None:
    """A matrix that a product has just written is read when the product has ended."""
    monkeypatch.setattr(launches, "_WORTH_OVERLAP", 1)
    monkeypatch.setattr(launches, "_WORTH_A_GRAPH", 1)
    monkeypatch.setattr(device, "tiles", False)  # the library's product is not noted
    noted: list[bool] = []
    enqueue = device.enqueue

    def noting(*given: Any) -> None:
        if device.gpu.capturing:
            noted.append(given[5])
        enqueue(*given)

    monkeypatch.setattr(device, "enqueue", noting)

    @compile
    def step(a: Any, b: Any, x: Any) -> Any:
        matrix = a @ b if computed else a
        return matrix, it.sum(matrix * x, axis=-1)

    shapes = [(24, 256), (256, 256), (256,)]
    wanted = step(*on("cpu", it.float32, *shapes))
    given = on(DEVICE, it.float32, *shapes)
    for _ in range(4):
        found = step(*given)
    np.testing.assert_allclose(found[1].numpy(), wanted[1].numpy(), rtol=1e-4, atol=1e-3)
    assert set(noted) == {not computed}


def test_what_is_read_early_is_known_by_its_bytes() -> None:
    """Two buffers of a plan may be one piece of memory, as state before a step and after it; and
    all kernels in front may still run."""
    touches = [
        [Touch(1, 0, 64, True)],
        [Touch(2, 64, 80, False, True), Touch(1, 0, 64, False)],
        [Touch(2, 32, 48, False, True)],
    ]
    found = Footprints(touches, [False] * 3)
    assert found.may_overlap((0, 1000, 1000)) == [True, True, False]
    assert found.may_overlap((0, 1000, 1032)) == [True, True, True]
    assert found.may_overlap((0, 1000, 930)) == [True, False, True]


def test_lines_are_asked_for_before_a_kernel_waits() -> None:
    """Into both buffers, and those of the vector behind it before anything is computed; of rows
    that begin anywhere nothing is asked for."""
    source, _ = for_rows(product_nest(), "nest", (2048, 2048, 2048, 1, 0, 1, 1, 0), 132)
    assert source is not None
    early, aligned, alone = source[source.index("INGLE_KERNEL(nest,") :].split(AFTER_OTHERS)
    for buffer in (0, 1):
        assert f"line0[{buffer}][q].whole[0] =" in early
        assert f"line1[{buffer}][q].whole[0] =" not in early
        assert aligned.index(f"line1[{buffer}][q].whole[0] =") < aligned.index("mul_")
    assert "line0[0].at[n] =" in alone


def test_the_matrix_alone_leaves_caches_first() -> None:
    """The vector, which each row is summed with, stays there."""
    source, _ = for_rows(product_nest(), "nest", (2048, 2048, 2048, 1, 0, 1, 1, 0), 132)
    assert source is not None
    loads = [line.strip() for line in source.splitlines() if ".whole[0] =" in line]
    assert {load.startswith("line0") for load in loads} == {True, False}
    for load in loads:
        assert ("INGLE_READ_ONCE(" in load) == load.startswith("line0")


def product_nest() -> Nest:
    """A matrix of halves times a vector of them."""
    b = CodeBuilder()
    factors = [b.append("cast", "float32", (b.load(k, "bfloat16"),)) for k in (0, 1)]
    code, (root,) = b.finish(b.append("mul", "float32", tuple(factors)))
    stages: list[Any] = [Reduce(code, (("sum", root),))]
    b = CodeBuilder()
    half = b.append("cast", "bfloat16", (b.append("result", "float32", (), (0, 0)),))
    code, (root,) = b.finish(half)
    stages.append(Row(code, ((2, root),)))
    operands = (Operand("bfloat16"), Operand("bfloat16"), Operand("bfloat16", True, "zero"))
    return Nest(1, operands, (), tuple(stages))


@pytest.mark.parametrize(
    ("rows", "length", "grid"),
    [
        (2048, 2048, Grid(256, 128, 8, (0,))), (256, 2048, Grid(256, 32, 1, (0,))),
        (2048, 5632, Grid(256, 128, 8, (0,))), (32000, 2048, Grid(2000, 128, 16, (0,))),
        (1001, 4096, Grid(501, 32, 2, (0,))), (5632, 2048, Grid(352, 128, 16, (0,))),
    ],
)  # fmt: skip
def test_warps_take_several_rows(compiled: Any, rows: int, length: int, grid: Grid) -> None:
    source, found = for_rows(product_nest(), "nest", (rows, length, length, 1, 0, 1, 1, 0), 132)
    assert found == grid
    assert source is not None
    assert compiled(source)[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("vectors", "rows", "length", "grid"),
    [
        (2, 2048, 2048, Grid(256, 128, 8, (1,))), (3, 5632, 2048, Grid(704, 128, 8, (1,))),
        (2, 2048, 5632, Grid(256, 128, 8, (1,))), (8, 256, 2048, Grid(256, 32, 1, (1,))),
    ],
)  # fmt: skip
def test_few_vectors_read_the_matrix_once(
    compiled: Any, vectors: int, rows: int, length: int, grid: Grid
) -> None:
    """A block takes its lines with all vectors, whichever operand and axis are theirs."""
    nest = product_nest()._replace(outer=2)
    numbers = (vectors, rows, length, length, 0, 1, 0, length, 1, rows, 1, 0)
    source, found = for_rows(nest, "nest", numbers, 132)
    assert found == grid
    assert source is not None
    assert compiled(source)[:4] == b"\x7fELF"
    across = (rows, vectors, length, length, 0, 1, 0, length, 1, vectors, 1, 0)
    assert for_rows(nest, "nest", across, 132)[1] == grid._replace(early=(0,))


@pytest.mark.parametrize(
    "numbers",
    [
        (9, 2048, 512, 512, 0, 1, 0, 512, 1, 2048, 1, 0),  # more than a lane has registers for
        (4, 2048, 512, 512, 0, 1, 1 << 20, 512, 1, 2048, 1, 0),  # matrices of their own
    ],
)
def test_other_rows_are_taken_otherwise(numbers: tuple[int, ...]) -> None:
    source, _ = for_rows(product_nest()._replace(outer=2), "nest", numbers, 132)
    assert source is None or "const int there" not in source
