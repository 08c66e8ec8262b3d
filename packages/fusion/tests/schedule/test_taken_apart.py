"""Groups for which there is no nest: what is taken out of them, and what is left to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.fusion.runtime import graph_plans
from ingle.fusion.schedule import scheduler
from ingle.tensor.ops.neural.attention_dropout import attention_dropout_gradient

pytest.importorskip("ingle_cpu")

Refuses = Callable[[Callable[[list[str]], bool]], None]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    with it.device("cpu"):
        yield


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuses:
    """Has no nests for groups whose operations are such."""
    begun = scheduler.nest_builder

    def refusing(is_none: Callable[[list[str]], bool]) -> None:
        def nest_builder(graph, views, group, *rest):
            names = [graph.nodes[p].op.operation.name for p in group.nodes]
            return None if is_none(names) else begun(graph, views, group, *rest)

        monkeypatch.setattr(scheduler, "nest_builder", nest_builder)

    return refusing


def numbers(*shape: int) -> it.Tensor:
    drawn = np.random.default_rng(0).uniform(-1, 1, shape)
    return it.asarray(drawn.astype(np.float32))


def planned(f: Callable[..., object], *args: it.Tensor) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.kind, tuple(step.operations)) for step in explain(f, *args, runs=0).steps]


def three(x: it.Tensor) -> it.Tensor:
    return it.exp(it.sin(it.cos(x)))


def test_the_last_operation_goes_until_there_is_a_nest(refuse: Refuses) -> None:
    x = numbers(64)
    assert planned(three, x) == [("nest", ("cos", "sin", "exp"))]
    refuse(lambda names: len(names) > 2)
    assert planned(three, x) == [("nest", ("cos", "sin")), ("nest", ("exp",))]
    np.testing.assert_allclose(compile(three)(x).numpy(), np.exp(np.sin(np.cos(x.numpy()))), 1e-6)


def test_two_operations_that_share_no_nest_have_one_each(refuse: Refuses) -> None:
    refuse(lambda names: len(names) > 1)
    assert planned(three, numbers(64)) == [("nest", (name,)) for name in ("cos", "sin", "exp")]


def test_a_single_operation_is_left_to_the_device(refuse: Refuses) -> None:
    x = numbers(64)
    refuse(lambda names: "sin" in names)
    assert planned(three, x) == [("nest", ("cos",)), ("host", ("sin",)), ("nest", ("exp",))]
    np.testing.assert_allclose(compile(three)(x).numpy(), np.exp(np.sin(np.cos(x.numpy()))), 1e-6)


def both(x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
    y = it.sin(x - it.max(x, axis=1, keepdims=True))
    return it.sum(y, axis=0), it.exp(y)


def test_sums_of_blocks_go_before_the_last_operation(refuse: Refuses) -> None:
    """What is left of their group stays one kernel."""
    x = numbers(4096, 64)
    rows = ("max", "subtract", "sin")
    assert planned(both, x)[0] == ("nest", (*rows, "block_sums", "exp"))
    refuse(lambda names: "block_sums" in names and len(names) > 1)
    apart = planned(both, x)
    assert ("nest", (*rows, "exp")) in apart
    assert ("nest", ("block_sums",)) in apart
    sums, exps = compile(both)(x)
    wide = x.numpy().astype(np.float64)
    y = np.sin(wide - wide.max(axis=1, keepdims=True))
    np.testing.assert_allclose(sums.numpy(), y.sum(axis=0), 1e-4, 1e-3)
    np.testing.assert_allclose(exps.numpy(), np.exp(y), 1e-6)


def test_sums_of_blocks_by_themselves_are_left_to_the_device(refuse: Refuses) -> None:
    refuse(lambda names: "block_sums" in names)
    assert ("host", ("block_sums",)) in planned(both, numbers(4096, 64))


def test_what_the_device_and_products_read_is_in_memory() -> None:
    """Numbers that kernels compute where they need them are stored for those that have none."""

    def ordered(x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        places = it.arange(8192, dtype="float32")
        return it.sort(places * 1.0), x @ it.full((64, 64), 0.5)

    x = numbers(64, 64)
    found = compile(ordered)(x)
    np.testing.assert_array_equal(found[0].numpy(), np.arange(8192, dtype=np.float32))
    np.testing.assert_allclose(found[1].numpy(), x.numpy() @ np.full((64, 64), 0.5), 1e-4, 1e-5)


def test_a_group_falls_into_the_pieces_that_share_loops() -> None:
    """What is looked up has places along one axis and elements along the other, which sums over
    both cannot walk as one: each sum is a kernel, and each lookup with what follows it another."""

    def sums(table: it.Tensor, *places: it.Tensor) -> it.Tensor:
        found = [it.sum(it.exp(it.take(table, p, axis=0)) * 2.0) for p in places]
        return found[0] + found[1] + found[2]

    table = numbers(64, 8)
    places = [it.asarray(np.arange(16) * k % 64) for k in (1, 5, 7)]
    kernels = planned(sums, table, *places)
    assert sum("take" in names for _, names in kernels) == 3
    assert all(("take" in names) == ("exp" in names) for _, names in kernels)
    assert not any("take" in names and "sum" in names for _, names in kernels)
    wanted = sum([2.0 * np.exp(table.numpy()[p.numpy()].astype(np.float64)).sum() for p in places])
    np.testing.assert_allclose(compile(sums)(table, *places).item(), wanted, rtol=1e-6)


@pytest.mark.slow
def test_what_a_product_has_taken_up_goes_too() -> None:
    """Random bits that the gradients of shares and of values both compare: taking the last
    operations out of the product's group left the comparison in, again and again."""
    arrays = [numbers(2, 2, 96, 64).astype("bfloat16") for _ in range(4)]
    options = {"p": 0.3, "place": (3, 1)}
    found = attention_dropout_gradient(*arrays, **options)
    wanted = attention_dropout_gradient(*[a.astype("float64") for a in arrays], **options)
    for one, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            one.astype("float32").numpy(), right.numpy(), rtol=3e-2, atol=3e-2
        )
