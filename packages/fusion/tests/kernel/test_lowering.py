"""Every lowered operation against the numpy backend: on the rooms' samples and on hard values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.lowering import CREATIONS, RULES, can_lower, lower
from ingle.fusion.kernel.nest import Operand, map_nest
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import backend_of
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import OPERATIONS, Op, infer
from ingle.tensor.ops.random.bits import random_bits
from ingle.tensor.ops.random.pairs import random_pairs
from ingle.tensor.sample import Draw

ROUNDED = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp",
    "expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "pow", "sin", "sinh", "tan",
    "tanh",
})  # fmt: skip
"""Operations with an error: both sides may be a few ulp off."""
EITHER_ZERO = frozenset({"maximum", "minimum", "clip", "nextafter", "sign"})
"""Operations for which NumPy's own loops disagree about the sign of a zero."""
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
)  # fmt: skip
Input = np.ndarray | Scalar


def compiled(machine: Any, op: Op, inputs: Sequence[Aval | Scalar], out: Aval) -> Any:
    """A kernel of one operation: scalars are scalars, arrays are loaded at every place."""
    b = CodeBuilder()
    operands, scalars, args = [], [], []
    if op.operation.name in CREATIONS:
        args.append(b.append("index", "int64", (), -1))
    for x in inputs:
        if isinstance(x, Scalar):
            args.append(b.append("scalar", x.dtype.name, (), len(scalars)))
            scalars.append(x.dtype.name)
        else:
            args.append(b.load(len(operands), x.dtype.name))
            operands.append(Operand(x.dtype.name))
    code, (root,) = b.finish(lower(op, b, args, out))
    operands.append(Operand(out.dtype.name, True))
    return machine.kernel(map_nest(0, operands, scalars, code, (len(operands) - 1, root)))


@cache
def kernel_of(machine: Any, op: Op, dtypes: tuple[str, ...], scalar: tuple[bool, ...]) -> Any:
    pairs = zip(dtypes, scalar, strict=True)
    inputs = [Scalar(0, as_dtype(d)) if s else Aval((1,), as_dtype(d)) for d, s in pairs]
    out = infer(op, inputs)[0]
    return compiled(machine, op, inputs, out)


def run(machine: Any, op: Op, inputs: Sequence[Input], out: Aval) -> np.ndarray:
    """One operation on arrays and numbers, through a kernel of its own."""
    scalar = tuple(isinstance(x, Scalar) for x in inputs)
    dtypes = tuple(x.dtype.name for x in inputs)
    kernel = kernel_of(machine, op, dtypes, scalar)
    arrays = [
        np.ascontiguousarray(np.broadcast_to(x, out.shape)).reshape(-1)
        for x in inputs
        if not isinstance(x, Scalar)
    ]
    result = np.empty(out.shape, out.dtype.dtype)
    numbers = [x.value for x in inputs if isinstance(x, Scalar)]
    kernel(*arrays, result.reshape(-1), scalars=numbers)
    return result


def check(op: Op, got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit for bit, but for NaN's payload, or within some ulp."""
    if got.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, expected)
        return
    wide, reference = got.astype(np.float64), expected.astype(np.float64)
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    if op.operation.name not in ROUNDED:
        assert same.all(), _worst(op, got, expected, ~same)
        zeros = (reference == 0) & (op.operation.name not in EITHER_ZERO)
        signs = np.signbit(wide) == np.signbit(reference)
        assert signs[zeros].all(), _worst(op, got, expected, zeros & ~signs)
        return
    ulp = 1 if got.dtype.itemsize == 2 else 4
    if op.operation.name == "logaddexp":  # cancels where the result is near 0
        with np.errstate(invalid="ignore"):
            same |= abs(wide - reference) <= ulp * np.finfo(np.float32).eps
    with np.errstate(invalid="ignore"):
        near = abs(_ordinal(got) - _ordinal(expected)) <= ulp
    near &= np.isfinite(wide) | np.isfinite(reference)
    assert (same | near).all(), _worst(op, got, expected, ~(same | near))


def _ordinal(x: np.ndarray) -> np.ndarray:
    """Floats as integers in their order."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    sign = np.int64(-1) << (8 * x.dtype.itemsize - 1)
    return np.where(bits < 0, sign - bits, bits)


def _worst(op: Op, got: np.ndarray, expected: np.ndarray, bad: np.ndarray) -> str:
    return f"{op}: got {got[bad][:5]}, expected {expected[bad][:5]} at {np.argwhere(bad)[:5]}"


class Spy:
    """Hands operations on to a backend and keeps those that kernels know."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.seen: list[tuple[Op, Sequence[Any], tuple[Handle, ...]]] = []
        self.execute: Callable[..., Any] = backend.execute

    def __call__(self, op: Op, inputs: Sequence[Any]) -> tuple[Handle, ...]:
        out: tuple[Handle, ...] = self.execute(op, inputs)
        name = op.operation.name
        if (
            name in RULES
            and name != "reshape"
            and can_lower(op, [Aval(x.shape, x.dtype) for x in inputs])
        ):
            self.seen.append((op, list(inputs), out))
        return out


def tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return it.asarray(value, device="numpy")
    return value


def check_samples(machine: Any, name: str, dtype: str, spy: Spy) -> None:
    """The operations that the room's samples run."""
    operation = OPERATIONS[name]
    assert operation.samples is not None
    assert operation.public is not None
    spy.seen.clear()
    with it.device("numpy"):
        for sample in operation.samples(Draw(0, dtype)):
            args = [tensors(a) for a in sample.args]
            kwargs = {k: tensors(a) for k, a in sample.kwargs.items()}
            operation.public(*args, **kwargs)
    for op, inputs, out in spy.seen:
        aval = Aval(out[0].shape, out[0].dtype)
        given = [x if isinstance(x, Scalar) else spy.backend.download(x) for x in inputs]
        check(op, run(machine, op, given, aval), spy.backend.download(out[0]))


SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-40, -1e-40, 1e30, -7.25e5,
          np.inf, -np.inf, np.nan, 3.4e38, 1e-38, 0.9999, 1.0001, 88.0, -104.0, 710.0, 2.0**24,
          100.0),
}  # fmt: skip


def hard_values(dtype: str) -> np.ndarray:
    """Values at which things go wrong, and some random ones."""
    d = as_dtype(dtype)
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return np.array([False, True])
    if d.is_floating:
        bits = rng.integers(0, 1 << 8 * d.itemsize - 1, 40, dtype=np.uint64) * 2 + 1
        some = bits.astype(f"u{d.itemsize}").view(d.dtype)
        with np.errstate(over="ignore"):
            return np.concatenate([np.array(SPECIAL["f"]).astype(d.dtype), some])
    info = np.iinfo(d.dtype)
    near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 31, 63, 64, 65, 100]
    near += [-1, -2, -3, -7, -64] if info.min else []
    return np.concatenate(
        [
            np.array([n for n in near if n <= info.max], d.dtype),
            rng.integers(info.min, info.max, 20, d.dtype),
        ]
    )


def check_hard_values(machine: Any, name: str, dtype: str, spy: Spy) -> None:
    """Each hard value, or each pair of them."""
    if name in CREATIONS | {"astype", "bitcast", "where", "clip"}:
        return
    operation = OPERATIONS[name]
    values = hard_values(dtype)
    if len(operation.tensors) == 1:
        inputs = [values]
    else:
        inputs = [m.reshape(-1).copy() for m in np.meshgrid(values, values)]
    if name == "pow" and as_dtype(dtype).is_integer:
        inputs[1] = np.maximum(inputs[1], max(-100, values.min()))  # abs(-128) is no int8
    op = operation.op()
    aval = infer(op, [Aval(x.shape, as_dtype(dtype)) for x in inputs])[0]
    handles = [spy.backend.upload(x) for x in inputs]
    expected = spy.backend.download(spy.execute(op, handles)[0])
    check(op, run(machine, op, inputs, aval), expected)


SHORT = {name for name in RULES if name.startswith("short_")}
"""Exact to the places of half types alone, all of which are tried elsewhere."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(set(RULES) - SHORT - {"reshape"}))
def test_every_dtype(machine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples and hard values in one test, since most of them run the same kernels."""
    backend = backend_of("numpy")
    spy = Spy(backend)
    monkeypatch.setattr(backend, "execute", spy, raising=False)
    failed, taken = [], 0
    for dtype in DTYPES:
        for checked in (check_samples, check_hard_values):
            try:
                checked(machine, name, dtype, spy)
            except it.errors.DTypeError:
                continue  # the operation takes no such dtype
            except AssertionError as error:
                failed.append(f"{checked.__name__} in {dtype}: {error}")
            taken += 1
    assert not failed, "\n".join(failed)
    assert taken


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", DTYPES)
def test_casts(machine: Any, source: str) -> None:
    backend = backend_of("numpy")
    for to in DTYPES:
        values = hard_values(source)
        op = OPERATIONS["astype"].op(dtype=as_dtype(to))
        aval = Aval(values.shape, as_dtype(to))
        expected = backend.download(backend.execute(op, [backend.upload(values)])[0])
        check(op, run(machine, op, [values], aval), expected)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("native", [True, False])
def test_every_half_number_is_widened_and_narrowed(machine: Any, half: str, native: bool) -> None:
    b = CodeBuilder(exact=True)
    wide = b.cast(b.load(0, half), "float32")
    code, roots = b.finish(wide, b.cast(wide, half))
    operands = [Operand(half), Operand("float32", True), Operand(half, True)]
    nest = map_nest(0, operands, [], code, (1, roots[0]), (2, roots[1]))
    target = machine.target if native else machine.target._replace(half=False)
    x = np.arange(1 << 16, dtype=np.uint16).view(as_dtype(half).dtype)
    wide_out, back = np.empty(1 << 16, np.float32), np.empty_like(x)
    machine.kernel(nest, target)(x, wide_out, back)
    expected = x.astype(np.float32)
    number = ~np.isnan(expected)
    assert (wide_out.view(np.uint32) == expected.view(np.uint32))[number].all()
    assert (back.view(np.uint16) == x.view(np.uint16))[number].all()
    assert np.isnan(wide_out[~number]).all()
    assert np.isnan(back[~number].astype(np.float32)).all()


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("native", [True, False])
def test_halves_are_rounded_once(machine: Any, half: str, source: str, native: bool) -> None:
    if native and half == "bfloat16":
        pytest.skip("no target has it")
    # Between two neighbours: the middle, and a little off it.
    low = np.arange(0, (1 << 16) - 1, 7, dtype=np.uint16)
    with np.errstate(all="ignore"):
        halves = [x.view(as_dtype(half).dtype) for x in (low, low + np.uint16(1))]
        a, c = (x.astype(np.float64) for x in halves)
        middle = (a + c) / 2
        off = (
            np.spacing(middle)
            if source == "float64"
            else np.spacing(middle.astype("f")).astype("d")
        )
        x = np.concatenate([middle, middle + off, middle - off, a, a * 1e10, a * 1e-10])
        x = x.astype(source)
        x = x[np.isfinite(x)]
        expected = x.astype(as_dtype(half).dtype)
    b = CodeBuilder(exact=True)
    code, (root,) = b.finish(b.cast(b.load(0, source), half))
    nest = map_nest(0, [Operand(source), Operand(half, True)], [], code, (1, root))
    out = np.empty(len(x), expected.dtype)
    machine.kernel(nest, machine.target._replace(half=native))(x, out)
    number = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(out[number].view(np.uint16), expected[number].view(np.uint16))


def test_fused_half_arithmetic_rounds_once_at_the_end(machine: Any) -> None:
    def code(exact: bool) -> tuple[Any, ...]:
        b = CodeBuilder(exact=exact)
        x = b.load(0, "float16")
        op = OPERATIONS["multiply"].op()
        for _ in range(3):
            x = lower(op, b, [x, b.load(0, "float16")], Aval((1,), it.float16))
        return b.finish(x)

    x = np.random.default_rng(0).uniform(0.5, 2, 1000).astype(np.float16)
    results = []
    for exact in (False, True):
        instructions, (root,) = code(exact)
        nest = map_nest(
            0, [Operand("float16"), Operand("float16", True)], [], instructions, (1, root)
        )
        out = np.empty_like(x)
        machine.kernel(nest)(x, out)
        results.append(out)
    np.testing.assert_array_equal(results[1], x * x * x * x)
    exact = x.astype(np.float64) ** 4
    errors = [abs(r - exact).max() for r in results]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("draw", [random_bits, random_pairs])
def test_random_bits_are_those_of_the_numpy_backend(machine: Any, draw: Any) -> None:
    place = (0x0123456789ABCDEF, (1 << 32) - 3)
    drawn = draw((5, 7), place, device="numpy")
    op = OPERATIONS[draw.__name__].op(shape=(5, 7))
    words = (place[0] & 0xFFFFFFFF, place[0] >> 32, place[1] & 0xFFFFFFFF, place[1] >> 32)
    got = run(machine, op, [Scalar(w, it.uint32) for w in words], Aval((5, 7), drawn.dtype))
    expected = drawn.numpy()
    np.testing.assert_array_equal(got, expected)
