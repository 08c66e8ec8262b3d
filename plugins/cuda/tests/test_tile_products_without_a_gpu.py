"""Small products in float32 by kernels of their own: they compile, and a GPU played by the
processor finds what NumPy finds in float64."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain
from ingle.fusion.device.cuda import AFTER_OTHERS, ALONE_AFTER_OTHERS
from ingle.fusion.device.kernels import (
    Argument,
    CodeBuilder,
    ContractionCall,
    Epilogue,
    Operand,
    epilogue_nest,
)
from ingle.tensor.errors import BackendError
from ingle.testkit.bits import same_bits
from ingle_cuda.driver import compiler, libraries
from ingle_cuda.products.tile_products import parts_of, reads_much, tile_launch
from ingle_cuda.products.tile_products_source import TileShape, source

PLAYED = "played"

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    return opened(HostGpu(folder), PLAYED, monkeypatch)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(backend: HostBackend, f: Callable[..., it.Tensor], *given: np.ndarray) -> np.ndarray:
    """A compiled function beside float64; the library multiplies nothing."""
    counts = backend.gpu.counts
    before = counts["multiplied"]
    there = [it.asarray(a, device=PLAYED) for a in given]
    wanted = f(*[it.asarray(a.astype(np.float64), device="numpy") for a in given]).numpy()
    step = compile(f)
    found = [step(*there).numpy() for _ in range(3)]
    assert counts["multiplied"] == before
    assert same_bits(found[0], found[2])
    size = max(float(np.max(np.abs(wanted))), 1.0)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-5 * size)
    return found[0]


def call(
    m: int, n: int, k: int, batch: tuple[int, ...] = (1,), reads: int = 0, row: int = 0
) -> ContractionCall:
    """A product to which operands are added.

    Args:
        reads: how many are.
        row: from one row of theirs to the next.
    """
    b = CodeBuilder()
    total = b.append("result", "float32", (), (0, 0))
    for number in range(reads):
        total = b.append("add", "float32", (total, b.load(number, "float32")))
    code, (root,) = b.finish(total)
    steps = tuple([m * n * math.prod(batch[i + 1 :]) for i in range(len(batch))])
    operands = [Argument(2 + i, (*steps, row, 1), 0) for i in range(reads)]
    operands.append(Argument(9, (*steps, n, 1), 0, True))
    return ContractionCall(
        "float32", "float32", batch, (m, n, k), Argument(0, (*steps, k, 1), 0),
        Argument(1, (*steps, n, 1), 0), code, tuple(operands), ("float32",) * (reads + 1),
        ((reads, root),), (), (), (),
    )  # fmt: skip


def test_what_the_library_keeps() -> None:
    """Long sums of few tiles, and large products, whatever follows."""
    assert tile_launch(call(1024, 384, 128), 132) is not None
    assert tile_launch(call(384, 128, 1024), 132) is None
    assert tile_launch(call(4096, 4096, 128), 132) is None
    assert tile_launch(call(1024, 384, 128, reads=3), 132) is not None  # rows, such as a bias
    assert tile_launch(call(1024, 384, 128, reads=1, row=384), 132) is not None
    assert tile_launch(call(1024, 384, 128, reads=3, row=384), 132) is not None
    assert [reads_much(call(8, 9, 9, reads=n, row=9)) for n in (1, 2)] == [False, True]
    found = [tile_launch(call(1024, n, 128), 132) for n in (16, 128, 1024)]
    assert [x and x.blocks for x in found] == [64, 256, 1024]


def test_no_blocks_wait_in_the_places_of_a_products_own() -> None:
    """What comes next begins when a product ends; what one reads, it reads when it has waited."""
    for parts in (1, 4):
        tile = tile_launch(call(128, 128, 256, (1,)), 132, parts) if parts > 1 else None
        tile = tile or tile_launch(call(1024, 384, 128), 132)
        assert tile is not None
        before, behind = tile.source.split(ALONE_AFTER_OTHERS)
        assert AFTER_OTHERS not in tile.source
        assert "bring<4>(there_to" in behind
        assert "bring<4>(there_to" not in before
        assert (f"__cluster_dims__({parts})" in tile.source) is (parts > 1)


@pytest.mark.slow
def test_kernels_compile() -> None:
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    b = CodeBuilder()
    total = b.append(
        "add", "float32", (b.append("result", "float32", (), (0, 0)), b.load(0, "float32"))
    )
    code, roots = b.finish(total, b.append("erf", "float32", (total,)))
    operands = Operand("float32"), Operand("float32", True), Operand("float32", True)
    epilogue = Epilogue(code, operands, ((1, roots[0]), (2, roots[1])))
    nest = epilogue_nest(epilogue, 2, "float32")
    for shape in (
        TileShape(8, 8, True, True, 4, 4, nest),
        TileShape(2, 4, False, True, 2, 1, nest),
        TileShape(4, 2, True, False, 1, 4, nest),
        TileShape(8, 8, False, False, 4, 4, nest, 7),
    ):
        assert compiler.machine_code(source(shape), "sm_90a")[:4] == b"\x7fELF"


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("a_turned", [False, True])
def test_factors_of_any_layout(backend: HostBackend, a_turned: bool, b_turned: bool) -> None:
    def f(a: it.Tensor, b: it.Tensor) -> it.Tensor:
        return it.matmul(a.mT if a_turned else a, b.mT if b_turned else b)

    found = []
    for m, n, k in ((8, 12, 36), (33, 65, 70)):
        a, b = arrays((m, k), (k, n))
        turned = a.T.copy() if a_turned else a, b.T.copy() if b_turned else b
        found.append(check(backend, f, *turned))
        plain = it.matmul(it.asarray(a, device=PLAYED), it.asarray(b, device=PLAYED)).numpy()
        assert same_bits(found[-1], plain)  # however factors lie


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("processors", [1, 8, 1000])
def test_no_bit_depends_on_the_tile(backend: HostBackend, processors: int) -> None:
    a, b = arrays((70, 100), (100, 130))
    wanted = check(backend, it.matmul, a, b)
    backend.limits = backend.limits._replace(processors=processors)
    assert same_bits(check(backend, it.matmul, a, b), wanted)


@needs_a_compiler
@pytest.mark.slow
def test_what_follows_is_of_the_same_kernel(backend: HostBackend) -> None:
    def f(x: it.Tensor, w: it.Tensor, b: it.Tensor, r: it.Tensor) -> it.Tensor:
        h = it.gelu(it.linear(x, w, b))
        return r + h * 0.5

    given = arrays((3, 21, 40), (70, 40), (70,), (3, 21, 70))
    tensors = [it.asarray(a, device=PLAYED) for a in given]
    launched = backend.gpu.counts["launched"]
    compile(f)(*tensors).numpy()
    assert backend.gpu.counts["launched"] == launched + 1, explain(f, *tensors, runs=0)
    check(backend, f, *given)


def test_which_sums_are_cut() -> None:
    """Where parts make enough tiles, whatever the GPU; by the library where none do."""
    found = {
        size: parts_of(call(*size[:3], size[3:]))
        for size in (
            (384, 128, 1024), (128, 128, 1024), (512, 128, 1024, 1, 2), (128, 256, 784), (8, 8, 64),
            (384, 128, 1021), (16, 64, 1024), (1024, 1024, 1025), (512, 128, 8192), (384, 128, 0),
            (128, 128, 1024, 1, 1, 1), (1024, 384, 128),
        )
    }  # fmt: skip
    assert found == {
        (384, 128, 1024): 8, (128, 128, 1024): 8, (512, 128, 1024, 1, 2): 4, (128, 256, 784): 7,
        (8, 8, 64): 1, (384, 128, 1021): 1, (16, 64, 1024): 8, (1024, 1024, 1025): 1,
        (512, 128, 8192): 16, (384, 128, 0): 1, (128, 128, 1024, 1, 1, 1): 1, (1024, 384, 128): 1,
    }  # fmt: skip


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("clusters", [True, False])
@pytest.mark.parametrize("sizes", [(70, 250, 256), (20, 70, 330), (2, 40, 130, 268)])
def test_parts_of_sums_are_added_in_order(
    backend: HostBackend, sizes: tuple[int, ...], clusters: bool
) -> None:
    """By the blocks of a cluster, or by a second kernel."""
    backend.clusters = clusters
    *batch, m, n, k = sizes
    parts = parts_of(call(m, n, k, tuple(batch)))
    assert parts == {256: 2, 330: 3, 268: 4}[k]
    a, b = arrays((*batch, m, k), (*batch, k, n))
    launched = backend.gpu.counts["launched"]
    there = [it.asarray(x, device=PLAYED) for x in (a, b)]
    plain = it.matmul(*there).numpy()
    assert backend.gpu.counts["launched"] == launched + (1 if clusters else 2)
    assert same_bits(check(backend, it.matmul, a, b), plain)
    # The sums of parts, one after the other, have the bits of products of their own.
    deep = k // parts
    whole = np.zeros((*batch, m, n), np.float32)
    for part in range(parts):
        at = slice(part * deep, (part + 1) * deep)
        one = [
            it.asarray(np.ascontiguousarray(x), device=PLAYED) for x in (a[..., at], b[..., at, :])
        ]
        made = it.matmul(*one).numpy()
        whole = made if part == 0 else whole + made
    assert same_bits(plain, whole)
    turned = it.asarray(np.ascontiguousarray(np.swapaxes(a, -1, -2)), device=PLAYED)
    assert same_bits(it.matmul(turned.mT, there[1]).numpy(), plain)


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("clusters", [True, False])
def test_what_follows_parts_is_of_the_kernel_that_adds_them(
    backend: HostBackend, clusters: bool
) -> None:
    """A weight and its momentum."""
    backend.clusters = clusters

    def f(x: it.Tensor, g: it.Tensor, w: it.Tensor, m: it.Tensor, rate: float) -> list[it.Tensor]:
        m = m * 0.9 + it.matmul(x.mT, g)
        return [w - rate * m, m]

    x, g, w, m = arrays((256, 64), (256, 256), (64, 256), (64, 256))
    there = [it.asarray(a, device=PLAYED) for a in (x, g, w, m)]
    step = compile(f)
    launched = backend.gpu.counts["launched"]
    found = [o.numpy() for o in step(*there, 0.1)]
    assert backend.gpu.counts["launched"] == launched + (1 if clusters else 2)
    wanted = m * 0.9 + x.astype(np.float64).T @ g
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found[0], w - 0.1 * wanted, rtol=1e-5, atol=1e-4)
    again = [o.numpy() for _ in range(3) for o in step(*there, 0.1)]
    assert same_bits(again[4], found[0])
    assert same_bits(again[5], found[1])


@needs_a_compiler
@pytest.mark.slow
def test_batches_of_two_axes_are_one_launch(backend: HostBackend) -> None:
    """Heads that lie side by side have no one stride along batch and heads."""

    def f(x: it.Tensor) -> it.Tensor:
        q, k = it.permute_dims(it.reshape(x, (2, 10, 2, 3, 8)), (2, 0, 3, 1, 4))
        return it.matmul(q, k.mT)

    (x,) = arrays((2, 10, 48))
    given = it.asarray(x, device=PLAYED)
    launched = backend.gpu.counts["launched"]
    compile(f)(given).numpy()
    assert backend.gpu.counts["launched"] == launched + 1
    check(backend, f, x)


@needs_a_compiler
@pytest.mark.slow
def test_factors_that_begin_anywhere(backend: HostBackend) -> None:
    a, b = arrays((20, 64), (64, 40))
    wanted = check(backend, it.matmul, a, b)
    wide = np.zeros(20 * 64 + 1, np.float32)
    wide[1:] = a.ravel()
    there, whole = it.asarray(b, device=PLAYED), it.asarray(wide, device=PLAYED)
    shifted = it.reshape(whole[1:], (20, 64))
    assert same_bits(it.matmul(shifted, there).numpy(), wanted)


@needs_a_compiler
@pytest.mark.slow
def test_a_step_of_training(backend: HostBackend) -> None:
    def loss(w: list[Any], x: it.Tensor) -> it.Tensor:
        h = it.gelu(it.linear(x, w[0], w[1]))
        return it.mean((it.linear(h, w[2]) - x) ** 2)

    def step(rate: float, x: it.Tensor, *w: it.Tensor) -> it.Tensor:
        slopes = grad(loss)(list(w), x)
        return it.concat([it.reshape(p - rate * g, (-1,)) for p, g in zip(w, slopes, strict=True)])

    given = arrays((40, 24), (50, 24), (50,), (24, 50))
    check(backend, lambda *x: step(0.1, *x), *given)


@needs_a_compiler
def test_the_library_multiplies_where_it_is_asked_to(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "tiles", False)
    a, b = (it.asarray(x, device=PLAYED) for x in arrays((8, 12), (12, 9)))
    it.matmul(a, b).numpy()
    assert backend.gpu.counts["multiplied"] == 1


@needs_a_compiler
@pytest.mark.slow
def test_bits_do_not_depend_on_what_follows(backend: HostBackend) -> None:
    """What reads much has a kernel of its own behind that of the product."""
    a, b, c, d = arrays((20, 40), (40, 33), (20, 33), (20, 33))
    there = [it.asarray(x, device=PLAYED) for x in (a, b, c, d)]
    wanted = it.matmul(*there[:2]).numpy()
    f = compile(lambda a, b, c, d: it.where(c > 9, d, it.matmul(a, b)))
    launched = backend.gpu.counts["launched"]
    assert same_bits(f(*there).numpy(), wanted)
    assert backend.gpu.counts["launched"] == launched + 2
    check(backend, lambda a, b, c, d: it.matmul(a, b) * c + d, a, b, c, d)
