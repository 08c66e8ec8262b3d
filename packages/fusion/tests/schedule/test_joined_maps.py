"""Maps that write parts of one value are one kernel, and bits stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain, pipeline
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule.joined_maps import joined_maps
from ingle.testkit.bits import same_bits

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _joining(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    with it.device("cpu"):
        yield


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """A rotary embedding."""
    a, b = it.split(x, x.shape[-1] // 2, axis=-1)
    return it.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)


def turned_by_numbers(x: Any, *_: Any) -> Any:
    a, b = it.split(x, x.shape[-1] // 2, axis=-1)
    return it.concat([a * 2.5 - b, b * 2.5 + a * 0.5], axis=-1)


def in_three(x: Any, cos: Any, sin: Any) -> Any:
    a, b = it.split(x, x.shape[-1] // 2, axis=-1)
    return it.stack([a + cos, a * b, a - sin], axis=1)


def unequal(x: Any, cos: Any, sin: Any) -> Any:
    return it.concat([x * 2.0, it.split(x, x.shape[-1] // 2, axis=-1)[0] * cos], axis=-1)


def even_and_odd(x: Any, cos: Any, sin: Any) -> Any:
    """Elements of two that take turns and have nothing in common."""
    return it.reshape(it.stack([cos * 2.0, sin * sin], axis=-1), (cos.shape[0], -1))


def copied_and_computed(x: Any, cos: Any, sin: Any) -> Any:
    """Elements that take turns, of which one is copied as words of whatever dtype."""
    return it.reshape(it.stack([cos, sin * sin], axis=-1), (cos.shape[0], -1))


def in_squares(x: Any, cos: Any, sin: Any) -> Any:
    """Images twice as large, whose rows and columns take turns."""
    rows = [it.stack([cos * a, sin + a], axis=-1) for a in (2.0, 3.0)]
    return it.reshape(it.stack(rows, axis=-3), (2 * cos.shape[0], -1))


def of_nothing_in_common(x: Any, cos: Any, sin: Any) -> Any:
    return it.concat([cos * 2.0, sin * sin], axis=-1)


def in_turn(x: Any, cos: Any, sin: Any) -> Any:
    """The second part is made of the first one."""
    a, b = it.split(x, x.shape[-1] // 2, axis=-1)
    first = a * cos - it.sum(b, axis=-1, keepdims=True)
    return it.concat([first, it.cumulative_sum(first, axis=-1) * a], axis=-1)


CASES = [
    (turned, 1), (turned_by_numbers, 1), (in_three, 1), (unequal, 2), (of_nothing_in_common, 2),
    (in_turn, 0), (even_and_odd, 1), (in_squares, 1), (copied_and_computed, 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("f", "count"), CASES)
def test_how_many_kernels_there_are(f: Callable[..., Any], count: int, dtype: str) -> None:
    """The bits are those of operations one by one, in float32 at least."""
    shapes = (3, 5, 14), (5, 7), (5, 7)
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in shapes]
    given = [it.asarray(a, dtype=dtype) for a in arrays]
    if count:
        assert len(explain(f, *given, runs=0).steps) == count
    found = compile(f)(*given)
    wanted = f(*[it.asarray(t.numpy(), device="numpy") for t in given])
    if dtype == "float32" and f is not in_turn:
        assert same_bits(found.numpy(), wanted.numpy())
    else:
        one, other = (it.astype(t, "float32").numpy() for t in (found, wanted))
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)


def test_what_both_read_is_one_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def noted(sequence: Any) -> Any:
        found.append(joined_maps(sequence))
        return found[-1]

    monkeypatch.setattr(pipeline, "joined_maps", noted)
    compile(turned)(it.ones((2, 3, 22)), it.ones((3, 11)), it.ones((3, 11)))
    (call,) = found[-1].calls
    assert [o.output for o in call.nest.operands] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("f", [even_and_odd, in_squares])
def test_outputs_that_take_turns_know_it(
    monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any]
) -> None:
    found: list[Any] = []

    def noted(sequence: Any) -> Any:
        found.append(joined_maps(sequence))
        return found[-1]

    monkeypatch.setattr(pipeline, "joined_maps", noted)
    compile(f)(it.ones((3, 11)), it.ones((5, 9)), it.ones((5, 9)))
    (call,) = found[-1].calls
    outputs = [k for k, o in enumerate(call.nest.operands) if o.output]
    pairs = {o.beside: k for k, o in enumerate(call.nest.operands) if o.beside is not None}
    assert sorted([*pairs, *pairs.values()]) == outputs
    for first, second in pairs.items():
        places = [call.arguments[k].offset for k in (first, second)]
        assert places[1] == places[0] + 1


@pytest.mark.parametrize("length", [1, 7, 12, 16, 33, 100])
@pytest.mark.parametrize("stride", [2, 3])
def test_gradients_of_poolings_and_strides(stride: int, length: int) -> None:
    """The bits are those of operations one by one, and of parts that are stored apart."""
    x = RNG.standard_normal((2, 3, 4, stride * length)).astype(np.float32)

    def f(x: Any) -> Any:
        leaf = x.require_grad()
        y = it.max_pool2d(leaf, (2, stride), stride=(2, stride))
        g = it.arange(y.size, dtype="float32", device=x.device)
        return y.backward(it.reshape(g, y.shape) - 7.0)[leaf]

    found = compile(f)(it.asarray(x)).numpy()
    assert same_bits(found, f(it.asarray(x, device="numpy")).numpy())


@pytest.mark.parametrize("size", [6, 7, 16])
def test_what_is_moved_takes_turns_with_what_is_computed(size: int) -> None:
    """Windows of one element, two apart: all places between get zeros."""
    x, w, g = (
        RNG.integers(-4, 5, s).astype(np.float32)
        for s in ((2, 3, size, size), (4, 3, 1, 1), (2, 4, -(-size // 2), -(-size // 2)))
    )

    @compile
    def f(x: Any, w: Any, g: Any) -> Any:
        leaf = x.require_grad()
        return it.conv2d(leaf, w, stride=2).backward(g)[leaf]

    wanted = np.zeros_like(x)
    wanted[:, :, ::2, ::2] = np.einsum("nfyx,fc->ncyx", g, w[:, :, 0, 0])
    np.testing.assert_array_equal(f(*map(it.asarray, (x, w, g))).numpy(), wanted)


def test_a_rate_that_changes() -> None:
    """Numbers that each run is given are those of both parts."""

    @compile
    def f(x: Any, rate: float) -> Any:
        a, b = it.split(x, 3, axis=-1)
        return it.concat([a * rate - b, b * (rate + 1.0) + a], axis=-1)

    x = RNG.standard_normal((4, 6)).astype(np.float32)
    for rate in (0.5, 2.0, -1.0):
        a, b = np.split(x, 2, axis=-1)
        wanted = np.concatenate([a * np.float32(rate) - b, b * np.float32(rate + 1) + a], axis=-1)
        np.testing.assert_array_equal(f(it.asarray(x), rate).numpy(), wanted)
