"""Constructors for the operations of the large families, with the samples they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..dtypes import DType
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import NUMERIC, elementwise_rule


def unary(
    name: str,
    public: Callable[..., Any],
    *,
    vjp: Callable[..., Any] | None = None,
    kinds: tuple[str, ...] = NUMERIC,
    result: DType | None = None,
    zero_gradient: bool = False,
    domain: tuple[float, float] = (-2.0, 2.0),
    reference: Callable[..., Any] | str | None = None,
    body: Callable[..., Any] | None = None,
    precision: Any = "keep",
    gradient_samples: bool = True,
) -> Operation:
    """An elementwise operation of one tensor."""

    def samples(draw: Draw) -> Iterator[Sample]:
        low, high = domain
        for shape in ((), (0,), (3,), (2, 17), (33, 1, 5)):
            yield Sample((draw.array(shape, low=low, high=high),), gradient=gradient_samples)

    rules: Mapping[str | tuple[str, ...], Callable[..., Any]] | None
    rules = {} if zero_gradient else {"x": vjp} if vjp is not None else None
    return Operation(
        name,
        tensors=("x",),
        rule=elementwise_rule(name, kinds, result),
        traits=Traits("elementwise", family=None if body else "unary", precision=precision),
        vjp=rules,
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )


def binary(
    name: str,
    public: Callable[..., Any],
    *,
    vjp: Mapping[str | tuple[str, ...], Callable[..., Any]] | None = None,
    kinds: tuple[str, ...] = NUMERIC,
    result: DType | None = None,
    low: float = -2.0,
    high: float = 2.0,
    reference: Callable[..., Any] | str | None = None,
    body: Callable[..., Any] | None = None,
    precision: Any = "keep",
    gradient_samples: bool = True,
) -> Operation:
    """An elementwise operation of two operands that broadcast; either may be a number."""

    def samples(draw: Draw) -> Iterator[Sample]:
        for a, b in (((), ()), ((3,), ()), ((2, 17), (17,)), ((5, 1, 3), (8, 1)), ((0, 3), (1, 3))):
            yield Sample(
                (draw.array(a, low=low, high=high), draw.array(b, low=low, high=high)),
                gradient=gradient_samples,
            )
        number = 2 if not draw.dtype.is_inexact else 1.5
        if draw.dtype.kind != "bool":
            yield Sample(
                (draw.array((3, 5), low=low, high=high), number), gradient=gradient_samples
            )

    return Operation(
        name,
        tensors=("x1", "x2"),
        rule=elementwise_rule(name, kinds, result),
        traits=Traits("elementwise", family=None if body else "binary", precision=precision),
        vjp=vjp,
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )
