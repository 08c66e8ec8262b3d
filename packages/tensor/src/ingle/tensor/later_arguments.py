"""Arguments of PyTorch's calls that come after the first ones, by name or by position.

Functions here take most of their options by name; layers' functions take them in PyTorch's order
as well, as programs that are moved over write them. What another call with PyTorch's options has to
be is said where it fails: one that goes through costs nothing more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from .errors import ArgumentError
from .prepared import known_calls

_NUMPYS = frozenset({"dtype", "out"})
_QUOTIENT = 'floor_divide(x, y) for "floor", trunc(x / y) for "trunc"'
_CAST = 'write {name}(x.astype("{value}"), axis=...)'
_BY_PLACE = "it goes by position"
_RUNNING = (
    "the layers of ingle.nn keep running statistics; batch_norm_training(x) gives the batch's"
)
_HERMITIAN = (
    "leave it out for a Hermitian matrix; of others (x + x.conj().mT) / 2 is taken, and not one "
    "triangle: {name}(tril(x) + tril(x, k=-1).conj().mT)"
)
_DENSE = "leave it out; gradients are dense"
_RELATIVE = "write rtol=, which is relative to the largest singular value"
_ANY = "leave it out; it is right for Hermitian matrices, too"
_REDUCTION = 'write reduction="mean", "sum" or "none"'
_NEVER_CHANGE = "leave it out; tensors never change, {name} returns the result"
_IN_PLACE = (
    "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6",
    "selu", "silu", "threshold",
)  # fmt: skip
"""Functions that PyTorch has in place, too."""
_OPTIONS: dict[tuple[str, str] | str, str] = {
    ("add", "alpha"): "write x + {value} * y",
    ("subtract", "alpha"): "write x - {value} * y",
    ("divide", "rounding_mode"): f"write {_QUOTIENT}",
    ("softmax", "dtype"): _CAST, ("log_softmax", "dtype"): _CAST, ("softmin", "dtype"): _CAST,
    ("diagonal", "dim1"): "it is of the last two axes; write "
    "diagonal(moveaxis(x, (dim1, dim2), (-2, -1)))",
    ("diagonal", "dim2"): "it is of the last two axes; write "
    "diagonal(moveaxis(x, (dim1, dim2), (-2, -1)))",
    ("matrix_norm", "dim"): "it is of the last two axes; write "
    "matrix_norm(moveaxis(x, {value}, (-2, -1)))",
    ("matrix_norm", "axis"): "it is of the last two axes; write "
    "matrix_norm(moveaxis(x, {value}, (-2, -1)))",
    ("flatten", "start_dim"): "write start_axis={value}",
    ("flatten", "end_dim"): "write end_axis={value}",
    ("lstsq", "driver"): "leave it out; the backend chooses the algorithm",
    ("lstsq", "rcond"): "write rtol={value}",
    ("cond", "p"): "write ord={value}",
    ("tril", "diagonal"): "write k={value}", ("triu", "diagonal"): "write k={value}",
    ("diag", "diagonal"): "write offset={value}",
    ("topk", "sorted"): "leave it out; the values always come in order",
    **{(name, "inplace"): _NEVER_CHANGE for name in _IN_PLACE},
    **dict.fromkeys(
        (("embedding", "max_norm"), ("embedding_bag", "max_norm"), ("embedding", "norm_type"),
         ("embedding_bag", "norm_type")),
        "nothing changes a table of weights when it is read; clip its rows after each step",
    ),
    ("arange", "end"): "write stop={value}", ("linspace", "end"): _BY_PLACE,
    ("linspace", "steps"): "write num={value}", ("logspace", "end"): _BY_PLACE,
    ("logspace", "steps"): "write num={value}",
    ("as_strided", "storage_offset"): "write offset={value}",
    ("as_strided", "stride"): "write strides={value}",
    ("backward", "gradient"): "it goes by position",
    ("backward", "inputs"): "look up grads[x] in what it returns",
    ("backward", "retain_graph"): "leave it out; what was recorded stays while its result does",
    ("batch_norm", "momentum"): _RUNNING, ("instance_norm", "momentum"): _RUNNING,
    ("diag_embed", "dim1"): "write axis1={value}", ("diag_embed", "dim2"): "write axis2={value}",
    ("dropout", "train"): "write training={value}",
    ("einsum", "path"): "leave it out; the order of products is found",
    ("eigh", "UPLO"): _HERMITIAN, ("eigvalsh", "UPLO"): _HERMITIAN,
    ("embedding", "sparse"): _DENSE, ("embedding_bag", "sparse"): _DENSE,
    ("embedding", "scale_grad_by_freq"): "divide by it.bincount(indices) yourself",
    ("embedding_bag", "scale_grad_by_freq"): "divide by it.bincount(indices) yourself",
    ("isin", "assume_unique"): "leave it out",
    ("lu_solve", "left"): "write lu_solve(packed, pivots, b.mT, adjoint=True).mT for real matrices",
    ("matrix_rank", "tol"): _RELATIVE, ("matrix_rank", "atol"): _RELATIVE,
    ("matrix_rank", "hermitian"): _ANY, ("pinv", "hermitian"): _ANY,
    ("pinv", "rcond"): "write rtol={value}", ("pinv", "atol"): _RELATIVE,
    ("nonzero", "as_tuple"): "it is a tuple with the places along each axis; "
    "stack(nonzero(x), axis=-1) has a row for each place",
    ("pad", "pad"): "it goes by position and has a pair for each axis, the first axis first: "
    "PyTorch's (1, 2) is pad(x, ((0, 0), (1, 2))) of a matrix",
    ("quantile", "method"): "write interpolation={value!r}",
    ("nanquantile", "method"): "write interpolation={value!r}",
    ("normal", "size"): "write shape={value}", ("uniform", "size"): "write shape={value}",
    ("randint", "size"): "write shape={value}",
    ("roll", "shifts"): "write shift={value}",
    ("searchsorted", "out_int32"): 'leave it out, or write searchsorted(...).astype("int32")',
    ("searchsorted", "right"): 'write side="right" for True, side="left" for False',
    ("split", "split_size"): _BY_PLACE, ("split", "split_size_or_sections"): _BY_PLACE,
    ("stft", "return_complex"): "leave it out; the result is complex",
    ("svd", "driver"): "leave it out; the backend chooses the algorithm",
    ("svdvals", "driver"): "leave it out; the backend chooses the algorithm",
    ("svd", "compute_uv"): "write svdvals(x) for False",
    ("tensor_split", "sections"): _BY_PLACE, ("tensor_split", "indices"): _BY_PLACE,
    ("unique", "sorted"): "leave it out; the values always come in order",
    "dim": "write axis={value}", "keepdim": "write keepdims={value}",
    "requires_grad": "write {name}(...).require_grad()",
    "pin_memory": "leave it out", "memory_format": "leave it out", "layout": "leave it out",
    "size_average": _REDUCTION, "reduce": _REDUCTION,
    "cudnn_enabled": "leave it out", "cudnn_enable": "leave it out",
    "compute_mode": "leave it out",
    "input": "the first argument goes by position",
    "inplace": _NEVER_CHANGE, "out": _NEVER_CHANGE,
}  # fmt: skip
"""What to write for an option that only PyTorch has, by function and option, or by option alone."""


_FEWER = {
    "where": "of a condition alone NumPy and PyTorch give the positions; write nonzero(condition)",
}
"""What to write for a call that leaves out arguments, by function, where others have such one."""

_KNOWN = frozenset({*_FEWER, "clip", *[key[0] for key in _OPTIONS if isinstance(key, tuple)]})
"""Functions whose calls are looked at also if they have no arguments by name alone: NumPy gives
`clip` an `out=None`."""

_DIMENSIONS = ("1d", "2d", "3d")
_ORDERS = {
    **{f"conv{d}": ("stride", "padding", "dilation", "groups") for d in _DIMENSIONS},
    **{f"conv_transpose{d}": ("stride", "padding", "output_padding", "groups", "dilation")
       for d in _DIMENSIONS},
    **{f"max_pool{d}": ("stride", "padding", "dilation", "ceil_mode", "return_indices")
       for d in _DIMENSIONS},
    **{f"avg_pool{d}": ("stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
       for d in _DIMENSIONS},
    **{f"adaptive_max_pool{d}": ("return_indices",) for d in _DIMENSIONS},
    **{f"lp_pool{d}": ("stride", "ceil_mode") for d in _DIMENSIONS},
    **{f"max_unpool{d}": ("stride", "padding", "output_size") for d in _DIMENSIONS},
    "fold": ("dilation", "padding", "stride"), "unfold": ("dilation", "padding", "stride"),
    "layer_norm": ("eps",), "group_norm": ("eps",), "rms_norm": ("eps",),
    "local_response_norm": ("alpha", "beta", "k"),
    "dropout": ("training",), "embedding": ("padding_idx",),
    "scaled_dot_product_attention": ("dropout_p", "is_causal"),
    "interpolate": ("mode", "align_corners", "recompute_scale_factor"),
    "grid_sample": ("mode", "padding_mode", "align_corners"), "affine_grid": ("align_corners",),
    "pairwise_distance": ("p", "eps", "keepdims"),
    "ctc_loss": ("blank", "reduction", "zero_infinity"),
    "gaussian_nll_loss": ("full", "eps", "reduction"),
}  # fmt: skip
"""Options that PyTorch's functions of layers take by position, too, behind ours, by function."""


def with_advice(function: FunctionType) -> Callable[..., Any]:
    """A function whose error for arguments that it does not take says how they are called here;
    itself if it takes none by name and nothing is known of it."""
    code = inspect.unwrap(function).__code__
    name = function.__name__
    known = known_calls(function)
    if not code.co_kwonlyargcount and name not in _KNOWN and known is None:
        return function
    order, positional = _ORDERS.get(name, ()), code.co_argcount

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if known is not None:
            found = known(call, args, options)
            if found is not None:
                return found
        if len(args) > positional:
            extra = args[positional:]
            if len(extra) <= len(order) and options.keys().isdisjoint(order[: len(extra)]):
                options.update(zip(order, extra, strict=False))
                args = args[:positional]
        try:
            return function(*args, **options)
        except TypeError:
            return called_otherwise(call, function, args, options)

    _plain[call] = function
    return call


def called_otherwise(
    call: Callable[..., Any], function: FunctionType, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """What a call gives without the options that NumPy sets, or the error that is being handled,
    with advice where there is any.

    Args:
        call: what is called once more.
        function: what did not take the arguments.
        args, options: the arguments.
    """
    asked = without_numpys(options)
    if len(asked) < len(options):
        return call(*args, **asked)
    refuse(function, args, options)
    raise


def without_numpys(options: dict[str, Any]) -> dict[str, Any]:
    """The options less those that NumPy's functions, such as `np.mean(x)` and `np.clip(x, 0, 1)`,
    hand on to a method even if they are None."""
    return {k: v for k, v in options.items() if v is not None or k not in _NUMPYS}


_plain: dict[Callable[..., Any], FunctionType] = {}


def without_advice(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `with_advice` was given, for operators: they pass their operands and no option."""
    return _plain.get(function, function)


def refuse(function: FunctionType, args: Sequence[Any], options: dict[str, Any]) -> None:
    """Raises for arguments that a function does not take, if it is known what to write.

    Raises:
        ArgumentError: an option that PyTorch has.
        TypeError: another option that it does not have, or more arguments by position than it
            takes; says the names of those that it has.
    """
    code, name = inspect.unwrap(function).__code__, function.__name__
    positional, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    if name in _FEWER and len(args) == 1 and not options:
        raise ArgumentError(f"{name}: {_FEWER[name]}")
    for option, value in options.items():
        told = _OPTIONS.get((name, option)) or _OPTIONS.get(option)
        if option not in names and told is not None:
            raise ArgumentError(
                f"{name}: there is no {option}={value!r}; {told.format(name=name, value=value)}"
            )
    placed = next((n for n in names[: code.co_posonlyargcount] if n in options), None)
    if placed is not None:
        shown = ", ".join(names[: code.co_posonlyargcount])
        raise TypeError(f"{name}: {placed} goes by position, as in {name}({shown})")
    unknown = [option for option in options if option not in names]
    if unknown and not code.co_flags & inspect.CO_VARKEYWORDS:
        takes = [*names[:positional], *(f"{n}=" for n in names[positional:])]
        raise TypeError(
            f"{name}() got an unexpected keyword argument {unknown[0]!r}; it takes "
            f"{', '.join(takes)}"
        )
    behind = names[positional:]
    if len(args) > positional and behind and not code.co_flags & inspect.CO_VARARGS:
        others = "the others are" if len(behind) > 1 else "the other is"
        raise TypeError(
            f"{name}: takes {positional} positional argument{'s' * (positional > 1)}, got "
            f"{len(args)}; {others} {', '.join(f'{n}=' for n in behind)}"
        )
