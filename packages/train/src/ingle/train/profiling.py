"""Looking at some steps closely: a trace for a viewer, and a table."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ingle.nn import atomic_write
from ingle.tensor import Tensor, argument_checks

from .callbacks import Callback
from .gauges import Gauges

if TYPE_CHECKING:
    from .learner import Learner


class Profiler(Callback):
    """Measures some steps: data, forward with every module, backward, optimizer.

    The device is waited for at the end of each part, so that times are of the work itself and not
    of asking for it; these steps take longer than others, as nothing is fused across modules. The
    trace is a file of Chrome's trace events, which https://ui.perfetto.dev and chrome://tracing
    open; `table()` adds up.

    Args:
        path: of the trace; its folder is made.
        steps: how many steps to measure.
        skip: how many steps to let pass first, in which kernels are compiled. As many again are
            run in parts before those that count.
        modules: whether to measure modules, too.

    >>> import tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner, Profiler
    >>> model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    >>> profiler = Profiler(tempfile.mkdtemp() + "/trace.json", steps=2, skip=1)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.1), it.mse_loss, callbacks=[profiler], progress=False)
    >>> x = np.ones((20, 1), np.float32)
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=1)
    >>> print(profiler.table().splitlines()[0])
    part                              calls      total       mean   share
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        steps: int = 10,
        skip: int = 5,
        modules: bool = True,
    ) -> None:
        self.path = argument_checks.path("Profiler", "path", path)
        self.steps = argument_checks.whole("Profiler", "steps", steps, least=1)
        self.skip = argument_checks.whole("Profiler", "skip", skip, least=0)
        self.modules = modules
        self._events: list[dict[str, Any]] = []
        self._handles: list[Any] = []
        self._open: list[tuple[str, float]] = []
        self._first = 0
        self._began = 0.0
        self._counting = False
        self._gauges: Gauges | None = None

    def on_fit_start(self, learner: Learner) -> None:
        self._first = learner.steps
        self._events, self._counting = [], False
        if self.skip == 0:
            self._begin(learner)
            self._count()

    def on_step(self, learner: Learner, loss: float) -> None:
        now, done = perf_counter(), learner.steps - self._first
        if self._counting:
            self._event(f"step {learner.steps}", "step", self._began, now)
            self._memory(now)
            self._began = perf_counter()
            if done >= 2 * self.skip + self.steps:
                self._end(learner)
        elif done == self.skip:
            self._begin(learner)
        elif done == 2 * self.skip and self._handles_set:
            self._count()

    def on_fit_end(self, learner: Learner) -> None:
        if self._handles_set:
            self._end(learner)

    @property
    def _handles_set(self) -> bool:
        return self._gauges is not None

    def _begin(self, learner: Learner) -> None:
        learner.spans.always = True
        learner.spans.listeners.append(self._span)
        self._gauges = Gauges({str(p.raw.device) for p in learner.model.parameters()})
        if self.modules:
            for path, module in learner.model.named_modules():
                name = f"{path or 'model'}: {type(module).__name__}"
                self._handles += [
                    module.register_forward_pre_hook(lambda m, args, name=name: self._enter(name)),
                    module.register_forward_hook(lambda m, args, out: self._leave(out)),
                ]

    def _count(self) -> None:
        self._counting = True
        self._began = perf_counter()

    def _end(self, learner: Learner) -> None:
        self._counting = False
        self._gauges = None
        learner.spans.always = False
        learner.spans.listeners.remove(self._span)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        trace = {"traceEvents": self._events, "displayTimeUnit": "ms"}
        with atomic_write(self.path) as file:
            file.write(json.dumps(trace).encode())

    def _enter(self, name: str) -> None:
        self._open.append((name, perf_counter()))

    def _leave(self, output: Any) -> None:
        for tensor in _tensors(output):
            tensor.backend.synchronize()
        name, begin = self._open.pop()
        if self._counting:
            self._event(name, "module", begin, perf_counter())

    def _span(self, name: str, begin: float, end: float) -> None:
        if self._counting:
            self._event(name, "part", begin, end)

    def _event(self, name: str, kind: str, begin: float, end: float) -> None:
        self._events.append({
            "name": name, "cat": kind, "ph": "X", "ts": begin * 1e6, "dur": (end - begin) * 1e6,
            "pid": os.getpid(), "tid": 0,
        })  # fmt: skip

    def _memory(self, now: float) -> None:
        assert self._gauges is not None
        found = {k: v for k, v in self._gauges.read().items() if k.endswith("/memory")}
        found.pop("machine/memory", None)
        self._events.append({
            "name": "memory", "ph": "C", "ts": now * 1e6, "pid": os.getpid(), "args": found,
        })  # fmt: skip

    def table(self) -> str:
        """What took how long in the steps that were measured, the longest first.

        Parts of a step come first, then modules, whose times contain those of the modules in them.
        """
        whole = sum(e["dur"] for e in self._events if e.get("cat") == "step")
        lines = [f"{'part':32}{'calls':>7}{'total':>11}{'mean':>11}{'share':>8}"]
        for kind in ("part", "module"):
            totals: dict[str, tuple[int, float]] = {}
            for event in self._events:
                if event.get("cat") == kind:
                    count, time = totals.get(event["name"], (0, 0.0))
                    totals[event["name"]] = count + 1, time + event["dur"]
            for name, (count, time) in sorted(totals.items(), key=lambda item: -item[1][1]):
                mean = f"{time / count / 1e3:.3f} ms"
                share = time / whole if whole else 0.0
                lines.append(
                    f"{name[:31]:32}{count:>7}{time / 1e3:>8.1f} ms{mean:>11}{share:>8.1%}"
                )
        return "\n".join(lines)


def _tensors(output: Any) -> Sequence[Tensor]:
    """The tensors of what a module gave."""
    if isinstance(output, Tensor):
        return [output]
    parts = output.values() if isinstance(output, dict) else output
    if isinstance(output, (tuple, list, dict)):
        return [tensor for part in parts for tensor in _tensors(part)]
    return []
