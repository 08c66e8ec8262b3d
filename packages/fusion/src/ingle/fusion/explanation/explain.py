"""`explain`: what a function becomes, kernel by kernel."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingle.tensor.errors import OperandError
from ingle.tensor.file_errors import writing
from ingle.tensor.pytree import flatten

from ..compiled.compile import Compiled
from ..compiled.specialization import Specialization
from ..compiled.specialize import RecordedRun, recorded_run
from ..device_group import PartedPlan
from ..ir.graph import Graph
from ..ir.views import views_of
from ..runtime.graph_plans import GraphPlans
from ..runtime.plan_cache import prepare
from ..schedule.rates import rates_of
from ..support.source_location import Line
from .buffers import Buffer, Buffers, times
from .drawing import Card, drawn, escaped
from .parts import explained_parts
from .steps import Step, alone, steps_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found; print it, or `save` or `draw` it as a picture.

    Attributes:
        recorded: how many operations the function asked for.
        steps: what runs.
        arena: bytes of memory between kernels.
        constants: numbers and tensors that are part of the plan, with the lines they come from.
        seconds: of one run, the best of several; None if nothing was run.
        sources: the kernels' code, if it was asked for.
        buffers: the memory that kernels read and write.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import Explanation, explain
    >>> found = explain(lambda x: it.exp(x) + 1.0, it.ones(1000), runs=0)
    >>> isinstance(found, Explanation), found.recorded, len(found.steps), found.arena
    (True, 2, 1, 0)
    """

    recorded: int
    steps: tuple[Step, ...]
    arena: int
    constants: tuple[str, ...]
    seconds: float | None
    sources: tuple[str, ...] = ()
    buffers: tuple[Buffer, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.recorded} operations recorded, {len(self.steps)} kernels, "
            f"{_bytes(self.arena)} between them"
            + ("" if self.seconds is None else f", {_time(self.seconds)} a run"),
            f"{'':>3} {self._place('device')}{'kind':8}{'loops':>22}{'bytes':>10}"
            f"{'estimate':>10}{'measured':>10}  what",
        ]
        for number, step in enumerate(self.steps):
            sizes = "x".join(map(str, step.sizes))
            measured = "" if step.seconds is None else _time(step.seconds)
            lines.append(
                f"{number:>3} {self._place(step.device)}{step.kind:8}{sizes:>22}"
                f"{_bytes(step.nbytes):>10}{_time(step.estimate):>10}{measured:>10}  {step.name}"
            )
        if self.constants:
            lines.append("constants:")
            lines.extend(f"    {c}" for c in self.constants)
        lines.extend(self.sources)
        return "\n".join(lines)

    def _place(self, name: str) -> str:
        """A device in its column, if there are several."""
        width = max([len(step.device) for step in self.steps], default=0)
        return name.ljust(max(width, len("device")) + 2) if width else ""

    def save(self, path: str | Path) -> None:
        """Draws the plan as an SVG picture: a bar for each kernel, as wide as its time.

        Bars of kernels that compute something again have a dashed border.

        Raises:
            FileWriteError: the disk is full or read-only, or the folder cannot be written to.
        """
        _write(path, self._repr_svg_())

    def draw(self, path: str | Path) -> None:
        """Draws the plan as an SVG picture: the kernels in order, and the memory between them.

        Each kernel shows the operations that were fused into it. Lines lead from what a kernel
        reads, and to what it stores.

        Raises:
            FileWriteError: the disk is full or read-only, or the folder cannot be written to.
        """
        cards = [
            Card(
                s.kind, " ".join([*[s.device] * bool(s.device), s.kind, times(s.sizes)]),
                _bytes(s.nbytes) + ("" if s.seconds is None else f", {_time(s.seconds)}"),
                s.operations, s.again, s.reads, s.writes,
            )
            for s in self.steps
        ]  # fmt: skip
        head = f"{self.recorded} operations become {len(self.steps)} kernels"
        _write(path, drawn(head, cards, self.buffers))

    def _repr_svg_(self) -> str:
        times = [s.seconds or s.estimate for s in self.steps]
        total, row, width = sum(times) or 1.0, 22, 900
        colors = {"nest": "#4c78a8", "product": "#f58518", "whole": "#54a24b", "host": "#e45756"}
        parts = []
        start = 0.0
        for number, (step, seconds) in enumerate(zip(self.steps, times, strict=True)):
            x, w = 320 + 560 * start / total, max(2.0, 560 * seconds / total)
            y = 34 + row * number
            sizes = "x".join(map(str, step.sizes))
            what = escaped(f"{step.device}{' ' * bool(step.device)}{step.name} {sizes}")
            border = ' stroke="#222" stroke-dasharray="3 2"' if step.again else ""
            parts.append(
                f'<text x="312" y="{y + 12}" text-anchor="end">{what[:52]}</text>'
                f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="15" '
                f'fill="{colors[step.kind]}"{border}>'
                f"<title>{what}: {_time(seconds)}, {_bytes(step.nbytes)}</title></rect>"
            )
            start += seconds
        head = f"{self.recorded} operations, {len(self.steps)} kernels, {_time(total)}"
        if any(step.again for step in self.steps):
            head += "; dashed: computes again what an earlier kernel has computed"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{44 + row * len(self.steps)}" font-family="sans-serif" font-size="11">'
            f'<text x="10" y="18" font-size="14">{head}</text>{"".join(parts)}</svg>'
        )


def _write(path: str | Path, picture: str) -> None:
    with writing(path):
        Path(path).write_text(picture, "utf-8")


def explain(
    function: Callable[..., Any], *args: Any, source: bool = False, runs: int = 5, **kwargs: Any
) -> Explanation:
    """What `compile(function)` would run for these arguments.

    The function's Python code runs once; nothing that it writes to cells is kept.

    Args:
        function: as for `compile`, or what it returned.
        args, kwargs: what to call it with.
        source: add the code of the kernels.
        runs: how often to run the plan to measure it; 0 measures nothing.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import explain
    >>> print(explain(lambda x: it.exp(x) + 1.0, it.ones(3), runs=0))  # doctest: +ELLIPSIS
    2 operations recorded, ...
    """
    recording, entry, leaves = _recorded("explain", function, args, kwargs)
    executable = prepare(recording.fusion.inner, entry.graph)
    numbers, given = entry.inputs(leaves)
    seconds = _measured(lambda: executable(given, numbers), runs) if runs else None
    constants = tuple(_constants(entry.signature[0], entry.lines))
    recorded = len(entry.graph.nodes)
    rates = rates_of(recording.fusion.inner)
    names = _names(_written(function), leaves, args)
    if not isinstance(executable, GraphPlans):
        memory = Buffers(entry.graph, views_of(entry.graph))
        memory.name(entry, names)
        if isinstance(executable, PartedPlan):
            found = explained_parts(executable, given, numbers, memory.roles, runs, source)
            return Explanation(
                recorded, found.steps, found.arena, constants, seconds, found.sources, found.buffers
            )
        steps = tuple([replace(alone("host", memory, n), rates=rates) for n in range(recorded)])
        return Explanation(recorded, steps, 0, constants, seconds, (), tuple(memory.found))
    plan = executable.plan(numbers)
    measured = plan.profile(executable.ordered(given), numbers, runs) if runs else {}
    memory = Buffers(plan.schedule.graph, plan.schedule.views)
    memory.name(entry, names)
    steps = tuple([replace(s, rates=rates) for s in steps_of(plan.schedule, memory, measured)])
    sources = tuple(plan.sources()) if source else ()
    return Explanation(
        recorded, steps, plan.schedule.arena, constants, seconds, sources, tuple(memory.found)
    )


def graph_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """What a function computes, before passes: operations in relative form.

    The function's Python code runs once; nothing that it writes to cells is kept. `dumps` makes
    text of the graph. Its inputs are the tensors among the arguments, then those in the cells that
    the function reads, as they are met; its outputs are the tensors that the function returns, then
    those that it writes.

    Args:
        function: as for `compile`, or what it returned.
        args, kwargs: what to call it with.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import graph_of
    >>> print(graph_of(lambda x: it.exp(x) * 2.0, it.ones((2, 3))))
    %0: input float32[2, 3]
    %2 = 2.0: float32
    %1: float32[2, 3] = exp() on %0
    %3: float32[2, 3] = multiply() on %1, %2
    return %3
    """
    _, entry, _ = _recorded("graph_of", function, args, kwargs)
    return entry.graph


def _recorded(
    call: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[RecordedRun, Specialization, list[Any]]:
    if not callable(function):
        raise OperandError(
            f"{call}: needs a function of tensors, got {type(function).__name__}; write "
            f"{call}(f, x) for what f(x) computes"
        )
    leaves = flatten((args, kwargs))
    recording = recorded_run(_written(function), args, kwargs, leaves)
    return recording, recording.entry()[0], leaves


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it was written, before `compile`."""
    return function.function if isinstance(function, Compiled) else function


def _measured(run: Callable[[], Any], runs: int) -> float:
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) if runs < 3 else sorted(times)[runs // 4]


def _names(function: Callable[..., Any], leaves: Sequence[Any], args: Sequence[Any]) -> list[str]:
    """What a function calls its arguments, if each of them is one thing."""
    if len(leaves) != len(args) or any(a is not b for a, b in zip(leaves, args, strict=True)):
        return []
    try:
        return [*inspect.signature(function).bind(*args).arguments]
    except ValueError:  # a builtin that does not tell
        return []


def _constants(log: Sequence[Any], lines: Sequence[Line]) -> list[str]:
    found: dict[str, None] = {}
    for entry, line in zip(log, lines, strict=False):
        if entry[0] == "constant":
            found[f"{entry[3]} ({entry[1]}): {line}"] = None
    return list(found)


def _bytes(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.3g} GiB"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
