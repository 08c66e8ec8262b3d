"""Checkpointed blocks: same gradients, less memory, cells and random places replayed."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, grad, no_grad, vmap
from ingle.tensor.errors import GradientError


def values(*shape, seed=0):
    return it.asarray(np.random.default_rng(seed).normal(size=shape))


def layers(x):
    for _ in range(4):
        x = it.exp(x * 0.1) - x
    return x


def test_same_gradients_as_without():
    x, w = values(5, 3).require_grad(), it.Cell(values(3, 3, seed=1), differentiable=True)
    block = lambda x: layers(x @ w)  # noqa: E731
    plain, kept = it.sum(block(x)).backward(), it.sum(checkpoint(block)(x)).backward()
    for key in (x, w):
        np.testing.assert_array_equal(plain[key].numpy(), kept[key].numpy())


def test_nested_blocks_structures_and_constants():
    x = values(4).require_grad()

    def block(pair, scale):
        a, b = pair
        return {"s": checkpoint(layers)(a) * scale, "k": 3, "t": [b]}

    out = checkpoint(block)((x, x * 2.0), 2.0)
    assert out["k"] == 3
    grads = (it.sum(out["s"]) + it.sum(out["t"][0])).backward()
    want = grad(lambda x: it.sum(layers(x) * 2.0) + it.sum(x * 2.0))(x.detach())
    np.testing.assert_allclose(grads[x].numpy(), want.numpy(), rtol=1e-12)


def test_writes_happen_once_and_replays_see_the_first_reads():
    state = it.Cell(values(3))
    seen = []

    @checkpoint
    def block(x):
        seen.append(state.value.tolist())
        y = x * state
        state.value = state + 1.0
        return it.exp(y)

    x = values(3, seed=2).require_grad()
    before = state.value.numpy().copy()
    loss = it.sum(block(x))
    np.testing.assert_allclose(state.value.numpy(), before + 1.0)
    state.value = state * 0.0
    grads = loss.backward()
    assert seen[0] == seen[1]
    np.testing.assert_allclose(state.value.numpy(), 0.0)
    np.testing.assert_allclose(grads[x].numpy(), before * np.exp(x.numpy() * before))


def test_dropout_draws_the_same_mask_again():
    generator = it.random.Generator(5)
    block = checkpoint(lambda x: it.dropout(x * 2.0, 0.5, generator=generator))
    x = it.ones(64).require_grad()
    y = block(x)
    drawn = generator.state
    grads = y.sum().backward()
    np.testing.assert_array_equal(grads[x].numpy(), y.numpy())
    assert generator.state == drawn


def test_higher_orders_pass_through():
    x = values(3)
    plain = lambda x: it.sum(layers(x))  # noqa: E731
    kept = lambda x: it.sum(checkpoint(layers)(x))  # noqa: E731
    second = lambda f: grad(lambda x: it.sum(grad(f)(x) * x))(x)  # noqa: E731
    np.testing.assert_allclose(second(kept).numpy(), second(plain).numpy(), rtol=1e-10)
    leaf = x.require_grad()
    first = kept(leaf).backward(create_graph=True)[leaf]
    np.testing.assert_allclose(
        it.sum(first * leaf).backward()[leaf].numpy(), second(plain).numpy(), rtol=1e-10
    )


def test_memory_falls():
    x = values(200_000).require_grad()

    def held(wrap):
        before = it.memory.stats().in_use
        y = x
        for _ in range(6):
            y = wrap(layers)(y)
        y.numpy()
        kept = it.memory.stats().in_use - before
        it.sum(y).backward()
        return kept / x.nbytes

    assert held(checkpoint) < 8
    assert held(lambda f: f) > 16


@pytest.mark.parametrize(
    "lose",
    [
        lambda x, w: checkpoint(lambda x: x * w)(x),
        lambda x, w: checkpoint(lambda x: it.sum(w))(x),
        lambda x, w: checkpoint(checkpoint(lambda x: x * w))(x),
        lambda x, w: checkpoint(lambda x: it.scan(lambda c, _: (c * w, 0), x, length=2)[0])(x),
        lambda x, w: checkpoint(lambda x: grad(lambda z: it.sum(z * z * w))(x))(x),
        lambda x, w: grad(lambda v: it.sum(checkpoint(lambda x: x * v)(x)))(w),
        lambda x, w: grad(lambda v: it.sum(checkpoint(lambda v: v * w)(v)))(x),
        lambda x, w: vmap(lambda x: checkpoint(lambda x: x * w)(x), in_axes=0)(it.stack([x, x])),
        lambda x, w: checkpoint(lambda x: x * w.to_device("numpy").to_device(x.device))(x),
    ],
)
def test_what_is_not_an_argument_has_no_gradient_in_silence(lose):
    x, w = values(3), values(3, seed=1)
    with pytest.raises(GradientError, match=r"checkpoint: .*outside of the function"):
        lose(x, w.require_grad())
    with pytest.raises(GradientError, match=r"checkpoint: .*outside of the function"):
        lose(x.require_grad(), w.require_grad())
    with no_grad():
        assert lose(x, w.require_grad()).shape in ((3,), (2, 3), ())


def test_what_counts_as_a_constant_may_come_from_outside():
    x, w = values(3).require_grad(), values(3, seed=1).require_grad()

    def block(x):
        with no_grad():
            scale = it.exp(w)
        return it.where(w > 0.0, x * w.detach(), x * scale) + it.argmax(w) + it.floor(w)

    plain = lambda x: it.where(w > 0.0, x * w.detach(), x * it.exp(w.detach()))  # noqa: E731
    found = it.sum(checkpoint(block)(x)).backward()[x]
    np.testing.assert_array_equal(found.numpy(), it.sum(plain(x)).backward()[x].numpy())
