"""What losses of pairs of elements share: constructors, reductions and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Scalar, Shape
from ...dispatch import TensorLike, handle_of, promote, run
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import broadcast_shapes, widened
from ..elementwise.cast import astype
from ..movement.shapes import broadcast_to
from ..neural.linear import promote_present
from ..reductions.basic import sum

if TYPE_CHECKING:
    from ...tensor import Tensor


REDUCTIONS = ("mean", "sum", "none")


def _rule(name: str, x: Aval, target: Aval, *others: Aval, reduction: str) -> Aval:
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {x.dtype}; cast with x.astype('float32')")
    for other in others:
        if broadcast_shapes(name, x.shape, other.shape, arguments=("x", "weight")) != x.shape:
            raise ShapeError(
                f"{name}: weight must broadcast to x of shape {x.shape}, got {other.shape}"
            )
    return Aval(x.shape if reduction == "none" else (), x.dtype)


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss of each element, their sum or their mean (NaN for none)."""
    if reduction == "none":
        return loss
    total = sum(loss)
    return total if reduction == "sum" else total / loss.size


def _body(value: Callable[..., Any], *operands: Any, reduction: str) -> Tensor:
    wide = [o if isinstance(o, float) else widened(o) for o in operands]
    return astype(reduced(value(*wide), reduction), operands[0].dtype)


def pair_loss(
    name: str,
    public: Callable[..., Any],
    value: Callable[..., Any],
    *,
    reference: Callable[..., Any],
    others: tuple[str, ...] = (),
    vjp: Any = None,
    samples: Callable[[Draw], Iterator[Sample]] | None = None,
) -> Operation:
    """A loss whose body is `value` for each element, and then the reduction."""
    return Operation(
        name,
        tensors=("x", "target", *others),
        statics=("reduction",),
        rule=partial(_rule, name),
        traits=Traits("opaque", precision="high"),
        vjp=vjp,
        body=partial(_body, value),
        public=public,
        samples=samples or _samples,
        reference=partial(_reference, reference),
    )


def _reference(
    value: Callable[..., Any], *operands: Any, reduction: str = "mean", **more: Any
) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = value(*operands, **more)
        if reduction == "none":
            return loss
        return np.sum(loss) if reduction == "sum" else np.mean(loss)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for shape in map(draw.shape, ((3, 5), (17,), ())):
        for reduction in REDUCTIONS:
            # At least 1/4 apart from each other, from the kink at 0 and from that at 1.
            distance = draw.rng.choice([-1.75, -0.5, 0.5, 1.75], shape)
            x = draw.array(shape)
            target = np.asarray(x + distance, x.dtype)
            yield Sample((x, target), {"reduction": reduction}, condition=8)
    yield Sample((draw.array((0, 3)), draw.array((0, 3))), {"reduction": "sum"})


def require_reduction(name: str, reduction: object, known: tuple[str, ...] = REDUCTIONS) -> str:
    """One of the reductions; an `ArgumentError` that lists them for anything else."""
    if reduction not in known:
        raise ArgumentError(
            f"{name}: reduction must be one of {', '.join(map(repr, known))}, got {reduction!r}"
        )
    return str(reduction)


def unreduced(g: Tensor, shape: Shape, reduction: str) -> Tensor:
    """The cotangent of each element's loss from that of the reduced one."""
    if reduction == "none":
        return g
    count = 1
    for n in shape:
        count *= n
    return broadcast_to(g / count if reduction == "mean" and count else g, shape)


def _same_shape(name: str, x: TensorLike, target: TensorLike) -> None:
    a, b = handle_of(x, name).shape, handle_of(target, name, "target").shape
    if a != b:
        raise ShapeError(
            f"{name}: x and target must have one shape, got {a} and {b}; broadcasting would "
            "compare each with each: reshape or broadcast_to one of them if that is meant"
        )


def compared(
    operation: Operation, x: TensorLike, target: TensorLike, reduction: str, *numbers: float
) -> Tensor:
    """The loss of two tensors of one shape, and of numbers."""
    name = operation.name
    _same_shape(name, x, target)
    op = operation.op(reduction=require_reduction(name, reduction))
    a, b = promote(name, ("x", x), ("target", target))
    return run(op, (a, b, *[Scalar(float(n), a.dtype) for n in numbers]))[0]


def weighted(
    operation: Operation, reduction: str, *operands: tuple[str, TensorLike | None]
) -> Tensor:
    """The loss of two tensors of one shape, and of weights, which may be None."""
    name = operation.name
    x, target = operands[0][1], operands[1][1]
    _same_shape(name, x, target)  # type: ignore[arg-type]
    op = operation.op(reduction=require_reduction(name, reduction))
    given = [(n, v, 1.0 if i > 1 else None) for i, (n, v) in enumerate(operands)]
    return run(op, promote_present(name, *given))[0]
