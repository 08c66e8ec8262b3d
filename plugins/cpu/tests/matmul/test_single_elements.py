"""Convolutions whose windows are single elements, which are products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.grouping.legality import Legality
from ingle.fusion.lowering.contraction import ContractionCall
from ingle.fusion.passes.decompose import decompose
from ingle.fusion.pipeline import kernel_sequence
from ingle.tensor.device import backend_of
from ingle_cpu.matmul.joined_rows import problem_of


def call_of(shape: tuple[int, ...], weight: tuple[int, ...], dtype: str, **of: Any) -> Any:
    """The product that a convolution comes to."""
    x, w = it.ones(shape, dtype=dtype, device="cpu"), it.ones(weight, dtype=dtype, device="cpu")
    conv = getattr(it, f"conv{len(shape) - 2}d")
    graph = graph_of(lambda x, w: conv(x, w, **of), x, w)
    fusion = backend_of("cpu")
    decomposed = decompose(graph, (), fusion, Legality(fusion.inner))
    calls = kernel_sequence(fusion.inner, decomposed.graph, ()).calls
    (call,) = [c for c in calls if isinstance(c, ContractionCall)]
    assert call.windows is not None
    return call


@pytest.mark.parametrize("size", [(300,), (20, 30), (6, 7, 8)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_that_lie_as_matrices_are_such(size: tuple[int, ...], dtype: str) -> None:
    call = call_of((1, 6, *size), (4, 6, *[1] * len(size)), dtype)
    problem = problem_of(call)
    assert problem.windows is None
    places = int(np.prod(size))
    assert (problem.m, problem.n, problem.k) == (4, places, 6)
    assert problem.b_strides[-2:] == (places, 1)


def test_others_are_windows() -> None:
    shape, weight = (1, 6, 20, 30), (4, 6, 1, 1)
    usual = call_of(shape, weight, "float32")
    windows = usual.windows
    for call in (
        call_of(shape, weight, "float16"),
        call_of(shape, weight, "float32", stride=2),
        call_of(shape, weight, "float32", padding=1),
        call_of(shape, (4, 6, 1, 3), "float32"),
        call_of((3, 6, 5, 6), weight, "float32"),  # several images at once
        *[
            usual._replace(windows=windows._replace(**other))
            for other in (
                {"strides": (1, 20)}, {"strides": (60, 2)}, {"strides": (30, -1)},
                {"channel": 0}, {"channel": 30}, {"over_places": True}, {"turns": 2},
                {"start": (0, 1)}, {"places": (20, 29)}, {"steps": (1, 2)},
            )
        ],
    ):  # fmt: skip
        assert problem_of(call).windows is not None


@pytest.mark.parametrize("m", [1, 3, 16, 70])
@pytest.mark.parametrize("image", [(5, 7), (24, 31)])
def test_an_image_alone_has_the_bits_that_it_has_among_others(
    m: int, image: tuple[int, int]
) -> None:
    rng = np.random.default_rng(m)
    x = it.asarray(rng.standard_normal((3, 600, *image)).astype(np.float32), device="cpu")
    w = it.asarray(rng.standard_normal((m, 600, 1, 1)).astype(np.float32), device="cpu")
    wanted = it.conv2d(x, w).numpy()
    exact = np.einsum("mc,ncyx->nmyx", w.numpy()[:, :, 0, 0].astype(float), x.numpy().astype(float))
    np.testing.assert_allclose(wanted, exact, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(compile(it.conv2d)(x, w).numpy(), wanted)
    turned = it.permute_dims(
        it.asarray(np.ascontiguousarray(np.moveaxis(x.numpy(), 1, -1)), device="cpu"), (0, 3, 1, 2)
    )
    np.testing.assert_array_equal(it.conv2d(turned, w).numpy(), wanted)
    for n in range(3):
        np.testing.assert_array_equal(it.conv2d(x[n : n + 1], w).numpy()[0], wanted[n])
        np.testing.assert_array_equal(it.conv2d(x, w)[n].numpy(), wanted[n])
