"""Plans of one short kernel, called straight: what is around it takes longer than the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ingle.fusion.device import CompiledPlan, LinearPlan
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op

from ..launch.executable import CpuExecutable, packing_memory
from ..memory import SMALL, CpuHandle, Small, lent_memory, small_block, small_size
from ..threads.launcher import HAS_LOCK
from ..threads.table import IdleTables, Table

DirectCall = Callable[[Op, Sequence[Handle | Scalar]], "list[Handle] | None"]
"""Runs it; None where operands do not lie in C order, or numbers need another plan."""
Place = Callable[[Handle | Scalar], Any]
"""As `place_of`."""
Host = Callable[..., Sequence[Any] | None]
"""Computes the numbers of a kernel from those that are given."""
Patch = Callable[[Table, Sequence[Any]], None]
"""Writes the numbers of a kernel into the arguments of a table."""


def direct_call(device: Any, plan: CompiledPlan, place: Place) -> DirectCall | None:
    """What runs a plan of small results without a look at what such a plan never has: constants,
    shared memory, checks, inputs that are written over. None for other plans.

    Args:
        device: the backend.
        plan: the plan.
        place: where operands are; the calls do not take those that it is None for.
    """
    linear = plan.linear_plan
    if linear is None or linear.constants or linear.arena or linear.checks or linear.donors:
        return None
    if len(linear.executables) != 1 or len(linear.own) != 1:
        return None
    aval = _result_of(linear)
    if aval is None:
        return None
    ((executable, roots),) = linear.executables
    size = small_size(aval)
    if size is None or not isinstance(executable, CpuExecutable) or not executable.bare:
        return None
    tables = executable.usual
    # There is no arena before the buffers.
    order = [0, *[1 + r for r in roots]]
    if order == list(range(linear.inputs + 2)):
        order = []
    # Where no number comes in, none is computed, and none decides that another plan is needed.
    numbers = plan.data.host.given or tables.patches
    if numbers or order or tables.scratch > SMALL or not HAS_LOCK:
        patch = partial(executable.patch, tables) if tables.patches else None
        return call_with_numbers(
            device, aval, size, tables, plan.host, patch, place, [0], order, tables.scratch
        )
    return call_of_tensors(device, aval, size, tables.table.copy(), place, [0], tables.scratch)


def _result_of(linear: LinearPlan) -> Aval | None:
    """The only result of a plan, if it is all of the only buffer, in another shape or not."""
    if len(linear.outputs) != 1:
        return None
    ((root, view),), (own,) = linear.outputs, linear.own
    if root != linear.inputs or view is None:
        return own if root == linear.inputs else None
    whole = view.contiguous and not view.offset and math.prod(view.shape) == math.prod(own.shape)
    return Aval(view.shape, own.dtype) if whole else None


def call_of_tensors(
    device: Any, aval: Aval, size: type[Small], table: Table, place: Place,
    first: Sequence[int] = (), scratch: int = 0,
) -> DirectCall:  # fmt: skip
    """The call of a kernel without numbers, whose table and scratch memory nobody else uses:
    nothing comes between writing addresses and the run, not another thread either.

    Args:
        device: the backend.
        aval, size: of the result.
        table: whose buffers are the operands and the result.
        place: where operands are.
        first: what stands before their addresses.
        scratch: bytes of memory whose address comes last.
    """
    if scratch:
        table.scratch = lent_memory(scratch)
        table.bases[-1] = table.scratch.address
    launch, after = table.launch, table.after

    def run(_: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        addresses = [*first]
        for x in inputs:
            address = x.address if type(x) is CpuHandle else place(x)
            if address is None:
                return None
            addresses.append(address)
        result = CpuHandle(device, aval, small_block(size))
        status = launch(*addresses, result.address)
        if status:
            after(status)
        return [result]

    return run


def call_with_numbers(
    device: Any, aval: Aval, size: type[Small], tables: IdleTables, host: Host,
    patch: Patch | None, place: Place, first: Sequence[int] = (), order: Sequence[int] = (),
    scratch: int = 0,
) -> DirectCall:  # fmt: skip
    """The same of a kernel with numbers, or whose addresses have another order: each run takes a
    table of its own."""

    def run(_: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        addresses, numbers = [*first], []
        for x in inputs:
            if type(x) is Scalar:
                numbers.append(x.value)
                continue
            address = x.address if type(x) is CpuHandle else place(x)
            if address is None:
                return None
            addresses.append(address)
        scalars = host(*numbers)
        if scalars is None:
            return None
        result = CpuHandle(device, aval, small_block(size))
        addresses.append(result.address)
        if order:
            addresses = [addresses[n] for n in order]
        lent = packing_memory.lend(scratch, lent_memory) if scratch else None
        if lent is not None:
            addresses.append(lent.address)
        table = tables.taken()
        if patch is not None:
            patch(table, scalars)
        status = table.launch(*addresses)
        if status:
            table.after(status)
        tables.idle.append(table)
        if lent is not None:
            packing_memory.take_back(lent)
        return [result]

    return run
