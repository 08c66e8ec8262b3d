"""Gradients of functions: `grad` and `value_and_grad`, which nest to any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ingle.tensor import Cell, Gradients, Tensor, ones_like, transaction, zeros_like
from ingle.tensor.errors import ArgumentError, GradientError, OperandError, ShapeError
from ingle.tensor.pytree import flatten, unflatten

from .engine import pull
from .recording import Node, Shown, TrackedHandle, leaf, showing

_level: ContextVar[int] = ContextVar("ingle_transform_level", default=1)


@contextmanager
def next_level() -> Iterator[int]:
    """A level above all that surround this call."""
    level = _level.get() + 1
    token = _level.set(level)
    try:
        yield level
    finally:
        _level.reset(token)


def grad(function: Callable[..., Tensor], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the gradient of `function` by one or several of its arguments.

    Args:
        function: returns a 0-d tensor.
        argnums: which positional arguments. Each may be a tensor, nested tuples, lists and dicts
            of tensors (the gradient has the same structure), or a cell or an object with
            `__ingle_cells__` such as a module (the gradient is a `Gradients` container).

    Cell writes inside land when the outermost call returns, and not at all if it raises.

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
    places = argnums if isinstance(argnums, tuple) else (argnums,)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        for place in places:
            if not -len(args) <= place < len(args):
                raise ArgumentError(
                    f"grad: argnums={argnums}, but the call has {len(args)} positional arguments"
                )
        with next_level() as level, transaction():
            wanted = {p % len(args): _Wanted(args[p], level) for p in places}
            lifted = [wanted[i].lifted if i in wanted else a for i, a in enumerate(args)]
            with showing({c: s for w in wanted.values() for c, s in w.shown.items()}):
                result = function(*lifted, **kwargs)
            value, aux = result if has_aux else (result, None)
            found = _pull(value, level)
        gradients = tuple(wanted[p % len(args)].collect(found) for p in places)
        plain = _lower(value, level)
        shown = (plain, aux) if has_aux else plain
        return shown, (gradients if isinstance(argnums, tuple) else gradients[0])

    return run


class _Wanted:
    """One argument that gradients are wanted for, lifted to a level."""

    def __init__(self, argument: Any, level: int) -> None:
        self.argument = argument
        self.shown: Shown = {}
        self.cells = _cells(argument)
        if self.cells is not None:
            for cell in self.cells:
                self.shown[cell] = (cell.raw._handle, Tensor(leaf(cell.value._handle, level, cell)))
            self.lifted = argument
            return
        self.keys: list[Node] = []
        self.lifted = unflatten(argument, [self._lift(x, level) for x in flatten(argument)])

    def _lift(self, x: Any, level: int) -> Tensor:
        if not isinstance(x, Tensor) or not x.dtype.is_inexact:
            kind = f"a {x.dtype} tensor" if isinstance(x, Tensor) else type(x).__name__
            raise OperandError(
                f"grad: differentiates by float tensors, nested tuples, lists and dicts of them, "
                f"cells and modules; got {kind}"
            )
        handle = leaf(x._handle, level)
        self.keys.append(handle.node)
        return Tensor(handle)

    def collect(self, found: dict[object, Tensor]) -> Any:
        if self.cells is not None:
            return Gradients({c: found[c] if c in found else zeros_like(c.raw) for c in self.cells})
        given = flatten(self.argument)
        return unflatten(
            self.argument,
            [
                found[k] if k in found else zeros_like(x)
                for k, x in zip(self.keys, given, strict=True)
            ],
        )


def _cells(argument: Any) -> list[Cell[Any]] | None:
    if isinstance(argument, Cell):
        if not argument.differentiable:
            raise GradientError("grad: this cell is frozen; its gradient is not recorded")
        return [argument]
    show = getattr(argument, "__ingle_cells__", None)
    return None if show is None else [c for c in show() if c.differentiable]


def _pull(value: Any, level: int) -> dict[object, Tensor]:
    if not isinstance(value, Tensor):
        raise OperandError(f"grad: the function must return a tensor, got {type(value).__name__}")
    if value.shape:
        raise ShapeError(
            f"grad: the function must return a 0-d tensor, got shape {value.shape}; "
            "reduce it, for example with sum or mean"
        )
    handle = value._handle
    if not isinstance(handle, TrackedHandle) or handle.backend.level != level:
        return {}
    return pull([(handle, ones_like(Tensor(handle.inner)))], False)


def _lower(value: Tensor, level: int) -> Tensor:
    handle = value._handle
    if isinstance(handle, TrackedHandle) and handle.backend.level == level:
        return Tensor(handle.inner)
    return value
