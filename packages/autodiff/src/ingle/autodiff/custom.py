"""Gradient rules of one's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor import Tensor, zeros
from ingle.tensor.errors import GradientError, OperandError, ShapeError
from ingle.tensor.ops._batching import summed

from .batching import Batching, batching_of
from .recording import Node, TrackedHandle, decorator, is_recording


def custom_gradient(
    function: Callable[..., tuple[Any, Callable[..., Any]]],
) -> Callable[..., Any]:
    """Makes a function that brings its own gradient rule.

    Args:
        function: takes tensors (and anything else) and returns a pair: the result, a tensor or a
            tuple of them, and a function from the cotangents of the results to a tuple of those
            of the tensor arguments, in their order, with None for a zero one. With one tensor
            argument it may return the cotangent itself.

    Inside, the arguments are constants at the level being recorded, so that nothing but the rule
    says what the gradient is.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import custom_gradient
    >>> @custom_gradient
    ... def clipped(x):
    ...     return x, lambda g: it.clip(g, -1.0, 1.0)
    >>> x = it.asarray(2.0).require_grad()
    >>> (clipped(x) * 10.0).backward()[x].item()
    1.0
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        level = max((args[i].backend.level for i in places), default=0)
        if not level or not is_recording():
            return function(*args, **kwargs)[0]
        batching = batching_of(args)
        if batching is not None:
            return _below_batch(batching, function, args, kwargs)
        parents = []
        lowered = list(args)
        for i in places:
            handle = args[i]._handle
            tracked = isinstance(handle, TrackedHandle) and handle.backend.level == level
            parents.append((handle.node, handle.index) if tracked else None)
            if tracked:
                lowered[i] = Tensor(handle.inner)
        result, rule = _checked(function.__name__, function(*lowered, **kwargs))
        if any(isinstance(a, Tensor) and a.backend.level for a in lowered):
            # At the levels below, too, nothing but the rule says what the gradient is.
            result = run(*lowered, **kwargs)
        results = _as_tuple(result)
        node = _Custom(
            tuple(parents), function.__name__, rule, [lowered[i] for i in places], results
        )
        wrapped = tuple(
            Tensor(TrackedHandle(decorator(r._handle.backend, level), r._handle, node, k))
            if r.dtype.is_inexact else r
            for k, r in enumerate(results)
        )  # fmt: skip
        return wrapped if isinstance(result, tuple) else wrapped[0]

    return run


def _checked(name: str, got: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(got, tuple) or len(got) != 2 or not callable(got[1]):
        raise OperandError(
            f"custom_gradient: {name} must return (result, gradient function), "
            f"got {type(got).__name__}"
        )
    return got


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _below_batch(
    top: Batching,
    function: Callable[..., tuple[Any, Callable[..., Any]]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call inside of `vmap`: the same function of whole batches, with a rule of whole batches."""
    carried = [top.carries(a) for a in args]
    of_tensors = [c for a, c in zip(args, carried, strict=True) if isinstance(a, Tensor)]

    @functools.wraps(function)
    def whole(*values: Any) -> tuple[Any, Callable[..., Any]]:
        lifted = [top.lift(v) if c else v for v, c in zip(values, carried, strict=True)]
        result, rule = _checked(function.__name__, function(*lifted, **kwargs))

        def whole_rule(*cotangents: Tensor) -> tuple[Tensor | None, ...]:
            parts = _as_tuple(rule(*[top.lift(g) for g in cotangents]))
            if len(parts) != len(of_tensors):
                return parts
            # What is the same for all elements gets the cotangents of all.
            return tuple(
                g if g is None else top.whole(g) if c else summed(top.whole(g))
                for g, c in zip(parts, of_tensors, strict=True)
            )

        wholes = tuple(top.whole(y) for y in _as_tuple(result))
        return (wholes if isinstance(result, tuple) else wholes[0]), whole_rule

    result = custom_gradient(whole)(*[top.lower(a) for a in args])
    return tuple(map(top.lift, result)) if isinstance(result, tuple) else top.lift(result)


class _Custom(Node):
    """A call of a function with its own rule."""

    __slots__ = ("avals", "name", "results", "rule")

    def __init__(
        self,
        parents: Any,
        name: str,
        rule: Callable[..., Any],
        arguments: list[Tensor],
        results: tuple[Tensor, ...],
    ) -> None:
        super().__init__(parents, outputs=len(results))
        self.name = name
        self.rule = rule
        self.avals = [(a.shape, a.dtype) for a in arguments]
        self.results = [(r.shape, r.dtype, r.device) for r in results]

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        if tracked:
            raise GradientError(
                f"{self.name}: a custom gradient is not recorded, so create_graph=True cannot "
                "pass through it; nest grad(grad(...)) instead"
            )
        given = [
            zeros(shape, dtype=dtype, device=device) if g is None else g
            for g, (shape, dtype, device) in zip(cotangents, self.results, strict=True)
        ]
        got: Any = self.rule(*given)
        cotangents_of: tuple[Tensor | None, ...] = got if isinstance(got, tuple) else (got,)
        if len(cotangents_of) != len(self.avals):
            raise GradientError(
                f"{self.name}: its gradient function returned {len(cotangents_of)} cotangents for "
                f"{len(self.avals)} tensor arguments"
            )
        for g, (shape, _) in zip(cotangents_of, self.avals, strict=True):
            if g is not None and g.shape != shape:
                raise ShapeError(
                    f"{self.name}: its gradient function returned shape {g.shape} for an argument "
                    f"of shape {shape}"
                )
        return cotangents_of
