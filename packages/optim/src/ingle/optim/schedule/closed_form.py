"""What schedules share: they are functions of the number of steps, without an optimizer."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Self

from ingle.tensor.argument_checks import number, whole
from ingle.tensor.errors import ArgumentError
from ingle.tensor.other_names import let_properties_raise

_INSTEAD = {
    "step": "leave it out; the optimizer counts its steps (a Plateau is shown losses by observe)",
    "get_last_lr": "optimizer.lr",
    "state_dict": "leave it out; a schedule has no state, and optimizers save their steps",
    "load_state_dict": "leave it out; a schedule has no state, and optimizers save their steps",
    "last_epoch": "optimizer.steps",
}
"""What to write for PyTorch's methods of schedulers that are missing here."""


class ClosedForm:
    """The base of schedules: their numbers are numbers, and what is PyTorch's says what differs."""

    def __post_init__(self) -> None:
        if is_dataclass(self):
            for field in fields(self):
                if field.type == "float":
                    number(type(self).__name__, field.name, getattr(self, field.name))

    def _count(self, field: str, least: int = 1) -> None:
        """Refuses a field that is no whole number of at least so many; NumPy's become Python's."""
        found = whole(type(self).__name__, field, getattr(self, field), least)
        object.__setattr__(self, field, found)

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **options: Any) -> Self:
            from ..optimizer import Optimizer  # which imports schedules

            if any(isinstance(x, Optimizer) for x in (*args[:1], *options.values())):
                raise ArgumentError(
                    f"{cls.__name__}: a schedule is given to the optimizer, not made of one: "
                    f"optim.Adam(model, lr=optim.schedule.{cls.__name__}(1e-3, ...))"
                )
            return super().__new__(cls)

        def __getattr__(self, name: str) -> Any:
            let_properties_raise(self, name)
            told = _INSTEAD.get(name)
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}"
                + (f", as it has in PyTorch; here: {told}" if told else ""),
                name=name, obj=self,
            )  # fmt: skip
