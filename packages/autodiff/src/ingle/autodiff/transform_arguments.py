"""What transforms are called with: functions, and keywords that they have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.pytree import flatten

P = ParamSpec("P")
R = TypeVar("R")

_INSTEAD = {
    "in_dims": "write in_axes=",
    "out_dims": "write out_axes=",
    "randomness": "leave it out; numbers drawn inside are the same for all elements, so pass in "
    "those that differ",
    "chunk_size": "leave it out, and call it with parts of the batch to use less memory",
    "create_graph": "leave it out, and nest to differentiate again: grad(grad(f))(x)",
    "retain_graph": "leave it out; what a gradient needs lives as long as somebody holds it",
    "allow_unused": "leave it out; arguments without influence have a gradient of zeros",
    "has_aux": "write value_and_grad(f, has_aux=True), which returns ((value, aux), gradient)",
    "vectorize": "leave it out; the passes always run at once, as a batch",
    "strategy": 'write mode="reverse" or mode="forward"',
    "use_reentrant": "leave it out; there is one way",
    "preserve_rng_state": "leave it out; the second run draws what the first one drew",
}
"""Keywords of PyTorch's and JAX's transforms, and what to write here."""


_CHOICES = frozenset({"argnums", "in_axes", "out_axes"})
"""Arguments behind the function that choose among its own: numbers, or None, in any nesting."""


def of_functions(transform: Callable[P, R]) -> Callable[P, R]:
    """The transform, which says what to write for a value in place of its function, for the
    function's own arguments behind it, and for keywords that other libraries' transforms have.

    Args:
        transform: its first argument is a function.

    Raises:
        OperandError: the transform, when it is called, for a value in place of its function or of a
            number that chooses an argument.
        ArgumentError: the same for a keyword of PyTorch's or JAX's that it does not have.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import grad
    >>> try:
    ...     grad(it.asarray(2.0))
    ... except it.errors.OperandError as error:
    ...     print(str(error).partition(";")[0])
    grad: needs a function, got a Tensor
    """
    name, takes = transform.__name__, inspect.signature(transform).parameters
    by_place = [p.name for p in takes.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    ends = all(p.kind is not p.VAR_POSITIONAL for p in takes.values())

    @functools.wraps(transform)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and not callable(args[0]):
            raise OperandError(f"{name}: needs a function, got {_told(name, args[0])}")
        named = dict(zip(by_place, args, strict=False)) | kwargs
        wrong = [v for k, v in named.items() if k in _CHOICES and not _chooses(v)]
        if ends:
            wrong += args[len(by_place) :]
        if wrong:
            raise OperandError(
                f"{name}: got {type(wrong[0]).__name__} behind the function; {name}(f) is a "
                f"function, which takes the arguments of f: {name}(f)(x)"
            )
        for key, value in kwargs.items():
            if key not in takes and key in _INSTEAD:
                raise ArgumentError(f"{name}: there is no {key}={value!r}; {_INSTEAD[key]}")
        return transform(*args, **kwargs)

    return checked


def _chooses(value: Any) -> bool:
    return all(x is None or isinstance(x, int) for x in flatten(value))


def _told(name: str, given: Any) -> str:
    if not isinstance(given, Tensor):
        return f"{given!r}; write {name}(f, ...) for a function f"
    return (
        f"a Tensor; write {name}(f, ...) for the function f that computes it. Gradients of a "
        "tensor that is there: y.backward()[x], where x = x.require_grad() came before"
    )
