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

from ingle.tensor.errors import BackendError
from ingle_cuda.attention import core_attention_source, core_gradient_source
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
def test_kernels_compile(dtype: str, features: int) -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    shape = CoreShape(dtype, features, 128, "bool", True, True, (8, 8, 2), True)
    texts = [core_attention_source.source(shape)]
    shape = shape._replace(vectors=(8, 8, 8, 2, 4))
    texts += [core_gradient_source.source(shape), core_gradient_source.levels_source(shape)]
    for text in texts:
        assert compiler.machine_code(text, "sm_90")[:4] == b"\x7fELF"


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
    check(backend, PLAYED, arrays, dtype, launches=4, **options)


@needs_a_compiler
def test_small_heads(backend: HostBackend) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 70, 16)) for _ in range(4)]
    check(backend, PLAYED, arrays, "bfloat16", launches=4, causal=True)
