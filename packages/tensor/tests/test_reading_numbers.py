"""The one element of a tensor as a Python number: on every device, under every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import grad, vmap
from ingle.fusion import compile as compiled
from ingle.tensor.errors import ArgumentError, IngleError

DTYPES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64"]
DEVICES = pytest.mark.parametrize("device", ["numpy", "cpu"])


@DEVICES
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    value = np.full(shape, 1 if dtype == "bool" else 3, kind)
    x = it.asarray(value, device=device)
    for tensor in (x, it.broadcast_to(x, (2, *shape))[1], x if dtype == "bool" else x + x - x):
        assert tensor.item() == value.item()
        assert type(tensor.item()) is type(value.item())
        assert (int(tensor), float(tensor), complex(tensor)) == (value.item(),) * 3
        assert bool(tensor)


@DEVICES
def test_complex_and_special_values(device: str) -> None:
    assert it.asarray(1 - 2j, device=device).item() == 1 - 2j
    assert complex(it.asarray(1 - 2j, device=device) * 1j) == 2 + 1j
    assert np.isnan((it.asarray(0.0, device=device) / 0.0).item())
    assert float(1 / it.asarray(-0.0, device=device)) == -np.inf


@DEVICES
def test_views_of_memory_that_is_written_in_place(device: str) -> None:
    x = it.zeros(70_000, device=device)
    for k in range(4):
        x[0:2] = float(k)
        first = x[1:2]
        assert float(first) == k
    x[1] = 9.0
    assert (first.item(), x[1].item()) == (3.0, 9.0)


@DEVICES
def test_recorded_gradients_are_left_aside(device: str) -> None:
    x = it.asarray(3.0, device=device).require_grad()
    y = x * x
    assert float(y) == y.item() == 9.0
    seen: list[float] = []

    def f(x: it.Tensor) -> it.Tensor:
        seen.append(float(x * 2.0))
        return x * x

    assert grad(grad(f))(it.asarray(3.0, device=device)).item() == 2.0
    assert seen[0] == 6.0


@DEVICES
def test_where_there_is_no_value(device: str) -> None:
    x = it.ones(3, device=device)
    with pytest.raises(IngleError, match="cannot be read inside"):
        vmap(lambda e: it.asarray(float(e), device=device))(x)
    with it.device("cpu"), pytest.raises(IngleError, match="inside a compiled function"):
        compiled(lambda x: x * float(x[0]))(it.ones(3))
    with it.device("cpu"), pytest.raises(IngleError, match="only being traced"):
        compiled(lambda x: it.scan(lambda c, e: (c + float(e), e), it.zeros(()), x))(it.ones(3))


@DEVICES
@pytest.mark.parametrize("shape", [(2,), (0,), (1, 3)])
def test_other_than_one_element(device: str, shape: tuple[int, ...]) -> None:
    x = it.ones(shape, device=device)
    reads: dict[str, Callable[[it.Tensor], Any]] = {
        "item: ": it.Tensor.item, "float(x)": float, "bool(x)": bool,
    }  # fmt: skip
    for name, read in reads.items():
        with pytest.raises(ArgumentError, match="needs a tensor of one element") as caught:
            read(x)
        assert name in str(caught.value)
