"""Operations whose results are larger than what goes in run as kernels, not by NumPy; and so does
what is drawn, of any size: NumPy takes a call for each round of the generator."""

from __future__ import annotations

from typing import Any

import pytest

import ingle.tensor as it
from ingle.tensor.device import backend_of


@pytest.mark.parametrize(
    ("make", "few"),
    [
        (lambda n: it.random_bits((n, n), (3, 0), device="cpu"), False),
        (lambda n: it.random_bits((n, n), (3, 1), device="cpu") ^ 1, True),
        (lambda n: it.zeros((n, 1), device="cpu") + it.ones((1, n), device="cpu"), True),
    ],
)
def test_only_few_elements_are_made_by_numpy(
    make: Any, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = backend_of("cpu").inner
    compute, made = device.compute, []

    def noting(kernel: Any, op: Any, arrays: Any) -> Any:
        made.append(op.operation.name)
        return compute(kernel, op, arrays)

    monkeypatch.setattr(device, "compute", noting)
    for _ in range(2):
        make(300).numpy()
    assert not {"random_bits", "bitwise_xor", "add"} & set(made)
    make(8).numpy()
    assert "random_bits" not in made
    assert bool({"bitwise_xor", "add"} & set(made)) == few
