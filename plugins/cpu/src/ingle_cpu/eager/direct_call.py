"""Plans of one short kernel, called straight: what is around it takes longer than the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingle.fusion.device import CompiledPlan
from ingle.tensor.contract import Handle, Scalar

from ..launch.executable import CpuExecutable, packing_memory
from ..memory import CpuHandle, lent_memory, small_memory

DirectCall = Callable[[Sequence[Handle | Scalar]], "list[Handle] | None"]
"""Runs it; None where operands do not lie in C order, or numbers need another plan."""


def direct_call(device: Any, plan: CompiledPlan) -> DirectCall | None:
    """What runs a plan of small results without a look at what such a plan never has: constants,
    shared memory, checks, inputs that are written over. None for other plans."""
    linear = plan.linear_plan
    if linear is None or linear.constants or linear.arena or linear.checks or linear.donors:
        return None
    if len(linear.executables) != 1 or len(linear.own) != 1:
        return None
    if list(linear.outputs) != [(linear.inputs, None)]:
        return None
    ((executable, roots),) = linear.executables
    take_memory = small_memory(linear.own[0])
    if take_memory is None or not isinstance(executable, CpuExecutable) or not executable.bare:
        return None
    aval, host, tables = linear.own[0], plan.host, executable.usual
    pack, scratch = tables.addresses.pack_into, tables.scratch
    in_turn = list(roots) == list(range(linear.inputs + 1))
    patch = executable.patch if tables.patches else None

    def run(inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        addresses, numbers = [], []
        for x in inputs:
            if type(x) is CpuHandle:
                addresses.append(x.address)
            elif type(x) is Scalar:
                numbers.append(x.value)
            else:
                return None
        scalars = host(*numbers)
        if scalars is None:
            return None
        result = CpuHandle(device, aval, take_memory())
        addresses.append(result.address)
        if not in_turn:
            addresses = [addresses[r] for r in roots]
        lent = packing_memory.lend(scratch, lent_memory) if scratch else None
        table = tables.taken()
        # There is no arena before the buffers.
        pack(table.base_bytes, 0, 0, *addresses, 0 if lent is None else lent.address)
        if patch is not None:
            patch(tables, table, scalars)
        table.run(release=False)
        tables.idle.append(table)
        if lent is not None:
            packing_memory.take_back(lent)
        return [result]

    return run
