"""Gradients of functions: `grad` and `value_and_grad`, which nest to any order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ingle.tensor import Tensor, transaction
from ingle.tensor.errors import OperandError, ShapeError
from ingle.tensor.levels import next_level

from .engine import pull
from .lifting import lifted, lowered, normal_places, shown_by, tracked_at
from .residuals import recording_at
from .tracked import showing
from .transform_arguments import of_functions


@of_functions
def grad(function: Callable[..., Tensor], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the gradient of `function` by one or several of its arguments.

    Args:
        function: returns a 0-d tensor.
        argnums: which positional arguments. Each may be a tensor, nested tuples, lists and dicts
            of tensors (the gradient has the same structure), or a cell, an object with
            `__ingle_cells__` such as a module, or nested lists, tuples and dicts of these (the
            gradient is a `Gradients` container).

    Cell writes inside are committed when the outermost call returns, and not at all if it raises.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import grad
    >>> cube = lambda x: x * x * x
    >>> grad(cube)(it.asarray(2.0)).item(), grad(grad(cube))(it.asarray(2.0)).item()
    (12.0, 12.0)
    """
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


@of_functions
def value_and_grad(
    function: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Like `grad`, but returns the value too: `(value, gradient)`.

    Args:
        function: returns a 0-d tensor, or with `has_aux` a pair of it and anything else.
        argnums: see `grad`.
        has_aux: whether there is something else; then the result is `((value, aux), gradient)`.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import value_and_grad
    >>> value, gradient = value_and_grad(lambda x: it.sum(x * x))(it.asarray([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        places = normal_places(argnums, len(args), "grad")
        with next_level() as level, recording_at(level), transaction():
            wanted = {p: lifted(args[p], level, "grad") for p in places}
            given = [wanted[i].value if i in wanted else a for i, a in enumerate(args)]
            with showing(shown_by(list(wanted.values()))):
                result = function(*given, **kwargs)
            value, aux = result if has_aux else (result, None)
            found = _pull(value, level)
        gradients = tuple(wanted[p].collect(found) for p in places)
        plain = lowered(value, level)
        shown = (plain, aux) if has_aux else plain
        return shown, (gradients if isinstance(argnums, tuple) else gradients[0])

    return run


def _pull(value: Any, level: int) -> dict[object, Tensor]:
    if not isinstance(value, Tensor):
        raise OperandError(f"grad: the function must return a tensor, got {type(value).__name__}")
    if value.shape:
        raise ShapeError(
            f"grad: the function must return a 0-d tensor, got shape {value.shape}; "
            "reduce it, for example with sum or mean"
        )
    handle = tracked_at(value, level)
    return {} if handle is None else pull([(handle, None)], False)
