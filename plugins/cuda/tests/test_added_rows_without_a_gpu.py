"""Products to each row of which cuBLASLt adds one, on a GPU played by the processor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile, explain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`."""
    return opened(HostGpu(folder), PLAYED, monkeypatch)


def given(*shapes: tuple[int, ...], dtype: Any = np.float16) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def there(arrays: list[Any]) -> list[it.Tensor]:
    return [it.asarray(a, device=PLAYED) for a in arrays]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_bias_is_the_librarys(backend: HostBackend, dtype: str, transposed: bool) -> None:
    """The sum is rounded once; again in a graph, and with images of rows as batch."""
    x, w, bias = given((2, 5, 16), (16, 24) if transposed else (24, 16), (24,), dtype=np.float32)
    halves = [it.astype(t, dtype) for t in there([x, w, bias])]

    @compile
    def f(x: it.Tensor, w: it.Tensor, bias: it.Tensor) -> it.Tensor:
        return it.linear(x, it.permute_dims(w, (1, 0)) if transposed else w, bias)

    results = [f(*halves) for _ in range(4)]
    assert backend.gpu.counts["added a row"]
    assert not backend.gpu.counts["multiplied"]
    x, w, bias = (it.astype(t, "float32").numpy() for t in halves)
    wanted = it.astype(it.asarray(x @ (w if transposed else w.T) + bias, device="numpy"), dtype)
    exact = it.astype(wanted, "float32").numpy()
    for found in results:
        np.testing.assert_allclose(it.astype(found, "float32").numpy(), exact, rtol=1e-2)


def test_operands_that_begin_anywhere(backend: HostBackend) -> None:
    """The library is asked for another way than that of multiples of 16 bytes."""
    rows, w, bias = given((10 * 16 + 3,), (24, 16), (24 + 1,))
    f = compile(lambda x, w, bias: it.linear(x, w, bias))
    x, weight, added = there([rows, w, bias])
    for n in (0, 1, 2, 3):
        for k in (0, 1):
            found = f(it.reshape(x[n : n + 160], (10, 16)), weight, added[k : k + 24])
            one, two = (a.astype(np.float32) for a in (rows[n : n + 160].reshape(10, 16), w))
            wanted = one @ two.T + bias[k : k + 24]
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-2, atol=1e-2)
    assert backend.gpu.counts["added a row"]


def test_what_goes_on_with_rounded_sums_reads_these(backend: HostBackend) -> None:
    """An activation whose gradient needs what it was computed from: both are stored."""
    arrays = given((6, 16), (24, 16), (24,), (6, 24))

    def gelu(x: it.Tensor, w: it.Tensor, bias: it.Tensor, _: it.Tensor) -> list[it.Tensor]:
        found = it.linear(x, w, bias)
        return [found, it.gelu(found) * 2.0]

    def gated(x: it.Tensor, w: it.Tensor, bias: it.Tensor, gate: it.Tensor) -> list[it.Tensor]:
        """With what might lie in the memory that the library writes: a kernel apart reads both."""
        found = it.linear(x, w, bias)
        return [found, it.tanh(found) * gate]

    def scaled(x: it.Tensor, w: it.Tensor, bias: it.Tensor, _: it.Tensor) -> list[it.Tensor]:
        return [it.linear(x, w, bias) * 2.0]

    def unrounded(x: it.Tensor, w: it.Tensor, bias: it.Tensor, _: it.Tensor) -> list[it.Tensor]:
        found = it.astype(it.matmul(x, it.permute_dims(w, (1, 0))), "float32")
        return [it.astype(found, "float16"), found + it.astype(bias, "float32")]

    for f, counted in ((gelu, 4), (gated, 8), (scaled, 12), (unrounded, 12)):
        compiled = compile(lambda *x, f=f: f(*x))
        wanted = f(*[it.asarray(a.astype(np.float64), device="numpy") for a in arrays])
        for _ in range(4):
            for one, other in zip(compiled(*there(arrays)), wanted, strict=True):
                right = other.numpy().astype(np.float64)
                np.testing.assert_allclose(one.numpy(), right, rtol=1e-2, atol=2e-2)
        assert backend.gpu.counts["added a row"] == counted


def test_a_residual_sum_is_computed_where_a_norm_folds_it(backend: HostBackend) -> None:
    """It is stored there, too, for what reads it later."""
    rng = np.random.default_rng(0)
    shapes = (2, 4, 256), (2, 4, 16), (256, 16), (256,), (256,), (256,)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    def block(*given: it.Tensor) -> list[it.Tensor]:
        with it.precision("float16"):
            found = given[0] + it.linear(*given[1:4])
            return [found, it.layer_norm(found, (256,), *given[4:])]

    steps = explain(compile(block), *there(arrays), runs=0).steps
    (norm,) = [step.operations for step in steps if "rsqrt" in step.operations]
    assert "add" in norm[: norm.index("sum")]
    assert all(
        set(s.operations) <= {"astype"} for s in steps if s.kind == "nest" and s.operations != norm
    )
    wanted = block(*[it.asarray(a.astype(np.float64), device="numpy") for a in arrays])
    for one, other in zip(compile(block)(*there(arrays)), wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("way", ["columns", "float32", "batch", "refused"])
def test_what_is_a_kernel_of_its_own(backend: HostBackend, way: str) -> None:
    dtype: Any = np.float32 if way == "float32" else np.float16
    x, w, bias = given((6, 16), (16, 24), (24,), dtype=dtype)
    if way == "columns":
        bias = given((6, 1), dtype=dtype)[0]
    if way == "batch":
        x, w = given((3, 6, 16), (3, 16, 24), dtype=dtype)
    if way == "refused":
        backend.gpu.fails["cublasLtMatmulAlgoGetHeuristic"] = 15

    def f(x: it.Tensor, w: it.Tensor, bias: it.Tensor) -> it.Tensor:
        return it.matmul(x, w) + bias

    found = compile(f)(*there([x, w, bias]))
    wanted = f(*[it.asarray(a.astype(np.float64), device="numpy") for a in (x, w, bias)])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-2, atol=2e-2)
    assert not backend.gpu.counts["added a row"]


def test_what_the_library_answers_is_told(backend: HostBackend) -> None:
    backend.gpu.fails["cublasLtMatmulAlgoGetHeuristic"] = 14
    x, w, bias = there(given((6, 16), (24, 16), (24,)))
    with pytest.raises(it.errors.BackendError, match=r"AlgoGetHeuristic answers INTERNAL_ERROR"):
        compile(it.linear)(x, w, bias).numpy()
