"""Attention of many queries by its own kernels: they compile, and a GPU played by the processor
finds what formulas find in float64."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype, bool_
from ingle.tensor.errors import BackendError
from ingle.tensor.ops.neural.attention import (
    ATTENTION,
    ATTENTION_GRADIENT,
    ATTENTION_TRAINING,
    attention_gradient,
    attention_training,
)
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
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2}

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


def exact(
    g: Any, query: Any, key: Any, value: Any, mask: Any = None, causal: bool = False,
    scale: float = 1.0,
) -> list[np.ndarray]:  # fmt: skip
    """Attention, the logarithms and the three gradients, by their formulas in float64."""
    scores = np.einsum("...le,...se->...ls", query, key) * scale
    seen = np.ones(scores.shape, np.bool_)
    if mask is not None and mask.dtype == np.bool_:
        seen &= mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        seen &= np.tri(*scores.shape[-2:]) > 0
    top = np.max(np.where(seen, scores, -np.inf), -1, keepdims=True)
    e = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = np.sum(e, -1, keepdims=True)
    shares = e / np.where(total == 0, 1, total)
    out = np.einsum("...ls,...sv->...lv", shares, value)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    pull = np.einsum("...lv,...sv->...ls", g, value)
    flow = shares * (pull - np.sum(shares * pull, -1, keepdims=True)) * scale
    found = [
        np.einsum("...ls,...se->...le", flow, key), np.einsum("...ls,...le->...se", flow, query),
        np.einsum("...ls,...lv->...sv", shares, g),
    ]  # fmt: skip
    for n, like in ((1, key), (2, value)):
        axes = tuple(i for i, size in enumerate(like.shape) if found[n].shape[i] != size)
        found[n] = np.sum(found[n], axes, keepdims=True)
    return [out, lse, *found]


def check(backend: HostBackend, arrays: Sequence[Any], dtype: str, **options: Any) -> None:
    """One kernel each, beside float64 on values of the dtype."""
    given = [a if a.dtype == np.bool_ else it.asarray(a, dtype=dtype).numpy() for a in arrays]
    wide = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in given]
    wanted = exact(*wide, **options)
    tensors = [it.asarray(a, device=PLAYED) for a in given]
    plain = {"is_causal": options.get("causal", False), "scale": options.get("scale", 1.0)}
    counts = backend.gpu.counts
    before = counts["launched"]
    made = attention_training(*tensors[1:], **plain)
    found = [*made, *attention_gradient(*tensors, **plain)]
    arrays = [x.numpy() for x in found]
    assert counts["launched"] == before + 3  # the gradient asks for the logarithms anew
    assert same_bits(it.scaled_dot_product_attention(*tensors[1:], **plain).numpy(), arrays[0])
    for result, right in zip(arrays, wanted, strict=True):
        assert result.shape == right.shape
        size = np.max(np.abs(right[np.isfinite(right)]), initial=1.0)
        np.testing.assert_allclose(
            result.astype(np.float64), right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size
        )


def drawn(seed: int) -> tuple[list[np.ndarray], str, dict[str, Any]]:
    """Operands, a dtype and options of any kind."""
    rng = np.random.default_rng(seed)
    lead = tuple(int(n) for n in rng.integers(1, 3, size=rng.integers(0, 2)))
    heads = (*lead, 2, int(rng.integers(1, 4)))
    queries, keys = (int(n) for n in rng.choice([1, 5, 17, 64, 70, 130], size=2))
    features, columns = (int(n) for n in rng.choice([1, 5, 16, 32, 40, 72], size=2))
    sizes = [
        (*heads, queries, columns), (*heads, queries, features),
        (*heads[:-1], 1, keys, features), (*heads[:-1], 1, keys, columns),
    ]  # fmt: skip
    arrays = [rng.standard_normal(size) for size in sizes]
    kind = seed % 4
    if kind == 1:
        arrays.append(rng.random((queries, keys)) < 0.7)
    elif kind == 2:
        arrays.append(rng.standard_normal((*heads, 1, keys)))
    elif kind == 3:  # a key that is padding
        arrays.append(np.arange(keys) < max(keys // 3, 1))
    options = {"causal": seed % 5 == 0, "scale": 0.3 if seed % 2 else features**-0.5}
    return arrays, ("float32", "bfloat16", "float16")[seed % 3], options


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(12, slow=6)
@pytest.mark.parametrize("seed", range(24))
def test_operands_of_any_kind(backend: HostBackend, seed: int) -> None:
    arrays, dtype, options = drawn(seed)
    check(backend, arrays, dtype, **options)


@needs_a_compiler
def test_small_heads(backend: HostBackend) -> None:
    rng = np.random.default_rng(0)
    check(backend, [rng.standard_normal((2, 20, 8)) for _ in range(4)], "float32", causal=True)


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
    check(backend, [*arrays, seen], "float32")
    hidden = np.where(seen, 0.0, -np.inf)
    check(backend, [*arrays, hidden], "float32")


@needs_a_compiler
@pytest.mark.slow
def test_a_score_far_below_the_next_tile(backend: HostBackend) -> None:
    """What came before is scaled down to nothing, without an overflow."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 130, 8)) for _ in range(4)]
    arrays[2][:, :64] -= 100 * np.sign(arrays[1][:, :1])
    arrays[1][:] = arrays[1][:, :1]
    check(backend, arrays, "float32")


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
