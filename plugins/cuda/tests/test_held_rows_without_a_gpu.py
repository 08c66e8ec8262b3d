"""Rows that stay in registers between passes: the bits of the processor's kernels, on a played
GPU, and kernels without spills where NVRTC and its assembler are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled
from test_without_a_gpu import softmax

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import Grid, for_rows, render
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Reduce

pytestmark = pytest.mark.sampled(4)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "heldgpu", patch)


def norm(x: Any, weight: Any, bias: Any) -> Any:
    """A layer norm: two sums over a row, and operands that all rows share."""
    mean = it.mean(x, axis=-1, keepdims=True)
    apart = x - mean
    square = it.mean(apart * apart, axis=-1, keepdims=True)
    return apart * it.rsqrt(square + 1e-5) * weight + bias


def results(device: str, dtype: Any, rows: int, length: int, first: int) -> list[np.ndarray]:
    """A softmax and a layer norm of rows that begin at an element of memory."""
    rng = np.random.default_rng(length)
    x = rng.normal(size=(rows * length + first,)).astype(np.float32) * 3
    weight, bias = rng.normal(size=(2, length)).astype(np.float32)
    flat, w, b = (it.asarray(v, dtype=dtype, device=device) for v in (x, weight, bias))

    @compile
    def both(flat: Any, w: Any, b: Any) -> Any:
        x = it.reshape(flat[first:], (rows, length))
        return it.softmax(x, axis=-1), norm(x, w, b), it.max(x, axis=-1), it.any(x > 9.0, axis=-1)

    return [it.astype(v, it.float64).numpy() for v in both(flat, w, b)]


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float16])
@pytest.mark.parametrize(
    ("rows", "length", "first"),
    [(5, 256, 0), (3, 512, 0), (3, 768, 0), (5, 1024, 0), (2, 2048, 0), (3, 2304, 0), (2, 4096, 0),
     (3, 768, 1), (3, 300, 0), (2, 4352, 0)],
)  # fmt: skip
def test_the_bits_are_those_of_the_processor(
    device: Any, dtype: Any, rows: int, length: int, first: int
) -> None:
    """Also where pairs are not aligned, and where rows are too long or fill no chunk."""
    found = results("heldgpu", dtype, rows, length, first)
    expected = results("cpu", dtype, rows, length, first)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_nothing_is_read_or_computed_twice(compiled: Any) -> None:
    """A softmax reads its rows once, and keeps the exponentials that it has summed."""
    source = render(softmax("bfloat16"), "nest")
    held = source[: source.index("    else {\n        for (int64_t unit")]
    assert held.count("*(const uint32_t *)(row0") == 1
    assert held.count("kept_1_") == 3
    assert compiled(source)[:4] == b"\x7fELF"


def test_nothing_is_written_twice() -> None:
    """The exponentials of a softmax in float32 lie in the result until their sum is known, where no
    thread holds them."""
    source = render(softmax("float32"), "nest")
    held = source[: source.index("    else {\n        for (int64_t unit")]
    assert held.count("*(uint64_t *)(row1") == 1


def gradients(x: Any, weight: Any, bias: Any, cotangent: Any) -> list[Any]:
    """A layer norm with the gradients of all that it takes."""
    leaves = [v.require_grad() for v in (x, weight, bias)]
    y = it.layer_norm(leaves[0], weight.shape, *leaves[1:])
    found = y.backward(cotangent)
    return [*(found[v] for v in leaves), y.detach()]


def drawn(rows: int, length: int, dtype: Any, device: str) -> list[Any]:
    """What `gradients` takes."""
    rng = np.random.default_rng(rows + length)
    shapes = (rows, length), (length,), (length,), (rows, length)
    given = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return [it.asarray(v, dtype=dtype, device=device) for v in given]


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [it.float32, it.bfloat16, it.float16])
@pytest.mark.parametrize("shape", [(288, 256), (320, 1024), (288, 2304)])
def test_a_norm_and_its_gradients_read_rows_once(
    device: Any, dtype: Any, shape: tuple[int, int]
) -> None:
    """Sums down the rows grow in the kernel that folds each row, with the bits of sums alone."""
    given = drawn(*shape, dtype, "heldgpu")
    steps = explain(compile(gradients), *given, runs=0).steps
    (step,) = [s for s in steps if "rsqrt" in s.operations]
    assert step.operations.count("block_sums") == 2
    assert all({"totals", "astype"} >= set(s.operations) for s in steps if s is not step)
    found = compile(gradients)(*given)
    expected = compile(gradients)(*drawn(*shape, dtype, "cpu"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(
            it.astype(a, it.float64).numpy(), it.astype(b, it.float64).numpy()
        )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(96, 256), (160, 300), (130, 512)])
def test_sums_of_few_or_other_rows_are_kernels_of_their_own(
    device: Any, shape: tuple[int, int]
) -> None:
    """Too few for the GPU's processors, of lengths that are not held, or with a short block."""
    found = compile(gradients)(*drawn(*shape, it.float32, "heldgpu"))
    expected = compile(gradients)(*drawn(*shape, it.float32, "cpu"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.slow
def test_three_sums_beside_rows(device: Any) -> None:
    """Of what a kernel computes and reads; a fourth one of long rows has no memory there."""

    def sums(x: Any, y: Any) -> Any:
        apart = x - it.mean(x, axis=-1, keepdims=True)
        return apart, it.sum(apart, axis=0), it.sum(y * apart, axis=0), it.sum(y, axis=0)

    for length, count in ((512, 3), (2304, 2)):
        values = [v.numpy() for v in drawn(288, length, it.float32, "cpu")]
        given, host = (
            [it.asarray(v, device=on) for v in (values[0], values[3])] for on in ("heldgpu", "cpu")
        )
        steps = explain(compile(sums), *given, runs=0).steps
        assert max(s.operations.count("block_sums") for s in steps) == count
        for a, b in zip(compile(sums)(*given), compile(sums)(*host), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.slow
def test_what_all_rows_share_is_not_held(compiled: Any) -> None:
    """A norm's weight leaves registers to its rows."""
    nest = Nest(
        1,
        (Operand("float32"), Operand("float32"), Operand("float32", True)),
        (),
        (
            Reduce(*_of(lambda b: b.append("mul", "float32", (_x(b, 0), _x(b, 1))), "sum")),
            Map(*_of(lambda b: b.append("add", "float32", (_x(b, 0), _x(b, 1))), 2)),
        ),
    )
    both = render(nest, "nest")
    shared = for_rows(nest, "nest", (900, 4096, 4096, 1, 0, 1, 4096, 1), 132)[0]
    assert shared is not None
    assert "held1" in both
    assert "held1" not in shared
    assert "near1" in shared
    assert compiled(shared)[:4] == b"\x7fELF"


@pytest.mark.slow
def test_few_rows_ask_for_all_of_their_memory_at_once(compiled: Any) -> None:
    """Each waits for it alone, so that a weight is on its way with its row."""
    nest = Nest(
        1,
        (Operand("float32"), Operand("float32"), Operand("float32", True)),
        (),
        (
            Reduce(*_of(lambda b: _x(b, 0), "sum")),
            Map(*_of(lambda b: b.append("mul", "float32", (_x(b, 0), _x(b, 1))), 2)),
        ),
    )
    few = for_rows(nest, "nest", (9, 768, 768, 1, 0, 1, 768, 1), 132)[0]
    assert few is not None
    assert few.index("held1[p + q].whole = ") < few.index("Stage 0: sum")
    assert compiled(few)[:4] == b"\x7fELF"


def _x(b: CodeBuilder, k: int) -> int:
    return b.load(k, "float32")


def _of(made: Any, use: Any) -> tuple[Any, Any]:
    """Code, and what a stage does with its result."""
    b = CodeBuilder()
    code, (root,) = b.finish(made(b))
    return code, ((use, root),)


def test_short_rows_have_a_warp_each() -> None:
    nest = softmax("float32")
    assert for_rows(nest, "nest", (1001, 1024, 1024, 1, 1024, 1), 132)[1] == Grid(501, 64, 2)
    assert for_rows(nest, "nest", (1001, 4096, 4096, 1, 4096, 1), 132)[1] == Grid(1001, 64, 1)
    assert for_rows(nest, "nest", (1001, 1500, 1500, 1, 1500, 1), 132)[1] == Grid(1001, 64, 1)


@pytest.mark.slow
def test_short_rows_have_a_kernel_of_few_registers(compiled: Any) -> None:
    """So that more rows are on their way; the one for the longest is that of all other rows."""
    nest = softmax("bfloat16")
    for length, pairs in ((256, 8), (768, 16)):
        source = for_rows(nest, "nest", (900, length, length, 1, length, 1), 132)[0]
        assert source is not None
        assert f"held0[{pairs}];" in source
        assert f"inner <= {64 * pairs} &&" in source
        assert compiled(source)[:4] == b"\x7fELF"
    assert "held0[32];" in render(nest, "nest")
    for n in (1792, 2304, 1500, 0):
        assert for_rows(nest, "nest", (900, n, 8, 1, 8, 1), 132)[0] is None


@pytest.mark.parametrize("length", [512, 1024, 2048, 4096])
def test_rows_that_fill_their_warps_have_a_kernel_without_conditions(length: int) -> None:
    """All of their memory is asked for at once, and registers are as few as can be."""
    source = for_rows(softmax("bfloat16"), "nest", (900, length, length, 1, length, 1), 132)[0]
    assert source is not None
    assert f"inner == {length} &&" in source
    held = source[: source.index("    else {\n        for (int64_t unit")]
    assert "< inner)" not in held


def test_what_is_kept_takes_the_place_of_what_nobody_reads_again(device: Any) -> None:
    """Rows of a softmax are held with those of its gradient, in any dtype."""

    def both(x: Any, g: Any) -> Any:
        leaf = x.require_grad()
        y = it.softmax(leaf, axis=-1)
        return y.detach(), y.backward(g)[leaf]

    rng = np.random.default_rng(0)
    given = [rng.normal(size=(2, 4096)).astype(np.float32) for _ in range(2)]
    here, there = ([it.asarray(v, device=on) for v in given] for on in ("heldgpu", "cpu"))
    (source,) = explain(compile(both), *here, source=True, runs=0).sources
    assert "held" in source
    for a, b in zip(compile(both)(*here), compile(both)(*there), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.slow
def test_halves_are_converted_by_the_machine(compiled: Any) -> None:
    """Where NVRTC compiles, which knows the architecture; the bits of a NaN are our own."""
    for dtype, what in (("bfloat16", "ROUNDED_BFLOAT16"), ("float16", "WIDENED_FLOAT16")):
        source = render(softmax(dtype), "nest")
        assert f"INGLE_{what}(x);" in source
        assert compiled(source)[:4] == b"\x7fELF"


COMPUTED = {
    "with": lambda b, x: b.append("mul", "float32", (x, b.constant(2, "float32"))),
    "or chosen": lambda b, x: b.append(
        "select", "float32", (b.append("lt", "bool", (x, x)), x, b.append("add", "float32", (x, x)))
    ),
    "never": lambda b, x: b.append("neg", "float32", (x,)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_conversions_keep_the_bits_of_a_nan_where_it_is_moved_alone(name: str) -> None:
    b = CodeBuilder()
    made = COMPUTED[name](b, b.cast(b.load(0, "float16"), "float32"))
    code, (root,) = b.finish(b.cast(made, "float16"))
    nest = Nest(0, (Operand("float16"), Operand("float16", True)), (), (Map(code, ((1, root),)),))
    source = render(nest, "nest")
    machine = name != "never"
    assert (" = computable_float32_of_float16(" in source) == machine
    assert (" = float16_of_computed_float32(" in source) == machine


def test_conversions_keep_the_bits_of_a_nan_that_leaves_beside_what_is_computed_with_it() -> None:
    """Stored as it is, chosen as an extreme, or looked at bit by bit."""
    b = CodeBuilder()
    x = b.cast(b.load(0, "float16"), "float32")
    code, (moved, added) = b.finish(x, b.append("add", "float32", (x, x)))
    two = (Operand("float16"), Operand("float32", True), Operand("float32", True))
    maps = Map(code, ((1, moved), (2, added))), Map(code, ((2, added),))
    assert " = computable_float32_of_float16(" not in render(Nest(0, two, (), maps[:1]), "nest")
    assert " = computable_float32_of_float16(" in render(Nest(0, two, (), maps[1:]), "nest")
    for combine in ("max", "min"):
        rows = Nest(1, two, (), (Reduce(code, ((combine, moved), ("sum", added))),))
        assert " = computable_float32_of_float16(" not in render(rows, "nest")
    rows = Nest(1, two, (), (Reduce(code, (("sum", moved), ("max", added))),))
    assert " = computable_float32_of_float16(" in render(rows, "nest")
    b = CodeBuilder()
    x = b.cast(b.load(0, "float16"), "float32")
    code, (bits,) = b.finish(b.append("bitcast", "int32", (x,)))
    one = (Operand("float16"), Operand("int32", True))
    source = render(Nest(0, one, (), (Map(code, ((1, bits),)),)), "nest")
    assert " = computable_float32_of_float16(" not in source
