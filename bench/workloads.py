"""Every workload, by name, in the order in which they run; those of single operations are here."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from first_workloads import first_calls, stalls
from model_workloads import (
    actor,
    lenet,
    mlp_step,
    pictures,
    published_models,
    recurrent,
    transformers,
)
from workload import Array, Workload, normal, with_gradient


def _calls(cut: int) -> list[Workload]:
    """Where the time of a call shows, not that of the work."""
    pair = normal((4,), (4,))
    repeat = 200 // cut
    return [
        Workload("import", "import", "import"),
        Workload("add/4", "overhead", "add", pair, repeat=repeat),
        Workload("add/4/recorded", "overhead", "add_recorded", pair, repeat=repeat),
        Workload("chain/20", "overhead", "chain", normal((32, 32)), {"pairs": 10}, repeat=repeat),
    ]


def _rows(cut: int) -> list[Workload]:
    """What memory bounds."""
    n, rows, columns, side = (1 << 22) // cut**2, 4096 // cut, 1024 // cut, 4096 // cut
    square = normal((side, side))
    shape, nbytes = (rows, columns), 8 * rows * columns
    gelu = Workload("gelu/4M", "forward", "gelu", normal((n,)), nbytes=8 * n)
    softmax = Workload("softmax/4096x1024", "forward", "softmax", normal(shape), nbytes=nbytes)
    layernorm = Workload(
        "layernorm/4096x1024", "forward", "layernorm", normal(shape, (columns,), (columns,)),
        tolerance=5e-3, nbytes=nbytes,
    )  # fmt: skip
    sums = [
        Workload(
            f"sum/4096x4096/axis{i}", "forward", "sum", square, {"axis": i}, nbytes=4 * side * side
        )
        for i in (0, 1)
    ]
    return [*with_gradient(gelu), softmax, *with_gradient(layernorm), *sums]


def _product(
    name: str, batch: tuple[int, ...], m: int, n: int, k: int, **rest: Any
) -> Workload:  # fmt: skip
    count = math.prod(batch)
    return Workload(
        name, "forward", "matmul", normal((*batch, m, k), (*batch, k, n)), **rest,
        flops=2.0 * count * m * n * k, nbytes=4.0 * count * (m * k + k * n + m * n),
    )  # fmt: skip


def _products(cut: int) -> list[Workload]:
    a, b = 1024 // cut, 2048 // cut
    return [
        _product("matmul/1024", (), a, a, a),
        _product("matmul/2048", (), b, b, b),
        _product("matmul/1024/bfloat16", (), a, a, a, dtype="bfloat16", tolerance=2e-2),
        _product("matmul/256x64", (256 // cut,), 64, 64, 64),
        _product("gemv/1024", (), 1, a, a),
    ]


def _conv(
    cut: int, n: int, c: int, size: int, out: int, stride: int = 1, taps: int = 3, groups: int = 1
) -> list[Workload]:
    """A convolution that keeps the size, but for its stride; the weight's shape says the rest."""
    name = f"conv/{n},{c},{size}->{out}" + (f"/stride{stride}" if stride > 1 else "")
    if groups > 1:
        name += f"/depthwise{taps}" if groups == c else f"/groups{groups}"
    n = max(1, n // cut)

    def inputs() -> tuple[Array, ...]:
        x, w = normal((n, c, size, size), (out, c // groups, taps, taps))()
        return x, w * np.float32(0.05)

    pixels = n * (size // stride) ** 2
    forward = Workload(
        name, "forward", "conv", inputs, {"stride": stride}, tolerance=1e-2,
        flops=2.0 * taps**2 * pixels * c // groups * out,
        nbytes=4.0 * (n * c * size * size + pixels * out),
    )  # fmt: skip
    return with_gradient(forward)


def _attention(cut: int) -> list[Workload]:
    """Causal attention of eight heads: half of the products between positions are needed."""
    batch, heads, length, width = max(1, 8 // cut), 8, 512 // cut, 64
    shape = (batch, heads, length, width)
    forward = Workload(
        "attention/8,8,512,64", "forward", "attention", normal(shape, shape, shape),
        tolerance=1e-2, flops=2.0 * batch * heads * length**2 * width,
        nbytes=16.0 * math.prod(shape),
    )  # fmt: skip
    return with_gradient(forward, flops=3.5)


def _loops(cut: int) -> list[Workload]:
    """Recurrence: the library's own loop, and one of Python beside it."""
    steps, batch, size = 64 // cut, 32, 128
    small, wide = normal((50 // cut, 8, 32), (32, 32), scale=0.2), (steps, batch, size // 2)
    lstm = normal(wide, (size // 2, 4 * size), (size, 4 * size), (4 * size,), scale=0.1)
    ode = normal((32, 2), (100 // cut,), (2, 50), (50,), (50, 2), (2,), scale=0.1)
    flops = 2.0 * steps * batch * 4 * size * (size + size // 2)
    found = [
        Workload("scan/rnn/8,32x50", "forward", "rnn", small, tolerance=1e-3),
        Workload("unrolled/rnn/8,32x50", "forward", "rnn_unrolled", small, tolerance=1e-3),
        Workload("scan/lstm/32,128x64", "forward", "lstm", lstm, tolerance=1e-3, flops=flops),
        Workload("scan/ode/32,2x100", "forward", "ode", ode, tolerance=1e-3),
    ]
    return [row for forward in found for row in with_gradient(forward)]


def registry(small: bool = False) -> list[Workload]:
    """Every workload, in the order in which it runs.

    Args:
        small: sizes that only show whether everything works; names stay.
    """
    cut = 16 if small else 1
    return [
        *_calls(cut), *_rows(cut), *_products(cut),
        *_conv(cut, 32, 3, 32, 64), *_conv(cut, 32, 64, 32, 64), *_conv(cut, 8, 64, 56, 128, 2),
        *_conv(cut, 8, 128, 28, 128, groups=8), *_conv(cut, 8, 128, 28, 128, groups=128),
        *_conv(cut, 8, 128, 28, 128, taps=7, groups=128), *_attention(cut),
        mlp_step("mlp/128", 128), mlp_step("mlp/1024", 1024 // cut), *first_calls(), *stalls(),
        lenet(64 // cut), actor(cut), *transformers(cut), *_loops(cut),
        *pictures(cut), recurrent(cut, "LSTM", 4), recurrent(cut, "GRU", 3),
        *published_models(small),
    ]  # fmt: skip


ALL = registry(os.environ.get("BENCH_SMALL") == "1")
"""The workloads of this process."""
