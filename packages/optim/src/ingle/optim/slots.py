"""A parameter with what an optimizer keeps of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ingle.nn import Parameter
from ingle.tensor import Cell, DType, Tensor, float32
from ingle.tensor.cell import raw_values
from ingle.tensor.device import backend_of
from ingle.tensor.dispatch import wrap
from ingle.tensor.dtypes import real_dtype
from ingle.tensor.errors import ShapeError
from ingle.tensor.providing import provide
from ingle.tensor.structure import Frozen

from .complex_parameters import as_reals, from_reals

_SHARED = 1 << 16
"""Bytes up to which an array that moments are made of is kept for the next ones."""


class Moments(Cell[Mapping[str, Cell[Tensor]]]):
    """Cells of moments by name, as a cell and as a mapping: `slot.moments["exp_avg"]`."""

    __slots__ = ()

    def __init__(self, value: Mapping[str, Cell[Tensor]]) -> None:
        super().__init__(Frozen(value))

    def rebind(self, value: Mapping[str, Cell[Tensor]]) -> None:
        """Other moments."""
        super().rebind(Frozen(value))

    def __getitem__(self, name: str) -> Cell[Tensor]:  # type: ignore[override]
        held = self.raw
        if name not in held:
            raise KeyError(
                f"no moment {name!r}; there are: {', '.join(held) or 'none'}. "
                f"slot.moment({name!r}) makes one of zeros"
            )
        return held[name]

    def __contains__(self, name: object) -> bool:
        return name in self.raw

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self.raw.keys()

    def items(self) -> Iterable[tuple[str, Cell[Tensor]]]:
        """Names with cells."""
        return self.raw.items()


@dataclass(eq=False, slots=True)
class Slot:
    """A parameter with what the optimizer keeps of it, all in cells, for transactions to hold.

    Updates of half types are computed in float32, and their moments are kept in it: in bfloat16 the
    decay 0.999 of a moment would be 1. Those of complex numbers are computed with both parts as two
    real ones, along one more axis.

    Attributes:
        steps: how many updates the parameter had.
        moments: cells of moments by name; made at the first update, as zeros.
        label: the name before groups whose names meet are told apart by number.

    >>> from ingle import nn, optim
    >>> model = nn.Linear(2, 1)
    >>> slot = optim.SGD(model, lr=0.1).groups[0].slots[0]
    >>> slot.name, slot.parameter is model.weight, slot.value.shape
    ('weight', True, (1, 2))
    """

    name: str
    parameter: Parameter
    steps: Cell[int] = field(default_factory=lambda: Cell(0))
    moments: Moments = field(default_factory=lambda: Moments({}))
    label: str = ""

    def __setattr__(self, name: str, value: Any) -> None:
        held = getattr(self, name, None) if name in ("steps", "moments", "parameter") else None
        if isinstance(held, Cell) and not isinstance(value, Cell):
            held.value = value
        else:
            object.__setattr__(self, name, value)

    @property
    def dtype(self) -> DType:
        """The dtype that updates are computed in."""
        return _dtype_of_updates(self.parameter.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what updates are computed with."""
        held = self.parameter.raw
        return (*held.shape, 2) if held.dtype.is_complex else held.shape

    @property
    def value(self) -> Tensor:
        """The parameter's value, without gradients; what is assigned is rounded to its dtype."""
        held = self.parameter.raw
        return _fitting(held, held)

    @value.setter
    def value(self, value: Tensor) -> None:
        self.parameter.value = self.rounded(value)

    def rounded(self, value: Tensor) -> Tensor:
        """What updates have computed, in the parameter's dtype."""
        dtype = self.parameter.dtype
        if dtype.is_complex:
            value = from_reals(value)
        return value if value.dtype is dtype else value.astype(dtype)

    def fitting(self, value: Tensor) -> Tensor:
        """A tensor of the parameter's shape as updates take it, on the parameter's device."""
        held = self.parameter.raw
        if held.dtype.is_complex and not value.dtype.is_complex:
            value = value.astype(held.dtype)
        return _fitting(value, held)

    def moment(
        self, name: str, shape: tuple[int, ...] | None = None, first: float = 0.0
    ) -> Cell[Tensor]:
        """The moment of that name; it follows the parameter to other devices and dtypes.

        Args:
            name: one of the optimizer's `moments`.
            shape: the slot's if not given; see `Optimizer.moment_shape`.
            first: what it is filled with when it is made.

        Raises:
            ShapeError: the parameter has had another shape.
        """
        parameter = self.parameter.raw
        cell = self.moment_cell(name, parameter, self.moments.raw, shape, first)
        # Read at once, in the first step as in later ones: recordings of both have one order.
        self.fitted(name, cell, cell.raw, parameter, shape)
        return cell

    def moment_cell(
        self, name: str, parameter: Tensor, known: Mapping[str, Cell[Tensor]],
        shape: tuple[int, ...] | None = None, first: float = 0.0,
    ) -> Cell[Tensor]:  # fmt: skip
        """The moment of that name, which may be of another shape, dtype and device, where the cells
        of the parameter and of the moments hold these; see `moment`."""
        return self.moment_cells((name,), parameter, known, shape, first)[0]

    def moment_cells(
        self, names: Sequence[str], parameter: Tensor, known: Mapping[str, Cell[Tensor]],
        shape: tuple[int, ...] | None = None, first: float = 0.0,
    ) -> list[Cell[Tensor]]:  # fmt: skip
        """The moments of those names, as `moment_cell` gives one."""
        missing = [name for name in names if name not in known]
        if missing:
            device, dtype = parameter.device, self.dtype.dtype
            size = self.shape if shape is None else shape
            small = math.prod(size) * dtype.itemsize <= _SHARED
            start = (_start if small else np.full)(size, first, dtype)

            def made() -> Frozen:
                # Uploaded, so that the first step is recorded like all others.
                backend = backend_of(device)
                new = {name: Cell(wrap(backend.upload(start))) for name in missing}
                return Frozen({**self.moments.raw, **new})

            provide(self.moments, made)
            known = self.moments.raw
        return [known[name] for name in names]

    def fitted(
        self, name: str, cell: Cell[Tensor], held: Tensor, parameter: Tensor,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:  # fmt: skip
        """What the cell of a moment holds, in the dtype and on the device of updates; it holds that
        from here on."""
        if held.shape != (self.shape if shape is None else shape):
            raise ShapeError(
                f"{self.name}: its {name} has shape {held.shape}, the parameter has been given "
                f"shape {parameter.shape}; make a new optimizer"
            )
        fitting = _fitting(held, parameter)
        if fitting is not held:
            cell.rebind(fitting)
        return fitting


@lru_cache(maxsize=64)
def _start(shape: tuple[int, ...], first: float, dtype: np.dtype[Any]) -> np.ndarray:
    """What moments begin with; many parameters are alike, and each array takes long to make."""
    made = np.full(shape, first, dtype)
    made.flags.writeable = False
    return made


def operands_of(
    slots: Sequence[Slot], names: Sequence[str]
) -> list[tuple[Tensor, list[Cell[Tensor]], list[Tensor]]]:
    """What updates of some parameters read: the value, moments, and what these hold.

    Args:
        slots: of the parameters.
        names: of moments, which are those of `Slot.moment`.

    Raises:
        ShapeError: a parameter has had another shape.
    """
    parameters = raw_values([slot.parameter for slot in slots])
    known = raw_values([slot.moments for slot in slots])
    cells = [
        slot.moment_cells(names, p, k) for slot, p, k in zip(slots, parameters, known, strict=True)
    ]
    # Read at once, in the first step as in later ones: recordings of both have one order.
    held = iter(raw_values([cell for some in cells for cell in some]))
    found = []
    for slot, parameter, own in zip(slots, parameters, cells, strict=True):
        value = _fitting(parameter, parameter)
        shape, dtype, backend = value.shape, value.dtype, value.backend
        values = []
        for name, cell in zip(names, own, strict=True):
            moment = next(held)
            # Most fit, which is asked here: a call for each takes as long as all of this.
            if moment.shape != shape or moment.dtype is not dtype or moment.backend is not backend:
                moment = slot.fitted(name, cell, moment, parameter)
            values.append(moment)
        found.append((value, own, values))
    return found


def _fitting(value: Tensor, parameter: Tensor) -> Tensor:
    """A tensor as updates of a parameter take it, on its device."""
    if value.dtype.is_complex:
        value = as_reals(value)
    dtype = _dtype_of_updates(parameter.dtype)
    value = value if value.dtype is dtype else value.astype(dtype)
    return value if value.backend is parameter.backend else value.to_device(parameter.device)


def _dtype_of_updates(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else real_dtype(dtype)
