"""Constructors for the operations of the large families, with the samples they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypedDict, Unpack

from ..operation import Cost, Laws, Operation, Traits
from ..sample import Draw, Sample
from ._rules import NUMERIC, REAL, Result, elementwise_rule

Domain = tuple[float, float]
_SHAPES = ((), (0,), (3,), (2, 17), (33, 1, 5))
_PAIRS = (((), ()), ((3,), ()), ((2, 17), (17,)), ((5, 1, 3), (8, 1)), ((0, 3), (1, 3)))


class Facts(TypedDict, total=False):
    """Fields of `Traits` that the constructors of families hand on as they are."""

    cost: Cost
    discontinuous: bool
    exactly_rounded: bool
    laws: Laws


class Plain(TypedDict):
    """What arithmetic has in common that takes an instruction and rounds once."""

    cost: Cost
    exactly_rounded: bool


PLAIN: Plain = {"cost": "cheap", "exactly_rounded": True}
"""One instruction of a processor that rounds at most once."""
PREDICATE: Facts = {"cost": "cheap", "discontinuous": True, "exactly_rounded": True}
"""A question about elements, answered by a bool."""


def unary(
    name: str,
    public: Callable[..., Any],
    *,
    vjp: Callable[..., Any] | None = None,
    kinds: tuple[str, ...] = NUMERIC,
    result: Result = None,
    zero_gradient: bool = False,
    domain: Domain = (-2.0, 2.0),
    reference: Callable[..., Any] | str | None = None,
    body: Callable[..., Any] | None = None,
    precision: Any = "keep",
    gradient_samples: bool = True,
    condition: float = 1.0,
    **facts: Unpack[Facts],
) -> Operation:
    """An elementwise operation of one tensor."""

    def samples(draw: Draw) -> Iterator[Sample]:
        low, high = domain
        for shape in _SHAPES:
            x = draw.array(shape, low=low, high=high)
            yield Sample((x,), gradient=gradient_samples and not zero_gradient, condition=condition)

    rules: Mapping[str | tuple[str, ...], Callable[..., Any]] | None
    rules = {} if zero_gradient else {"x": vjp} if vjp is not None else None
    return Operation(
        name,
        tensors=("x",),
        rule=elementwise_rule(name, kinds, result),
        traits=Traits(
            "elementwise", family=None if body else "unary", precision=precision, **facts
        ),
        vjp=rules,
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )


def special(
    name: str,
    public: Callable[..., Any],
    *,
    vjp: Callable[..., Any],
    domain: Domain,
    body: Callable[..., Any],
    reference: Callable[..., Any] | str | None = None,
    **facts: Unpack[Facts],
) -> Operation:
    """An elementwise function of floats, computed in float64; SciPy has one of the name."""
    return unary(
        name,
        public,
        vjp=vjp,
        kinds=("float",),
        domain=domain,
        body=body,
        reference=reference or f"scipy.special:{name}",
        precision="high",
        condition=4,
        **facts,
    )


def binary(
    name: str,
    public: Callable[..., Any],
    *,
    vjp: Mapping[str | tuple[str, ...], Callable[..., Any]] | None = None,
    kinds: tuple[str, ...] = NUMERIC,
    result: Result = None,
    low: float = -2.0,
    high: float = 2.0,
    low2: float | None = None,
    high2: float | None = None,
    number: float | None = None,
    reference: Callable[..., Any] | str | None = None,
    body: Callable[..., Any] | None = None,
    precision: Any = "keep",
    gradient_samples: bool = True,
    condition: float = 1.0,
    exact: bool = False,
    storage: bool = False,
    **facts: Unpack[Facts],
) -> Operation:
    """An elementwise operation of two operands that broadcast; either may be a number.

    The samples draw the first operand from [low, high) and the second from [low2, high2), which
    is the same unless given; `number` stands for the second in one of them.
    """
    second = (low if low2 is None else low2, high if high2 is None else high2)

    def samples(draw: Draw) -> Iterator[Sample]:
        smooth = gradient_samples and bool(vjp)
        for a, b in _PAIRS:
            x1 = draw.array(a, low=low, high=high)
            x2 = draw.array(b, low=second[0], high=second[1])
            yield Sample((x1, x2), gradient=smooth, condition=condition, exact=exact)
        if draw.dtype.kind != "bool":
            default = 1.5 if draw.dtype.is_inexact else 2
            x1 = draw.array((3, 5), low=low, high=high)
            operand = default if number is None else number
            yield Sample((x1, operand), gradient=smooth, condition=condition, exact=exact)

    return Operation(
        name,
        tensors=("x1", "x2"),
        rule=elementwise_rule(name, kinds, result),
        traits=Traits(
            "elementwise",
            family=None if body else "binary",
            precision=precision,
            storage=storage,
            **facts,
        ),
        vjp=vjp,
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )


division = partial(binary, kinds=REAL, low=-9.0, high=9.0, low2=1.0, high2=4.0)
"""An operation like `binary` that rounds the quotient of real numbers to a whole one."""
