"""PyTorch's answers to the same calls, values and gradients, in the same dtype.

`COUNTERPARTS` names PyTorch's function for an operation of another name or calling convention;
operations whose function is called the same and takes only tensors are found by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .derivatives import backward_all, direction, gradient_arrays
from .running import NothingToCheckError, run_case
from .tolerance import epsilon
from .trees import fill_arrays

SAME_NAME = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign",
    "cos", "cosh", "divide", "erf", "exp", "expm1", "floor", "floor_divide", "hypot", "log",
    "log10", "log1p", "log2", "logaddexp", "logsumexp", "matmul", "maximum", "mean", "minimum",
    "multiply", "negative", "pow", "prod", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "sin", "sinh", "sqrt", "square", "std", "subtract", "sum", "tan", "tanh", "trunc", "var",
    "where",
)  # fmt: skip
FUNCTIONAL = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cross_entropy", "elu",
    "embedding", "gelu", "glu", "hardshrink", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "linear", "log_softmax", "mish", "mse_loss", "nll_loss", "prelu", "relu", "relu6",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
)  # fmt: skip
RENAMED = {
    "cumulative_prod": "cumprod", "cumulative_sum": "cumsum", "max": "amax", "min": "amin",
    "hardsigmoid": "nn.functional.hardsigmoid", "hardswish": "nn.functional.hardswish",
    "hardtanh": "nn.functional.hardtanh", "logsigmoid": "nn.functional.logsigmoid",
    "soft_cross_entropy": "nn.functional.cross_entropy",
}  # fmt: skip
BY_RANK = ("avg_pool", "conv", "max_pool")
"""Whose counterparts have the number of image axes in their names."""

_KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "logits": "input"}

COUNTERPARTS: dict[str, str] = {
    **{n: n for n in SAME_NAME},
    **{n: f"nn.functional.{n}" for n in FUNCTIONAL},
    **{n: f"nn.functional.{n}{{rank}}d" for n in BY_RANK},
    **RENAMED,
}


def check_against_torch(case: Case, where: str) -> None:
    """Values, and gradients where the sample has them, against PyTorch's."""
    import torch

    counterpart: Any = torch
    path = COUNTERPARTS[case.operation.name].format(rank=case.arrays[0].ndim - 2)
    for part in path.split("."):
        counterpart = getattr(counterpart, part)
    tensors = [torch.tensor(a.copy()) for a in case.arrays]
    track = bool(case.sample.gradient)
    close = max(1e-9, 2e3 * epsilon(case.dtype)) * case.sample.condition
    for number, t in enumerate(tensors):
        t.requires_grad_(track and case.wants_gradient(number))
    run = run_case(case, where, track=track)
    try:
        answer = _call(counterpart, case, tensors)
    except (TypeError, RuntimeError, ValueError) as error:
        # PyTorch does not take this call, such as an empty reduction; the test counts the others.
        raise NothingToCheckError from error
    answers = [answer] if isinstance(answer, torch.Tensor) else list(answer)
    for got, want in zip(run.results, answers, strict=True):
        np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol=close, atol=close)
    if not track or not any(a.requires_grad for a in answers):
        return
    rng = np.random.default_rng(5)
    cotangents = [direction(rng, a.detach().numpy()) if a.requires_grad else None for a in answers]
    torch.autograd.backward(
        [a for a in answers if a.requires_grad],
        [torch.tensor(c) for c in cotangents if c is not None],
    )
    grads = backward_all(run.results, cotangents)
    loose = max(close, 1e-7)  # some of PyTorch's gradients have constants rounded to float32
    for number, (g, t) in enumerate(zip(gradient_arrays(grads, run.tracked), tensors, strict=True)):
        if g is None:
            continue
        want = np.zeros(g.shape) if t.grad is None else t.grad.numpy()
        np.testing.assert_allclose(
            g, want, rtol=loose, atol=loose, err_msg=f"the gradient by input {number}"
        )


def _call(function: Callable[..., Any], case: Case, tensors: list[Any]) -> Any:
    args, kwargs = fill_arrays(case.tree(), list(tensors))
    renamed = {_KEYWORDS.get(k, k): v for k, v in kwargs.items()}
    if case.operation.name in ("softmax", "log_softmax"):
        renamed.setdefault("dim", -1)
    if case.operation.name == "logsumexp" and renamed.get("dim") is None:
        renamed["dim"] = tuple(range(tensors[0].ndim))
    if case.operation.name in ("var", "std"):
        renamed.setdefault("correction", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on how else to call it
        return function(*args, **renamed)
