"""Backends that only compile and launch: single operations, movement, products, own kernels."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.fusion as fusion
import ingle.tensor as it
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Operand, map_nest
from ingle.fusion.runtime import kernel_backend
from ingle.fusion.runtime.custom_kernels import (
    CustomKernel,
    nest_kernel,
    register_kernel,
    register_lowering,
)
from ingle.tensor import plugins
from ingle.tensor.contract import Scalar
from ingle.tensor.device import Device, backend_of
from ingle.tensor.dispatch import handle_of, run1, wrap
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.eager import HostFallbackWarning
from ingle.tensor.errors import BackendError, OutOfRangeError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.operation import OPERATIONS, Operation, Traits
from ingle.testkit.bits import same_bits

SOURCE = Path(__file__).parents[4] / "examples" / "third_party_compiler" / "src"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
os.environ.setdefault("INGLE_GCC_FLAGS", "-O1")


class Plugin:
    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {"gcc": "ingle_gcc.plugin:description"}


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    sys.path.insert(0, str(SOURCE))
    plugins.register("gcc", Plugin())
    yield
    plugins.unregister("gcc")
    sys.path.remove(str(SOURCE))


@pytest.fixture
def bare() -> Any:
    """The backend without fusion."""
    from ingle_gcc.backend import GccBackend

    return GccBackend(Device("gcc"))


def draw(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(len(shape) + sum(shape))
    return (rng.normal(size=shape) * 4).astype(dtype)


def tensor(bare: Any, array: np.ndarray) -> it.Tensor:
    """On the backend itself, so that each operation runs alone."""
    return wrap(bare.upload(array))


@pytest.mark.slow
def test_operations_run_alone(bare: Any) -> None:
    x, y = draw(5, 7), draw(7)
    a, b = tensor(bare, x), tensor(bare, y)
    np.testing.assert_allclose((a * b + 1.5).numpy(), x * y + np.float32(1.5))
    np.testing.assert_allclose(it.exp(a).numpy(), np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(it.argmax(a, axis=0).numpy(), x.argmax(0))
    np.testing.assert_array_equal(it.where(a > 0, a, b).numpy(), np.where(x > 0, x, y))
    shifted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        it.softmax(a, axis=1).numpy(), shifted / shifted.sum(1, keepdims=True), rtol=1e-6
    )
    assert not bare.host_fallbacks


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("axis", [(0, 2), (0, 3), (1, 3), (0, 2, 3), (0, 1, 3), None])
@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions_of_axes_that_are_not_neighbours(bare: Any, axis: Any, keepdims: bool) -> None:
    x = draw(3, 4, 5, 6)
    a = tensor(bare, x)
    for name in ("sum", "max", "min"):
        got = getattr(it, name)(a, axis=axis, keepdims=keepdims)
        expected = getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6, atol=1e-5)
    half = tensor(bare, x.astype(np.float16))
    wide = x.astype(np.float16).astype(np.float64).sum(axis, keepdims=keepdims)
    np.testing.assert_array_equal(
        it.sum(half, axis=axis, keepdims=keepdims).numpy(), wide.astype(np.float16)
    )
    assert not bare.host_fallbacks


SHAPES = [
    ((3, 4), (4, 5)),
    ((1, 1), (1, 1)),
    ((130, 7), (7, 200)),
    ((6, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((3, 200), (200, 1)),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_matrix_products_are_nests(bare: Any, shapes: Any, dtype: str) -> None:
    x, y = (draw(*s, dtype=dtype) for s in shapes)
    got = it.matmul(tensor(bare, x), tensor(bare, y)).numpy()
    assert got.dtype == dtype
    expected = np.matmul(x.astype(np.float64), y.astype(np.float64))
    tolerance = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3}.get(dtype, 0)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 100)
    assert not bare.host_fallbacks


def test_a_product_is_never_in_memory() -> None:
    with it.device("gcc"):
        x, w, b = (it.asarray(draw(*s)) for s in ((33, 20), (20, 60), (60,)))

        def layer(x: it.Tensor) -> it.Tensor:
            return it.relu(it.exp(x) @ w + b)

        told, wide = fusion.explain(layer, x), x.numpy().astype(np.float64)
        assert [s.kind for s in told.steps] == ["nest", "nest"]  # exp, and the rest
        assert told.arena <= 33 * 20 * 4 + 64
        expected = np.maximum(np.exp(wide) @ w.numpy() + b.numpy(), 0)
        np.testing.assert_allclose(fusion.compile(layer)(x).numpy(), expected, rtol=1e-5, atol=0.01)


def test_movement_is_views_and_copies(bare: Any) -> None:
    x = draw(4, 5, 6)
    a = tensor(bare, x)
    np.testing.assert_array_equal(a[1:3, ::-2, 2].numpy(), x[1:3, ::-2, 2])
    np.testing.assert_array_equal(it.permute_dims(a, (2, 0, 1)).numpy(), x.transpose(2, 0, 1))
    flat = it.reshape(it.permute_dims(a, (2, 0, 1)), (6, 20))
    np.testing.assert_array_equal(flat.numpy(), x.transpose(2, 0, 1).reshape(6, 20))
    np.testing.assert_array_equal(it.concat([a, a[:, 1:2]], axis=1).numpy(),
                                  np.concatenate([x, x[:, 1:2]], axis=1))  # fmt: skip
    assert not bare.host_fallbacks


@pytest.mark.slow
def test_scatters_and_pieces_at_computed_places_are_kernels(bare: Any) -> None:
    x, u, i = draw(6, 5), draw(3, 5), np.array([1, -1, 1])
    expected = x.copy()
    np.add.at(expected, i, u)
    a, b, at = tensor(bare, x), tensor(bare, u), tensor(bare, i)
    np.testing.assert_array_equal(it.scatter_add(a, at, b).numpy(), expected)
    np.testing.assert_array_equal(it.scatter_set(a, at, b)[1].numpy(), u[2])
    np.testing.assert_array_equal(it.slice_update(a, b, (at[0], 0))[1:4].numpy(), u)
    with pytest.raises(OutOfRangeError, match="scatter_add"):
        it.scatter_add(a, tensor(bare, i + 5), b)
    assert not bare.host_fallbacks
    with it.device("gcc"):
        given = [it.asarray(v) for v in (x, i, u)]

        def step(x: it.Tensor, i: it.Tensor, u: it.Tensor) -> it.Tensor:
            table = it.scatter_add(it.zeros((6, 5)), i, u * 2.0)
            row = it.slice(x, (i[0], 0), (1, 5))
            return it.slice_update(
                it.concat([table, row]), it.pad(row, ((1, 0), (0, 0))), (i[2], 0)
            )

        want = np.zeros((7, 5), np.float32)
        np.add.at(want, i + (i < 0) * 6, u * 2)
        want[6] = x[1]
        want[1], want[2] = 0, x[1]
        for _ in range(3):
            np.testing.assert_array_equal(fusion.compile(step)(*given).numpy(), want)
        assert {s.kind for s in fusion.explain(step, *given, runs=0).steps} == {"nest"}


@pytest.mark.slow
def test_views_of_any_dtype_and_rank_are_copied(bare: Any) -> None:
    for dtype in ("bool", "int8", "bfloat16", "complex64", "complex128", "float8_e4m3fn"):
        x = draw(3, 4).astype(as_dtype(dtype).dtype)
        a = tensor(bare, x)
        assert same_bits(it.matrix_transpose(a), x.T.copy())
    x = draw(2, 3, 2, 3, 2, 3, 2, 3, 2)
    order = (8, 1, 6, 3, 4, 5, 2, 7, 0)
    moved = it.permute_dims(tensor(bare, x), order)
    np.testing.assert_array_equal(moved.numpy(), x.transpose(order))


def test_a_piece_outside_is_an_error(bare: Any) -> None:
    handle = bare.upload(draw(5))
    op = OPERATIONS["slice"].op(sizes=(3,), steps=(1,))
    with pytest.raises(OutOfRangeError, match="slice: 3 elements from 4"):
        bare.execute(op, [handle, Scalar(4, it.int64)])


def test_nothing_is_computed_for_no_elements(bare: Any) -> None:
    a = tensor(bare, np.zeros((0, 3), np.float32))
    assert it.exp(a + 1.0).shape == (0, 3)
    assert it.concat([a, a], axis=1).shape == (0, 6)
    assert not bare.host_fallbacks


def test_what_is_not_generated_is_announced(bare: Any) -> None:
    with pytest.warns(HostFallbackWarning, match="argsort"):
        assert it.argsort(tensor(bare, np.array([3.0, 1.0, 2.0]))).tolist() == [1, 2, 0]
    assert bare.host_fallbacks["argsort"] == 1


# Own kernels ------------------------------------------------------------------------------------


def triple(x: Any) -> it.Tensor:
    return run1(TRIPLE.op(), handle_of(x, "triple"))


TRIPLE = Operation(
    "triple_for_tests", tensors=("x",), rule=lambda x: x,
    traits=Traits("elementwise", family="unary"), vjp={"x": lambda g: g * 3.0},
    body=lambda x: x * 3, public=triple,
)  # fmt: skip
# What belongs to these tests alone is no operation for others to check.
del OPERATIONS["triple_for_tests"]

IN_C = """
#include <stdint.h>
void triple(void **pointers, const int64_t *args, int64_t begin, int64_t end, int64_t worker)
{
    const float *x = pointers[0];
    float *out = pointers[1];
    (void)args, (void)worker;
    for (int64_t i = begin; i < end; i++)
        out[i] = 3 * x[i];
}
"""


def tripling_nest() -> Any:
    b = CodeBuilder()
    product = b.append("mul", "float64", (b.load(0, "float64"), b.constant(3, "float64")))
    code, (root,) = b.finish(product)
    return map_nest(0, [Operand("float64"), Operand("float64", True)], [], code, (1, root))


@pytest.fixture
def own() -> Iterator[None]:
    from ingle.fusion.runtime import custom_kernels

    def in_c(op: Any, avals: Any) -> CustomKernel | None:
        (x,) = avals
        if x.dtype.name != "float32":
            return None
        return CustomKernel(IN_C, (), int(np.prod(x.shape)), "triple")

    def as_nest(op: Any, avals: Any) -> CustomKernel | None:
        (x,) = avals
        size = (int(np.prod(x.shape)),)
        return nest_kernel(tripling_nest(), size, size, size) if x.dtype.name == "float64" else None

    register_kernel(TRIPLE, "c", in_c)
    register_kernel(TRIPLE, "nest", as_nest)
    yield
    for language in ("c", "nest"):
        del custom_kernels._writers[TRIPLE.name, language]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_own_kernels_run_between_generated_ones(own: None, dtype: str) -> None:
    x = draw(3, 50, dtype=dtype)
    with it.device("gcc"):
        a = it.asarray(x)

        def f(a: it.Tensor) -> it.Tensor:
            return it.sum(triple(a + 1) * 2, axis=0)

        expected = ((x + 1) * 3 * 2).sum(0)
        compiled = fusion.compile(f)
        for _ in range(3):
            np.testing.assert_allclose(compiled(a).numpy(), expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(f(a).numpy(), expected, rtol=1e-5, atol=1e-5)
        kinds = [s.kind for s in fusion.explain(f, a).steps]
    kernels = [k for k in backend_of("gcc").inner._kernels if k == IN_C]  # type: ignore[attr-defined]
    if dtype == "int32":
        assert kinds == ["nest"]  # nobody wrote one: the body fuses
    else:
        assert kinds == ["nest", "host", "nest"]
    assert len(kernels) == 1 or dtype != "float32"


def test_kernels_that_nobody_asks_for_go(bare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_backend, "MOST_KERNELS", 3)
    made: list[str] = []
    monkeypatch.setattr(
        bare, "compile_source", lambda text, name: made.append(text) or text.upper()
    )
    for text in ("a", "b", "c", "a", "d", "a", "b"):  # b goes for d: c is used before a
        assert bare.kernel(text) == text.upper()
        assert len(bare._kernels) <= 3
    assert made == ["a", "b", "c", "d", "b"]


@pytest.mark.slow
def test_own_kernels_are_differentiated(own: None) -> None:
    with it.device("gcc"):
        x = it.asarray(draw(4)).require_grad()
        loss = it.sum(triple(x) ** 2)
        np.testing.assert_allclose(loss.backward()[x].numpy(), 18 * x.detach().numpy(), rtol=1e-6)


@pytest.mark.slow
def test_an_own_lowering_fuses() -> None:
    register_lowering(TRIPLE, lambda x: x * 3.0)
    try:
        for dtype in ("float32", "float16"):
            x = draw(3, 50, dtype=dtype)
            with it.device("gcc"):
                a = it.asarray(x)
                told = fusion.explain(lambda a: triple(it.exp(a)), a)
                assert [s.name for s in told.steps] == ["exp triple_for_tests"]
                got = fusion.compile(lambda a: triple(a))(a).numpy()
            np.testing.assert_array_equal(got, x * np.array(3, dtype))
    finally:
        from ingle.fusion.kernel import lowering

        del lowering.RULES["triple_for_tests"]


@pytest.mark.slow
def test_nothing_but_the_backend_reads_its_memory() -> None:
    """Addresses may mean nothing to the host: here all are off by some terabytes."""
    from ingle_gcc.backend import GccBackend, Memory

    far = 1 << 44

    class FarBackend(GccBackend):
        def allocate(self, nbytes: int) -> Memory:
            memory = Memory(nbytes)
            memory.address += far
            return memory

        def write(self, address: int, array: np.ndarray) -> None:
            super().write(address - far, array)

        def read(self, address: int, array: np.ndarray) -> None:
            super().read(address - far, array)

        def launch(self, kernel: Any, pointers: Any, args: Any, begin: int, end: int) -> None:
            super().launch(kernel, [p - far for p in pointers], args, begin, end)

    table, backend = draw(20, 3), FarBackend(Device("gcc")).fusion
    x, at = (wrap(backend.upload(a)) for a in (table, np.array([1, -20, 19])))
    two = wrap(backend.upload(np.array([1, 1, 2])))
    for _ in range(3):
        got = it.sum(it.take(x, at, axis=0) * 2.0, axis=1)
        np.testing.assert_allclose(got.numpy(), (table[[1, 0, 19]] * 2).sum(1), rtol=1e-5)
        with pytest.raises(OutOfRangeError, match="outside of -20 to 19"):
            it.exp(it.take(x, at * two, axis=0)).numpy()


def test_a_kernel_that_does_not_compile_is_named(monkeypatch: Any) -> None:
    from ingle_gcc.backend import GccBackend

    backend = GccBackend(Device("gcc")).fusion
    values = draw(7)

    def f() -> np.ndarray:
        return (it.sinh(wrap(backend.upload(values))) * 3.25).numpy()

    with monkeypatch.context() as patch:
        patch.setattr(GccBackend, "source", lambda self, nest: "no C at all")
        with pytest.raises(BackendError, match=r"\[sinh\] cannot be compiled: gcc"):
            f()
    for _ in range(3):
        np.testing.assert_allclose(f(), np.sinh(values) * np.float32(3.25), rtol=1e-5)


def test_numbers_that_only_the_host_reads() -> None:
    """A complex number goes to a step of the host, beside kernels that read other numbers."""
    x = it.asarray(np.array([1 + 2j, 3, 0], np.complex64), device="gcc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallbackWarning)
        for _ in range(2):
            assert (x != 3).tolist() == [True, False, True]
            found = it.astype(x != (1 + 2j), it.float32) * 2.5
            assert found.tolist() == [0.0, 2.5, 2.5]


def test_plans_of_single_operations_make_room_for_others(bare: Any, monkeypatch: Any) -> None:
    from ingle.fusion.runtime import kernel_backend

    monkeypatch.setattr(kernel_backend, "MOST_ALONE", 5)
    op = OPERATIONS["sin"].op()
    often = bare.upload(np.ones(3, np.float32))
    first = bare.execute(op, [often])
    plan = next(iter(bare._alone.values()))
    for n in range(4, 24):
        (got,) = bare.execute(op, [bare.upload(np.full(n, 0.5, np.float32))])
        np.testing.assert_allclose(bare.download(got), np.full(n, np.sin(0.5)), rtol=1e-6)
        bare.execute(op, [often])
        assert len(bare._alone) <= 5
    assert plan in bare._alone.values()
    assert len(first) == 1
