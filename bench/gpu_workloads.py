"""Rows for GPUs: sizes that fill one, and half precision. `run.py` has them where a system's name
ends in `-cuda`.

Large inputs repeat random numbers, since drawing billions takes longer than the measurement.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from model_workloads import gpt_shapes, mlp_step
from published import Text, drawn, llama_shapes
from workload import DRAWN, Array, Workload, sizes_of, tokens, weights, with_gradient

BYTES = {"float32": 4, "bfloat16": 2}
WRITER = Text(32_000, 256, 2048, 22, 32, 5632, 4)
"""Sizes of a Llama of 1.1 billion weights."""
SMALL_WRITER = Text(99, 16, 32, 2, 4, 48, 2)


def repeated(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], tuple[Array, ...]]:
    """Arrays of normal numbers, of which a block is drawn and repeated."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(0)
        made = []
        for shape in shapes:
            count = math.prod(shape)
            block = rng.standard_normal(min(count, DRAWN)) * scale
            made.append(np.resize(block.astype(np.float32), count).reshape(shape))
        return tuple(made)

    return make


def gpu_rows(small: bool = False) -> list[Workload]:
    """All of them.

    Args:
        small: sizes that only show whether everything works; names stay.
    """
    cut = 64 if small else 1
    return [
        *_elementwise(cut), *_rows(cut), *_products(cut), *_convolutions(cut), *_attention(cut),
        mlp_step("gpu/mlp/8192", 8192 // cut), *_models(small),
    ]  # fmt: skip


def _elementwise(cut: int) -> list[Workload]:
    count = (1 << 28) // cut**2
    return [
        Workload(
            f"gpu/gelu/268M/{dtype}", "forward", "gelu", repeated((count,)), dtype=dtype,
            tolerance=2e-2, nbytes=2.0 * size * count,
        )
        for dtype, size in BYTES.items()
    ]  # fmt: skip


def _rows(cut: int) -> list[Workload]:
    found = []
    for rows, columns in ((16384, 4096), (65536, 1024)):
        shape = (rows // cut, columns // cut)
        for dtype, size in BYTES.items():
            found.append(
                Workload(
                    f"gpu/softmax/{rows}x{columns}/{dtype}", "forward", "softmax", repeated(shape),
                    dtype=dtype, tolerance=2e-2, nbytes=2.0 * size * math.prod(shape),
                )
            )  # fmt: skip
    shape = (16384 // cut, 4096 // cut)
    for dtype, size in BYTES.items():
        layernorm = Workload(
            f"gpu/layernorm/16384x4096/{dtype}", "forward", "layernorm",
            repeated(shape, shape[1:], shape[1:]), dtype=dtype, tolerance=3e-2,
            nbytes=2.0 * size * math.prod(shape),
        )  # fmt: skip
        found += with_gradient(layernorm)
    return found


def _products(cut: int) -> list[Workload]:
    found = []
    for side in (4096, 8192):
        n = side // cut
        found.append(
            Workload(
                f"gpu/matmul/{side}/bfloat16", "forward", "matmul", repeated((n, n), (n, n)),
                dtype="bfloat16", tolerance=2e-2, flops=2.0 * n**3, nbytes=6.0 * n * n,
            )
        )  # fmt: skip
    n = 4096 // cut
    found.append(
        Workload(
            "gpu/linear+gelu/4096/bfloat16", "forward", "linear_gelu",
            repeated((n, n), (n, n), (n,)), dtype="bfloat16", tolerance=2e-2, flops=2.0 * n**3,
            nbytes=6.0 * n * n,
        )
    )  # fmt: skip
    return found


def _convolutions(cut: int) -> list[Workload]:
    """Images in bfloat16 on all systems, in the layout that is quickest on each."""
    found = []
    for n, c, size, out in ((128, 64, 56, 64), (128, 256, 14, 256)):
        batch = max(1, n // cut)
        shapes = (batch, c, size, size), (out, c, 3, 3)
        forward = Workload(
            f"gpu/conv/{n},{c},{size}->{out}/bfloat16", "forward", "conv",
            repeated(*shapes, scale=0.3), {"stride": 1}, dtype="bfloat16", tolerance=5e-2,
            flops=18.0 * batch * size * size * c * out,
        )  # fmt: skip
        found += with_gradient(forward)
    return found


def _attention(cut: int) -> list[Workload]:
    batch, heads, length, width = 4, 16, 4096 // cut, 128
    shape = (batch, heads, length, width)
    forward = Workload(
        "gpu/attention/4,16,4096,128/bfloat16", "forward", "attention",
        repeated(shape, shape, shape), dtype="bfloat16", tolerance=5e-2,
        flops=2.0 * batch * heads * length**2 * width, nbytes=8.0 * math.prod(shape),
    )  # fmt: skip
    return with_gradient(forward, flops=3.5)


def _models(small: bool) -> list[Workload]:
    layers, width, heads, vocabulary, batch, length = (
        (2, 32, 4, 99, 2, 16) if small else (12, 768, 12, 50_257, 16, 1024)
    )
    shapes = gpt_shapes(layers, width, vocabulary, length)
    inner = sum(math.prod(s) for n, s in shapes.items() if n.endswith(".weight"))
    gpt2 = Workload(
        "gpu/gpt2-124M/16x1024/bfloat16", "train", "gpt", tokens(batch, length, vocabulary),
        {"layers": layers, "heads": heads}, weights(shapes), precision="bfloat16",
        tolerance=2e-2, flops=6.0 * batch * length * (inner + layers * length * width),
    )  # fmt: skip
    sizes, steps = (SMALL_WRITER, 8) if small else (WRITER, 32)
    shapes = llama_shapes(sizes)
    llama = Workload(
        "gpu/llama-1.1B/bfloat16", "write", "llama", tuple,
        {"sizes": sizes, "steps": steps, "dtype": "bfloat16"}, drawn(shapes), repeat=steps,
        tolerance=0.1, nbytes=2.0 * sizes_of(shapes),
    )  # fmt: skip
    return [gpt2, llama]


ALL = gpu_rows(os.environ.get("BENCH_SMALL") == "1")
"""Those of this process."""
