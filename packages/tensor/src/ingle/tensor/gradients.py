"""The container that gradients come back in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterator, KeysView, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from . import ops
from .cell import Cell
from .dtypes import float32, float64, real_dtype
from .errors import GradientError, OperandError
from .pytree import Node

if TYPE_CHECKING:
    from .device import Device
    from .tensor import Tensor


class Gradients(Node):
    """Gradients by cell or by the tensor that `require_grad` made. Never changes once made.

    Nothing is stored in tensors, so threads may share a model: each gets its own container, and
    containers can be added, scaled, clipped and handed to other threads.

    >>> import ingle.tensor as it
    >>> w = it.asarray([1.0, 2.0]).require_grad()
    >>> grads = it.sum(w * w).backward()
    >>> grads[w].tolist()
    [2.0, 4.0]

    Others with one replaced are a dict of them, made gradients again:

    >>> it.Gradients({**grads, w: it.zeros(2)})[w].tolist()
    [0.0, 0.0]
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[Any, Tensor]) -> None:
        self._entries: dict[Any, Tensor] = {
            k if isinstance(k, Cell) else getattr(getattr(k, "_handle", None), "gradient_key", k): g
            for k, g in entries.items()
        }

    def _key(self, of: object) -> object:
        if isinstance(of, Cell):
            return of
        handle = getattr(of, "_handle", None)
        if handle is not None:
            return getattr(handle, "gradient_key", handle)
        # Iteration gives what tensors are kept by.
        if isinstance(of, Hashable) and of in self._entries:
            return of
        raise OperandError(
            f"gradients are kept by cell or tensor, got {type(of).__name__}; write grads[w]"
        )

    def __getitem__(self, of: Any) -> Tensor:
        found = self._entries.get(self._key(of))
        if found is None:
            hint = (
                "it is frozen, or the loss does not depend on it"
                if isinstance(of, Cell)
                else "only cells and the tensors that x.require_grad() returns have one; "
                "or the loss does not depend on it"
            )
            raise GradientError(f"no gradient for this {type(of).__name__} {of.shape}: {hint}")
        return found

    if not TYPE_CHECKING:

        def __setitem__(self, of: object, value: object) -> NoReturn:
            raise TypeError(
                "Gradients never change; make others: grads = Gradients({**grads, w: value}), "
                "or grads.map(function) of all of them"
            )

        def __delitem__(self, of: object) -> NoReturn:
            raise TypeError(
                "Gradients never change; make others, without w: "
                "grads = Gradients({k: g for k, g in grads.items() if k is not w})"
            )

    def get(self, of: Any, default: Tensor | None = None) -> Tensor | None:
        """The gradient, or `default` where there is none."""
        return self._entries.get(self._key(of), default)

    def __contains__(self, of: object) -> bool:
        return self._key(of) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def keys(self) -> KeysView[Any]:
        """What there are gradients of: cells, and what tensors are known by."""
        return self._entries.keys()

    def items(self) -> ItemsView[Any, Tensor]:
        """What there are gradients of, each with its gradient."""
        return self._entries.items()

    def cells(self) -> list[Cell[Any]]:
        """The cells that have a gradient here, in the order in which they were found."""
        return [k for k in self._entries if isinstance(k, Cell)]

    def tensors(self) -> list[Tensor]:
        """The gradients, in the same order as iteration."""
        return list(self._entries.values())

    def children(self) -> tuple[Tensor, ...]:
        """The gradients: transforms and `compile` take and return them."""
        return tuple(self._entries.values())

    def with_children(self, children: tuple[Any, ...]) -> Gradients:
        """Other gradients of the same cells and tensors."""
        return Gradients(dict(zip(self._entries, children, strict=True)))

    def outline(self) -> tuple[Any, ...]:
        """What they are gradients of."""
        return tuple(self._entries)

    def map(self, function: Callable[[Tensor], Tensor]) -> Gradients:
        """A container of `function(gradient)` for each gradient."""
        return Gradients({k: function(g) for k, g in self._entries.items()})

    def __add__(self, other: Gradients) -> Gradients:
        if not isinstance(other, Gradients):
            return NotImplemented
        summed = dict(self._entries)
        for key, g in other._entries.items():
            summed[key] = summed[key] + g if key in summed else g
        return Gradients(summed)

    def __radd__(self, other: object) -> Gradients:
        # sum([...]) starts from 0.
        return self if other == 0 else NotImplemented

    def __mul__(self, factor: float | Tensor) -> Gradients:
        return self.map(lambda g: g * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float | Tensor) -> Gradients:
        return self.map(lambda g: g / divisor)

    def norm(self) -> Tensor:
        """The 2-norm of all gradients as one vector: a 0-d float32 (or float64) tensor."""
        if not self._entries:
            raise GradientError("norm: this container is empty")
        grads = self.tensors()
        dtype = float64 if any(real_dtype(g.dtype) is float64 for g in grads) else float32
        # Cast before squaring: the square of a float16 overflows at 256.
        sizes = [ops.astype(ops.abs(g) if g.dtype.is_complex else g, dtype) for g in grads]
        squares = [ops.sum(ops.square(size)) for size in sizes]
        total = squares[0]
        for s in squares[1:]:
            total = total + s.to_device(total.device)
        return ops.sqrt(total)

    def to_device(self, device: Device | str) -> Gradients:
        """All gradients on another device."""
        return self.map(lambda g: g.to_device(device))

    def __repr__(self) -> str:
        inside = ", ".join(f"{tuple(g.shape)}" for g in self._entries.values())
        return f"Gradients({len(self)}: {inside})"
