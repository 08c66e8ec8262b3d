"""The backward pass: cotangents from a root to every leaf that it depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.tensor import Gradients, Tensor, nan_watch, ones
from ingle.tensor.blocks import call_holding
from ingle.tensor.errors import DTypeError, GradientError, ShapeError
from ingle.tensor.in_place import summed
from ingle.tensor.precision import low, used

from .cached_backward import Roots, cached_backward
from .known_rules import knows_rules, pulled
from .nodes import Node, TrackedHandle, ordered
from .recording import Autodiff
from .residuals import making
from .tracked import is_recording


def backward(
    root: Tensor, cotangent: Tensor | None = None, *, create_graph: bool = False
) -> Gradients:
    """Gradients of `root` by every leaf below it; see `Tensor.backward`.

    Raises:
        GradientError: nothing that led to the root records gradients, or it has several elements
            and no cotangent.
        DTypeError: the root has no gradient, or the cotangent another dtype.
        ShapeError: the cotangent has another shape than the root.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import backward, require_grad
    >>> x = require_grad(it.asarray([1.0, 2.0]))
    >>> backward(it.sum(x * x))[x].tolist()
    [2.0, 4.0]
    """
    handle = root._handle
    if not isinstance(handle, TrackedHandle):
        state = "" if is_recording() else " (this is inside no_grad)"
        raise GradientError(
            f"backward: nothing that led to this tensor of shape {root.shape} records "
            f"gradients{state}. Make an input with x.require_grad(), or use parameters of a "
            "module that is not frozen"
        )
    if not root.dtype.is_inexact:
        raise DTypeError(f"backward: {root.dtype} has no gradient")
    if cotangent is None:
        if root.shape and math.prod(root.shape) != 1:
            raise GradientError(
                f"backward: a tensor of shape {root.shape} has no gradient of its own, only its "
                "elements have; write y.sum().backward() (or y.mean()), or pass the gradient of "
                "the final result by it: y.backward(cotangent)"
            )
        return Gradients(pull([(handle, None)], create_graph))
    if cotangent.shape != root.shape:
        raise ShapeError(
            f"backward: the cotangent must have the root's shape {root.shape}, "
            f"got {cotangent.shape}"
        )
    if cotangent.dtype is not root.dtype:
        raise DTypeError(
            f"backward: the cotangent must have the root's dtype {root.dtype}, got "
            f"{cotangent.dtype}; cast it with x.astype(...)"
        )
    if not create_graph and cotangent.backend is handle.backend:
        cotangent = Tensor(cotangent._handle.inner)  # type: ignore[attr-defined]
    return Gradients(pull([(handle, cotangent)], create_graph))


def pull(roots: Roots, tracked: bool) -> dict[object, Tensor]:
    """Cotangents by the key of those nodes that have one, from cotangents of roots of one level.

    Args:
        roots: handles with their cotangents, None for ones.
        tracked: whether the computation is recorded at the roots' level.
    """
    if used.ever and low.get() is not None:
        # Rules compute in the dtypes of what was recorded, as casts are recorded themselves.
        return call_holding(low, None, pull, roots, tracked)
    nodes = ordered([h.node for h, _ in roots])
    if not tracked and nan_watch.current() is None:
        found = cached_backward(nodes, roots, _through)
        if found is not None:
            return found
    return _through(nodes, roots, tracked)


def _through(nodes: Sequence[Node], roots: Roots, tracked: bool = False) -> dict[object, Tensor]:
    """`pull` through nodes, of which each comes after all that use it."""
    cotangents: dict[Node, _Cotangents] = {}
    for handle, g in roots:
        if g is None:
            g = ones(handle.shape, dtype=handle.dtype, device=handle.backend.device)
        _add(cotangents, handle.node, handle.index, g)
    level = roots[0][0].backend
    # A cotangent of the roots' own level is another transform's: what is computed from it stays.
    strip = not tracked and not any(g is not None and g.backend is level for _, g in roots)
    results: dict[object, Tensor] = {}
    watch = nan_watch.current()
    base = level.inner
    by_kind = not tracked and knows_rules(base)
    with making() as made:
        for node in nodes:
            found = cotangents.pop(node, None)
            if found is not None:
                got = found.parts
                own = got[0]
                if node.key is not None and own is not None:
                    known = results.get(node.key)
                    results[node.key] = own if known is None else known + own
                if watch is not None:
                    with watch.backward_of(node.order):
                        parts = node.pull(got, tracked) if node.parents else ()
                elif not node.parents:
                    parts = ()
                else:
                    parts = pulled(node, got, base) if by_kind else node.pull(got, tracked)
                for parent, part in zip(node.parents, parts, strict=True):
                    if parent is not None and part is not None:
                        _add(cotangents, *parent, _strip(part, level) if strip else part)
            if node.recipe is not None:
                made.pop(node.recipe, None)
    return results


def _strip(g: Tensor, level: Autodiff) -> Tensor:
    # A rule may read a differentiable cell; without create_graph its recording is not wanted.
    handle = g._handle
    own = handle.backend is level
    if not own and isinstance(handle, TrackedHandle):  # of the same level, on another device
        own = handle.backend.level == level.level
    return Tensor(handle.inner) if own else g  # type: ignore[attr-defined]


class _Cotangents:
    """What has come in for the outputs of a node; `summed` are those that hold a sum of its own."""

    __slots__ = ("parts", "summed")

    def __init__(self, outputs: int) -> None:
        self.parts: list[Tensor | None] = [None] * outputs
        self.summed: set[int] = set()

    def add(self, index: int, g: Tensor) -> None:
        old = self.parts[index]
        if old is None:
            self.parts[index] = g
            return
        # Rules may have given the first part to several nodes; a sum is this node's alone.
        self.parts[index] = summed(old, g, index in self.summed)
        self.summed.add(index)


def _add(cotangents: dict[Node, _Cotangents], node: Node, index: int, g: Tensor) -> None:
    found = cotangents.get(node)
    if found is None:
        found = cotangents[node] = _Cotangents(node.outputs)
    found.add(index, g)
