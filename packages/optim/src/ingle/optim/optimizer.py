"""The base of optimizers: from gradients to new values of cells, all at once."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ingle.nn import structure
from ingle.tensor import Gradients, Tensor, transaction
from ingle.tensor.argument_checks import did_you_mean, number
from ingle.tensor.cell import Cell
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.other_names import let_properties_raise
from ingle.tensor.precision import suspended
from ingle.tensor.structure import Structured

from . import state
from ._gradients import require_gradients, require_loss
from .clipping import NonFiniteError, clip_grad_norm, clip_grad_value
from .counts import advance
from .groups import Group, Parameters, add_groups, make_groups
from .options import refuse_no_number
from .schedule.rate import Rate
from .slots import Slot

_INSTEAD = {
    "zero_grad": "leave it out; nothing accumulates, gradients are what loss.backward() returns",
    "param_groups": "optimizer.groups",
    "state": "optimizer.state_dict()",
    "defaults": "the options of optimizer.groups",
}
"""What to write for PyTorch's attributes of optimizers that are missing here."""


class Optimizer(Structured):
    """Derive from it, pass options to `__init__`, and write `update` for one parameter.

    Args:
        params: a module; parameters, by name or in a row; or groups, dicts with `"params"` and
            options that differ. Names in messages and saved states are paths if they come from a
            module, else positions.
        lr: the learning rate, or a schedule: a function of the number of steps done.
        max_grad_norm: clip gradients to this global norm before each step; see `clip_grad_norm`.
        max_grad_value: cut elements of gradients to this; see `clip_grad_value`.
        error_if_nonfinite: raise `NonFiniteError`, and change nothing, if the loss or a gradient
            is NaN or infinite. This waits for the gradients.
        defaults: options of groups that do not set their own.

    Attributes:
        moments: names of what `update` keeps for a parameter, which states are made of.
        groups: the parameters with their options.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> class Signs(optim.Optimizer):
    ...     def update(self, slot, grad, lr, options):
    ...         slot.value = slot.value - it.sign(grad) * lr
    >>> w = nn.Parameter([4.0, -2.0])
    >>> grads = Signs([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [3.5, -1.5]
    """

    moments: tuple[str, ...] = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            let_properties_raise(self, name)
            found = _INSTEAD.get(name)
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}"
                + (f", as it has in PyTorch; here: {found}" if found else ""),
                name=name, obj=self,
            )  # fmt: skip

    # Groups are added by assigning another list; what was given as defaults stays.
    _announced = frozenset({"groups", "_defaults"})

    def __init__(
        self,
        params: Parameters,
        lr: Rate,
        *,
        max_grad_norm: float | None = None,
        max_grad_value: float | None = None,
        error_if_nonfinite: bool = False,
        **defaults: Any,
    ) -> None:
        name = type(self).__name__
        _refuse_unknown(type(self), defaults)
        for option, bound in (("max_grad_norm", max_grad_norm), ("max_grad_value", max_grad_value)):
            if bound is not None and not number(name, option, bound) > 0:
                raise ArgumentError(f"{name}: {option} must be above 0 or None, got {bound}")
        self.max_grad_norm = max_grad_norm
        self.max_grad_value = max_grad_value
        self.error_if_nonfinite = error_if_nonfinite
        self.groups: list[Group] = make_groups(name, params, lr, defaults)
        self._lr, self._defaults = lr, defaults
        self._steps: Cell[int] = Cell(0)
        for group in self.groups:
            self._check(group)

    def _check(self, group: Group) -> None:
        kind = type(self)
        refuse_no_number(kind.__name__, group.options, _defaults_of(kind))
        self.check_options(group.options_at(0))
        self.check_slots(group.slots)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raises `ArgumentError` for options that make no sense."""

    def check_slots(self, slots: Sequence[Slot]) -> None:
        """Raises a `ShapeError` or a `DTypeError` for parameters that this one cannot train."""

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        """Writes the parameter's new value and moments; every optimizer has its own."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def moment_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a moment of a slot of this shape; the same if not overridden."""
        return shape

    def update_group(
        self, updates: Sequence[tuple[Slot, Tensor]], lr: float, options: Mapping[str, Any]
    ) -> None:
        """Updates parameters that share options, each with its gradient, by `update`."""
        for slot, grad in updates:
            self.update(slot, grad, lr, options)

    @property
    def steps(self) -> Cell[int]:
        """How many steps were done: a cell, which computes and prints as the number."""
        return self._steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._steps.value = int(steps)

    def add_param_group(self, group: Parameters) -> None:
        """Trains further parameters, as one more group; options it does not set are the defaults.

        Args:
            group: a dict with `"params"` and options that differ, or anything else that the
                optimizer is made of. None of the parameters may have a group already.

        >>> from ingle import nn, optim
        >>> body, head = nn.Linear(4, 4), nn.Linear(4, 2)
        >>> optimizer = optim.SGD(body, lr=0.1)
        >>> optimizer.add_param_group({"params": head, "lr": 1.0})
        >>> [float(group.rate) for group in optimizer.groups]
        [0.1, 1.0]
        """
        name = f"{type(self).__name__}.add_param_group"
        groups = list(self.groups)
        add_groups(name, groups, group, self._lr, self._defaults)
        for added in groups[len(self.groups) :]:
            self._check(added)
        self.groups = groups
        structure.changed()

    @property
    def lr(self) -> float:
        """The learning rate of the next step, of the first group; setting it sets all groups'."""
        return self.groups[0].lr(self.steps.raw)

    @lr.setter
    def lr(self, lr: Rate) -> None:
        for group in self.groups:
            group.set_lr(lr, self.steps.raw)

    def step(self, grads: Gradients = None) -> None:  # type: ignore[assignment]
        """Updates every parameter that has a gradient; if anything raises, nothing has changed.

        Frozen parameters and those without a gradient are left alone, with their moments.

        Raises:
            ArgumentError: none of the parameters has a gradient.
            NonFiniteError: see `error_if_nonfinite`.
        """
        name = type(self).__name__
        require_gradients(f"{name}.step", grads, "optimizer.step({})")
        work = [(g, s, found) for g, s, found in self._pairs(grads) if s.parameter.requires_grad]
        if not work:
            raise ArgumentError(
                f"{name}.step: none of the {sum(len(g.slots) for g in self.groups)} parameters has "
                "a gradient here: they are frozen, or the gradients are those of another model"
            )
        # New values are computed when they are committed. Gradients that nothing holds by then are
        # never stored, and in `step(loss.backward())` these references are the last ones.
        del grads
        with suspended(), transaction():
            self._update(work)
            del work

    def _update(self, work: Sequence[tuple[Group, Slot, Tensor]]) -> None:
        mine = self._limit({slot.parameter: grad for _, slot, grad in work})
        for group in self.groups:
            if group.schedule is not None:
                group.rate.value = group.lr(self.steps.raw)
            updates = [
                (slot, slot.fitting(mine[slot.parameter])) for g, slot, _ in work if g is group
            ]
            advance([slot.steps for slot, _ in updates])
            self.update_group(updates, group.rate.raw, group.options_at(self.steps.raw))
        self.steps.value = self.steps.raw + 1

    def backward_step(self, loss: Tensor) -> Gradients:
        """`loss.backward()` and `step` in one; returns the gradients as they were computed.

        Raises:
            NonFiniteError: the loss is no finite number, with `error_if_nonfinite`.

        >>> import ingle.tensor as it
        >>> from ingle import nn, optim
        >>> w = nn.Parameter([4.0])
        >>> grads = optim.SGD([w], lr=0.25).backward_step((w * w).sum())
        >>> grads[w].tolist(), w.value.tolist()
        ([8.0], [2.0])
        """
        require_loss(f"{type(self).__name__}.backward_step", loss)
        if self.error_if_nonfinite and not math.isfinite(loss.item()):
            raise NonFiniteError(
                f"{type(self).__name__}.backward_step: the loss is {loss.item()} at step "
                f"{self.steps.raw}; nothing was changed. Lower the learning rate, clip gradients "
                "(max_grad_norm=1.0), or check the inputs"
            )
        grads = loss.backward()
        self.step(grads)
        return grads

    def _pairs(self, grads: Gradients) -> list[tuple[Group, Slot, Tensor]]:
        pairs = []
        for group in self.groups:
            for slot in group.slots:
                grad = grads.get(slot.parameter)
                if grad is None:
                    continue
                shape = slot.parameter.shape
                if grad.shape != shape:
                    raise ShapeError(
                        f"{type(self).__name__}.step: the gradient of {slot.name!r} has shape "
                        f"{grad.shape}, the parameter {shape}"
                    )
                pairs.append((group, slot, grad.detach()))
        return pairs

    def _limit(self, found: Mapping[Any, Tensor]) -> Mapping[Any, Tensor]:
        """Gradients by parameter, clipped as the optimizer was told to."""
        if not self.error_if_nonfinite and self.max_grad_value is self.max_grad_norm is None:
            return found
        grads = Gradients(found)
        if self.error_if_nonfinite:
            self._check_finite(grads)
        if self.max_grad_value is not None:
            grads = clip_grad_value(grads, self.max_grad_value)
        if self.max_grad_norm is not None:
            grads, _ = clip_grad_norm(grads, self.max_grad_norm)
        return {parameter: grads[parameter] for parameter in found}

    def _check_finite(self, grads: Gradients) -> None:
        # One number for all of them first: single parameters are looked at only to name them.
        if math.isfinite(grads.norm().item()):
            return
        bad = [
            slot.name
            for group in self.groups
            for slot in group.slots
            if slot.parameter in grads
            and not math.isfinite(Gradients({0: grads[slot.parameter]}).norm().item())
        ]
        raise NonFiniteError(
            f"{type(self).__name__}.step: at step {self.steps.raw} the gradients of "
            f"{', '.join(bad) or 'all parameters together'} are NaN, infinite or too large to "
            "square; nothing was changed. Lower the learning rate, clip gradients "
            "(max_grad_norm=1.0), or look at the loss"
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a later run needs, by name: tensors, numbers and lists, for `ingle.nn.save`."""
        return state.collect(self)

    def load_state_dict(self, mapping: Mapping[str, Any], strict: bool = True) -> None:
        """Takes a `state_dict` back: options, counters and moments, or on an error nothing.

        A learning rate is taken back too, unless it comes from a schedule.

        Args:
            mapping: of an optimizer of the same kind over parameters of the same names and shapes.
            strict: False passes over parameters that are missing or unexpected.

        Raises:
            StateError: lists everything that does not fit.
        """
        state.restore(self, mapping, strict)

    def __repr__(self) -> str:
        inside = "\n".join(f"  {group!r}" for group in self.groups)
        return f"{type(self).__name__}(\n{inside}\n)"


def _defaults_of(kind: type[Optimizer]) -> Mapping[str, Any]:
    """The options that an optimizer of Ingle's names, with their defaults; none of others.

    A class of somebody's own may have any options.
    """
    made: Any = kind.__init__
    if made is Optimizer.__init__ or made.__module__.rpartition(".")[0] != __package__:
        return {}
    parameters = inspect.signature(made).parameters
    return {n: p.default for n, p in parameters.items() if n not in ("self", "clipping")}


def _refuse_unknown(kind: type[Optimizer], given: Mapping[str, Any]) -> None:
    """Raises `ArgumentError` for options that an optimizer of Ingle's does not name.

    They pass on what else they are given, such as `max_grad_norm=`.
    """
    known = _defaults_of(kind)
    unknown = next((name for name in given if name not in known), None)
    if known and unknown is not None:
        raise ArgumentError(
            f"{kind.__name__}: there is no option {unknown!r}"
            + did_you_mean(unknown, known, ".")
            + f" It takes {', '.join(known)}, max_grad_norm, max_grad_value, error_if_nonfinite"
        )
