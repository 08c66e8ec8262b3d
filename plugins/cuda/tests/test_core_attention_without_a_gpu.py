"""Attention by tensor cores: its kernels compile, and on a GPU played by the processor they find
what formulas find in float64."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_oracle import check, drawn
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.tensor.errors import BackendError
from ingle.tensor.ops.neural.attention import attention_training
from ingle.tensor.ops.neural.attention_gradients import attention_gradient
from ingle.testkit.bits import same_bits
from ingle_cuda.attention import core_attention, core_attention_source, core_gradient_source
from ingle_cuda.attention.core_attention import CoreAttention
from ingle_cuda.attention.core_tiles import CoreShape
from ingle_cuda.driver import compiler, libraries

PLAYED = "played"

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`, which takes attention by these kernels alone."""
    made = opened(HostGpu(folder), PLAYED, monkeypatch)
    made.offers = (CoreAttention(made),)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("features", [40, 128])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_kernels_compile(dtype: str, features: int, architecture: str) -> None:
    """For warps, and for the warpgroups of GPUs that have them."""
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    shape = CoreShape(dtype, features, 128, "bool", True, True, (8, 8, 2), True, padding=True)
    texts = [core_attention_source.source(shape)]
    shape = shape._replace(vectors=(8, 8, 8, 2, 4), words=True)
    texts += [core_gradient_source.levels_source(shape), core_gradient_source.keys_source(shape)]
    texts.append(core_gradient_source.queries_source(shape))
    for text in texts:
        assert compiler.machine_code(text, architecture)[:4] == b"\x7fELF"


def halves(seed: int) -> tuple[list[np.ndarray], str, dict[str, Any]]:
    """Operands as `drawn` gives them, of half types."""
    arrays, _, options = drawn(seed)
    options["dropout"] = (0.3, (seed, (1 << 32) - 9)) if seed % 2 else None
    return arrays, ("float16", "bfloat16")[seed // 2 % 2], options


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.sampled(12, slow=6)
@pytest.mark.parametrize("seed", range(24))
def test_operands_of_any_kind(backend: HostBackend, seed: int) -> None:
    arrays, dtype, options = halves(seed)
    check(backend, PLAYED, arrays, dtype, launches=5, **options)


@pytest.mark.slow
@needs_a_compiler
def test_small_heads(backend: HostBackend) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 70, 16)) for _ in range(4)]
    check(backend, PLAYED, arrays, "bfloat16", launches=5, causal=True)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("scale", [-0.3, 0.0])
def test_scales_that_are_not_positive(backend: HostBackend, scale: float) -> None:
    """The largest score is not that of the largest product then."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 70, 16)) for _ in range(4)]
    check(backend, PLAYED, arrays, "bfloat16", launches=5, causal=True, scale=scale)


@needs_a_compiler
@pytest.mark.slow
def test_padding(backend: HostBackend) -> None:
    """Of each row of a batch, in tiles of which some are hidden from all."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 2, n, 16)) for n in (70, 70, 200, 200)]
    lengths = np.array([0, 61, 200])[:, None, None, None]
    dropout = (0.3, (5, 1 << 31))
    # What has the shape of the first is planned as a whole: the forward pass runs once.
    for seen, launches in ((np.arange(200) < lengths, 5), (np.arange(200) >= lengths, 4)):
        check(backend, PLAYED, [*arrays, seen], "bfloat16", launches, dropout=dropout)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("features", [16, 72])
def test_words_in_memory_and_words_that_are_drawn_again_are_the_same(
    backend: HostBackend, folder: Path, monkeypatch: pytest.MonkeyPatch, features: int
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, n, features)) for n in (130, 130, 77, 77)]
    options: dict[str, Any] = {"dropout": (0.3, (5, 7)), "scale": features**-0.5}
    found = check(backend, PLAYED, arrays, "bfloat16", launches=5, **options)
    monkeypatch.setattr(core_attention, "MOST_BYTES", 0)
    other = opened(HostGpu(folder), "other", monkeypatch)
    other.offers = (CoreAttention(other),)
    again = check(other, "other", arrays, "bfloat16", launches=5, **options)
    for one, other in zip(found, again, strict=True):
        assert same_bits(one, other)


@needs_a_compiler
@pytest.mark.slow
def test_who_sees_nothing(backend: HostBackend) -> None:
    """Zeros, logarithms of zero, and no gradient."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 70, 16)) for _ in range(4)]
    seen = rng.random((70, 70)) < 0.8
    seen[3] = False
    check(backend, PLAYED, [*arrays, seen], "bfloat16", launches=5)
    hidden = np.where(seen, 0.0, -np.inf)
    check(backend, PLAYED, [*arrays, hidden], "float16", launches=5)


@needs_a_compiler
@pytest.mark.slow
def test_tiles_that_a_mask_hides_are_not_read(backend: HostBackend) -> None:
    """Nobody meets what is not finite in them, forward and backward."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, n, 16)).astype(np.float32) for n in (70, 70, 200, 200)]
    seen = np.zeros((70, 200), np.bool_)
    seen[:, 10:40] = seen[:64, 130:] = True  # the second tile nobody sees
    rest = [a if a.shape[1] == 70 else np.delete(a, range(64, 128), 1) for a in arrays]
    wanted = check(
        backend, PLAYED, [*rest, np.delete(seen, range(64, 128), 1)], "bfloat16", launches=5
    )
    for array in arrays[2:]:
        array[:, 64:128] = np.nan
    tensors = [it.asarray(a, dtype="bfloat16", device=PLAYED) for a in arrays]
    mask = it.asarray(seen, device=PLAYED)
    made = attention_training(*tensors[1:], mask, scale=1.0)
    found = [*made, *attention_gradient(*tensors, mask, scale=1.0)]
    for n, (one, right) in enumerate(zip(found, wanted, strict=True)):
        here = one.numpy()
        if n > 2:  # of keys and values
            assert np.all(here[:, 64:128].astype(np.float32) == 0)
            here = np.delete(here, range(64, 128), 1)
        assert same_bits(here, right)


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
            tensors = [it.asarray(a, dtype="bfloat16", device=device) for a in arrays]
            found = it.scaled_dot_product_attention(*tensors[1:])
            results.append(found.astype("float32").numpy())
        found, wanted = results
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


@needs_a_compiler
@pytest.mark.slow
def test_a_layer_with_a_mask_is_few_kernels(backend: HostBackend) -> None:
    """Queries, keys and values lie side by side, and so do heads and gradients: no copies, in a
    graph too, and the words of a place change."""
    generators = {device: it.random.Generator(3) for device in (PLAYED, "numpy")}

    def loss(device: str, qkv: it.Tensor, mask: it.Tensor) -> it.Tensor:
        parts = it.permute_dims(it.reshape(qkv, (2, 24, 3, 2, 16)), (2, 0, 3, 1, 4))
        out = it.scaled_dot_product_attention(
            *parts, mask, dropout_p=0.2, generator=generators[device]
        )
        return it.sum(it.reshape(it.swapaxes(out, 1, 2), (2, 24, 32)).astype("float32") ** 2)

    def gradients(device: str, x: it.Tensor, mask: it.Tensor) -> it.Tensor:
        return grad(lambda x: loss(device, x * 1.5, mask))(x)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 24, 96)).astype(np.float32)
    seen = np.arange(24) < np.array([9, 24])[:, None, None, None]
    given = it.asarray(x, dtype="bfloat16", device=PLAYED), it.asarray(seen, device=PLAYED)
    step = compile(lambda *args: gradients(PLAYED, *args))
    exact = it.asarray(given[0].astype("float32").numpy(), device="numpy"), it.asarray(seen)
    for _ in range(4):
        found = step(*given).astype("float32").numpy()
        wanted = gradients("numpy", *[a.to_device("numpy") for a in exact]).numpy()
        np.testing.assert_allclose(found, wanted, rtol=5e-2, atol=5e-2 * np.max(np.abs(wanted)))
    assert backend.gpu.counts["replayed"] > 0
    steps = [" ".join(s.operations) for s in explain(step, *given, runs=0).steps]
    assert sum("attention_dropout" in s for s in steps) == 2, steps
    assert len(steps) <= 6, steps
