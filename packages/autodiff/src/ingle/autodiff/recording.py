"""Recording: a backend whose handles carry a node, over any other backend."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ingle.tensor import Cell, Tensor
from ingle.tensor.contract import Aval, Backend, Handle, Scalar, Shape
from ingle.tensor.device import Device
from ingle.tensor.dispatch import execute_body, highest
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import DTypeError, GradientError
from ingle.tensor.operation import Op, Operation, VjpRule
from ingle.tensor.ops import sum_to

Parents = Sequence["tuple[Node, int] | None"]

_order = itertools.count()
_recording: ContextVar[bool] = ContextVar("ingle_recording", default=True)


class Node:
    """One recorded step, or a leaf.

    Attributes:
        order: counts up, so that descending order is a topological order, the same each time.
        parents: for each input the node and output it came from, or None for a constant.
        outputs: how many there are.
        key: what its gradient is kept by, if it is: a cell, or the node itself.
    """

    __slots__ = ("key", "order", "outputs", "parents")

    def __init__(self, parents: Parents, outputs: int = 1, key: object = None) -> None:
        self.order = next(_order)
        self.parents = parents
        self.outputs = outputs
        self.key = key

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        """Cotangents of the inputs from those of the outputs; recorded in turn if `tracked`."""
        raise NotImplementedError


class Kept(Node):
    """Passes on the cotangent of a value in the middle, and keeps it."""

    __slots__ = ()

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        return cotangents


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

    def detached(self) -> Handle:
        return self.inner.detached()

    @property
    def gradient_key(self) -> object:
        """What `Gradients` looks a tensor up by."""
        return self.node.key


class Autodiff:
    """Records what it executes on the backend below, at one level of differentiation.

    Inputs of lower levels are constants. Operations are known only by what their rooms say: a
    gradient rule for the whole, else a body that is recorded in its place, else nothing.
    """

    def __init__(self, backend: Backend, level: int = 1) -> None:
        self.inner = backend
        self.level = level
        self.name = f"autodiff({backend.name})"
        self.device: Device = backend.device

    def __repr__(self) -> str:
        return f"Autodiff({self.inner!r}, level={self.level})"

    def upload(self, array: np.ndarray) -> Handle:
        return self.inner.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        while isinstance(handle, TrackedHandle):
            handle = handle.inner
        return handle.backend.download(handle)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        operation = op.operation
        if not _recording.get():
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
            return execute_body(op, inputs, self.device)
        if plan.training is not None:
            op = plan.training.op(**op.attributes)
        # Below the first level there is only the device's own backend.
        below = self.inner if self.level == 1 else highest(op, inner)
        outputs = below.execute(op, inner)
        if plan.constant or not any([h.dtype.is_inexact for h in outputs]):  # noqa: C419 (faster)
            return outputs[: len(operation.outputs)]
        step = Step(self, op, plan, parents, inner, outputs)
        if len(outputs) == 1:
            return (TrackedHandle(self, outputs[0], step, 0),)
        return tuple(
            TrackedHandle(self, h, step, i) if h.dtype.is_inexact else h
            for i, h in enumerate(outputs[: len(operation.outputs)])
        )


class _Plan:
    """What to do for an operation, given which inputs want gradients.

    Attributes:
        expand: record the body instead.
        constant: no gradient flows to the wanted inputs.
        training: the operation to run instead, which also returns what the rules save.
        rules: those that run; None where the operation has none.
        saved_inputs, saved_outputs: positions of what they ask for.
    """

    __slots__ = (
        "constant", "elementwise", "expand", "needs", "rules", "saved_inputs", "saved_outputs",
        "training",
    )  # fmt: skip

    def __init__(self, operation: Operation, needs: tuple[bool, ...]) -> None:
        self.training = operation.training
        operation = operation.training or operation
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
    ) -> None:
        self.order = next(_order)
        self.parents = parents
        self.outputs = len(outputs)
        self.key = None
        self.backend = backend
        self.op = op
        self.plan = plan
        self.saved_inputs = [inner[i] for i in plan.saved_inputs] if plan.saved_inputs else ()
        self.saved_outputs = [outputs[i] for i in plan.saved_outputs] if plan.saved_outputs else ()
        self.avals = [(x.shape, x.dtype) for x in inner]

    def pull(self, cotangents: Sequence[Tensor | None], tracked: bool) -> Sequence[Tensor | None]:
        operation, plan = self.op.operation, self.plan
        if plan.rules is None:
            raise GradientError(
                f"{operation.name} has no gradient rule; detach() its input if it should count "
                "as a constant"
            )
        results: list[Tensor | None] = [None] * len(self.avals)
        g: Any = cotangents[0] if self.outputs == 1 else tuple(cotangents)
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
            inner = self.saved_outputs[self.plan.saved_outputs.index(i)]
            return Tensor(TrackedHandle(self.backend, inner, self, i) if tracked else inner)
        if kind == "aval":
            return (
                tuple(Aval(*a) for a in self.avals[i:]) if self._many(i) else Aval(*self.avals[i])
            )
        return self.op.attributes[name]

    def _many(self, position: int) -> bool:
        operation = self.op.operation
        return operation.variadic and position == len(operation.tensors) - 1

    def _input(self, i: int, tracked: bool) -> Any:
        inner = self.saved_inputs[self.plan.saved_inputs.index(i)]
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


_decorators: dict[tuple[Device, int], Autodiff] = {}


def decorator(below: Backend, level: int) -> Autodiff:
    """The one Autodiff of a device and level, so that its tensors can meet."""
    while below.level:
        below = below.inner  # type: ignore[attr-defined]
    key = (below.device, level)
    found = _decorators.get(key)
    if found is None or found.inner is not below:
        found = _decorators[key] = Autodiff(below, level)
    return found


def leaf(handle: Handle, level: int, key: object = None) -> TrackedHandle:
    """A handle that gradients are recorded for, kept by `key` or by itself."""
    node = Node(())
    node.key = node if key is None else key
    return TrackedHandle(decorator(handle.backend, level), handle, node, 0)


Shown = dict["Cell[Any]", tuple[Handle, Tensor]]

# What transforms show instead of a cell's value: with the handle it stands for, since a cell that
# was written meanwhile must show what was written.
_shown: ContextVar[Shown | None] = ContextVar("ingle_shown", default=None)


def lift(cell: Cell[Any], value: Any) -> Any:
    """A differentiable cell's value, tracked; as it is inside `no_grad`."""
    if not isinstance(value, Tensor) or not _recording.get():
        return value
    shown = _shown.get()
    if shown is not None:
        found = shown.get(cell)
        if found is not None and found[0] is value._handle:
            return found[1]
    return Tensor(leaf(value._handle, 1, cell))


@contextlib.contextmanager
def showing(cells: Shown) -> Iterator[None]:
    """Cells show the given tensors inside, as long as they hold the raw values named with them."""
    token = _shown.set({**(_shown.get() or {}), **cells})
    try:
        yield
    finally:
        _shown.reset(token)


def require_grad(x: Tensor) -> Tensor:
    """A tensor of the same value whose gradient `backward` will keep.

    Of one in the middle of a computation the result stands in the middle too: what is computed
    from it flows back through it.
    """
    if not x.dtype.is_inexact:
        raise DTypeError(
            f"require_grad: {x.dtype} tensors have no gradients; cast with x.astype('float32')"
        )
    handle = x._handle
    if isinstance(handle, TrackedHandle):
        if handle.node.key is not None:
            return x
        kept = Kept(((handle.node, handle.index),))
        kept.key = kept
        return Tensor(TrackedHandle(handle.backend, handle.inner, kept, 0))
    if handle.backend.level:
        raise GradientError(
            "require_grad: this tensor stands for a whole batch inside of vmap; use grad(function)"
        )
    return Tensor(leaf(handle, 1))


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Nothing is recorded inside, for this thread or task only.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import no_grad
    >>> w = it.Cell(it.ones(2), differentiable=True)
    >>> with no_grad():
    ...     y = w * 2.0
    >>> y.backend.level
    0
    """
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Whether operations are recorded here: False inside `no_grad`."""
    return _recording.get()
