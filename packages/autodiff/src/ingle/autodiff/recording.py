"""Recording: a backend whose handles carry a node, over any other backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.call_steps import CallSteps
from ingle.tensor.callers import is_own
from ingle.tensor.contract import Aval, Backend, Handle, Scalar, Shape
from ingle.tensor.device import Device, backend_of
from ingle.tensor.dispatch import execute_body, highest, told_of, wrap
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import GradientError, IngleError
from ingle.tensor.moving import moved
from ingle.tensor.operation import Op, Operation, VjpRule, infer
from ingle.tensor.ops._rules import sum_to
from ingle.tensor.ops.elementwise.detaching import STOP_GRADIENT
from ingle.tensor.prepared import PreparedCalls, known_body
from ingle.tensor.programs import Program, is_unrolled
from ingle.tensor.programs.tracer import user_line

from .nodes import Moved, Node, Parents, TrackedHandle, below, order
from .residuals import (
    KEEP_ALL,
    ResidualPolicy,
    Value,
    dropped,
    fetch,
    kept_in,
    residual_policy,
)


class Autodiff:
    """Records what it executes on the backend below, at one level of differentiation.

    Inputs of lower levels are constants. Operations are known only by what their rooms say: a
    gradient rule for the whole, else a body that is recorded in its place, else nothing.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import Autodiff, require_grad
    >>> x = require_grad(it.zeros(2))
    >>> isinstance(x.backend, Autodiff), x.backend.level, x.device == it.zeros(2).device
    (True, 1, True)
    """

    def __init__(self, backend: Backend, level: int = 1) -> None:
        self.inner = backend
        self.level = level
        self.name = f"autodiff({backend.name})"
        self.device: Device = backend.device
        self.prepared = PreparedCalls()

    def __repr__(self) -> str:
        return f"Autodiff({self.inner!r}, level={self.level})"

    def upload(self, array: np.ndarray) -> Handle:
        return self.inner.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        handle = below(handle)
        return handle.backend.download(handle)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)

    def move(self, handle: TrackedHandle, target: Backend) -> Handle:
        """The value on another device; its cotangent comes back to this one."""
        how = residual_policy()
        inner = moved(handle.inner, target)
        if how is None or how.least > self.level:
            if how is not None and how.closed:
                raise _captured("a move to another device", handle)
            return inner
        step = Moved((handle.node, handle.index), self.device)
        return TrackedHandle(decorator(target, self.level), inner, step, 0)

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        operation = op.operation
        how = residual_policy()
        if how is None or how.least > self.level:
            if how is not None and how.closed:
                self._refuse_captured(op, inputs)
            lowered = [x.inner if x.backend is self else x for x in inputs]  # type: ignore[union-attr]
            return highest(op, lowered).execute(op, lowered)
        # One pass over the inputs: this is on the path of every recorded operation.
        inner: list[Handle | Scalar] = []
        parents: list[tuple[Node, int] | None] = []
        wanted = 1
        for x in inputs:
            wanted <<= 1
            if x.backend is self:
                wanted |= 1
                inner.append(x.inner)  # type: ignore[union-attr]
                parents.append((x.node, x.index))  # type: ignore[union-attr]
            else:
                inner.append(x)
                parents.append(None)
        plan = _plans.get((operation, wanted))
        if plan is None:
            plan = _Plan(operation, tuple(p is not None for p in parents))
            _plans[operation, wanted] = plan
        if plan.expand:
            return _of_body(op, inputs, self.device)
        if plan.training is not None:
            op = plan.training.op(**op.attributes)
        # Below the first level there is only the device's own backend.
        lower = self.inner if self.level == 1 else highest(op, inner)
        if plan.many:
            extended = _extended(plan, op, inner, self.device)
            if extended is None:
                return execute_body(op, inputs, self.device)
            count, outputs, how = len(infer(op, inner)), lower.execute(*extended), KEEP_ALL
        else:
            count, outputs = len(operation.outputs), lower.execute(op, inner)
        if plan.constant or not any([h.dtype.is_inexact for h in outputs]):  # noqa: C419 (faster)
            return outputs[:count]
        step = Step(self, op, plan, parents, inner, outputs, how)
        if len(outputs) == 1:
            return (TrackedHandle(self, outputs[0], step, 0),)
        return tuple(
            TrackedHandle(self, h, step, i) if h.dtype.is_inexact else h
            for i, h in enumerate(outputs[:count])
        )

    def take_steps(self, steps: CallSteps, values: list[Handle | Scalar]) -> Sequence[Handle]:
        """The results of a known call. What no gradient flows through has no place in a recording,
        so each operation goes where it goes by itself."""
        for op, places in steps.steps:
            inputs = [values[n] for n in places]
            made = all([type(x) is Scalar for x in inputs])  # noqa: C419 (faster)
            backend = backend_of(self.device) if made else highest(op, inputs)
            values += backend.execute(op, inputs)
        return [values[n] for n in steps.outputs]  # type: ignore[misc]

    def _refuse_captured(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        """Raises where a gradient would flow to what a checkpointed function closes over."""
        plan = _Plan(op.operation, tuple([x.backend is self for x in inputs]))
        if plan.constant or op.operation is STOP_GRADIENT:
            return
        if not any(a.dtype.is_inexact for a in infer(op, inputs)):
            return
        raise _captured(op.operation.name, next(x for x in inputs if x.backend is self))


def _captured(what: str, x: Handle | Scalar) -> GradientError:
    return GradientError(
        f"checkpoint: {what}, at {user_line()}, takes a {x.dtype} tensor of shape {x.shape} from "
        "outside of the function, whose gradient would be lost: the function is recorded by its "
        "arguments alone. Make the tensor an argument, as in checkpoint(f)(x, y), or detach() it "
        "if it counts as a constant"
    )


def _extended(
    plan: _Plan, op: Op, inner: Sequence[Handle | Scalar], where: Device
) -> tuple[Op, Sequence[Handle | Scalar]] | None:
    """An operation with many outputs, with further ones that its gradient rules need.

    None if it is better recorded by what it does.
    """
    if plan.extend is None:
        return op, inner
    abstract = any(isinstance(x, Handle) and x.base().abstract for x in inner)
    if not abstract and is_unrolled(op):
        return None
    op, more = plan.extend(op, plan.needs, where)
    return op, [*inner, *more]


def _of_body(op: Op, inputs: Sequence[Handle | Scalar], where: Device) -> tuple[Handle, ...]:
    """What the body of an operation returns: its operations, where they are known."""
    operands = tuple([x.value if type(x) is Scalar else wrap(x) for x in inputs])  # type: ignore[arg-type]
    body: Any = op.operation.body
    try:
        found = known_body(body, operands, {**op.attributes})
    except IngleError as error:
        told = told_of(op, error)
        if told is error:
            raise
        raise told from None
    if found is None:
        return execute_body(op, inputs, where)
    return tuple([x._handle for x in found]) if type(found) is tuple else (found._handle,)  # type: ignore[union-attr]


class _Plan:
    """What to do for an operation, given which inputs want gradients.

    Attributes:
        expand: record the body instead.
        constant: no gradient flows to the wanted inputs.
        training: the operation to run instead, which also returns what the rules save.
        many: whether there are many outputs, and `extend` the same for these: a function that makes
            the op to run.
        rules: those that run; None where the operation has none.
        saved_inputs, saved_outputs: positions of what they ask for.
    """

    __slots__ = (
        "constant", "elementwise", "expand", "extend", "many", "needs", "rules", "saved_inputs",
        "saved_outputs", "training",
    )  # fmt: skip

    def __init__(self, operation: Operation, needs: tuple[bool, ...]) -> None:
        training = operation.training
        self.training = training if isinstance(training, Operation) else None
        self.extend = None if isinstance(training, Operation) else training
        self.many = operation.many_outputs
        operation = self.training or operation
        self.needs = needs
        self.elementwise = operation.traits.kind == "elementwise"
        self.expand = operation.vjp is None and operation.body is not None
        self.rules = None
        self.saved_inputs: tuple[int, ...] = ()
        self.saved_outputs: tuple[int, ...] = ()
        if operation.vjp is not None:
            self.rules = [r for r in operation.vjp if any(wanted_by(operation, needs, r))]
            wants = [w for r in self.rules for w in r.wants]
            names = {i for _, kind, i in wants if kind == "input"}
            places = {p for i in names for p in operation.places(i, len(needs))}
            self.saved_inputs = tuple(sorted(places))
            self.saved_outputs = tuple(sorted({i for _, kind, i in wants if kind == "output"}))
        self.constant = self.rules == []


def wanted_by(operation: Operation, needs: tuple[bool, ...], rule: VjpRule) -> tuple[bool, ...]:
    """Which of the inputs that a rule serves want gradients."""
    return tuple([needs[p] for i in rule.wrt for p in operation.places(i, len(needs))])


# By the operation and the wanted inputs, a bit each below a leading one.
_plans: dict[tuple[Operation, int], _Plan] = {}


class Step(Node):
    """A recorded operation: its gradient rules with what they saved."""

    __slots__ = ("avals", "backend", "op", "plan", "saved_inputs", "saved_outputs")

    def __init__(
        self,
        backend: Autodiff,
        op: Op,
        plan: _Plan,
        parents: Parents,
        inner: Sequence[Handle | Scalar],
        outputs: tuple[Handle, ...],
        how: ResidualPolicy,
    ) -> None:
        self.order = next(order)
        self.parents = parents
        self.outputs = len(outputs)
        self.key = None
        self.backend = backend
        self.op = op
        self.plan = plan
        self.recipe = None
        self.saved_inputs: Sequence[Value] = ()
        self.saved_outputs: Sequence[Value] = ()
        if how.recompute is not None:
            self.recipe = how.recipe(op, inner, parents, outputs)
            self.saved_inputs = [dropped(inner[i], parents[i]) for i in plan.saved_inputs]
            self.saved_outputs = [dropped(outputs[i], (self, i)) for i in plan.saved_outputs]
        else:
            if plan.saved_inputs:
                self.saved_inputs = [inner[i] for i in plan.saved_inputs]
            if plan.saved_outputs:
                places = range(len(outputs)) if plan.many else plan.saved_outputs
                self.saved_outputs = [outputs[i] for i in places]
        self.avals = tuple([(x.shape, x.dtype) for x in inner])

    def kept(self) -> Iterable[Handle]:
        return kept_in([*self.saved_inputs, *self.saved_outputs])

    def identity(self) -> object | None:
        if self.recipe is not None or _is_gone_through(self.op):
            return None
        return self.op, self.plan, self.avals

    def is_own(self) -> bool:
        rules = self.plan.rules or ()
        return all(is_own(getattr(rule.function, "__module__", "")) for rule in rules)

    def kept_values(self) -> Sequence[Handle | Scalar]:
        return [*self.saved_inputs, *self.saved_outputs]  # type: ignore[list-item]

    def keeping(self, values: Sequence[Handle | Scalar], parents: Parents) -> Step:
        other = object.__new__(Step)
        for name in (*Node.__slots__, *Step.__slots__):
            setattr(other, name, getattr(self, name))
        inputs = len(self.saved_inputs)
        other.saved_inputs, other.saved_outputs = values[:inputs], values[inputs:]
        other.parents = parents
        return other

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        operation, plan = self.op.operation, self.plan
        if plan.rules is None:
            raise GradientError(
                f"{operation.name} has no gradient rule; detach() its input if it should count "
                "as a constant"
            )
        results: list[Tensor | None] = [None] * len(self.avals)
        g: Any = cotangents[0] if self.outputs == 1 and not plan.many else tuple(cotangents)
        for rule in plan.rules:
            wanted = wanted_by(operation, plan.needs, rule)
            given = {
                name: wanted if kind == "needs" else self._fetch(name, kind, i, tracked)
                for name, kind, i in rule.wants
            }
            got = rule.function(g, **given)
            places = [p for i in rule.wrt for p in operation.places(i, len(self.avals))]
            joint = rule.joint or self._many(rule.wrt[0])
            for place, value in zip(places, got if joint else (got,), strict=True):
                if value is not None and plan.needs[place]:
                    results[place] = self._fit(value, *self.avals[place])
        return results

    def _fetch(self, name: str, kind: str, i: int, tracked: bool) -> Any:
        if kind == "input":
            if self._many(i):
                places = self.op.operation.places(i, len(self.avals))
                return tuple(self._input(j, tracked) for j in places)
            return self._input(i, tracked)
        if kind == "output":
            if self.plan.many:
                return tuple([self._output(j, j, tracked) for j in range(i, self.outputs)])
            return self._output(i, self.plan.saved_outputs.index(i), tracked)
        if kind == "aval":
            return (
                tuple(Aval(*a) for a in self.avals[i:]) if self._many(i) else Aval(*self.avals[i])
            )
        return self.op.attributes[name]

    def _output(self, i: int, place: int, tracked: bool) -> Tensor:
        made = fetch(self.saved_outputs[place])
        assert isinstance(made, Handle)
        # What has no gradient, such as a mask, is a constant at every level.
        if tracked and made.dtype.is_inexact:
            made = TrackedHandle(self.backend, made, self, i)
        return Tensor(made)

    def _many(self, position: int) -> bool:
        operation = self.op.operation
        return operation.variadic and position == len(operation.tensors) - 1

    def _input(self, i: int, tracked: bool) -> Any:
        inner = fetch(self.saved_inputs[self.plan.saved_inputs.index(i)])
        if isinstance(inner, Scalar):
            return inner.value
        parent = self.parents[i]
        if tracked and parent is not None:
            return Tensor(TrackedHandle(self.backend, inner, *parent))
        return Tensor(inner)

    def _fit(self, value: Tensor, shape: Shape, dtype: DType) -> Tensor:
        if self.plan.elementwise and value.shape != shape:
            value = sum_to(value, shape)
        if value.shape != shape or value.dtype is not dtype:
            raise GradientError(
                f"the gradient rule of {self.op!r} returned {value.dtype}{list(value.shape)} for "
                f"an input of {dtype}{list(shape)}; the rule is wrong"
            )
        return value


def _is_gone_through(op: Op) -> bool:
    """Whether a backward pass through an operation is never kept as a program.

    The rule of what is unrolled does other things where there are values than where there are none.
    A loop that is no part of a region comes with another length each time, so that each would have
    a program and a plan of its own: logs that differ in sizes alone share theirs.
    """
    carries = any(isinstance(v, Program) for v in op.attributes.values())
    return carries and (is_unrolled(op) or not op.operation.traits.inlined)


_decorators: dict[tuple[Backend, int], Autodiff] = {}


def decorator(backend: Backend, level: int) -> Autodiff:
    """The one Autodiff of a backend and level, so that its tensors can meet."""
    while backend.level:
        backend = backend.inner  # type: ignore[attr-defined]
    found = _decorators.get((backend, level))
    if found is None:
        found = _decorators[backend, level] = Autodiff(backend, level)
    return found
