"""Kernels compiled beside the rest of planning: LLVM needs no interpreter, so another core does it.

What a plan runs is known some time before its tables are written: layers that repeat are written
out in between, and memory is found. What all plans run is known before any of it. A thread asks the
engine for the code meanwhile. It says nothing of what fails: the table builder asks again, and gets
the error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from ingle.fusion.device import Graph, WholeCall, switching
from ingle.fusion.device.kernels import ContractionCall, NestCall, epilogue_of

from ..jit.engine import KernelCompileError
from ..matmul.autotune import choice_for
from ..matmul.code import driver_address
from ..matmul.joined_rows import problem_of, with_rows_joined
from ..matmul.launches import compile_code
from ..threads.pool import runner_addresses, thread_count
from .table_builder import kernel_of
from .whole_entries import entries_in_order, entries_of

FEWEST = 4
"""Kernels from which on a thread of its own pays."""


def compiled_ahead(calls: Iterable[object]) -> threading.Thread | None:
    """Begins to compile what calls run, in a thread; None if that is too little for one."""
    wanted: dict[Any, Callable[[], object]] = {}
    for call in calls:
        if isinstance(call, NestCall):
            wanted.setdefault(call.nest, partial(kernel_of, call.nest))
        elif isinstance(call, WholeCall):
            wanted.setdefault((call.op, call.avals), partial(entries_of, call))
        elif isinstance(call, ContractionCall):
            call = with_rows_joined(call)
            problem, epilogue = problem_of(call), epilogue_of(call)
            if (problem, epilogue) not in wanted:
                # Which may measure: not beside others' work.
                choice = choice_for(problem, thread_count())
                wanted[problem, epilogue] = partial(compile_code, problem, choice, epilogue)
    return _begun([*wanted.values()]) if len(wanted) >= FEWEST else None


@cache
def basics_ahead(contracts: bool) -> threading.Thread:
    """Begins to compile the loop over a plan's kernels, and that over the tiles of a product if
    there are some, in a thread: once in a process, from the begin of the first plan on."""
    return _begun([driver_address] if contracts else [])


def templates_ahead(graph: Graph) -> threading.Thread | None:
    """Begins to compile what a graph's operations run that templates take whole, in a thread; None
    if there are none. They are known from the beginning, and longer than most kernels.

    Their operands may come to lie otherwise than in order, which is another problem, but mostly of
    the same code.
    """
    wanted: dict[Any, Callable[[], object]] = {}
    for node in graph.nodes:
        avals = tuple([graph.values[a].aval for a in node.args])
        if (node.op, avals) not in wanted:
            entries = entries_in_order(node.op, avals)
            if entries is not None:
                wanted[node.op, avals] = entries
    return _begun([*wanted.values()]) if wanted else None


def _begun(wanted: Iterable[Callable[[], object]]) -> threading.Thread:
    # Python waits for it at its end, since LLVM must not be taken down while it works.
    thread = threading.Thread(target=_run, args=(wanted,), name="ingle-compile")
    thread.start()
    return thread


def _run(wanted: Iterable[Callable[[], object]]) -> None:
    switching.begin()
    try:
        runner_addresses()
        for compile in wanted:
            compile()
    except KernelCompileError:
        return
    finally:
        switching.end()
