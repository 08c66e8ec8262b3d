"""Operations of one's own with kernels of one's own: in eager code, recorded, and compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import fusion
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, Row
from ingle.fusion.runtime import custom_kernels
from ingle.fusion.runtime.custom_kernels import CustomKernel, nest_kernel, register_kernel
from ingle.tensor.device import backend_of
from ingle.tensor.dispatch import call2, handle_of, run1
from ingle.tensor.operation import OPERATIONS, Operation, Traits
from ingle_cpu.jit.engine import KernelCompileError

IN_LLVM = """
define void @scaled(ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %x = load ptr, ptr %pointers
  %out_slot = getelementptr ptr, ptr %pointers, i64 1
  %out = load ptr, ptr %out_slot
  %bits = load i64, ptr %args
  %low = trunc i64 %bits to i32
  %factor = bitcast i32 %low to float
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %out, i64 %i
  %value = load float, ptr %from
  %result = fmul float %value, %factor
  store float %result, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def scaled(x: it.Tensor, factor: float) -> it.Tensor:
    """x times a number."""
    return call2(SCALED.op(), x, factor)


def unit(x: it.Tensor) -> it.Tensor:
    """Each row divided by its length."""
    return run1(UNIT.op(), handle_of(x, "own_unit"))


def unit_gradient(g: it.Tensor, out: it.Tensor, x: it.Tensor) -> it.Tensor:
    along = it.sum(g * out, axis=-1, keepdims=True)
    return (g - out * along) / it.sqrt(it.sum(x * x, axis=-1, keepdims=True))


@pytest.fixture(autouse=True)
def operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    global SCALED, UNIT
    SCALED = Operation(
        "own_scaled", tensors=("x", "factor"), rule=lambda x, factor: x,
        traits=Traits("opaque"), body=lambda x, factor: x * factor, public=scaled,
        vjp={"x": lambda g, factor: scaled(g, factor)},
    )  # fmt: skip
    UNIT = Operation(
        "own_unit", tensors=("x",), rule=lambda x: x, traits=Traits("opaque"), public=unit,
        body=lambda x: x / it.sqrt(it.sum(x * x, axis=-1, keepdims=True)),
        vjp={"x": unit_gradient},
    )  # fmt: skip
    monkeypatch.setattr(custom_kernels, "_writers", {})
    yield
    del OPERATIONS["own_scaled"], OPERATIONS["own_unit"]


def unit_nest() -> Nest:
    b = CodeBuilder()
    x = b.load(0, "float32")
    squares, (square,) = b.finish(b.append("mul", "float32", (x, x)))
    b = CodeBuilder()
    once, (factor,) = b.finish(
        b.append("rsqrt", "float32", (b.append("result", "float32", (), (0, 0)),))
    )
    b = CodeBuilder()
    length = b.append("row", "float32", (), (1, 0))
    body, (out,) = b.finish(b.append("mul", "float32", (b.load(0, "float32"), length)))
    return Nest(
        1, (Operand("float32"), Operand("float32", output=True)), (),
        (Reduce(squares, (("sum", square),)), Row(once, values=(factor,)), Map(body, ((1, out),))),
    )  # fmt: skip


def unit_as_nest(op: Any, avals: Any) -> CustomKernel | None:
    (x,) = avals
    if x.dtype.name != "float32" or len(x.shape) != 2:
        return None
    return nest_kernel(unit_nest(), x.shape, x.shape, x.shape)


def scaled_in_llvm(op: Any, avals: Any) -> CustomKernel | None:
    x, factor = avals
    if x.dtype.name != "float32" or factor.shape:
        return None
    return CustomKernel(IN_LLVM, (), int(np.prod(x.shape)), "scaled")


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def units(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x.astype(float), axis=-1, keepdims=True)


def function(x: it.Tensor) -> it.Tensor:
    return it.sum(scaled(unit(x + 1.0), 3.0) * x)


@pytest.mark.parametrize("shape", [(5, 7), (400, 300), (1, 1)])
def test_alone_recorded_and_compiled(shape):
    register_kernel(UNIT, "nest", unit_as_nest)
    register_kernel(SCALED, "llvm", scaled_in_llvm)
    x = draw(*shape)
    alone = unit(it.asarray(x)).numpy()
    np.testing.assert_allclose(alone, units(x), rtol=3e-6)
    np.testing.assert_allclose(scaled(it.asarray(x), -2.5).numpy(), x * np.float32(-2.5))
    expected = float((3 * units(x + 1) * x).sum())
    a, compiled = it.asarray(x), fusion.compile(function)
    for _ in range(3):
        assert function(a).item() == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert compiled(a).item() == pytest.approx(expected, rel=1e-4, abs=1e-4)
    kinds = [s.kind for s in fusion.explain(function, a).steps]
    assert kinds.count("host") == 2
    backend: Any = backend_of("cpu")
    op, aval = UNIT.op(), a._handle
    assert backend.inner.road(op, [aval]) == "native"
    np.testing.assert_array_equal(unit(a.T.mT).numpy(), alone)


def test_shapes_that_the_writer_leaves_run_by_the_body():
    register_kernel(UNIT, "nest", unit_as_nest)
    for x in (draw(3, 4, 5), draw(4, 5).astype(np.float64)):
        np.testing.assert_allclose(unit(it.asarray(x)).numpy(), units(x), rtol=3e-6)
    kinds = [s.kind for s in fusion.explain(unit, it.asarray(draw(3, 4, 5))).steps]
    assert set(kinds) == {"nest"}
    assert unit(it.zeros((0, 4))).shape == (0, 4)


def test_gradients_and_compiled_gradients():
    register_kernel(UNIT, "nest", unit_as_nest)
    register_kernel(SCALED, "llvm", scaled_in_llvm)

    def gradient(x: it.Tensor) -> it.Tensor:
        tracked = x.require_grad()
        return function(tracked).sum().backward()[tracked]

    x = draw(6, 9)
    with it.device("numpy"):
        expected = gradient(it.asarray(x)).numpy()
    a, compiled = it.asarray(x), fusion.compile(gradient)
    for _ in range(3):
        np.testing.assert_allclose(gradient(a).numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(compiled(a).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_kernel_that_is_registered_late_is_taken_by_plain_code():
    x = draw(2, 3)
    for _ in range(30):
        np.testing.assert_array_equal(scaled(it.asarray(x), 2.0).numpy(), x * np.float32(2))

    def adding(op: Any, avals: Any) -> CustomKernel:
        return CustomKernel(IN_LLVM.replace("fmul", "fadd"), (), x.size, "scaled")

    register_kernel(SCALED, "llvm", adding)
    for _ in range(30):
        np.testing.assert_array_equal(scaled(it.asarray(x), 2.0).numpy(), x + np.float32(2))


def test_threads_run_it_side_by_side():
    register_kernel(SCALED, "llvm", scaled_in_llvm)
    x = draw(300, 400)
    results: dict[int, np.ndarray] = {}

    def work(n: int) -> None:
        a = it.asarray(x)
        for _ in range(20):
            results[n] = scaled(a, float(n)).numpy()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in range(4):
        np.testing.assert_array_equal(results[n], x * np.float32(n))


def test_a_source_that_does_not_compile_is_an_error():
    def broken(op: Any, avals: Any) -> CustomKernel:
        return CustomKernel("define void @scaled() { nonsense }", (), 1, "scaled")

    register_kernel(SCALED, "llvm", broken)
    with pytest.raises(KernelCompileError, match="LLVM does not accept the module of scaled"):
        scaled(it.asarray(draw(2)), 2.0).numpy()
