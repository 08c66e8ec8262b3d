"""Initializers: the distributions are PyTorch's, the numbers depend on the generator alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import init
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

stats = pytest.importorskip("scipy.stats")
torch = pytest.importorskip("torch")

SHAPE = (64, 32, 3, 3)
FAN_IN, FAN_OUT = 32 * 9, 64 * 9


def drawn(initializer: Any, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    values: np.ndarray = initializer(shape, "float64", None, Generator(3)).numpy().ravel()
    return values


def uniform(bound: float) -> Any:
    return stats.uniform(-bound, 2 * bound)


CASES = [
    (init.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
    (init.Normal(2.0, 0.5), stats.norm(2, 0.5)),
    (init.TruncatedNormal(0.0, 1.0, -1.0, 2.0), stats.truncnorm(-1, 2)),
    (init.XavierUniform(2.0), uniform(2.0 * math.sqrt(6 / (FAN_IN + FAN_OUT)))),
    (init.XavierNormal(), stats.norm(0, math.sqrt(2 / (FAN_IN + FAN_OUT)))),
    (init.KaimingUniform(nonlinearity="relu"), uniform(math.sqrt(6 / FAN_IN))),
    (init.KaimingUniform(math.sqrt(5)), uniform(1 / math.sqrt(FAN_IN))),
    (
        init.KaimingNormal(mode="fan_out", nonlinearity="tanh"),
        stats.norm(0, 5 / 3 / math.sqrt(FAN_OUT)),
    ),
]


@pytest.mark.parametrize(("initializer", "distribution"), CASES, ids=lambda v: repr(v)[:30])
def test_distributions(initializer: Any, distribution: Any) -> None:
    assert stats.kstest(drawn(initializer), distribution.cdf).pvalue > 1e-3


def test_constants() -> None:
    assert init.Zeros()((2, 3)).tolist() == [[0.0] * 3] * 2
    assert init.Ones()((2,), "float64").dtype is it.float64
    assert init.Constant(3.5)(()).item() == 3.5


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5), (6, 2, 3), (1, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    q = init.Orthogonal(2.0)(shape, "float64", None, Generator(1)).numpy()
    flat = q.reshape(shape[0], -1)
    gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-12)


def test_orthogonal_has_no_preferred_signs() -> None:
    generator = Generator(0)
    draws = [init.Orthogonal()((2, 2), "float64", None, generator) for _ in range(400)]
    corners = [q.numpy()[0, 0] for q in draws]
    # The corner of a random rotation is the cosine of a uniform angle.
    assert stats.kstest(corners, lambda x: 1 - np.arccos(np.clip(x, -1, 1)) / np.pi).pvalue > 1e-3


@pytest.mark.parametrize("initializer", [c[0] for c in CASES] + [init.Orthogonal()], ids=repr)
def test_the_generator_decides(initializer: Any) -> None:
    shape = (5, 4)
    one, two, three = (initializer(shape, None, None, Generator(s)).numpy() for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)
    it.random.seed(1)
    np.testing.assert_array_equal(initializer(shape).numpy(), one)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_reset_keeps_shape_dtype_and_device(dtype: str) -> None:
    parameter = nn.Parameter(it.ones((3, 4), dtype=dtype))
    for initializer in [c[0] for c in CASES] + [init.Orthogonal(), init.Zeros()]:
        initializer.reset(parameter, Generator(0))
        assert parameter.dtype.name == dtype
        assert parameter.shape == (3, 4)
    assert float(it.sum(parameter.value.astype("float32"))) == 0.0


def test_layers_take_initializers() -> None:
    layer = nn.Linear(3, 2, weight_init=init.Constant(0.5), bias_init=init.Ones())
    assert layer.weight.raw.tolist() == [[0.5] * 3] * 2
    assert layer.bias.raw.tolist() == [1.0, 1.0]
    conv = nn.Conv2d(1, 2, 3, weight_init=lambda s, *rest: it.full(s, 2.0), bias_init=init.Zeros())
    assert float(it.sum(conv.weight)) == 36.0
    rows = nn.Embedding(4, 2, padding_idx=1, weight_init=init.Ones())
    assert rows.weight.raw.tolist() == [[1.0, 1.0]] * 4


def test_layers_draw_from_their_generator_alone() -> None:
    before = it.random.default_generator().state
    one, two = (nn.Linear(3, 2, generator=Generator(5)) for _ in range(2))
    assert it.random.default_generator().state == before
    np.testing.assert_array_equal(one.weight.raw.numpy(), two.weight.raw.numpy())
    np.testing.assert_array_equal(one.bias.raw.numpy(), two.bias.raw.numpy())


DEFAULTS = [
    (lambda: nn.Linear(50, 400), "weight", uniform(1 / math.sqrt(50))),
    (lambda: nn.Linear(50, 4000), "bias", uniform(1 / math.sqrt(50))),
    (lambda: nn.Conv1d(6, 400, 5, groups=2), "weight", uniform(1 / math.sqrt(15))),
    (lambda: nn.Conv2d(4, 4000, 3), "bias", uniform(1 / math.sqrt(36))),
    (lambda: nn.Conv3d(2, 300, 3), "weight", uniform(1 / math.sqrt(54))),
    (lambda: nn.Embedding(100, 50), "weight", stats.norm(0, 1)),
]


@pytest.mark.parametrize(("make", "name", "distribution"), DEFAULTS)
def test_layers_start_as_pytorchs(make: Any, name: str, distribution: Any) -> None:
    it.random.seed(11)
    values = getattr(make(), name).raw.numpy().ravel()
    assert stats.kstest(values, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "selu"])
def test_gains_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: init.XavierNormal()((3,)), ShapeError, r"shape \(3,\) has no fan in"),
        (lambda: init.Orthogonal()((3,)), ShapeError, "needs at least 2 axes"),
        (lambda: init.calculate_gain("relux"), ArgumentError, "unknown nonlinearity 'relux'"),
        (lambda: init.KaimingNormal(mode="fan")((2, 2)), ArgumentError, "'fan_in' or 'fan_out'"),  # type: ignore[arg-type]
        (lambda: init.Uniform(2.0, 1.0)((2,)), ArgumentError, "low must not exceed high"),
        (lambda: init.Initializer()((2,)), NotImplementedError, "must define fill"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ArgumentError, "divisible by groups=2"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), ArgumentError, "an integer or 2 of them"),
        (lambda: nn.Conv2d(3, 4, 3, padding="full"), ArgumentError, "'same' or 'valid'"),
        (lambda: nn.Conv2d(3, 4, 3, 2, padding="same"), ArgumentError, "needs stride 1"),
        (lambda: nn.MaxPool2d(0), ArgumentError, "kernel_size must be at least 1, got 0"),
        (lambda: nn.Dropout(1.5), ArgumentError, r"a probability in \[0, 1\], got 1.5"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ArgumentError, "padding_idx=3 is out of range"),
    ],
)
def test_bad_input(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "options", "shape", "low", "high", "std"),
    [
        ("uniform_", {"a": -1.0, "b": 3.0}, (80, 90), -1.0, 3.0, 4 / 12**0.5),
        ("normal_", {"mean": 0.0, "std": 0.5}, (80, 90), -9.0, 9.0, 0.5),
        ("trunc_normal_", {"std": 1.0, "a": -1.0, "b": 1.0}, (80, 90), -1.0, 1.0, 0.54),
        ("xavier_uniform_", {"gain": 2.0}, (80, 90), -0.38, 0.38, 2 * (2 / 170) ** 0.5),
        ("xavier_normal_", {}, (80, 90), -9.0, 9.0, (2 / 170) ** 0.5),
        ("kaiming_uniform_", {"a": 1.0, "mode": "fan_out"}, (80, 90), -0.2, 0.2, 80**-0.5),
        ("kaiming_normal_", {"nonlinearity": "relu"}, (80, 90), -9.0, 9.0, (2 / 90) ** 0.5),
    ],
)
def test_parameters_are_filled_as_pytorchs(
    name: str, options: dict[str, Any], shape: tuple[int, ...], low: float, high: float, std: float
) -> None:
    parameter = nn.Parameter(it.zeros(shape))
    assert getattr(nn.init, name)(parameter, **options) is parameter
    values = parameter.numpy()
    torchs = getattr(torch.nn.init, name)(torch.zeros(shape), **options).numpy()
    assert low <= values.min() <= values.max() <= high
    assert values.std() == pytest.approx(std, rel=0.04)
    assert torchs.std() == pytest.approx(std, rel=0.04)


def test_fixed_values_are_pytorchs() -> None:
    for name, shape, options in (
        ("eye_", (3, 5), {}), ("ones_", (2,), {}), ("zeros_", (2,), {}),
        ("constant_", (2, 2), {"val": 0.5}), ("dirac_", (4, 2, 3), {"groups": 2}),
        ("dirac_", (3, 3, 3, 3), {}),
    ):  # fmt: skip
        got = getattr(nn.init, name)(nn.Parameter(it.ones(shape)), **options)
        want = getattr(torch.nn.init, name)(torch.ones(shape), **options)
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_orthogonal_and_sparse() -> None:
    q = nn.init.orthogonal_(nn.Parameter(it.zeros((3, 5))), 2.0).numpy()
    np.testing.assert_allclose(q @ q.T, 4.0 * np.eye(3), atol=1e-5)
    values = nn.init.sparse_(nn.Parameter(it.zeros((10, 6))), 0.25, 2.0).numpy()
    assert ((values == 0).sum(0) == 3).all()


def test_filling_what_cannot_be_filled() -> None:
    with pytest.raises(it.errors.OperandError, match="fills a Parameter or Buffer, got Tensor"):
        nn.init.uniform_(it.zeros(3))  # type: ignore[type-var]
    with pytest.raises(it.errors.ShapeError, match="needs 2 axes"):
        nn.init.eye_(nn.Parameter(it.zeros(3)))
    with pytest.raises(it.errors.ArgumentError, match="divisible by groups=2"):
        nn.init.dirac_(nn.Parameter(it.zeros((3, 1, 1))), 2)
