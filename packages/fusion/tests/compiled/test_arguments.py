"""What a compiled function is given besides tensors: never stale, and nothing is kept alive."""

from __future__ import annotations

import functools
import gc
import importlib
import math
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from small_values import values

import ingle.nn as nn
import ingle.tensor as it
from ingle.fusion import CompileError, PlanWarning, compile

compiling = importlib.import_module("ingle.fusion.compiled.compile")
torch = pytest.importorskip("torch")


@dataclass
class Options:
    factor: float = 1.0
    names: list = field(default_factory=lambda: ["a"])
    inner: object = None


@dataclass(frozen=True)
class Frozen:
    factor: float
    table: dict


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


class Plain:
    kind = 1.0

    def __init__(self, factor=1.0):
        self.factor = factor
        self.unread = 0

    def get(self):
        return self.factor

    def set(self, factor):
        self.factor = factor

    @property
    def doubled(self):
        return 2 * self.factor


class Comparable(Plain):
    """It has no hash, since it says when it equals another."""

    def __eq__(self, other):
        return self.factor == other.factor


class Text(str):
    pass


class Amount(float):
    pass


class Hidden:
    """Keeps what it has where no attribute shows it."""

    def __init__(self, **kept):
        self.__dict__.update(kept)

    def __getitem__(self, name):
        return vars(self)[name]


class Point(NamedTuple):
    x: object
    y: object


def repeat(call, times):
    for i in range(times):
        call(i)


def changes():
    """Functions of an argument, the argument, and what is done to it between calls."""

    def setting(name, *contents):
        return [lambda o, c=c: setattr(o, name, c) for c in contents]

    return {
        "set": (lambda x, s: x * len(s), {1}, [lambda s: s.add(2), lambda s: s.discard(1)]),
        "frozenset": (lambda x, s: x * sum(s), frozenset({1, 2}), []),
        "bytearray": (
            lambda x, b: x * b[0], bytearray(b"ab"),
            [lambda b: b.__setitem__(0, 7), bytearray.clear],
        ),
        "array": (lambda x, a: x * a[0], array("d", [1, 2]), [lambda a: a.__setitem__(0, 7.0)]),
        "deque": (lambda x, d: x * d[-1], deque([1.0]), [lambda d: d.append(5.0), deque.popleft]),
        "namespace": (
            lambda x, o: x * o.k[0], SimpleNamespace(k=[2.0]), [lambda o: o.k.__setitem__(0, 3.0)]
        ),
        "dataclass": (lambda x, o: x * o.factor, Options(), setting("factor", 2.0, 3, 2.0, -0.0)),
        "list in a dataclass": (
            lambda x, o: x * len(o.names), Options(), [lambda o: o.names.append("b")] * 3
        ),
        "nested": (
            lambda x, o: x * o.inner.factor, Options(inner=Options(2.0)),
            [lambda o: setattr(o.inner, "factor", 5.0), lambda o: setattr(o, "inner", Plain(3.0))],
        ),
        "in a list": (
            lambda x, o: x * o.inner[0].factor, Options(inner=[Plain(2.0)]),
            [lambda o: setattr(o.inner[0], "factor", 5.0)],
        ),
        "frozen": (
            lambda x, o: x * o.table["k"], Frozen(1.0, {"k": 2.0}),
            [lambda o: o.table.update(k=4.0)],
        ),
        "slots": (lambda x, o: x * o.factor, Slotted(2.0), setting("factor", 3.0, "no")[:1]),
        "object": (lambda x, o: x * o.factor, Plain(), setting("factor", 2.0, 7, 2.0)),
        "property": (lambda x, o: x * o.doubled, Plain(), setting("factor", 2.0, 3.0)),
        "attribute of a class": (lambda x, o: x * o.kind, Plain(), setting("kind", 2.0, 3.0)),
        "no hash": (lambda x, o: x * o.factor, Comparable(), setting("factor", 2.0, 3.0)),
        "an array in an object": (
            lambda x, o: x * it.asarray(o.factor), Plain(np.ones(2, np.float32)),
            [lambda o: o.factor.__setitem__(0, 5.0), lambda o: o.factor.__imul__(2)],
        ),
        "a tensor in an object": (
            lambda x, o: x * o.factor, Plain(values(1, 2)),
            [lambda o: o.factor.__setitem__(0, 5.0), *setting("factor", values(3, 4), values(5))],
        ),
        "a PyTorch tensor in an object": (
            lambda x, o: x * it.asarray(o.factor), Plain(torch.ones(2)),
            [lambda o: o.factor.mul_(3.0)],
        ),
        "by vars": (
            lambda x, o: x * o["factor"], Hidden(factor=2.0),
            [lambda o: o.__dict__.update(factor=3.0), *setting("factor", 4.0)],
        ),
        "a dict": (
            lambda x, o: x * (1.0 if "q" in o else 2.0), {"q": [1]}, [lambda o: o.pop("q")]
        ),
        "a bound method": (lambda x, f: x * f(), Plain(2.0).get, [lambda f: f.__self__.set(3.0)]),
    }  # fmt: skip


CHANGES = changes()


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_in_an_argument_is_seen(name):
    function, argument, edits = changes()[name]
    f = compile(function)
    x = values(1, 2)
    for edit in (lambda o: None, lambda o: None, lambda o: None, *edits):
        try:
            edit(argument)
            want = function(x, argument)
        except (TypeError, IndexError) as error:
            with pytest.raises(type(error)):
                f(x, argument)
            continue
        for _ in range(3):
            np.testing.assert_array_equal(f(x, argument).numpy(), want.numpy())


def test_values_of_classes_that_derive_from_python_s():
    f = compile(lambda x, text, amount: x * float(len(text)) * amount)
    for text, amount in (("a", 1.0), ("bcd", 1.0), ("a", 2.0), ("bcd", -0.0), ("a", 1.0)) * 2:
        got = f(values(1), Text(text), Amount(amount))
        assert str(got.item()) == str(len(text) * amount)


def test_attributes_of_the_object_whose_method_is_compiled():
    class Callable(Plain):
        def __call__(self, x):
            return x * self.factor

        step = __call__

    for make in (lambda o: o, lambda o: o.step, lambda o: functools.partial(o.step)):
        o = Callable(2.0)
        f = compile(make(o))
        for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0):
            o.factor = factor
            assert f(values(1)).item() == factor
        assert f.recordings == 4


def test_a_function_that_makes_cells_at_each_call():
    f = compile(lambda x: it.Cell(x * 2.0) + 1.0)
    with pytest.warns(PlanWarning, match="which cells the function makes"):
        repeat(lambda i: f(values(1)), 40)
    assert f.recordings < 30


def test_what_is_not_read_may_change():
    f = compile(lambda x, o: x * o.factor)
    o = Plain(2.0)
    for i in range(30):
        o.unread = i
        assert f(values(1), o).item() == 2
    assert f.recordings == 2


def test_objects_that_compare_by_value_may_be_others():
    f = compile(lambda x, o: x * o.factor)
    for i in range(40):
        assert f(values(1), Options(2.0 + i % 2)).item() == 2 + i % 2
    assert f.recordings == 4


def test_keys_of_dicts_that_python_takes_for_equal():
    f = compile(lambda x, d: x * (1.0 if type(next(iter(d))) is int else 2.0))
    g = compile(lambda x, d: x * len(str(next(iter(d)))))
    for key in (1, 1.0, True, 1, 1.0, True):
        assert f(values(1), {key: 0}).item() == (1 if type(key) is int else 2)
        assert g(values(1), {key: 0}).item() == len(str(key))


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: OrderedDict(b=b, a=a), lambda a, b: defaultdict(list, {"a": a, "b": b}),
        lambda a, b: Counter({"a": a, "b": b}), lambda a, b: {"b": b, "a": a},
        lambda a, b: Point(a, b), lambda a, b: [a, (b, {"c": a})],
    ],
)  # fmt: skip
def test_containers_come_and_go_as_what_they_are(make):
    seen = []

    def function(tree):
        seen.append(type(tree))
        a, b = (tree["a"], tree["b"]) if isinstance(tree, dict) else (tree[0], values(1))
        return make(a * 2.0, b), tree

    f = compile(function)
    for k in range(4):
        tree = make(values(k), values(k + 1))
        got, same = f(tree)
        assert type(got) is type(same) is type(tree) is seen[0]
        if isinstance(tree, dict):
            assert list(got) == list(tree)
            assert got["a"].item() == 2 * k
        if isinstance(tree, defaultdict):
            assert got["c"] == []


@pytest.mark.parametrize(
    "array",
    [np.ones(2), torch.ones(2), memoryview(b"ab").cast("B")],
    ids=lambda a: type(a).__name__,
)
def test_arrays_of_other_libraries(array):
    if isinstance(array, memoryview):
        assert compile(lambda x, a: x * a[0])(values(1), array).item() == ord("a")
        return
    with pytest.raises(CompileError, match=r"among the arguments would be a constant.*asarray"):
        compile(lambda x, a: x)(values(1), [array])


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (lambda x, a: a.append(x), [1.0]), (lambda x, a: a.update(k=x), {}),
        (lambda x, a: a["k"].append(3), {"k": []}), (lambda x, a: a.add(3), {1}),
        (lambda x, a: a.__setitem__(0, x), [values(1)]), (lambda x, a: a.extend(b"x"), bytearray()),
        (lambda x, a: a.pop(), [1.0]), (lambda x, a: a.reverse(), [values(1), values(2)]),
    ],
)  # fmt: skip
def test_containers_that_the_function_changes_are_refused(function, argument):
    with pytest.raises(CompileError, match="changes a list, a dict or a set among its arguments"):
        compile(function)(values(1), argument)


def test_arguments_that_are_changed_in_place():
    def function(x, pair, *, more):
        x += 1.0
        pair[0][0] = 7.0
        more["k"] *= x
        return x * 2.0

    plain, compiled = [], []
    for way, kept in ((lambda f: f, plain), (compile, compiled)):
        f = way(function)
        x, y, z = values(1, 2), values(3, 4), values(5, 6)
        for _ in range(4):
            kept.append(f(x, (y,), more={"k": z}).tolist())
            kept += [x.tolist(), y.tolist(), z.tolist()]
    assert compiled == plain


def test_a_single_argument_that_is_changed_in_place():
    f = compile(lambda x: x.__iadd__(1.0))
    x = values(1)
    held = x * 1.0
    assert [f(x).item() for _ in range(5)] == [2, 3, 4, 5, 6]
    assert x.item() == 6
    assert held.item() == 1
    assert f.recordings == 2
    twice = compile(lambda a, b: a.__iadd__(b))
    assert [twice(x, values(1)).item() for _ in range(3)] == [7, 8, 9]
    with pytest.raises(CompileError, match="twice among the arguments"):
        twice(x, x)


class Kept(nn.Module):
    def __init__(self):
        self.lst = [1.0, 2.0]
        self.cfg = {"k": 2.0, "deep": {"er": [1.0]}}
        self.arr = np.ones(2, np.float32)
        self.t = it.ones(2)
        self.names = {"a"}
        self.options = Options(2.0)
        self.foreign = torch.ones(2)

    def forward(self, x):
        x = x * self.lst[0] * self.cfg["k"] + it.asarray(self.arr) + self.t
        return (
            (x + len(self.names) + self.cfg["deep"]["er"][-1])
            * self.options.factor
            * (it.asarray(self.foreign))
        )


@pytest.mark.parametrize("way", ["itself", "closed over", "as argument"])
def test_what_changes_in_attributes_of_modules_is_seen(way):
    module = Kept()
    f = compile(module if way == "itself" else (lambda x: module(x)) if way != "as argument"
                else (lambda m, x: m(x)))  # fmt: skip
    edits = [
        lambda m: None, lambda m: None, lambda m: m.lst.__setitem__(0, 7.0),
        lambda m: m.cfg.__setitem__("k", 9.0), lambda m: m.cfg["deep"]["er"].append(4.0),
        lambda m: setattr(m, "arr", m.arr + 1), lambda m: m.arr.__iadd__(1),
        lambda m: m.t.__setitem__(0, 9.0), lambda m: m.names.add("b"),
        lambda m: setattr(m.options, "factor", 3.0), lambda m: m.foreign.mul_(2.0),
        lambda m: setattr(m, "options", Options(5.0)),
    ]  # fmt: skip
    x = values(1, 2)
    for edit in edits:
        edit(module)
        for _ in range(3):
            got = f(module, x) if way == "as argument" else f(x)
            np.testing.assert_array_equal(got.numpy(), module(x).numpy())


def test_classes_are_as_they_were_after_a_recording():
    before = Plain.__getattribute__, nn.Module.__getattribute__
    o = Plain(2.0)
    f = compile(lambda x, o: x * o.factor)
    for _ in range(3):
        f(values(1), o)

    def failing(x, o):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        compile(failing)(values(1), o)
    assert (Plain.__getattribute__, nn.Module.__getattribute__) == before
    assert "__getattribute__" not in vars(Plain)
    assert "__getattribute__" not in vars(nn.Module)


def test_cells_that_hold_flags_and_collections():
    flag, options = it.Cell(True), it.Cell({"k": 2.0, "on": False})
    f = compile(lambda x: (x + 1.0 if flag.value else x - 1.0) * options.value["k"])
    for on in (True, False, True, False, False, True):
        flag.value = on
        assert f(values(1)).item() == (4 if on else 0)
    assert f.recordings == 4
    options.value["k"] = 5.0
    assert [f(values(1)).item() for _ in range(3)] == [10, 10, 10]


def test_flags_that_the_function_itself_changes():
    def make(way):
        even, name, count = it.Cell(True), it.Cell("none"), it.Cell(0)

        def step(x):
            x = x + 1.0 if even.value else x * 10.0
            even.value = not even.value
            count.value = count.value + 1
            name.value = "few" if count.value < 4 else "many"
            return x

        step = way(step)
        return [(step(values(i)).item(), even.value, name.value) for i in range(12)], step

    got, step = make(compile)
    assert got == make(lambda f: f)[0]
    assert step.recordings <= 8


def test_gradients_come_out_of_a_compiled_function_and_go_into_one():
    w, v = nn.Parameter([1.0, 2.0]), nn.Parameter([3.0])
    f = compile(lambda x: ((w * x).sum() * v.sum()).backward())
    norm = compile(lambda grads: grads.norm())
    for k in (1.0, 2.0, 3.0, 4.0):
        grads = f(values(k, 1))
        assert isinstance(grads, it.Gradients)
        assert grads[w].tolist() == [3 * k, 3]
        assert grads[v].tolist() == [k + 2]
        want = math.sqrt((3 * k) ** 2 + 9 + (k + 2) ** 2)
        assert norm(grads).item() == pytest.approx(want)
    loss, grads = compile(lambda x: ((w * x).sum(), (w * x).sum().backward()))(values(2, 2))
    assert (loss.item(), grads[w].tolist()) == (6, [2, 2])


def test_gradients_of_tensors_that_the_function_makes():
    def f(x):
        w = (x * 2.0).require_grad()
        return (w * w).sum().backward()

    f = compile(f)
    for k in (1.0, 2.0, 3.0):
        assert [g.tolist() for g in f(values(k, 1)).tensors()] == [[4 * k, 4]]
    assert f.recordings == 2


def test_arguments_that_come_back_are_those_of_the_call():
    f = compile(lambda x, o: (x * 2.0, o, "text", 3))
    for _ in range(4):
        o = Options(2.0)
        assert f(values(1), o)[1] is o


def test_results_that_differ_are_an_error():
    turn = iter(range(10))
    f = compile(lambda x: {f"k{next(turn)}": x})
    f(values(1))
    with pytest.raises(CompileError, match="must do the same"):
        f(values(1))
    texts = iter("abc")
    g = compile(lambda x: (x, next(texts)))
    g(values(1))
    with pytest.raises(CompileError, match="must do the same"):
        g(values(1))
    h = compile(lambda x: (x, math.nan, it.asarray(math.nan)))
    for _ in range(3):
        h(values(1))
    assert h.recordings == 2


@pytest.mark.slow
def test_objects_and_their_tensors_are_not_kept():
    f = compile(lambda x, o: x * o.factor)
    gone = []

    def call(i):
        o = Plain(values(i))
        gone.extend([weakref.ref(o), weakref.ref(o.factor)])
        assert f(values(2), o).item() == 2 * i

    with pytest.warns(PlanWarning, match="an object among the arguments differs in nearly every"):
        repeat(call, 200)
    gc.collect()
    assert not any(r() for r in gone)
    assert f.recordings <= 64
    assert len(f._kept) == 0


@dataclass
class Batch:
    x: object
    y: object
    options: Options = field(default_factory=Options)
    extra: object = None


def test_tensors_in_dataclasses_are_inputs():
    w = nn.Parameter([1.0, 2.0])

    def f(batch):
        loss = ((batch.x * w - batch.y) ** 2 * batch.options.factor).sum()
        return loss, loss.backward()

    compiled, gone = compile(f), []
    for k in range(60):
        batch = Batch(values(k, 1), values(k % 5, 2), Options(2.0))
        gone += [weakref.ref(batch), weakref.ref(batch.x)]
        (loss, grads), (want, wanted) = compiled(batch), f(batch)
        np.testing.assert_allclose(loss.item(), want.item(), rtol=1e-6)
        np.testing.assert_allclose(grads[w].numpy(), wanted[w].numpy(), rtol=1e-6)
    assert compiled.recordings == 2
    assert compiled(Batch(values(1, 2), values(1), Options(2.0)))[0].shape == ()
    assert compiled.recordings == 3
    with pytest.raises((TypeError, AttributeError)):
        compiled(Batch(values(1), None))
    del batch
    gc.collect()
    assert not any(r() for r in gone)


def test_tensors_in_objects_that_are_changed_in_place():
    def f(o, k):
        o.x += k
        o.y[0] = 7.0
        o.options.factor.__imul__(2.0)
        return o.x * 2.0 + o.x

    plain, compiled = [], []
    for way, kept in ((lambda f: f, plain), (compile, compiled)):
        g = way(f)
        o = Batch(values(1, 2), values(3, 4), Plain(values(1)))
        own = o.x, o.y, o.options.factor
        for k in range(5):
            kept.append(g(o, values(k)).tolist())
            kept += [x.tolist() for x in own]
            assert o.x is own[0]
            assert o.y is own[1]
    assert compiled == plain
    shared = values(1)
    with pytest.raises(CompileError, match="twice among the arguments"):
        g(Batch(shared, shared, Plain(shared)), shared)


def test_lists_of_tensors_in_objects_are_constants_that_are_not_kept():
    f = compile(lambda x, o: x * o.names[0])
    gone = []

    def call(i):
        o = Options(1.0, [values(i)])
        gone.extend([weakref.ref(o), weakref.ref(o.names[0])])
        assert f(values(2), o).item() == 2 * i

    with pytest.warns(PlanWarning, match="attribute 'names' of a .*Options differs"):
        repeat(call, 100)
    gc.collect()
    assert not any(r() for r in gone)
    assert f.recordings <= 64
