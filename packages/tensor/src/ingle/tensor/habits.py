"""PyTorch's spellings of arguments: `dim=`, `keepdim=`, an axis by position, sizes one by one.

Public functions that take an axis accept them besides the standard's, where both mean the same.
Where PyTorch's call means something else (`x.max(dim=1)` gives two tensors there), it is an error
that says what to write. Rooms call each other without this.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .errors import ArgumentError
from .later_arguments import called_otherwise, refuse, with_advice
from .prepared import known_calls

_PAIR = "PyTorch gives the values and their indices there; write "
_DIFFERENT = {
    "max": _PAIR + "max(x, axis={0}) and argmax(x, axis={0}); elementwise: maximum(x, y)",
    "min": _PAIR + "min(x, axis={0}) and argmin(x, axis={0}); elementwise: minimum(x, y)",
    "median": _PAIR + "median(x, axis={0}), or kthvalue(x, k, axis={0}) for both",
    "nanmedian": _PAIR + "nanmedian(x, axis={0})",
    "sort": _PAIR + "sort(x, axis={0}) and argsort(x, axis={0})",
    "var": "PyTorch divides by n - 1 there; write var(x, axis={0}, correction=1)",
    "std": "PyTorch divides by n - 1 there; write std(x, axis={0}, correction=1)",
    "repeat": "PyTorch's x.repeat(2, 3) is tile(x, (2, 3)); repeat(x, n, axis=0) repeats elements",
    "scatter_add": 'use put_along_axis(x, indices, values, axis=..., reduce="sum"), which is '
    "PyTorch's scatter_add",
    "scatter_reduce": "use put_along_axis(x, indices, values, axis=..., reduce=...), which is "
    "PyTorch's scatter_reduce",
}
"""What PyTorch's spelling of a call would have meant, by function."""
_SPELLINGS = frozenset({"dim", "dims", "keepdim", "unbiased"})
"""PyTorch's names of arguments."""

_FIRST = {
    "diff": "n", "normalize": "p", "vector_norm": "ord", "fftn": "s", "ifftn": "s", "rfftn": "s",
    "irfftn": "s", **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), "n"),
}  # fmt: skip
"""What PyTorch and NumPy take by position before the axis, by function."""
_LAST = {"normalize": "eps", "cosine_similarity": "eps"}
"""What PyTorch takes by position behind the axis, by function."""

_MOST_OF_PYTORCH = 3
"""Arguments that PyTorch's functions with another meaning take behind the first."""


def install(namespace: dict[str, Any], module: str = "ingle.tensor") -> None:
    """Gives the public functions of a namespace the habits, each where it takes an axis or shape.

    Args:
        namespace: of a module, changed in place.
        module: where the functions are found by name, which is what pickles keep of them.
    """
    for name, function in list(namespace.items()):
        if type(function) is FunctionType and not name.startswith("_"):
            made = with_habits(function)
            if made is not function:
                made.__module__, made.__qualname__ = module, name
                namespace[name] = made


def with_habits(function: FunctionType) -> Callable[..., Any]:
    """A function that understands PyTorch's spellings, or says how they are called here; itself if
    it takes neither an axis nor a shape nor anything by name."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if function.__code__.co_filename == __file__:
        return function
    if names[:1] == ("shape",) and code.co_argcount == 1:
        return _with_sizes(function)
    axis = next((n for n in ("axis", "axes") if n in names), None)
    if axis is None:
        return with_advice(function)
    return _with_dim(function, axis, names, code.co_argcount)


def _with_sizes(function: FunctionType) -> Callable[..., Any]:
    known = known_calls(function)

    @functools.wraps(function)
    def call(*sizes: Any, **options: Any) -> Any:
        if known is not None:
            found = known(call, sizes, options)
            if found is not None:
                return found
        try:
            return function(sizes, **options) if len(sizes) > 1 else function(*sizes, **options)
        except TypeError:
            refuse(function, sizes[:1], options)
            raise

    return call


def _with_dim(
    function: FunctionType, axis: str, names: tuple[str, ...], positional: int
) -> Callable[..., Any]:
    behind = names[positional:]
    first = _FIRST.get(function.__name__, axis)
    last = _LAST.get(function.__name__, "keepdims")
    wanted = dict.fromkeys((first, axis, last))
    by_position = [n for n in wanted if n in behind] if axis in behind else []

    def spelled(args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """The arguments by the standard's names, less those that go by position."""
        name, extra = function.__name__, args[positional:]
        if "unbiased" in options and "correction" in names:
            raise ArgumentError(
                f"{name}: unbiased={options['unbiased']!r} is PyTorch's; write {name}(x, axis=..., "
                f"correction={int(bool(options['unbiased']))})"
            )
        found = dict(zip(by_position, extra, strict=False))
        if len(extra) > len(by_position) or not _is_axis(found.get(axis)):
            if len(extra) <= _MOST_OF_PYTORCH:
                _refuse(name, options, "...")
            raise TypeError(
                f"{name}: takes {positional} positional argument{'s' * (positional > 1)}, got "
                f"{len(args)}; the others are {', '.join(f'{n}=' for n in behind)}"
            )
        for theirs, ours in (("dim", axis), ("dims", axis), ("keepdim", "keepdims")):
            if theirs in options and theirs not in names:
                if ours in found or ours in options or ours not in names:
                    raise TypeError(
                        f"{name}: {theirs}={options[theirs]!r} is one argument too many"
                    )
                found[ours] = options.pop(theirs)
        _refuse(name, options, found.get(axis, "..."))
        return {**options, **found}

    known = known_calls(function)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if known is not None:
            found = known(call, args, options)
            if found is not None:
                return found
        if len(args) > positional or (options and not _SPELLINGS.isdisjoint(options)):
            options = spelled(args, options)
            args = args[:positional]
        try:
            return function(*args, **options)
        except TypeError:
            return called_otherwise(call, function, args, options)

    return call


def _refuse(name: str, options: dict[str, Any], axis: object) -> None:
    if name in _DIFFERENT and "correction" not in options:
        raise ArgumentError(f"{name}: {_DIFFERENT[name].format(axis)}")


def _is_axis(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(isinstance(v, int) for v in value)
    return value is None or isinstance(value, int)
