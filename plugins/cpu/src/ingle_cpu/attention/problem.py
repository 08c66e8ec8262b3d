"""What the template of attention computes: sizes, and how operands lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.fusion.device import is_exact
from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT

from .abi import MaskKind

OPERATIONS = (ATTENTION, ATTENTION_TRAINING, ATTENTION_GRADIENT)
DTYPES = frozenset({"float32", "float64", "float16", "bfloat16"})
FEWEST = 16
"""Queries from which on blocks of them pay: a few are products of vectors."""
MOST_FEATURES = 512
"""With more, blocks do not stay in the cache."""
BATCH = 3
"""Axes of heads that the kernels walk."""

Strides = tuple[int, ...]


class Lying(NamedTuple):
    """How an operand lies, in numbers.

    Attributes:
        heads: strides along the axes of heads, 0 where it repeats.
        own: along its last two axes, or its last one.
    """

    heads: Strides
    own: Strides


class AttentionProblem(NamedTuple):
    """An attention or its gradient.

    Attributes:
        dtype: of queries, keys, values and results.
        mask: of which kind the mask is.
        backward: whether it is the gradient.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
        batch: sizes of the axes of heads.
        queries, keys: how many.
        features, values: of queries and keys, and of values.
        operands: how the tensors lie, as the operation takes them.
    """

    dtype: str
    mask: MaskKind
    backward: bool
    causal: bool
    lse: bool
    batch: tuple[int, ...]
    queries: int
    keys: int
    features: int
    values: int
    operands: tuple[Lying, ...]

    @property
    def heads(self) -> int:
        return math.prod(self.batch)

    @property
    def products(self) -> int:
        """Multiplications of a matrix of scores."""
        return self.heads * self.queries * self.keys * self.features

    @property
    def named(self) -> dict[str, Lying]:
        """How each tensor lies, by its name."""
        names = list(ATTENTION_GRADIENT.tensors if self.backward else ATTENTION.tensors)
        names.remove("scale")
        if self.mask == "none":
            names.remove("mask")
        return dict(zip(names, self.operands, strict=True))

    @property
    def shared(self) -> int | None:
        """The axis of heads of queries that share a head of keys and values; None without one."""
        repeats = [n for n, s in enumerate(self.named["key"].heads) if not s and self.batch[n] > 1]
        return repeats[0] if repeats else None


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Mapping[str, Strides] | None = None
) -> AttentionProblem | None:
    """The problem of an attention or its gradient; None for what the template does not take.

    Args:
        strides: of the tensors, in numbers; in C order, all that have axes, if not given.
    """
    if op.operation not in OPERATIONS:
        return None
    known = dict(zip(op.operation.tensors, avals, strict=True))
    query, key, value, mask = (known[name] for name in ("query", "key", "value", "mask"))
    dtype = query.dtype.name
    if dtype not in DTYPES or any(0 in a.shape for a in avals):
        return None
    if dtype in HALVES and is_exact():
        return None  # scores are not rounded here, as each operation's results would be
    if query.shape[-2] < FEWEST or max(query.shape[-1], value.shape[-1]) > MOST_FEATURES:
        return None
    if mask.dtype.name not in ("bool", dtype):
        return None
    if strides is None:
        strides = {name: in_order(a.shape) for name, a in known.items() if a.shape}
    elif "scale" in strides:  # a tensor, not a number
        return None
    lead = known["out"].shape[:-2] if "out" in known else _lead(query, key, value)
    places = query.shape[-2], key.shape[-2]
    lying = []
    for name in op.operation.tensors:
        if name in strides:
            own = places if name == "mask" else known[name].shape[-1 if name == "lse" else -2 :]
            lying.append(_over((*lead, *own), len(lead), known[name].shape, strides[name]))
    batch, operands = _merged(lead, lying)
    kind: MaskKind = "none"
    if "mask" in strides:
        kind = "bool" if mask.dtype.name == "bool" else "float"
    backward = op.operation is ATTENTION_GRADIENT
    problem = AttentionProblem(
        dtype, kind, backward, bool(op.attributes["causal"]), op.operation is ATTENTION_TRAINING,
        batch, *places, query.shape[-1], value.shape[-1], operands,
    )  # fmt: skip
    if len(batch) > BATCH or (backward and not _shares(problem)):
        return None
    return problem


def in_order(shape: tuple[int, ...]) -> Strides:
    """Strides in C order."""
    found: list[int] = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def _lead(*operands: Aval) -> tuple[int, ...]:
    """The axes of heads of what is computed."""
    shapes = [a.shape[:-2] for a in operands]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple([max(sizes) for sizes in zip(*padded, strict=True)])


def _over(sizes: tuple[int, ...], heads: int, shape: tuple[int, ...], strides: Strides) -> Lying:
    """Strides along the axes of `sizes`, of which the first ones are of heads."""
    missing = len(sizes) - len(shape)
    steps = [0] * missing
    for n, step in zip(shape, strides, strict=True):
        steps.append(0 if n == 1 else step)
    # An axis of one place is passed over: what its stride is makes no difference.
    return Lying(tuple(steps[:heads]), tuple(steps[heads:]))


def _merged(
    lead: tuple[int, ...], lying: Sequence[Lying]
) -> tuple[tuple[int, ...], tuple[Lying, ...]]:
    """The axes of heads, those that lie behind each other everywhere as one."""
    sizes: list[int] = []
    steps: list[list[int]] = []  # of all operands, for each axis
    for axis, n in enumerate(lead):
        if n == 1:
            continue
        here = [x.heads[axis] for x in lying]
        if sizes and all(a == b * n for a, b in zip(steps[-1], here, strict=True)):
            sizes[-1] *= n
            steps[-1] = here
        else:
            sizes.append(n)
            steps.append(here)
    found = [Lying(tuple([of_axis[k] for of_axis in steps]), x.own) for k, x in enumerate(lying)]
    return tuple(sizes), tuple(found)


def _shares(problem: AttentionProblem) -> bool:
    """Whether keys and values repeat along one axis of heads at most, together, queries never."""
    named = problem.named
    repeats = {
        name: [n for n, step in enumerate(named[name].heads) if not step]
        for name in ("query", "key", "value")
    }
    return not repeats["query"] and repeats["key"] == repeats["value"] and len(repeats["key"]) <= 1
