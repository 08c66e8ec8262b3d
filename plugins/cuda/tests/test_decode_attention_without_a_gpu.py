"""Attention of few queries by its own kernels: they compile, and a GPU played by the processor
finds what the composition finds in float64."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import AFTER_OTHERS
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype, bool_
from ingle.tensor.errors import BackendError
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING, attention_training
from ingle.testkit.bits import same_bits
from ingle_cuda.attention.combined_pieces import combine_source
from ingle_cuda.attention.decode_attention import (
    DecodeAttention,
    Problem,
    launches_of,
    problem_of,
    rows_of_block,
)
from ingle_cuda.attention.decode_attention_source import KernelShape, source
from ingle_cuda.driver import compiler, libraries
from ingle_cuda.row_lines import split_of

PLAYED = "played"
TOLERANCE = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`, which takes attention by its own kernels alone."""
    made = opened(HostGpu(folder), PLAYED, monkeypatch)
    made.offers = (DecodeAttention(made),)
    return made


def attention(device: str, arrays: Sequence[Any], **options: Any) -> it.Tensor:
    query, key, value, *mask = [it.asarray(a, device=device) for a in arrays]
    return it.scaled_dot_product_attention(query, key, value, *mask, **options)


def check(backend: HostBackend, arrays: Sequence[np.ndarray], dtype: str, **options: Any) -> None:
    """Beside the composition in float64, on values of the dtype."""
    given = [a if a.dtype == np.bool_ else it.asarray(a, dtype=dtype).numpy() for a in arrays]
    exact = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in given]
    wanted = attention("numpy", exact, **options).numpy()
    before = backend.gpu.counts["launched"]
    found = attention(PLAYED, given, **options).numpy().astype(np.float64)
    assert 1 <= backend.gpu.counts["launched"] - before <= 2
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


# What is taken, and how it is cut -----------------------------------------------------------


def problem(
    query: Sequence[int], key: Sequence[int], value: Sequence[int] | None = None,
    mask: Sequence[int] = (), dtype: str = "bfloat16", operation: Any = ATTENTION, **options: Any,
) -> Problem | None:  # fmt: skip
    kind = as_dtype(dtype)
    avals = [Aval(tuple(s), kind) for s in (query, key, value or key)]
    given = [*avals, Aval(tuple(mask), bool_), Aval((), kind)]
    return problem_of(operation.op(causal=options.pop("causal", False)), given, **options)


def test_what_is_taken() -> None:
    one, keys = (2, 4, 1, 64), (2, 4, 300, 64)
    assert problem(one, keys) is not None
    assert problem((2, 4, 16, 64), keys, mask=(300,)) is not None
    assert problem((2, 4, 17, 64), keys) is None
    assert problem(one, keys, dtype="float64") is None
    assert problem((1, 257), (9, 257)) is None
    assert problem((1, 4), (0, 4)) is None
    training = problem(one, keys, operation=ATTENTION_TRAINING)
    assert training is not None
    assert training.strides[-1] == (0, 0, 1, 0, 0, 0)


def test_heads_that_share_keys_are_rows_of_one_block() -> None:
    found = problem((3, 4, 8, 2, 64), (3, 4, 1, 300, 64), mask=(3, 1, 1, 1, 300))
    assert found is not None
    assert (found.batch, found.group, found.keys) == ((1, 3, 4), 8, 300)
    query, key, value, mask, out = found.strides
    assert query == out == (0, 4096, 1024, 128, 64, 1)
    assert key == value == (0, 76800, 19200, 0, 64, 1)
    assert mask == (0, 300, 0, 0, 0, 1)
    plain = problem((3, 4, 1, 64), (3, 4, 300, 64))
    assert plain is not None
    assert (plain.batch, plain.group) == ((1, 1, 12), 1)  # axes behind each other are one
    assert problem((4, 1, 2, 1, 64), (4, 3, 1, 9, 64)) is not None
    assert problem((2, 3, 2, 3, 2, 1, 4), (2, 1, 2, 1, 2, 9, 4)) is None  # shared along two axes
    causal = problem((4, 2, 64), (4, 300, 64), causal=True)
    assert causal is not None
    assert causal.keys == 2


@pytest.mark.parametrize(
    ("step", "offset", "vector"),
    [(64, 0, 8), (128, 8, 4), (68, 0, 4), (66, 4, 2), (65, 0, 1), (64, 2, 1)],
)
def test_loads_are_as_wide_as_keys_lie(step: int, offset: int, vector: int) -> None:
    strides = (64, 1), (step, 1), (64, 1)
    found = problem((1, 64), (9, 64), strides=strides, offsets=(0, offset, 0))
    assert found is not None
    assert found.vectors == (8, vector, 8)
    across = problem((1, 64), (9, 64), strides=((64, 1), (1, 9), (64, 1)))
    assert across is not None
    assert across.vectors == (8, 1, 8)


def test_blocks_fill_the_gpu() -> None:
    """Few heads have a block for each query, many share what their blocks read."""
    few, many = (problem((n, 4, 8, 1, 64), (n, 4, 1, 256, 64)) for n in (1, 64))
    assert few is not None
    assert many is not None
    assert [rows_of_block(few, p) for p in (132, 16, 2)] == [1, 2, 8]
    assert rows_of_block(many, 132) == 8
    found = launches_of(few, 132)
    assert found is not None
    assert [(k.blocks, k.threads) for k in found.kernels] == [(32, 256)]
    wide = problem((64, 1, 256), (64, 9, 256))
    assert wide is not None
    assert rows_of_block(wide, 1) == 1
    assert split_of(256, "float32") == (32, 2, 4, True)


@pytest.mark.parametrize("whole", [True, False])
def test_all_a_warp_reads_is_on_its_way_at_once(whole: bool) -> None:
    """From addresses that are known before the wait; where a piece of a cache may be all hidden,
    what hides it is looked at before its keys are asked for."""
    text = source(KernelShape("bfloat16", 64, 64, 2, "bool", False, False, whole, (8, 8, 8)))
    before, after = text[text.index("decode_attention(") :].split(AFTER_OTHERS)
    known = re.findall(r"settle\((\w+)_rows", before)
    assert known == ["mask", "query", "key", "value"]
    assert "loaded_" not in before
    hidden, read = after.split("if (begin <= last)")
    asked, _ = read.split("float q[")
    assert re.findall(r"loaded_(\w+)|\*(mask)_rows", hidden + asked) == [
        ("", "mask"), ("query", ""), ("key", ""), ("value", ""),
    ]  # fmt: skip
    assert ("*mask_rows" in hidden) != whole


@pytest.mark.slow
def test_kernels_compile() -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    shapes = [
        KernelShape("bfloat16", 64, 64, 1, "bool", False, True, True, (8, 8, 8)),
        KernelShape("float16", 24, 5, 2, "float16", True, False, False, (8, 4, 1)),
        KernelShape("float32", 256, 72, 1, "bool", False, False, False, (4, 4, 2)),
    ]
    for text in (*map(source, shapes), combine_source("float16", 72, True)):
        assert compiler.machine_code(text, "sm_90")[:4] == b"\x7fELF"


# What is computed ---------------------------------------------------------------------------


def drawn(seed: int) -> tuple[list[np.ndarray], str, dict[str, Any]]:
    """Operands, a dtype and options of any kind."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 5))
    lead = tuple(int(n) for n in rng.integers(1, 4, size=rng.integers(0, 2)))
    queries = int(rng.choice([1, 1, 2, 5, 16]))
    keys = int(rng.choice([1, 7, 32, 70, 256, 300, 600]))
    features, columns = (int(n) for n in rng.choice([1, 5, 16, 24, 64, 72], size=2))
    arrays = [
        rng.standard_normal((*lead, 2 * groups, queries, features)),
        rng.standard_normal((*lead, 2, keys, features)),
        rng.standard_normal((*lead, 2, keys, columns)),
    ]
    kind = seed % 4
    if kind == 1:
        arrays.append(rng.random((queries, keys)) < 0.7)
    elif kind == 2:
        arrays.append(rng.standard_normal((*lead, 2 * groups, 1, keys)))
    elif kind == 3:  # a cache that is not full
        arrays.append(np.arange(keys) < max(keys // 3, 1))
    options: dict[str, Any] = {"is_causal": seed % 5 == 0, "enable_gqa": True}
    if seed % 2:
        options["scale"] = 0.3
    return arrays, ("float32", "bfloat16", "float16")[seed % 3], options


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(12, slow=6)
@pytest.mark.parametrize("seed", range(24))
def test_operands_of_any_kind(backend: HostBackend, seed: int) -> None:
    arrays, dtype, options = drawn(seed)
    check(backend, arrays, dtype, **options)


@needs_a_compiler
@pytest.mark.slow
def test_bits_in_plain_code_in_graphs_and_in_blocks_of_any_size(backend: HostBackend) -> None:
    """Two pieces of keys, the second of which nobody sees; one query sees nothing at all."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((2, 4, 1, 16), (2, 1, 400, 16), (2, 1, 400, 8))]
    seen = np.broadcast_to(np.arange(400) < 200, (2, 1, 1, 400)).copy()
    seen[1] = False
    given = [it.asarray(a, dtype="bfloat16").numpy() for a in arrays]
    check(backend, [*given, seen], "bfloat16", enable_gqa=True)
    plain = attention(PLAYED, [*given, seen], enable_gqa=True).numpy()
    assert not plain[1].any()
    f = compile(lambda *x: it.scaled_dot_product_attention(*x, enable_gqa=True))
    there = [it.asarray(a, device=PLAYED) for a in (*given, seen)]
    counts = backend.gpu.counts
    for _ in range(4):
        assert same_bits(f(*there).numpy(), plain)
    assert counts["replayed"] == 0  # two kernels are no graph
    g = compile(lambda x, *rest: f(f(f(x, *rest), *rest), *rest))
    g_rest = [it.asarray(a, device=PLAYED) for a in (given[1], np.repeat(given[2], 2, -1), seen)]
    first, *others = [g(there[0], *g_rest).numpy() for _ in range(5)]
    assert counts["replayed"] > 0
    assert all(same_bits(other, first) for other in others)
    backend.limits = backend.limits._replace(processors=1)
    backend.offers = (DecodeAttention(backend),)  # which has a block for all four queries
    found = attention(PLAYED, [*given, seen], enable_gqa=True).numpy()
    assert same_bits(found, plain)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("keys", [40, 300])
def test_what_gradients_need(backend: HostBackend, keys: int) -> None:
    """Whoever differentiates by a weight asks for the logarithms, too."""
    rng = np.random.default_rng(0)
    shapes = (2, 2, 3, 8), (2, 2, keys, 8), (2, 2, keys, 4)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    arrays.append(rng.random((3, keys)) < 0.8)
    arrays[3][1] = False
    exact = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in arrays]
    results = []
    for device, given in ((PLAYED, arrays), ("numpy", exact)):
        tensors = [it.asarray(a, device=device) for a in given]
        results.append([t.numpy() for t in attention_training(*tensors)])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@needs_a_compiler
@pytest.mark.slow
def test_operands_as_they_lie(backend: HostBackend) -> None:
    """Heads side by side, rows that begin anywhere, features across: no bit depends on that."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((2, 9, 3, 2, 8)).astype(np.float16)
    x = it.permute_dims(it.asarray(base, device=PLAYED), (2, 0, 3, 1, 4))
    query, key, value = x[0][:, :, :3], x[1], x[2]
    across = it.swapaxes(it.asarray(np.swapaxes(key.numpy(), -1, -2).copy(), device=PLAYED), -1, -2)
    shifted = it.concat([it.zeros((2, 2, 9, 1), dtype="float16", device=PLAYED), key], axis=-1)
    there = it.asarray(shifted.numpy(), device=PLAYED)[..., 1:]
    straight = [it.asarray(t.numpy().copy(), device=PLAYED) for t in (query, key, value)]
    wanted = it.scaled_dot_product_attention(*straight).numpy()
    launched = backend.gpu.counts["launched"]
    for keys in (key, across, there):
        found = it.scaled_dot_product_attention(query, keys, value).numpy()
        assert same_bits(found, wanted)
    assert backend.gpu.counts["launched"] == launched + 3  # nothing was copied
    check(backend, [t.numpy() for t in straight], "float16")


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("keys", [9, 300])
def test_results_lie_where_products_read_them(backend: HostBackend, keys: int) -> None:
    """Heads side by side, which no kernel has to copy."""

    def f(query: it.Tensor, key: it.Tensor, value: it.Tensor, w: it.Tensor) -> it.Tensor:
        out = it.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        return it.matmul(it.reshape(it.swapaxes(out, 1, 2), (2, 3, -1)), w)

    rng = np.random.default_rng(0)
    shapes = (2, 4, 3, 8), (2, 2, keys, 8), (2, 2, keys, 4), (16, 5)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    given = [it.asarray(a, device=PLAYED) for a in arrays]
    names = [" ".join(step.operations) for step in explain(f, *given, runs=0).steps]
    assert len(names) == 2, names
    wanted = f(*[it.asarray(a.astype(np.float64), device="numpy") for a in arrays]).numpy()
    g = compile(f)
    for _ in range(3):
        np.testing.assert_allclose(g(*given).numpy(), wanted, rtol=1e-5, atol=1e-5)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(backend: HostBackend, bad: float) -> None:
    """As in the composition; but what nobody sees does not count."""
    rng = np.random.default_rng(0)
    sizes = ((2, 1, 8), (2, 300, 8), (2, 300, 8))
    for at in range(4):
        arrays = [rng.standard_normal(s).astype(np.float32) for s in sizes]
        arrays.append(rng.standard_normal((2, 1, 300)).astype(np.float32))
        arrays[at][1, -1, 2] = bad
        found, wanted = (attention(device, arrays).numpy() for device in (PLAYED, "numpy"))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in sizes]
    seen = np.ones((1, 300), np.bool_)
    seen[0, 70] = False
    wanted = attention("numpy", [*arrays, seen]).numpy()
    arrays[1][:, 70] = arrays[2][:, 70] = bad
    found = attention(PLAYED, [*arrays, seen]).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@needs_a_compiler
@pytest.mark.slow
def test_decoding_by_a_cache(backend: HostBackend) -> None:
    """A compiled step writes into the cache, where its attention reads."""
    results = {}
    for device in (PLAYED, "numpy"):
        with it.device(device):
            it.random.seed(0)
            attend = nn.GroupedQueryAttention(16, 4, 2, rotary=nn.RotaryEmbedding(4))
            attend.eval()
            cache = nn.KVCache(1, 2, 12, 4)
            x = it.asarray(np.random.default_rng(1).standard_normal((1, 12, 16)), dtype="float32")
        step = compile(lambda x, attend=attend, cache=cache: attend(x, cache=cache))
        results[device] = [step(x[:, n : n + 1]).numpy() for n in range(12)]
    np.testing.assert_allclose(results[PLAYED], results["numpy"], rtol=1e-4, atol=1e-5)
    assert backend.gpu.counts["replayed"] > 3
