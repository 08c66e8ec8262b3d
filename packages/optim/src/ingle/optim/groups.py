"""What an optimizer trains: parameters in groups, each group with options of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ingle.nn import Module, Parameter, structure
from ingle.tensor import Cell
from ingle.tensor.argument_checks import did_you_mean
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.structure import Structured

from .counts import shared
from .options import at_step
from .schedule.rate import Rate, Schedule, rate_at
from .slots import Slot

Parameters: TypeAlias = (
    "Module | Mapping[str, Parameter] | Iterable[Parameter | tuple[str, Parameter]]"
    " | Iterable[Mapping[str, Any]]"
)
"""A module; parameters by name (`select`, `dict(model.named_parameters())`); parameters, or pairs
of name and parameter, in a row; or groups, dicts with any of these under `"params"`."""


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
        self._known = frozenset(options)
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
        """The options of a step: numbers in place of schedules, such as of a momentum.

        Raises:
            ArgumentError: `options` has been given one that there is not, or has lost one.
        """
        options = self.options
        if options.keys() != self._known:
            self._refuse_other(options)
        return at_step(options, step)

    def _refuse_other(self, options: Mapping[str, Any]) -> NoReturn:
        for name in options:
            if name not in self._known:
                raise ArgumentError(f"Group.options: {_no_option(name, self._known)}")
        lost = ", ".join(sorted(self._known - set(options)))
        raise ArgumentError(f"Group.options: there is no {lost} any more; set it again")

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "lr":
                raise AttributeError(
                    "Group.lr is a function of the step; write group.rate = 0.1, or a schedule",
                    name=name, obj=self,
                )  # fmt: skip
            super().__setattr__(name, value)

        def __getitem__(self, name: object) -> NoReturn:
            raise TypeError(f"a Group is no dict, as it is in PyTorch; write {_instead(name)}")

        def __setitem__(self, name: object, value: object) -> NoReturn:
            raise TypeError(
                f"a Group is no dict, as it is in PyTorch; write {_instead(name, ' = ...')}"
            )

    @property
    def names(self) -> list[str]:
        """The parameters' names, in order."""
        return [slot.name for slot in self.slots]

    def __repr__(self) -> str:
        lr = self.rate.raw if self.schedule is None else self.schedule
        inside = "".join(f", {k}={v!r}" for k, v in self.options.items())
        return f"Group({len(self.slots)} parameters, lr={lr!r}{inside})"


def _instead(name: object, assigned: str = "") -> str:
    """What to write for an entry of one of PyTorch's groups."""
    if name == "lr":
        return f"group.rate{assigned}"
    if name == "params":
        return "optimizer.add_param_group" if assigned else "[s.parameter for s in group.slots]"
    return f"group.options[{name!r}]{assigned}"


def _no_option(name: object, known: Collection[str]) -> str:
    if name in ("lr", "params"):
        return f"{name!r} is none of the options; write {_instead(name, ' = ...')}"
    meant = did_you_mean(str(name), known, f". There are: {', '.join(sorted(known))}")
    return f"there is no option {name!r}{meant}"


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
            + (f"; call it: {params.__name__}()" if isinstance(params, MethodType) else "")
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
