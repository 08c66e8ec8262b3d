"""Products of few rows by codes: the kernel compiles, and a GPU played by the processor finds what
float64 finds, with the bits that it finds in plans."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import render_many
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import BackendError
from ingle.tensor.ops.quantization.decoding import decode_weight
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR
from ingle.testkit.bits import same_bits
from ingle_cuda.codes import weights_source
from ingle_cuda.codes.coded_words import shape_of
from ingle_cuda.codes.problem import Blocks, CodesProblem, problem_of
from ingle_cuda.codes.row_products import MOST_ROWS, RowProducts, launches_of
from ingle_cuda.driver import compiler, libraries

PLAYED = "played"
DTYPES = "int8", "uint8", "int4", "uint4", "int2", "uint2"
TOLERANCE = {"float32": 4e-7, "float16": 2e-3, "bfloat16": 1e-2}

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`."""
    return opened(HostGpu(folder), PLAYED, monkeypatch)


class Weight:
    """Codes with their scales, and the weight that they stand for in float64."""

    def __init__(
        self, kind: str, outs: int, width: int, blocks: tuple[int, ...], zero: str = "",
        dtype: str = "float32",
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(0)
        self.kind = as_dtype(kind)
        bits = self.kind.bits
        low = -(1 << bits - 1) if self.kind.is_signed else 0
        each = rng.integers(low, low + (1 << bits), (outs, width))
        codes = it.asarray(each.astype(np.int32), device="numpy").astype(kind)
        scale = it.asarray(rng.uniform(0.1, 1, blocks), dtype=dtype, device="numpy").numpy()
        moved = rng.integers(-9, 10, blocks) if zero else np.zeros(blocks, int)
        of = [_spread(p.astype(np.float64), (outs, width)) for p in (scale, moved)]
        self.numbers = (each - of[1]) * of[0]
        self.given = [(codes if bits == 8 else it.pack(codes)).numpy(), scale]
        self.given += [moved.astype(zero)] if zero else []

    def there(self) -> list[it.Tensor]:
        return [it.asarray(a, device=PLAYED) for a in self.given]

    def linear(self, x: it.Tensor, *given: it.Tensor) -> it.Tensor:
        return it.quantized_linear(x, *given, dtype=self.kind)


def _spread(parameter: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    for axis, count in enumerate(parameter.shape):
        parameter = np.repeat(parameter, shape[axis] // count, axis)
    return parameter


def rows_of(rows: int, width: int, dtype: str = "float32") -> np.ndarray:
    x = np.random.default_rng(1).standard_normal((rows, width))
    return it.asarray(x, dtype=dtype, device="numpy").numpy()


def check(found: it.Tensor, x: np.ndarray, weight: Weight, dtype: str = "float32") -> None:
    """Errors are parts of what the terms of a sum may come to."""
    wide = x.astype(np.float64)
    most = np.maximum(np.abs(wide) @ np.abs(weight.numbers).T, 1e-30)
    off = np.abs(found.numpy().astype(np.float64) - wide @ weight.numbers.T) / most
    assert off.max() < TOLERANCE[dtype]


# What is taken, and how it lies --------------------------------------------------------------


def problem(
    x: tuple[int, ...], outs: int, blocks: tuple[int, ...] = (), kind: str = "int4",
    dtype: str = "float32", **how: Any,
) -> CodesProblem | None:  # fmt: skip
    coded, floats = as_dtype(kind), as_dtype(dtype)
    codes = Aval((outs, -(-x[-1] * coded.bits // 8)), coded if coded.bits == 8 else it.uint8)
    avals = [Aval(x, floats), codes, Aval(blocks, floats), Aval((), it.int32)]
    return problem_of(QUANTIZED_LINEAR.op(dtype=coded), avals, **how)


def test_what_is_taken() -> None:
    found = problem((2, 3, 64), 6, (6, 2))
    assert found is not None
    weight = found.weight
    assert (found.rows, weight.rows, weight.width, weight.bytes) == (6, 6, 64, 32)
    assert (weight.scale, weight.zero) == (Blocks(1, 32, (2, 1)), None)
    assert problem((64,), 6, (3, 1)) is not None
    assert problem((64,), 6, dtype="float64") is None
    assert problem((0, 64), 6) is None
    assert problem((4, 2, 64), 6, strides=((100, 70, 1), (32, 1), ())) is None  # nor rows of one
    few, many = problem((MOST_ROWS, 64), 6), problem((MOST_ROWS + 1, 64), 6)
    assert few is not None
    assert many is not None
    assert launches_of(few) is not None
    assert launches_of(many) is None


@pytest.mark.parametrize(
    ("x", "offset", "dtype", "vector"),
    [
        ((2, 64), 0, "float32", 16), ((2, 64), 4, "float32", 0), ((2, 66), 0, "float32", 0),
        ((2, 64), 0, "bfloat16", 16), ((2, 64), 8, "bfloat16", 0),
    ],
)  # fmt: skip
def test_x_is_loaded_as_it_lies(x: tuple[int, int], offset: int, dtype: str, vector: int) -> None:
    found = problem(x, 6, dtype=dtype, offsets=(offset, 0, 0))
    assert found is not None
    assert found.vector == vector


def test_codes_are_loaded_as_they_lie() -> None:
    for width, offset, words in ((64, 0, True), (63, 0, True), (33, 0, False), (64, 2, False)):
        found = problem((2, width), 6, offsets=(0, offset, 0))
        assert found is not None
        assert found.weight.words == words


@pytest.mark.slow
def test_kernels_compile() -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    for kind in DTYPES:
        for dtype in ("float32", "bfloat16"):
            of = problem((8, 256), 6, (6, 2), kind, dtype)
            assert of is not None
            found = launches_of(of)
            assert found is not None
            if of.weight.bits < 8:
                decoding = weights_source.source(shape_of(of.weight))
                assert compiler.machine_code(decoding, "sm_90")[:4] == b"\x7fELF"
            text = found.kernels[0].source
            many = render_many(text, "many", 4, found.kernels[0].threads)
            for each in (text, many):
                assert compiler.machine_code(each, "sm_90")[:4] == b"\x7fELF"


# What a played GPU finds ---------------------------------------------------------------------

SIZES = [
    (1, 8, 64, (8, 2)), (2, 33, 256, (33, 2)), (3, 9, 96, (3, 3)), (5, 6, 512, (6, 16)),
    (8, 31, 192, (1, 6)), (1, 70, 33, (70, 1)), (6, 5, 47, (1, 1)), (1, 3, 1, (3, 1)),
    (2, 1, 31, ()), (7, 6, 40, (6, 5)), (4, 4, 60, (2, 5)), (1, 5, 4096, (5, 32)),
]  # fmt: skip


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(24, slow=12)
@pytest.mark.parametrize("zero", ["", "int32", "int8"])
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_float64(backend: HostBackend, size: Any, kind: str, zero: str) -> None:
    """Scales of blocks, rows and all; sizes that fill no word, warp or block."""
    rows, outs, width, blocks = size
    weight, x = Weight(kind, outs, width, blocks, zero), rows_of(rows, width)
    before = backend.gpu.counts["launched"]
    alone = weight.linear(it.asarray(x, device=PLAYED), *weight.there())
    check(alone, x, weight)
    assert backend.gpu.counts["launched"] == before + 1
    function = compile(weight.linear)
    for _ in range(2):
        assert same_bits(function(it.asarray(x, device=PLAYED), *weight.there()), alone)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["int8", "int4", "int2"])
def test_half_types(backend: HostBackend, kind: str, dtype: str) -> None:
    weight, x = Weight(kind, 6, 64, (6, 2), dtype=dtype), rows_of(3, 64, dtype)
    found = weight.linear(it.asarray(x, device=PLAYED), *weight.there())
    assert found.dtype == as_dtype(dtype)
    check(found, x, weight, dtype)


@needs_a_compiler
@pytest.mark.slow
def test_a_code_stands_for_what_dequantize_says(backend: HostBackend) -> None:
    """A row with a single 1 reads numbers of the weight, to the bit."""
    for kind in DTYPES:
        weight = Weight(kind, 5, 96, (5, 3), "int32")
        codes, scale, zero = weight.there()
        whole = "int8" if weight.kind.is_signed else "uint8"
        each = codes if weight.kind.bits == 8 else it.unpack(codes, kind, into=whole)
        found = weight.linear(it.eye(96, device=PLAYED)[:MOST_ROWS], codes, scale, zero)
        wanted = it.matrix_transpose(it.dequantize(each, scale, zero))[:MOST_ROWS]
        assert same_bits(found.numpy(), wanted.numpy())


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "uint4"])
def test_bits_follow_from_the_row_alone(backend: HostBackend, kind: str) -> None:
    """Neither from how many there are, nor from how anything lies."""
    weight, x = Weight(kind, 7, 288, (7, 9), "int32"), rows_of(8, 288)
    given = weight.there()
    every = weight.linear(it.asarray(x, device=PLAYED), *given).numpy()
    for rows in range(1, 8):
        assert same_bits(weight.linear(it.asarray(x[:rows], device=PLAYED), *given), every[:rows])
    wide = it.asarray(np.concatenate([x, x], 1), device=PLAYED)
    launched = backend.gpu.counts["launched"]
    for place in (wide[:, 288:], it.flip(wide[:, :288], axis=0), wide[:, 287:575]):
        found = weight.linear(place, *given).numpy()
        assert found.shape == every.shape
    assert backend.gpu.counts["launched"] == launched + 3  # nothing was copied
    assert same_bits(weight.linear(wide[:, 288:], *given).numpy(), every)
    assert same_bits(weight.linear(it.flip(wide[:, :288], axis=0), *given).numpy(), every[::-1])
    both = it.asarray(np.concatenate([weight.given[0][:, :1], weight.given[0]], 1), device=PLAYED)
    for codes in (both[:, 1:], it.asarray(np.repeat(weight.given[0], 2, 0), device=PLAYED)[::2]):
        assert same_bits(weight.linear(wide[:, :288], codes, *given[1:]).numpy(), every)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("number", [None, 8, -3])
def test_zero_points_that_are_numbers(backend: HostBackend, number: int | None) -> None:
    weight, x = Weight("uint4", 6, 64, (6, 2)), rows_of(2, 64)
    given = it.asarray(x, device=PLAYED)
    weight.numbers -= _spread(weight.given[1].astype(np.float64), (6, 64)) * (number or 0)
    f = lambda x, *w: it.quantized_linear(x, *w, number, dtype="uint4")  # noqa: E731
    alone = f(given, *weight.there())
    check(alone, x, weight)
    function = compile(f)
    for _ in range(3):
        assert same_bits(function(given, *weight.there()), alone)


@needs_a_compiler
@pytest.mark.slow
def test_graphs_have_the_bits_of_plain_code(backend: HostBackend) -> None:
    """Layer after layer, whose codes may be read before what is in front has ended."""
    layers = [Weight("int4", 64, 64, (64, 2)) for _ in range(3)]
    given = [[it.asarray(a, device=PLAYED) for a in layer.given] for layer in layers]
    x = it.asarray(rows_of(1, 64), device=PLAYED)

    def f(x: it.Tensor, *weights: it.Tensor) -> it.Tensor:
        for codes, scale in zip(weights[::2], weights[1::2], strict=True):
            x = it.tanh(it.quantized_linear(x, codes, scale, dtype="int4"))
        return x

    flat = [a for layer in given for a in layer]
    plain, function = f(x, *flat).numpy(), compile(f)
    found = [function(x, *flat).numpy() for _ in range(5)]
    assert backend.gpu.counts["replayed"] > 0
    assert all(same_bits(one, plain) for one in found)
    steps = explain(f, x, *flat, runs=0).steps
    assert [" ".join(step.operations) for step in steps[::2]] == ["quantized_linear"] * 3
    offer = next(o for o in backend.offers if isinstance(o, RowProducts))
    (kernel,) = next(iter(offer._known.values())).kernels  # type: ignore[union-attr]
    assert kernel.early == (1,)


@needs_a_compiler
@pytest.mark.slow
def test_products_of_one_row_are_one_launch(backend: HostBackend) -> None:
    """Queries, keys and values, whatever stands between them in code, with the bits of each."""
    weights = [Weight("int4", outs, 64, (outs, 2)) for outs in (9, 4, 4)]
    flat = [it.asarray(a, device=PLAYED) for layer in weights for a in layer.given]
    x = it.asarray(rows_of(2, 64), device=PLAYED)

    def f(x: it.Tensor, *given: it.Tensor) -> list[it.Tensor]:
        found = []
        for codes, scale in zip(given[::2], given[1::2], strict=True):
            made = it.quantized_linear(x, codes, scale, dtype="int4")
            found.append(it.cumulative_sum(made, axis=0))
        return found

    wanted = [v.numpy() for v in f(x, *flat)]
    function = compile(f)
    launched = backend.gpu.counts["launched"]
    for turn in range(5):
        found = [v.numpy() for v in function(x, *flat)]
        assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))
        if not turn:
            assert backend.gpu.counts["launched"] - launched <= 4
    assert backend.gpu.counts["replayed"] > 0
    names = [" ".join(step.operations) for step in explain(f, x, *flat, runs=0).steps]
    assert names[:3] == ["quantized_linear"] * 3


@needs_a_compiler
@pytest.mark.slow
def test_products_of_other_rows_are_launches_of_their_own(backend: HostBackend) -> None:
    """One that reads what another makes, and one by other codes, whose kernel is another."""
    first, second = Weight("int4", 64, 64, (64, 2)), Weight("int8", 64, 64, (64, 2))
    flat = [it.asarray(a, device=PLAYED) for w in (first, second, first) for a in w.given]
    x = it.asarray(rows_of(1, 64), device=PLAYED)

    def f(x: it.Tensor, *given: it.Tensor) -> list[it.Tensor]:
        a = it.quantized_linear(x, *given[:2], dtype="int4")
        return [a, first.linear(a, *given[4:]), second.linear(x, *given[2:4])]

    wanted = [v.numpy() for v in f(x, *flat)]
    function = compile(f)
    for _ in range(4):
        found = [v.numpy() for v in function(x, *flat)]
        assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(12, slow=8)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("zero", ["", "int32"])
@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize(
    ("outs", "width", "blocks"),
    [(8, 64, (8, 2)), (33, 96, (11, 6)), (5, 47, (5, 1)), (9, 60, (9, 5)), (3, 1, ())], ids=str,
)  # fmt: skip
def test_weights_of_codes(
    backend: HostBackend, outs: int, width: int, blocks: Any, kind: str, zero: str, dtype: str
) -> None:
    """The bits of the composition, in one kernel."""
    weight = Weight(kind, outs, width, blocks, zero, dtype)
    codes, scale, *rest = (it.asarray(a, device="numpy") for a in weight.given)
    into = "int8" if weight.kind.is_signed else "uint8"
    wanted = it.dequantize(it.unpack(codes, kind, size=width, into=into), scale, *rest)
    launched = backend.gpu.counts["launched"]
    found = decode_weight(*weight.there(), dtype=kind, size=width)
    assert same_bits(found.numpy(), wanted.numpy())
    assert backend.gpu.counts["launched"] == launched + 1


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "uint4"])
def test_many_rows_by_codes(backend: HostBackend, kind: str) -> None:
    """The weight is made once, and the library multiplies by it."""
    weight, x = Weight(kind, 40, 96, (40, 3), "int32"), rows_of(64, 96)
    given = it.asarray(x, device=PLAYED), *weight.there()
    alone = weight.linear(*given)
    check(alone, x, weight)
    function = compile(lambda *a: it.relu(weight.linear(*a)) + 1.0)
    for _ in range(3):
        assert same_bits(function(*given).numpy(), np.maximum(alone.numpy(), 0) + 1)
    names = [" ".join(s.operations) for s in explain(function, *given, runs=0).steps]
    assert kind == "int8" or names[0] == "decode_weight"


@needs_a_compiler
@pytest.mark.slow
def test_a_weight_lies_where_it_is_read(backend: HostBackend) -> None:
    """Two weights made into one value, the second at no multiple of 16 bytes."""
    one, other = Weight("int4", 3, 9, (3, 1)), Weight("int4", 4, 9, (4, 1))
    flat = [*one.there(), *other.there()]

    def f(*given: it.Tensor) -> it.Tensor:
        parts = [decode_weight(*given[n : n + 2], dtype="int4", size=9) for n in (0, 2)]
        return it.concat(parts, axis=0)

    wanted = np.concatenate([one.numbers, other.numbers]).astype(np.float32)
    function = compile(f)
    for _ in range(3):
        np.testing.assert_allclose(function(*flat).numpy(), wanted, rtol=1e-6)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "int4", "uint2", "nf4"])
def test_models_are_quantized_without_the_host(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("INGLE_HOST_FALLBACK", "error")
    codes, rows = [], rows_of(4, 8)
    for device in (PLAYED, "numpy"):
        with it.device(device):
            layer = nn.Linear(8, 4)
            layer.weight.value = it.asarray(rows)
            made = nn.QuantizedLinear(layer, nn.QuantizationConfig(kind))
            codes.append(made.codes.raw.numpy())
    np.testing.assert_array_equal(*codes)
