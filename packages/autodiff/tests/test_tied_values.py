"""First and second derivatives where values tie, vanish, lie far apart or are infinite."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, hessian
from ingle.fusion import compile

INF = float("inf")


def at(numbers):
    return it.asarray(np.asarray(numbers, np.float64))


def second(function, *values):
    """The Hessian of a function of numbers, as one of a vector."""
    return hessian(lambda v: function(*[v[i] for i in range(len(values))]))(at(values)).numpy()


SQUARE_ROOT_HALF = np.array([[0.6, -0.8], [0.8, 0.6]]) * 3
EQUAL = {
    "zero above": np.eye(3) * 2,
    "rotation": SQUARE_ROOT_HALF,
    "stack": np.stack([SQUARE_ROOT_HALF, np.diag([1.0, 4.0])]),
    "wide": np.eye(2, 4) * 5,
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize(
    "values",
    [
        it.linalg.svdvals,
        lambda x: it.linalg.svd(x).S,
        lambda x: it.linalg.svd(x, full_matrices=False).S,
    ],
)
def test_equal_singular_values(values, name):
    x = EQUAL[name]
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    for run in (lambda f: f, compile):
        found = run(grad(lambda x: it.sum(values(x))))(at(x)).numpy()
        np.testing.assert_allclose(found, u @ vh, atol=1e-12)


def test_norms_of_equal_singular_values():
    torch = pytest.importorskip("torch")
    for order in ("nuc", 2, -2):
        given = torch.tensor(SQUARE_ROOT_HALF, requires_grad=True)
        torch.linalg.matrix_norm(given, order).backward()
        found = grad(lambda x, o=order: it.linalg.matrix_norm(x, ord=o))(at(SQUARE_ROOT_HALF))
        if order == "nuc":
            np.testing.assert_allclose(found.numpy(), given.grad.numpy(), atol=1e-12)
        else:  # Which of two equal singular values is the largest depends on their last bits.
            assert np.linalg.norm(found.numpy(), "nuc") == pytest.approx(1)


def softmax_hessian(values):
    shares = np.exp(np.subtract(values, np.max(values)))
    shares /= shares.sum()
    return np.diag(shares) - np.outer(shares, shares)


@pytest.mark.parametrize(
    "pair", [(0.5, 0.5), (0.0, 1e-9), (1.0, 2.0), (800.0, -800.0), (-3.0, 40.0), (-1e4, 1e4)]
)
def test_logaddexp(pair):
    want = softmax_hessian(pair)
    np.testing.assert_allclose(second(it.logaddexp, *pair), want, rtol=1e-7, atol=1e-15)
    last = second(lambda a, b: it.logcumsumexp(it.stack([a, b]), axis=0)[1], *pair)
    np.testing.assert_allclose(last, want, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("pair", [(-INF, 1.0), (1.0, -INF), (-INF, -INF), (INF, 1.0), (INF, INF)])
def test_logaddexp_of_infinite_numbers(pair):
    a, b = grad(it.logaddexp, argnums=(0, 1))(at(pair[0]), at(pair[1]))
    share = 0.5 if pair[0] == pair[1] else float(pair[0] > pair[1])
    assert (a.item(), b.item()) == (share, 1 - share)
    np.testing.assert_array_equal(second(it.logaddexp, *pair), np.zeros((2, 2)))


def test_logcumsumexp_of_ties():
    x = np.array([1.0, 1.0, -800.0, 1.0, 900.0, 900.0, -INF])
    found = hessian(lambda x: it.logcumsumexp(x, axis=0)[-1])(at(x)).numpy()
    np.testing.assert_allclose(found, softmax_hessian(x), rtol=1e-10, atol=1e-15)
    third = grad(lambda x: it.sum(hessian(lambda x: it.logaddexp(x[0], x[1]))(x)[0, 0]))
    np.testing.assert_allclose(third(at([2.0, 2.0])).numpy(), [0, 0], atol=1e-15)


@pytest.mark.slow
def test_ctc_loss_of_even_scores():
    """All alignments tie; central differences of the gradient share nothing with its rule."""
    scores = np.zeros((3, 1, 3))
    targets = it.asarray([[1, 1]])

    def loss(x):
        return it.ctc_loss(it.log_softmax(x), targets, [3], [2], reduction="sum")

    for wide in (scores, np.random.default_rng(0).normal(size=scores.shape)):
        step, want = 1e-6, []
        for i in range(9):
            moved = np.zeros(9)
            moved[i] = step
            up, down = (grad(loss)(at(wide + s * moved.reshape(wide.shape))) for s in (1, -1))
            want.append((up.numpy() - down.numpy()).ravel() / (2 * step))
        found = hessian(loss)(at(wide)).numpy().reshape(9, 9)
        np.testing.assert_allclose(found, want, atol=1e-8)


def test_fmod_where_it_is_zero():
    a, b = at([6.0, -6.0, 7.5, -7.5, 0.0, 6.0]), at([3.0, 3.0, 2.0, -2.0, 2.0, -4.0])
    for function, quotient in ((it.fmod, np.trunc), (it.remainder, np.floor)):
        by_a, by_b = grad(lambda a, b, f=function: it.sum(f(a, b)), argnums=(0, 1))(a, b)
        np.testing.assert_array_equal(by_a.numpy(), np.ones(6))
        np.testing.assert_array_equal(by_b.numpy(), -quotient(a.numpy() / b.numpy()))


def test_clip_with_crossed_bounds():
    x, low, high = at([-5.0, 0.0, 5.0, 0.5]), at([2.0, 2.0, 2.0, 0.0]), at([-2.0, -2.0, -2.0, 1.0])
    found = grad(lambda x, a, b: it.sum(it.clip(x, a, b)), argnums=(0, 1, 2))(x, low, high)
    assert [g.tolist() for g in found] == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]
    assert grad(lambda b: it.sum(it.clip(x, 2, b)))(at(-2.0)).item() == 4
    assert grad(lambda a: it.sum(it.clip(x, a, -2)))(at(2.0)).item() == 0
    assert grad(lambda x: it.sum(it.clip(x, 2, -2)))(x).tolist() == [0, 0, 0, 0]


def test_powers():
    """d²(x**y) / dx dy = x**(y-1) (1 + y log x), either way round."""
    for x, y in ((2.0, 0.0), (0.5, 0.0), (3.0, 1.0), (2.0, 2.0), (1.0, 0.0), (0.0, 3.0)):
        logarithm = np.log(x) if x else 0.0
        mixed = x ** (y - 1) * (1 + y * logarithm)
        want = [[y * (y - 1) * x ** (y - 2), mixed], [mixed, x**y * logarithm**2]]
        np.testing.assert_allclose(second(it.pow, x, y), want, rtol=1e-12, atol=1e-12)
    for x in (0.0, INF, float("nan"), 1e-310):
        assert grad(it.pow)(at(x), at(0.0)).item() == 0
    z = it.asarray(np.array([1 + 1j, 2.0]))
    flat = grad(lambda z: it.sum(it.real(z ** it.zeros_like(z))))(z)
    np.testing.assert_array_equal(flat.numpy(), [0, 0])


def test_losses_that_are_squares_around_zero():
    x = at([0.0, -0.25, 0.5, 3.0, -INF, INF])
    slopes, curves = [0, -0.25, 0.5, 1, -1, 1], [1, 1, 1, 0, 0, 0]
    for loss in (it.huber_loss, it.smooth_l1_loss):

        def total(x, loss=loss):
            return loss(x, it.zeros_like(x), reduction="sum")

        assert grad(total)(x).tolist() == slopes
        assert grad(lambda x, f=total: it.sum(grad(f)(x)))(x).tolist() == curves
        np.testing.assert_array_equal(hessian(total)(x[:4]).numpy(), np.diag(curves[:4]))


def test_pooling_by_norms_where_windows_are_zero():
    x = at([0.0, 0.0, 3.0, 4.0])
    for order, want in ((1.0, [1, 1, 1, 1]), (2.0, [0, 0, 0.6, 0.8]), (3.0, None)):

        def total(x, order=order):
            return it.sum(it.lp_pool1d(x[None, None], order, 2))

        slope = grad(total)(x).numpy()
        assert np.all(np.isfinite(slope))
        assert np.all(np.isfinite(hessian(total)(x).numpy()))
        assert slope[:2].tolist() == ([1, 1] if order == 1 else [0, 0])
        if want is not None:
            np.testing.assert_allclose(slope, want)
