"""Gradient rules of one's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any

from ingle.tensor import Cell, Tensor, transaction, zeros
from ingle.tensor.contract import Handle
from ingle.tensor.errors import OperandError
from ingle.tensor.ops._batching import summed

from .batching import Batching, batching_of
from .nodes import Node, Parents, TrackedHandle
from .recording import decorator
from .residuals import records
from .ruled_programs import check_cotangents, is_written_down, ruled
from .transform_arguments import of_functions


@of_functions
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
    says what the gradient is. Second derivatives are those of the rule; `create_graph=True` calls
    the function once more for them.

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
        if not level or not records(level):
            return function(*args, **kwargs)[0]
        if is_written_down([args[i] for i in places]):
            return _written_down(function, args, kwargs)
        batching = batching_of(args)
        if batching is not None:
            return _below_batch(batching, function, args, kwargs)
        parents = []
        lowered = list(args)
        for i in places:
            handle = args[i]._handle
            tracked = isinstance(handle, TrackedHandle) and handle.backend.level == level
            parents.append((handle.node, handle.index) if tracked else None)
            # A tensor of its own: `x += 1` outside must not change what the rule sees.
            lowered[i] = Tensor(handle.inner if tracked else handle)
        call = _Call(function, lowered, kwargs)
        result, rule = call.first()
        if any(isinstance(a, Tensor) and a.backend.level for a in lowered):
            # At the levels below, too, nothing but the rule says what the gradient is.
            result = run(*lowered, **kwargs)
        results = _as_tuple(result)
        node = _Custom(tuple(parents), level, call, places, rule, results)
        wrapped = tuple(
            Tensor(TrackedHandle(decorator(r._handle.backend, level), r._handle, node, k))
            if r.dtype.is_inexact else r
            for k, r in enumerate(results)
        )  # fmt: skip
        return wrapped if isinstance(result, tuple) else wrapped[0]

    return run


class _Call:
    """A call of a function with its own rule: what it takes to get the rule again."""

    def __init__(
        self,
        function: Callable[..., tuple[Any, Callable[..., Any]]],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.reads: dict[Cell[Any], Any] = {}
        self.context = copy_context()

    @property
    def name(self) -> str:
        return self.function.__name__

    def first(self) -> tuple[Any, Callable[..., Any]]:
        with transaction() as scope:
            got = _checked(self.name, self.function(*self.args, **self.kwargs))
        self.reads = dict(scope.reads)
        return got

    def again(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The rule for other arguments, where cells show what they did and nothing is written."""

        def run() -> Callable[..., Any]:
            with transaction(commit=False, replay=self.reads):
                return _checked(self.name, self.function(*args, **self.kwargs))[1]

        return self.context.copy().run(run)


def _checked(name: str, got: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(got, tuple) or len(got) != 2 or not callable(got[1]):
        raise OperandError(
            f"custom_gradient: {name} must return (result, gradient function), "
            f"got {type(got).__name__}"
        )
    return got


def _written_down(
    function: Callable[..., tuple[Any, Callable[..., Any]]],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """A call where it is only traced: one step of a program."""
    name = function.__name__
    single: list[bool] = []

    def of_tensors(*tensors: Tensor) -> tuple[Sequence[Tensor], Callable[..., Any]]:
        rest = iter(tensors)
        shown = [next(rest) if isinstance(a, Tensor) else a for a in args]
        result, rule = _checked(name, function(*shown, **kwargs))
        single.append(not isinstance(result, tuple))
        return _as_tuple(result), rule

    results = tuple(ruled(name, of_tensors, [a for a in args if isinstance(a, Tensor)]))
    return results[0] if single[0] else results


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

    __slots__ = ("avals", "call", "level", "places", "results", "rule")

    def __init__(
        self,
        parents: Parents,
        level: int,
        call: _Call,
        places: Sequence[int],
        rule: Callable[..., Any],
        results: tuple[Tensor, ...],
    ) -> None:
        super().__init__(parents, outputs=len(results))
        self.level = level
        self.call = call
        self.places = places
        self.rule = rule
        self.avals = [(call.args[i].shape, call.args[i].dtype) for i in places]
        self.results = [(r.shape, r.dtype, r.device) for r in results]

    def kept(self) -> Iterable[Handle]:
        return [self.call.args[i]._handle for i in self.places]

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        given = [
            zeros(shape, dtype=dtype, device=device) if g is None else g
            for g, (shape, dtype, device) in zip(cotangents, self.results, strict=True)
        ]
        # To differentiate the rule in turn, it is asked for again with arguments that are tracked.
        got: Any = (self.call.again(self._tracked()) if tracked else self.rule)(*given)
        cotangents_of: tuple[Tensor | None, ...] = got if isinstance(got, tuple) else (got,)
        check_cotangents(self.call.name, cotangents_of, self.avals)
        return cotangents_of

    def _tracked(self) -> list[Any]:
        args = list(self.call.args)
        for i, parent in zip(self.places, self.parents, strict=True):
            if parent is not None:
                handle = args[i]._handle
                backend = decorator(handle.backend, self.level)
                args[i] = Tensor(TrackedHandle(backend, handle, *parent))
        return args
