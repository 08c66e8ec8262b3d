"""What the first calls of a compiled function need not do: again, or one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import CompileError, compile
from ingle.fusion.compiled import specialize
from ingle.fusion.compiled.fast_call_many import MANY, ManyCells
from ingle.fusion.record.log import Log
from ingle.tensor.cell import raw_values
from ingle.tensor.plugins import discover
from ingle.tensor.providing import provide
from ingle.tensor.structure import Frozen

DEVICES = ("numpy", *({"cpu"} & discover().backends.keys()))


@pytest.fixture(params=DEVICES, autouse=True)
def device(request):
    with it.device(request.param):
        yield request.param


def entry_of(compiled: Any) -> Any:
    (kept,) = compiled._kept.values()
    return kept.entries[0]


def test_a_number_of_the_code_is_written_down_once():
    @compile
    def f(x):
        for _ in range(4):
            x = x * 2.0 + 1.0
        return x

    assert [f(it.asarray(1.0)).item() for _ in range(3)] == [31.0] * 3
    assert sorted(v.data for v in entry_of(f).graph.values if v.kind == "constant") == [1.0, 2.0]


def test_numbers_that_compare_equal_stay_apart():
    @compile
    def f(x):
        zeros = it.copysign(x, 0.0), it.copysign(x, -0.0)
        return *zeros, it.where(x > 0, 1, 0), it.where(x > 0, True, False), x * float("nan")

    for _ in range(3):
        a, b, c, d, e = f(it.asarray(1.0))
        assert (a.item(), b.item(), c.item(), d.item()) == (1.0, -1.0, 1, True)
        assert (c.dtype.is_integer, d.dtype, it.isnan(e).item()) == (True, it.bool, True)


OPTIMIZERS = {
    "adam": lambda m: optim.Adam(m, lr=0.1),
    "adamw": lambda m: optim.AdamW(m, lr=0.1, weight_decay=0.1),
    "amsgrad": lambda m: optim.Adam(m, lr=0.1, amsgrad=True),
    "momentum": lambda m: optim.SGD(m, lr=0.1, momentum=0.9),
    "schedule": lambda m: optim.Adam(m, lr=optim.schedule.Cosine(0.1, steps=10)),
}


def trained(make: Any, wrap: Any, steps: int = 5) -> tuple[dict[str, Any], Any]:
    it.random.seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    optimizer = make(model)
    x = it.asarray(np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))

    def step(x: it.Tensor) -> it.Tensor:
        loss = (model(x) ** 2).mean()
        optimizer.step(loss.backward())
        return loss.detach()

    run = wrap(step)
    losses = [run(x).item() for _ in range(steps)]
    state = {k: v.tolist() for k, v in model.state_dict().items()}
    state |= {
        k: v.tolist() if isinstance(v, it.Tensor) else v for k, v in optimizer.state_dict().items()
    }
    return {**state, "losses": losses}, run


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step_trains_as_a_plain_one(name):
    assert trained(OPTIMIZERS[name], compile)[0] == trained(OPTIMIZERS[name], lambda f: f)[0]


def test_a_step_of_training_is_recorded_twice():
    """Its moments are there before the first recording ends, so that this is one of all steps."""
    _, step = trained(OPTIMIZERS["adam"], compile)
    assert step.recordings == 2
    nodes = entry_of(step).graph.nodes
    assert not [n for n in nodes if n.op.operation.name == "adam_update"]  # one for all of them


def test_what_a_cell_might_have_held_is_no_part_of_a_recording():
    cell: it.Cell[Any] = it.Cell(Frozen())

    @compile
    def f(x):
        if "total" not in cell.raw:
            provide(cell, lambda: Frozen(total=it.Cell(it.asarray(10.0))))
        total = cell.raw["total"]
        total.value = total.value + x
        return total.value

    assert [f(it.asarray(float(i))).item() for i in range(4)] == [10.0, 11.0, 13.0, 16.0]
    assert f.recordings == 2
    assert cell.raw["total"].item() == 16.0


def test_it_is_there_within_transactions_too():
    cell: it.Cell[Any] = it.Cell(Frozen())

    def f(x):
        with it.transaction():
            if not cell.raw:
                provide(cell, lambda: Frozen(total=it.Cell(it.asarray(10.0))))
            total = cell.raw["total"]
            total.value = total.value + x
        return total.value

    g = compile(f)
    assert [g(it.asarray(1.0)).item() for _ in range(3)] == [11.0, 12.0, 13.0]
    assert g.recordings == 2


def test_a_cell_that_was_written_gets_its_value_in_turn():
    cell: it.Cell[Any] = it.Cell(None)

    @compile
    def f(x):
        cell.value = ()
        provide(cell, lambda: (1, 2))
        return x + len(cell.raw)

    assert [f(it.asarray(1.0)).item() for _ in range(3)] == [3.0] * 3
    assert cell.raw == (1, 2)


def test_plain_code_that_fails_provides_nothing():
    cell: it.Cell[Any] = it.Cell(None)

    def failing() -> None:
        with it.transaction():
            provide(cell, lambda: (1,))
            assert cell.raw == (1,)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert cell.raw is None


def test_what_is_computed_of_tensors_around_alone_is_recorded():
    """On devices that run operations at once it was another tensor in each call."""
    around = it.asarray([1.0, 2.0, 3.0])

    @compile
    def f(x):
        return x + it.reshape(around * 2.0, (3, 1))

    for _ in range(3):
        assert f(it.zeros((3, 2))).tolist() == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert f.recordings == 2
    assert (around + 1.0).tolist() == [2.0, 3.0, 4.0]

    @compile
    def reads(x):
        return x + (around * 2.0).numpy()[0]

    with pytest.raises(CompileError, match="asked for inside a compiled function"):
        reads(it.zeros(2))


def test_the_second_call_makes_no_graph_that_is_there(monkeypatch):
    made = []
    read_log = specialize.read_log
    monkeypatch.setattr(specialize, "read_log", lambda *args: made.append(1) or read_log(*args))
    compiled = compile(lambda x, n: it.exp(x) * n)
    for n in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(compiled(it.zeros(3), n).tolist(), [n] * 3)
    assert compiled.recordings == 2
    assert len(made) == 1
    compiled(it.zeros(4), 1.0)
    assert len(made) == 2


@pytest.mark.parametrize("first", ["constant", "cell", "argument"])
def test_a_constant_that_is_an_input_as_well_is_another_one(first):
    """A tensor of the code that a cell, or an argument, holds too: these may hold another later."""
    around = it.asarray([1.0, 2.0, 3.0]) + 0.0
    around.numpy()
    cell = it.Cell(around)

    @compile
    def f(x):
        parts = {"constant": lambda: around, "cell": lambda: cell.value, "argument": lambda: x}
        y = parts.pop(first)() * 2.0
        for part in (*parts.values(), lambda: around, lambda: cell.value):
            y = y + part()
        return y

    def plain(x, held):
        each = {"constant": around.numpy(), "cell": held, "argument": x}
        return each[first] + sum(each.values()) + around.numpy() + held

    for x in (around, around, around, it.asarray([5.0, 5.0, 5.0])):
        np.testing.assert_array_equal(f(x).numpy(), plain(x.numpy(), around.numpy()))
    cell.value = it.asarray([7.0, 8.0, 9.0])
    for x in (around, it.asarray([0.5, 5.0, 5.0])):
        np.testing.assert_array_equal(f(x).numpy(), plain(x.numpy(), cell.value.numpy()))
    assert f.recordings == 2


def test_what_results_are_like_is_known_to_the_graph_of_a_recording(monkeypatch):
    """Also where an operation was broken off in its middle, and the function went on."""
    breaks = [True]
    written = Log._written

    def broken(self, op, inputs, avals):
        if breaks[0] and op.operation.name == "cos":
            breaks[0] = False
            raise KeyboardInterrupt
        return written(self, op, inputs, avals)

    def f(x):
        y = it.sin(x)
        try:
            it.cos(x[:1])
        except KeyboardInterrupt:
            y = it.tan(y)
        return it.sum(y * 2.0), y

    graphs = []
    read_log = specialize.read_log
    monkeypatch.setattr(
        specialize, "read_log",
        lambda log, outputs, known=(): graphs.append((read_log(log, outputs, known), log, outputs))
        or graphs[-1][0],
    )  # fmt: skip
    for function in (f, lambda x: it.topk(x * 2.0, 2)):
        compile(function)(it.ones(3))
    monkeypatch.setattr(Log, "_written", broken)
    compile(f)(it.ones(3))
    assert not breaks[0]
    assert len(graphs) == 3
    for graph, log, outputs in graphs:
        assert graph == read_log(log, outputs)


def test_each_entry_has_the_line_that_asked_for_it():
    cells = [it.Cell(it.ones(2)) for _ in range(3)]

    def f(x):
        first = cells[0].value
        x = x * 2.0
        held = raw_values(cells[1:])
        y = it.softmax(it.exp(x) + first, axis=0) + it.zeros(2)
        return (
            y * held[0],
            held[1] - 1,
        )

    compiled = compile(f)
    for _ in range(2):
        compiled(it.ones(2))
    entry = entry_of(compiled)
    begin = f.__code__.co_firstlineno
    lines = [line.number - begin for line in entry.lines if line.code is f.__code__]
    assert [line for n, line in enumerate(lines) if line not in lines[:n]] == [1, 2, 3, 4, 6, 7]
    names = [node.op.operation.name for node in entry.graph.nodes]
    found = {n: line.number - begin for n, line in zip(names, entry.graph.lines, strict=True)}
    assert (found["exp"], found["softmax"], found["subtract"]) == (4, 4, 7)


@pytest.mark.parametrize("count", [3, MANY + 6])
def test_many_cells_that_hold_what_stays_are_compared_at_each_call(count):
    words = [it.Cell(f"word {n}") for n in range(count)]
    sums = [it.Cell(it.zeros(2)) for _ in range(count)]

    @compile
    def f(x):
        for word, total in zip(words, sums, strict=True):
            total.value = total.value + len(word.value) * x
        return x

    expected = np.zeros(count)
    for step in range(8):
        if step == 4:
            words[-1].value = "another one"  # of the same objects no more
        if step == 6:
            words[1].value = "".join(["wor", "d 1"])  # another object, the same word
        f(it.ones(2))
        expected += [len(word.value) for word in words]
    assert [total.value.tolist() for total in sums] == [[n, n] for n in expected]
    assert f.recordings == 4


def test_what_follows_from_many_cells_is_found_in_one_pass():
    """Twice the cells take twice the calls and comparisons."""

    def work(count):
        sums = [it.Cell(it.zeros(2)) for _ in range(count)]

        @compile
        def f(x):
            for total in sums:
                total.value = total.value + x
            return x

        f(it.ones(2))
        f(it.ones(2))
        compared = []

        class Number(int):
            def __eq__(self, other):
                compared.append(1)
                return int(self) == int(other)

            __hash__ = int.__hash__

        entry = entry_of(f)
        places = {n: Number(n + 1) for n in range(count)}
        ManyCells(entry, places, object(), object())
        return len(compared)

    assert work(2 * MANY) <= 3 * max(work(MANY), MANY)
