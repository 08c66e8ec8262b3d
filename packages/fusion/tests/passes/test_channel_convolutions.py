"""Convolutions that make two or three features of each channel are kernels, no products."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import compile, explain

RNG = np.random.default_rng(0)
CASES = [
    ((3, 8, 9, 20), (16, 1, 3, 3), {"padding": 1}),
    ((2, 5, 17, 12), (15, 1, 3, 5), {"padding": (0, 2), "stride": 2}),
    ((2, 4, 70), (8, 1, 4), {"padding": 3, "dilation": 2}),
    ((2, 3, 1, 1), (6, 1, 1, 1), {}),
]


def loss(x, w, factors, **more):
    return it.sum(it.conv(x, w, **more) * factors)


def whole(x, w, factors, **more):
    gradients = grad(lambda x, w: loss(x, w, factors, **more), argnums=(0, 1))(x, w)
    return it.conv(x, w, **more), *gradients


@pytest.mark.slow
@pytest.mark.parametrize(("image", "weight", "more"), CASES)
def test_results_and_gradients(image, weight, more) -> None:
    torch = pytest.importorskip("torch")
    conv = getattr(torch.nn.functional, f"conv{len(image) - 2}d")
    more = {**more, "groups": image[1]}
    x, w = (RNG.standard_normal(shape) for shape in (image, weight))
    given = [torch.from_numpy(v).requires_grad_() for v in (x, w)]
    out = conv(*given, **more)
    factors = RNG.standard_normal(out.shape)
    out.backward(torch.from_numpy(factors))
    wanted = [v.detach().numpy() for v in (out, *(v.grad for v in given))]
    for dtype, far in (("float64", 1e-12), ("float32", 1e-4), ("bfloat16", 3e-2)):
        arrays = [it.asarray(v, device="cpu").astype(dtype) for v in (x, w, factors)]
        compiled = compile(lambda *a: whole(*a, **more))(*arrays)
        for found, plain, of in zip(compiled, whole(*arrays, **more), wanted, strict=True):
            assert found.dtype == arrays[0].dtype
            values = found.astype("float64").numpy()
            np.testing.assert_allclose(values, of, rtol=far, atol=far * np.abs(of).max())
            np.testing.assert_array_equal(plain.astype("float64").numpy(), values)


@pytest.mark.parametrize("features", [2, 3])
def test_they_are_kernels(features) -> None:
    x = it.ones((2, 8, 12, 12), device="cpu")
    w = it.ones((8 * features, 1, 3, 3), device="cpu")
    factors = it.ones((2, 8 * features, 12, 12), device="cpu")
    found = explain(lambda *a: whole(*a, padding=1, groups=8), x, w, factors, runs=0)
    assert {step.kind for step in found.steps} == {"nest"}


@pytest.mark.parametrize("axis", [-1, -2])
def test_pieces_of_a_result_that_have_gaps_stay_kernels(axis) -> None:
    """What the kernel cannot write between other elements is copied there."""
    x, w = RNG.standard_normal((2, 4, 6, 9)), RNG.standard_normal((4, 1, 3, 3))
    arrays = [it.asarray(v.astype("float32"), device="cpu") for v in (x, w)]

    def both(x, w):
        one, other = (it.conv(v, w, padding=1, groups=4) for v in (x, x + 1))
        dots = [it.conv_weight_gradient(x, v, (3, 3), padding=1, groups=4) for v in (x, x + 1)]
        return it.stack([one, other], axis=axis), it.stack(dots, axis=axis)

    for found, plain in zip(compile(both)(*arrays), both(*arrays), strict=True):
        np.testing.assert_array_equal(found.numpy(), plain.numpy())
    assert "host" not in {step.kind for step in explain(both, *arrays, runs=0).steps}
