"""The backward pass: roots, leaves, cells, containers, levels, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, checkpointing, no_grad, vjp, vmap
from ingle.tensor.dispatch import handle_of, run1
from ingle.tensor.errors import DTypeError, GradientError, MissingPackageError, ShapeError
from ingle.tensor.operation import OPERATIONS, Operation, Traits


def leaf(values):
    return it.asarray(np.asarray(values, np.float64)).require_grad()


def test_a_root_of_several_elements_needs_a_cotangent():
    x = leaf([1.0, 2.0, 3.0])
    y = x * x
    for root in (y, y[:0], it.mse_loss(y, x, reduction="none")):
        with pytest.raises(GradientError, match=r"shape .*y\.sum\(\)\.backward\(\)"):
            root.backward()
    assert y.sum().backward()[x].tolist() == [2.0, 4.0, 6.0]
    # One element is enough, of any number of axes.
    assert y[None, 1:2].backward()[x].tolist() == [0.0, 4.0, 0.0]
    g = y.backward(it.asarray(np.array([1.0, 0.0, 10.0])))
    assert g[x].tolist() == [2.0, 0.0, 60.0]


def test_second_backward_works_while_the_loss_lives():
    x = leaf([0.5, 1.5])
    loss = it.sum(it.exp(x) * x)
    first, second = loss.backward(), loss.backward()
    assert first[x].tolist() == second[x].tolist()
    np.testing.assert_allclose(first[x].numpy(), np.exp([0.5, 1.5]) * np.array([1.5, 2.5]))


def test_a_cell_counts_once_however_often_it_is_read():
    w = it.Cell(it.asarray(np.array([2.0, 3.0])), differentiable=True)
    grads = it.sum(w * w * w).backward()
    assert len(grads) == 1
    assert grads.cells() == [w]
    np.testing.assert_allclose(grads[w].numpy(), [12.0, 27.0])


def test_values_that_a_user_holds_stay():
    w = it.Cell(it.ones(2), differentiable=True)
    held = w.value
    w.value = w - 0.5
    assert held.tolist() == [1.0, 1.0]
    assert w.value.tolist() == [0.5, 0.5]


def test_higher_order_by_create_graph():
    x = leaf(1.5)
    y = x * x * x * x
    orders = []
    for _ in range(4):
        y = y.backward(create_graph=True)[x]
        orders.append(y.item())
    np.testing.assert_allclose(orders, [4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0])


def test_gradients_are_plain_without_create_graph():
    x = leaf([1.0, 2.0])
    assert it.sum(x * x).backward()[x].backend.level == 0
    assert it.sum(it.exp(x)).backward()[x].backend.level == 0  # of what the operation made


def test_no_grad_records_nothing():
    w = it.Cell(it.ones(2), differentiable=True)
    x = leaf([1.0, 2.0])
    with no_grad():
        assert (x * 2.0).backend.level == 0
        assert w.value.backend.level == 0
    assert (x * 2.0).backend.level == 1


def test_detach_stops_gradients():
    x = leaf([3.0])
    assert it.sum(x * x.detach()).backward()[x].tolist() == [3.0]


def test_integer_results_carry_no_gradient():
    x = leaf([1.0, 2.0])
    assert (x == 1.0).backend.level == 0
    assert x.astype("int32").backend.level == 0


def test_shared_subexpressions_are_visited_once():
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    assert y.backward()[x].item() == 2.0**60


def test_gradients_in_the_middle_can_be_kept():
    x = leaf([1.0, 2.0])
    middle = (x * x).require_grad()
    grads = it.sum(middle * 3.0).backward()
    assert grads[middle].tolist() == [3.0, 3.0]
    assert grads[x].tolist() == [6.0, 12.0]
    assert middle.require_grad() is middle


@pytest.mark.slow
def test_long_chains_do_not_recurse():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    assert y.backward()[x].item() == 1.0
    del y


def test_broadcast_operands_get_summed_gradients():
    a, b = leaf(np.ones((3, 1))), leaf(np.arange(4.0))
    grads = it.sum(a * b).backward()
    np.testing.assert_allclose(grads[a].numpy(), np.full((3, 1), 6.0))
    np.testing.assert_allclose(grads[b].numpy(), np.full(4, 3.0))


def test_containers_add_scale_and_measure():
    x = leaf([3.0, 4.0])
    grads = it.sum(x * 1.0).backward() + it.sum(x * x).backward()
    assert grads[x].tolist() == [7.0, 9.0]
    assert sum([grads, grads])[x].tolist() == [14.0, 18.0]
    assert (grads * 2.0)[x].tolist() == [14.0, 18.0]
    assert (grads / 2.0)[x].tolist() == [3.5, 4.5]
    np.testing.assert_allclose(grads.norm().item(), np.hypot(7.0, 9.0))


def test_norm_of_float16_gradients_does_not_overflow():
    x = it.asarray(np.full(4, 300.0, np.float16)).require_grad()
    assert it.sum(x * 300.0).backward().norm().item() == 600.0


def test_threads_share_a_model_and_sum_to_the_full_batch():
    rng = np.random.default_rng(0)
    w = it.Cell(it.asarray(rng.normal(size=(5, 3))), differentiable=True)
    data = it.asarray(rng.normal(size=(64, 5)))

    def gradients(rows):
        return it.sum(it.exp(rows @ w)).backward()

    parts = [data[i : i + 8] for i in range(0, 64, 8)]
    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(gradients, parts))
    np.testing.assert_allclose(total[w].numpy(), gradients(data)[w].numpy(), rtol=1e-12)


def test_errors_say_what_to_do():
    x = it.asarray([1.0, 2.0])
    with pytest.raises(GradientError, match="require_grad"):
        it.sum(x).backward()
    with pytest.raises(DTypeError, match=r"int64.*astype"):
        it.asarray([1, 2]).require_grad()
    y = x.require_grad() * 2.0
    with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
        y.backward(it.ones(3))
    with pytest.raises(DTypeError, match=r"root's dtype float32, got float64; cast"):
        y.backward(it.ones(2, dtype="float64"))
    with pytest.raises(GradientError, match="does not depend"):
        y.sum().backward()[x]
    frozen = it.Cell(it.ones(2))
    with pytest.raises(GradientError, match="frozen"):
        y.sum().backward()[frozen]
    with no_grad(), pytest.raises(GradientError, match="no_grad"):
        (x * 2.0).backward()


@pytest.mark.parametrize(
    "rule", [lambda g: it.stack([g, g]), lambda g: g.astype("float32")], ids=["shape", "dtype"]
)
def test_a_rule_that_returns_something_else_is_named(rule):
    wrong = Operation(
        "wrong_for_tests", tensors=("x",), rule=lambda x: x, traits=Traits("opaque"),
        vjp={"x": rule}, body=lambda x: x * 2.0,
    )  # fmt: skip
    del OPERATIONS["wrong_for_tests"]  # no others shall check it
    x = leaf([1.0, 2.0])
    y = run1(wrong.op(), handle_of(x, "wrong_for_tests"))
    with pytest.raises(GradientError, match=r"wrong_for_tests.* for an input of float64\[2\]"):
        it.sum(y).backward()


def test_without_autodiff_installed_the_error_says_what_to_install(monkeypatch):
    from ingle.tensor import plugins

    empty = plugins.Discovery(backends=plugins.discover().backends)
    monkeypatch.setattr(plugins, "_found", empty)
    monkeypatch.setattr(plugins, "_attributes", {})
    x = it.asarray([1.0])
    with pytest.raises(MissingPackageError, match="pip install ingle-autodiff"):
        x.require_grad()
    with pytest.raises(MissingPackageError, match="pip install ingle-autodiff"):
        x.backward()
    assert it.Cell(x, differentiable=True).value.backend.level == 0


def owned(value, size=1 << 16):
    """A tensor in memory of its own, which in-place operators may write to."""
    x = it.zeros(size)
    x += value
    return x


@pytest.mark.parametrize(
    "record",
    [
        lambda w, x: w * x,
        lambda w, x: it.sum(w * it.reshape(x, (2, -1))[0, 0]),
        lambda w, x: w * it.exp(x.require_grad()),
        lambda w, x: checkpoint(lambda w, x: w * x)(w, x),
        lambda w, x: checkpoint(lambda w, x: w * x[1:])(w[1:], x),
        lambda w, x: vmap(lambda w, x: w * x)(w, x),
        lambda w, x: it.where(x > 0, w, 0.0),
        lambda w, x: w * it.Cell(x),
        lambda w, x: w * it.Cell(x, differentiable=True),
    ],
    ids=["constant", "view", "leaf", "checkpoint", "checkpointed view", "vmap", "mask", "cell",
         "tracked cell"],
)  # fmt: skip
def test_in_place_operators_leave_what_was_recorded(record):
    w = owned(3.0).require_grad()
    expected = record(w, owned(2.0)).sum().backward()[w].numpy()
    for policy in ("none", "balanced"):
        x = owned(2.0)
        with checkpointing(policy):
            out = record(w, x)
        x += 1.0
        x[0] = -9.0
        np.testing.assert_array_equal(out.sum().backward()[w].numpy(), expected)


def test_in_place_operators_leave_leaves():
    x = owned(2.0)
    leaf = x.require_grad()
    loss = it.sum(leaf * leaf)
    pull = vjp(lambda x: x * x, x)[1]
    x *= 10.0
    assert loss.backward()[leaf][0].item() == 4.0
    assert pull(it.ones(x.shape))[0][0].item() == 4.0
    assert leaf[0].item() == 2.0
    cell = it.Cell(owned(2.0), differentiable=True)
    loss = it.sum(cell * cell)
    held = cell.raw
    held *= 10.0
    assert loss.backward()[cell][0].item() == 4.0
