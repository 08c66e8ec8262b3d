"""PyTorch's answers to the same calls, values and gradients, in float64.

`COUNTERPARTS` names PyTorch's function for an operation of another name or calling convention;
operations whose function is called the same and takes only tensors are found by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .checks import run_case
from .derivatives import backward_all, direction, gradient_arrays
from .trees import fill_arrays, results_of

SAME_NAME = (
    "abs acos acosh add asin asinh atan atan2 atanh ceil cos cosh divide exp expm1 floor hypot log "
    "log10 log1p log2 logaddexp matmul maximum minimum multiply negative pow reciprocal round "
    "rsqrt sign sin sinh sqrt square subtract tan tanh trunc where"
).split()

FUNCTIONAL = (
    "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu linear logsigmoid mish relu relu6 "
    "selu sigmoid silu softplus softsign conv1d conv2d conv3d max_pool1d max_pool2d avg_pool1d "
    "avg_pool2d layer_norm rms_norm group_norm cross_entropy nll_loss mse_loss l1_loss "
    "smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "softmax log_softmax embedding"
).split()

RENAMED = {
    "sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin", "erf": "erf",
    "logsumexp": "logsumexp", "cumsum": "cumsum", "cumprod": "cumprod", "flip": "flip",
    "tril": "tril", "triu": "triu", "var": "var", "std": "std",
}  # fmt: skip
_KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "logits": "input"}

COUNTERPARTS: dict[str, str] = {
    **{n: n for n in SAME_NAME},
    **{n: f"nn.functional.{n}" for n in FUNCTIONAL},
    **RENAMED,
}


def check_against_torch(case: Case, where: str) -> None:
    """Values, and gradients where the sample has them, against PyTorch's."""
    import torch

    counterpart: Any = torch
    for part in COUNTERPARTS[case.operation.name].split("."):
        counterpart = getattr(counterpart, part)
    tensors = [torch.tensor(a.copy()) for a in case.arrays]
    track = case.sample.gradient
    for t in tensors:
        t.requires_grad_(track and t.is_floating_point())
    results, inputs, _ = run_case(case, where, track=track)
    try:
        answer = _call(counterpart, case, tensors)
    except (TypeError, RuntimeError, ValueError):
        return  # PyTorch does not take this call: a list for an axis, an empty reduction
    answers = [answer] if isinstance(answer, torch.Tensor) else list(answer)
    for got, want in zip(results, answers, strict=True):
        np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-9)
    if not track or not any(a.requires_grad for a in answers):
        return
    rng = np.random.default_rng(5)
    cotangents = [direction(rng, a.detach().numpy()) if a.requires_grad else None for a in answers]
    torch.autograd.backward(
        [a for a in answers if a.requires_grad],
        [torch.tensor(c) for c in cotangents if c is not None],
    )
    grads = backward_all(results, cotangents)
    tracked = [x if x.dtype.is_inexact else None for x in inputs]
    for number, (g, t) in enumerate(zip(gradient_arrays(grads, tracked), tensors, strict=True)):
        if g is None:
            continue
        want = np.zeros(g.shape) if t.grad is None else t.grad.numpy()
        np.testing.assert_allclose(
            g, want, rtol=1e-7, atol=1e-9, err_msg=f"the gradient by input {number}"
        )


def _call(function: Callable[..., Any], case: Case, tensors: list[Any]) -> Any:
    args, kwargs = fill_arrays(case.tree(), list(tensors))
    renamed = {_KEYWORDS.get(k, k): v for k, v in kwargs.items()}
    if case.operation.name in ("softmax", "log_softmax"):
        renamed.setdefault("dim", -1)
    if case.operation.name in ("logsumexp",) and renamed.get("dim", None) is None:
        renamed["dim"] = tuple(range(tensors[0].ndim))
    if case.operation.name in ("var", "std"):
        renamed.setdefault("correction", 0)
    return function(*args, **renamed)


__all__ = ["COUNTERPARTS", "check_against_torch", "results_of"]
