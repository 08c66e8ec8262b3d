"""Whole Jacobians and Hessians, and products with a Hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from ingle.tensor import Tensor, zeros
from ingle.tensor.errors import ArgumentError, DTypeError
from ingle.tensor.ops._basis import assembled, unit_tensors

from .lifting import normal_places
from .products import Linear, check_tuples, jvp, linearized, vjp
from .transform_arguments import of_functions
from .transforms import grad
from .trees import leaves, rebuild
from .vectorization import vmap

Mode = Literal["auto", "reverse", "forward"]


@of_functions
def jacobian(
    function: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, mode: Mode = "auto"
) -> Callable[..., Any]:
    """A function that returns all derivatives of the outputs by one or several arguments.

    Args:
        function: returns a real tensor, or nested tuples, lists and dicts of them.
        argnums: which positional arguments, each of any kind that `grad` takes.
        mode: `"reverse"` runs a backward pass for each element of the outputs, `"forward"` a
            forward one for each element of the arguments, `"auto"` whichever are fewer. The
            function itself runs once, and the passes at once, as a batch.

    Returns:
        For an output of shape S by an argument of shape T a tensor of shape S + T. Where the
        function returns a structure, each of its leaves is replaced by the structure of the
        argument (a tuple of them if `argnums` is one), whose leaves are the derivatives.

    Raises:
        ArgumentError: an unknown mode, or a position that the call does not have.
        DTypeError: a complex argument or an output that is not a float; differentiate real and
            imaginary parts instead.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import jacobian
    >>> jacobian(lambda x: x * x)(it.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if mode not in ("auto", "reverse", "forward"):
        raise ArgumentError(f"jacobian: mode must be 'auto', 'reverse' or 'forward', got {mode!r}")

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        places = normal_places(argnums, len(args), "jacobian")

        def by_some(*some: Any) -> Any:
            given = {**dict(enumerate(args)), **dict(zip(places, some, strict=True))}
            return function(*given.values(), **kwargs)

        linear = linearized(by_some, [args[p] for p in places], "jacobian")
        found = [_by_argument(linear, blocks) for blocks in _blocks(linear, mode)]
        return rebuild(linear.value, found if isinstance(argnums, tuple) else [f[0] for f in found])

    return run


@of_functions
def hessian(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns all second derivatives of a scalar function.

    The gradient is differentiated forward, a pass for each element of the arguments.

    Args:
        function: returns a 0-d real tensor.
        argnums: which positional arguments, each of any kind that `grad` takes.

    Returns:
        For an argument of shape T a tensor of shape T + T. For structures, and tuples of
        arguments, the structure of the gradient with each leaf replaced by the same structure.

    Raises:
        ShapeError: the function's result is not 0-d.
        DTypeError: a complex argument.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import hessian
    >>> hessian(lambda x: x[0] * x[0] * x[1])(it.asarray([3.0, 5.0])).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    """
    return jacobian(grad(function, argnums), argnums, mode="forward")


@of_functions
def hvp(
    function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The Hessian of a scalar function times a direction, without the Hessian.

    The gradient is differentiated forward along the direction (Pearlmutter: Fast exact
    multiplication by the Hessian, 1994); it costs a few times what the gradient does.

    Args:
        function: takes the primals and returns a 0-d tensor.
        primals: the arguments, each of any kind that `grad` takes.
        tangents: a direction for each, as `jvp` takes them.

    Returns:
        A tuple with the product for each argument, in its structure.

    Raises:
        OperandError, ShapeError, DTypeError: as for `grad` and `jvp`.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import hvp
    >>> x, v = it.asarray([1.0, 2.0]), it.asarray([1.0, 0.0])
    >>> hvp(lambda x: it.sum(x**3), (x,), (v,))[0].tolist()
    [6.0, 0.0]
    """
    check_tuples("hvp", primals=primals, tangents=tangents)
    everything = grad(function, tuple(range(len(primals))))
    products: tuple[Any, ...] = jvp(everything, primals, tangents)[1]
    return products


@of_functions
def vhp(
    function: Callable[..., Any], primals: tuple[Any, ...], cotangents: tuple[Any, ...]
) -> tuple[Any, ...]:
    """A vector times the Hessian of a scalar function: the gradient, differentiated backward.

    For real functions it equals `hvp`, since Hessians are symmetric; it takes one pass less and
    keeps more in memory.

    Args:
        function: takes the primals and returns a 0-d tensor.
        primals: the arguments, each of any kind that `grad` takes.
        cotangents: a vector for each, in its structure, with None for zeros.

    Returns:
        A tuple with the product for each argument, in its structure.

    Raises:
        OperandError, ShapeError, DTypeError: as for `grad` and `vjp`.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import vhp
    >>> x, v = it.asarray([1.0, 2.0]), it.asarray([0.0, 1.0])
    >>> vhp(lambda x: it.sum(x**3), (x,), (v,))[0].tolist()
    [0.0, 12.0]
    """
    check_tuples("vhp", primals=primals, cotangents=cotangents)
    pull = vjp(grad(function, tuple(range(len(primals)))), *primals)[1]
    products: tuple[Any, ...] = pull(cotangents)
    return products


def _blocks(linear: Linear, mode: Mode) -> list[list[Tensor]]:
    """For each output the derivatives by each input."""
    inputs, outputs = linear.inputs(), linear.outputs
    for x in (*inputs, *outputs):
        if x.dtype.kind != "float":
            raise DTypeError(
                f"jacobian: needs float arguments and outputs, got {x.dtype}; a complex function "
                "is differentiated by the real and imaginary parts, an integer one not at all"
            )
    if mode == "auto":
        fewer = sum(x.size for x in inputs) < sum(y.size for y in outputs)
        mode = "forward" if fewer else "reverse"
    if mode == "reverse":
        return [_rows(linear, place) for place in range(len(outputs))]
    columns = [_columns(linear, place) for place in range(len(inputs))]
    return [[column[place] for column in columns] for place in range(len(outputs))]


def _by_argument(linear: Linear, blocks: list[Tensor]) -> tuple[Any, ...]:
    """Derivatives by each input, in the structures of the arguments."""
    rest = iter(blocks)
    return tuple(rebuild(p.tree, [next(rest) for _ in p.keys]) for p in linear.primals)


def _rows(linear: Linear, place: int) -> list[Tensor]:
    """The derivatives of one output by all inputs, a backward pass for each element."""
    output, inputs = linear.outputs[place], linear.inputs()
    if not output.size:
        return [_empty(output, x, x) for x in inputs]

    def one(seed: Tensor) -> list[Tensor]:
        cotangents = [seed if i == place else None for i in range(len(linear.outputs))]
        return leaves(linear.collect(linear.pull(cotangents)))

    passes = vmap(one)(unit_tensors(output))
    return [
        assembled(rows, 0, output.shape + x.shape) for rows, x in zip(passes, inputs, strict=True)
    ]


def _columns(linear: Linear, place: int) -> list[Tensor]:
    """The derivatives of all outputs by one input, a forward pass for each element."""
    inputs = linear.inputs()
    given = inputs[place]
    if not given.size:
        return [_empty(y, given, y) for y in linear.outputs]

    def one(seed: Tensor) -> list[Tensor]:
        return linear.push([seed if i == place else None for i in range(len(inputs))])

    passes = vmap(one)(unit_tensors(given))
    return [
        assembled(columns, -1, y.shape + given.shape)
        for columns, y in zip(passes, linear.outputs, strict=True)
    ]


def _empty(output: Tensor, given: Tensor, like: Tensor) -> Tensor:
    return zeros(output.shape + given.shape, dtype=like.dtype, device=like.device)
