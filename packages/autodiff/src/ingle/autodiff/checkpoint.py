"""Checkpointing: keep a block's inputs instead of what it computes, and run it again backward."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any

from ingle.tensor import Cell, Tensor, call, transaction
from ingle.tensor.contract import Handle
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.ops.elementwise.dependence import ordered_after
from ingle.tensor.programs import TracedMoveError
from ingle.tensor.pytree import flatten, tree_map, unflatten

from .batching import batching_of, below_batch
from .engine import pull
from .lifting import lowered, tracked_at
from .nodes import Node, TrackedHandle
from .recording import Autodiff, decorator
from .residuals import CLOSED, dropped, fetch, kept_by, kept_in, records
from .ruled_programs import is_written_down
from .tracked import Shown, is_recording, leaf, lift, showing, shown_below, shown_level
from .transform_arguments import of_functions


@of_functions
def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose intermediate values are not kept for the backward pass.

    Chen et al.: Training deep nets with sublinear memory cost (2016). The backward pass runs the
    function once more: on the inputs, cell values and random places of its first run, in the same
    surroundings (default dtypes, device, `checkpointing`), and without its writes to cells. The
    function must otherwise depend on its arguments alone.

    Args:
        function: takes and returns tensors, possibly nested in tuples, lists and dicts, and
            whatever else it likes. It may read modules and other cells, and be a module.

    Raises:
        GradientError: the function, when it is called, uses a tensor that is neither an argument
            nor a cell's and whose gradient is recorded.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import checkpoint
    >>> x = it.ones(3).require_grad()
    >>> block = checkpoint(lambda x: it.exp(it.exp(x)))
    >>> bool(block(x).sum().backward()[x][0] > 41)
    True
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not is_recording():
            return function(*args, **kwargs)
        tensors = [x for x in flatten((args, kwargs)) if isinstance(x, Tensor)]
        if tensors and is_written_down(tensors):
            # A program has no values to keep: it notes that the block is to be computed again.
            block = functools.partial(function, **kwargs)
            try:
                return call(block, *args, name="checkpoint", recompute=True)
            except TracedMoveError:
                # A region is of one device: what is computed on several is recorded twice.
                return _first(function, args, kwargs)
        batching = batching_of(flatten((args, kwargs)))
        if batching is not None and batching.level > shown_level():
            return below_batch(batching, checkpoint, function)(*args, **kwargs)
        return _first(function, args, kwargs)

    return run


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]], segments: int
) -> Callable[[Any], Any]:
    """Functions in a row, such as the modules of an `nn.Sequential`, checkpointed in segments.

    With `n` equal layers the backward pass keeps about `segments` + `n` / `segments` of their
    results instead of `n`. The last segment is not checkpointed: its results are wanted first.

    Args:
        functions: each takes what the one before it returned.
        segments: how many runs of about equal length they are cut into.

    Raises:
        OperandError: something among them cannot be called.
        ArgumentError: `segments` is not between 1 and their number.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> from ingle.autodiff import checkpoint_sequential
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    >>> loss = it.sum(checkpoint_sequential(model, 2)(it.ones((2, 4))))
    >>> len(loss.backward())
    4
    """
    steps = list(functions)
    for place, step in enumerate(steps):
        if not callable(step):
            raise OperandError(
                f"checkpoint_sequential: functions[{place}] cannot be called, it is a "
                f"{type(step).__name__}"
            )
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1:
        raise ArgumentError(
            f"checkpoint_sequential: segments must be a positive integer, got {segments!r}"
        )
    if segments > len(steps):
        raise ArgumentError(
            f"checkpoint_sequential: segments={segments}, but there are {len(steps)} functions"
        )
    cuts = [round(len(steps) * i / segments) for i in range(segments + 1)]
    parts = [_in_a_row(steps[a:b]) for a, b in itertools.pairwise(cuts)]
    return _in_a_row([*map(checkpoint, parts[:-1]), parts[-1]])


def _in_a_row(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run


def _first(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    block = _Block(function, args, kwargs)
    return block.first() if records(block.level) else function(*args, **kwargs)


def _own(x: Any) -> Any:
    return Tensor(x._handle) if isinstance(x, Tensor) else x


class _Block:
    """A call of a checkpointed function: what it takes to run it again.

    Attributes:
        arguments: their structure; its leaves are `leaves` before the first run is recorded.
        reads: the cells that the first run read, with the values that it found.
        context: what surrounded the first run.
        level: the highest that its arguments or cells are tracked at.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        self.arguments = (args, kwargs)
        self.leaves = flatten(self.arguments)
        self.reads: dict[Cell[Any], Any] = {}
        self.context = copy_context()
        levels = [x.backend.level for x in self.leaves if isinstance(x, Tensor)]
        self.level = max(1, shown_level(), *levels)

    def first(self) -> Any:
        """Runs it without keeping anything at its level, and records the block as one node."""
        # Tensors of its own: `x += 1` outside must not change what the replay sees.
        plain = [_own(lowered(x, self.level)) for x in self.leaves]
        with transaction() as scope:
            args, kwargs = unflatten(self.arguments, plain)
            if self.level == 1:
                with kept_by(CLOSED):
                    result = self.function(*args, **kwargs)
            else:
                with showing(shown_below(self.level)):
                    result = checkpoint(self.function)(*args, **kwargs)
        self.reads = dict(scope.reads)
        return self._record(result, plain)

    def again(self, leaves: list[Any], shown: Shown) -> list[Any]:
        """What it returned, computed from other leaves, where cells show other tensors."""

        def run() -> list[Any]:
            with transaction(commit=False, replay=self.reads), showing(shown):
                args, kwargs = unflatten(self.arguments, leaves)
                return flatten(self.function(*args, **kwargs))

        return self.context.copy().run(run)

    def _record(self, result: Any, plain: list[Any]) -> Any:
        level = self.level
        found = {i: tracked_at(x, level) for i, x in enumerate(self.leaves)}
        origins = {i: h for i, h in found.items() if h is not None}
        cells: dict[Cell[Any], TrackedHandle] = {}
        for cell, raw in self.reads.items():
            handle = tracked_at(lift(cell, raw), level) if cell.differentiable else None
            if handle is not None:
                cells[cell] = handle
        outputs = flatten(result)
        places = [i for i, x in enumerate(outputs) if isinstance(x, Tensor) and x.dtype.is_inexact]
        if not places or not (origins or cells):
            return result
        node = _Replay(self, plain, origins, cells, places)
        # The node has the values now, where need be by a recipe.
        self.arguments, self.leaves = tree_map(lambda _: None, self.arguments), []
        for index, place in enumerate(places):
            handle = outputs[place]._handle
            outputs[place] = Tensor(
                TrackedHandle(decorator(handle.backend, level), handle, node, index)
            )
        return unflatten(result, outputs)


class _Replay(Node):
    """A checkpointed block: it runs again to find its gradients."""

    __slots__ = ("block", "cells", "origins", "places", "plain")

    def __init__(
        self,
        block: _Block,
        plain: list[Any],
        origins: dict[int, TrackedHandle],
        cells: dict[Cell[Any], TrackedHandle],
        places: list[int],
    ) -> None:
        parents = [(h.node, h.index) for h in (*origins.values(), *cells.values())]
        super().__init__(tuple(parents), outputs=len(places))
        self.block = block
        self.plain = list(plain)
        for i, h in origins.items():
            self.plain[i] = dropped(h.inner, (h.node, h.index))
        self.origins = {i: (h.backend, h.node, h.index) for i, h in origins.items()}
        self.cells = {c: (h.backend, h.inner, h.node, h.index) for c, h in cells.items()}
        self.places = places

    def kept(self) -> Iterable[Handle]:
        yield from (x._handle for x in self.plain if isinstance(x, Tensor))
        yield from kept_in([self.plain[i] for i in self.origins])
        yield from (inner for _, inner, _, _ in self.cells.values())

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        block = self.block
        leaves = list(self.plain)
        # What is recorded would otherwise be one with the first run, and so be kept after all.
        cause = next(lowered(g, block.level) for g in cotangents if g is not None)

        def after(base: Handle) -> Handle:
            return ordered_after(base, cause._handle)._handle

        keys: list[object] = []
        for i, (backend, node, index) in self.origins.items():
            base = fetch(self.plain[i])
            assert isinstance(base, Handle)
            base = after(base)
            fresh = self._fresh(backend, base, (node, index), tracked)
            keys.append(fresh.node)
            leaves[i] = Tensor(fresh)
        shown: Shown = {}
        for cell, (backend, base, node, index) in self.cells.items():
            fresh = self._fresh(backend, after(base), (node, index), tracked)
            keys.append(fresh.node)
            shown[cell] = (block.reads[cell]._handle, Tensor(fresh))
        outputs = block.again(leaves, shown)
        roots = [
            (outputs[place]._handle, g)
            for place, g in zip(self.places, cotangents, strict=True)
            if g is not None and isinstance(outputs[place]._handle, TrackedHandle)
        ]
        found = pull(roots, False) if roots else {}
        return [found.get(key) for key in keys]

    @staticmethod
    def _fresh(
        backend: Autodiff, base: Handle, origin: tuple[Node, int], tracked: bool
    ) -> TrackedHandle:
        # To differentiate the gradient in turn, the block is replayed one level up, over values
        # that are themselves tracked where they were.
        if tracked:
            return leaf(TrackedHandle(backend, base, *origin), backend.level + 1)
        return leaf(base, backend.level)
