"""Rows that are made of several axes: what stands around a reshape is one kernel, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain, pipeline
from ingle.fusion.grouping import node_places
from ingle.fusion.grouping.consumers import Uses
from ingle.fusion.ir.graph import Graph
from ingle.fusion.ir.split_axes import one_stride, runs, strides_within
from ingle.fusion.lowering import region_copies
from ingle.fusion.passes.split_leading_axes import with_split_rows
from ingle.tensor.contract import Aval
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits


@pytest.fixture(autouse=True)
def on_cpu():
    with it.device("cpu"):
        yield


@pytest.fixture
def apart():
    """Has a function run where rows stay what they are, and products write what they make."""

    def in_order(group, places):
        return list(places) == [a for a, n in enumerate(group.space) if n != 1]

    def run(function, *args):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("with_split_rows", "with_concat_of_pads"):
                patch.setattr(pipeline, name, lambda graph: graph)
            patch.setattr(Uses, "first_map", lambda self, root: None)
            patch.setattr(node_places, "keeps_rows", in_order)
            patch.setattr(region_copies, "can_write", lambda *args: False)
            return function(*args)

    return run


def numbers(*shape, seed=0, dtype="float32"):
    drawn = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    return it.asarray(drawn).astype(dtype)


def kernels(function, *args):
    """What each kernel of a function does."""
    return [step.name for step in explain(function, *args, runs=0).steps]


def flat(results):
    if isinstance(results, it.Tensor):
        return [results.numpy()]
    return [array for part in results for array in flat(part)]


def alike(apart, function, *args):
    """Asserts that a function gives the same bits where rows stay, and returns them."""
    got, want = flat(compile(function)(*args)), flat(apart(compile(function), *args))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert same_bits(a, b)
    return got


def linear(x, w, c):
    """A product of each row, as a layer does it."""
    *lead, d = x.shape
    rows = it.reshape(x, (math.prod(lead), d)) @ w
    return it.reshape(rows + c, (*lead, w.shape[1]))


class TestWhatBecomesOneKernel:
    def test_an_activation_behind_a_layer(self, apart):
        args = numbers(2, 12, 16), numbers(16, 24, seed=1), numbers(24, seed=2)

        def layer(x, w, c):
            return it.gelu(linear(x, w, c))

        assert len(kernels(layer, *args)) == 1
        assert len(apart(kernels, layer, *args)) == 2
        (got,) = alike(apart, layer, *args)
        x, w, c = [a.numpy().astype(np.float64) for a in args]
        erf = np.vectorize(math.erf)
        want = (z := x @ w + c) * (erf(z / math.sqrt(2)) + 1) / 2
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_a_residual_and_a_mask(self, apart):
        x, w, c = numbers(2, 12, 16), numbers(16, 16, seed=1), numbers(16, seed=2)
        mask = numbers(2, 12, 1, seed=3) > 0

        def block(x, w, c, mask):
            return x + it.where(mask, linear(x, w, c), 0.0)

        assert len(kernels(block, x, w, c, mask)) == 1
        (got,) = alike(apart, block, x, w, c, mask)
        rows = np.where(mask.numpy(), x.numpy() @ w.numpy() + c.numpy(), 0.0)
        np.testing.assert_allclose(got, x.numpy() + rows, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("lead", [(3, 4), (1, 12), (12, 1), (2, 1, 6), (2, 3, 2), (5,), (1, 1)])
    @pytest.mark.parametrize("width", [1, 2, 17])
    def test_any_number_of_axes(self, apart, lead, width):
        args = numbers(*lead, 8), numbers(8, width, seed=1), numbers(width, seed=2)

        def layer(x, w, c):
            return it.abs(linear(x, w, c)) * 3.0

        assert len(kernels(layer, *args)) == 1
        (got,) = alike(apart, layer, *args)
        x, w, c = [a.numpy() for a in args]
        np.testing.assert_allclose(got, np.abs(x @ w + c) * 3, rtol=1e-5, atol=1e-5)

    def test_a_batch_that_was_one_axis(self, apart):
        a, b = numbers(6, 5, 7), numbers(6, 7, 4, seed=1)

        def products(a, b):
            return it.reshape(a @ b, (2, 3, 5, 4)) * 2.0 + 1.0

        assert len(kernels(products, a, b)) == 1
        (got,) = alike(apart, products, a, b)
        want = (a.numpy() @ b.numpy()).reshape(2, 3, 5, 4) * 2 + 1
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_sums_over_rows_go_where_rows_are_made(self, apart):
        """The gradient of a layer's bias is a sum over rows of what a norm's gradient makes."""
        x, w = numbers(4, 32, 64), numbers(64, 64, seed=1)
        c, scale, shift = [numbers(64, seed=s) for s in (2, 3, 4)]

        def loss(x, w, c, scale, shift):
            y = it.layer_norm(linear(x, w, c), 64, scale, shift)
            return it.sum(y * x)

        step = value_and_grad(loss, argnums=(1, 2, 3, 4))
        args = x, w, c, scale, shift
        (names,) = [n for n in kernels(step, *args) if "block_sums" in n]
        assert "block_sumsx3" in names
        assert not any("block_sumsx3" in n for n in apart(kernels, step, *args))
        alike(apart, step, *args)

    def test_heads_are_written_as_the_next_product_reads_them(self, apart):
        q, v, w = numbers(2, 3, 5, 7), numbers(2, 3, 7, 4, seed=1), numbers(12, 8, seed=2)

        def heads(q, v, w):
            mixed = it.permute_dims(q @ v, (0, 2, 1, 3))
            return it.reshape(mixed, (10, 12)) @ w

        assert len(kernels(heads, q, v, w)) == 2
        assert len(apart(kernels, heads, q, v, w)) == 3
        (got,) = alike(apart, heads, q, v, w)
        mixed = (q.numpy() @ v.numpy()).transpose(0, 2, 1, 3).reshape(10, 12)
        np.testing.assert_allclose(got, mixed @ w.numpy(), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("axes", [(1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 3, 2)])
    def test_results_in_any_order(self, apart, axes):
        a, b = numbers(2, 3, 5, 7), numbers(2, 3, 7, 4, seed=1)

        def turned(a, b):
            y = it.permute_dims(a @ b, axes)
            return y * 2.0, it.reshape(y, (-1,))

        got = alike(apart, turned, a, b)
        want = (a.numpy() @ b.numpy()).transpose(axes)
        np.testing.assert_allclose(got[0], want * 2, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got[1], want.reshape(-1), rtol=1e-5, atol=1e-5)

    def test_a_product_is_a_piece_at_once(self, apart):
        x, w, y = numbers(2, 12, 16), numbers(16, 24, seed=1), numbers(2, 12, 3, seed=2)

        def beside(x, w, y):
            return it.concat([linear(x, w, it.zeros(24)), y], axis=-1)

        assert len(kernels(beside, x, w, y)) == 2
        assert len(apart(kernels, beside, x, w, y)) == 3
        (got,) = alike(apart, beside, x, w, y)
        want = np.concatenate([x.numpy() @ w.numpy(), y.numpy()], axis=-1)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


class TestWhatStaysApart:
    def test_positions_that_repeat(self, apart):
        """Loops along rows as one cannot repeat what each of the batch adds."""
        args = numbers(3, 4, 8), numbers(8, 5, seed=1), numbers(5, seed=2), numbers(4, 5, seed=3)

        def embedding(x, w, c, places):
            return it.tanh(linear(x, w, c) + places)

        assert len(kernels(embedding, *args)) == 2
        (got,) = alike(apart, embedding, *args)
        x, w, c, places = [a.numpy() for a in args]
        np.testing.assert_allclose(got, np.tanh(x @ w + c + places), rtol=1e-5, atol=1e-5)

    def test_a_batch_that_repeats(self, apart):
        args = numbers(3, 4, 8), numbers(8, 5, seed=1), numbers(5, seed=2), numbers(3, 1, 5, seed=3)

        def scaled(x, w, c, scale):
            return linear(x, w, c) * scale

        (got,) = alike(apart, scaled, *args)
        x, w, c, scale = [a.numpy() for a in args]
        np.testing.assert_allclose(got, (x @ w + c) * scale, rtol=1e-5, atol=1e-5)

    def test_axes_in_another_order(self, apart):
        args = numbers(3, 4, 8), numbers(8, 5, seed=1), numbers(5, seed=2), numbers(4, 3, 5, seed=3)

        def mixed(x, w, c, other):
            return linear(x, w, c) + it.permute_dims(other, (1, 0, 2))

        (got,) = alike(apart, mixed, *args)
        x, w, c, other = [a.numpy() for a in args]
        want = x @ w + c + other.transpose(1, 0, 2)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_what_meets_a_product_with_its_axes_in_other_orders(self, apart):
        a, b, x = numbers(2, 5, 7), numbers(2, 7, 4, seed=1), numbers(2, 5, 4, seed=2)

        def meet(a, b, x):
            y = it.tanh(x)
            turned = it.permute_dims(y, (0, 2, 1)) + 1.0
            return a @ b + y, turned, it.permute_dims(y, (1, 0, 2)) * 2.0

        got = alike(apart, meet, a, b, x)
        y = np.tanh(x.numpy())
        wants = a.numpy() @ b.numpy() + y, y.transpose(0, 2, 1) + 1, y.transpose(1, 0, 2) * 2
        for value, want in zip(got, wants, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)

    def test_two_splits_of_the_same_rows(self, apart):
        args = numbers(12, 8), numbers(8, 5, seed=1)

        def both(x, w):
            rows = x @ w
            first = it.reshape(rows + 1.0, (3, 4, 5)) * 2.0
            return first, it.reshape(rows + 1.0, (2, 6, 5)) * 3.0, rows - 1.0

        got = alike(apart, both, *args)
        rows = args[0].numpy() @ args[1].numpy()
        wants = ((rows + 1).reshape(3, 4, 5) * 2, (rows + 1).reshape(2, 6, 5) * 3, rows - 1)
        for value, want in zip(got, wants, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)

    def test_what_is_stored_for_others_anyway_is_computed_by_a_sum(self):
        args = numbers(2, 12, 16), numbers(16, 16, seed=1), numbers(16, seed=2)

        def sums(x, w, c):
            y = linear(x, w, c)
            return y, it.sum(y * x, axis=-1)

        found = kernels(sums, *args)
        assert len(found) == 2
        assert "multiply sum" in found[1]


def gpt_block(x, norm, up, bias, down):
    y = it.gelu(linear(it.layer_norm(x, x.shape[-1], norm, bias[: x.shape[-1]]), up, bias))
    return x + linear(y, down, norm)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(2, 12), (3, 1), (1, 7), (2, 3, 4)])
def test_a_block_and_its_gradient(apart, lead, dtype):
    shapes = [(*lead, 16), (16,), (16, 40), (40,), (40, 16)]
    args = [numbers(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)]

    def loss(*args):
        return it.mean(gpt_block(*args) ** 2.0)

    got = alike(apart, value_and_grad(loss, argnums=(0, 1, 2, 3, 4)), *args)
    with it.device("numpy"):
        same = [it.asarray(a.numpy()) for a in args]
        want = flat(value_and_grad(loss, argnums=(0, 1, 2, 3, 4))(*same))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_no_worse(dtype):
    args = [numbers(3, 5, 16, dtype=dtype), numbers(16, 8, seed=1, dtype=dtype)]
    c = numbers(8, seed=2, dtype=dtype)

    def layer(x, w, c):
        return it.tanh(linear(x, w, c)) * 0.5

    got = compile(layer)(*args, c).astype("float32").numpy()
    x, w, b = [a.astype("float32").numpy().astype(np.float64) for a in (*args, c)]
    np.testing.assert_allclose(got, np.tanh(x @ w + b) * 0.5, atol=2e-2)


def test_empty_arrays(apart):
    for lead in ((0, 3), (2, 0), (0, 0)):
        x, w, c = numbers(*lead, 4), numbers(4, 5), numbers(5)
        (got,) = alike(apart, lambda x, w, c: it.exp(linear(x, w, c)), x, w, c)
        assert got.shape == (*lead, 5)


def test_rows_of_a_sum_over_rows_are_others(apart):
    """Its first axis is the second one of what is summed."""

    def function(x):
        return it.reshape(it.sum(it.tanh(x), axis=0) * 2.0, (11, 3)) + 1.0

    alike(apart, function, numbers(3, 33))
    alike(apart, function, numbers(33, 33))


def test_a_loss_over_rows(apart):
    """The work on rows has the axes of what the layer before it gives."""
    logits, targets = numbers(3, 5, 11), it.asarray(np.arange(15).reshape(3, 5) % 11)

    def loss(z, y):
        z = z * 2.0 + 1.0
        return it.cross_entropy(it.reshape(z, (15, 11)), it.reshape(y, (15,)))

    got = alike(apart, value_and_grad(loss), logits, targets)
    z = logits.numpy().astype(np.float64).reshape(15, 11) * 2 + 1
    picked = z[np.arange(15), targets.numpy().reshape(15)]
    want = (np.log(np.exp(z).sum(-1)) - picked).mean()
    np.testing.assert_allclose(got[0], want, rtol=1e-5)


def test_modules_train_alike(apart):
    """A whole net: the same parameters, bit for bit, behind some steps."""

    def trained():
        it.random.seed(3)
        net = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))

        @compile
        def step(x):
            return value_and_grad(lambda x: it.mean((x + net(x)) ** 2.0))(x)

        x = numbers(2, 6, 16)
        for _ in range(4):
            _, gradient = step(x)
            x = x - gradient
        return x.numpy()

    assert same_bits(trained(), apart(trained))


class TestGraphs:
    @staticmethod
    def graph(shape, to):
        graph = Graph()
        x = graph.input(Aval(shape, it.float32))
        (y,) = graph.node(OPERATIONS["exp"].op(), (x,))
        (z,) = graph.node(OPERATIONS["reshape"].op(shape=to), (y,))
        graph.outputs = graph.node(OPERATIONS["sin"].op(), (z,))
        return graph

    def test_work_moves_behind_a_reshape(self):
        new = with_split_rows(self.graph((6, 5), (2, 3, 5)))
        shapes = [new.values[n.results[0]].aval.shape for n in new.nodes]
        assert [n.op.operation.name for n in new.nodes] == ["reshape", "exp", "sin"]
        assert shapes == [(2, 3, 5)] * 3

    @pytest.mark.parametrize("to", [(6, 5, 1), (1, 6, 5), (6, 1, 5), (5, 6), (3, 10), (6, 5)])
    def test_other_reshapes_stay(self, to):
        graph = self.graph((6, 5), to)
        assert with_split_rows(graph) is graph

    def test_reductions_over_rows_fold_all_their_axes(self):
        graph = Graph()
        x = graph.input(Aval((2, 3, 5), it.float32))
        (y,) = graph.node(OPERATIONS["exp"].op(), (x,))
        (z,) = graph.node(OPERATIONS["reshape"].op(shape=(6, 5)), (y,))
        total = OPERATIONS["sum"].op(axis=(0,), keepdims=True)
        graph.outputs = graph.node(total, (z,))
        new = with_split_rows(graph)
        folds = next(n for n in new.nodes if n.op.operation.name == "sum")
        assert folds.op.attributes["axis"] == (0, 1)
        assert new.values[new.outputs[0]].aval.shape == (1, 5)


def test_axes_that_others_are_split_into():
    assert runs((6, 4), (2, 3, 4)) == ((0, 1), (2,))
    assert runs((1, 6), (1, 2, 3)) == ((), (0, 1, 2))
    assert runs((6,), (6, 1)) == ((0, 1),)
    assert runs((6, 4), (3, 8)) is None
    assert runs((6,), (2, 2)) is None
    assert strides_within(((0, 1), (2,)), (2, 3, 4), (8, 2)) == (24, 8, 2)
    assert one_stride((2, 1, 3), (3, 9, 1)) == 1
    assert one_stride((1, 1), (5, 7)) == 0
    assert one_stride((2, 3), (1, 2)) is None


WIDTH = 6
STEPS = {
    "product": lambda c, x, r: c.back(r @ c.w),
    "biased": lambda c, x, r: c.back(r @ c.w + c.vector),
    "layer": lambda c, x, r: it.tanh(c.back(r @ c.w + c.vector)),
    "activation": lambda c, x, r: it.tanh(x * 1.5),
    "rows": lambda c, x, r: c.back(it.tanh(r) - c.vector),
    "places": lambda c, x, r: x + c.places,
    "batch": lambda c, x, r: x * c.batch,
    "mask": lambda c, x, r: it.where(c.mask > 0, x, -x),
    "norm": lambda c, x, r: x - it.mean(x, axis=-1, keepdims=True),
    "rows norm": lambda c, x, r: c.back(r - it.max(r, axis=1, keepdims=True)),
    "softmax": lambda c, x, r: c.back(it.softmax(r, axis=-1)),
    "residual": lambda c, x, r: x + c.x,
    "turned": lambda c, x, r: c.back(it.permute_dims(x, (1, 0, 2))),
    "turned product": lambda c, x, r: c.back(it.permute_dims(c.back(r @ c.w), (1, 0, 2))),
    "columns": lambda c, x, r: x - it.reshape(it.mean(r, axis=0, keepdims=True), (1, 1, WIDTH)),
    "picked": lambda c, x, r: c.back(r + it.argmax(r, axis=1, keepdims=True) * 0.1),
    "heads": lambda c, x, r: c.back(it.reshape(x, (c.b, c.t, 2, 3)) * 0.5),
    "other": lambda c, x, r: c.back(it.tanh(it.reshape(r, (c.t, c.b, WIDTH)))),
    "mixed": lambda c, x, r: c.mixed(x),
    "chunks": lambda c, x, r: it.concat([-y for y in it.split(x, 3, axis=-1)], axis=-1),
}


class Chain:
    """A random chain of work on `(b, t, WIDTH)` and on its rows, with sums on the way."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.b, self.t = b, t = [int(n) for n in rng.choice([1, 2, 3, 5], 2)]
        self.steps = [str(s) for s in rng.choice(list(STEPS), int(rng.integers(4, 14)))]
        self.sums = rng.random(len(self.steps)) < 0.2
        shapes = (b, t, WIDTH), (WIDTH, WIDTH), (t, WIDTH), (b, 1, WIDTH), (b, t, 1), (WIDTH,)
        self.given = [numbers(*s, seed=seed + i) for i, s in enumerate(shapes)]

    def back(self, x):
        return it.reshape(x, (self.b, self.t, WIDTH))

    def mixed(self, x):
        """Products of heads, turned back into features."""
        y = it.permute_dims(it.reshape(x, (self.b, self.t, 2, 3)), (0, 2, 1, 3))
        z = it.matmul(it.matmul(y, it.matrix_transpose(y)) * 0.1, y)
        return self.back(it.permute_dims(z, (0, 2, 1, 3)))

    def __call__(self, *given):
        self.x, self.w, self.places, self.batch, self.mask, self.vector = given
        x, found = self.x, []
        for name, summed in zip(self.steps, self.sums, strict=True):
            x = STEPS[name](self, x, it.reshape(x, (self.b * self.t, WIDTH)))
            if summed:
                found.append(it.sum(it.reshape(x, (self.b * self.t, WIDTH)), axis=0))
        return (x, *found)

    def gradient(self, *given):
        return value_and_grad(lambda *given: it.sum(self(*given)[0] ** 2.0))(*given)


def check_chain(apart, seed):
    chain = Chain(seed)
    function = chain if seed % 3 else chain.gradient
    got = alike(apart, function, *chain.given)
    with it.device("numpy"):
        want = flat(function(*[it.asarray(g.numpy()) for g in chain.given]))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=f"seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_chains_have_the_same_bits(apart, start):
    for seed in range(start, start + 20):
        check_chain(apart, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(100, 1100, 50))
def test_many_random_chains_have_the_same_bits(apart, start):
    for seed in range(start, start + 50):
        check_chain(apart, seed)


def test_totals_of_blocks_keep_their_one_axis():
    """The second half of a long sum down columns takes one axis, whatever blocks are made of."""
    graph = Graph()
    x = graph.input(Aval((4, 8, 5), it.float32))
    (wide,) = graph.node(OPERATIONS["exp"].op(), (x,))
    (rows,) = graph.node(OPERATIONS["reshape"].op(shape=(32, 5)), (wide,))
    (blocks,) = graph.node(OPERATIONS["negative"].op(), (rows,))
    (kept,) = graph.node(OPERATIONS["reshape"].op(shape=(4, 8, 5)), (blocks,))
    (product,) = graph.node(OPERATIONS["exp"].op(), (kept,))
    (total,) = graph.node(OPERATIONS["totals"].op(axis=0), (blocks,))
    graph.outputs = (total, product)
    found = with_split_rows(graph)
    (node,) = [n for n in found.nodes if n.op.operation.name == "totals"]
    assert node.op.attributes["axis"] == 0
    assert found.values[found.outputs[0]].aval.shape == (5,)
