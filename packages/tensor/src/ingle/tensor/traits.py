"""What passes and kernels may do with an operation, as data.

Interpreters read traits and never look at a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal[
    "elementwise", "reduction", "movement", "contraction", "creation", "random", "opaque",
]  # fmt: skip
Cost = Literal["cheap", "root", "expensive"]
"""What one element takes: an instruction or few, a quotient or square root, or more than storing
the result and loading it again (a polynomial, a gather, random bits)."""
Access = Literal["join", "slice", "update", "scatter", "rows", "along"]
"""What is read or written where: inputs one after the other; a piece of a tensor; a tensor with one
piece replaced; a tensor with rows changed that indices name; the rows that indices name; one
element for each index along an axis."""
Updates = Literal["set", "add", "prod", "extremum"]
"""What a scatter makes of an update and what is there; `"extremum"` by its attribute `largest`."""


class Laws(NamedTuple):
    """What holds of an elementwise operation for every value, NaN and -0.0 among them.

    Attributes:
        neutral: a number that as the second operand leaves the first one as it is.
        commutes: whether the number may be the first operand, too.
        idempotent: of two operands that are one value, the result is that value.
        negates: twice is nothing.
        even: of a negated operand, the result is the same.
        converts: to the dtype of its attribute, exactly where that holds the value.
        by_inverse: the operation that takes one over the second operand in its place.
    """

    neutral: float | None = None
    commutes: bool = False
    idempotent: bool = False
    negates: bool = False
    even: bool = False
    converts: bool = False
    by_inverse: str | None = None


LAWLESS = Laws()


@dataclass(frozen=True, slots=True)
class Traits:
    """What interpreters read of an operation.

    Attributes:
        kind: how outputs depend on inputs; an elementwise operation broadcasts its inputs.
        family: which of the core kernels computes it (`"unary"`, `"reduce"`, …), if one does.
        dynamic_shape: output shapes depend on values.
        precision: in mixed precision, `"low"` gains from a half type, `"high"` needs float32,
            `"keep"` takes what it gets.
        bound: what limits it; cheap results are worth computing again instead of keeping.
        storage: takes dtypes that only store values (float8, int4, …), as all movement does.
        unrolled: where it has values, gradients are recorded by running its body.
        inlined: many operations recorded as one: a backend that runs or plans it runs or
            plans its body in its place.
        cost: what one element takes, if a kernel computes it at its place alone (see `Cost`).
            A value that follows from `"cheap"` and `"root"` operations may be computed again by
            its readers instead of being stored; an `"expensive"` one is kept for further passes
            over its row. None: unknown, so neither.
        discontinuous: results jump where inputs change by little. Half types are then rounded
            as in memory before they arrive, also where a kernel holds them in more bits.
        exactly_rounded: each implementation gives the same bits: an element is rounded at most
            once, or in an order that the operation fixes.
        starts: the position of the first of the inputs that say where, along each axis, a piece
            begins; all inputs behind it are such starts.
        access: what it reads or writes where, of movements that are not one view (see `Access`).
        updates: how a scatter combines.
        laws: rules that simplify it without changing a bit (see `Laws`).
        indexes_inside: the indices that its body computes are inside of what they index, whatever
            its inputs are: nobody need check them.
        row_indices: the positions of an input of indices and of the one whose first axis they
            index: if they are inside of it, so are those that its body computes, and only then.
        checks_indices: an elementwise operation that refuses indices that lie outside, or makes of
            them one that lies outside of all; its attribute `called` is the call that they are of.
        layer: the position, among inputs and behind these outputs, of a tensor whose sizes belong
            to a layer, as those of a weight do: they differ from layer to layer, not from run to
            run.
        indices_from_0: the call in whose name its body refuses negative indices, which what it is
            made of would count from the end.

    >>> from ingle.tensor.operation import OPERATIONS
    >>> OPERATIONS["exp"].traits.cost, OPERATIONS["floor"].traits.discontinuous
    ('expensive', True)
    """

    kind: Kind
    family: str | None = None
    dynamic_shape: bool = False
    precision: Literal["low", "keep", "high"] = "keep"
    bound: Literal["memory", "compute"] = "memory"
    storage: bool = False
    unrolled: bool = False
    inlined: bool = False
    cost: Cost | None = None
    discontinuous: bool = False
    exactly_rounded: bool = False
    starts: int | None = None
    access: Access | None = None
    updates: Updates | None = None
    laws: Laws = LAWLESS
    indexes_inside: bool = False
    row_indices: tuple[int, int] | None = None
    checks_indices: bool = False
    indices_from_0: str | None = None
    layer: int | None = None
