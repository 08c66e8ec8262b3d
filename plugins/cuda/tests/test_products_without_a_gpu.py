"""Products as the library is asked for them, by a stub that computes them in the host's memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from ingle_cuda.products import cublas
from ingle_cuda.products.cublas import Product, operand_of


class Host:
    """cuBLAS's batched product by its documentation: matrices lie by columns."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return self._product if "Batched" in name else lambda *args: 0

    def _product(
        self, _handle: Any, a_turned: int, b_turned: int, m: int, n: int, k: int, _one: Any,
        a: Any, _a: int, a_lead: int, a_step: Any, b: Any, _b: int, b_lead: int, b_step: Any,
        _zero: Any, c: Any, _c: int, c_lead: int, c_step: Any, count: int, *_how: int,
    ) -> int:  # fmt: skip
        self.counts.append(count)
        for i in range(count):
            left = matrix(a.value + 4 * i * a_step.value, a_lead, *((k, m) if a_turned else (m, k)))
            right = matrix(
                b.value + 4 * i * b_step.value, b_lead, *((n, k) if b_turned else (k, n))
            )
            out = matrix(c.value + 4 * i * c_step.value, c_lead, m, n)
            out[:] = (left.T if a_turned else left) @ (right.T if b_turned else right)
        return 0


def matrix(address: int, lead: int, rows: int, columns: int) -> Any:
    """Memory as a matrix that lies by columns."""
    data = (ctypes.c_float * (lead * (columns - 1) + rows)).from_address(address)
    flat = np.frombuffer(data, np.float32)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (4, 4 * lead))


def elements(x: Any) -> tuple[int, ...]:
    return tuple(s // x.itemsize for s in x.strides)


@pytest.mark.parametrize("batch", [(), (3,), (8, 4), (4, 8), (2, 1, 3), (3, 2, 2)])
@pytest.mark.parametrize("turned", [False, True])
def test_batches_of_any_strides(
    monkeypatch: pytest.MonkeyPatch, batch: tuple[int, ...], turned: bool
) -> None:
    host = Host()
    monkeypatch.setattr(cublas, "library", lambda name: host)
    made = cublas.Cublas(tensor_float=False)
    rng = np.random.default_rng(0)
    m, n, k = 5, 6, 7
    # Rows come before the batch, as where heads lie side by side.
    a = np.moveaxis(rng.standard_normal((m, *batch, k)).astype(np.float32), 0, -2)
    b = rng.standard_normal((*batch, n, k) if turned else (*batch, k, n)).astype(np.float32)
    b = np.swapaxes(b, -1, -2) if turned else b
    out = np.zeros((m, *batch, n), np.float32)
    shown = np.moveaxis(out, 0, -2)
    product = Product(
        batch or (1,), m, n, k,
        operand_of(batch or (1,), m, k, elements(a) if batch else (0, *elements(a))),
        operand_of(batch or (1,), k, n, elements(b) if batch else (0, *elements(b))),
        "float32", "float32",
    )  # fmt: skip
    *steps, row, _ = elements(shown)
    addresses = [x.__array_interface__["data"][0] for x in (a, b, out)]
    made.multiply(
        product, 0, *addresses, row=row, steps=tuple(steps) or (0,), workspace=(4096, 1 << 20)
    )
    np.testing.assert_allclose(shown, a @ b, rtol=1e-5, atol=1e-5)
    assert host.counts == [max(batch, default=1)] * (int(np.prod(batch)) // max(batch, default=1))
