"""The router: one backend whose devices are those of its members."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from ingle.fusion.device import Fusion
from ingle.fusion.grouped import LazyHandle, current, is_from_outside, is_fused
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device, backend_of
from ingle.tensor.dispatch import checking, highest, operand_names
from ingle.tensor.errors import (
    ArgumentError,
    BackendError,
    DeviceError,
    IngleError,
    LostDeviceError,
    OperandError,
)
from ingle.tensor.moving import carried
from ingle.tensor.operation import Op
from ingle.tensor.plugins import BackendDescription, load_backend

from . import installed
from .counting import Counts, Report
from .member import Member

Mixed = Literal["error", "first", "largest"]
Lacking = Literal["fallback", "own", "error"]


class Router:
    """Several devices as one backend: an operation runs where its inputs are.

    The devices of the router are `name:0`, `name:1`, ..., one for each member in order. They are
    known to everything that takes a device until `close`: `it.zeros(3, device="router:1")`,
    `with it.device("router:1")`, `module.to("router:1")`, `x.to_device("router:1")`. Gradients flow
    through moves, and a compiled function may use all of them.

    Args:
        members: names of devices, or backends; at least one, each once.
        name: of the router's devices.
        mixed: what happens to operands that are on different members. `"error"` raises; `"first"`
            moves them to the first tensor operand; `"largest"` to where most bytes are; the name of
            a member or device, or its number, to that one.
        lacking: what happens to an operation that a member neither has a kernel for nor can
            compose. `"fallback"` runs it on the first other member that can, announces it once and
            counts it; `"own"` leaves it to the member, which may take it to the host; `"error"`
            raises.

    Attributes:
        name: of its devices.
        device: the first one.
        members: the doors of its devices, in order.
        fusions: by hardware backend what records for it.
        lacking: the policy.

    Raises:
        ArgumentError: a policy or name makes no sense, or a member is given twice.
        BackendError: there is no such member.

    >>> import ingle.tensor as it
    >>> from ingle.router import Router
    >>> with Router("numpy", name="doors") as router:
    ...     it.ones(2, device=router["numpy"]).device
    Device('doors')
    """

    level = 0

    def __init__(
        self,
        *members: str | Device | Backend,
        name: str = "router",
        mixed: Mixed | str | int | Device = "error",
        lacking: Lacking = "fallback",
    ) -> None:
        if not members:
            raise ArgumentError("Router: needs at least one member, such as Router('cpu', 'numpy')")
        if lacking not in get_args(Lacking):
            raise ArgumentError(
                f"Router: lacking={lacking!r} is none of {', '.join(map(repr, get_args(Lacking)))}"
            )
        self.name = name
        self.lacking: Lacking = lacking
        self.counts = Counts()
        found = [_hardware(m) for m in members]
        for place, hardware in enumerate(found):
            if hardware in found[:place]:
                raise ArgumentError(f"Router: {hardware.device} is given twice; each member once")
        self.members = tuple(
            [Member(self, h, Device(name, i)) for i, h in enumerate(found)]
        )  # fmt: skip
        kind = Fusion if is_fused() else _AtOnce
        self.fusions: Mapping[Backend, Fusion] = {
            m.hardware: kind(m, group=self) for m in self.members
        }
        self.device = self.members[0].device
        self._target: Device | Mixed = (
            mixed if mixed in get_args(Mixed) else self[mixed]  # type: ignore[assignment]
        )
        told = ", ".join(f"{m.device} is {m.hardware.device}" for m in self.members)
        self.description = BackendDescription(
            create=lambda index: self.fusions[self.members[index].hardware],
            count=lambda: len(self.members),
            priority=-1,
            summary=f"routes to other devices: {told}",
        )
        installed.install(self)
        for member in self.members:
            load_backend(member.device)

    # Its devices --------------------------------------------------------------------------------

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices, in the order of the members."""
        return tuple([m.device for m in self.members])

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __getitem__(self, member: int | str | Device) -> Device:
        """The router's device of a member, by number, by the member's name or by its own.

        Raises:
            DeviceError: there is no such member; the message lists those there are.
        """
        for place, m in enumerate(self.members):
            names = (place, m.device, m.hardware.device, str(m.device), str(m.hardware.device))
            if any(type(member) is type(n) and member == n for n in names):
                return m.device
        have = ", ".join(f"{m.device} ({m.hardware.device})" for m in self.members)
        raise DeviceError(f"router {self.name!r} has no member {member!r}; it has {have}")

    def member_of(self, hardware: Backend) -> Member:
        """The member of a hardware backend."""
        return next(m for m in self.members if m.hardware is hardware)

    def __repr__(self) -> str:
        return f"Router({', '.join(repr(str(m.hardware.device)) for m in self.members)})"

    def __reduce__(self) -> NoReturn:
        names = ", ".join(repr(str(m.hardware.device)) for m in self.members)
        raise ArgumentError(
            f"Router: {self.name!r} stands for devices of this process and can be neither pickled "
            f"nor copied; make one in the other process: Router({names}, name={self.name!r}). "
            "Tensors on its devices can be pickled"
        )

    def close(self) -> None:
        """Takes the devices out of what is known; tensors that are on them can still be read."""
        installed.uninstall(self)

    def __enter__(self) -> Router:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def report(self) -> Report:
        """What was moved between members by which road, and what ran elsewhere; `print` shows it.

        >>> import ingle.tensor as it
        >>> from ingle.router import Router
        >>> with Router("numpy", name="doors") as router:
        ...     print(router.report())
        doors is numpy
        """
        return self.counts.report({m.device: m.hardware.device for m in self.members})

    # What decorators ask of a group of devices --------------------------------------------------

    def meeting(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Backend:
        """Who executes an operation whose operands are on several members; see `mixed`."""
        if self._target == "error":
            names = operand_names(op.operation, len(inputs))
            where = ", ".join(
                f"{n}: {h.backend.device}"
                for n, h in zip(names, inputs, strict=True)
                if isinstance(h, Handle)
            )
            raise DeviceError(
                f"{op.operation.name}: operands live on different devices ({where}); move one of "
                "them with x.to_device(y.device), or make the router with mixed='first' or "
                "mixed='largest'"
            )
        return _Meeting(self, self._meets_at(inputs))

    def _meets_at(self, inputs: Sequence[Handle | Scalar]) -> Device:
        if isinstance(self._target, Device):
            return self._target
        tensors = [x for x in inputs if isinstance(x, Handle)]
        if self._target == "first":
            return tensors[0].backend.device
        held = dict.fromkeys([x.backend.device for x in tensors], 0)
        for x in tensors:
            held[x.backend.device] += _nbytes(x)
        return max(held, key=held.__getitem__)

    def carry(self, handle: Handle, target: Backend) -> Handle:
        """A hardware backend's handle, moved to a member's, by the nearest road."""
        source = handle.backend
        there = self.member_of(target)
        here = next((m for m in self.members if m.hardware is source), None)
        origin = source.device if here is None else here.device
        doing = f"a move from {origin} to {there.device}"
        there.check(doing)
        if here is not None:
            here.check(doing)
        try:
            moved, road = carried(handle, target)
        except LostDeviceError as error:
            at_source = here is not None and error.device == here.hardware.device
            (here if here is not None and at_source else there).lose(doing, error)
        except (IngleError, Warning):
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            between = f"{source.device} and {there.hardware.device}"
            raise BackendError(
                f"{doing}, which are {between}, failed: {type(error).__name__}: {error}"
            ) from error
        if road != "stays":
            self.counts.move(origin, there.device, road, _nbytes(handle))
        return moved

    def reduce(
        self, groups: Sequence[Sequence[Handle]], target: Backend
    ) -> Sequence[Handle] | None:
        """The sum of each group of hardware backends' handles at a member, by the members' own
        road; None where they have none."""
        there = self.member_of(target)
        doing = f"a sum of values of several devices on {there.device}"
        with there.answering(doing):
            found: Sequence[Handle] | None = target.reduce(groups)  # type: ignore[attr-defined]
        if found is not None:
            for handle in (handle for group in groups for handle in group[1:]):
                source = self.member_of(handle.backend).device
                self.counts.move(source, there.device, "reduction", _nbytes(handle))
        return found

    def known(self, handle: Handle) -> LazyHandle:
        """A hardware backend's handle as a tensor's."""
        return self.fusions[handle.backend].known(handle)

    # The contract -------------------------------------------------------------------------------

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs one operation where its inputs are, or on the first member if it has none."""
        tensors = [x for x in inputs if isinstance(x, Handle)]
        if not tensors:
            return backend_of(self.device).execute(op, inputs)
        strange = next((x for x in tensors if x.backend.device not in self.devices), None)
        if strange is not None:
            raise OperandError(
                f"{op.operation.name}: a tensor is on {strange.backend.device}, which is no device "
                f"of {self!r}; move it with x.to_device({str(self.device)!r})"
            )
        return highest(op, inputs).execute(op, inputs)

    def upload(self, array: np.ndarray) -> Handle:
        return backend_of(self.device).upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        return handle.backend.download(handle)

    def synchronize(self) -> None:
        """Waits for all members; those that are lost have nothing to wait for."""
        for member in self.members:
            if member.lost is None:
                self.fusions[member.hardware].synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return any(m.hardware.supports(op, avals) for m in self.members)


class _Meeting:
    """Brings the operands of one operation together on one device, and runs it there."""

    level = 0

    def __init__(self, router: Router, device: Device) -> None:
        self.device = device
        self.name = f"{router.name}'s meeting on {device}"

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        met = [
            Tensor(x).to_device(self.device)._handle if isinstance(x, Handle) else x for x in inputs
        ]
        return highest(op, met).execute(op, met)

    def upload(self, array: np.ndarray) -> Handle:
        return backend_of(self.device).upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        return handle.backend.download(handle)

    def synchronize(self) -> None:
        backend_of(self.device).synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return backend_of(self.device).supports(op, avals)


class _AtOnce(Fusion):
    """Runs each operation at once, as INGLE_FUSION=0 wants it; `compile` still records."""

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        log = current.get()
        if log is not None and log.takes(self) and not log.interrupted():
            return super().execute(op, inputs)
        return self.execute_now(op, inputs)


checking.add(_AtOnce)


def _hardware(member: Any) -> Backend:
    """The backend under a member's decorators."""
    if isinstance(member, (str, Device)):
        member = backend_of(member)
    if not isinstance(member, Backend):
        raise ArgumentError(
            f"Router: a member is a device such as 'cpu' or a backend, got {type(member).__name__}"
        )
    if getattr(member, "group", None) is not None or isinstance(member, Router):
        raise ArgumentError(f"Router: {member.device} is a router's own device; give its members")
    if member.level:
        raise ArgumentError(f"Router: {member.name!r} is a transform; give the device below it")
    found: Backend = getattr(member, "hardware", member)
    return found


def _nbytes(x: Handle) -> int:
    return math.prod(x.shape) * x.dtype.itemsize
