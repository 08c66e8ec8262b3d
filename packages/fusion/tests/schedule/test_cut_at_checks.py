"""Where plans of devices that work by themselves are cut: behind their checks, and before they
write over state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ingle.fusion.lowering.contraction import ContractionCall
from ingle.fusion.lowering.nests import NestCall
from ingle.fusion.schedule import donation
from ingle.fusion.schedule.donation import Donations, cut

FLAG, STATE = 90, 91


class Nest(NestCall):
    """A kernel that writes one value."""

    def __new__(cls, writes: int) -> Any:
        made: Any = tuple.__new__(cls)
        made.writes = writes
        return made

    def __init__(self, writes: int) -> None:
        """It has all it needs."""


class Product(ContractionCall):
    """A product that writes one value."""

    __new__ = Nest.__new__
    __init__ = Nest.__init__


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donation, "_written", lambda call: {call.writes})


def lengths(calls: list[Any], flags: list[int], *, waits: bool = False, taken: bool = True) -> Any:
    """How many calls each step has."""
    schedule: Any = SimpleNamespace(
        steps=[calls], views=SimpleNamespace(of=lambda n: SimpleNamespace(root=n))
    )
    donations = Donations(2, {STATE: 0} if taken else {})
    return [len(step) for step in cut(schedule, donations, flags, waits=waits)]


@pytest.mark.parametrize(
    ("kernels", "products", "expected"),
    [
        (0, 0, [1, 25]), (8, 0, [1, 33]), (9, 0, [1, 9, 25]), (2, 2, [1, 29]), (0, 3, [1, 3, 25]),
    ],
)  # fmt: skip
def test_few_kernels_behind_the_checks_go_with_the_last(
    kernels: int, products: int, expected: list[int]
) -> None:
    between = [Nest(n) for n in range(kernels)] + [Product(n) for n in range(products)]
    behind = [Nest(50) for _ in range(24)]
    assert lengths([Nest(FLAG), *between, Nest(STATE), *behind], [FLAG]) == expected


@pytest.mark.parametrize(("products", "expected"), [(22, [1, 24]), (23, [1, 23, 2])])
def test_a_small_step_is_launched_whole_behind_its_checks(
    products: int, expected: list[int]
) -> None:
    calls = [Nest(FLAG), *[Product(n) for n in range(products)], Nest(STATE), Nest(50)]
    assert lengths(calls, [FLAG]) == expected


def test_plans_without_checks_are_cut_before_they_write_over_state() -> None:
    assert lengths([Nest(1), Nest(2), Nest(STATE), Nest(3)], []) == [2, 2]


def test_plans_that_write_over_nothing_are_cut_behind_their_checks() -> None:
    calls = [Nest(FLAG), *[Nest(n) for n in range(12)]]
    assert lengths(calls, [FLAG], taken=False) == [1, 12]
    assert lengths(calls[:1], [FLAG], taken=False) == [1]


def test_plans_that_wait_are_cut_where_all_is_known() -> None:
    assert lengths([Nest(FLAG), Nest(1), Nest(STATE)], [FLAG], waits=True) == [2, 1]
