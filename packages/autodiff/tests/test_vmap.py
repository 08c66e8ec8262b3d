"""vmap: every operation against a loop, and its nesting with the other transforms."""

import warnings

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import (
    BatchLoopWarning,
    checkpoint,
    custom_gradient,
    grad,
    hessian,
    jacobian,
    jvp,
    vjp,
    vmap,
)
from ingle.tensor.contract import Aval
from ingle.tensor.errors import (
    ArgumentError,
    AxisError,
    BatchError,
    DTypeError,
    OperandError,
    ShapeError,
)
from ingle.tensor.operation import OPERATIONS, Operation, Traits
from ingle.tensor.pytree import flatten, unflatten
from ingle.tensor.sample import Draw

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def tensor(value):
    return it.asarray(np.asarray(value, np.float64))


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def varied(array):
    """Three elements of a batch that differ where that cannot lead out of a domain."""
    if array.dtype.kind in "fc":
        return [array, array * 0.5, array]
    return [array, array, array]


def call(operation, sample, leaves):
    args, kwargs = unflatten((sample.args, dict(sample.kwargs)), leaves)
    return operation.public(*args, **kwargs)


def fixed(sample):
    """The leaves of a sample's arguments as tensors that are the same for all elements."""
    leaves = flatten((sample.args, dict(sample.kwargs)))
    return [it.asarray(x) if isinstance(x, np.ndarray) else x for x in leaves]


def samples_of(operation):
    """Samples of the first dtype that the operation takes."""
    for dtype in ("float64", "int64", "uint32", "uint64", "bool", "complex128", "float32"):
        samples = list(operation.samples(Draw(0, dtype)))
        try:
            for sample in samples[:1]:
                call(operation, sample, fixed(sample))
        except DTypeError:
            continue
        if samples:
            return samples
    raise AssertionError(f"no samples of {operation.name}")


def shown(result):
    return [np.asarray(y) for y in flatten(tuple(result) if isinstance(result, tuple) else result)]


SAMPLED = [o for o in OPERATIONS.values() if o.samples and o.public]


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("operation", SAMPLED, ids=lambda o: o.name)
def test_every_operation_against_a_loop(operation):
    if operation.traits.dynamic_shape:
        pytest.skip("shapes depend on values")
    for sample in samples_of(operation):
        leaves = flatten((sample.args, dict(sample.kwargs)))
        places = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
        rows = {i: varied(leaves[i]) for i in places}
        subsets = [places] + ([[p] for p in places] if len(places) > 1 else [])
        for batched in [s for s in subsets if s]:
            check(operation, sample, rows, batched)


def check(operation, sample, rows, batched):
    def one(*some):
        given = fixed(sample)
        for i, x in zip(batched, some, strict=True):
            given[i] = x
        return call(operation, sample, given)

    with warnings.catch_warnings():
        warnings.simplefilter("error", BatchLoopWarning)
        got = shown(vmap(one)(*[it.asarray(np.stack(rows[i])) for i in batched]))
    loop = [shown(one(*[it.asarray(rows[i][n]) for i in batched])) for n in range(3)]
    for k, whole in enumerate(got):
        want = np.stack([row[k] for row in loop])
        assert whole.dtype == want.dtype
        np.testing.assert_allclose(whole, want, rtol=1e-9, atol=1e-11, err_msg=str(sample))


def test_axes():
    x, y = draw(3, 4, 5), draw(5, 4)
    got = vmap(lambda a, b: a + b, in_axes=(-1, 0), out_axes=1)(tensor(x), tensor(y))
    np.testing.assert_array_equal(got.numpy(), x.transpose(0, 2, 1) + y)
    tree = {"a": tensor(x), "b": (tensor(y), 2.0)}
    function = lambda p: (p["a"][0, 0] * p["b"][1], it.sum(p["b"][0]), 7)  # noqa: E731
    first, second, third = vmap(function, in_axes=({"a": 2, "b": None},), out_axes=(0, None, None))(
        tree
    )
    np.testing.assert_array_equal(first.numpy(), 2 * x[0, 0])
    np.testing.assert_allclose(second.item(), y.sum())
    assert third == 7
    same = vmap(lambda a: tensor([1.0, 2.0]), out_axes=-1)(tensor(y))
    assert same.tolist() == [[1.0] * 5, [2.0] * 5]
    assert vmap(it.exp)(it.zeros((0, 3))).shape == (0, 3)


def test_dynamic_starts_and_indices_differ_among_elements():
    x, at, rows = draw(6, 4), np.array([0, 3, -2]), draw(3, 2, 4, seed=1)

    def read(i):
        return it.slice(tensor(x), (i, 1), (2, 3))

    def written(i, y):
        return it.slice_update(tensor(x), y, (i, 0))

    for function, more in ((read, ()), (written, (rows,))):
        got = vmap(function)(it.asarray(at), *map(tensor, more)).numpy()
        for n in range(3):
            want = function(int(at[n]), *[tensor(m[n]) for m in more])
            np.testing.assert_array_equal(got[n], want.numpy())
    picked = vmap(lambda i: tensor(x)[i, 0] * 2.0)(it.asarray(at))
    np.testing.assert_array_equal(picked.numpy(), 2 * x[at, 0])
    with pytest.raises(it.errors.OutOfRangeError):
        vmap(lambda i: it.take(tensor(x), i, axis=0))(it.asarray([0, 6])).numpy()


def test_nesting_with_itself():
    x, w = draw(3, 4, 5), draw(4, 5, seed=1)
    got = vmap(vmap(lambda a, b: a @ b), in_axes=(0, None))(tensor(x), tensor(w))
    np.testing.assert_allclose(got.numpy(), np.einsum("nij,ij->ni", x, w), rtol=1e-12)
    outer = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))(tensor(x[0, 0]), tensor(w[0]))
    np.testing.assert_allclose(outer.numpy(), np.outer(x[0, 0], w[0]))


def body(x, w):
    h = it.tanh(x @ w)
    return it.sum(it.softmax(h, axis=-1) * it.sort(h)) + it.max(h) * it.logsumexp(h)


FORMS = {
    "plain": body,
    "checkpoint": checkpoint(body),
    "own rule": custom_gradient(
        lambda x, w: (body(x, w), lambda g: tuple(g * p for p in grad(body, (0, 1))(x, w)))
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_each_element_against_a_loop(form):
    f = FORMS[form]
    x, w = draw(3, 4), draw(4, 5, seed=1)
    by_x, by_w = vmap(grad(f, (0, 1)), in_axes=(0, None))(tensor(x), tensor(w))
    for n in range(3):
        want = grad(body, (0, 1))(tensor(x[n]), tensor(w))
        np.testing.assert_allclose(by_x.numpy()[n], want[0].numpy(), rtol=1e-10)
        np.testing.assert_allclose(by_w.numpy()[n], want[1].numpy(), rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_through_a_batch(form):
    f = FORMS[form]
    x, w = tensor(draw(3, 4)), tensor(draw(4, 5, seed=1))
    batch = lambda x, w: it.sum(vmap(f, in_axes=(0, None))(x, w) ** 2)  # noqa: E731
    loop = lambda x, w: sum(body(x[n], w) ** 2 for n in range(3))  # noqa: E731
    want = grad(loop, (0, 1))(x, w)
    got = grad(batch, (0, 1))(x, w)
    tracked = w.require_grad()
    backward = batch(x, tracked).backward()[tracked]
    for mine, theirs in zip((*got, backward), (*want, want[1]), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_second_orders_in_every_order(form):
    f = FORMS[form]
    x, w, v = tensor(draw(3, 4)), tensor(draw(4, 5, seed=1)), tensor(draw(3, 4, seed=2))

    def push(f, x, v):
        return jvp(f, (x,), (v,))[1]

    one = lambda x: f(x, w)  # noqa: E731
    want = np.stack([push(grad(lambda x: body(x, w)), x[n], v[n]).numpy() for n in range(3)])
    whole = lambda x: it.sum(vmap(one)(x))  # noqa: E731
    got = {
        "vmap jvp grad": vmap(lambda x, v: push(grad(one), x, v))(x, v),
        "jvp vmap grad": push(vmap(grad(one)), x, v),
        "jvp grad vmap": push(grad(whole), x, v),
        "vmap grad jvp": vmap(grad(lambda x, v: push(one, x, v)))(x, v),
        "grad vmap jvp": grad(lambda x: it.sum(vmap(lambda x, v: push(one, x, v))(x, v)))(x),
        "grad jvp vmap": grad(lambda x: push(whole, x, v))(x),
    }
    for name, value in got.items():
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-9, atol=1e-12, err_msg=name)
    if form == "plain":
        blocks = vmap(hessian(one))(x)
        np.testing.assert_allclose(it.einsum("nij,nj->ni", blocks, v).numpy(), want, rtol=1e-9)


def test_a_pull_of_a_batch_of_cotangents_is_a_jacobian():
    x = tensor(draw(4))
    f = lambda x: it.exp(x) * it.sum(x)  # noqa: E731
    rows = vmap(vjp(f, x)[1])(it.eye(4, dtype="float64"))[0]
    np.testing.assert_allclose(rows.numpy(), jacobian(f)(x).numpy(), rtol=1e-12)


@pytest.mark.slow
def test_modules_give_a_gradient_for_each_sample():
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("ingle.nn")
    it.random.seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(0), nn.Linear(18, 1))
    x = draw(4, 1, 5, 5).astype(np.float32)
    loss = lambda m, x: it.sum(m(x) ** 2)  # noqa: E731
    got = vmap(
        lambda x: [grad(loss)(model, x)[p] for p in model.parameters()]
    )(it.asarray(x))  # fmt: skip
    parameters = {k: torch.from_numpy(np.array(v.numpy())) for k, v in model.state_dict().items()}

    def twin(p, x):
        h = torch.relu(torch.nn.functional.conv2d(x, p["0.weight"], p["0.bias"])).flatten()
        return (torch.nn.functional.linear(h, p["3.weight"], p["3.bias"]) ** 2).sum()

    want = torch.func.vmap(torch.func.grad(twin), (None, 0))(parameters, torch.from_numpy(x))
    for mine, theirs in zip(got, want.values(), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-3, atol=1e-5)


def test_cells_and_randomness():
    cell = it.Cell(tensor([1.0, 2.0]), differentiable=True)
    count = it.Cell(0)

    def function(x):
        count.value = count.value + 1
        return it.sum(cell * x)

    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert vmap(function)(x).tolist() == [5.0, 11.0]
    assert count.value == 1
    assert it.sum(vmap(function)(x)).backward()[cell].tolist() == [4.0, 6.0]
    noise = vmap(lambda x: it.random.normal((3,)) + 0 * x)(tensor([1.0, 2.0])).numpy()
    np.testing.assert_array_equal(noise[0], noise[1])


def test_what_has_no_rule_loops_and_says_so():
    operation = Operation(
        "without_rules",
        tensors=("x",),
        rule=lambda x: Aval(x.shape, x.dtype),
        traits=Traits("opaque"),
    )
    try:
        handle = it.ones(1, device="numpy").backend
        run = lambda x: it.Tensor(x.backend.execute(operation.op(), (x._handle,))[0])  # noqa: E731
        known = dict(type(handle).kernels)
        type(handle).kernels = {**known, "without_rules": lambda op, x: x * 2}
        with it.device("numpy"):
            pair, empty = tensor([1.0, 2.0]), tensor(np.zeros((0, 3)))
        with pytest.warns(BatchLoopWarning, match="without_rules has neither"):
            assert vmap(run)(pair).tolist() == [2.0, 4.0]
        with pytest.warns(BatchLoopWarning):
            assert vmap(run)(empty).shape == (0, 3)
    finally:
        type(handle).kernels = known
        del OPERATIONS["without_rules"]


def test_errors():
    x, cell = tensor([[1.0, 2.0], [3.0, 4.0]]), it.Cell(tensor(0.0))

    def write(x):
        cell.value = it.sum(x)
        return x

    with pytest.raises(BatchError, match="cannot be read inside"):
        vmap(lambda x: x if x[0] > 0 else -x)(x)
    with pytest.raises(BatchError, match=r"nonzero.*depends on values"):
        vmap(it.nonzero)(x)
    with pytest.raises(BatchError, match="a cell cannot hold"):
        vmap(write)(x)
    assert cell.value.item() == 0.0
    with pytest.raises(it.errors.GradientError, match="inside of vmap"):
        vmap(lambda x: x.require_grad())(x)
    with pytest.raises(ArgumentError, match="none of the arguments"):
        vmap(it.exp, in_axes=None)(x)
    with pytest.raises(ArgumentError, match=r"in_axes .*\(0, 0\) for a tuple of 1"):
        vmap(it.exp, in_axes=(0, 0))(x)
    with pytest.raises(AxisError, match=r"in_axes=2 .*shape"):
        vmap(it.exp, in_axes=2)(x)
    with pytest.raises(ShapeError, match="differ in size: 2, 3"):
        vmap(it.add)(x, tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ArgumentError, match="out_axes=None"):
        vmap(it.exp, out_axes=None)(x)
    with pytest.raises(AxisError, match="out_axes=3"):
        vmap(it.exp, out_axes=3)(x)
    with pytest.raises(OperandError, match=r"must return tensors.*got float"):
        vmap(lambda x: 1.0)(x)
