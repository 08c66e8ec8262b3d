"""NumPy's functions, such as `np.exp` and `np.stack`, on tensors and cells: the operation meant.

`np.exp(x)` is `it.exp(x)`: a tensor on the device of `x`, whose gradient is recorded. NumPy's own
code would read the values and give an array, and the gradient would be lost without a word. What
has no operation of the same meaning, and what writes into arrays, is refused with what to write.
Functions whose outcome is no tensor anyway, such as `np.save` and `np.allclose`, read the values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from .errors import ArgumentError, OperandError
from .late_imports import load
from .numpy_table import CALLS, is_harmless, translated
from .other_names import table

_OTHERS = table("""
absolute fabs: abs
arccos: acos
arccosh: acosh
arcsin: asin
arcsinh: asinh
arctan: atan
arctan2: atan2
arctanh: atanh
conjugate: conj
degrees: rad2deg
invert: bitwise_invert
left_shift: bitwise_left_shift
power: pow
radians: deg2rad
right_shift: bitwise_right_shift
rint: round
true_divide: divide
""")
"""Operations that are called otherwise than NumPy's function of the same meaning."""


def universal(
    ops: ModuleType, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """What `ufunc(*inputs)` is where a tensor or a cell is among the inputs.

    Args:
        ops: has the operations by name.
        ufunc: NumPy's function.
        method: "__call__", or the name of one of its methods, such as "reduce".
        inputs: what it was called with.
        options: and by name.

    Raises:
        ArgumentError: a method of the function, an option such as `out=`, or a function that no
            operation has the meaning of.
        OperandError: an array beside a tensor, as for the operation itself.
    """
    name = ufunc.__name__
    if "out" in options:
        raise ArgumentError(
            f"np.{name}: a tensor does not go into an array, and tensors never change; write "
            "array += x.numpy(), or compute with asarray(array)"
        )
    known = _OTHERS.get(name, name)
    if method != "__call__":
        raise ArgumentError(
            f"np.{name}.{method}: NumPy's methods of functions take arrays; write "
            f"np.{name}.{method}(x.numpy()), or an operation such as it.sum(x), it.max(x), "
            "it.cumulative_sum(x), it.outer(x, y), x.at[i].add(y)"
        )
    if options:
        raise ArgumentError(
            f"np.{name}: there is no {next(iter(options))}= with tensors; write it.{known}(...), "
            "and it.where(...) or x.astype(...) around it"
        )
    if name == "divmod":
        return ops.floor_divide(*inputs), ops.remainder(*inputs)
    function = getattr(ops, known, None)
    if function is None:
        raise ArgumentError(
            f"np.{name}: ingle.tensor has no operation of this meaning; write "
            f"it.asarray(np.{name}(x.numpy())), which records no gradient"
        )
    return function(*inputs)


_DESCRIBE = frozenset({"shape", "ndim", "size"})
"""Functions that ask for attributes, and wait for no values."""
_READ = frozenset({
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str",
    "atleast_1d", "atleast_2d", "atleast_3d", "can_cast", "common_type", "einsum_path",
    "iscomplexobj", "isrealobj", "ix_", "may_share_memory", "min_scalar_type", "result_type",
    "save", "savetxt", "savez", "savez_compressed", "shares_memory", "argpartition",
    "diag_indices_from", "histogram2d", "histogram_bin_edges", "histogramdd", "intersect1d",
    "lexsort", "nanargmax", "nanargmin", "packbits", "setdiff1d", "setxor1d", "tril_indices_from",
    "triu_indices_from", "union1d", "unpackbits", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
})  # fmt: skip
"""Functions that read values. What they give is text, a file, a truth or a dtype; an array of
indices, counts or distinct values, which have no gradient; or, of the `atleast_` kind, the array
that libraries make of what they are given."""
_WRITE = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
"""Functions that write into their first argument."""


def arrayed(value: Any, held: Callable[[Any], Any]) -> Any:
    """A value, and what lists and tuples of it hold, as NumPy takes it."""
    if type(value) in (list, tuple):
        return type(value)([arrayed(v, held) for v in value])
    return held(value)


def function_of_arrays(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
    kind: type,
    number: Callable[[Any], Any],
) -> Any:
    """What `function(*args, **options)` is where a tensor or a cell is among the arguments.

    Args:
        function: NumPy's, one that asks its arguments what to do.
        args: what it was called with.
        options: and by name.
        kind: the class of tensors and cells.
        number: the Python number that a cell holds; anything else as it is.

    Raises:
        ArgumentError: an argument that the operation does not have.
        OperandError: a function that no operation has the meaning of, one that would write into a
            tensor, and arrays beside tensors, as for the operation itself.
    """
    module = function.__module__.removeprefix("numpy").lstrip(".")
    name = f"{module}.{function.__name__}" if module else function.__name__
    args = arrayed(args, number)
    options = {key: arrayed(value, number) for key, value in options.items()}
    if name in _DESCRIBE:
        return function._implementation(*args, **options)  # type: ignore[attr-defined]
    if name in _WRITE and isinstance(args[0], kind):
        raise OperandError(
            f"np.{name}: tensors never change; write x = x.at[index].set(values), "
            "or it.where(mask, values, x)"
        )

    def read(value: Any) -> Any:
        return np.asarray(value) if isinstance(value, kind) else value

    if name in _READ or name in _WRITE or not _holds((args, *options.values()), kind):
        return function(
            *arrayed(args, read), **{key: arrayed(value, read) for key, value in options.items()}
        )
    if name in CALLS:
        positional, named = translated(name, args, options, np._NoValue)
        found: Any = load("ingle.tensor")
        for part in CALLS[name].operation.split("."):
            found = getattr(found, part)
        return found(*positional, **named)
    meaning = load("ingle.tensor.numpy_meanings").MEANINGS.get(name)
    if meaning is None:
        raise OperandError(
            f"np.{name}: ingle.tensor has no operation of this meaning; write "
            f"np.{name}(x.numpy(), ...) for an array, which records no gradient"
        )
    options = {k: v for k, v in options.items() if not is_harmless(k, v, np._NoValue)}
    try:
        inspect.signature(meaning).bind(*args, **options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(meaning).parameters)
        raise ArgumentError(f"np.{name}: with tensors {error}; it takes {takes}") from None
    return meaning(*args, **options)


def _holds(value: Any, kind: type) -> bool:
    """Whether a tensor or a cell is there, in lists and tuples too."""
    if type(value) in (list, tuple):
        return any(_holds(v, kind) for v in value)
    return isinstance(value, kind)
