"""Which indices need no check, since they are the places of extremes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile
from ingle.fusion.passes import by_layers
from ingle.fusion.passes.known_places import KnownPlaces
from ingle.tensor.errors import OutOfRangeError

pytest.importorskip("ingle_cpu")

Program = Callable[[it.Tensor, it.Tensor], it.Tensor]
KNOWN: dict[str, Program] = {
    "next row": lambda x, table: it.embedding(it.argmax(x, axis=-1), table),
    "best value": lambda x, table: it.take_along_axis(x, it.argmin(x, axis=1, keepdims=True), 1),
    "turned": lambda x, table: it.take(
        table, it.reshape(it.expand_dims(it.argmax(x, axis=1), axis=0).mT, (-1,)), axis=0
    ),
    "cast": lambda x, table: it.take(table, it.argmax(x, axis=1).astype("uint8"), axis=0),
    "long row": lambda x, table: it.take(x, it.argmax(it.reshape(x, (-1,))[:6], axis=0), axis=1),
    "scattered": lambda x, table: it.scatter_add(
        it.zeros((6,), device="cpu"), it.argmax(x, axis=1), it.ones((5,), device="cpu"), axis=0
    ),
}
UNKNOWN: dict[str, Program] = {
    "fewer rows": lambda x, table: it.take(table[:5], it.argmax(x, axis=1), axis=0),
    "more": lambda x, table: it.take(table, it.argmax(x, axis=1) + 0, axis=0),
    "negative": lambda x, table: it.take(table, -it.argmax(x, axis=1), axis=0),
    "joined": lambda x, table: it.take(
        table, it.concat([it.argmax(x, axis=1), it.asarray([0], device="cpu")], axis=0), axis=0
    ),
    "padded": lambda x, table: it.take(table, it.pad(it.argmax(x, axis=1), ((1, 0),)), axis=0),
    "too small": lambda x, table: it.take(
        it.zeros((300, 2), device="cpu"), it.argmax(it.zeros((1, 200)), axis=1).astype("int8")
    , axis=0),
}  # fmt: skip


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many checks each graph has."""
    found: list[int] = []
    decompose = by_layers.decompose

    def noted(*args: Any) -> Any:
        made = decompose(*args)
        found.append(len(made.checks))
        return made

    monkeypatch.setattr(by_layers, "decompose", noted)
    return found


def _run(program: Program) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 6)).astype(np.float32)
    x[2] = np.nan
    here, table = it.asarray(x, device="cpu"), it.reshape(it.arange(12.0, device="cpu"), (6, 2))
    alone = program(here, table).numpy()
    return alone, compile(program)(here, table).numpy()


@pytest.mark.parametrize("name", KNOWN)
def test_places_of_extremes_need_no_check(checks: list[int], name: str) -> None:
    alone, compiled = _run(KNOWN[name])
    np.testing.assert_array_equal(compiled, alone)
    assert checks
    assert checks[-1] == 0


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_lie_outside_is_checked(checks: list[int], name: str) -> None:
    _run(UNKNOWN[name])
    assert checks[-1] == 1


def test_rows_of_an_embedding_are_checked_once_for_it_and_its_gradient(checks: list[int]) -> None:
    table = it.reshape(it.arange(12.0, device="cpu"), (6, 2))
    run = compile(grad(lambda t, places: it.sum(it.embedding(places, t) ** 2.0)))
    got = run(table, it.asarray([5, 0, 5], device="cpu")).numpy()
    want = np.zeros((6, 2), np.float32)
    want[0], want[5] = [0, 2], [40, 44]
    np.testing.assert_array_equal(got, want)
    assert checks[-1] == 1
    for outside in (6, -1):
        with pytest.raises(OutOfRangeError, match=r"embedding: the indices .* outside of 0 to 5"):
            run(table, it.asarray([5, outside, 5], device="cpu")).numpy()


NAMED: dict[str, tuple[str, Callable[[it.Tensor], it.Tensor]]] = {
    "embedding": ("0 to 2", lambda places: it.embedding(places, it.ones((3, 2)))),
    "one_hot": ("0 to 2", lambda places: it.one_hot(places, 3)),
    "cross_entropy": ("0 to 2", lambda places: it.cross_entropy(it.ones((2, 3)), places)),
    "nll_loss": ("0 to 2", lambda places: it.nll_loss(it.ones((2, 3)), places)),
    "take": ("-3 to 2", lambda places: it.take(it.ones(3), places)),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_call_that_refuses_an_index_is_named_and_what_it_takes(name: str) -> None:
    valid, call = NAMED[name]
    with it.device("cpu"):
        run = compile(call)
        run(it.asarray([0, 2])).numpy()
        with pytest.raises(OutOfRangeError, match=f"^{name}: the indices .* outside of {valid}, "):
            run(it.asarray([0, 3])).numpy()


@pytest.mark.parametrize("outside", [6, -1])
def test_a_gradient_alone_names_the_embedding(outside: int) -> None:
    table = it.zeros((6, 2), device="cpu")
    run = compile(grad(lambda t, places: it.sum(it.embedding(places, t))))
    with pytest.raises(OutOfRangeError, match=r"^embedding: the indices .* outside of 0 to 5"):
        run(table, it.asarray([5, outside, 5], device="cpu")).numpy()


def test_an_embedding_tells_nothing_of_a_smaller_table(checks: list[int]) -> None:
    small, large = it.zeros((2, 1), device="cpu"), it.zeros((6, 1), device="cpu")
    run = compile(lambda places: it.embedding(places, large) + it.take(small, places, axis=0))
    run(it.asarray([0, 1], device="cpu"))
    assert checks[-1] == 2
    with pytest.raises(OutOfRangeError, match=r"take: .* axis 0 has size 2"):
        run(it.asarray([0, 2], device="cpu")).numpy()


def test_places_of_more_than_there_are_rows_are_an_error() -> None:
    table = it.zeros((3, 2), device="cpu")
    run = compile(lambda x: it.take(table, it.argmax(x, axis=1), axis=0))
    x = np.zeros((2, 4), np.float32)
    assert run(it.asarray(x, device="cpu")).shape == (2, 2)
    x[1, 3] = 1.0
    with pytest.raises(OutOfRangeError, match=r"take: .* axis 0 has size 3"):
        run(it.asarray(x, device="cpu")).numpy()


def test_what_was_written_out_for_known_places_does_not_serve_others(checks: list[int]) -> None:
    """The same composite once with an index that needs no check, then with one that does."""
    table = it.reshape(it.arange(12.0, device="cpu"), (6, 2))

    @compile
    def both(x: it.Tensor, given: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        return it.embedding(it.argmax(x, axis=1), table), it.embedding(given, table)

    x = it.zeros((2, 6), device="cpu")
    both(x, it.asarray([5, 0], device="cpu"))
    assert checks[-1] == 1
    with pytest.raises(OutOfRangeError):
        both(x, it.asarray([5, 6], device="cpu"))[1].numpy()


def test_sizes_that_answer_alike_share_plans(recwarn: pytest.WarningsRecorder) -> None:
    """Of plain code: whether a check is needed depends on sizes, which may be new at each call."""
    rng = np.random.default_rng(1)
    for _ in range(80):
        rows, length, width = rng.integers(1, 9, 3)
        x = rng.integers(0, 3, (width, length)).astype(np.float32)
        table, places = rng.standard_normal((rows, 3)), np.repeat(x.argmax(axis=1), 2)
        here, there = it.asarray(x, device="cpu"), it.asarray(table, device="cpu")
        chosen = it.reshape(it.argmax(here, axis=1), (-1, 1))
        chosen = it.reshape(it.broadcast_to(chosen, (width, 2)), (-1,))
        found = it.take(there, chosen, axis=0)
        if places.max() < rows:
            np.testing.assert_array_equal(found.numpy(), table[places])
        else:
            with pytest.raises(OutOfRangeError, match=r"take: the indices hold .* axis 0 has size"):
                found.numpy()
    assert not recwarn.list


def test_a_value_takes_nothing_over_from_one_that_is_no_more() -> None:
    """Their numbers are given again to what is recorded after a composite that stays whole."""
    places = KnownPlaces()
    traits = SimpleNamespace(family="argreduce")
    place: Any = SimpleNamespace(operation=SimpleNamespace(traits=traits), attributes={"axis": 0})
    values = [SimpleNamespace(number=n, shape=(6,), dtype=it.int64) for n in range(3)]
    for value in values:
        places.note(place, [values[0]], value)
    traits = SimpleNamespace(row_indices=(0, 1))
    rows: Any = SimpleNamespace(operation=SimpleNamespace(traits=traits))
    given = SimpleNamespace(number=-7, shape=(2,), dtype=it.int64)
    places.note_rows(rows, [given, values[0]], [values[2]])
    assert places.below(given) == 6
    places.forget(1)
    assert [places.below(value) for value in values] == [6, None, None]
    assert places.below(given) is None


def test_an_operation_without_results_is_part_of_a_plan() -> None:
    """An axis without elements is taken apart into nothing."""

    @compile
    def apart(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        rows = it.unstack(it.exp(x), axis=0)
        return it.sum(y * 2.0) + len(rows)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [apart(it.zeros((0, 3)), it.ones((4,))).item() for _ in range(3)]
    assert found == [8.0, 8.0, 8.0]
