"""What an optimizer trains: parameters in groups, each group with options of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ingle.nn import Module, Parameter, structure
from ingle.tensor import Cell, DType, Tensor, asarray, float32
from ingle.tensor.cell import raw_values
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError
from ingle.tensor.providing import provide
from ingle.tensor.structure import Frozen, Structured

from .counts import shared
from .options import at_step
from .schedule import Rate, Schedule, rate_at

Parameters: TypeAlias = (
    "Module | Mapping[str, Parameter] | Iterable[Parameter | tuple[str, Parameter]]"
    " | Iterable[Mapping[str, Any]]"
)
"""A module; parameters by name (`select`, `dict(model.named_parameters())`); parameters, or pairs
of name and parameter, in a row; or groups, dicts with any of these under `"params"`."""


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
    decay 0.999 of a moment would be 1.

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
        held = self.parameter.dtype
        return float32 if held.itemsize == 2 else held

    @property
    def value(self) -> Tensor:
        """The parameter's value, without gradients; what is assigned is rounded to its dtype."""
        held = self.parameter.raw
        return _fitting(held, held)

    @value.setter
    def value(self, value: Tensor) -> None:
        dtype = self.parameter.dtype
        self.parameter.value = value if value.dtype is dtype else value.astype(dtype)

    def fitting(self, value: Tensor) -> Tensor:
        """A tensor in the dtype that updates are computed in, on the parameter's device."""
        return _fitting(value, self.parameter.raw)

    def moment(
        self, name: str, shape: tuple[int, ...] | None = None, first: float = 0.0
    ) -> Cell[Tensor]:
        """The moment of that name; it follows the parameter to other devices and dtypes.

        Args:
            name: one of the optimizer's `moments`.
            shape: the parameter's if not given; see `Optimizer.moment_shape`.
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
        found = known.get(name)
        if found is not None:
            return found
        dtype, device = self.dtype, parameter.device
        wanted = parameter.shape if shape is None else shape

        def made() -> Frozen:
            # Uploaded, so that the first step is recorded like all others.
            start = asarray(np.full(wanted, first, dtype.dtype), device=device)
            return Frozen({**self.moments.raw, name: Cell(start)})

        provide(self.moments, made)
        return self.moments.raw[name]

    def fitted(
        self, name: str, cell: Cell[Tensor], held: Tensor, parameter: Tensor,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:  # fmt: skip
        """What the cell of a moment holds, in the dtype and on the device of updates; it holds that
        from here on."""
        if held.shape != (parameter.shape if shape is None else shape):
            raise ShapeError(
                f"{self.name}: its {name} has shape {held.shape}, the parameter has been given "
                f"shape {parameter.shape}; make a new optimizer"
            )
        fitting = _fitting(held, parameter)
        if fitting is not held:
            cell.rebind(fitting)
        return fitting


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
        [c if (c := k.get(name)) is not None else slot.moment_cell(name, p, k) for name in names]
        for slot, p, k in zip(slots, parameters, known, strict=True)
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
    """A tensor in the dtype that updates of a parameter are computed in, on its device."""
    dtype = parameter.dtype
    if dtype.itemsize == 2:
        dtype = float32
    value = value if value.dtype is dtype else value.astype(dtype)
    return value if value.backend is parameter.backend else value.to_device(parameter.device)


class Group(Structured):
    """Slots that share options.

    Attributes:
        slots: the parameters.
        schedule: the learning rate as a function of steps, or None where it is a number.

    >>> from ingle import nn, optim
    >>> group = optim.AdamW(nn.Linear(2, 1), lr=0.01).groups[0]
    >>> group.names, group.lr(0), group.options["weight_decay"]
    (['weight', 'bias'], 0.01, 0.01)
    """

    _announced = frozenset({"slots"})

    def __init__(self, slots: list[Slot], lr: Rate, options: dict[str, Any]) -> None:
        self.slots = slots
        for slot, steps in zip(slots, shared([slot.steps for slot in slots]), strict=True):
            slot.steps = steps
        self._options = Cell(options)
        self._rate: Cell[float] = Cell(0.0)
        self.schedule: Schedule | None = None
        self.set_lr(lr, 0)

    @property
    def rate(self) -> Cell[float]:
        """The learning rate of the last step, or of the next if there is no schedule.

        A cell; what is assigned to it, a number or a schedule, counts from the next step on.
        """
        return self._rate

    @rate.setter
    def rate(self, lr: Rate | Cell[float]) -> None:
        self.set_lr(lr.raw if isinstance(lr, Cell) else lr, 0)

    def set_lr(self, lr: Rate, step: int) -> None:
        """A number from now on, or a schedule."""
        rate = rate_at(lr, step)
        schedule = lr if callable(lr) else None
        if schedule is not self.schedule:
            # A schedule is Python code that recordings have taken in.
            self.schedule = schedule
            structure.changed()
        self._rate.value = rate

    def lr(self, step: int) -> float:
        """The learning rate of a step."""
        return self.rate.raw if self.schedule is None else rate_at(self.schedule, step)

    @property
    def options(self) -> dict[str, Any]:
        """Numbers, flags and schedules by name, such as `weight_decay`; they may be changed."""
        return self._options.raw

    @options.setter
    def options(self, options: dict[str, Any]) -> None:
        self._options.value = options

    def options_at(self, step: int) -> Mapping[str, Any]:
        """The options of a step: numbers in place of schedules, such as of a momentum."""
        return at_step(self.options, step)

    @property
    def names(self) -> list[str]:
        """The parameters' names, in order."""
        return [slot.name for slot in self.slots]

    def __repr__(self) -> str:
        lr = self.rate.raw if self.schedule is None else self.schedule
        inside = "".join(f", {k}={v!r}" for k, v in self.options.items())
        return f"Group({len(self.slots)} parameters, lr={lr!r}{inside})"


def make_groups(who: str, params: Any, lr: Rate, defaults: Mapping[str, Any]) -> list[Group]:
    """Groups from anything that `Parameters` allows, each parameter in exactly one."""
    groups: list[Group] = []
    add_groups(who, groups, params, lr, defaults)
    return groups


def add_groups(
    who: str, groups: list[Group], params: Any, lr: Rate, defaults: Mapping[str, Any]
) -> None:
    """Appends groups to others, of parameters that these do not have, or on an error nothing."""
    entries = _entries(who, params)
    owner = {slot.parameter: slot.name for group in groups for slot in group.slots}
    old = len(owner)
    made: list[Group] = []
    for entry in entries:
        unknown = set(entry) - {"params", "lr", *defaults}
        if unknown or "params" not in entry:
            raise ArgumentError(
                f"{who}: a group is a dict with 'params' and any of lr, {', '.join(defaults)}; got "
                f"{', '.join(map(str, entry))}"
            )
        slots = _slots(who, entry["params"], owner)
        options = {k: entry.get(k, v) for k, v in defaults.items()}
        made.append(Group(slots, entry.get("lr", lr), options))
    if len(owner) == old:
        raise ArgumentError(f"{who}: there are no parameters to train")
    _tell_apart(who, [*groups, *made])
    groups += made


def _slots(who: str, params: Any, owner: dict[Parameter, str]) -> list[Slot]:
    """Slots of the parameters; notes in `owner` which parameters are taken, with their names."""
    slots: list[Slot] = []
    for name, parameter in _named(who, params):
        label = name or str(len(owner))
        if parameter in owner:
            raise ArgumentError(
                f"{who}: the parameter {label!r} is given twice, first as {owner[parameter]!r}; "
                "each belongs to one group"
            )
        owner[parameter] = label
        slots.append(Slot(label, parameter, label=label))
    return slots


def _entries(who: str, params: Any) -> list[Mapping[str, Any]]:
    """The groups as dicts; one of them if what was given has no groups."""
    if isinstance(params, Mapping) and "params" in params:
        return [params]
    if isinstance(params, (Module, Mapping)):
        return [{"params": params}]
    listed = _listed(who, params)
    if listed and all(isinstance(entry, Mapping) for entry in listed):
        return listed
    return [{"params": listed}]


def _listed(who: str, params: Any) -> list[Any]:
    if isinstance(params, Parameter) or not isinstance(params, Iterable):
        raise OperandError(
            f"{who}: expected a module, parameters or groups, got {type(params).__name__}"
            + ("; put it into a list" if isinstance(params, Parameter) else "")
        )
    return list(params)


def _named(who: str, params: Any) -> Iterator[tuple[str, Parameter]]:
    if isinstance(params, Module):
        params = params.named_parameters()
    elif isinstance(params, Mapping):
        params = params.items()
    elif isinstance(params, Parameter):
        params = [params]
    for entry in params:
        name, parameter = entry if isinstance(entry, tuple) else ("", entry)
        if not isinstance(parameter, Parameter):
            raise OperandError(
                f"{who}: expected a Parameter, got {type(parameter).__name__}"
                + (f" for {name!r}" if name else "")
                + (
                    "; give the module itself, or [*a.parameters(), *b.parameters()] of several"
                    if isinstance(parameter, Module)
                    else "; wrap a tensor in ingle.nn.Parameter"
                )
            )
        yield name, parameter


def _tell_apart(who: str, groups: list[Group]) -> None:
    """Puts the group's number before names if two groups, of two modules, have one in common."""
    labels = [slot.label for group in groups for slot in group.slots]
    if len(set(labels)) == len(labels):
        return
    for group in groups:
        own = [slot.label for slot in group.slots]
        repeated = sorted({n for n in own if own.count(n) > 1})
        if repeated:
            raise ArgumentError(
                f"{who}: two parameters of a group have the name {', '.join(repeated)}; take the "
                "names from one module that holds both, with select(model, ...)"
            )
    for i, group in enumerate(groups):
        for slot in group.slots:
            slot.name = f"{i}.{slot.label}"
