"""The tables of `docs/gradients.md`: each row is run, and compared with PyTorch's choice."""

import re
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad

PAGE = Path(__file__).parents[3] / "docs" / "gradients.md"
ROW = re.compile(r"^\| `(.+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text("utf-8").partition("## At the edges")[2])


def numbers(text):
    return np.array([] if text == "nothing" else [float(n) for n in text.split(",")], np.float32)


def ours(expression, x):
    names = {"vector_norm": it.linalg.vector_norm, "inf": float("inf")}
    given = it.asarray(x)
    names |= {"zero": it.zeros_like(given), "one": it.ones_like(given)}

    def total(x):
        return it.sum(eval(expression, {**vars(it), **names, "x": x}))

    return grad(total)(given).numpy()


def theirs(torch, expression, x):
    functional = torch.nn.functional
    names = {
        "max": torch.amax, "min": torch.amin, "vector_norm": torch.linalg.vector_norm,
        "inf": float("inf"), "clip": torch.clamp,
        "std": lambda x: torch.std(x, correction=0),
        "var": lambda x, correction=0: torch.var(x, correction=correction),
        "cumulative_prod": lambda x: torch.cumprod(x, 0),
        "cummax": lambda x: torch.cummax(x, 0),
        "sort": lambda x: torch.sort(x, stable=True).values,
        "logsumexp": lambda x: torch.logsumexp(x, 0),
        "softmax": lambda x: torch.softmax(x, 0), "log_softmax": lambda x: torch.log_softmax(x, 0),
    }  # fmt: skip
    given = torch.tensor(x, requires_grad=True)
    names |= {"zero": torch.zeros(x.shape), "one": torch.ones(x.shape), "x": given}
    result = eval(expression, {**vars(functional), **vars(torch), **names})
    result.sum().backward()
    return given.grad.numpy()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("expression", "x", "gradient", "pytorch"), ROWS, ids=[f"{r[0]} at {r[1]}" for r in ROWS]
)
def test_documented_gradients(expression, x, gradient, pytorch):
    np.testing.assert_array_equal(ours(expression, numbers(x)), numbers(gradient))
    torch = pytest.importorskip("torch")
    if pytorch.startswith("any"):
        return
    expected = gradient if pytorch == "same" else pytorch
    np.testing.assert_array_equal(theirs(torch, expression, numbers(x)), numbers(expected))
    assert pytorch == "same" or gradient != pytorch


def test_the_tables_are_read():
    assert len(ROWS) > 80
    assert {"abs(x)", "topk(x, 2)[0]", "sum(x)"} <= {row[0] for row in ROWS}


def test_complex_zero():
    z = it.asarray([0j, 3 + 4j])
    np.testing.assert_allclose(
        grad(lambda z: it.sum(it.abs(z)))(z).numpy(), [0, 0.6 + 0.8j], rtol=1e-6
    )
    zero = it.zeros(3, dtype="complex64")
    assert grad(it.linalg.vector_norm)(zero).tolist() == [0j, 0j, 0j]
    assert grad(lambda z: it.real(it.prod(z)))(z).tolist()[0] == (3 - 4j)


def test_singular_matrices():
    singular = it.asarray([[0.0, 0.0], [0.0, 1.0]])
    assert grad(it.linalg.det)(singular).tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (2, 0), (), None])
def test_products_over_any_axes(axis):
    x = np.random.default_rng(0).normal(size=(3, 5, 4))
    x[1, 2, 0] = x[0, :2, 1] = 0
    g = np.random.default_rng(1).normal(size=np.prod(x, axis).shape)
    found = grad(lambda x: it.sum(it.prod(x, axis=axis) * it.asarray(g)))(it.asarray(x)).numpy()
    wanted = np.empty_like(x)
    for place in np.ndindex(x.shape):
        one, zero = x.copy(), x.copy()
        one[place], zero[place] = 1, 0
        wanted[place] = ((np.prod(one, axis) - np.prod(zero, axis)) * g).sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("include_self", [False, True])
def test_scattered_products_have_gradients_at_zeros(include_self, device):
    rng = np.random.default_rng(0)
    x, u, g = rng.normal(size=(4, 3)), rng.normal(size=(60, 3)), rng.normal(size=(4, 3))
    places = rng.integers(-4, 3, 60)  # few for one place, more than a run of 32 for none
    places[10:50] = 1
    u[::7] = x[1] = 0

    def product(x, u):
        out, seen = x.copy(), set()
        for place, row in zip(places % 4, u, strict=True):
            out[place] = out[place] * row if include_self or place in seen else row
            seen.add(place)
        return (out * g).sum()

    def work(x, u):
        made = it.scatter_reduce(x, it.asarray(places), u, "prod", include_self=include_self)
        return it.sum(made * it.asarray(g))

    with it.device(device):
        found = grad(work, argnums=(0, 1))(it.asarray(x), it.asarray(u))
        found = [part.numpy() for part in found]
    for given, slopes in ((x, found[0]), (u, found[1])):
        for place in np.ndindex(given.shape):
            kept, ends = given[place], []
            for given[place] in (1, 0):
                ends.append(product(x, u))
            given[place] = kept
            assert slopes[place] == pytest.approx(ends[0] - ends[1], rel=1e-8, abs=1e-10)


def test_second_derivatives_of_scattered_products_at_zeros():
    one, places = it.asarray([1.0]), it.asarray([0, 0, 0])

    def slope(u):
        return grad(lambda u: it.sum(it.scatter_reduce(one, places, u, "prod")))(u)[0]

    assert grad(slope)(it.asarray([0.0, 0.0, 3.0])).tolist() == [0.0, 3.0, 0.0]
