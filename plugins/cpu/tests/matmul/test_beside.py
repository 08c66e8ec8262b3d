"""Gradients of weights from copies of images whose channels lie side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from window_products import guarded, product, seen

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.grouping.legality import Legality
from ingle.fusion.lowering.contraction import ContractionCall, Windows
from ingle.fusion.passes.decompose import decompose
from ingle.fusion.pipeline import kernel_sequence
from ingle.tensor.device import backend_of
from ingle_cpu.launch.symbolic_tables import has_table
from ingle_cpu.matmul import beside, blocking, machine
from ingle_cpu.matmul.microkernel import lanes_of
from ingle_cpu.matmul.problem import Problem

CASES: tuple[tuple[Any, ...], ...] = (
    # images, features, channels, image, kernel, places, steps, spread, start
    (3, 7, 32, (17, 19), (3, 3), (17, 19), (1, 1), (1, 1), (-1, -1)),
    (9, 64, 16, (16, 16), (5, 5), (12, 12), (1, 1), (1, 1), (0, 0)),  # several copies at a time
    (2, 13, 16, (21, 16), (3, 2), (11, 8), (2, 2), (1, 1), (-1, 0)),
    (1, 1, 16, (18, 17), (3, 3), (14, 13), (1, 1), (2, 2), (0, 0)),  # some rows are never seen
    (5, 6, 48, (12, 23), (1, 4), (12, 26), (1, 1), (1, 1), (0, -3)),
    (20, 9, 16, (1, 16), (1, 3), (1, 7), (1, 2), (1, 1), (0, 0)),  # few places, many together
    (2, 5, 16, (30, 29), (2, 2), (31, 30), (1, 1), (1, 1), (-1, -1)),  # more than one block of k
)


@pytest.fixture(autouse=True)
def every_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers of any size, since none of them gives other numbers."""
    monkeypatch.setattr(beside, "REGISTERS", (machine.target().width,))
    beside.beside_of.cache_clear()
    yield
    beside.beside_of.cache_clear()


def operands(case: tuple[Any, ...], dtype: str) -> tuple[Any, Any, Problem]:
    """g, images, and the gradient of the weight as a problem."""
    images, features, channels, image, kernel, places, steps, spread, start = case
    rng = np.random.default_rng(images)
    k, columns = math.prod(places), channels * math.prod(kernel)
    g = guarded(rng.standard_normal((images, features, k)).astype(dtype))
    x = guarded(rng.standard_normal((images, channels, *image)).astype(dtype))
    strides = [s // x.itemsize for s in x.strides]
    windows = Windows(
        True, kernel, places, steps, spread, start, image, strides[1], tuple(strides[2:]),
        images, features * k, strides[0],
    )  # fmt: skip
    return g, x, Problem(
        dtype, dtype, (1,), features, columns, k, (0, k, 1), (0, 0, 0), windows
    )  # fmt: skip


NARROW: tuple[tuple[Any, ...], ...] = (
    (3, 7, 32, (17, 9), (3, 3), (17, 9), (1, 1), (1, 1), (-1, -1)),
    (9, 64, 16, (12, 12), (5, 5), (8, 8), (1, 1), (1, 1), (0, 0)),
    (2, 13, 16, (21, 6), (3, 2), (11, 3), (2, 2), (1, 1), (-1, 0)),
    (2, 9, 16, (1, 1), (1, 3), (1, 1), (1, 1), (1, 1), (0, -1)),
)
"""Rows of images that fill no vector."""


@pytest.mark.parametrize("case", [*CASES, *NARROW])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_right_and_nothing_else_is_read_or_written(
    case: tuple[Any, ...], dtype: str
) -> None:
    g, x, problem = operands(case, dtype)
    lying = beside.beside_of(problem)
    if case in NARROW and not machine.target().masks:
        pytest.skip("no masks: such images are packed")
    assert lying is not None
    windows = seen(x.astype(np.float64), *[case[n] for n in (4, 5, 7, 8, 6)])
    wanted = np.einsum("tip,tjp->ij", g.astype(np.float64), windows)
    found = [
        product(g, x, problem, beside.beside_choice(problem, lying, workers)[0])[0]
        for workers in (1, 2, 3, 7)
    ]
    terms = np.einsum("tip,tjp->ij", np.abs(g, dtype=np.float64), np.abs(windows))
    assert (np.abs(found[0] - wanted) <= 2 * np.finfo(dtype).eps * terms).all()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_stays_with_the_taps_that_see_it(number: float) -> None:
    g, x, problem = operands(CASES[3], "float32")
    x[0, 3, 0, 16] = number  # a corner, which one tap sees
    g[...] = np.abs(g) + 1
    lying = beside.beside_of(problem)
    assert lying is not None
    found = product(g, x, problem, beside.beside_choice(problem, lying, 1)[0])[0]
    bad = np.zeros((1, 16, 3, 3), bool)
    bad[0, 3, 0, 2] = True
    np.testing.assert_array_equal(~np.isfinite(found), bad.reshape(1, -1))


def test_images_that_do_not_lie_so_are_packed() -> None:
    _, _, problem = operands(CASES[1], "float32")
    windows = problem.windows
    assert windows is not None
    for other in (
        problem._replace(a_dtype="bfloat16", b_dtype="bfloat16"),
        problem._replace(a_strides=(0, 1, 64)),
        problem._replace(n=25 * 3),  # channels that fill no vector
        problem._replace(m=0),
        problem._replace(windows=windows._replace(strides=(1, 16))),
        problem._replace(windows=windows._replace(over_places=False)),
        problem._replace(windows=windows._replace(image=(300, 300))),  # a large copy
    ):
        assert beside.beside_of(other) is None


def test_rows_of_an_image_fill_a_vector_where_nothing_masks_its_lanes() -> None:
    _, _, problem = operands(CASES[1], "float32")
    windows, lanes = problem.windows, lanes_of("float32", machine.target())
    assert windows is not None
    for columns in (lanes - 1, lanes):
        other = problem._replace(windows=windows._replace(image=(16, columns)))
        wanted = columns == lanes or machine.target().masks
        assert (beside.beside_of(other) is not None) == wanted


def test_plain_calls_and_plans_choose_alike_for_any_number_of_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x = it.asarray(rng.standard_normal((6, 64, 16, 16)).astype(np.float32), device="cpu")
    g = it.asarray(rng.standard_normal((6, 64, 12, 12)).astype(np.float32), device="cpu")
    chosen, choose = [], blocking.with_windows
    for workers in (1, 2, 5):

        def noted(*of: Any, n: int = workers) -> Any:
            chosen.append(choose(*of[:-1], n))
            return chosen[-1]

        monkeypatch.setattr(blocking, "with_windows", noted)
        plan = compile(lambda x, g: it.conv_weight_gradient(x, g, (5, 5)) * 2)
        plain = it.conv_weight_gradient(x, g, (5, 5)).numpy() * np.float32(2)
        np.testing.assert_array_equal(plan(x, g).numpy(), plain)
    assert {c.pack_b for c in chosen} == {beside.BESIDE}


def test_no_table_for_all_sizes_chooses_an_order_of_sums() -> None:
    """Small images are packed and large ones copied, which sums in another order."""
    x, g = (it.ones((2, c, n, n), device="cpu") for c, n in ((16, 20), (6, 18)))
    graph = graph_of(lambda x, g: it.conv_weight_gradient(x, g, (3, 3)), x, g)
    fusion = backend_of("cpu")
    decomposed = decompose(graph, (), fusion, Legality(fusion.inner))
    calls = kernel_sequence(fusion.inner, decomposed.graph, ()).calls
    (call,) = [c for c in calls if isinstance(c, ContractionCall)]
    assert call.windows is not None
    assert not has_table([call])
    assert has_table([call._replace(windows=call.windows._replace(over_places=False))])
