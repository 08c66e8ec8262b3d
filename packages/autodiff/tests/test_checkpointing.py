"""Policies of what recording keeps: the same gradients bit for bit, less kept, nothing lost."""

import threading
import tracemalloc

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.autodiff import (
    checkpoint,
    checkpoint_sequential,
    checkpointing,
    grad,
    hvp,
    jvp,
    no_grad,
    saved_bytes,
    value_and_grad,
    vmap,
)
from ingle.tensor.errors import ArgumentError, GradientError, OperandError
from ingle.testkit.bits import same_bits
from ingle.testkit.cases import cases, differentiable, operations
from ingle.testkit.running import NothingToCheckError, host_allowed, pull_back

EVERYTHING = lambda operation: True  # noqa: E731
POLICIES = [pytest.param("balanced", id="balanced"), pytest.param(EVERYTHING, id="everything")]


def values(*shape, seed=0, dtype="float32"):
    return it.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


class Net(nn.Module):
    """Residual blocks with what transformers have, and a batch norm whose buffers are written."""

    def __init__(self, width=32, depth=3):
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Dropout(0.2),
                nn.Linear(4 * width, width),
                nn.BatchNorm1d(width),
            )
            for _ in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + it.softmax(block(x))
        return x


def bits(grads, keys):
    return [grads[k].numpy().tobytes() for k in keys]


def trained(policy, net, x, wrap=lambda f: f):
    """Loss, gradients and buffers of one step, with the same random numbers each time."""
    it.random.seed(5)
    for buffer in net.buffers():
        buffer.value = it.zeros_like(buffer.raw)
    with checkpointing(policy):
        loss = it.mean(it.square(wrap(net)(x)))
    kept = saved_bytes(loss)
    buffers = [b.raw.numpy().tobytes() for b in net.buffers()]
    found = bits(loss.backward(), list(net.parameters()))
    assert [b.raw.numpy().tobytes() for b in net.buffers()] == buffers
    return kept, (loss.item(), found, buffers)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("wrap", [lambda f: f, checkpoint], ids=["plain", "in a checkpoint"])
def test_same_step_bit_for_bit(policy, wrap):
    net, x = Net(), values(256, 32)
    plain, expected = trained("none", net, x)
    kept, got = trained(policy, net, x, wrap)
    assert got == expected
    assert kept < 0.7 * plain


@pytest.mark.sampled(4)
@pytest.mark.parametrize("operation", [o for o in operations() if differentiable(o)], ids=repr)
def test_every_operation_can_be_computed_again(operation):
    if operation.public is None:
        pytest.skip("the checks of another operation run it")
    checked = 0
    with host_allowed():
        for case in cases(operation, "float32"):
            if not case.sample.gradient:
                continue
            try:
                plain = pull_back(case, "numpy", np.random.default_rng(1))
                with checkpointing(EVERYTHING):
                    lean = pull_back(case, "numpy", np.random.default_rng(1))
            except NothingToCheckError:
                continue
            for a, b in zip(plain.run.tracked, lean.run.tracked, strict=True):
                if a is not None and a in plain.gradients:
                    assert bits(plain.gradients, [a]) == bits(lean.gradients, [b]), case.name
            checked += 1
    if not checked:
        pytest.skip("no sample with a gradient in float32")


def chain(x, n=6):
    for _ in range(n):
        x = it.exp(it.sin(x) * 0.5)
    return x


@pytest.mark.parametrize("policy", POLICIES)
def test_memory_of_a_chain_is_one_value(policy):
    x = values(1000).require_grad()
    with checkpointing(policy):
        y = chain(x)
    assert saved_bytes(y) == x.nbytes
    plain = chain(x)
    assert saved_bytes(plain) == 7 * x.nbytes  # x and what each exp returned
    assert bits(y.sum().backward(), [x]) == bits(plain.sum().backward(), [x])


@pytest.mark.slow
def test_allocated_memory_falls_forward_and_backward():
    # Numpy computes at once: what is held between the passes is what autodiff keeps.
    with it.device("numpy"):
        net, x = Net(width=64, depth=4), values(256, 64)

    def measured(policy):
        tracemalloc.start()
        with checkpointing(policy):
            loss = it.mean(it.square(net(x)))
        held = tracemalloc.get_traced_memory()[0]
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held, peak

    plain, lean = measured("none"), measured("balanced")
    assert lean[0] < 0.65 * plain[0]
    assert lean[1] < 0.85 * plain[1]


def test_products_are_kept_and_small_results_too():
    w, x = values(64, 64).require_grad(), values(8, 64)
    with checkpointing():
        product = saved_bytes(it.exp(x @ w))
        total = saved_bytes(it.exp(it.sum(w * 2.0)))
    assert product == x.nbytes + 8 * 64 * 4  # x for the product's rule, and the product
    assert total == 4  # exp keeps its own result, of one number


@pytest.mark.slow
def test_each_value_is_computed_again_once(monkeypatch):
    backend = values(1).backend
    ran = []
    execute = type(backend).execute
    monkeypatch.setattr(
        type(backend), "execute", lambda self, op, x: ran.append(op) or execute(self, op, x)
    )
    x = values(3).require_grad()

    def steps(policy):
        with checkpointing(policy):
            y = chain(x, 1000)
        ran.clear()
        y.sum().backward()
        return len(ran)

    plain = steps("none")
    assert plain < steps("balanced") <= plain + 3000  # exp, sin and the product of each link


@pytest.mark.parametrize("policy", POLICIES)
def test_higher_orders(policy):
    x, v = values(5, dtype="float64"), values(5, seed=1, dtype="float64")
    f = lambda x: it.sum(chain(x, 3) * x)  # noqa: E731

    def orders():
        leaf = x.require_grad()
        first = f(leaf).backward(create_graph=True)[leaf]
        cell = it.Cell(x, differentiable=True)
        mixed = grad(lambda y: it.sum(chain(y * cell, 2)))(v)
        return [
            grad(lambda x: it.sum(grad(f)(x) ** 2))(x),
            it.sum(first**2).backward()[leaf],
            hvp(f, (x,), (v,))[0],
            jvp(chain, (x,), (v,))[1],
            it.sum(mixed**2).backward()[cell],
            grad(lambda x: it.sum(grad(lambda x: it.sum(grad(f)(x) * v))(x) * x))(x),
            grad(lambda x: it.sum(vmap(grad(lambda e: it.exp(it.sin(e)) * e))(x) ** 2))(x),
        ]

    plain = orders()
    with checkpointing(policy):
        lean = orders()
    for a, b in zip(plain, lean, strict=True):
        assert same_bits(a, b)


def test_backward_twice_and_from_threads():
    x = values(50).require_grad()
    expected = bits(chain(x).sum().backward(), [x])
    with checkpointing():
        y = chain(x)
    found, total = [], y.sum()
    threads = [
        threading.Thread(target=lambda: found.append(bits(total.backward(), [x]))) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 4
    assert bits(y.sum().backward(), [x]) == expected


def test_inside_of_the_inside():
    x = values(40).require_grad()
    with checkpointing("balanced"), checkpointing("none"):
        assert saved_bytes(chain(x, 2)) > 2 * x.nbytes
    with checkpointing("balanced"), no_grad(), checkpointing("none"):
        assert chain(x).backend.level == 0
    with checkpointing("balanced"):
        with no_grad():
            constant = it.exp(x)
        y = it.sin(x * constant)
    np.testing.assert_allclose(
        y.sum().backward()[x].numpy(), (it.cos(x * constant) * constant).detach().numpy()
    )
    with pytest.raises(ArgumentError, match="policy must be 'balanced'"), checkpointing("all"):
        pass
    with pytest.raises(GradientError, match="saved_bytes"):
        saved_bytes(it.ones(2))
    with pytest.raises(OperandError, match="saved_bytes: needs a tensor"):
        saved_bytes(3.0)


# Blocks.


def test_blocks_of_modules_whose_inputs_are_constants():
    net, x = Net(), values(16, 32)

    def loss(net, wrap):
        it.random.seed(2)
        return it.mean(it.square(wrap(net)(x)))

    plain = grad(lambda m: loss(m, lambda f: f))(net)
    kept = grad(lambda m: loss(m, checkpoint))(net)
    assert bits(plain, net.parameters()) == bits(kept, net.parameters())
    twice = grad(lambda m: grad(lambda y: it.sum(checkpoint(m)(x * y)))(it.asarray(1.0)))
    assert float(twice(net).norm()) > 0


def test_a_batch_inside_a_transform_of_the_module():
    layer, x = nn.Linear(3, 2), values(4, 3)
    each = lambda row: grad(lambda m: it.sum(it.tanh(checkpoint(m)(row))))(layer)[layer.weight]  # noqa: E731
    plain = lambda row: grad(lambda m: it.sum(it.tanh(m(row))))(layer)[layer.weight]  # noqa: E731
    np.testing.assert_array_equal(vmap(each)(x).numpy(), vmap(plain)(x).numpy())


def test_backward_where_nothing_is_recorded():
    x = values(5).require_grad()
    y = checkpoint(chain)(x).sum()
    expected = bits(chain(x).sum().backward(), [x])
    with no_grad():
        assert bits(y.backward(), [x]) == expected


def test_replays_see_the_first_arguments():
    x, scale = values(3).require_grad(), it.ones(3)
    y = checkpoint(lambda x, s: x * s)(x, scale)
    scale += 5.0
    np.testing.assert_array_equal(y.sum().backward()[x].numpy(), np.ones(3))
    np.testing.assert_array_equal(scale.numpy(), np.full(3, 6.0))


def test_replays_see_the_first_surroundings():
    x = values(3).require_grad()
    with it.default_dtypes(floating="float64"):
        y = checkpoint(lambda x: x.astype("float64") * it.asarray([0.1, 0.2, 0.3]))(x)
    np.testing.assert_array_equal(y.sum().backward()[x].numpy(), np.float32([0.1, 0.2, 0.3]))


@pytest.mark.slow
def test_modules_and_sequences_of_them():
    net, x = Net(), values(256, 32)
    plain, expected = trained("none", net, x)
    for block in net.blocks:
        block.checkpointed = True
    kept, got = trained("none", net, x)
    assert got == expected
    assert kept < 0.5 * plain
    model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(7)])
    plain, expected = trained("none", model, x)
    for segments in (1, 2, 3, 7):
        kept, got = trained("none", model, x, lambda m, n=segments: checkpoint_sequential(m, n))
        assert got == expected
    assert trained("none", model, x, lambda m: checkpoint_sequential(m, 3))[0] < 0.8 * plain


def test_wrong_segments():
    for segments, message in ((0, "positive integer"), (True, "positive"), (3, "2 functions")):
        with pytest.raises(ArgumentError, match=message):
            checkpoint_sequential([it.exp, it.sin], segments)
    with pytest.raises(OperandError, match=r"functions\[1\] cannot be called, it is a int"):
        checkpoint_sequential([it.exp, 3], 1)


def test_a_policy_around_a_value_and_grad():
    net, x = Net(), values(16, 32)

    def loss(net):
        it.random.seed(9)
        return it.mean(it.square(net(x)))

    plain = value_and_grad(loss)(net)
    with checkpointing("balanced"):
        lean = value_and_grad(loss)(net)
    assert plain[0].item() == lean[0].item()
    assert bits(plain[1], net.parameters()) == bits(lean[1], net.parameters())
