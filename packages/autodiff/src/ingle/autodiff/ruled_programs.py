"""Gradient rules of one's own where a computation is only traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor import Tensor, zeros_like
from ingle.tensor.contract import Aval, Shape
from ingle.tensor.control.ruling import call_with_rule
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import DTypeError, GradientError, ShapeError
from ingle.tensor.programs import tracing

from .nodes import TrackedHandle
from .programs import connected

Rule = Callable[..., Any]


def is_written_down(tensors: Sequence[Tensor]) -> bool:
    """Whether the highest level of these records no gradients, over what is only traced."""
    handle = max(tensors, key=lambda x: x.backend.level)._handle
    return not isinstance(handle, TrackedHandle) and handle.base().abstract


def ruled(
    name: str,
    function: Callable[..., tuple[Sequence[Tensor], Rule]],
    given: Sequence[Tensor],
) -> Sequence[Tensor]:
    """A call as one step, with its rule as a program of its own.

    Args:
        name: of the function.
        function: takes tensors and returns results and the function of their cotangents.
        given: the tensors.
    """
    with tracing(given[0].device) as front:
        results, rule = function(*[front.input(Aval(x.shape, x.dtype)) for x in given])
        active = [i for i, y in enumerate(results) if y.dtype.is_inexact]
        with tracing(given[0].device) as back:
            # What the rule computes of values of the forward pass alone is computed backward.
            front.redirect = back
            known = {i: back.input(Aval(results[i].shape, results[i].dtype)) for i in active}
            got = rule(*[known[i] if i in known else zeros_like(y) for i, y in enumerate(results)])
            cotangents = got if isinstance(got, tuple) else (got,)
            check_cotangents(name, cotangents, [(x.shape, x.dtype) for x in given])
            front.redirect = None
            found = {
                i: g
                for i, (g, x) in enumerate(zip(cotangents, given, strict=True))
                if g is not None and x.dtype.is_inexact
            }
            backward, needed = back.program(list(found.values()))
        linear = connected(
            front, list(results), backward, needed, tuple(found), tuple(active), len(given),
            apart=True,
        )  # fmt: skip
    return call_with_rule(name, linear, len(results), given)


def check_cotangents(
    name: str, cotangents: Sequence[Tensor | None], avals: Sequence[tuple[Shape, DType]]
) -> None:
    """Raises unless there is one for each tensor argument, of its shape and dtype, or None."""
    if len(cotangents) != len(avals):
        raise GradientError(
            f"{name}: its gradient function returned {len(cotangents)} cotangents for "
            f"{len(avals)} tensor arguments; numbers and other arguments have none"
        )
    for g, (shape, dtype) in zip(cotangents, avals, strict=True):
        if g is not None and g.shape != shape:
            raise ShapeError(
                f"{name}: its gradient function returned shape {g.shape} for an argument of shape "
                f"{shape}"
            )
        if g is not None and g.dtype is not dtype and dtype.is_inexact:
            raise DTypeError(
                f"{name}: its gradient function returned {g.dtype} for an argument of dtype "
                f"{dtype}; cast it with g.astype(x.dtype)"
            )
