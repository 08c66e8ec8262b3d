"""What is recorded: steps that know what they came from, and handles that know their step."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor import Tensor
from ingle.tensor.contract import Handle, Scalar

if TYPE_CHECKING:
    from ingle.tensor.device import Device

    from .recording import Autodiff
    from .residuals import Recipe

Parents = Sequence["tuple[Node, int] | None"]

order = itertools.count()
"""Numbers for nodes: the later, the larger."""


class Node:
    """One recorded step, or a leaf.

    Attributes:
        order: counts up, so that descending order is a topological order, the same each time.
        parents: for each input the node and output it came from, or None for a constant.
        outputs: how many there are.
        key: what its gradient is kept by, if it is: a cell, or the node itself.
        recipe: how its outputs are computed again, if they are not kept.
    """

    __slots__ = ("key", "order", "outputs", "parents", "recipe")

    recipe: Recipe | None

    def __init__(self, parents: Parents, outputs: int = 1, key: object = None) -> None:
        self.order = next(order)
        self.parents = parents
        self.outputs = outputs
        self.key = key
        self.recipe = None

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        """Cotangents of the inputs from those of the outputs; recorded in turn if `tracked`."""
        raise NotImplementedError

    def kept(self) -> Iterable[Handle]:
        """The values that it keeps for the backward pass."""
        return ()

    def identity(self) -> object | None:
        """Equal for steps whose `pull` does the same with what they keep; None if unknown."""
        return () if type(self) is Node else None

    def is_own(self) -> bool:
        """Whether `pull` calls nothing but Ingle's code."""
        return False

    def kept_values(self) -> Sequence[Handle | Scalar]:
        """What `pull` may use besides cotangents, if the step has an identity."""
        return ()

    def keeping(self, values: Sequence[Handle | Scalar], parents: Parents) -> Node:
        """The same step with other parents, keeping other values."""
        return self


class Kept(Node):
    """Passes on the cotangent of a value in the middle, and keeps it."""

    __slots__ = ()

    def __init__(self, origin: tuple[Node, int]) -> None:
        super().__init__((origin,))
        self.key = self

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        return cotangents


class Moved(Node):
    """A value that went to another device: its cotangent goes back."""

    __slots__ = ("origin",)

    def __init__(self, parent: tuple[Node, int], origin: Device) -> None:
        super().__init__((parent,))
        self.origin = origin

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        (g,) = cotangents
        return (None if g is None else g.to_device(self.origin),)


class TrackedHandle(Handle):
    """A value of a lower level with the node that made it."""

    __slots__ = ("index", "inner", "node")

    backend: Autodiff

    def __init__(self, backend: Autodiff, inner: Handle, node: Node, index: int) -> None:
        self.backend = backend
        self.inner = inner
        self.shape = inner.shape
        self.dtype = inner.dtype
        self.node = node
        self.index = index
        if inner.owned is not None:
            inner.owned.share()

    def detached(self) -> Handle:
        return self.inner.detached()

    def item(self) -> Any:
        return self.inner.item()

    def base(self) -> Handle:
        return self.inner.base()

    @property
    def gradient_key(self) -> object:
        """What `Gradients` looks a tensor up by."""
        return self.node.key


def below(handle: Handle) -> Handle:
    """The value under all tracking, or under that above a batch."""
    while isinstance(handle, TrackedHandle):
        handle = handle.inner
    return handle


def ordered(roots: Iterable[Node]) -> list[Node]:
    """Every node below the roots, the latest first: each after all that use it."""
    seen = set(roots)
    todo = list(seen)
    while todo:
        for parent in todo.pop().parents:
            if parent is not None and parent[0] not in seen:
                seen.add(parent[0])
                todo.append(parent[0])
    return sorted(seen, key=lambda n: -n.order)
