"""The backward pass: cotangents from a root to every leaf that it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor import Gradients, Tensor, ones
from ingle.tensor.errors import DTypeError, GradientError, ShapeError

from .recording import Autodiff, Node, TrackedHandle, is_recording


def backward(
    root: Tensor, cotangent: Tensor | None = None, *, create_graph: bool = False
) -> Gradients:
    """Gradients of `root` by every leaf below it; see `Tensor.backward`."""
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
        cotangent = ones(root.shape, dtype=root.dtype, device=root.device)
    elif cotangent.shape != root.shape:
        raise ShapeError(
            f"backward: the cotangent must have the root's shape {root.shape}, "
            f"got {cotangent.shape}"
        )
    elif not create_graph and cotangent.backend is handle.backend:
        cotangent = Tensor(cotangent._handle.inner)  # type: ignore[attr-defined]
    return Gradients(pull([(handle, cotangent)], create_graph))


def pull(roots: Sequence[tuple[TrackedHandle, Tensor]], tracked: bool) -> dict[object, Tensor]:
    """Cotangents by the key of those nodes that have one, from cotangents of roots of one level.

    Args:
        roots: handles with their cotangents.
        tracked: whether the computation is recorded at the roots' level.
    """
    cotangents: dict[Node, list[Tensor | None]] = {}
    for handle, g in roots:
        _add(cotangents, handle.node, handle.index, g)
    level = roots[0][0].backend
    # A cotangent of the roots' own level is another transform's: what is computed from it stays.
    strip = not tracked and not any(g.backend is level for _, g in roots)
    results: dict[object, Tensor] = {}
    for node in _ordered([h.node for h, _ in roots]):
        got = cotangents.pop(node, None)
        if got is None:
            continue
        own = got[0]
        if node.key is not None and own is not None:
            known = results.get(node.key)
            results[node.key] = own if known is None else known + own
        if not node.parents:
            continue
        for parent, part in zip(node.parents, node.pull(got, tracked), strict=True):
            if parent is not None and part is not None:
                _add(cotangents, *parent, _strip(part, level) if strip else part)
    return results


def _strip(g: Tensor, level: Autodiff) -> Tensor:
    # A rule may read a differentiable cell; without create_graph its recording is not wanted.
    handle = g._handle
    return Tensor(handle.inner) if handle.backend is level else g  # type: ignore[attr-defined]


def _add(cotangents: dict[Node, list[Tensor | None]], node: Node, index: int, g: Tensor) -> None:
    slots = cotangents.get(node)
    if slots is None:
        slots = cotangents[node] = [None] * node.outputs
    old = slots[index]
    slots[index] = g if old is None else old + g


def _ordered(roots: list[Node]) -> list[Node]:
    """Every node below the roots, the latest first: each after all that use it."""
    seen = set(roots)
    todo = list(seen)
    while todo:
        for parent in todo.pop().parents:
            if parent is not None and parent[0] not in seen:
                seen.add(parent[0])
                todo.append(parent[0])
    return sorted(seen, key=lambda n: -n.order)
