"""What the dashboard costs a training: the same steps with and without it, in turns.

Run it in a terminal, with which the dashboard is shown: `python bench/dashboard.py [--width 256]`.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np
import psutil

import ingle.tensor as it
from ingle import nn, optim
from ingle.dashboard import Dashboard, RunRecorder
from ingle.dataset import ArrayDataset, Loader
from ingle.tensor import Gradients
from ingle.train import Accuracy, Callback, Learner, Renderer, Rendering


class Clock(Callback):
    """The seconds of each step behind the first ones, in which kernels compile and it opens."""

    def __init__(self, after: int, until: int) -> None:
        self.after, self.until = after, until
        self.drawing = 0.0
        self._drawn = 0.0
        self.begin = self.cpu = self.thread = 0.0
        self.times: list[float] = []

    def on_step(self, learner: Learner, loss: float) -> None:
        now = time.perf_counter()
        if learner.steps == self.after:
            self.cpu, self.thread = time.process_time(), time.thread_time()
            self._drawn = drawing()
            Watched.seconds = 0.0
        elif learner.steps == self.until:
            self.cpu = time.process_time() - self.cpu
            self.thread = time.thread_time() - self.thread
            self.drawing = (drawing() - self._drawn) / sum(self.times)
        elif learner.steps > self.after:
            self.times.append(now - self.begin)
        self.begin = now


def drawing() -> float:
    """The processor seconds of the dashboard's process so far."""
    children = [child.cpu_times() for child in psutil.Process().children()]
    return float(sum(times.user + times.system for times in children))


class Watched(Rendering):
    """Adds up the processor time of the training's thread that goes into telling the dashboard."""

    seconds = 0.0

    def on_step(self, learner: Learner, loss: float) -> None:
        begin = time.thread_time()
        super().on_step(learner, loss)
        Watched.seconds += time.thread_time() - begin

    def on_gradients(self, learner: Learner, gradients: Gradients) -> None:
        begin = time.thread_time()
        super().on_gradients(learner, gradients)
        Watched.seconds += time.thread_time() - begin


class Alternating(Rendering):
    """Tells the dashboard of every second block of steps, so that one run shows what that costs.

    Runs differ by more from each other than the dashboard costs. Steps at the edges of blocks are
    left out, and so are the first ones.
    """

    BLOCK = 64

    def __init__(self, renderer: Renderer, after: int) -> None:
        super().__init__(renderer)
        self.after, self.done, self.last = after, 0, 0.0
        self.times: dict[bool, list[float]] = {False: [], True: []}

    @property
    def told(self) -> bool:
        return self.done // self.BLOCK % 2 == 1

    def on_gradients(self, learner: Learner, gradients: Gradients) -> None:
        if self.told:
            super().on_gradients(learner, gradients)

    def on_step(self, learner: Learner, loss: float) -> None:
        if self.told:
            super().on_step(learner, loss)
        else:
            learner.spans.exact = False
            learner.spans.take()
        now = time.thread_time()
        if self.done % self.BLOCK > 1 and self.done > self.after:
            self.times[self.told].append(now - self.last)
        self.done, self.last = self.done + 1, now


def alternating(width: int, steps: int) -> tuple[float, float]:
    """Processor seconds of a step, in the thread that trains, without and with the recording."""
    model, batches = problem(width, steps)
    rendering = Alternating(RunRecorder(tempfile.mkdtemp()), steps // 6)
    Learner(
        model, optim.Adam(model, lr=1e-4), it.cross_entropy, metrics=[Accuracy()],
        callbacks=[rendering], progress=False,
    ).fit(batches, epochs=1)  # fmt: skip
    without, told = (statistics.mean(rendering.times[shown]) for shown in (False, True))
    return without, told


def problem(width: int, steps: int) -> tuple[nn.Module, Loader]:
    """A net and batches for it."""
    it.random.seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64 * steps, 64)).astype(np.float32)
    y = rng.integers(0, 10, 64 * steps)
    model = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    return model, Loader(ArrayDataset(x, y), 64)


def train(width: int, steps: int, shown: bool) -> tuple[float, float, float, float, float]:
    """Seconds of a step by the clock, of a processor in the thread that trains, and in the process;
    the share of a processor that the dashboard's process takes; the seconds of a step that go into
    telling it."""
    model, batches = problem(width, steps)
    watched = Watched(Dashboard(tempfile.mkdtemp()))
    learner = Learner(
        model, optim.Adam(model, lr=1e-4), it.cross_entropy, metrics=[Accuracy()],
        callbacks=[clock := Clock(steps // 3, steps - 1), *([watched] if shown else [])],
        progress=False,
    )  # fmt: skip
    learner.fit(batches, epochs=1)
    count = len(clock.times)
    return (
        sum(clock.times) / count, clock.thread / count, clock.cpu / count, clock.drawing,
        Watched.seconds / count,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found: dict[bool, list[tuple[float, float, float, float, float]]] = {False: [], True: []}
    for _ in range(given.rounds):
        for shown in found:
            found[shown].append(train(given.width, given.steps, shown))
    for place, name in enumerate(("time", "the thread's processor time", "all processor time")):
        without, beside = ([one[place] for one in times] for times in found.values())
        ratios = [b / a for a, b in zip(without, beside, strict=True)]
        low, high = min(without) * 1e3, min(beside) * 1e3
        print(
            f"{name} of a step without: {low:.3f} ms, with: {high:.3f} ms ({high / low - 1:+.2%})"
        )
        print(
            f"median of {given.rounds} ratios of neighbours: {statistics.median(ratios) - 1:+.2%}"
        )
    drawn, told = (statistics.median(one[place] for one in found[True]) for place in (3, 4))
    step = statistics.median(one[0] for one in found[False])
    print(f"telling it takes {told * 1e6:.0f} us of a step, {told / step:.2%} of it;")
    print(f"drawing takes {drawn:.2%} of a processor")
    for _ in range(3):
        alone, told_of = alternating(given.width, 2 * given.steps)
        print(
            f"blocks of one run: {alone * 1e6:.0f} us of the thread's processor without, "
            f"{told_of * 1e6:.0f} with ({told_of / alone - 1:+.2%})"
        )


if __name__ == "__main__":
    main()
