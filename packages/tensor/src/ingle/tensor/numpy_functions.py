"""NumPy's universal functions, such as `np.exp`, on tensors and cells: the operation of that name.

`np.exp(x)` is `it.exp(x)`: a tensor on the device of `x`, whose gradient is recorded. NumPy's own
code would read the values and give an array, and the gradient would be lost without a word. What
has no operation of the same meaning, and what writes into arrays, is refused with what to write.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .errors import ArgumentError
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
