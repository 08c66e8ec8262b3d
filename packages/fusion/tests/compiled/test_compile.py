"""`compile`: the same numbers as the plain function, and every way to fall into a trap."""

from __future__ import annotations

import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_values import values

import ingle.autodiff as autodiff
import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.tensor.errors import ArgumentError, OperandError


@pytest.fixture(autouse=True)
def device(on_each_device):
    return on_each_device


def test_a_function_of_nested_arguments():
    @compile
    def f(pair, *, scale, table):
        a, b = pair
        return {"sum": a + b, "rest": [table["x"] * scale, scale]}

    for scale in (2.0, 3.0, 5.0, 7.0):
        got = f((values(1, 2), values(3, 4)), scale=scale, table={"x": values(10)})
        assert got["sum"].tolist() == [4, 6]
        assert got["rest"][0].tolist() == [10 * scale]
        assert got["rest"][1] == scale
    assert f.recordings == 2


def test_python_runs_at_the_first_two_calls_only():
    seen = []

    @compile
    def f(x):
        seen.append(1)
        return x * 2.0

    assert [f(values(i)).item() for i in range(5)] == [0, 2, 4, 6, 8]
    assert len(seen) == f.recordings == 2


def test_other_shapes_dtypes_and_types_of_numbers_are_recorded_anew():
    @compile
    def f(x, n):
        return x * n

    assert f(values(1, 2), 2).tolist() == [2, 4]
    assert f(values(1, 2, 3), 2).tolist() == [2, 4, 6]
    assert f(it.asarray([1, 2]), 3).dtype is it.int64
    assert f(it.asarray([1, 2]), 3.0).dtype is it.float32
    assert f(it.asarray([1, 2]), True).tolist() == [1, 2]
    assert f.recordings == 5


def test_the_same_tensor_twice_is_no_pattern():
    f = compile(lambda a, b: a - b)
    x, y = values(5), values(3)
    assert [f(x, x).item(), f(x, y).item(), f(y, x).item()] == [0, 2, -2]


def test_cells_are_found_and_written():
    count, total = it.Cell(0), it.Cell(values(0))

    @compile
    def add(x):
        count.value = count.value + 1
        total.value = total + x * count.value
        return total.value

    assert [add(values(1)).item() for _ in range(5)] == [1, 3, 6, 10, 15]
    assert count.value == 5
    total.value = values(100)
    assert add(values(1)).item() == 106
    assert add.recordings == 2


def test_a_tensor_that_was_held_survives():
    cell = it.Cell(values(1, 2))
    step = compile(lambda: setattr(cell, "value", cell * 2.0))
    held = []
    for _ in range(4):
        held.append(cell.value)
        step()
    assert [h.tolist() for h in held] == [[1, 2], [2, 4], [4, 8], [8, 16]]


def test_constants_made_inside_are_constants():
    f = compile(lambda x: x + it.asarray([1.0, 2.0]))
    assert [f(values(i, i)).tolist() for i in range(3)] == [[1, 2], [2, 3], [3, 4]]
    assert f.recordings == 2


def test_branches_on_numbers_are_guarded():
    count = it.Cell(0)

    @compile
    def f(x):
        count.value = count.value + 1
        return x * 10.0 if count.value > 3 else x

    assert [f(values(1)).item() for _ in range(6)] == [1, 1, 1, 10, 10, 10]
    assert f.recordings <= 4


def test_numbers_that_shape_the_recording_may_differ_at_the_second_call():
    first = compile(lambda x, n: x[:n])
    assert [first(values(1, 2, 3), n).tolist() for n in (1, 2, 1, 2)] == [[1], [1, 2]] * 2

    @compile
    def doubled(x, times):
        for _ in range(times):
            x = x * 2.0
        return x

    assert [doubled(values(1), n).item() for n in (1, 2, 3, 1, 2, 3)] == [2, 4, 8] * 2


def test_an_integer_index_is_an_input():
    f = compile(lambda x, n: x[n])
    assert [f(values(5, 6, 7), n).item() for n in (0, 1, 2, 1, 0)] == [5, 6, 7, 6, 5]
    assert f.recordings == 2


def test_train_and_eval_are_recorded_apart():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5, generator=it.random.Generator(1)))
    twin = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5, generator=it.random.Generator(1)))
    twin.load_state_dict(net.state_dict())
    f = compile(lambda x: net(x))
    x = values(1, 2, 3)
    for mode in (True, True, False, False, True, True, False):
        net.train(mode)
        twin.train(mode)
        np.testing.assert_array_equal(f(x).numpy(), twin(x).detach().numpy())


def test_attributes_of_modules_count():
    class Scaled(nn.Module):
        def __init__(self):
            self.scale = 2.0

        def forward(self, x):
            return x * self.scale

    net = Scaled()
    f = compile(net)
    assert [f(values(1)).item() for _ in range(3)] == [2, 2, 2]
    net.scale = 5.0
    assert [f(values(1)).item() for _ in range(3)] == [5, 5, 5]


def test_random_numbers_go_on():
    generators = it.random.Generator(3), it.random.Generator(3)
    plain = [it.random.normal(4, generator=generators[0]).tolist() for _ in range(5)]
    f = compile(lambda: it.random.normal(4, generator=generators[1]))
    assert [f().tolist() for _ in range(5)] == plain
    assert generators[0].state == generators[1].state


def training(way, steps=6):
    generator = it.random.Generator(0)
    net = nn.Sequential(
        nn.Linear(5, 8, generator=generator), nn.BatchNorm1d(8), nn.GELU(),
        nn.Dropout(0.2, generator=generator), nn.Linear(8, 3, generator=generator),
    )  # fmt: skip
    schedule = optim.schedule.Cosine(0.05, steps=steps)
    optimizer = optim.AdamW(net, lr=schedule, max_grad_norm=1.0)

    def step(x, y):
        loss = it.cross_entropy(net(x), y)
        optimizer.step(loss.backward())
        return loss

    step = way(step)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        x = it.asarray(rng.normal(size=(16, 5)).astype(np.float32))
        losses.append(step(x, it.asarray(rng.integers(0, 3, 16))).item())
    return losses, {k: v.numpy() for k, v in net.state_dict().items()}


def test_training_is_the_same():
    (plain, a), (compiled, b) = training(lambda f: f), training(compile)
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)
    for name, value in a.items():
        np.testing.assert_allclose(b[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_accumulated_gradients():
    w = nn.Parameter([1.0, 2.0])
    optimizer = optim.SGD([w], lr=0.1)

    @compile
    def step(batches):
        grads = None
        for x in batches:
            found = (w * x).sum().backward()
            grads = found[w] if grads is None else grads + found[w]
        optimizer.step(it.Gradients({w: grads}))

    for _ in range(3):
        step([values(1, 1), values(2, 2)])
    np.testing.assert_allclose(w.value.tolist(), [1 - 0.9, 2 - 0.9], rtol=1e-6)


def test_gradients_inside_and_outside():
    inside = compile(autodiff.grad(lambda x: (x * x * x).sum()))
    assert [inside(values(i)).item() for i in range(4)] == [0, 3, 12, 27]
    cube = compile(lambda x: x * x * x)
    x = values(2).require_grad()
    for _ in range(3):
        assert cube(x).backward()[x].item() == 12
    assert autodiff.grad(lambda x: cube(x).sum())(values(3)).item() == 27


def test_compiled_functions_call_each_other():
    inner = compile(lambda x: x + 1.0)
    outer = compile(lambda x: inner(x) * 2.0)
    assert [outer(values(i)).item() for i in range(4)] == [2, 4, 6, 8]
    assert inner.recordings == 0


def test_inside_a_transaction_nothing_lands_before_its_end():
    cell = it.Cell(values(1))
    double = compile(lambda: setattr(cell, "value", cell * 2.0))
    for _ in range(3):
        with it.transaction(commit=False):
            double()
            assert cell.value.item() == 2
        assert cell.value.item() == 1


def test_methods():
    class Model:
        def __init__(self, k):
            self.k = k

        @compile
        def scaled(self, x):
            return x * self.k

    models = [Model(2.0), Model(3.0)]
    assert [m.scaled(values(1)).item() for m in models * 3] == [2, 3] * 3


def test_many_threads_one_function():
    f = compile(lambda x, k: (x * k).sum())
    x = values(*range(100))
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda k: f(x, float(k)).item(), range(64)))
    assert got == [4950.0 * k for k in range(64)]


def test_only_functions_are_compiled():
    with pytest.raises(OperandError, match=r"compile\(f\)\(x\)"):
        compile(it.ones(3))


def test_numpy_arguments_are_refused():
    with pytest.raises(CompileError, match="asarray"):
        compile(lambda x: it.asarray(x))(np.zeros(3))


def test_a_switch_in_one_thread_leaves_the_other_alone():
    inside, leave = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        leave.wait(5)
        return x + 1.0

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: compile(slow)(values(1)).item())
        inside.wait(5)
        assert (values(1) * 3.0).item() == 3
        leave.set()
        assert running.result() == 2


def test_seeds_and_states_of_generators_count():
    def drawn(way):
        found = []
        generator = it.random.Generator(3)
        f = way(lambda: it.random.normal((2,)))
        g = way(lambda: it.random.uniform((2,), generator=generator))
        for seed in (1, 2, 3, 1):
            it.random.seed(seed)
            found += [f().tolist(), f().tolist()]
        for state in ((7, 0), (9, 4), (7, 0), (1 << 63, 1 << 40)):
            generator.state = state
            found.append(g().tolist())
        generator.seed(5)
        return [*found, g().tolist(), generator.state]

    assert drawn(compile) == drawn(lambda f: f)


def test_a_seed_in_a_transaction_that_is_discarded_is_forgotten():
    generator = it.random.Generator(3)
    with it.transaction(commit=False):
        generator.seed(4)
        assert generator.state == (4, 0)
    assert generator.state == (3, 0)


def test_schedules_of_any_kind_are_called_anew():
    def by_hand(step):
        return 0.1 * (1 + np.cos(step / 10)) if step % 3 else 0.05

    table = [0.1, 0.2, 0.3, 0.1, 0.05, 0.4, 0.2, 0.3]
    rate = it.Cell(0.1)
    box = {"lr": 0.1}

    schedules = (
        lambda step: 0.1 * (1 + math.cos(step / 10)), by_hand, lambda step: table[step],
        lambda step: rate.value * (step + 1), lambda step: box["lr"], lambda step: 1,
        optim.schedule.MultiStep(0.1, [2, 4, 5]),
    )  # fmt: skip

    def trained(way, schedule):
        w = nn.Parameter([1.0, 2.0])
        optimizer = optim.SGD([w], lr=schedule)
        step = way(lambda: optimizer.step((w * w).sum().backward()))
        for k in range(8):
            box["lr"], rate.value = 0.1 + 0.05 * k, 0.1 + 0.01 * k
            step()
        return w.value.tolist(), step

    for schedule in schedules:
        got, step = trained(compile, schedule)
        np.testing.assert_allclose(got, trained(lambda f: f, schedule)[0], rtol=1e-6)
        assert step.recordings <= 3


@pytest.mark.parametrize("keyword", ["fullgraph", "dynamic", "backend", "mode", "static_argnums"])
def test_keywords_of_other_compilers_are_answered(keyword):
    with pytest.raises(ArgumentError, match=f"compile: there is no {keyword}=: .{{20}}"):
        compile(lambda x: x, **{keyword: True})
    with pytest.raises(ArgumentError, match=r"compile: there is no nonsense=: .*leave it out"):
        compile(lambda x: x, nonsense=1)
    with pytest.raises(ArgumentError, match="mode"):

        @compile(mode="max-autotune")
        def f(x):
            return x


def test_groups_of_cells_are_never_torn(device):
    """Each call reads what the one before has written: counts and sums as in one thread."""
    count, total, twin = it.Cell(0), it.Cell(values(0)), it.Cell(values(0))

    @compile
    def step(x):
        count.value = count.value + 1
        total.value = total + x
        twin.value = twin + x
        return total - twin, count.value

    looked = compile(lambda: (total - twin, total * 1.0))
    calls, threads = 150, 6

    def work(seed):
        mine = []
        with it.device(device):
            for _ in range(calls):
                apart, number = step(values(1))
                mine.append(number)
                assert apart.item() == 0
                assert looked()[0].item() == 0
        return mine

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(threads) as pool:
            numbers = [n for found in pool.map(work, range(threads)) for n in found]
    finally:
        sys.setswitchinterval(interval)
    assert sorted(numbers) == list(range(1, calls * threads + 1))
    assert count.value == total.value.item() == twin.value.item() == calls * threads


def test_the_indices_of_a_triangle_follow_from_sizes_alone() -> None:
    x = np.arange(12.0).reshape(3, 4)
    rows, columns = np.triu_indices(3, 1, 4)
    found = compile(lambda x: x[tuple(it.triu_indices(3, 4, offset=1))])(it.asarray(x))
    np.testing.assert_array_equal(found.numpy(), x[rows, columns])


def test_the_arguments_go_to_the_compiled_function():
    with pytest.raises(OperandError, match=r"compile: got Tensor behind .*: compile\(f\)\(x\)"):
        compile(it.sum, it.ones(3))
