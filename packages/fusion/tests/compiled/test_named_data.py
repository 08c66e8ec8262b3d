"""Classes, modules and functions among the arguments: what they hold is compared."""

from __future__ import annotations

import math
import types

import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.testkit.bits import same_bits


class Defaults:
    scale = 2.0
    steps = (1, [2])
    activation = staticmethod(it.relu)
    weight = it.ones(2)


class More(Defaults):
    rate = 3.0


@pytest.mark.parametrize("held", ["itself", "in a list", "attribute"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", 5.0), ("steps", (1, [3])), ("weight", 7 * it.ones(2)),
        ("activation", staticmethod(it.negative)),
    ],
)  # fmt: skip
def test_attributes_of_classes_among_the_arguments(monkeypatch, name, value, held):
    class Owner:
        kind = None

    owner = Owner()
    owner.kind = More
    given = {"itself": More, "in a list": [More], "attribute": owner}[held]

    @compile
    def f(x, given):
        of = given[0] if isinstance(given, list) else getattr(given, "kind", given)
        return of.activation(x * of.scale * of.steps[1][0] * of.weight) * of.rate

    x = it.ones(2)
    for _ in range(3):
        assert f(x, given).tolist() == [12.0, 12.0]
    made = f.recordings
    monkeypatch.setattr(Defaults, name, value)
    expected = More.activation(x * More.scale * More.steps[1][0] * More.weight) * More.rate
    assert same_bits(f(x, given).numpy(), expected.numpy())
    assert f.recordings == made + 1
    More.steps[1].append(4)
    try:
        f(x, given)
        assert f.recordings == made + 2
    finally:
        More.steps[1].pop()


def test_attributes_of_modules_among_the_arguments():
    module = types.ModuleType("settings")
    module.factor, module.table = 2.0, {"a": [1.0]}
    f = compile(lambda x, m: x * m.factor * m.table["a"][0])
    x = it.ones(2)
    for _ in range(3):
        assert f(x, module).tolist() == [2.0, 2.0]
    module.factor = 3.0
    assert f(x, module).tolist() == [3.0, 3.0]
    module.table["a"][0] = 2.0
    assert f(x, module).tolist() == [6.0, 6.0]
    g = compile(lambda x, m: x * m.pi)
    for _ in range(4):
        g(x, math)
    assert g.recordings <= 2


def test_what_functions_among_the_arguments_hold():
    factor, table, later = 2.0, [1.0], [1.0]

    def scale(x, other=later, *, more=[1.0]):  # noqa: B006
        return x * factor * table[0] * other[0] * more[0]

    f = compile(lambda x, scale: scale(x))
    x = it.ones(2)
    for _ in range(3):
        assert f(x, scale).tolist() == [2.0, 2.0]
    factor = 3.0
    assert f(x, scale).tolist() == [3.0, 3.0]
    table[0] = 2.0
    assert f(x, scale).tolist() == [6.0, 6.0]
    later[0] = 2.0
    assert f(x, scale).tolist() == [12.0, 12.0]
    scale.__kwdefaults__["more"][0] = 0.5
    assert f(x, scale).tolist() == [6.0, 6.0]


def test_what_contains_itself_is_itself_in_a_class():
    class Registry:
        all: list = []  # noqa: RUF012

    Registry.all.append(Registry.all)
    f = compile(lambda x, kind: x * len(kind.all))
    for _ in range(3):
        assert f(it.ones(1), Registry).tolist() == [1.0]
