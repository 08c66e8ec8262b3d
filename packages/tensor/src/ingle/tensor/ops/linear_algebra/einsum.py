"""Sums of products by Einstein's convention, as transpositions and matrix products."""

from __future__ import annotations

import itertools
import math
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...contract import Shape
from ...dispatch import TensorLike, promote_tensors
from ...errors import ArgumentError, OperandError, ShapeError
from .._guarding import guarded
from ..elementwise.arithmetic import multiply
from ..movement.shapes import permute_dims, reshape
from ..movement.triangular import diagonal
from ..reductions.basic import sum as reduce_sum
from .products import matmul

if TYPE_CHECKING:
    from ...tensor import Tensor

Label = str
"""The name of an index: a letter, or `...i` for the axis i from the end of an ellipsis."""


Axes = tuple[int, ...]


class Term(NamedTuple):
    """A value on the way, by its number, with a label and a size for each axis."""

    value: int
    labels: tuple[Label, ...]
    shape: Shape


class EinsumStep(NamedTuple):
    """What makes the next value: a function, the numbers of its operands, its other arguments."""

    function: Callable[..., Tensor]
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()


@guarded
def einsum(equation: str | TensorLike, *operands: Any) -> Tensor:
    """The sum of products of operands over the indices that the result does not have.

    Several operands are contracted in pairs, each time the pair whose product is the smallest
    compared with its factors. All sums are matrix products, so that large ones are as fast as
    `matmul`.

    Args:
        equation: the indices of each operand, separated by commas, and after `->` those of the
            result: `"ij,jk->ik"`. A letter that an operand has twice takes its diagonal; `...`
            stands for further axes, which broadcast. Without `->` the result has the axes of `...`
            and the letters that occur once, in alphabetical order.
        operands: numeric tensors, promoted to one dtype. As in NumPy and PyTorch, the equation
            may instead be given as a list of numbers behind each operand, and behind them the
            list of the result: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Raises:
        ArgumentError: the equation makes no sense.
        ShapeError: an index has two sizes; a size of 1 fits every other.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> it.einsum("ij,jk->ik", x, x).tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    >>> it.einsum("ii", x).item(), it.einsum("...ij->...ji", x).tolist()
    (5.0, [[1.0, 3.0], [2.0, 4.0]])
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    _read(equation, len(operands))  # what is wrong with the equation comes first
    values = promote_tensors("einsum", *((f"operands[{i}]", x) for i, x in enumerate(operands)))
    shapes = tuple([x.shape for x in values])
    whole = all([type(n) is int for shape in shapes for n in shape])  # noqa: C419 (faster)
    # A size that stands for many is part of one recording, and is remembered nowhere else.
    way = _steps if whole else _steps.__wrapped__
    for function, numbers, arguments in way(equation, shapes, values[0].dtype.itemsize > 2):
        values.append(function(*[values[n] for n in numbers], *arguments))
    return values[-1]


def _from_lists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The equation and operands of the form with a list of numbers behind each operand."""
    paired = len(arguments) // 2 * 2
    operands = tuple(arguments[0:paired:2])
    lists = list(arguments[1:paired:2])
    if not lists or any(not isinstance(s, (list, tuple)) for s in [*lists, *arguments[paired:]]):
        raise ArgumentError(
            "einsum: equation must be a text such as 'ij,jk->ik', or index numbers must stand in a "
            f"list behind each operand, got {arguments[0]!r:.60}"
        )
    equation = ",".join(map(_letters, lists))
    if len(arguments) > paired:
        equation += "->" + _letters(arguments[-1])
    return equation, operands


def _letters(numbers: Sequence[Any]) -> str:
    found = []
    for n in numbers:
        if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < 52):
            raise ArgumentError(f"einsum: an index must be in [0, 52) or Ellipsis, got {n!r}")
        found.append("..." if n is Ellipsis else string.ascii_letters[n])
    return "".join(found)


@lru_cache(maxsize=1024)
def _steps(equation: str, shapes: tuple[Shape, ...], wide: bool) -> tuple[EinsumStep, ...]:
    """What computes an equation for operands of certain shapes; `wide` if not of a half type."""
    inputs, output = _read(equation, len(shapes))
    labels = [_labels(equation, i, inputs[i], len(shape)) for i, shape in enumerate(shapes)]
    way = _Way(len(shapes), wide)
    given = [Term(i, n, s) for i, (n, s) in enumerate(zip(labels, shapes, strict=True))]
    terms = _unrepeated(way, equation, given)
    wanted = _output(equation, output, labels)
    while len(terms) > 1:
        first, second = terms if len(terms) == 2 else _best_pair(terms, wanted)
        rest = [t for t in terms if t is not first and t is not second]
        kept = {*wanted, *(n for t in rest for n in t.labels)}
        terms = [*rest, _contracted(way, first, second, kept)]
    (last,) = terms
    last = way.summed(last, set(wanted))
    way.permuted(last, tuple(last.labels.index(n) for n in wanted))
    return tuple(way.steps)


class _Way:
    """The steps so far.

    Args:
        operands: how many values there are before the first step.
        wide: whether the values are of no half type.
    """

    def __init__(self, operands: int, wide: bool) -> None:
        self.steps: list[EinsumStep] = []
        self.wide = wide
        self._operands = operands

    def made(
        self, function: Callable[..., Tensor], operands: tuple[Term, ...],
        labels: tuple[Label, ...], shape: Shape, *arguments: Any,
    ) -> Term:  # fmt: skip
        """The value of one more step."""
        self.steps.append(EinsumStep(function, tuple([t.value for t in operands]), arguments))
        return Term(self._operands + len(self.steps) - 1, labels, shape)

    def permuted(self, term: Term, axes: Axes) -> Term:
        if axes == tuple(range(len(axes))):
            return term
        labels, shape = _picked(term, axes)
        return self.made(permute_dims, (term,), labels, shape, axes)

    def reshaped(self, term: Term, labels: tuple[Label, ...], shape: Shape) -> Term:
        if shape == term.shape:
            return term._replace(labels=labels)
        return self.made(reshape, (term,), labels, shape, shape)

    def summed(self, term: Term, kept: set[Label]) -> Term:
        """The term without the axes that nobody else needs."""
        gone = tuple([i for i, n in enumerate(term.labels) if n not in kept])
        return term if not gone else self.sum(term, gone)

    def sum(self, term: Term, axes: Axes) -> Term:
        labels, shape = _picked(term, [i for i in range(len(term.shape)) if i not in axes])
        return self.made(_sum, (term,), labels, shape, axes)


def _picked(term: Term, axes: Sequence[int]) -> tuple[tuple[Label, ...], Shape]:
    """Labels and sizes of some axes."""
    return tuple([term.labels[a] for a in axes]), tuple([term.shape[a] for a in axes])


def _sum(x: Tensor, axes: Axes) -> Tensor:
    return reduce_sum(x, axis=axes, dtype=x.dtype)


@lru_cache(maxsize=1024)
def _read(equation: str, count: int) -> tuple[tuple[str, ...], str | None]:
    """The indices of each operand and of the result, where it is given."""
    plain = equation.replace(" ", "")
    left, arrow, right = plain.partition("->")
    inputs = tuple(left.split(","))
    for part in [*inputs, right]:
        rest = part.replace("...", "", 1)
        strange = sorted({c for c in rest if c not in string.ascii_letters})
        if strange:
            raise ArgumentError(
                f"einsum: equation {equation!r} has {strange[0]!r} where only letters, one '...' "
                "for each operand, ',' and one '->' may stand"
            )
    if len(inputs) != count:
        raise OperandError(
            f"einsum: equation must have indices for each of the {count} operands, got {equation!r}"
        )
    return inputs, right if arrow else None


def _labels(equation: str, place: int, indices: str, ndim: int) -> tuple[Label, ...]:
    """A label for each axis of an operand."""
    before, dots, after = indices.partition("...")
    more = ndim - len(before) - len(after)
    if more < 0 or (more and not dots):
        raise ShapeError(
            f"einsum: operands[{place}] must have the {len(before) + len(after)} axes of "
            f"{indices!r} in equation {equation!r}, got {ndim}"
            + ("" if more < 0 else "; '...' stands for the others")
        )
    return (*before, *(f"...{i}" for i in range(more, 0, -1)), *after)


def _output(
    equation: str, output: str | None, labels: Sequence[tuple[Label, ...]]
) -> tuple[Label, ...]:
    count = Counter(itertools.chain.from_iterable(labels))
    dots = sorted((n for n in count if len(n) > 1), key=lambda n: -int(n[3:]))
    if output is None:
        return (*dots, *sorted(n for n, k in count.items() if k == 1 and len(n) == 1))
    before, found, after = output.partition("...")
    wanted = (*before, *(dots if found else ()), *after)
    for n in wanted:
        if n not in count or wanted.count(n) > 1:
            why = "twice" if n in count else "that no operand has"
            raise ArgumentError(
                f"einsum: the result of equation {equation!r} must not have an index {n!r} {why}"
            )
    return wanted


def _unrepeated(way: _Way, equation: str, terms: Sequence[Term]) -> list[Term]:
    """Diagonals for repeated labels; axes of size 1 dropped where the label has another size."""
    sizes: dict[Label, int] = {}
    for _, labels, shape in terms:
        for n, size in zip(labels, shape, strict=True):
            known = sizes.setdefault(n, size)
            if known != size and 1 not in (known, size):
                shapes = " and ".join(str(t.shape) for t in terms)
                raise ShapeError(
                    f"einsum: index {n!r} of equation {equation!r} must have one size in all "
                    f"operands, got {known} and {size} in shapes {shapes}"
                )
            sizes[n] = size if known == 1 else known
    found = []
    for term in terms:
        kept = [i for i, n in enumerate(term.labels) if term.shape[i] == sizes[n]]
        found.append(_diagonal(way, way.reshaped(term, *_picked(term, kept))))
    return found


def _diagonal(way: _Way, term: Term) -> Term:
    for n in [n for n, k in Counter(term.labels).items() if k > 1]:
        while term.labels.count(n) > 1:
            i = term.labels.index(n)
            j = term.labels.index(n, i + 1)
            rest = [k for k in range(len(term.shape)) if k not in (i, j)]
            last = way.permuted(term, (*rest, i, j))
            term = way.made(diagonal, (last,), last.labels[:-1], last.shape[:-1])
    return term


def _best_pair(terms: Sequence[Term], wanted: Sequence[Label]) -> tuple[Term, Term]:
    """The two terms whose product is the smallest compared with them; the first of equals."""

    def growth(pair: tuple[Term, Term]) -> int:
        first, second = pair
        kept = {
            *wanted,
            *(n for t in terms if t is not first and t is not second for n in t.labels),
        }
        sizes = _sizes(first, second)
        result = math.prod(size for n, size in sizes.items() if n in kept)
        return result - math.prod(first.shape) - math.prod(second.shape)

    return min(itertools.combinations(terms, 2), key=growth)


def _sizes(first: Term, second: Term) -> dict[Label, int]:
    sizes = dict(zip(first.labels, first.shape, strict=True))
    return sizes | dict(zip(second.labels, second.shape, strict=True))


def _contracted(way: _Way, first: Term, second: Term, kept: set[Label]) -> Term:
    """The product of two terms, summed over the labels that they share and nobody else needs."""
    first = way.summed(first, kept | set(second.labels))
    second = way.summed(second, kept | set(first.labels))
    shared = [n for n in first.labels if n in second.labels]
    batch = tuple(n for n in shared if n in kept)
    inner = tuple(n for n in shared if n not in kept)
    rows = tuple(n for n in first.labels if n not in shared)
    columns = tuple(n for n in second.labels if n not in shared)
    sizes = _sizes(first, second)
    if batch and inner and not rows and not columns and way.wide:
        # As matrices these vectors would be all packing. Half types are rounded after the sum.
        pair = tuple([_grouped(way, t, sizes, batch, inner) for t in (first, second)])
        out = way.sum(way.made(multiply, pair, ("", ""), pair[0].shape), (1,))
    else:
        stack = (batch,) if batch else ()
        left = _grouped(way, first, sizes, *stack, rows, inner)
        right = _grouped(way, second, sizes, *stack, inner, columns)
        shape = (*left.shape[:-1], right.shape[-1])
        out = way.made(matmul if inner else multiply, (left, right), ("",) * len(shape), shape)
    labels = (*batch, *rows, *columns)
    return way.reshaped(out, labels, tuple([sizes[n] for n in labels]))


def _grouped(
    way: _Way, term: Term, sizes: dict[Label, int], *groups: tuple[Label, ...]
) -> Term:  # fmt: skip
    """The term with one axis for each group of labels."""
    order = [term.labels.index(n) for group in groups for n in group]
    shape = tuple([math.prod([sizes[n] for n in group]) for group in groups])
    return way.reshaped(way.permuted(term, tuple(order)), ("",) * len(shape), shape)
