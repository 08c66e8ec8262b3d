"""Fixtures: comparisons with PyTorch, and a backend that has to compose its composites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.device import backend_of
from ingle.tensor.operation import OPERATIONS


def compare_with_torch(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    *,
    second: bool = True,
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> None:
    """Forward, gradients and (unless told not to) second-order gradients of float64 arrays."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(len(arrays))
    xs = [it.asarray(a).require_grad() for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = ours(*xs), theirs(*ts)
    close = {"rtol": rtol, "atol": atol}
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), **close)
    cotangent = rng.standard_normal(expected.shape)
    grads = out.backward(it.asarray(cotangent), create_graph=True)
    wanted = torch.autograd.grad(expected, ts, torch.tensor(cotangent), create_graph=True)
    for x, g in zip(xs, wanted, strict=True):
        np.testing.assert_allclose(grads[x].numpy(), g.numpy(force=True), **close)
    if not second:
        return
    weights = [rng.standard_normal(a.shape) for a in arrays]
    scalar = sum((grads[x] * it.asarray(w)).sum() for x, w in zip(xs, weights, strict=True))
    theirs_scalar = sum((g * torch.tensor(w)).sum() for g, w in zip(wanted, weights, strict=True))
    if not theirs_scalar.requires_grad:
        return
    again = scalar.backward() if scalar.backend.level else {}
    expected_again = torch.autograd.grad(theirs_scalar, ts, allow_unused=True)
    for x, g in zip(xs, expected_again, strict=True):
        got = again.get(x) if scalar.backend.level else None
        want = np.zeros(x.shape) if g is None else g.numpy(force=True)
        np.testing.assert_allclose(np.zeros(x.shape) if got is None else got.numpy(), want, **close)


@pytest.fixture
def like_torch() -> Callable[..., None]:
    return compare_with_torch


@pytest.fixture(params=["kernels", "bodies"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs a test on numpy twice: with all kernels, and with those of composites taken away."""
    if request.param == "bodies":
        backend: Any = backend_of("numpy")
        core = {
            name: kernel
            for name, kernel in backend.kernels.items()
            if name not in OPERATIONS or OPERATIONS[name].body is None
        }
        monkeypatch.setattr(backend, "kernels", core)
        monkeypatch.setattr(backend, "_resolved", {})
    with it.device("numpy"):
        yield request.param
