"""A module as a printed tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.tensor import Cell

from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module


def tree(module: Module) -> str:
    """One line a module and a cell, with shapes, dtypes and numbers of elements, then totals.

    >>> from ingle.nn import Linear
    >>> print(Linear(2, 3).summary())
    Linear(in_features=2, out_features=3, bias=True)  9
    ├─ weight (3, 2) float32                          6
    └─ bias (3,) float32                              3
    9 parameters (36 B), 9 trainable, 0 frozen; 0 elements in buffers
    """
    drawn = _Tree()
    drawn.add(module, type(module).__name__, "", "", "")
    width = max(len(left) for left, _ in drawn.rows)
    digits = max(len(right) for _, right in drawn.rows)
    lines = [f"{left:<{width}}  {right:>{digits}}".rstrip() for left, right in drawn.rows]
    return "\n".join([*lines, _totals(module)])


class _Tree:
    """Rows of what is said of a module or cell and a number, and where each was first seen."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.seen: dict[int, str] = {}

    def add(self, module: Module, label: str, lead: str, below: str, path: str) -> None:
        """A row for the module, after `lead`, and rows for all below it, after `below`."""
        extra = module.extra_repr()
        left = f"{lead}{label}({extra})" if extra else f"{lead}{label}"
        if id(module) in self.seen:
            self.rows.append((left, f"shared with {self.seen[id(module)]}"))
            return
        self.seen[id(module)] = path or "the root"
        self.rows.append((left, f"{module.count_parameters():,}"))
        entries = list(module._registered())
        for i, (name, value) in enumerate(entries, 1):
            branch, indent = ("└─ ", "   ") if i == len(entries) else ("├─ ", "│  ")
            inner = f"{path}.{name}" if path else name
            if not isinstance(value, Cell):
                label = f"{name}: {type(value).__name__}"
                self.add(value, label, below + branch, below + indent, inner)
            else:
                self.rows.append(self._cell(value, f"{below}{branch}{name}", inner))

    def _cell(self, cell: Cell[object], left: str, path: str) -> tuple[str, str]:
        if not isinstance(cell, (Parameter, Buffer)):
            return f"{left} {type(cell).__name__}", ""
        left = f"{left} {cell.shape} {cell.dtype}"
        if isinstance(cell, Buffer):
            return f"{left} buffer", ""
        if not cell.requires_grad:
            left += " frozen"
        if id(cell) in self.seen:
            return left, f"tied to {self.seen[id(cell)]}"
        self.seen[id(cell)] = path
        return left, f"{cell.raw.size:,}"


def _totals(module: Module) -> str:
    count, trainable = module.count_parameters(), module.count_parameters(trainable_only=True)
    bytes_ = sum(p.raw.nbytes for p in module.parameters())
    kept = sum(b.raw.size for b in module.buffers())
    return (
        f"{count:,} parameters ({_size(bytes_)}), {trainable:,} trainable, "
        f"{count - trainable:,} frozen; {kept:,} elements in buffers"
    )


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
