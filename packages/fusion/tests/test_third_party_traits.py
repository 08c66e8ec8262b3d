"""What an operation from outside declares of itself, plans know like what the own ones declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.kernel import lowering
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.lowering.nests import NestBuilder
from ingle.fusion.runtime import custom_kernels
from ingle.fusion.runtime.custom_kernels import register_lowering
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import handle_of, run, run1
from ingle.tensor.operation import OPERATIONS, Cost, Laws, Operation, Traits

NAMES = {None: "bend_unknown", "cheap": "bend", "root": "bend_root", "expensive": "bend_expensive"}
COSTS: list[Cost | None] = [None, "cheap", "root", "expensive"]


def operation(name: str, **facts: Any) -> Operation:
    """An operation `x * x + 1` that is nobody else's to check."""
    made = Operation(
        name, tensors=("x",), rule=lambda x: x, traits=Traits("elementwise", **facts),
        body=lambda x: x * x + 1.0,
    )  # fmt: skip
    del OPERATIONS[name]
    return made


BENDS = {cost: operation(NAMES[cost], cost=cost) for cost in COSTS}
SMOOTH = operation("bend_smoothly")
JUMPING = operation("bend_with_jumps", discontinuous=True)


@pytest.fixture(autouse=True)
def lowered() -> Iterator[None]:
    own = (*BENDS.values(), SMOOTH, JUMPING)
    for one in own:
        register_lowering(one, lambda x: x * x + 1.0)
    with it.device("cpu"):
        yield
    for one in own:
        del lowering.RULES[one.name]
        del custom_kernels._operations[one.name]


def apply(one: Operation, x: it.Tensor) -> it.Tensor:
    return run1(one.op(), handle_of(x, one.name))


def numbers(*shape: int) -> it.Tensor:
    return it.asarray(np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32))


@pytest.mark.parametrize("cost", COSTS)
def test_cheap_results_are_computed_again(cost: Cost | None) -> None:
    bend = BENDS[cost]

    def both_ways(x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        y = apply(bend, x)
        return it.max(y, axis=1), it.max(y, axis=0)

    x = numbers(100, 64)
    found = explain(both_ways, x, runs=0)
    again = [step.again for step in found.steps if step.again]
    assert {step.kind for step in found.steps} == {"nest"}
    if cost in ("cheap", "root"):
        assert again == [(bend.name,)]
        assert found.arena == 0
    else:
        assert again == []
        assert found.arena == 4 * 100 * 64
    want = x.numpy() * x.numpy() + 1
    for got, axis in zip(compile(both_ways)(x), (1, 0), strict=True):
        np.testing.assert_allclose(got.numpy(), want.max(axis), rtol=1e-6)


@pytest.mark.parametrize("cost", COSTS)
def test_expensive_results_are_kept_in_their_row(
    cost: Cost | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bend, kept = BENDS[cost], list[str]()
    keep = NestBuilder._keep

    def noted(builder: NestBuilder) -> dict[int, tuple[int, int]]:
        found = keep(builder)
        nodes = [builder._graph.nodes[builder._node_of[value]] for value in found]
        kept.extend(node.op.operation.name for node in nodes)
        return found

    def shares(x: it.Tensor) -> it.Tensor:
        y = apply(bend, x - it.max(x, axis=-1, keepdims=True))
        return y / it.sum(y, axis=-1, keepdims=True)

    monkeypatch.setattr(NestBuilder, "_keep", noted)
    x = numbers(40, 300)
    steps = explain(shares, x, runs=0).steps
    assert [step.kind for step in steps] == ["nest"]
    assert set(kept) == ({bend.name} if cost == "expensive" else set())
    y = (x.numpy() - x.numpy().max(-1, keepdims=True)) ** 2 + 1
    np.testing.assert_allclose(compile(shares)(x).numpy(), y / y.sum(-1, keepdims=True), rtol=1e-5)


def roundings(one: Operation) -> int:
    """How often code rounds to a half type where the operation follows another."""
    b = CodeBuilder()
    half = Aval((1,), it.float16)
    root = lowering.lower(OPERATIONS["exp"].op(), b, [b.load(0, "float16")], half)
    root = lowering.lower(one.op(), b, [root], half)
    instructions, _ = b.finish(root)
    return sum(i.dtype == "float16" for i in instructions if i.name == "cast")


def test_operations_that_jump_see_half_types_as_in_memory() -> None:
    assert roundings(SMOOTH) == 1
    assert roundings(JUMPING) == roundings(OPERATIONS["floor"]) == 2


def put(name: str, **facts: Any) -> Operation:
    """An operation that adds rows at indices."""
    made = Operation(
        name, tensors=("x", "indices", "updates"), statics=("axis",),
        rule=lambda x, indices, updates, axis: x, traits=Traits("movement", **facts),
        body=lambda x, indices, updates, axis: it.scatter_add(x, indices, updates, axis=axis),
    )  # fmt: skip
    del OPERATIONS[name]
    return made


PUT = put("put_rows", access="scatter", updates="add")
KEPT = operation("bend_back", laws=Laws(negates=True), cost="cheap")


def test_scatters_from_outside_are_kernels_of_regions() -> None:
    def placed(x: it.Tensor, indices: it.Tensor, updates: it.Tensor) -> it.Tensor:
        handles = [handle_of(t, "put_rows") for t in (x, indices, updates * 2.0)]
        return run(PUT.op(axis=0), handles)[0]

    rows, updates = numbers(5, 40), numbers(3, 40)
    at = it.asarray([1, 4, 1])
    want = rows.numpy().copy()
    np.add.at(want, at.numpy(), 2 * updates.numpy())
    steps = explain(placed, rows, at, updates, runs=0).steps
    assert {step.kind for step in steps} == {"nest"}
    assert "put_rows" in steps[-1].name
    np.testing.assert_array_equal(compile(placed)(rows, at, updates).numpy(), want)


def test_what_negates_twice_is_gone() -> None:
    register_lowering(KEPT, lambda x: x * -1.0)
    x = numbers(8, 8)
    found = explain(lambda x: apply(KEPT, apply(KEPT, x)) + 1.0, x, runs=0)
    assert [step.name for step in found.steps] == ["add"]
    del lowering.RULES[KEPT.name], custom_kernels._operations[KEPT.name]
