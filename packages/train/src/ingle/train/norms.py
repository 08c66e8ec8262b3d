"""The sizes of weights and gradients."""

from __future__ import annotations

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.nn import Module
from ingle.tensor import Gradients, Tensor


def norms_of(model: Module, gradients: Gradients) -> dict[str, tuple[float, float]]:
    """The Euclidean norms of each parameter and of its gradient, by the parameter's name.

    A parameter that is not floating point is left out; one without a gradient has that of 0.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> from ingle.train.norms import norms_of
    >>> model = nn.Linear(2, 1, bias=False)
    >>> model.weight.value = it.asarray([[3.0, 4.0]])
    >>> norms_of(model, it.sum(model(it.ones((1, 2)))).backward())["weight"][0]
    5.0
    """
    found: dict[str, tuple[float, float]] = {}
    pending: list[tuple[str, Tensor, Tensor | None]] = []
    with no_grad():
        for name, parameter in model.named_parameters():
            if parameter.raw.dtype.is_inexact:
                gradient = gradients.get(parameter)
                squares = _squares(parameter.raw), None if gradient is None else _squares(gradient)
                pending.append((name, *squares))
        # Read only when all are asked for, so that they are computed together.
        for name, weight, slope in pending:
            found[name] = float(weight) ** 0.5, 0.0 if slope is None else float(slope) ** 0.5
    return found


def _squares(x: Tensor) -> Tensor:
    """The sum of squares, in float32 at least: squares leave the range of float16 soon."""
    x = it.abs(x.detach())
    return it.sum(it.square(x if x.dtype.itemsize >= 4 else it.astype(x, it.float32)))
