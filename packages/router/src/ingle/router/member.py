"""One device of a router: the door in front of a member's hardware backend."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ingle.fusion.grouped import Executable, Graph, Replay, is_from_outside
from ingle.fusion.grouped import prepare as planned
from ingle.tensor.callers import warn
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device, call_staged
from ingle.tensor.errors import BackendError, IngleError, LostDeviceError
from ingle.tensor.operation import Op

from .composition import Asked, operands_of, parts
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
        self._missing: dict[Asked, tuple[Asked | None]] = {}

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
        asked = Asked(op, operands_of(inputs))
        runner = self.runner(asked)
        if runner is not self:
            self.announce(asked, runner)
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

    def missing(self, asked: Asked, within: tuple[Asked, ...] = ()) -> Asked | None:
        """What the member has no kernel for and cannot compose: an operation itself, or one that it
        is made of; None if it lacks nothing.

        Args:
            asked: the operation.
            within: the composites that it is a part of. One that asks for itself again, as control
                flow does where it is written down, needs nothing more by that.
        """
        known = self._missing.get(asked)
        if known is not None:
            return known[0]
        if asked in within:
            return None
        found: Asked | None
        if self._has_kernel(asked):
            found = None
        elif asked.op.operation.body is None:
            found = asked
        else:
            inside = (*within, asked)
            lacking = (self.missing(part, inside) for part in parts(asked))
            found = next((part for part in lacking if part is not None), None)
        if len(self._missing) > 1 << 14:
            self._missing.clear()
        self._missing[asked] = (found,)
        return found

    def _has_kernel(self, asked: Asked) -> bool:
        """Whether the member's backend computes an operation by itself, without its body."""
        road = getattr(self.hardware, "road", None)
        if road is None:
            return self.hardware.supports(asked.op, asked.avals)
        return bool(road(asked.op, asked.avals) == "native")

    def runner(self, asked: Asked) -> Member:
        """Who runs an operation: this member, or by the router's policy another one.

        Raises:
            BackendError: nobody else shall, and this one lacks it.
        """
        lacking = self.router.lacking
        missing = None if lacking == "own" else self.missing(asked)
        if missing is None:
            return self
        others = [m for m in self.router.members if m is not self and m.lost is None]
        able = next((m for m in others if m.missing(asked) is None), None)
        if lacking == "fallback" and able is not None:
            return able
        if lacking == "error":
            where = "no other member has it" if able is None else f"{able.name} has it"
            raise BackendError(
                f"{asked.op.operation.name}: device {self.name} lacks {_told(missing, asked)} for "
                f"{', '.join(map(str, missing.avals))}, and the router was made with "
                f"lacking='error'; {where}: move the inputs there, or make the router with "
                "lacking='fallback'"
            )
        return self

    def announce(self, asked: Asked, runner: Member) -> None:
        """Counts that an operation runs elsewhere; says so the first time."""
        name = asked.op.operation.name
        if self.router.counts.fallback(name, self.device, runner.device):
            missing = self.missing(asked)
            lacks = f"{name}: it"
            if missing is not None and missing != asked:
                lacks = f"{missing.op.operation.name}, which {name} is made of: {name}"
            warn(
                f"device {self.name} lacks {lacks} runs on {runner.name}, with its inputs moved "
                "there and its results back. print(router.report()) counts; a router made with "
                "lacking='error' refuses",
                RouterWarning,
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


def _told(missing: Asked, asked: Asked) -> str:
    """What a member lacks of an operation that the sentence has named."""
    name = missing.op.operation.name
    return "it" if missing == asked else f"{name}, which it is made of,"
