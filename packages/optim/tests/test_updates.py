"""The operations of a step: kernels against bodies, bit for bit, and both against the formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.autodiff import grad, vmap
from ingle.optim.updates import ADAM_UPDATE, MOMENTUM_UPDATE, adam_update, momentum_update
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError
from ingle.tensor.operation import Operation
from ingle.tensor.sample import Draw

SHAPES = [(), (0,), (7,), (300, 5), (1 << 15,), (3, 40_001)]
ADAM = {"step": 7, "lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}
MOMENTUM = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}


@pytest.fixture(autouse=True)
def _on_numpy() -> Iterator[None]:
    """The kernels that are compared with the bodies here are those of numpy."""
    with it.device("numpy"):
        yield


def arrays(count: int, shape: tuple[int, ...], dtype: str) -> list[it.Tensor]:
    rng = np.random.default_rng(len(shape))
    return [it.asarray(rng.random(shape)).astype(dtype) for _ in range(count)]


def without_kernel(
    monkeypatch: pytest.MonkeyPatch, operation: Operation, inputs: list[Any], **options: Any
) -> Any:
    """What the public function returns where the backend has no kernel for the operation."""
    backend = it.asarray(0.0).backend
    table = {k: v for k, v in backend.kernels.items() if k != operation.name}  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(type(backend), "kernels", table)
        patch.setattr(backend, "_resolved", {})
        return operation.public(*inputs, **options)  # type: ignore[misc]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("decay", ["none", "gradient", "value"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adam_kernel_is_its_body(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], decay: Any, dtype: str
) -> None:
    inputs, options = arrays(4, shape, dtype), {**ADAM, "decay": decay}
    want = without_kernel(monkeypatch, ADAM_UPDATE, inputs, **options)
    for got, expected in zip(adam_update(*inputs, **options), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.25])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_momentum_kernel_is_its_body(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dampening: float, nesterov: bool,
    dtype: str,
) -> None:  # fmt: skip
    inputs = arrays(3, shape, dtype)
    options = {**MOMENTUM, "dampening": dampening, "nesterov": nesterov}
    want = without_kernel(monkeypatch, MOMENTUM_UPDATE, inputs, **options)
    for got, expected in zip(momentum_update(*inputs, **options), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("operation", [ADAM_UPDATE, MOMENTUM_UPDATE], ids=lambda o: o.name)
def test_samples_against_the_reference(operation: Operation) -> None:
    assert operation.samples is not None
    for sample in operation.samples(Draw(0, as_dtype("float64"))):
        got = operation.public(*map(it.asarray, sample.args), **sample.kwargs)  # type: ignore[misc]
        want = operation.reference(*sample.args, **sample.kwargs)  # type: ignore[misc, operator]
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-14)


def test_strides_do_not_matter() -> None:
    x, g, m, v = arrays(4, (40, 60), "float32")
    straight = adam_update(x, g, m, v, **ADAM)
    turned = adam_update(*(it.permute_dims(t, (1, 0)) for t in (x, g, m, v)), **ADAM)
    for a, b in zip(straight, turned, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy().T)


def test_inputs_stay_as_they_are() -> None:
    inputs = arrays(4, (1 << 16,), "float32")
    before = [x.numpy().copy() for x in inputs]
    adam_update(*inputs, **ADAM, decay="gradient")
    momentum_update(*inputs[:3], **MOMENTUM, nesterov=True)
    for x, values in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x.numpy(), values)


def test_special_values_pass_through() -> None:
    x = it.asarray([np.nan, np.inf, 1.0, 0.0])
    g = it.asarray([1.0, 1.0, np.nan, 0.0])
    zero = it.zeros(4)
    got, mean, square = adam_update(x, g, zero, zero, step=1, lr=0.1, eps=0.0)
    assert np.isnan(got.numpy()).tolist() == [True, False, True, True]
    assert np.isnan(mean.numpy()).tolist() == np.isnan(square.numpy()).tolist()


def test_gradients_and_batches_go_through_the_body() -> None:
    x, g, m, v = arrays(4, (5,), "float64")

    def stepped(grads: it.Tensor) -> it.Tensor:
        return adam_update(x, grads, m, v, **ADAM)[0]

    step = 1e-6
    slope = grad(lambda grads: stepped(grads).sum())(g)
    apart = (stepped(g + step) - stepped(g - step)) / (2 * step)
    np.testing.assert_allclose(slope.numpy(), apart.numpy(), rtol=1e-6)
    rows = it.stack([g, g * 2, g * 3])
    batch = vmap(stepped)(rows)
    np.testing.assert_allclose(batch[2].numpy(), stepped(g * 3).numpy(), rtol=1e-12)


def test_bad_input() -> None:
    a, b = it.ones((2, 3)), it.ones(3)
    with pytest.raises(ShapeError, match=r"adam_update: mean has shape \(3,\), expected \(2, 3\)"):
        adam_update(a, a, b, a, **ADAM)
    with pytest.raises(ShapeError, match="momentum_update: buffer"):
        momentum_update(a, a, b, **MOMENTUM)
    with pytest.raises(DTypeError, match="momentum_update"):
        momentum_update(*[it.ones(3, dtype="complex64")] * 3, **MOMENTUM)
    with pytest.raises(ArgumentError, match="step=0"):
        adam_update(a, a, a, a, step=0, lr=0.1)
    with pytest.raises(ArgumentError, match="none, gradient, value"):
        adam_update(a, a, a, a, **ADAM, decay="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [optim.Adam, optim.SGD], ids=lambda k: k.__name__)
def test_what_is_held_survives_the_next_steps(kind: Any) -> None:
    weight = nn.Parameter(it.ones((256, 256)))
    optimizer = kind([weight], lr=0.1, **({"momentum": 0.9} if kind is optim.SGD else {}))
    x = it.asarray(np.random.default_rng(0).random((2, 256)).astype(np.float32))

    def loss() -> it.Tensor:
        return ((x @ weight) ** 2).sum()

    optimizer.step(loss().backward())
    best, array, kept = weight.value, weight.value.numpy()[3:], loss()
    state = {k: v for k, v in optimizer.state_dict().items() if isinstance(v, it.Tensor)}
    before = best.numpy().copy(), {k: v.numpy().copy() for k, v in state.items()}
    gradient = kept.backward()[weight].numpy().copy()
    for _ in range(3):
        optimizer.step(loss().backward())
        w = weight.value.detach()
        w += 1
        w[0] = 7
    np.testing.assert_array_equal(best.numpy(), before[0])
    np.testing.assert_array_equal(array, before[0][3:])
    np.testing.assert_array_equal(kept.backward()[weight].numpy(), gradient)
    for name, values in before[1].items():
        np.testing.assert_array_equal(state[name].numpy(), values)
    assert not np.array_equal(weight.value.numpy(), before[0])
