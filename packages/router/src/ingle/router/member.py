"""One device of a router: the door in front of a member's hardware backend."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ingle.fusion.grouped import Executable, Graph, Replay, is_from_outside
from ingle.fusion.grouped import prepare as planned
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device, call_staged
from ingle.tensor.errors import BackendError, IngleError, LostDeviceError
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from .graph_parts import PartedGraph, is_for_one

if TYPE_CHECKING:
    from .router import Router


class RouterWarning(UserWarning):
    """An operation ran on another member, since the one that has its inputs lacks it.

    >>> import warnings
    >>> from ingle.router import RouterWarning
    >>> with warnings.catch_warnings():  # a program that knows that one of its members lacks much
    ...     warnings.simplefilter("ignore", RouterWarning)
    """


class Member:
    """Executes on a member's hardware what is asked of one device of a router.

    Handles are the hardware backend's own: nothing is wrapped, so plans, donation and memory work
    as they do without a router. What the contract does not name is asked of the hardware backend.

    Attributes:
        hardware: the member's backend, without decorators.
        device: the router's name for it.
        lost: why the device is gone, if it is.
    """

    level = 0

    def __init__(self, router: Router, hardware: Backend, device: Device) -> None:
        self.router = router
        self.hardware = hardware
        self.device = device
        self.name = f"{device} ({hardware.device})"
        self.lost: str | None = None
        self._lacking: dict[Any, bool] = {}

    def __repr__(self) -> str:
        return f"<member {self.name}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "hardware":
            raise AttributeError(name)
        return getattr(self.hardware, name)

    @contextmanager
    def answering(self, doing: str) -> Generator[None, None, None]:
        """Names the member in what its backend raises inside, and remembers if it is lost.

        Raises:
            LostDeviceError: the device is gone, now or since an earlier call.
            BackendError: what the backend raised is no error of Ingle.
        """
        self.check(doing)
        try:
            yield
        except LostDeviceError as error:
            self.lose(doing, error)
        except (IngleError, Warning):
            raise
        except Exception as error:
            if is_from_outside(error):  # a handler of signals raised it, not the device
                raise
            raise BackendError(
                f"{doing}: device {self.name} failed: {type(error).__name__}: {error}"
            ) from error

    def check(self, doing: str) -> None:
        """Raises if the device was lost before."""
        if self.lost is not None:
            raise self._gone(
                f"{doing}: device {self.name} was lost ({self.lost}), and so are the tensors on "
                f"it. The other devices of {self.router.name!r} go on: load what you need there"
            )

    def lose(self, doing: str, error: LostDeviceError) -> NoReturn:
        """Notes that the device is gone, and raises that."""
        if error.device == self.device:
            raise error
        self.lost = str(error)
        raise self._gone(
            f"{doing}: device {self.name} is lost, and so are the tensors on it: {error}. The "
            f"other devices of {self.router.name!r} go on"
        ) from error

    def _gone(self, message: str) -> LostDeviceError:
        error = LostDeviceError(message)
        error.device = self.device
        return error

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        name = op.operation.name
        runner = self.runner(op, [Aval(x.shape, x.dtype) for x in inputs])
        if runner is not self:
            self.announce(op, runner)
            inputs = [self.router.carry(x, runner.hardware) if isinstance(x, Handle) else x
                      for x in inputs]  # fmt: skip
        with runner.answering(name):
            if op.operation.body is None:
                made = runner.hardware.execute(op, inputs)
            else:  # what the body creates belongs there, too
                made = call_staged(runner.hardware, runner.hardware.execute, op, inputs)
        if runner is self:
            return made
        return tuple([self.router.carry(h, self.hardware) for h in made])

    def lacks(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether the member has neither a kernel for an operation nor other operations that it is
        made of."""
        if any(isinstance(v, Program) for v in op.attributes.values()):
            return False  # its steps are asked for one by one
        key = (op, *avals)
        found = self._lacking.get(key)
        if found is None:
            road = getattr(self.hardware, "road", None)
            if road is None:
                found = op.operation.body is None and not self.hardware.supports(op, avals)
            else:
                found = road(op, avals) in ("host", "missing")
            if len(self._lacking) > 1 << 14:
                self._lacking.clear()
            self._lacking[key] = found
        return found

    def runner(self, op: Op, avals: Sequence[Aval]) -> Member:
        """Who runs an operation: this member, or by the router's policy another one.

        Raises:
            BackendError: nobody else shall, and this one lacks it.
        """
        if self.router.lacking == "own" or not self.lacks(op, avals):
            return self
        others = [m for m in self.router.members if m is not self and m.lost is None]
        able = next((m for m in others if not m.lacks(op, avals)), None)
        if self.router.lacking == "fallback" and able is not None:
            return able
        if self.router.lacking == "error":
            where = "no other member has it" if able is None else f"{able.name} has it"
            raise BackendError(
                f"{op.operation.name}: device {self.name} lacks it for "
                f"{', '.join(map(str, avals))}, and the router was made with lacking='error'; "
                f"{where}: move the inputs there, or make the router with lacking='fallback'"
            )
        return self

    def announce(self, op: Op, runner: Member) -> None:
        """Counts that an operation runs elsewhere; says so the first time."""
        if self.router.counts.fallback(op.operation.name, self.device, runner.device):
            warnings.warn(
                f"device {self.name} lacks {op.operation.name}: it runs on {runner.name}, with its "
                "inputs moved there and its results back. print(router.report()) counts; a router "
                "made with lacking='error' refuses",
                RouterWarning,
                stacklevel=3,
            )

    def upload(self, array: np.ndarray) -> Handle:
        with self.answering("upload"):
            return self.hardware.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        with self.answering("download"):
            return handle.backend.download(handle)

    def synchronize(self) -> None:
        with self.answering("synchronize"):
            self.hardware.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.hardware.supports(op, avals)

    def prepare(self, graph: Graph) -> Executable:
        """A recorded graph as something to call: the member's own plan, or parts for several."""
        if not graph.places and is_for_one(self, graph):
            if hasattr(self.hardware, "prepare"):
                return planned(self.hardware, graph)
            return Replay(self, graph)
        return PartedGraph(self, graph)
