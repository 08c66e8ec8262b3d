"""Gradients by complex numbers: the convention, and every operation that takes them.

For a real loss L the gradient by z = x + iy is dL/dx + i dL/dy, so that dL = Re Σ conj(g) dz and
`z - step * g` descends. That is PyTorch's convention; JAX's gradient is its conjugate.
"""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, hvp, jvp, linearize, vhp, vjp
from ingle.testkit.cases import cases, differentiable, operations
from ingle.testkit.checks import Findings, check_first_order, check_second_order
from ingle.testkit.running import host_allowed


def numbers(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def tensor(*shape, seed=0):
    return it.asarray(numbers(*shape, seed=seed))


def samples(operation, seed=0):
    return [
        c
        for c in cases(operation, "complex128", seed)
        if c.sample.gradient and any(c.wants_gradient(i) for i in range(len(c.arrays)))
    ]


TAKERS = [o for o in operations() if differentiable(o) and o.public and o.reference and samples(o)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("operation", TAKERS, ids=lambda o: o.name)
def test_every_operation_against_differences(operation):
    """First order against the reference, second against the first; `test_against_torch` too."""
    findings = Findings(operation.name)
    with host_allowed():
        for case in samples(operation):
            for order, check in enumerate((check_first_order, check_second_order), 1):
                with findings.at(f"order {order}, {case.name}"):
                    check(case, "numpy")
    findings.close()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
def test_other_numbers_against_differences(seed):
    findings = Findings(f"seed {seed}")
    with host_allowed():
        for operation in TAKERS:
            for case in samples(operation, seed):
                for order, check in enumerate((check_first_order, check_second_order), 1):
                    with findings.at(f"{operation.name}, order {order}, {case.name}"):
                        check(case, "numpy")
    findings.close()


def test_most_operations_take_complex_numbers():
    names = {o.name for o in TAKERS}
    assert {"exp", "pow", "abs", "matmul", "conv", "svd", "eigh", "fftn", "prod"} <= names
    assert len(names) >= 65


def parts(f, z, step=1e-6):
    """dL/dx + i dL/dy by central differences."""
    found = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        for unit in (1, 1j):
            moved = z.copy()
            moved[at] += step * unit
            up = f(moved)
            moved[at] -= 2 * step * unit
            found[at] += unit * (up - f(moved)) / (2 * step)
    return found


LOSSES = {
    "squared modulus": lambda xp, z: xp.sum(abs(z) ** 2),
    "real part of a square": lambda xp, z: xp.sum(xp.real(z * z)),
    "through conj": lambda xp, z: xp.sum(xp.real(xp.conj(z) * xp.exp(z))),
    "through a real": lambda xp, z: xp.sum(xp.imag(xp.sin(xp.real(z) * z))),
    "a complex power": lambda xp, z: xp.sum(xp.imag(z ** (2 + 1j))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_convention(name):
    loss, z = LOSSES[name], numbers(3)
    got = grad(lambda z: loss(it, z))(it.asarray(z)).numpy()
    np.testing.assert_allclose(got, parts(lambda z: loss(np, z), z), rtol=1e-6, atol=1e-7)
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(z, requires_grad=True)
    loss(torch, theirs).backward()
    np.testing.assert_allclose(got, theirs.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_steps_along_the_negative_gradient_descend():
    target = tensor(4, seed=1)
    loss = lambda z: it.sum(it.abs(z - target) ** 2)  # noqa: E731
    z = tensor(4)
    for _ in range(50):
        z = z - 0.2 * grad(loss)(z)
    np.testing.assert_allclose(z.numpy(), target.numpy(), atol=1e-6)


def test_vjp_and_jvp_of_a_holomorphic_function():
    z, c = tensor(5), tensor(5, seed=1)
    slope = np.cos(z.numpy())
    np.testing.assert_allclose(vjp(it.sin, z)[1](c)[0].numpy(), np.conj(slope) * c.numpy())
    np.testing.assert_allclose(jvp(it.sin, (z,), (c,))[1].numpy(), slope * c.numpy())


def test_jvp_is_the_real_derivative_along_a_direction():
    z, d = numbers(4), numbers(4, seed=1)
    f = lambda xp, z: xp.conj(z) * xp.abs(z) + xp.real(z)  # noqa: E731
    step = 1e-6
    expected = (f(np, z + step * d) - f(np, z - step * d)) / (2 * step)
    got = jvp(lambda z: f(it, z), (it.asarray(z),), (it.asarray(d),))[1]
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-7)
    push = linearize(lambda z: f(it, z), it.asarray(z))[1]
    np.testing.assert_array_equal(push(it.asarray(d)).numpy(), got.numpy())


def test_products_with_a_hessian():
    z, d = numbers(3), numbers(3, seed=1)
    loss = lambda z: it.sum(it.real(z**3 * it.conj(z)) + it.abs(z))  # noqa: E731
    step = 1e-6
    gradient = lambda z: grad(loss)(it.asarray(z)).numpy()  # noqa: E731
    expected = (gradient(z + step * d) - gradient(z - step * d)) / (2 * step)
    for product in (hvp, vhp):
        got = product(loss, (it.asarray(z),), (it.asarray(d),))[0].numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_complex_result_counts_by_its_real_part():
    z = tensor(3).require_grad()
    whole = it.sum(z * z).backward()[z]
    real = it.sum(it.real(z * z)).backward()[z]
    np.testing.assert_array_equal(whole.numpy(), real.numpy())
    imaginary = it.sum(z * z).backward(it.asarray(1j, dtype="complex128"))[z]
    np.testing.assert_allclose(imaginary.numpy(), it.sum(it.imag(z * z)).backward()[z].numpy())


def test_real_inputs_of_complex_functions_have_real_gradients():
    x, w = it.asarray(np.array([0.5, -1.0])), tensor(2)
    for f in (
        lambda x: it.abs(x * w),
        lambda x: it.abs(it.fft.fft(x)),
        lambda x: it.abs(x.astype("complex128") ** 2),
        lambda x: it.imag(it.exp(1j * x)),
        lambda x: it.abs(it.where(x > 0, w, x)),
    ):
        got = grad(lambda x, f=f: it.sum(f(x)))(x)
        assert got.dtype is it.float64
        step = 1e-6
        for i in range(2):
            d = np.zeros(2)
            d[i] = step
            up, down = (it.sum(f(x + it.asarray(s * d))).item() for s in (1, -1))
            np.testing.assert_allclose(got[i].item(), (up - down) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_dtypes_stay(dtype):
    z = tensor(3).astype(dtype)
    size = lambda z: it.sum(it.abs(z))  # noqa: E731
    assert grad(size)(z).dtype.name == dtype
    assert grad(lambda z: size(grad(size)(z * z)))(z).dtype is z.dtype
