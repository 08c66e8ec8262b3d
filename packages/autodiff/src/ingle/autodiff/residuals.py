"""What the backward pass finds kept, and what it computes again.

A step whose results are not kept leaves a recipe: the operation, with its inputs as they are kept
themselves. What a rule asks for is then computed from the nearest values that were kept, once in
each backward pass, and dropped when the pass is behind the step that made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ingle.tensor import Tensor
from ingle.tensor.blocks import WithBlock, block, holding, of_values
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.dispatch import highest
from ingle.tensor.errors import ArgumentError, GradientError, OperandError
from ingle.tensor.operation import Op, Operation

from .nodes import Node, TrackedHandle, below, ordered

if TYPE_CHECKING:
    from .recording import Autodiff

Policy: TypeAlias = Literal["none", "balanced"] | Callable[[Operation], bool]


class Recipe:
    """The outputs of an operation as what it takes to compute them again."""

    __slots__ = ("inputs", "op")

    def __init__(self, op: Op, inputs: Sequence[Handle | Scalar | Recomputed]) -> None:
        self.op = op
        self.inputs = inputs


class Recomputed:
    """A value that is not kept: an output of a recipe, with the steps that it is a value of.

    Attributes:
        recipe, index: which output of which recipe.
        levels: for each level that tracks the value, from the top, the backend, node and output.
    """

    __slots__ = ("index", "levels", "recipe")

    def __init__(
        self, recipe: Recipe, index: int, levels: Sequence[tuple[Autodiff, Node, int]] = ()
    ) -> None:
        self.recipe = recipe
        self.index = index
        self.levels = levels


Value: TypeAlias = Handle | Scalar | Recomputed


class ResidualPolicy:
    """What is recorded, and which results are kept of it.

    Args:
        recompute: whether those of an operation are computed again; None keeps all.
        least: the lowest level that is recorded. Those below it are of transforms, or of
            `backward`, around a `no_grad` that is around here.
        closed: whether what is tracked at a level that is not recorded must not be used: its
            gradient would be lost.
    """

    __slots__ = ("_known", "closed", "least", "recompute")

    def __init__(
        self, recompute: Callable[[Operation], bool] | None, least: int = 1, closed: bool = False
    ) -> None:
        self.recompute = recompute
        self.least = least
        self.closed = closed
        self._known: dict[Operation, bool] = {}

    def recipe(
        self,
        op: Op,
        inputs: Sequence[Handle | Scalar],
        parents: Sequence[tuple[Node, int] | None],
        outputs: Sequence[Handle],
    ) -> Recipe | None:
        """How the outputs of a step are computed again; None if they are kept.

        Nothing is gained by dropping what is smaller than what it is computed from, such as sums:
        the larger value would be kept in its place.
        """
        if self.recompute is None or not self._chosen(op.operation):
            return None
        first = outputs[0]
        if isinstance(first, TrackedHandle) and first.node.recipe is not None:
            return first.node.recipe  # the level below made these outputs and knows how
        values = [x if isinstance(x, Scalar) else below(x) for x in (*inputs, *outputs)]
        if any(v.backend is not None and v.backend.level for v in values):
            return None
        size = sum(_bytes(h) for h in outputs)
        if any(_bytes(x) > size for x in inputs):
            return None
        return Recipe(op, [_base(dropped(x, p)) for x, p in zip(inputs, parents, strict=True)])

    def _chosen(self, operation: Operation) -> bool:
        chosen = self._known.get(operation)
        if chosen is None:
            assert self.recompute is not None
            chosen = bool(self.recompute(operation)) and not operation.traits.dynamic_shape
            self._known[operation] = chosen
        return chosen


def _bytes(x: Handle | Scalar) -> int:
    if isinstance(x, Scalar):
        return 0
    size = x.dtype.itemsize
    for n in x.shape:
        size *= n
    return size


def _base(value: Value) -> Value:
    """A value without the levels that track it."""
    if isinstance(value, Recomputed):
        return Recomputed(value.recipe, value.index) if value.levels else value
    return value if isinstance(value, Scalar) else below(value)


def dropped(value: Handle | Scalar, origin: tuple[Node, int] | None) -> Value:
    """A value as a step keeps it: by its recipe, where there is one.

    Args:
        value: as it is below the level of the step.
        origin: the node and output that it is at that level, or None for a constant there.
    """
    inner = value
    levels = []
    while isinstance(inner, TrackedHandle):
        levels.append((inner.backend, inner.node, inner.index))
        origin = (inner.node, inner.index)
        inner = inner.inner
    if origin is None or origin[0].recipe is None:
        return value
    return Recomputed(origin[0].recipe, origin[1], levels)


KEEP_ALL = ResidualPolicy(None)
NO_LEVEL = sys.maxsize
CLOSED = ResidualPolicy(None, NO_LEVEL, closed=True)
"""Nothing is recorded, and nothing that is tracked may be used."""
_BALANCED = ResidualPolicy(lambda operation: operation.traits.bound == "memory")
_policy: ContextVar[ResidualPolicy | None] = ContextVar("ingle_residual_policy", default=KEEP_ALL)

residual_policy = _policy.get
"""What is kept of what is recorded here; None where nothing is recorded."""


def kept_by(how: ResidualPolicy | None) -> WithBlock[ResidualPolicy | None]:
    """Recording inside keeps its results in this way; None records nothing."""
    return holding(_policy, how)


def recording_at(level: int) -> WithBlock[ResidualPolicy | None]:
    """A transform works inside: its level is recorded, in the middle of `no_grad` too."""
    how = residual_policy()
    if how is None or how.least > level:
        how = ResidualPolicy(None, level, how is not None and how.closed)
    return kept_by(how)


def recorded_from() -> int | None:
    """The lowest level that is recorded here; None where none is."""
    how = residual_policy()
    return None if how is None or how.least == NO_LEVEL else how.least


def records(level: int) -> bool:
    """Whether a level is recorded here."""
    how = residual_policy()
    return how is not None and how.least <= level


@block
def checkpointing(policy: Policy = "balanced") -> Generator[None, Any, None]:
    """Recording inside keeps fewer results; the backward pass computes the others again.

    Gradients are the same bit for bit, of any order; random masks too, since random operations
    are functions of a place in their stream. It holds for the computation inside, wherever
    `backward` is called, and for this thread or task only.

    Args:
        policy: `"balanced"` keeps what was expensive (products of matrices, convolutions,
            decompositions: operations whose trait `bound` is `"compute"`) and computes the rest
            again, which costs little more than reading it would. A function of an `Operation`
            says for each whether it is computed again. `"none"` keeps everything, for a part of
            the inside. Results smaller than an input of theirs are always kept.

    Raises:
        ArgumentError: another policy.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import checkpointing, saved_bytes
    >>> x, w = it.ones((8, 64)).require_grad(), it.ones((64, 64)).require_grad()
    >>> model = lambda: it.sum(it.tanh(it.exp(it.sin(x @ w))))
    >>> plain = model()
    >>> with checkpointing("balanced"):
    ...     lean = model()
    >>> saved_bytes(plain) - saved_bytes(lean)  # four of 8 times 64 floats become two
    4096
    >>> bool(it.all(plain.backward()[w] == lean.backward()[w]))
    True
    """
    if callable(policy):
        how = ResidualPolicy(policy)
    elif policy in ("none", "balanced"):
        how = _BALANCED if policy == "balanced" else KEEP_ALL
    else:
        raise ArgumentError(
            f"checkpointing: policy must be 'balanced', 'none' or a function of an operation, "
            f"got {policy!r}"
        )
    around = residual_policy()
    if around is not None and around.least > 1:
        how = ResidualPolicy(how.recompute, around.least, around.closed)
    with kept_by(None if around is None else how):
        yield


_made: ContextVar[dict[Recipe, tuple[Handle, ...]] | None] = of_values(
    ContextVar("ingle_made", default=None)
)


def making() -> WithBlock[dict[Recipe, tuple[Handle, ...]]]:
    """A backward pass: values that are computed again inside are found in the dict."""
    return holding(_made, {})


def fetch(value: Value) -> Handle | Scalar:
    """A kept value, computed again if need be."""
    if not isinstance(value, Recomputed):
        return value
    values = _made.get()
    handle = _outputs(value.recipe, {} if values is None else values)[value.index]
    for backend, node, index in reversed(value.levels):
        handle = TrackedHandle(backend, handle, node, index)
    return handle


def _outputs(recipe: Recipe, values: dict[Recipe, tuple[Handle, ...]]) -> tuple[Handle, ...]:
    """The outputs of a recipe; what they are made of is made first, without recursion."""
    todo = [recipe]
    while todo:
        last = todo[-1]
        missing = [
            x.recipe for x in last.inputs if isinstance(x, Recomputed) and x.recipe not in values
        ]
        if missing and last not in values:
            todo.extend(missing)
            continue
        todo.pop()
        if last not in values:
            inputs = [
                values[x.recipe][x.index] if isinstance(x, Recomputed) else x for x in last.inputs
            ]
            values[last] = highest(last.op, inputs).execute(last.op, inputs)
    return values[recipe]


def saved_bytes(result: Tensor) -> int:
    """How many bytes the recording below a tensor keeps for its backward pass.

    Every value counts once, parameters and inputs too if a gradient rule asks for them. What the
    rule of a `custom_gradient` keeps besides its arguments is not seen.

    Args:
        result: a tensor that gradients are recorded for, such as a loss.

    Raises:
        OperandError: it is no tensor.
        GradientError: nothing is recorded for it.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import saved_bytes
    >>> x = it.ones(10).require_grad()
    >>> saved_bytes(it.exp(x)), saved_bytes(it.exp(x) + 1.0), saved_bytes(it.sin(it.exp(x)))
    (40, 40, 40)
    """
    handle = getattr(result, "_handle", None)
    if not isinstance(handle, Handle):
        raise OperandError(f"saved_bytes: needs a tensor, got {type(result).__name__}")
    if not isinstance(handle, TrackedHandle):
        raise GradientError(
            f"saved_bytes: nothing that led to this tensor of shape {handle.shape} records "
            "gradients. Make an input with x.require_grad(), or use parameters of a module"
        )
    found: dict[int, Handle] = {}
    for node in ordered([handle.node]):
        for value in node.kept():
            found[id(below(value))] = below(value)
    return sum(map(_bytes, found.values()))


def kept_in(values: Sequence[Value]) -> Iterator[Handle]:
    """The handles among kept values, and those that recipes are made of."""
    todo = list(values)
    seen: set[Recipe] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Handle):
            yield value
        elif isinstance(value, Recomputed) and value.recipe not in seen:
            seen.add(value.recipe)
            todo.extend(value.recipe.inputs)
