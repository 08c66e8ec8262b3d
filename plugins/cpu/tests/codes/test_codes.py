"""Products by codes, against float64, for all ways in which operands lie; their bits."""

from __future__ import annotations

import copy
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.fusion.device.targets import AVX512, NEON, target_of
from ingle.fusion.render.llvm.targets import AVX2
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR
from ingle.testkit.bits import same_bits
from ingle_cpu.codes.problem import MOST_ROWS, most_rows, problem_of
from ingle_cpu.codes.product import Coding, product_source
from ingle_cpu.codes.spread import spread_source
from ingle_cpu.jit.engine import engine

TARGETS = (AVX512, target_of({"avx2", "fma", "f16c"}), target_of(()), NEON)
DTYPES = ("int4", "uint4", "int8", "uint8")


class Weight:
    """Codes with their scales, and the weight that they stand for in float64."""

    def __init__(
        self, dtype: str, outs: int, width: int, blocks: tuple[int, ...], *, shifted: bool,
        seed: int = 0,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        kind = as_dtype(dtype)
        low, high = (-(1 << kind.bits - 1), 1 << kind.bits - 1) if kind.is_signed else (
            0, 1 << kind.bits,
        )  # fmt: skip
        each = rng.integers(low, high, (outs, width))
        codes = it.asarray(each.astype(np.int32)).astype(dtype)
        self.codes = codes if kind.bits == 8 else it.pack(codes)
        scale = rng.uniform(0.1, 1, blocks).astype(np.float32)
        zero = rng.integers(-9, 10, blocks).astype(np.int32) if shifted else np.zeros(blocks, int)
        of = [np.repeat(np.repeat(p, outs // p.shape[0], 0), width // p.shape[1], 1)
              if p.shape else p for p in (scale, zero)]  # fmt: skip
        self.numbers = (each - of[1]) * of[0].astype(np.float64)
        self.dtype = dtype
        self.given = [self.codes, it.asarray(scale)]
        if shifted:
            self.given.append(it.asarray(zero))

    def halved(self, half: str) -> Weight:
        """The same with scales of a half type."""
        made = copy.copy(self)
        scale = self.given[1].astype(half)
        made.given = [self.codes, scale, *self.given[2:]]
        factor = scale.astype("float64").numpy() / self.given[1].astype("float64").numpy()
        outs, width = self.numbers.shape
        if factor.shape:
            down, across = outs // factor.shape[0], width // factor.shape[1]
            factor = np.repeat(np.repeat(factor, down, 0), across, 1)
        made.numbers = self.numbers * factor
        return made

    def linear(self, x: Tensor, *given: Tensor) -> Tensor:
        return it.quantized_linear(x, *(given or self.given), dtype=self.dtype)


def off(got: Tensor, x: np.ndarray, weight: Weight) -> float:
    """The largest error, as a part of what the terms of a sum may come to."""
    wide = x.astype(np.float64)
    most = np.abs(wide) @ np.abs(weight.numbers).T
    error = np.abs(got.numpy().astype(np.float64) - wide @ weight.numbers.T)
    return float((error / np.maximum(most, 1e-30)).max())


@pytest.mark.sampled(5, slow=1)
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "shifted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "outs", "width", "blocks"),
    [
        (1, 8, 64, (8, 2)), (2, 33, 256, (33, 2)), (3, 9, 128, (9, 2)), (4, 35, 96, (35, 3)),
        (5, 64, 512, (64, 4)), (7, 31, 192, (1, 6)), (1, 70, 33, (70, 1)), (6, 5, 47, (1, 1)),
        (1, 3, 1, (3, 1)), (2, 1, 31, ()), (9, 66, 40, (66, 1)), (62, 4, 32, (4, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_agrees_with_float64(dtype, rows, outs, width, blocks, shifted):
    """Scales of 32, 64, 128 numbers, of rows, of all; sizes that fill no vector, byte or tile."""
    weight = Weight(dtype, outs, width, blocks, shifted=shifted)
    x = np.random.default_rng(1).standard_normal((rows, width)).astype(np.float32)
    avals = [Aval(v.shape, v.dtype) for v in (it.asarray(x), *weight.given)]
    avals += [] if shifted else [Aval((), it.int32)]
    assert problem_of(QUANTIZED_LINEAR.op(dtype=as_dtype(dtype)), avals) is not None
    alone = weight.linear(it.asarray(x))
    assert off(alone, x, weight) < 4e-7
    function = compile(weight.linear)
    for _ in range(2):
        assert same_bits(function(it.asarray(x), *weight.given), alone)


@pytest.mark.sampled(5, slow=1)
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "outs", "width", "blocks"),
    [(1, 8, 64, (8, 2)), (5, 33, 256, (33, 8)), (3, 7, 47, (1, 1)), (2, 1, 31, ()),
     (6, 5, 1, (5, 1))],
    ids=str,
)  # fmt: skip
def test_half_types_are_summed_in_float32_and_rounded_once(half, dtype, rows, outs, width, blocks):
    weight = Weight(dtype, outs, width, blocks, shifted=True).halved(half)
    x = it.asarray(np.random.default_rng(1).standard_normal((rows, width))).astype(half)
    avals = [Aval(v.shape, v.dtype) for v in (x, *weight.given)]
    assert problem_of(QUANTIZED_LINEAR.op(dtype=as_dtype(dtype)), avals) is not None
    alone = weight.linear(x)
    assert alone.dtype.name == half
    wide = x.astype("float64").numpy()
    exact = wide @ weight.numbers.T
    sums = 4e-7 * np.abs(wide) @ np.abs(weight.numbers).T
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[half]
    got = alone.astype("float64").numpy()
    assert (np.abs(got - exact) <= 1.001 * rounding * np.abs(exact) + sums + 2.0**-24).all()
    function = compile(weight.linear)
    for _ in range(2):
        assert same_bits(function(x, *weight.given), alone)
    assert same_bits(weight.linear(x[:1]), alone[:1])


def test_many_rows_of_half_types_are_multiplied_by_decoded_weights_where_that_is_quicker():
    weight = Weight("int4", 40, 64, (40, 2), shifted=False).halved("bfloat16")
    for rows in (most_rows("bfloat16"), most_rows("bfloat16") + 1):
        x = it.asarray(np.random.default_rng(rows).standard_normal((rows, 64))).astype("bfloat16")
        got, wide = weight.linear(x), x.astype("float32").numpy()
        assert off(got, wide, weight) < 2.0**-7


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_follow_from_the_row_alone(dtype):
    weight = Weight(dtype, 37, 160, (37, 5), shifted=True)
    x = np.random.default_rng(2).standard_normal((11, 160)).astype(np.float32)
    every = weight.linear(it.asarray(x)).numpy()
    for rows in range(1, 6):
        assert same_bits(weight.linear(it.asarray(x[:rows])), every[:rows])


def test_a_code_stands_for_what_dequantize_says():
    """A row with a single 1 reads numbers of the weight, to the bit."""
    for dtype in DTYPES:
        weight = Weight(dtype, 5, 96, (5, 3), shifted=True)
        codes = weight.codes if dtype[-1] == "8" else it.unpack(weight.codes, dtype, size=96)
        numbers = it.dequantize(codes, *weight.given[1:])
        assert same_bits(weight.linear(it.eye(96)), it.matrix_transpose(numbers))


@pytest.mark.parametrize("place", ["rows apart", "columns apart", "backwards", "3-d", "turned"])
def test_rows_that_lie_in_other_ways(place):
    weight = Weight("int4", 12, 64, (12, 2), shifted=False)
    wide = np.random.default_rng(3).standard_normal((3, 4, 128)).astype(np.float32)
    views: dict[str, Any] = {
        "rows apart": lambda x: x[:, -1, :64], "columns apart": lambda x: x[:, 0, ::2],
        "backwards": lambda x: x[::-1, 1, :64], "3-d": lambda x: x[..., 64:],
        "turned": lambda x: x[:, 1:3, :64].swapaxes(0, 1),
    }  # fmt: skip
    view, rows = views[place], views[place](wide)
    if place == "turned":
        view = lambda x: it.permute_dims(x[:, 1:3, :64], (1, 0, 2))  # noqa: E731
    want = weight.linear(it.asarray(np.ascontiguousarray(rows)))
    assert same_bits(weight.linear(view(it.asarray(wide))), want)
    function = compile(lambda x, *given: it.relu(weight.linear(view(x), *given)) + 1.0)
    for _ in range(2):
        assert same_bits(function(it.asarray(wide), *weight.given), it.relu(want) + 1.0)


def test_numbers_behind_the_last_one_do_not_count():
    """Bits beyond an odd row's end, and the next row's infinite scale, are no part of a sum."""
    weight = Weight("int4", 3, 33, (3, 1), shifted=False)
    codes = weight.codes.numpy().copy()
    codes[1, :] = 0x11
    codes[:, -1] = 0xF1
    scale = np.array([[1.0], [np.inf], [np.nan]], np.float32)
    x = np.ones((2, 33), np.float32)
    got = weight.linear(it.asarray(x), it.asarray(codes), it.asarray(scale)).numpy()
    kept = it.unpack(it.asarray(codes), "int4", size=33).astype("float32").numpy().sum(-1)
    assert got[0, 0] == kept[0]
    assert np.isposinf(got[:, 1]).all()
    assert np.isnan(got[:, 2]).all()


def test_what_the_template_does_not_take_is_decoded_first():
    rng = np.random.default_rng(4)
    for dtype, width, blocks, rows in (
        ("int2", 64, (6, 2), 3), ("int4", 48, (6, 3), 3), ("int8", 64, (3, 2), 2),
        ("int8", 32, (6, 1), MOST_ROWS + 1), ("int4", 64, (6, 2), 0),
    ):  # fmt: skip
        weight = Weight(dtype, 6, width, blocks, shifted=False)
        x = rng.standard_normal((rows, width)).astype(np.float32)
        got = weight.linear(it.asarray(x))
        assert got.shape == (rows, 6)
        assert rows == 0 or off(got, x, weight) < 4e-7
    weight = Weight("int4", 6, 64, (6, 2), shifted=False)
    x = rng.standard_normal((2, 64))
    got = it.quantized_linear(it.asarray(x), *weight.given, dtype="int4")
    np.testing.assert_allclose(got.numpy(), x @ weight.numbers.T, rtol=1e-12)
    shifted = it.quantized_linear(it.asarray(x.astype("f")), *weight.given, 3, dtype="int4")
    scale = np.repeat(weight.given[1].numpy(), 32, 1)
    np.testing.assert_allclose(
        shifted.numpy(), x @ (weight.numbers - 3.0 * scale).T, rtol=1e-3, atol=1e-4
    )


def test_it_is_one_call_in_a_plan():
    weight = Weight("int4", 64, 256, (64, 8), shifted=False)
    function = compile(weight.linear)
    x = it.ones((1, 256))
    function(x, *weight.given)
    report = str(explain(function, x, *weight.given))
    assert "1 kernels" in report
    assert "quantized_linear" in report


def test_gradients_are_those_of_the_numbers():
    weight = Weight("uint4", 10, 64, (10, 2), shifted=True)
    x = np.random.default_rng(5).standard_normal((3, 64)).astype(np.float32)
    direction = np.random.default_rng(6).standard_normal((3, 10)).astype(np.float32)

    def loss(x: Tensor) -> Tensor:
        return it.sum(weight.linear(x) * it.asarray(direction))

    want = direction.astype(np.float64) @ weight.numbers
    for function in (grad(loss), compile(grad(loss))):
        np.testing.assert_allclose(function(it.asarray(x)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    "coding",
    [
        Coding(4, True, True), Coding(8, False, True), Coding(4, True, True, "bfloat16"),
        Coding(8, False, True, "float16"),
    ],
    ids=str,
)  # fmt: skip
def test_kernels_of_other_processors_give_these_sums(target, coding, monkeypatch):
    """Where this processor has the instructions; other machines' kernels are written at least."""
    source, rows = product_source(coding, target), spread_source(4, coding.dtype, target)
    needed = {AVX512: "avx512f", AVX2: "fma"}.get(target)
    if target is NEON or (needed is not None and needed not in engine().machine.present):
        assert f"@{source.names[0]}(" in source.text
        assert f"@{rows.names[0]}(" in rows.text
        return
    weight = Weight(coding.name.split("_")[0], 6, 64, (6, 2), shifted=True)
    weight = weight if coding.dtype == "float32" else weight.halved(coding.dtype)
    x = it.asarray(np.random.default_rng(7).standard_normal((7, 64))).astype(coding.dtype)
    address, spread = engine().addresses(source)[0], engine().addresses(rows)[0]
    monkeypatch.setattr("ingle_cpu.codes.launches.product_address", lambda coding: address)
    if coding.bits == 4:
        monkeypatch.setattr("ingle_cpu.codes.launches.spread_address", lambda *_: spread)
    got = compile(lambda x, *given: weight.linear(x, *given))(x, *weight.given)
    most = {"float32": 4e-7, "bfloat16": 2.0**-8, "float16": 2.0**-11}[coding.dtype]
    assert off(got, x.astype("float32").numpy(), weight) < most


@pytest.mark.slow
@pytest.mark.parametrize("coding", [Coding(8, True, False), Coding(4, True, False)], ids=str)
@pytest.mark.parametrize(("target", "cpu"), [(AVX512, "skylake-avx512"), (AVX2, "haswell")])
def test_sums_and_decoded_vectors_stay_in_registers(target, cpu, coding):
    """With a tile for 32 registers, half of what there is would go to the stack with each chunk."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu=cpu, opt=3, jit=True
    )
    module = llvm.parse_assembly(product_source(coding, target).text)
    blocks = re.split(r"^\.L\w+:", machine.emit_assembly(module), flags=re.MULTILINE)
    # A chunk that is not whole is masked, once a row.
    multiplying = [
        b for b in blocks if len(re.findall("vfmadd", b)) >= 32 and not re.search("vpcmp|kmov", b)
    ]
    assert multiplying
    stored = [len(re.findall(r"%[xyz]mm\d+, \S*\(%rsp\)", b)) for b in multiplying]
    assert max(stored) <= 2
