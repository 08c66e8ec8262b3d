"""Matrices whose rows are made longer for a device that wants them to begin at multiples of 16
bytes: the same numbers, and no copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain, pipeline
from ingle.fusion.ir.graph import Graph
from ingle.fusion.passes.aligned_rows import FEWEST_ALIGNED, LINE, with_aligned_rows


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with it.device("cpu"):
        yield


@pytest.fixture
def aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has plans made as for a device that wants such rows."""
    whole = pipeline.filled_sequence

    def filled(device: Any, graph: Graph, pairs: Any, layers: Any) -> Any:
        assert layers is None
        return whole(device, with_aligned_rows(graph), pairs)

    monkeypatch.setattr(pipeline, "filled_sequence", filled)


def drawn(*shape: int, dtype: str = "bfloat16") -> it.Tensor:
    numbers = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    return it.asarray(numbers).astype(dtype)


def sizes(function: Callable[..., Any], *args: it.Tensor) -> list[tuple[int, ...]]:
    """Those of the products."""
    steps = explain(function, *args, runs=0).steps
    return [step.sizes for step in steps if step.kind == "product"]


def product(a: Any, b: Any) -> Any:
    """A product whose factors are computed, and that something reads."""
    return it.astype((a * 0.5) @ (b + 1.0), it.float32) * 2.0


def turned(a: Any, b: Any) -> Any:
    return it.astype(
        it.permute_dims(a * 0.5, (1, 0)) @ it.permute_dims(b + 1.0, (1, 0)), it.float32
    )


@pytest.mark.usefixtures("aligned")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("m", "n", "k", "longer"),
    [
        (256, 301, 256, (256, 304, 256)), (256, 256, 301, (256, 256, 304)),
        (301, 256, 264, (301, 256, 264)), (301, 303, 305, (301, 304, 312)),
        (300, 255, 301, (300, 255, 301)),
    ],
)  # fmt: skip
def test_products(m: int, n: int, k: int, longer: tuple[int, ...], dtype: str) -> None:
    a, b = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
    assert sizes(product, a, b) == [longer]
    got, x, y = (v.astype("float64").numpy() for v in (compile(product)(a, b), a, b))
    half = it.asarray(y + 1.0).astype(dtype).astype("float64").numpy()
    wanted = (x * 0.5) @ half * 2.0
    bound = np.abs(x * 0.5) @ np.abs(half) * 2.0
    assert np.all(np.abs(got - wanted) <= bound * 2.0**-8)


@pytest.mark.usefixtures("aligned")
def test_what_lies_transposed() -> None:
    """The rows of a transposed factor are the columns of the matrix that lies in memory."""
    a, b = drawn(256, 301), drawn(303, 256)
    assert sizes(turned, a, b) == [(304, 304, 256)]
    assert sizes(turned, drawn(301, 256), drawn(256, 301)) == [(256, 256, 304)]
    found = compile(turned)(a, b).numpy()
    x, y = (v.astype("float64").numpy() for v in (a * 0.5, b + 1.0))
    np.testing.assert_allclose(found, x.T @ y.T, atol=0.5)


@pytest.mark.usefixtures("aligned")
def test_what_a_caller_is_given_has_its_own_rows() -> None:
    a, b = drawn(256, 301), drawn(301, 303)
    assert sizes(lambda a, b: a @ b, a, b) == [(256, 303, 301)]

    def with_factor(a: Any, b: Any) -> Any:
        half = a * 0.5
        return it.astype(half @ b, it.float32) * 2.0, half

    assert sizes(with_factor, a, b) == [(256, 303, 301)]


def loss(h: Any, weight: Any, wanted: Any) -> Any:
    """The loss of a language model, whose vocabulary is a length of rows."""
    with it.precision("bfloat16"):
        return it.cross_entropy(it.linear(it.gelu(h), weight), wanted)


@pytest.mark.slow
@pytest.mark.usefixtures("aligned")
def test_a_vocabulary_is_copied_by_nothing() -> None:
    """Its logits, their gradient and its weights are computed in longer rows."""
    words = FEWEST_ALIGNED + 45
    h, weight = drawn(264, 256, dtype="float32"), drawn(words, 256, dtype="float32") * 0.1
    wanted = it.asarray(np.arange(264) % words)
    both = compile(value_and_grad(loss, argnums=(0, 1)))
    steps = explain(both, h, weight, wanted, runs=0).steps
    up = -(-words // LINE) * LINE
    assert [s.sizes for s in steps if s.kind == "product"] == [
        (264, up, 256), (264, 256, up), (up, 256, 264),
    ]  # fmt: skip
    zeros = [s for s in steps if s.operations == ("slice_update",)]
    assert sum(s.nbytes for s in zeros) == 2 * (up - words) * (256 + 264)
    assert not any("reshape" in s.operations for s in steps)
    value, found = both(h, weight, wanted)
    exact = it.asarray(h, dtype=it.float64), it.asarray(weight, dtype=it.float64)
    plain = value_and_grad(
        lambda h, w: it.cross_entropy(it.linear(it.gelu(h), w), wanted), argnums=(0, 1)
    )
    expected, gradients = plain(*exact)
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-2)
    for one, other in zip(found, gradients, strict=True):
        near = np.abs(one.numpy() - other.numpy()).max()
        assert near <= 3e-2 * np.abs(other.numpy()).max()


def test_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, those of other types, and those whose rows begin well."""
    given = [
        (drawn(256, 255), drawn(255, 257)), (drawn(256, 264), drawn(264, 272)),
        (drawn(257, 301, dtype="float32"), drawn(301, 257, dtype="float32")),
    ]  # fmt: skip
    given[0][0].backend.flush()  # what makes them has plans, too
    seen: list[Graph] = []
    whole = pipeline.filled_sequence

    def filled(device: Any, graph: Graph, pairs: Any, layers: Any) -> Any:
        seen.append(graph)
        assert with_aligned_rows(graph) is graph
        return whole(device, graph, pairs, layers)

    monkeypatch.setattr(pipeline, "filled_sequence", filled)
    for a, b in given:
        explain(product, a, b, runs=0)
    assert len(seen) == 3
