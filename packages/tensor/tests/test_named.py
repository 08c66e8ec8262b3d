"""Named axes against the same operations on plain tensors."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import named
from ingle.tensor.errors import ArgumentError, AxisError, OperandError, ShapeError

RNG = np.random.default_rng(0)


@pytest.fixture
def x() -> named.NamedTensor:
    return named.named(it.asarray(RNG.standard_normal((2, 3, 4))), "batch channel pixel")


@pytest.fixture
def w() -> named.NamedTensor:
    return named.named(it.asarray(RNG.standard_normal((4, 3))), "pixel channel")


def test_operands_meet_by_name(x: named.NamedTensor, w: named.NamedTensor) -> None:
    a, b = x.numpy(), w.numpy()
    out = x * w - 1
    assert out.names == x.names
    np.testing.assert_array_equal(out.numpy(), a * b.T - 1)
    swapped = 2.0 / w**2 + x
    assert swapped.names == ("pixel", "channel", "batch")
    np.testing.assert_array_equal(swapped.numpy(), 2.0 / b[..., None] ** 2 + a.T)
    assert (w > 0).dtype is it.bool
    np.testing.assert_array_equal(((w > 0) & (w < 1)).numpy(), (b > 0) & (b < 1))
    np.testing.assert_array_equal((-abs(w) == w).numpy(), -abs(b) == b)
    np.testing.assert_array_equal((it.asarray(2.0) * w).numpy(), 2 * b)


def test_axes_of_size_one_broadcast(w: named.NamedTensor) -> None:
    mean = w.mean("pixel", keepdims=True)
    np.testing.assert_array_equal((w - mean).numpy(), w.numpy() - w.numpy().mean(0))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std"])
def test_reductions(x: named.NamedTensor, name: str) -> None:
    plain = getattr(it, name)
    for names, axis in (("pixel", 2), ("pixel batch", (0, 2)), (["channel"], 1), (None, None)):
        out = getattr(x, name)(names)
        np.testing.assert_array_equal(out.numpy(), plain(x.tensor, axis=axis).numpy())
    assert x.reduce(it.sum, "pixel batch").names == ("channel",)
    assert x.argmax("channel").names == ("batch", "pixel")
    assert bool((x == x).all())
    assert not bool((x != x).any())


def test_functions(x: named.NamedTensor) -> None:
    np.testing.assert_array_equal(x.apply(it.tanh).numpy(), it.tanh(x.tensor).numpy())
    wanted = it.softmax(x.tensor, axis=1).numpy()
    np.testing.assert_array_equal(x.softmax("channel").numpy(), wanted)
    wanted = it.sort(x.tensor, axis=0, descending=True).numpy()
    np.testing.assert_array_equal(x.along(it.sort, "batch", descending=True).numpy(), wanted)
    assert x.astype("float32").dtype is it.float32


def test_products(x: named.NamedTensor, w: named.NamedTensor) -> None:
    a, b = x.numpy(), w.numpy()
    np.testing.assert_allclose(named.dot(x, w, over="pixel").numpy(), np.einsum("bcp,pc->bc", a, b))
    out = named.dot(x, w, w.rename(channel="other"), over="pixel batch")
    assert out.names == ("channel", "other")
    np.testing.assert_allclose(out.numpy(), np.einsum("bcp,pc,po->co", a, b, b))


def test_shapes(x: named.NamedTensor) -> None:
    moved = x.align_to("pixel new batch channel")
    assert moved.tensor.shape == (4, 1, 2, 3)
    np.testing.assert_array_equal(moved.drop("new").numpy(), x.numpy().transpose(2, 0, 1))
    merged = x.merge("batch pixel", "all")
    assert merged.sizes == {"all": 8, "channel": 3}
    np.testing.assert_array_equal(merged.numpy(), x.numpy().transpose(0, 2, 1).reshape(8, 3))
    back = merged.unmerge("all", batch=2, pixel=-1).align_to(x.names)
    np.testing.assert_array_equal(back.numpy(), x.numpy())
    assert x.rename({"batch": "n"}, pixel="p").names == ("n", "channel", "p")
    assert repr(x) == f"named(batch=2, channel=3, pixel=4, dtype=float64, device={x.device})"


def test_selection(x: named.NamedTensor) -> None:
    a = x.numpy()
    out = x.select(batch=1, pixel=slice(None, None, 2))
    assert out.names == ("channel", "pixel")
    np.testing.assert_array_equal(out.numpy(), a[1, :, ::2])
    np.testing.assert_array_equal(x.select(channel=[2, 0]).numpy(), a[:, [2, 0]])
    np.testing.assert_array_equal(x.select(channel=it.asarray(1)).numpy(), a[:, 1])


def test_joining(x: named.NamedTensor) -> None:
    y = x.align_to("pixel channel batch")
    out = named.concat([x, y], "channel")
    np.testing.assert_array_equal(out.numpy(), np.concatenate([x.numpy()] * 2, axis=1))
    assert named.stack([x, y], "copy").sizes == {"copy": 2, **x.sizes}


def test_gradients(x: named.NamedTensor, w: named.NamedTensor) -> None:
    tracked = w.require_grad()
    grads = (x * tracked).sum().backward()
    np.testing.assert_allclose(grads[tracked.tensor].numpy(), x.numpy().sum(0).T)
    grads = (tracked * 3.0).backward(w.align_to("channel pixel"))
    np.testing.assert_allclose(grads[tracked.tensor].numpy(), 3 * w.numpy())


def test_errors(x: named.NamedTensor, w: named.NamedTensor) -> None:
    with pytest.raises(AxisError, match=r"2 names .* 3 axes"):
        named.named(x.tensor, "a b")
    with pytest.raises(AxisError, match="'a' comes twice"):
        named.named(w.tensor, "a a")
    with pytest.raises(AxisError, match="identifier"):
        named.named(w.tensor, ["a", "b c"])
    with pytest.raises(ShapeError, match="axis 'pixel' has the sizes 4 and 5"):
        x + named.named(it.zeros(5), "pixel")
    with pytest.raises(OperandError, match="plain tensor of shape"):
        x + it.zeros(4)
    with pytest.raises(AxisError, match="no axis 'time' among"):
        x.sum("time")
    with pytest.raises(AxisError, match="leaves out the axes"):
        x.align_to("pixel batch")
    with pytest.raises(ShapeError, match="'pixel' has size 4"):
        x.drop("pixel")
    with pytest.raises(ShapeError, match="not elementwise"):
        x.apply(it.sum)
    with pytest.raises(ShapeError, match="does not split into"):
        x.unmerge("pixel", a=3, b=-1)
    with pytest.raises(ArgumentError, match="merge"):
        x.merge("", "new")
    with pytest.raises(AxisError, match="different axes"):
        named.concat([x, w], "pixel")
    with pytest.raises(OperandError, match="needs at least one"):
        named.stack([], "copy")
    with pytest.raises(AxisError, match="dot: there is no axis 'z'"):
        named.dot(x, w, over="z")
    with pytest.raises(ShapeError, match="but one name"):
        x.select(pixel=[[0, 1]])
