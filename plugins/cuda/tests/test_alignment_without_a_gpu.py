"""Products of half types whose rows begin beside multiples of 16 bytes, on a played GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened
from test_without_a_gpu import compiled as compiled

import ingle.tensor as it
from ingle.fusion import compile
from ingle_cuda.driver import sources
from ingle_cuda.graphs import step_builder
from ingle_cuda.products.alignment import aligned
from ingle_cuda.products.cublas import Product, operand_of

PLAYED = "aligned"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The backend of a played GPU, which notes how the library's matrices lie."""
    with pytest.MonkeyPatch.context() as patch:
        made = opened(HostGpu(tmp_path_factory.mktemp("gpu")), PLAYED, patch)
        yield made


@pytest.fixture
def asked(backend: HostBackend, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """For each product sizes and leading dimensions, and steps along the batch."""
    found: list[tuple[int, ...]] = []
    multiply = backend.gpu.cublasGemmStridedBatchedEx

    def noted(*args: Any) -> int:
        a, b, c = ((args[at], args[at + 1].value) for at in (9, 13, 18))
        found.append((*args[3:6], *a, *b, *c))
        return multiply(*args)

    monkeypatch.setattr(backend.gpu, "cublasGemmStridedBatchedEx", noted, raising=False)
    return found


def drawn(shape: tuple[int, ...], turned: bool, seed: int) -> np.ndarray:
    """Numbers that bfloat16 holds; as a view of a transposed array if it is turned."""
    rng = np.random.default_rng(seed)
    if turned:
        shape = (*shape[:-2], *shape[:-3:-1])
    return rng.integers(-3, 4, shape).astype(np.float32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("m", "n", "k"), [(256, 261, 264), (259, 256, 257), (300, 257, 259)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_all_rows_begin_at_multiples_of_16_bytes(
    backend: HostBackend, asked: list[Any], m: int, n: int, k: int, turned: tuple[bool, bool],
    batch: tuple[int, ...],
) -> None:  # fmt: skip
    """The sums are those of small integers, so that each is exact until it is rounded."""
    a, b = drawn((*batch, m, k), turned[0], 1), drawn((k, n), turned[1], 2)

    def product(a: Any, b: Any, bias: Any) -> Any:
        a = it.matrix_transpose(a) if turned[0] else a
        b = it.matrix_transpose(b) if turned[1] else b
        return a @ b, it.maximum(a @ b + bias, 0.0)

    bias = np.arange(n, dtype=np.float32) % 5
    given = [it.asarray(x, dtype=it.bfloat16, device=PLAYED) for x in (a, b, bias)]
    plain, relu = compile(product)(*given)
    x = np.swapaxes(a, -1, -2) if turned[0] else a
    wanted = x @ (b.T if turned[1] else b)
    exact = it.asarray(wanted, dtype=it.bfloat16, device="numpy")
    assert np.array_equal(
        it.astype(plain, it.float32).numpy(), it.astype(exact, it.float32).numpy()
    )
    np.testing.assert_allclose(
        it.astype(relu, it.float32).numpy(), np.maximum(wanted + bias, 0), rtol=0.02, atol=0.02
    )
    assert asked
    for found in asked:
        assert not [x for x in found[3:] if x % 8], found


def test_both_gradients_of_a_product_read_one_copy(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of logits is large, and copying it takes as long as memory does."""
    m, n, k = 264, 261, 256
    arrays = drawn((m, n), False, 3), drawn((k, n), False, 4), drawn((m, k), False, 5)
    g, w, x = (it.asarray(a, dtype=it.bfloat16, device=PLAYED) for a in arrays)

    def pulled(g: Any, w: Any, x: Any) -> Any:
        return g @ it.matrix_transpose(w), it.matrix_transpose(x) @ g, it.exp(x[0])

    made: list[Any] = []
    copy = step_builder.StepBuilder._copy
    monkeypatch.setattr(
        step_builder.StepBuilder, "_copy", lambda *args: made.append(args) or copy(*args)
    )
    run = compile(pulled)
    run(g, w, x)
    assert len(made) == 2  # of g, and of w
    for _ in range(4):  # also in a graph
        found = [it.astype(r, it.float32).numpy() for r in run(g, w, x)]
    for got, exact in zip(found, (arrays[0] @ arrays[1].T, arrays[2].T @ arrays[0]), strict=False):
        wanted = it.astype(it.asarray(exact, dtype=it.bfloat16, device="numpy"), it.float32)
        assert np.array_equal(got, wanted.numpy())


def test_what_lies_well_or_is_small_is_not_copied() -> None:
    """A copy would take longer than it saves."""
    a, b = operand_of((), 512, 256, (256, 1)), operand_of((), 256, 512, (512, 1))
    product = Product((), 512, 512, 256, a, b, "bfloat16", "bfloat16")
    whole = (False, False, False)
    assert aligned(product, 512, (), whole) == (product, False)
    few = product._replace(n=255, b=operand_of((), 256, 255, (255, 1)))
    assert aligned(few, 255, (), whole) == (few, False)
    wide = product._replace(dtype="float32", n=257, b=operand_of((), 256, 257, (257, 1)))
    assert aligned(wide, 257, (), whole) == (wide, False)


def test_logits_of_a_vocabulary() -> None:
    """Of all three products of 50,257 words: what the library is asked for."""
    whole = (False, False, False)
    hidden, words = operand_of((), 1024, 768, (768, 1)), operand_of((), 768, 50257, (1, 768))
    forward = Product((), 1024, 50257, 768, hidden, words, "bfloat16", "bfloat16")
    found, apart = aligned(forward, 50257, (), whole)
    assert (found.m, found.n, found.k, found.a, apart) == (1024, 50264, 768, hidden, True)
    assert found.b.padded == (50264, 768, ())
    assert found.b.leading == 768
    logits, back = operand_of((), 1024, 50257, (50257, 1)), operand_of((), 50257, 768, (768, 1))
    found, apart = aligned(
        Product((), 1024, 768, 50257, logits, back, "bfloat16", "bfloat16"), 768, (), whole
    )
    assert (found.m, found.n, found.k, apart) == (1024, 768, 50264, False)
    assert found.a.padded == (1024, 50257, ())
    assert found.a.leading == 50264
    assert found.b.padded == (50264, 768, ())
    turned, right = operand_of((), 50257, 1024, (1, 50257)), operand_of((), 1024, 768, (768, 1))
    found, apart = aligned(
        Product((), 50257, 768, 1024, turned, right, "bfloat16", "float32"), 0, (), whole
    )
    assert (found.m, found.n, found.k, apart) == (50264, 768, 1024, True)
    assert found.a.padded == (1024, 50257, ())
    assert found.b is right


def test_the_copy_compiles(compiled: Any) -> None:
    assert compiled(sources.padded_source())
