"""Checkpointing: keep a block's inputs instead of what it computes, and run it again backward."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor import Cell, Tensor, transaction
from ingle.tensor.contract import Handle
from ingle.tensor.pytree import flatten, unflatten

from .batching import batching_of, below_batch
from .engine import pull
from .recording import (
    Autodiff,
    Node,
    Shown,
    TrackedHandle,
    decorator,
    is_recording,
    leaf,
    lift,
    no_grad,
    showing,
)


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose intermediate values are not kept for the backward pass.

    Chen et al.: Training deep nets with sublinear memory cost (2016). The backward pass runs the
    function once more: on the inputs, cell values and random places of its first run, and without
    its writes to cells. The function must otherwise depend on its arguments alone.

    Args:
        function: takes and returns tensors, possibly nested in tuples, lists and dicts, and
            whatever else it likes. It may read modules and other cells.

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
        batching = batching_of(flatten((args, kwargs)))
        if batching is not None:
            return below_batch(batching, checkpoint, function)(*args, **kwargs)
        return _Block(function, args, kwargs).first()

    return run


class _Block:
    """A call of a checkpointed function: what it takes to run it again."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        self.arguments = (args, kwargs)
        self.leaves = flatten(self.arguments)
        self.reads: dict[Cell[Any], Any] = {}
        tensors = [x._handle for x in self.leaves if isinstance(x, Tensor)]
        self.level = max([h.backend.level for h in tensors], default=0)

    def first(self) -> Any:
        """Runs it without keeping anything at its level, and records the block as one node."""
        level = max(self.level, 1)
        lowered = [_below(x, level) for x in self.leaves]
        with transaction() as scope:
            args, kwargs = unflatten(self.arguments, lowered)
            if level == 1:
                with no_grad():
                    result = self.function(*args, **kwargs)
            else:
                result = checkpoint(self.function)(*args, **kwargs)
        self.reads = dict(scope.reads)
        return self._record(result, lowered, level)

    def _record(self, result: Any, lowered: list[Any], level: int) -> Any:
        origins = {
            i: x._handle for i, x in enumerate(self.leaves)
            if isinstance(x, Tensor) and _tracked(x._handle, level)
        }  # fmt: skip
        cells: dict[Cell[Any], TrackedHandle] = {}
        for cell, raw in self.reads.items():
            shown = lift(cell, raw) if cell.differentiable else None
            if isinstance(shown, Tensor) and _tracked(shown._handle, level):
                cells[cell] = shown._handle  # type: ignore[assignment]
        outputs = flatten(result)
        places = [i for i, x in enumerate(outputs) if isinstance(x, Tensor) and x.dtype.is_inexact]
        if not places or not (origins or cells):
            return result
        node = _Replay(self, lowered, origins, cells, places)
        for index, place in enumerate(places):
            handle = outputs[place]._handle
            outputs[place] = Tensor(
                TrackedHandle(decorator(handle.backend, level), handle, node, index)
            )
        return unflatten(result, outputs)


class _Replay(Node):
    """The block as a node: runs it again to find the cotangents of its inputs and cells."""

    __slots__ = ("block", "cells", "lowered", "origins", "places")

    def __init__(
        self,
        block: _Block,
        lowered: list[Any],
        origins: dict[int, Any],
        cells: dict[Cell[Any], TrackedHandle],
        places: list[int],
    ) -> None:
        parents = [(h.node, h.index) for h in (*origins.values(), *cells.values())]
        super().__init__(tuple(parents), outputs=len(places))
        self.block = block
        self.lowered = lowered
        self.origins = {i: (h.backend, h.node, h.index) for i, h in origins.items()}
        self.cells = {c: (h.backend, h.inner, h.node, h.index) for c, h in cells.items()}
        self.places = places

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        block = self.block
        leaves = list(self.lowered)
        keys: list[object] = []
        for i, (backend, node, index) in self.origins.items():
            base = self.lowered[i]._handle
            fresh = self._fresh(backend, base, (node, index), tracked)
            keys.append(fresh.node)
            leaves[i] = Tensor(fresh)
        shown: Shown = {}
        for cell, (backend, base, node, index) in self.cells.items():
            fresh = self._fresh(backend, base, (node, index), tracked)
            keys.append(fresh.node)
            shown[cell] = (block.reads[cell]._handle, Tensor(fresh))
        with transaction(commit=False, replay=block.reads), showing(shown):
            args, kwargs = unflatten(block.arguments, leaves)
            outputs = flatten(block.function(*args, **kwargs))
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


def _tracked(handle: Handle, level: int) -> bool:
    return isinstance(handle, TrackedHandle) and handle.backend.level == level


def _below(x: Any, level: int) -> Any:
    if (
        isinstance(x, Tensor)
        and isinstance(x._handle, TrackedHandle)
        and _tracked(x._handle, level)
    ):
        return Tensor(x._handle.inner)
    return x
