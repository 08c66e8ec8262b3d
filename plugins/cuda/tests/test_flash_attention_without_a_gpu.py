"""Attention of many queries by its own kernels: they compile, and a GPU played by the processor
finds what formulas find in float64."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_oracle import check, drawn, exact
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype, bool_
from ingle.tensor.errors import BackendError
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT, attention_gradient
from ingle.testkit.bits import same_bits
from ingle_cuda.attention import flash_attention_source, flash_gradient_source
from ingle_cuda.attention.flash_attention import (
    FlashAttention,
    Problem,
    launches_of,
    problem_of,
    rows_of_thread,
)
from ingle_cuda.attention.flash_tiles import FlashShape
from ingle_cuda.driver import compiler, libraries

PLAYED = "played"

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`, which takes attention by these kernels alone."""
    made = opened(HostGpu(folder), PLAYED, monkeypatch)
    made.offers = (FlashAttention(made),)
    return made


# What is taken, and how it is cut -----------------------------------------------------------


def problem(
    query: Sequence[int], key: Sequence[int], value: Sequence[int] | None = None,
    mask: Sequence[int] = (), dtype: str = "float32", operation: Any = ATTENTION, **options: Any,
) -> Problem | None:  # fmt: skip
    kind, wide = as_dtype(dtype), as_dtype("float32")
    tensors = [Aval(tuple(s), kind) for s in (query, key, value or key)]
    given = [*tensors, Aval(tuple(mask), bool_), Aval((), kind)]
    if operation is ATTENTION_GRADIENT:
        lead = np.broadcast_shapes(*[tuple(s[:-2]) for s in (query, key)])
        out = Aval((*lead, query[-2], (value or key)[-1]), kind)
        given = [out, *given, out, Aval(out.shape[:-1], wide)]
    return problem_of(operation.op(causal=options.pop("causal", False)), given, **options)


def test_what_is_taken() -> None:
    many = (2, 4, 128, 64)
    for operation in (ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT):
        assert problem(many, many, operation=operation) is not None
        assert problem(many, many, mask=(128, 128), operation=operation) is not None
        assert problem((4, 9, 257), (4, 9, 257), operation=operation) is None
        assert problem((4, 9, 5), (4, 0, 5), operation=operation) is None
        assert problem(many, many, dtype="float64", operation=operation) is None
        assert problem(many, many, dtype="bfloat16", operation=operation) is not None
        long = (2, 16, 1024, 64)
        assert problem(long, long, dtype="bfloat16", operation=operation) is None
        assert problem(long, long, operation=operation) is not None


def test_gradients_are_sums_over_heads_that_share_keys_and_over_nothing_else() -> None:
    gradient = {"operation": ATTENTION_GRADIENT}
    shared = problem((3, 4, 8, 20, 16), (3, 4, 1, 30, 16), **gradient)
    assert shared is not None
    assert (shared.batch, shared.group) == ((1, 1, 12), 8)
    assert problem((3, 4, 20, 16), (3, 4, 30, 16), **gradient) is not None
    assert problem((1, 4, 20, 16), (3, 4, 30, 16), **gradient) is None  # by_query is a sum
    assert problem((1, 4, 20, 16), (3, 4, 30, 16)) is not None
    assert problem((3, 4, 20, 16), (3, 1, 30, 16), (3, 4, 30, 5), **gradient) is None


def test_keys_that_repeat_in_memory_have_gradients_of_their_own() -> None:
    """A view of one head as many: each of them has a gradient."""
    strides = [(320, 80, 5, 1), (320, 80, 5, 1), (80, 0, 5, 1), (80, 0, 5, 1)]
    strides += [(320, 80, 5, 1), (64, 16, 1)]
    found = problem((2, 4, 16, 5), (2, 4, 16, 5), operation=ATTENTION_GRADIENT, strides=strides)
    assert found is not None
    assert (found.batch, found.group) == ((1, 2, 4), 1)


def test_blocks_fill_the_gpu() -> None:
    small, large = (problem((n, 128, 32), (n, 128, 32)) for n in (32, 512))
    assert small is not None
    assert large is not None
    assert (rows_of_thread(small, 132), rows_of_thread(large, 132)) == (2, 4)
    found = launches_of(small, 132)
    assert found is not None
    assert [(k.blocks, k.threads) for k in found.kernels] == [(32 * 8, 128)]
    gradient = problem((32, 128, 32), (32, 100, 32), operation=ATTENTION_GRADIENT)
    assert gradient is not None
    found = launches_of(gradient, 132)
    assert found is not None
    assert [(k.blocks, k.threads) for k in found.kernels] == [(32 * (8 + 7), 128)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernels_compile(dtype: str) -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    shape = FlashShape(dtype, 40, 32, 4, "bool", True, True, (4, 2, 1))
    texts = [flash_attention_source.source(shape)]
    texts.append(flash_gradient_source.source(shape._replace(vectors=(4, 4, 2, 1, 4))))
    for text in texts:
        assert compiler.machine_code(text, "sm_90")[:4] == b"\x7fELF"


# What is computed ---------------------------------------------------------------------------


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(12, slow=6)
@pytest.mark.parametrize("seed", range(24))
def test_operands_of_any_kind(backend: HostBackend, seed: int) -> None:
    arrays, dtype, options = drawn(seed)
    check(backend, PLAYED, arrays, dtype, **options)


@pytest.mark.slow
@needs_a_compiler
def test_small_heads(backend: HostBackend) -> None:
    rng = np.random.default_rng(0)
    check(
        backend, PLAYED, [rng.standard_normal((2, 20, 8)) for _ in range(4)], "float32", causal=True
    )


@needs_a_compiler
@pytest.mark.slow
def test_no_bit_depends_on_the_rows_of_a_thread(backend: HostBackend) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 90, 40)).astype(np.float32) for _ in range(4)]
    results = []
    for processors in (1000, 1):
        backend.limits = backend.limits._replace(processors=processors)
        backend.offers = (FlashAttention(backend),)
        tensors = [it.asarray(a, device=PLAYED) for a in arrays]
        found = [it.scaled_dot_product_attention(*tensors[1:], is_causal=True)]
        found += attention_gradient(*tensors, is_causal=True)
        results.append([x.numpy() for x in found])
    for one, other in zip(*results, strict=True):
        assert same_bits(one, other)


@needs_a_compiler
@pytest.mark.slow
def test_who_sees_nothing(backend: HostBackend) -> None:
    """Zeros, logarithms of zero, and no gradient."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 70, 8)) for _ in range(4)]
    seen = rng.random((70, 70)) < 0.8
    seen[3] = False
    check(backend, PLAYED, [*arrays, seen], "float32")
    hidden = np.where(seen, 0.0, -np.inf)
    check(backend, PLAYED, [*arrays, hidden], "float32")


@needs_a_compiler
@pytest.mark.slow
def test_a_score_far_below_the_next_tile(backend: HostBackend) -> None:
    """What came before is scaled down to nothing, without an overflow."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 130, 8)) for _ in range(4)]
    arrays[2][:, :64] -= 100 * np.sign(arrays[1][:, :1])
    arrays[1][:] = arrays[1][:, :1]
    check(backend, PLAYED, arrays, "float32")


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(backend: HostBackend, bad: float) -> None:
    """As by the formulas."""
    rng = np.random.default_rng(0)
    for at in range(1, 4):
        arrays = [rng.standard_normal((2, 70, 8)).astype(np.float32) for _ in range(4)]
        arrays[at][1, -1, 2] = bad
        results = []
        for device in (PLAYED, "numpy"):
            tensors = [it.asarray(a, device=device) for a in arrays]
            results.append(it.scaled_dot_product_attention(*tensors[1:]).numpy())
        found, wanted = results
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


@needs_a_compiler
@pytest.mark.slow
def test_a_layer_reads_and_writes_as_products_do(backend: HostBackend) -> None:
    """Queries, keys and values lie side by side, and so do heads and gradients: no copies."""

    def loss(qkv: it.Tensor, w: it.Tensor) -> it.Tensor:
        parts = it.permute_dims(it.reshape(qkv, (2, 24, 3, 2, 8)), (2, 0, 3, 1, 4))
        out = it.scaled_dot_product_attention(*parts, is_causal=True)
        return it.sum(it.matmul(it.reshape(it.swapaxes(out, 1, 2), (2, 24, 16)), w) ** 2)

    def gradients(x: it.Tensor, w: it.Tensor, v: it.Tensor) -> it.Tensor:
        return it.matmul(grad(lambda x: loss(it.matmul(x, v), w))(x), w)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 24, 16), (16, 16), (16, 48))]
    given = [it.asarray(a, device=PLAYED) for a in arrays]
    steps = [" ".join(step.operations) for step in explain(gradients, *given, runs=0).steps]
    assert sum("attention" in step for step in steps) == 2, steps
    assert len(steps) <= 8, steps
    wanted = gradients(*[it.asarray(a.astype(np.float64), device="numpy") for a in arrays]).numpy()
    step = compile(gradients)
    plain = gradients(*given).numpy()
    size = np.max(np.abs(wanted))
    for _ in range(4):
        found = step(*given).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * size)
    np.testing.assert_allclose(plain, wanted, rtol=1e-4, atol=1e-5 * size)
    assert backend.gpu.counts["replayed"] > 0


# Masks and keys that are left out -----------------------------------------------------------


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("added", [False, True])
def test_tiles_that_a_mask_hides_are_not_read(backend: HostBackend, added: bool) -> None:
    """Nobody meets what is not finite in them, forward and backward."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, n, 8)).astype(np.float32) for n in (70, 70, 200, 200)]
    seen = np.zeros((70, 200), np.bool_)
    seen[:, 10:40] = seen[:64, 130:] = True  # the second tile nobody sees
    for array in arrays[2:]:
        array[:, 64:128] = np.nan
    tensors = [it.asarray(a, device=PLAYED) for a in arrays]
    hidden = np.where(seen, np.float32(0), np.float32(-np.inf)) if added else seen
    mask = it.asarray(hidden, device=PLAYED)
    found = [
        it.scaled_dot_product_attention(*tensors[1:], mask),
        *attention_gradient(*tensors, mask),
    ]
    rest = [a if a.shape[1] == 70 else np.delete(a, range(64, 128), 1) for a in arrays]
    cut = np.delete(seen, range(64, 128), 1)
    wanted = exact(*[a.astype(np.float64) for a in rest], cut, scale=8**-0.5)
    del wanted[1]
    for n, (one, right) in enumerate(zip(found, wanted, strict=True)):
        here = one.numpy()
        if n > 1:
            assert np.all(here[:, 64:128] == 0)
            here = np.delete(here, range(64, 128), 1)
        np.testing.assert_allclose(here, right, rtol=1e-5, atol=1e-5)


def left_out(seed: int) -> tuple[list[np.ndarray], str, dict[str, Any]]:
    arrays, dtype, options = drawn(seed)
    return arrays, dtype, {**options, "dropout": (0.3, (seed, (1 << 32) - 9))}


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 24, 4))
def test_keys_are_left_out_as_by_the_composition(backend: HostBackend, seed: int) -> None:
    arrays, dtype, options = left_out(seed)
    check(backend, PLAYED, arrays, dtype, **options)


@pytest.mark.slow
@needs_a_compiler
def test_a_plan_draws_anew_in_each_run(backend: HostBackend) -> None:
    """The words of the place change, in a graph too; the key does not."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 20, 8)).astype(np.float32) for _ in range(4)]
    generators = {device: it.random.Generator(3) for device in (PLAYED, "numpy")}

    def step(device: str, *tensors: it.Tensor) -> it.Tensor:
        def loss(query: it.Tensor) -> it.Tensor:
            out = it.scaled_dot_product_attention(
                query, *tensors[2:], dropout_p=0.4, generator=generators[device]
            )
            return it.sum(it.exp(out * 0.1) * tensors[0])

        return grad(loss)(tensors[1] * 1.5) * 2.0

    played = compile(lambda *tensors: step(PLAYED, *tensors))
    given = [it.asarray(a, device=PLAYED) for a in arrays]
    seen = set()
    for _ in range(5):
        found = played(*given).numpy()
        wanted = step("numpy", *[it.asarray(a, device="numpy") for a in arrays]).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        seen.add(found.tobytes())
    assert len(seen) == 5
    assert backend.gpu.counts["replayed"] > 0
    steps = [" ".join(s.operations) for s in explain(played, *given, runs=0).steps]
    assert sum("attention_dropout" in s for s in steps) == 2, steps
