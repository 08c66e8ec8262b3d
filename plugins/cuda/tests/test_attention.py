"""Attention by tensor cores on a GPU, of several tiles, beside float64: what the played one cannot
show is what a GPU's instructions and its assembler make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attention_oracle import TOLERANCE, exact

import ingle.tensor as it
from ingle.tensor.ops.neural.attention import attention_training
from ingle.tensor.ops.neural.attention_dropout import (
    attention_dropout,
    attention_dropout_gradient,
)
from ingle.tensor.ops.neural.attention_gradients import attention_gradient
from ingle_cuda.attention.core_attention import CoreAttention
from ingle_cuda.attention.tensor_cores import has_tensor_cores
from ingle_cuda.backend import CudaBackend

pytestmark = pytest.mark.slow

KEYS = 333


@pytest.fixture(autouse=True)
def by_tensor_cores(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that the library would take as well."""
    if not has_tensor_cores(backend.limits.architecture):
        pytest.skip("the GPU has none that these kernels use")
    monkeypatch.setattr(backend, "offers", (CoreAttention(backend),))


def kinds(features: int) -> Iterator[dict[str, Any]]:
    """Options of `exact`, and masks."""
    rng = np.random.default_rng(features)
    plain: dict[str, Any] = {"scale": features**-0.5}
    padding = np.arange(KEYS) < np.array([KEYS, 70])[:, None, None, None]
    yield plain
    yield plain | {"causal": True}
    yield plain | {"mask": padding}
    yield plain | {"mask": rng.random((200, KEYS)) < 0.7}
    yield plain | {"mask": rng.standard_normal((200, KEYS))}
    yield plain | {"mask": padding, "dropout": (0.2, (3, (1 << 32) - 5))}
    yield plain | {"causal": True, "scale": -0.1, "dropout": (0.2, (3, 9))}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("features", "columns"), [(5, 5), (16, 128), (40, 40), (64, 64), (128, 128)]
)
def test_attention_and_its_gradient(dtype: str, features: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    for options in kinds(features):
        sizes = (200, columns), (200, features), (KEYS, features), (KEYS, columns)
        arrays = [rng.standard_normal((2, 3, *size)) for size in sizes]
        arrays += [options.pop("mask")] if "mask" in options else []
        given = [a if a.dtype == np.bool_ else it.asarray(a, dtype=dtype).numpy() for a in arrays]
        wide = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in given]
        tensors = [it.asarray(a, device="cuda") for a in given]
        plain = {"is_causal": options.get("causal", False), "scale": options["scale"]}
        if (dropout := options.get("dropout")) is None:
            found = [*attention_training(*tensors[1:], **plain)]
            found += attention_gradient(*tensors, **plain)
        else:
            plain |= dict(zip(("p", "place"), dropout, strict=True))
            found = [*attention_dropout(*tensors[1:], **plain)]
            found += attention_dropout_gradient(*tensors, **plain)
        made = [x.numpy() for x in found]
        wanted = exact(*wide, **options, rounded=made[0].astype(np.float64))
        for result, right in zip(made, wanted, strict=True):
            size = np.max(np.abs(right[np.isfinite(right)]), initial=1.0)
            np.testing.assert_allclose(
                result.astype(np.float64), right, rtol=TOLERANCE[dtype],
                atol=TOLERANCE[dtype] * size, err_msg=str(options),
            )  # fmt: skip
