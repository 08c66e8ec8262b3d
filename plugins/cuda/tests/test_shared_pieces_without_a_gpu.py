"""Sums over rows beside rows that four warps share: the bits of the processor's kernels, on a
played GPU, and kernels without spills where NVRTC and its assembler are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import launch_of
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Reduce, Row
from ingle.fusion.render.c.shared_pieces import GROUP, shares_pieces
from ingle_cuda import backend

ROWS = 288
"""Blocks of rows for each of the played GPU's processors."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "piecegpu", patch)


def sums(flat: Any, weight: Any, first: int, length: int) -> list[Any]:
    """Rows that begin at an element of memory less their mean, and sums down the rows."""
    x = it.reshape(flat[first:], (ROWS, length))
    apart = (x - it.mean(x, axis=-1, keepdims=True)) * weight
    return [apart, it.sum(apart, axis=0), it.sum(x * apart, axis=0), it.max(x, axis=-1)]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("length", [256, 768, 2048])
def test_the_bits_are_those_of_the_processor(device: Any, length: int, first: int) -> None:
    rng = np.random.default_rng(length)
    values = rng.normal(size=ROWS * length + first), rng.normal(size=length)
    found, expected = (
        compile(lambda a, b: sums(a, b, first, length))(
            *[it.asarray(v.astype(np.float32), device=on) for v in values]
        )
        for on in ("piecegpu", "cpu")
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def step(x: Any, skip: Any, inner: Any, weight: Any, bias: Any) -> list[Any]:
    """Two products around a layer norm in half precision, with all gradients."""
    leaves = [v.require_grad() for v in (x, skip, inner, weight, bias)]
    with it.precision("bfloat16"):
        h = leaves[0] + it.linear(leaves[0], leaves[2], leaves[1])
        y = it.linear(it.layer_norm(h, weight.shape, *leaves[3:]), leaves[2])
        found = it.mean(y * y).backward()
    return [found[v] for v in leaves]


@pytest.mark.slow
def test_sums_of_what_a_product_computes_grow_beside_rows(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients of a norm's weight and bias, and of the bias before it, behind a product whose
    result each of them reads; bits are those of an own kernel for each."""
    rng = np.random.default_rng(0)
    shapes = (2, ROWS // 2, 256), (256,), (256, 256), (256,), (256,)
    given = [
        it.asarray(rng.normal(size=shape).astype(np.float32), device="piecegpu") for shape in shapes
    ]

    def most_beside() -> int:
        steps = explain(compile(step), *given, runs=0).steps
        return max(s.operations.count("block_sums") for s in steps)

    assert most_beside() == 3
    together = compile(step)(*given)
    monkeypatch.setattr(backend, "sums_beside_rows", lambda *_: 0)
    assert most_beside() == 0
    for a, b in zip(together, compile(step)(*given), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def nest() -> Nest:
    """A row's sum, which its elements are divided by, and sums of both over rows."""
    b = CodeBuilder()
    code, (x,) = b.finish(b.load(0, "float32"))
    row = CodeBuilder()
    total, (at,) = row.finish(row.append("result", "float32", (), (0, 0)))
    m = CodeBuilder()
    parts = m.append(
        "div", "float32", (m.load(0, "float32"), m.append("row", "float32", (), (1, 0)))
    )
    divided, (y,) = m.finish(parts)
    operands = Operand("float32"), *[Operand("float32", True)] * 3
    return Nest(
        1, operands, (),
        (Reduce(code, (("sum", x),), columns=((2, x),)), Row(total, (), (at,)),
         Map(divided, ((1, y),), columns=((3, y),))),
    )  # fmt: skip


@pytest.mark.slow
def test_kernels_keep_their_rows_in_registers(compiled: Any) -> None:
    one = nest()
    numbers = (4096, 1024, 1024, 1, 1024, 1, 1024, 1, 1024, 1)
    assert shares_pieces(one, numbers[:2])
    source, grid, count = launch_of(one, "nest", numbers, 132)
    assert source is not None
    assert (grid.blocks, grid.threads, count) == (128, GROUP, 128)
    assert compiled(source)[:4] == b"\x7fELF"
