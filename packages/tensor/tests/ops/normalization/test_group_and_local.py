"""Group, instance, RMS and local response normalisation against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("shape", "groups"), [((3, 6), 2), ((2, 6, 5), 3), ((2, 4, 3, 5), 1), ((2, 4, 3, 2, 2), 4)]
)
@pytest.mark.parametrize("with_weight", [False, True])
def test_group_norm(like_torch: Any, shape: Any, groups: int, with_weight: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG(0).standard_normal(shape)]
    if with_weight:
        arrays += [RNG(1).standard_normal(shape[1]), RNG(2).standard_normal(shape[1])]
    like_torch(
        lambda x, *rest: it.group_norm(x, groups, *rest),
        lambda x, *rest: functional.group_norm(x, groups, *rest),
        arrays,
        atol=1e-9,
    )


def test_instance_norm(like_torch: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG(0).standard_normal((2, 3, 4, 5)), RNG(1).random(3), RNG(2).random(3)]
    like_torch(
        lambda x, w, b: it.instance_norm(x, weight=w, bias=b),
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        arrays,
        atol=1e-9,
    )


def test_instance_norm_with_running_statistics(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    mean, var = RNG(3).random(3), RNG(4).random(3) + 0.5
    given = torch.tensor(mean), torch.tensor(var)
    ours = it.asarray(mean), it.asarray(var)
    like_torch(
        lambda x: it.instance_norm(x, *ours, use_input_stats=False),
        lambda x: torch.nn.functional.instance_norm(x, *given, use_input_stats=False),
        [RNG(0).standard_normal((2, 3, 4, 5))],
    )
    with pytest.raises(ShapeError, match="instance_norm: running_var must have one value"):
        it.instance_norm(it.ones((2, 3, 4)), it.ones(3), it.ones(4), use_input_stats=False)


@pytest.mark.parametrize(("shape", "over"), [((4, 6), (6,)), ((2, 3, 4), (3, 4)), ((5,), (5,))])
@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.usefixtures("road")
def test_rms_norm(like_torch: Any, shape: Any, over: Any, eps: float | None) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG(0).standard_normal(shape), RNG(1).standard_normal(over)]
    for some in (arrays, arrays[:1]):
        like_torch(
            lambda x, *rest: it.rms_norm(x, over, *rest, eps=eps),
            lambda x, *rest: functional.rms_norm(x, over, *rest, eps=eps),
            some,
        )


@pytest.mark.parametrize(("shape", "size"), [((2, 5, 4), 3), ((2, 4, 3, 3), 2), ((1, 2, 3), 5)])
def test_local_response_norm(like_torch: Any, shape: Any, size: int) -> None:
    functional = pytest.importorskip("torch").nn.functional
    options: dict[str, Any] = {"alpha": 0.7, "beta": 0.6, "k": 1.5}
    like_torch(
        lambda x: it.local_response_norm(x, size, **options),
        lambda x: functional.local_response_norm(x, size, **options),
        [RNG(0).standard_normal(shape)],
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_have_statistics_in_float32(dtype: str) -> None:
    x = it.full((1, 4, 64), 300.0, dtype=dtype)
    assert it.rms_norm(x, 64).astype("float32").numpy() == pytest.approx(1.0)
    y = it.asarray(RNG(0).normal(200, 100, (1, 4, 64))).astype(dtype)
    expected = it.group_norm(y.astype("float64"), 2).numpy()
    got = it.group_norm(y, 2).astype("float64").numpy()
    np.testing.assert_allclose(got, expected, atol=2e-2)


def test_empty() -> None:
    assert it.group_norm(it.ones((0, 4, 3)), 2).shape == (0, 4, 3)
    assert it.rms_norm(it.ones((0, 3)), 3).shape == (0, 3)
    assert it.local_response_norm(it.ones((0, 3, 2)), 3).shape == (0, 3, 2)


def test_bad_input_says_what_is_wrong() -> None:
    x = it.ones((2, 4, 3))
    for groups in (3, 0, -2):
        with pytest.raises(ShapeError, match=rf"group_norm: .* num_groups={groups} divides"):
            it.group_norm(x, groups)
    with pytest.raises(ShapeError, match="group_norm: bias must have one value"):
        it.group_norm(x, 2, it.ones(4), it.ones(3))
    with pytest.raises(ArgumentError, match="group_norm: num_groups must be an integer"):
        it.group_norm(x, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="group_norm: eps must be a number"):
        it.group_norm(x, 2, eps=-1.0)
    with pytest.raises(ShapeError, match=r"instance_norm: x must be .* more than one value"):
        it.instance_norm(it.ones((2, 3, 1)))
    with pytest.raises(ArgumentError, match="instance_norm: without use_input_stats"):
        it.instance_norm(x, use_input_stats=False)
    with pytest.raises(ShapeError, match=r"rms_norm: x must end in normalized_shape=\(4,\)"):
        it.rms_norm(x, 4)
    with pytest.raises(ShapeError, match="rms_norm: weight must have normalized_shape"):
        it.rms_norm(x, 3, it.ones(4))
    with pytest.raises(DTypeError, match=r"rms_norm: .* must be floats"):
        it.rms_norm(x.astype("int32"), 3)
    with pytest.raises(ShapeError, match=r"local_response_norm: .* at least 3 axes"):
        it.local_response_norm(it.ones((2, 3)), 2)
    with pytest.raises(ShapeError, match="local_response_norm: size must be from 1"):
        it.local_response_norm(x, 0)
    with pytest.raises(ArgumentError, match="local_response_norm: k must be a number"):
        it.local_response_norm(x, 2, k="1")  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="rms_norm: weight must be a tensor"):
        it.rms_norm(x, 3, [1.0])  # type: ignore[arg-type]
