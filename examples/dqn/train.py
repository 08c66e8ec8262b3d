"""Learns to balance a pole on a cart by trying: `python train.py`.

Deep Q-learning (Mnih et al., 2015) with the two nets of double Q-learning (van Hasselt et al.,
2016) and a target net that follows slowly. The cart is `Carts` below: several at once, in NumPy.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.fusion import compile

mpl.use("Agg")
import matplotlib.pyplot as plt


class Carts:
    """Carts with a pole each, pushed left (0) or right (1) every 20 ms (Barto et al., 1983).

    A cart's state is its place and speed, and its pole's angle and angular speed. It ends when the
    pole leans by more than 12 degrees or the cart leaves its track, and at the latest after `most`
    pushes; the reward is 1 for each push. A cart that has ended starts again.
    """

    GRAVITY, CART, POLE, HALF, FORCE, TIME = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    TRACK, LEAN = 2.4, np.radians(12)

    def __init__(self, count: int, seed: int, most: int = 200) -> None:
        self.rng = np.random.default_rng(seed)
        self.most = most
        self.states = self._fresh(count)
        self.ages = np.zeros(count, np.int64)

    def _fresh(self, count: int) -> np.ndarray:
        return self.rng.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)

    def push(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The states behind the pushes, which of them are failures, and which carts began anew.

        A cart that reaches `most` pushes begins anew without having failed.
        """
        _, speed, angle, turning = self.states.T.astype(np.float64)
        force = np.where(actions == 1, self.FORCE, -self.FORCE)
        mass, lever = self.CART + self.POLE, self.POLE * self.HALF
        sine, cosine = np.sin(angle), np.cos(angle)
        pull = (force + lever * turning**2 * sine) / mass
        turn = self.GRAVITY * sine - cosine * pull
        turn /= self.HALF * (4 / 3 - self.POLE * cosine**2 / mass)
        slide = pull - lever * turn * cosine / mass
        moved = np.stack([speed, slide, turning, turn])
        states = (self.states.T + self.TIME * moved).T.astype(np.float32)
        failed = (np.abs(states[:, 0]) > self.TRACK) | (np.abs(states[:, 2]) > self.LEAN)
        self.ages += 1
        ended = failed | (self.ages >= self.most)
        self.states = np.where(ended[:, None], self._fresh(len(states)), states)
        self.ages[ended] = 0
        return states, failed, ended


class Memory:
    """The last experiences: states, actions, the states behind them, and whether those failed."""

    def __init__(self, size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.seen = 0
        self.before, self.after = (np.zeros((size, 4), np.float32) for _ in range(2))
        self.actions = np.zeros(size, np.int64)
        self.failed = np.zeros(size, np.float32)

    def add(
        self, before: np.ndarray, actions: np.ndarray, after: np.ndarray, failed: np.ndarray
    ) -> None:
        """Takes the place of the oldest."""
        at = (self.seen + np.arange(len(before))) % self.size
        self.before[at], self.actions[at] = before, actions
        self.after[at], self.failed[at] = after, failed
        self.seen += len(before)

    def draw(self, count: int) -> tuple[np.ndarray, ...]:
        """A random batch."""
        at = self.rng.integers(0, min(self.seen, self.size), count)
        return self.before[at], self.actions[at], self.after[at], self.failed[at]


Rate = Callable[[int], float]
Step = Callable[[it.Tensor, it.Tensor, it.Tensor, it.Tensor], it.Tensor]


def learning(values: nn.Module, target: nn.Module, lr: Rate, discount: float) -> Step:
    """A compiled step of learning from a batch of experiences; returns the loss."""
    optimizer = optim.Adam(values, lr=lr, max_grad_norm=10.0)

    @compile
    def learn(
        before: it.Tensor, actions: it.Tensor, after: it.Tensor, failed: it.Tensor
    ) -> it.Tensor:
        with no_grad():
            # One net chooses the action and the other says what it is worth, so that what is
            # overrated by chance is not chosen for it.
            best = it.expand_dims(it.argmax(values(after), axis=1), 1)
            ahead = it.squeeze(it.take_along_axis(target(after), best, axis=1), axis=1)
            wanted = 1.0 + discount * ahead * (1.0 - failed)
        index = it.expand_dims(actions, 1)
        worth = it.squeeze(it.take_along_axis(values(before), index, axis=1), axis=1)
        loss = it.huber_loss(worth, wanted)
        optimizer.step(loss.backward())
        with it.transaction():
            for slow, fast in zip(target.parameters(), values.parameters(), strict=True):
                slow.value = slow.raw * 0.99 + fast.raw * 0.01
        return loss

    return learn


def played(choose: Callable[[it.Tensor], it.Tensor], count: int, seed: int) -> np.ndarray:
    """For how long each of `count` carts keeps its pole, if no push is random."""
    carts = Carts(count, seed, most=500)
    ages = np.zeros(count, np.int64)
    running = np.ones(count, bool)
    while running.any():
        _, _, ended = carts.push(choose(it.asarray(carts.states)).numpy())
        ages += running
        running &= ~ended
    return ages


def draw(path: Path, found: list[tuple[int, float]], ages: np.ndarray) -> None:
    """For how long poles were kept without random pushes while learning, and by the best."""
    figure, axes = plt.subplots(figsize=(6, 3.5), dpi=110)
    steps, lasting = zip(*found, strict=True)
    axes.plot(steps, lasting, color="#1f6f8b")
    axes.axhline(float(ages.mean()), color="#c0392b", linewidth=1, linestyle="--")
    axes.set(xlabel="steps of learning", ylabel="pushes until the pole falls", ylim=(0, None))
    axes.set_title("Dashed: the best of these, with new carts", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with nn.writing(path):
        figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> float:
    """Learns, plays and draws; returns for how many pushes of at most 500 a pole is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--steps", type=int, default=8000, help="each of all carts, and a batch")
    parser.add_argument("--carts", type=int, default=8)
    parser.add_argument("--memory", type=int, default=100_000, help="experiences that are kept")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/dqn"))
    given = parser.parse_args(argv)

    given.out.mkdir(parents=True, exist_ok=True)
    with it.device(given.device or it.default_device()):
        it.random.seed(given.seed)
        values = nn.Sequential(
            nn.Linear(4, given.width), nn.ReLU(), nn.Linear(given.width, given.width), nn.ReLU(),
            nn.Linear(given.width, 2),
        )  # fmt: skip
        target = copy.deepcopy(values)
        # Ever smaller steps: what is learned late shall not undo what was learned before.
        rate = optim.schedule.Cosine(given.lr, steps=given.steps)
        learn = learning(values, target, rate, given.discount)

        @compile
        def choose(states: it.Tensor) -> it.Tensor:
            return it.argmax(values(states), axis=1)

        carts, memory = Carts(given.carts, given.seed, 500), Memory(given.memory, given.seed)
        rng = np.random.default_rng(given.seed)
        found: list[tuple[int, float]] = []
        best = values.state_dict()
        for step in range(1, given.steps + 1):
            # Ever fewer random pushes, over the first fifth.
            random = max(0.05, 1.0 - step / (given.steps / 5))
            before = carts.states
            actions = choose(it.asarray(before)).numpy()
            lucky = rng.random(given.carts) < random
            actions = np.where(lucky, rng.integers(0, 2, given.carts), actions)
            after, failed, _ = carts.push(actions)
            memory.add(before, actions, after, failed)
            if memory.seen >= 1000:
                learn(*map(it.asarray, memory.draw(given.batch_size)))
            if step % (given.steps // 40) == 0:
                # Learning wanders: what has kept poles longest is kept.
                found.append((step, float(played(choose, 20, given.seed + 1).mean())))
                if found[-1][1] >= max(lasting for _, lasting in found):
                    best = values.state_dict()
            if step % (given.steps // 8) == 0:
                print(f"step {step:5}  {found[-1][1]:5.1f} pushes", flush=True)
        values.load_state_dict(best)
        ages = played(choose, 20, given.seed + 2)
        nn.save(given.out / "values.safetensors", values)
    draw(given.out / "learning.png", found, ages)
    print(f"pushes until the pole falls, 500 at most: {ages.mean():.1f}, at worst {ages.min()}")
    return float(ages.mean())


if __name__ == "__main__":
    main()
