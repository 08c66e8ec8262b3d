"""Convolutions by 3x3 and 5x5 taps from patches, with fewer multiplications."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from window_products import guarded, product, seen

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.executables import ShareOfTime
from ingle.fusion.lowering.contraction import Windows
from ingle.tensor.errors import SettingError
from ingle_cpu.launch import executable
from ingle_cpu.launch.plan_store import CpuPlanStore, _read_packing, _written_operand
from ingle_cpu.matmul import blocking, machine, prepacked, winograd
from ingle_cpu.matmul.problem import Choice, Problem
from ingle_cpu.matmul.taps_packing import WINOGRAD
from ingle_cpu.matmul.winograd import winograd_choice, winograd_of
from ingle_cpu.matmul.winograd_form import FORMS

EPS = np.finfo(np.float32).eps
CASES: tuple[tuple[Any, ...], ...] = (
    # images, features, channels, image, places, start, spread, one matrix for all images
    (2, 16, 16, (12, 12), (12, 12), (-1, -1), (1, 1), False),
    (3, 18, 17, (13, 9), (13, 9), (1, 1), (-1, -1), False),  # taps that go backwards
    (2, 33, 40, (8, 30), (6, 28), (0, 0), (1, 1), False),  # nothing around
    (1, 20, 24, (8, 30), (12, 33), (-3, -2), (1, 1), False),  # much around
    (2, 16, 16, (20, 21), (7, 6), (3, 4), (1, 1), False),  # a part of the image
    (5, 29, 32, (7, 5), (7, 5), (-1, -1), (1, 1), True),
)
TAPS = 3, 5


@pytest.fixture(autouse=True)
def every_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers of any size, since none of them gives other numbers."""
    if not machine.target().fma:
        pytest.skip("it is written for processors that multiply and add at once")
    monkeypatch.setattr(winograd, "REGISTERS", (machine.target().width,))
    winograd._winograd.cache_clear()
    yield
    winograd._winograd.cache_clear()


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches of any problem pay, of few channels and features, too."""
    monkeypatch.setattr(winograd, "GAIN", 100.0)


def problem_of(case: tuple[Any, ...], x: Any, taps: int = 3) -> Problem:
    """A convolution as a problem; the images may have any strides."""
    images, m, channels, image, places, start, spread, together = case
    batch, channel, *along = (s // x.itemsize for s in x.strides)
    k, n = taps**2 * channels, math.prod(places)
    if together:
        windows = Windows(
            False, (1, taps, taps), (images, *places), (1, 1, 1), (1, *spread), (0, *start),
            (images, *image), channel, (batch, *along),
        )  # fmt: skip
        sizes, batches = (m, images * n, k), (1,)
        return Problem("float32", "float32", batches, *sizes, (0, k, 1), (0, 0, 0), windows)
    windows = Windows(
        False, (taps, taps), places, (1, 1), spread, start, image, channel, tuple(along)
    )  # fmt: skip
    strides = (0, 0, k, 1), (batch, 0, 0, 0)
    return Problem("float32", "float32", (images, 1), m, n, k, *strides, windows)


def operands(case: tuple[Any, ...], taps: int = 3) -> tuple[Any, Any, Problem]:
    """The weight, images, and their convolution as a problem."""
    images, m, channels, image = case[:4]
    rng = np.random.default_rng(images)
    a = guarded(rng.standard_normal((m, taps**2 * channels)).astype(np.float32))
    x = guarded(rng.standard_normal((images, channels, *image)).astype(np.float32))
    return a, x, problem_of(case, x, taps)


def choice_of(problem: Problem, workers: int) -> Choice:
    lying = winograd_of(problem)
    assert lying is not None
    return winograd_choice(problem, lying, workers)


def results(case: tuple[Any, ...], a: Any, x: Any, problem: Problem, workers: int = 1) -> Any:
    """What patches give, as (images, features, places)."""
    found = product(a, x, problem, choice_of(problem, workers))
    images, m = case[:2]
    if case[-1]:
        return found.reshape(m, images, -1).swapaxes(0, 1)
    return found.reshape(images, m, -1)


def by_definition(case: tuple[Any, ...], a: Any, x: Any) -> Any:
    _, _, channels, _, places, start, spread, _ = case
    taps = math.isqrt(a.shape[1] // channels)
    windows = seen(x.astype(np.float64), (taps, taps), places, spread, start, (1, 1))
    with np.errstate(invalid="ignore"):
        return np.matmul(a.astype(np.float64), windows)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("case", CASES)
def test_results_are_right_and_nothing_else_is_read_or_written(
    case: tuple[Any, ...], taps: int
) -> None:
    a, x, problem = operands(case, taps)
    wanted = by_definition(case, a, x)
    terms = by_definition(case, np.abs(a), np.abs(x)).max(axis=2, keepdims=True)
    found = results(case, a, x, problem)
    assert (np.abs(found - wanted) <= EPS * terms).all()
    for workers in (2, 3, 7):
        np.testing.assert_array_equal(results(case, a, x, problem, workers), found)


VOLUMES: tuple[tuple[Any, ...], ...] = (
    # images along three axes, places, taps of the first axis, start, spread
    ((4, 9, 10), (4, 9, 10), 3, (-1, -1, -1), (1, 1, 1)),
    ((5, 8, 7), (5, 8, 7), 3, (1, 1, 1), (-1, -1, -1)),  # taps that go backwards
    ((7, 9, 9), (3, 9, 9), 3, (0, -1, -1), (2, 1, 1)),  # every other image
    ((2, 9, 8), (8, 8, 11), 5, (-5, -2, -3), (1, 1, 1)),  # much around, some see nothing
)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("volume", VOLUMES)
def test_places_may_see_several_images(volume: tuple[Any, ...], taps: int) -> None:
    image, places, first_taps, start, spread = volume
    rng = np.random.default_rng(taps)
    kernel, channels, m = (first_taps, taps, taps), 5, 10
    x = guarded(rng.standard_normal((2, channels, *image)).astype(np.float32))
    weight = rng.standard_normal((m, channels, *kernel)).astype(np.float32)
    batch, channel, *along = (s // x.itemsize for s in x.strides)
    windows = Windows(
        False, kernel, places, (1, 1, 1), spread, start, image, channel, tuple(along)
    )  # fmt: skip
    k, n = weight[0].size, math.prod(places)
    strides = (0, 0, k, 1), (batch, 0, 0, 0)
    problem = Problem("float32", "float32", (2, 1), m, n, k, *strides, windows)
    a = guarded(weight.reshape(m, k))
    for number in (0.5, np.nan, np.inf):
        x[1, 3, image[0] - 1, 4, 2] = number
        wanted, terms = volumes(x, weight, places, start, spread)
        one, three = (product(a, x, problem, choice_of(problem, n)) for n in (1, 3))
        np.testing.assert_array_equal(three, one)
        made, finite = one.reshape(wanted.shape), np.isfinite(wanted)
        assert (np.abs(made[finite] - wanted[finite]) <= EPS * terms).all()
        np.testing.assert_array_equal(made[~finite], wanted[~finite].astype(np.float32))


def volumes(x: Any, weight: Any, places: Any, start: Any, spread: Any) -> tuple[Any, float]:
    """What convolutions of three axes give, and the largest sum of absolute products."""
    reach = 12
    around = np.pad(x.astype(np.float64), [(0, 0)] * 2 + [(reach, reach)] * 3)
    made = terms = np.zeros((len(x), len(weight), *places))
    for tap in np.ndindex(weight.shape[2:]):
        first = [reach + begin + t * s for begin, t, s in zip(start, tap, spread, strict=True)]
        seen_by = around[(..., *[slice(f, f + n) for f, n in zip(first, places, strict=True)])]
        factor = weight[(..., *tap)].astype(np.float64)
        with np.errstate(invalid="ignore"):
            made = made + np.einsum("mc,nc...->nm...", factor, seen_by)
        finite = np.nan_to_num(np.abs(seen_by), posinf=0)
        terms = terms + np.einsum("mc,nc...->nm...", np.abs(factor), finite)
    return made, float(terms.max())


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("order", ["backwards", "channels last", "every other"])
def test_images_may_lie_in_any_way(order: str) -> None:
    case = CASES[0]
    a, x, problem = operands(case)
    wanted = results(case, a, x, problem)
    if order == "channels last":
        other = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    else:
        step = {"backwards": -1, "every other": 2}[order]
        room = np.zeros((*x.shape[:3], x.shape[3] * abs(step)), np.float32)
        other = room[..., ::step]
        other[...] = x
    np.testing.assert_array_equal(results(case, a, other, problem_of(case, other)), wanted)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5]])
def test_what_is_not_finite_stays_with_the_results_that_see_it(
    case: tuple[Any, ...], taps: int
) -> None:
    a, x, problem = operands(case, taps)
    *_, height, width = x.shape
    x[0, 3, 4, 3], x[0, 5, height - 1, width - 1] = np.nan, np.inf
    x[-1, 2, 0, 0] = -np.inf
    a[3, 2 * taps**2 : 3 * taps**2] = 0  # zero times infinity
    a[5, 7] = np.inf
    wanted = by_definition(case, a, x)
    assert 0 < np.isfinite(wanted).mean() < 1
    np.testing.assert_array_equal(np.isfinite(results(case, a, x, problem)), np.isfinite(wanted))
    found = results(case, a, x, problem)
    bad = ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[bad], wanted[bad].astype(np.float32))


@pytest.mark.usefixtures("cheap")
def test_sums_of_large_numbers_overflow_where_their_results_do() -> None:
    case = CASES[0]
    a, x, problem = operands(case)
    x[...] = 3e38  # sums of a patch overflow, and no result of the first feature does
    a[...] = np.where(np.arange(len(a)) % 2, 0.5, 1e-4)[:, None]
    with np.errstate(over="ignore"):
        wanted = by_definition(case, a, x).astype(np.float32)
    assert np.isinf(wanted).any()
    assert np.isfinite(wanted).any()
    np.testing.assert_allclose(results(case, a, x, problem), wanted, rtol=1e-5)


def test_it_depends_on_sizes_and_not_on_how_operands_lie() -> None:
    case = (2, 64, 64, (31, 31), (31, 31), (-1, -1), (1, 1), False)
    _, _, problem = operands(case)
    windows = problem.windows
    assert windows is not None
    assert winograd_of(problem) is not None
    turned = problem._replace(a_strides=(0, 0, 1, 64), b_strides=(1, 0, 0, 0))
    assert winograd_of(turned) is not None
    for other in (
        problem._replace(a_dtype="float64", b_dtype="float64"),
        problem._replace(a_dtype="bfloat16", b_dtype="bfloat16"),
        problem._replace(a_strides=(5, 0, 576, 1)),  # another weight for each image
        problem._replace(m=2),
        problem._replace(m=0),
        problem._replace(k=3 * 9),
        problem._replace(windows=windows._replace(steps=(1, 2))),
        problem._replace(windows=windows._replace(spread=(2, 2))),
        problem._replace(windows=windows._replace(spread=(1, -1))),
        problem._replace(windows=windows._replace(kernel=(3, 1))),
        problem._replace(windows=windows._replace(kernel=(3, 5)), k=64 * 15),
        problem._replace(windows=windows._replace(kernel=(4, 4)), k=64 * 16),
        problem._replace(windows=windows._replace(places=(4, 4)), n=16),
        problem._replace(windows=windows._replace(over_places=True)),
        problem._replace(windows=windows._replace(image=(0, 31))),
    ):
        assert winograd_of(other) is None


def test_short_rows_of_patches_pay_less_than_long_ones() -> None:
    for taps, form in FORMS.items():
        places = 4 * 64
        assert winograd._pays(form, 64, 64, (1, 64), places), taps
        assert not winograd._pays(form, 32, 32, (64, 1), places), taps


def test_workers_divide_features_where_bands_would_leave_vectors_unfilled() -> None:
    wide = machine.target().width // 4  # patches of a row fill a vector
    for images, m, image in ((1, 512, (7, 7)), (8, 32, (14, 2 * wide))):
        case = (images, m, 512, image, image, (-1, -1), (1, 1), False)
        x = np.broadcast_to(np.float32(0), (images, 512, *image))
        problem = problem_of(case, x)
        lying = winograd._winograd(problem)
        assert lying is not None
        for workers in (1, 2, 4):
            choice = winograd_choice(problem, lying, workers)
            assert (choice.row_blocks > 1) == (images == 1 and workers > 1)
            assert images * choice.row_blocks * choice.panel_blocks >= workers


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The choices for products with windows from now on."""
    found: list[Any] = []
    choose = blocking.with_windows

    def noted(*of: Any) -> Any:
        found.append(choose(*of))
        return found[-1]

    monkeypatch.setattr(blocking, "with_windows", noted)
    return found


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("taps", TAPS)
def test_plain_calls_and_plans_give_the_same_bits(chosen: list[Any], taps: int) -> None:
    rng = np.random.default_rng(0)
    x, w, bias, other = (
        it.asarray(rng.standard_normal(shape).astype(np.float32), device="cpu")
        for shape in ((3, 24, 10, 11), (32, 24, taps, taps), (32,), (3, 32, 10, 11))
    )

    def block(x: Any, w: Any, bias: Any, other: Any) -> Any:
        return it.relu(it.conv2d(x, w, bias, padding=taps // 2) + other)

    def gradient(x: Any, w: Any, other: Any) -> Any:
        x = x.require_grad()
        return it.conv2d(x, w, padding=taps // 2).backward(other)[x]

    wanted = block(x, w, bias, other).numpy()
    np.testing.assert_array_equal(compile(block)(x, w, bias, other).numpy(), wanted)
    for n in range(3):
        one = block(x[n : n + 1], w, bias, other[n : n + 1])
        np.testing.assert_array_equal(one.numpy()[0], wanted[n])
    plain = gradient(x, w, other).numpy()
    np.testing.assert_array_equal(compile(gradient)(x, w, other).numpy(), plain)
    assert {c.pack_b for c in chosen if c.tile.kind == "packed"} == {WINOGRAD}
    assert sum(c.pack_b == WINOGRAD for c in chosen) >= 3


@pytest.mark.usefixtures("cheap")
def test_a_setting_keeps_to_the_sum_by_definition(
    chosen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = (it.ones(shape, device="cpu") for shape in ((1, 16, 13, 17), (16, 16, 3, 3)))
    usual = CpuPlanStore.description(CpuPlanStore.__new__(CpuPlanStore))
    monkeypatch.setenv("INGLE_CPU_WINOGRAD", "0")
    compile(lambda x, w: it.conv2d(x, w))(x, w).numpy()
    assert chosen
    assert WINOGRAD not in {c.pack_b for c in chosen}
    assert CpuPlanStore.description(CpuPlanStore.__new__(CpuPlanStore)) != usual
    monkeypatch.setenv("INGLE_CPU_WINOGRAD", "perhaps")
    with pytest.raises(SettingError, match="INGLE_CPU_WINOGRAD"):
        winograd.is_wanted()


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize(("taps", "numbers"), [(3, 16), (5, 49)])
def test_taps_of_a_weight_that_comes_again_are_turned_once(
    taps: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable, "PACKING_RUNS", 0)
    monkeypatch.setattr(executable, "BUILDING", ShareOfTime(1.0))
    found = []
    operand = prepacked.PackedOperand

    def noted(*of: Any) -> Any:
        found.append(operand(*of))
        return found[-1]

    monkeypatch.setattr("ingle_cpu.matmul.prepacking.PackedOperand", noted)
    rng = np.random.default_rng(0)
    images, weight = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((1, 23, 16, 12), (35, 23, taps, taps))
    )
    images[0, 3, 5, 5] = np.nan  # by definition, which reads the weight itself
    x, w = it.asarray(images, device="cpu"), it.asarray(weight, device="cpu")
    f = compile(lambda x, w: it.conv2d(x, w, padding=1))
    before = prepacked.prepacked_bytes()
    first, *others = [f(x, w).numpy() for _ in range(6)]
    assert prepacked.prepacked_bytes() - before >= w.nbytes // taps**2 * numbers
    for other in others:
        np.testing.assert_array_equal(other, first)
    w *= 2
    doubled = np.float32(2) * first
    np.testing.assert_array_equal(f(x, w).numpy(), doubled)
    for one in found:
        launch, buffer, offset, packing, choice = json.loads(json.dumps(_written_operand(one)))
        assert _read_packing(packing, one.choice) == one.order.packing
        assert (launch, buffer, offset) == (one.launch, one.buffer, one.order.offset)
        assert choice[2] == WINOGRAD
