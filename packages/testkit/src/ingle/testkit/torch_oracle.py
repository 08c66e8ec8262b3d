"""PyTorch's answers to the same calls, values and gradients, in the same dtype.

`COUNTERPARTS` names PyTorch's function for an operation of another name or calling convention;
operations whose function is called the same and takes only tensors are found by name.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .cases import Case
from .derivatives import backward_all, direction, gradient_arrays
from .running import NothingToCheckError, run_case
from .tolerance import epsilon
from .torch_functions import TorchFunctions
from .trees import fill_arrays

SAME_NAME = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign",
    "cos", "cosh", "divide", "erf", "exp", "expm1", "floor", "floor_divide", "hypot", "log",
    "log10", "log1p", "log2", "logaddexp", "logsumexp", "matmul", "maximum", "mean", "minimum",
    "multiply", "negative", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "sin", "sinh", "sqrt", "square", "std", "subtract", "sum", "tan", "tanh", "trunc", "var",
    "where",
)  # fmt: skip
FUNCTIONAL = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cross_entropy", "elu",
    "embedding", "gelu", "glu", "hardshrink", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "linear", "log_softmax", "mish", "mse_loss", "nll_loss", "prelu", "relu", "relu6",
    "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
)  # fmt: skip
RENAMED = {
    "max": "amax", "min": "amin",
    "hardsigmoid": "nn.functional.hardsigmoid", "hardswish": "nn.functional.hardswish",
    "hardtanh": "nn.functional.hardtanh", "logsigmoid": "nn.functional.logsigmoid",
    "soft_cross_entropy": "nn.functional.cross_entropy",
}  # fmt: skip
BY_RANK = ("avg_pool", "conv", "max_pool")
"""Whose counterparts have the number of image axes in their names."""

ADAPTED = (
    "adaptive_avg_pool", "adaptive_max_pool", "adjugate", "affine_grid", "astype", "batch_norm",
    "broadcast_to", "cholesky", "clip", "concat", "conj", "conv_input_gradient",
    "conv_weight_gradient", "cummax_indices", "cummin_indices", "cumulative_prod", "cumulative_sum",
    "det", "eigh",
    "eigvalsh", "fftn", "fold", "grid_sample", "group_norm", "ifftn", "imag", "interpolate", "inv",
    "irfft", "kl_div_log_target", "kthvalue", "local_response_norm", "logcumsumexp", "max_unpool",
    "pad",
    "permute_dims", "pinv", "prod", "qr", "real", "reshape", "rfft", "rms_norm",
    "scaled_dot_product_attention", "scatter_add",
    "scatter_extremum", "scatter_prod", "scatter_set", "slice", "slice_update", "slogdet", "solve",
    "sort", "svd", "svdvals", "take", "take_along_axis", "topk", "unfold", "vector_norm",
)  # fmt: skip
"""Whose counterparts are methods of `TorchFunctions`."""

_KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "logits": "input"}

COUNTERPARTS: dict[str, str] = {
    **{n: n for n in SAME_NAME},
    **{n: f"nn.functional.{n}" for n in FUNCTIONAL},
    **{n: f"nn.functional.{n}{{rank}}d" for n in BY_RANK},
    **RENAMED,
    **dict.fromkeys(ADAPTED, ""),
}


def check_against_torch(case: Case, where: str, *, second: bool = False) -> None:
    """Values, and gradients where the sample has them, against PyTorch's.

    Args:
        case: the call.
        where: the device's name.
        second: compare also the gradients of a random combination of the gradients.
    """
    import torch

    tensors = [torch.tensor(a.copy()) for a in case.arrays]
    track = bool(case.sample.gradient)
    for number, t in enumerate(tensors):
        t.requires_grad_(track and case.wants_gradient(number))
    run = run_case(case, where, track=track)
    with _nothing_where_refused():
        answers = _call(case, tensors)
    close = max(1e-9, 2e3 * epsilon(case.dtype)) * case.sample.condition
    for got, want in zip(run.results, answers, strict=True):
        np.testing.assert_allclose(got.numpy(), _array(want), rtol=close, atol=close)
    if not any(a.requires_grad for a in answers):
        return
    rng = np.random.default_rng(5)
    cotangents = [direction(rng, _array(a)) if a.requires_grad else None for a in answers]
    with _nothing_where_refused():
        theirs = _gradients(answers, tensors, cotangents, second)
    grads = backward_all(run.results, cotangents, create_graph=second)
    loose = max(close, 1e-7)  # some of PyTorch's gradients have constants rounded to float32
    _compare(gradient_arrays(grads, run.tracked), theirs, loose, "the gradient")
    if not second or not any(g is not None and g.requires_grad for g in theirs):
        return
    weights = [None if g is None else direction(rng, _array(g)) for g in theirs]
    with _nothing_where_refused():
        seconds = _gradients(theirs, tensors, weights, False)
    found = [None if x is None else grads.get(x) for x in run.tracked]
    pairs = [(g, w) for g, w in zip(found, weights, strict=True) if g is not None]
    ours = backward_all([g for g, _ in pairs], [w for _, w in pairs])
    _compare(gradient_arrays(ours, run.tracked), seconds, 10 * loose, "the second gradient")


@contextlib.contextmanager
def _nothing_where_refused() -> Iterator[None]:
    try:
        yield
    except (TypeError, RuntimeError, ValueError) as error:
        # PyTorch does not take this call, such as an empty reduction; the test counts the others.
        raise NothingToCheckError from error


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.numpy(force=True))


def _gradients(
    answers: Sequence[Any], tensors: Sequence[Any], cotangents: Sequence[Any], graph: bool
) -> list[Any]:
    """PyTorch's gradients by the tensors that want one, zeros where there is none."""
    import torch

    chosen = [
        (a, torch.tensor(c, dtype=a.dtype))
        for a, c in zip(answers, cotangents, strict=True)
        if a is not None and a.requires_grad
    ]
    wanted = [t for t in tensors if t.requires_grad]
    got = iter(
        torch.autograd.grad(
            [a for a, _ in chosen], wanted, [c for _, c in chosen],
            create_graph=graph, allow_unused=True,
        )
    )  # fmt: skip
    found = [next(got) if t.requires_grad else None for t in tensors]
    return [
        torch.zeros_like(t) if g is None and t.requires_grad else g
        for g, t in zip(found, tensors, strict=True)
    ]


def _compare(
    ours: Sequence[np.ndarray | None], theirs: Sequence[Any], tolerance: float, what: str
) -> None:
    for number, (g, want) in enumerate(zip(ours, theirs, strict=True)):
        if g is not None:
            np.testing.assert_allclose(
                g, _array(want), rtol=tolerance, atol=tolerance,
                err_msg=f"{what} by input {number}",
            )  # fmt: skip


@functools.cache
def _adapted() -> TorchFunctions:
    return TorchFunctions()


def _function(case: Case) -> Callable[..., Any]:
    import torch

    name = case.operation.name
    if name in ADAPTED:
        adapted: Callable[..., Any] = getattr(_adapted(), name)
        return adapted
    found: Any = torch
    for part in COUNTERPARTS[name].format(rank=case.arrays[0].ndim - 2).split("."):
        found = getattr(found, part)
    return functools.partial(_in_their_words, found, name)


def _call(case: Case, tensors: list[Any]) -> list[Any]:
    """PyTorch's results for the arguments of a case."""
    import torch

    args, kwargs = fill_arrays(case.tree(), list(tensors))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on how else to call it
        answer = _function(case)(*args, **kwargs)
        if case.sample.view is not None:
            parts = [answer] if isinstance(answer, torch.Tensor) else list(answer)
            answer = case.sample.view(*parts)
    return [answer] if isinstance(answer, torch.Tensor) else list(answer)


def _in_their_words(function: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    renamed = {_KEYWORDS.get(k, k): v for k, v in kwargs.items()}
    if name in ("softmax", "log_softmax"):
        renamed.setdefault("dim", -1)
    if name == "logsumexp" and renamed.get("dim") is None:
        renamed["dim"] = tuple(range(args[0].ndim))
    if name in ("var", "std"):
        renamed.setdefault("correction", 0)
    return function(*args, **renamed)
