"""Batching: a backend whose handles carry a batch axis, over any other backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.callers import warn
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device, call_on
from ingle.tensor.dispatch import execute_body, highest
from ingle.tensor.errors import BatchError
from ingle.tensor.moving import moved
from ingle.tensor.operation import Op, Operation, infer
from ingle.tensor.ops import _batching as rules
from ingle.tensor.pytree import flatten, unflatten


class BatchLoopWarning(UserWarning):
    """An operation without a batching rule ran once for each element of a batch.

    >>> import warnings
    >>> from ingle.autodiff import BatchLoopWarning
    >>> with warnings.catch_warnings():  # for a program that knows, and wants no word of it
    ...     warnings.simplefilter("ignore", BatchLoopWarning)
    """


class BatchedHandle(Handle):
    """One value for each element of a batch: a value below with the batch axis in front."""

    __slots__ = ("inner",)

    backend: Batching

    def __init__(self, backend: Batching, inner: Handle) -> None:
        self.backend = backend
        self.inner = inner
        self.shape = inner.shape[1:]
        self.dtype = inner.dtype
        if inner.owned is not None:
            inner.owned.share()

    def detached(self) -> Handle:
        inner = self.inner.detached()
        return self if inner is self.inner else BatchedHandle(self.backend, inner)

    def base(self) -> Handle:
        return self.inner.base()


class Batching:
    """Executes on whole batches what is asked for one element, at one level of transforms.

    Inputs of lower levels are the same for all elements. Operations are known only by what their
    rooms say: a batching rule, else that they are elementwise or a reduction, else a body that
    runs in their place, else nothing, and then they run in a loop, which is announced.

    Attributes:
        others: those of the same transform, by their devices; this one among them.
    """

    def __init__(
        self, below: Backend, level: int, size: int, others: dict[Device, Batching] | None = None
    ) -> None:
        while below.level:
            below = below.inner  # type: ignore[attr-defined]
        self.inner = below
        self.level = level
        self.size = size
        self.name = f"batching({below.name})"
        self.device = below.device
        self.others = {} if others is None else others
        self.others[self.device] = self

    def __repr__(self) -> str:
        return f"Batching({self.inner!r}, level={self.level}, size={self.size})"

    def upload(self, array: np.ndarray) -> Handle:
        return self.inner.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        raise BatchError(
            f"vmap: the values of a tensor of shape {handle.shape} cannot be read inside, since "
            f"it stands for {self.size} of them: return it, or use where instead of if"
        )

    def synchronize(self) -> None:
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)

    def move(self, handle: BatchedHandle, target: Backend) -> Handle:
        """The whole batch on another device."""
        inner = moved(handle.inner, target)
        there = self.others.get(target.device)
        if there is None:
            there = Batching(target, self.level, self.size, self.others)
        return BatchedHandle(there, inner)

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        operation = op.operation
        axes = _moving_axes(operation)
        if operation.traits.dynamic_shape:
            raise BatchError(
                f"{operation.name}: the shape of its result depends on values, which differ "
                "among the elements of a vmap; use where with a mask instead"
            )
        if axes is None and operation.batch is None and not _aligns(operation):
            if operation.body is not None:
                return execute_body(op, inputs, self.device)
            return self._loop(op, inputs)
        batched = tuple([x.backend is self for x in inputs])
        inner = [x.inner if x.backend is self else x for x in inputs]  # type: ignore[union-attr]
        got = call_on(self.device, self._on_whole, op, axes, batched, inner)
        return tuple(BatchedHandle(self, h) for h in got)

    def _on_whole(
        self,
        op: Op,
        axes: tuple[str, ...] | None,
        batched: tuple[bool, ...],
        inner: Sequence[Handle | Scalar],
    ) -> Sequence[Handle]:
        """The operation on values below, which have the batch axis where `batched` says so."""
        operation = op.operation
        if axes is not None:
            moved = {name: _moved(op.attributes[name]) for name in axes}
            return _run(operation.op(**{**op.attributes, **moved}), inner)
        if callable(operation.batch):
            operands = [x.value if isinstance(x, Scalar) else Tensor(x) for x in inner]
            result = operation.batch(batched, *operands, **op.attributes)
            return [r._handle for r in (result if isinstance(result, tuple) else (result,))]
        return _run(op, self._aligned(batched, inner))

    def _aligned(
        self, batched: tuple[bool, ...], inner: Sequence[Handle | Scalar]
    ) -> list[Handle | Scalar]:
        """The batch axis in front of all axes that broadcasting adds."""
        ndim = max(len(x.shape) - b for x, b in zip(inner, batched, strict=True))
        return [
            rules.with_axes(Tensor(x), ndim)._handle if b and isinstance(x, Handle) else x
            for x, b in zip(inner, batched, strict=True)
        ]

    def _loop(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        warn(
            f"vmap: {op.operation.name} has neither a batching rule nor a body: it runs once for "
            f"each of {self.size} elements. Give its Operation batch=...",
            BatchLoopWarning,
        )
        rows = [
            _run(op, [self._element(x, i) if x.backend is self else x for x in inputs])
            for i in range(self.size)
        ]
        return tuple(
            BatchedHandle(self, rules.joined([Tensor(row[k]) for row in rows], aval)._handle)
            for k, aval in enumerate(infer(op, inputs))
        )

    @staticmethod
    def _element(x: Any, i: int) -> Handle:
        return rules.element(Tensor(x.inner), i)._handle

    def lower(self, x: Any) -> Any:
        """A tensor of this level as the one below, which has the batch axis."""
        return Tensor(x._handle.inner) if self.carries(x) else x

    def whole(self, x: Tensor) -> Tensor:
        """A tensor with the batch axis in front, repeated if it is the same for all elements."""
        return self.lower(x) if self.carries(x) else rules.repeated(x, self.size)

    def lift(self, x: Tensor) -> Tensor:
        """A tensor with the batch axis as one of this level."""
        return Tensor(BatchedHandle(self, x._handle))

    def carries(self, x: Any) -> bool:
        """Whether this is a tensor of this level."""
        return isinstance(x, Tensor) and x.backend is self


def _run(op: Op, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
    infer(op, inputs)
    return highest(op, inputs).execute(op, inputs)


def _aligns(operation: Operation) -> bool:
    return operation.traits.kind == "elementwise"


def _moving_axes(operation: Operation) -> tuple[str, ...] | None:
    """Names of the attributes that hold axes, where moving them is all that a batch takes."""
    if isinstance(operation.batch, tuple):
        return operation.batch
    if operation.batch is None and operation.traits.kind == "reduction":
        return ("axis",)
    return None


def _moved(axis: int | tuple[int, ...]) -> int | tuple[int, ...]:
    return tuple([a + 1 for a in axis]) if isinstance(axis, tuple) else axis + 1


def batching_of(values: Sequence[Any]) -> Batching | None:
    """The batch level of some values, if that is the highest of theirs."""
    backends = [x.backend for x in values if isinstance(x, Tensor)]
    top = max(backends, key=lambda b: b.level, default=None)
    return top if isinstance(top, Batching) else None


def below_batch(
    top: Batching, transform: Callable[..., Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """A transformed function of batched values as the transform of one of whole batches."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = flatten((args, kwargs))
        carried = [top.carries(x) for x in given]
        marks: list[bool] = []

        def whole(*values: Any) -> Any:
            lifted = [top.lift(v) if c else v for v, c in zip(values, carried, strict=True)]
            some, named = unflatten((args, kwargs), lifted)
            result = function(*some, **named)
            marks[:] = [top.carries(y) for y in flatten(result)]
            return unflatten(result, [top.lower(y) for y in flatten(result)])

        result = transform(whole)(*[top.lower(x) for x in given])
        outputs = zip(flatten(result), marks, strict=True)
        return unflatten(result, [top.lift(y) if mark else y for y, mark in outputs])

    return run
