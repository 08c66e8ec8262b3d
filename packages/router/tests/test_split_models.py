"""A model over two members trains with the numbers of one, plainly and compiled."""

import warnings

import numpy as np
import pytest
from router_members import Adding, Copying, members_of

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import checkpoint, grad, jvp, vmap
from ingle.fusion import CompileError, compile, graph_of
from ingle.router import data_parallel
from ingle.tensor.device import Device
from ingle.tensor.errors import IngleError, LostDeviceError, OutOfRangeError, TraceError
from ingle.testkit.bits import same_bits

DRAW = np.random.default_rng(5)
X = DRAW.normal(size=(24, 6)).astype(np.float32)
Y = DRAW.integers(0, 3, size=24)


class Split(nn.Module):
    """Two halves, each on a device of its own."""

    def __init__(self, first, second):
        self.places = (str(first), str(second))
        self.lower = nn.Sequential(nn.Linear(6, 16), nn.Tanh()).to(first)
        self.upper = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 3)).to(second)

    def forward(self, x):
        return self.upper(self.lower(x.to_device(self.places[0])).to_device(self.places[1]))


def trained(places, *, compiled=False, steps=8, start="numpy"):
    """The losses of a small training run, and the weights it ends with."""
    it.random.seed(3)
    with it.device(start):
        model = Split(*places)
    optimizer = optim.Adam(model, lr=0.01)
    x = it.asarray(X, device=places[0])
    y = it.asarray(Y, device=places[1])

    def step(x, y):
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        return loss

    run = compile(step) if compiled else step
    losses = [run(x, y) for _ in range(steps)]
    assert {p.device for p in model.lower.parameters()} == {Device.parse(places[0])}
    assert {p.device for p in model.upper.parameters()} == {Device.parse(places[1])}
    if compiled:
        assert run.recordings == 2
    return np.array([v.item() for v in losses]), [p.numpy() for p in model.parameters()]


def in_double_precision(steps=8):
    """The same training by PyTorch's formulas, written out in NumPy: the losses."""
    it.random.seed(3)
    with it.device("numpy"):
        model = Split("numpy", "numpy")
    w1, b1, scale, shift, w2, b2 = (p.numpy().astype(np.float64) for p in model.parameters())
    params = [w1, b1, scale, shift, w2, b2]
    m, v = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    x, losses, rows = X.astype(np.float64), [], np.arange(24)
    for t in range(1, steps + 1):
        w1, b1, scale, shift, w2, b2 = params
        h = np.tanh(x @ w1.T + b1)
        centred = h - h.mean(1, keepdims=True)
        inverse = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        n = centred * inverse
        u = n * scale + shift
        z = u @ w2.T + b2
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[rows, Y]).mean())
        dz = p.copy()
        dz[rows, Y] -= 1
        dz /= 24
        du = dz @ w2
        dn = du * scale
        dh = inverse * (dn - dn.mean(1, keepdims=True) - n * (dn * n).mean(1, keepdims=True))
        da = dh * (1 - h**2)
        grads = [da.T @ x, da.sum(0), (du * n).sum(0), du.sum(0), dz.T @ u, dz.sum(0)]
        for i, g in enumerate(grads):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            step = 0.01 * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8)
            params[i] = params[i] - step
    return np.array(losses)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_a_split_model_trains_with_the_numbers_of_one(pair, compiled):
    losses, _ = trained((str(pair[0]), str(pair[1])), compiled=compiled)
    np.testing.assert_allclose(losses, in_double_precision(), rtol=2e-5)
    assert {(m.source, m.target) for m in pair.report().moves} >= {
        (pair[0], pair[1]), (pair[1], pair[0])
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two cpus", "two numpys"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_members_of_one_kind_give_the_bits_of_one(routed, remote, kind, compiled):
    router = routed(*members_of(kind, remote))
    one, weights = trained((str(router[0]),) * 2, compiled=compiled)
    two, others = trained((str(router[0]), str(router[1])), compiled=compiled)
    if not compiled or kind == "two numpys":
        # A plan of both halves may fuse over the border; then products have other neighbours.
        assert same_bits(one, two)
        assert all(same_bits(a, b) for a, b in zip(weights, others, strict=True))
    np.testing.assert_allclose(two, one, rtol=1e-6)


def test_a_compiled_step_is_few_parts(pair):
    w = it.Cell(it.ones((3, 2), device=pair[0]), differentiable=True)
    v = it.Cell(it.ones((2, 2), device=pair[1]), differentiable=True)

    def loss(x):
        hidden = it.tanh(x @ w).to_device(pair[1])
        return it.sum(it.tanh(hidden @ v) + it.ones(2, device=pair[1]))

    def step(x):
        y = loss(x)
        grads = y.backward()
        with it.transaction():
            for cell in (w, v):
                cell.value = cell.raw - grads[cell] * 0.1
        return y

    run, x = compile(step), it.ones((4, 3), device=pair[0])
    before = [run(x).item() for _ in range(4)]
    assert before == sorted(before, reverse=True)
    (entry,) = next(iter(run._kept.values())).entries
    parts = [part.member.device for part in entry.executable.parts]
    assert parts == [pair[0], pair[1], pair[0]]
    assert len(graph_of(loss, x).places) > 0


def test_a_step_lands_whole_or_not_at_all(routed, remote):
    far = remote()
    router = routed("cpu", far)
    w = it.Cell(it.ones(3, device=router[0]))
    v = it.Cell(it.ones(3, device=router[1]))

    @compile
    def step(x):
        w.value = w.raw + x
        v.value = it.exp(w.raw.to_device(router[1]))
        return v.raw.to_device(router[0])

    x = it.ones(3, device=router[0])
    for _ in range(3):
        step(x).numpy()
    before = w.value.tolist(), v.value.tolist()
    far.fails["exp"] = RuntimeError("the device made a face")
    with pytest.raises(Exception, match="made a face"):
        step(x)
    assert (w.value.tolist(), v.value.tolist()) == before
    step(x)
    assert w.value.tolist() == [5.0] * 3


def test_what_a_member_lacks_has_its_part_in_a_plan(routed, remote):
    far = remote(lacks={"exp"})
    router = routed("cpu", far)

    @compile
    def f(x):
        return it.exp(x + 1.0) * 2.0

    x = it.ones(3, device=router[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [f(x) for _ in range(3)][-1]
    assert found.device == router[1]
    assert found.tolist() == pytest.approx([2 * np.exp(2.0)] * 3, rel=1e-6)
    assert ("exp", router[1], router[0]) in router.report().fallbacks
    assert "exp" not in far.ran


def test_gradients_of_gradients_go_through_moves(pair):
    def f(x):
        return it.sum((x * x * x).to_device(pair[1]) * 2.0)

    x = it.asarray([1.0, 2.0], device=pair[0])
    second = grad(lambda x: it.sum(grad(f)(x)))(x)
    assert second.device == pair[0]
    assert second.tolist() == [12.0, 24.0]


def test_batches_and_checkpoints_go_through_moves(pair):
    def f(x):
        return it.sum(it.tanh(x.to_device(pair[1])) * 2.0)

    x = it.asarray([[0.5, 1.0], [2.0, -1.0]], device=pair[0])
    got = vmap(f)(x)
    assert got.device == pair[1]
    np.testing.assert_allclose(got.numpy(), (np.tanh(x.numpy()) * 2).sum(1), rtol=1e-6)
    per_row = vmap(grad(f))(x)
    assert per_row.device == pair[0]
    np.testing.assert_allclose(per_row.numpy(), 2 - 2 * np.tanh(x.numpy()) ** 2, rtol=1e-5)
    tracked = x.require_grad()
    grads = checkpoint(f)(tracked).backward()
    np.testing.assert_allclose(grads[tracked].numpy(), per_row.numpy(), rtol=1e-6)


@pytest.mark.parametrize("named", [False, True], ids=["checkpoint", "call"])
def test_compiled_blocks_over_two_members_are_recorded(pair, named):
    """A region is of one device; what is computed on two is the same without one."""
    weight = it.Cell(it.asarray([0.5, -1.5], device=pair[1]), differentiable=True)

    def block(x):
        return it.tanh(it.exp(x * 2.0).to_device(pair[1]) * weight)

    def loss(x):
        done = it.call(block, x) if named else checkpoint(block)(x)
        return it.sum(done * done)

    def both(x):
        tracked = x.require_grad()
        found = loss(tracked).backward()
        return found[tracked], found[weight]

    x = it.asarray([0.1, 0.2], device=pair[0])
    run = compile(both)
    for _ in range(3):
        by_x, by_weight = run(x)
    assert (by_x.device, by_weight.device) == (pair[0], pair[1])
    e, w = np.exp(2 * x.numpy().astype(np.float64)), np.array([0.5, -1.5])
    t = np.tanh(e * w)
    inner = 2 * t * (1 - t**2)
    np.testing.assert_allclose(by_weight.numpy(), inner * e, rtol=1e-4)
    np.testing.assert_allclose(by_x.numpy(), inner * w * e * 2, rtol=1e-4)


def test_gradients_go_through_moves_without_a_router():
    x = it.asarray([1.0, 2.0], device="cpu").require_grad()
    y = it.sum(x.to_device("numpy") ** 2)
    assert y.device == Device("numpy")
    found = y.backward()[x]
    assert found.device == Device("cpu")
    assert found.tolist() == [2.0, 4.0]


def test_a_compiled_function_moves_what_it_found_elsewhere(pair):
    """It is a constant, though each recording moves it anew; so is one that changes no more."""
    found = it.asarray([1.0, -2.0, 0.5], device=pair[0])

    def both(x):
        there = it.sum(found.to_device(pair[1]) * x.to_device(pair[1]))
        return there.to_device(pair[0]) + it.sum(found * x), jvp(it.sum, (x,), (found,))[1]

    run, x = compile(both), it.asarray([3.0, 1.0, 2.0], device=pair[0])
    for _ in range(3):
        total, along = run(x)
        assert (total.item(), along.item()) == (4.0, -0.5)
    assert run.recordings == 2
    changing = compile(lambda x: it.exp(next(values).to_device(pair[1]) + x.to_device(pair[1])))
    values = iter([found, found + 1.0])
    changing(x)
    with pytest.raises(CompileError, match="took tensors from elsewhere"):
        changing(x)


def test_a_compiled_function_moves_what_lies_on_another_backend():
    found = it.asarray([1.0, 2.0], device="numpy")
    run = compile(lambda x: found.to_device("cpu") * x)
    for n in range(3):
        assert run(it.full((2,), float(n), device="cpu")).tolist() == [n * 1.0, n * 2.0]
    assert run.recordings == 2


def test_where_moves_are_refused(pair):
    x = it.ones(2, device=pair[0])
    with pytest.raises(CompileError, match=r"works on one device, or on those of one router"):
        compile(lambda x: it.exp(x).to_device("numpy"))(it.ones(2, device="cpu"))
    with pytest.raises(CompileError, match=r"on those of one router"):
        compile(lambda x, y: x)(x, it.ones(2, device="cpu"))
    with pytest.raises(TraceError, match="runs on one device; move it before"):
        compile(lambda x: it.scan(lambda c, _: (c.to_device(pair[1]), c), x, length=3))(x)


def mean_loss(model):
    return lambda x, y: it.cross_entropy(model(x), y)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("rows", [24, 23, 1])
def test_data_parallel_gradients_are_those_of_the_batch(pair, compiled, rows):
    it.random.seed(1)
    with it.device("numpy"):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    model.to(pair[0])
    x, y = it.asarray(X[:rows], device=pair[0]), it.asarray(Y[:rows], device=pair[0])
    whole = mean_loss(model)(x, y)
    grads = whole.backward()

    def both(x, y):
        return data_parallel(mean_loss(model), x, y, devices=pair.devices)

    run = compile(both) if compiled else both
    for _ in range(3 if compiled else 1):
        loss, found = run(x, y)
    assert loss.device == pair[0]
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    assert set(found.cells()) == set(model.parameters())
    for cell in grads:
        assert found[cell].device == pair[0]
        np.testing.assert_allclose(found[cell].numpy(), grads[cell].numpy(), rtol=1e-5, atol=1e-7)


def test_data_parallel_training_equals_the_full_batch(pair):
    def losses(parallel):
        it.random.seed(1)
        with it.device("numpy"):
            model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        model.to(pair[0])
        optimizer = optim.SGD(model, lr=0.3, momentum=0.9)
        x, y = it.asarray(X, device=pair[0]), it.asarray(Y, device=pair[0])
        found = []
        for _ in range(10):
            if parallel:
                loss, grads = data_parallel(mean_loss(model), x, y, devices=pair.devices)
            else:
                loss = mean_loss(model)(x, y)
                grads = loss.backward()
            optimizer.step(grads)
            found.append(loss.item())
        return found

    one, two = losses(False), losses(True)
    assert one[-1] < 0.8 * one[0]
    np.testing.assert_allclose(two, one, rtol=2e-5)


@pytest.mark.parametrize("home", [0, 1])
def test_devices_that_can_add_the_gradients_do(routed, remote, home):
    """All at once, and at the cells' home, which may be any of the devices."""
    members = [remote(f"remote{n}", kind=Adding) for n in range(3)]
    router = routed(*members)
    it.random.seed(1)
    with it.device("numpy"):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = (it.asarray(a[:23], device=router[home]) for a in (X, Y))
    model.to(router[home])
    whole = mean_loss(model)(x, y)
    wanted = whole.backward()
    loss, found = data_parallel(mean_loss(model), x, y, devices=router.devices)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    for cell in wanted:
        assert found[cell].device == router[home]
        np.testing.assert_allclose(found[cell].numpy(), wanted[cell].numpy(), rtol=1e-5, atol=1e-7)
    by_them = [move for move in router.report().moves if move.road == "reduction"]
    assert {move.target for move in by_them} == {router[0], router[home]}
    # The loss goes to the first device; gradients home, from both others.
    assert sum(move.times for move in by_them) == 2 * (1 + 4)
    assert sum(m.sums for m in members) == 2
    assert router.devices[0].name in str(router.report())


def test_devices_have_what_they_need_before_the_home_of_the_batch_works(routed, remote):
    """A copy waits for all that its source has to do."""
    members = [remote(f"remote{n}", kind=Copying) for n in range(3)]
    for m in members:
        m.peers = members
    router = routed(*members)
    with it.device("numpy"):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(router[0])
    x, y = (it.asarray(a, device=router[0]) for a in (X, Y))
    members[0].ran.clear()
    loss, found = data_parallel(mean_loss(model), x, y, devices=router.devices)
    assert np.isfinite(loss.item())
    assert len(found) == 4
    done = members[0].ran
    last = max(n for n, name in enumerate(done) if name == "copy")
    assert done.count("copy") == 2 * (2 + 4)
    assert "tanh" in done[last:]
    assert "tanh" not in done[:last]
    assert not {"matmul", "dot_general", "linear"} & set(done[:last])


def test_a_device_that_is_lost_while_it_adds_is_named(routed, remote):
    members = [remote(f"remote{n}", kind=Adding) for n in range(2)]
    router = routed(*members)
    w = it.Cell(it.asarray(np.ones(6, np.float32), device=router[0]), differentiable=True)

    def gone(groups):
        raise LostDeviceError("unplugged")

    members[0].reduce = gone
    with pytest.raises(LostDeviceError, match=r"a sum of values .* router .*unplugged"):
        data_parallel(lambda x: it.mean(x @ w), it.asarray(X, device=router[0]),
                      devices=router.devices)  # fmt: skip
    with pytest.raises(LostDeviceError, match="was lost"):
        (w.value + 1.0).numpy()


def test_what_parts_write_to_cells_lands_at_home(pair):
    norm = nn.BatchNorm1d(6).to(pair[0])
    count = it.Cell(0)

    def loss(x):
        count.value = count.value + 1
        return it.mean(norm(x) ** 2)

    x = it.asarray(X, device=pair[0])
    data_parallel(loss, x, devices=pair.devices)
    assert count.value == 2
    assert norm.running_mean.device == pair[0]
    first, second = X[:12].mean(0), X[12:].mean(0)
    want = 0.9 * (0.1 * second) + 0.1 * first  # the batch's own device comes last
    np.testing.assert_allclose(norm.running_mean.numpy(), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_part_that_fails_takes_what_others_wrote_along(pair, failing):
    """Running statistics and counters are those of before, as with one batch on one device."""
    norm, count, parts = nn.BatchNorm1d(6).to(pair[0]), it.Cell(0), []

    def loss(x):
        count.value = count.value + 1
        value = it.mean(norm(x) ** 2)
        parts.append(x.device)
        if len(parts) == failing + 1:
            raise ZeroDivisionError
        return value

    x = it.asarray(X, device=pair[0])
    with pytest.raises(ZeroDivisionError):
        data_parallel(loss, x, devices=pair.devices)
    assert len(parts) == failing + 1
    assert count.value == 0
    assert norm.running_mean.tolist() == [0.0] * 6
    assert norm.running_var.tolist() == [1.0] * 6
    data_parallel(loss, x, devices=pair.devices)
    assert count.value == 2


def test_arrays_of_numpy_are_cut_like_tensors(pair):
    model = nn.Linear(6, 3).to(pair[0])
    loss, found = data_parallel(mean_loss(model), X, Y, devices=pair.devices)
    whole = mean_loss(model)(it.asarray(X, device=pair[0]), it.asarray(Y, device=pair[0]))
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    wanted = whole.backward()
    for cell in wanted:
        np.testing.assert_allclose(found[cell].numpy(), wanted[cell].numpy(), rtol=1e-5, atol=1e-7)
    with pytest.raises(IngleError, match=r"\(24, 6\), \(23,\)"):
        data_parallel(mean_loss(model), it.asarray(X, device=pair[0]), Y[:23], devices=pair.devices)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: data_parallel(it.mean, it.ones((4, 2)), devices=[]), "devices is empty"),
        (lambda d: data_parallel(it.mean, devices=d), "got none"),
        (lambda d: data_parallel(it.mean, it.zeros((0, 2)), devices=d), "at least one"),
        (lambda d: data_parallel(it.mean, it.ones(3), it.ones(2), devices=d), r"\(3,\), \(2,\)"),
        (lambda d: data_parallel(lambda x: x, it.ones(3), devices=d), r"got shape \(3,\)"),
        (lambda d: data_parallel(lambda x: 1.0, it.ones(3), devices=d), "got float"),
    ],
)
def test_wrong_calls_of_data_parallel(call, message):
    with pytest.raises(IngleError, match=f"data_parallel: .*{message}"):
        call(["numpy"])


def test_an_error_in_a_part_of_a_plan_names_its_line(routed, remote):
    router = routed(*members_of("two cpus", remote))
    first, second = router[0], router[1]

    def across(x, i):
        y = it.exp(x).to_device(second)
        return it.sum(it.take(y, i, axis=0))

    run = compile(across)
    x = it.asarray(X, device=first)
    good, bad = (it.asarray(np.array([n]), device=second) for n in (3, 24))
    for _ in range(2):
        run(x, good).item()
    line = across.__code__.co_firstlineno + 2
    with pytest.raises(OutOfRangeError, match=rf"test_split_models.py:{line}, in across"):
        run(x, bad).item()
