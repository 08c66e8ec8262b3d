"""Gradients of movement, gather and scatter against PyTorch and finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it

torch = pytest.importorskip("torch")


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def assert_gradient(
    ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: np.ndarray
) -> None:
    """The gradient of a weighted sum of the result, and that of its square's gradient."""
    x = [it.asarray(a).require_grad() for a in arrays]
    t = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = ours(*x), theirs(*t)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-12)
    weights = values(out.shape, 7)
    grads = it.sum(out * out * it.asarray(weights)).backward()
    wanted = torch.autograd.grad((expected * expected * torch.tensor(weights)).sum(), t)
    for a, w in zip(x, wanted, strict=True):
        np.testing.assert_allclose(grads[a].numpy(), w.numpy(), rtol=1e-10, atol=1e-12)


def second_derivative(function: Callable[[Any], Any], x: np.ndarray) -> None:
    """`sum(f(x)**3)` differentiated twice against finite differences of the first gradient."""

    def gradient(at: np.ndarray) -> np.ndarray:
        v = it.asarray(at).require_grad()
        return it.sum(function(v) * function(v) * function(v)).backward()[v].numpy()

    v = it.asarray(x).require_grad()
    y = function(v)
    first = it.sum(y * y * y).backward(create_graph=True)[v]
    direction = values(x.shape, 11)
    second = it.sum(first * it.asarray(direction)).backward()[v].numpy()
    step = 1e-5
    numeric = (gradient(x + step * direction) - gradient(x - step * direction)) / (2 * step)
    np.testing.assert_allclose(second, numeric, rtol=1e-5, atol=1e-7)


def set_in(x: Any, key: Any, value: Any) -> Any:
    out = x.clone()
    out[key] = value
    return out


def gradient_cases() -> Iterator[Any]:
    def case(name: str, ours: Any, theirs: Any, *shapes: Any) -> Any:
        return pytest.param(ours, theirs, shapes, id=name)

    yield case(
        "concat",
        lambda a, b: it.concat([a, b], axis=1),
        lambda a, b: torch.cat([a, b], 1),
        (2, 3),
        (2, 1),
    )
    yield case(
        "stack",
        lambda a, b: it.stack([a, b, a], axis=-1),
        lambda a, b: torch.stack([a, b, a], -1),
        (2, 3),
        (2, 3),
    )
    yield case(
        "slice_update",
        lambda a, b: it.slice_update(a, b, (1, 0)),
        lambda a, b: torch.slice_scatter(a, b, 0, 1, 3),
        (4, 3),
        (2, 3),
    )
    yield case("slice", lambda a: a[1:, ::2], lambda a: a[1:, ::2], (4, 5))
    yield case("flip", lambda a: it.flip(a, axis=0), lambda a: a.flip(0), (4, 5))
    yield case("roll", lambda a: it.roll(a, 2, axis=1), lambda a: a.roll(2, 1), (4, 5))
    yield case("tile", lambda a: it.tile(a, (2, 1)), lambda a: a.tile((2, 1)), (4, 5))
    yield case(
        "repeat", lambda a: it.repeat(a, 3, axis=0), lambda a: a.repeat_interleave(3, 0), (2, 3)
    )
    yield case(
        "repeat counts",
        lambda a: it.repeat(a, [2, 0, 1], axis=0),
        lambda a: a.repeat_interleave(torch.tensor([2, 0, 1]), 0),
        (3, 2),
    )
    for mode, theirs in (("reflect", "reflect"), ("edge", "replicate"), ("circular", "circular")):
        yield case(
            f"pad {mode}",
            lambda a, m=mode: it.pad(a, ((0, 0), (0, 0), (2, 1), (1, 3)), mode=m),
            lambda a, m=theirs: torch.nn.functional.pad(a, (1, 3, 2, 1), mode=m),
            (1, 2, 4, 5),
        )
    yield case(
        "pad constant",
        lambda a: it.pad(a, ((1, -1), (2, 0)), value=3.0),
        lambda a: torch.nn.functional.pad(a, (2, 0, 1, -1), value=3.0),
        (4, 5),
    )
    yield case("moveaxis", lambda a: it.moveaxis(a, 0, 2), lambda a: a.movedim(0, 2), (2, 3, 4))
    yield case("diagonal", lambda a: it.diagonal(a, offset=1), lambda a: a.diagonal(1), (3, 5))
    rows, columns = [2, 0, 2], [1, -1, 1]
    index = torch.tensor([[1, 0], [1, 1], [0, 2]])
    ours_index = it.asarray(index.numpy())
    yield case(
        "take",
        lambda a: it.take(a, ours_index, axis=1),
        lambda a: a[:, index],
        (2, 3, 4),
    )
    yield case(
        "take_along_axis",
        lambda a: it.take_along_axis(a, ours_index, axis=1),
        lambda a: a.gather(1, index),
        (3, 4),
    )
    yield case("indices", lambda a: a[rows, columns], lambda a: a[rows, columns], (3, 4))
    yield case(
        "indices apart",
        lambda a: a[rows, :, columns],
        lambda a: a[rows, :, columns].clone(),
        (3, 2, 4),
    )
    yield case(
        "mask",
        lambda a: a[it.asarray([True, False, True])],
        lambda a: a[torch.tensor([True, False, True])],
        (3, 4),
    )
    yield case(
        "at.set",
        lambda a, b: a.at[rows[:2], 1:].set(b),
        lambda a, b: set_in(a, (rows[:2], slice(1, None)), b),
        (3, 4),
        (2, 3),
    )
    yield case(
        "at.set one value",
        lambda a, b: a.at[::2].set(b),
        lambda a, b: set_in(a, (slice(None, None, 2),), b),
        (3, 4),
        (4,),
    )
    yield case(
        "at.add",
        lambda a, b: a.at[rows].add(b),
        lambda a, b: a.index_add(0, torch.tensor(rows), b),
        (3, 4),
        (3, 4),
    )
    yield case(
        "masked set",
        lambda a, b: a.at[it.asarray([True, False, True])].set(b),
        lambda a, b: set_in(a, (torch.tensor([True, False, True]),), b),
        (3, 4),
        (4,),
    )
    yield case(
        "where",
        lambda a, b: it.where(it.asarray([[True], [False]]), a, b),
        lambda a, b: torch.where(torch.tensor([[True], [False]]), a, b),
        (2, 3),
        (3,),
    )
    yield case(
        "masked_fill",
        lambda a: it.masked_fill(a, it.asarray([True, False, True]), 2.0),
        lambda a: a.masked_fill(torch.tensor([True, False, True]), 2.0),
        (2, 3),
    )
    yield case(
        "tensordot",
        lambda a, b: it.tensordot(a, b, axes=((0, 2), (1, 0))),
        lambda a, b: torch.tensordot(a, b, dims=([0, 2], [1, 0])),
        (3, 2, 4),
        (4, 3, 5),
    )
    yield case("vecdot", it.vecdot, torch.linalg.vecdot, (5, 3), (2, 1, 3))
    yield case("outer", it.outer, torch.outer, (5,), (3,))
    yield case("matmul", it.matmul, torch.matmul, (2, 5, 3), (3, 4))
    yield case("matmul stacks", it.matmul, torch.matmul, (2, 1, 5, 3), (4, 3, 2))
    yield case("matmul vector", it.matmul, torch.matmul, (2, 5, 3), (3,))
    yield case("tril", lambda a: it.tril(a, k=-1), lambda a: a.tril(-1), (3, 5))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("ours", "theirs", "shapes"), list(gradient_cases()))
def test_gradients(ours: Any, theirs: Any, shapes: Any) -> None:
    assert_gradient(ours, theirs, *[values(s, i) for i, s in enumerate(shapes)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:, ::-2],
        lambda x: it.concat([x, x[:1]]),
        lambda x: it.pad(x, 1),
        lambda x: it.take(x, [0, 2, 2], axis=0),
        lambda x: it.take_along_axis(x, [[0], [1], [1]], axis=1),
        lambda x: it.scatter_add(x, [0, 0], x[:2], axis=0),
        lambda x: it.scatter_set(x, [2, 2], x[:2], axis=0),
        lambda x: it.slice_update(x, x[:1], (2, 0)),
        lambda x: it.where(it.asarray([True, False, True, False]), x, x * x),
    ],
)
def test_second_derivatives(function: Any) -> None:
    second_derivative(function, values((3, 4)))


def test_a_concat_of_tracked_and_constant_parts() -> None:
    x = it.ones(2).require_grad()
    y = it.concat([it.zeros(3), x, it.ones(1)])
    assert it.sum(y * it.arange(6).astype("float32")).backward()[x].tolist() == [3.0, 4.0]


def test_the_last_of_several_updates_gets_the_gradient() -> None:
    updates = it.asarray([1.0, 2.0, 3.0]).require_grad()
    x = it.zeros(2).require_grad()
    out = it.scatter_set(x, [1, 1, 1], updates)
    assert out.tolist() == [0.0, 3.0]
    grads = it.sum(out * 5.0).backward()
    assert grads[updates].tolist() == [0.0, 0.0, 5.0]
    assert grads[x].tolist() == [5.0, 0.0]
