"""Limited-memory BFGS: steps along what the last gradients say of the curvature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ingle.tensor as it
from ingle.tensor import Gradients, Tensor, transaction
from ingle.tensor.argument_checks import whole
from ingle.tensor.errors import ArgumentError, OperandError

from .counts import advance
from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least
from .schedule.rate import Rate
from .slots import Slot

Closure = Callable[[], "Tensor | tuple[Tensor, Gradients]"]


class Point(NamedTuple):
    """A place on the line of a search: how far, and the loss, its slope and gradients there."""

    t: float
    loss: float
    slope: float
    grads: list[Tensor]


class LBFGS(Optimizer):
    """Quasi-Newton steps for whole data; Liu and Nocedal (1989). As PyTorch's.

    `step` takes a function, since it needs losses and gradients at several places. The products
    of directions are computed as one matrix (Chen et al., NIPS 2014), and read once an iteration.

    Args:
        params: a module or parameters, in one group; see `Optimizer`.
        lr: the length of steps, or a schedule of it.
        max_iter: how many iterations a step does.
        max_eval: when it has called the function so often, no further iteration begins, but a line
            search goes on, by 26 calls at most; 5 / 4 of `max_iter` if not given.
        tolerance_grad: done when no element of a gradient is larger.
        tolerance_change: done when neither loss nor parameters change by more.
        history_size: how many differences are kept, twice the parameters' memory each.
        line_search_fn: `"strong_wolfe"` or None, for steps of `lr`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0, -2.0])
    >>> lbfgs = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> loss = lbfgs.step(lambda: ((w - 1.0) ** 4).sum())
    >>> loss.item(), abs(w.value - 1.0).max().item() < 0.05
    (97.0, True)
    """

    moments = ("last_step", "previous_grad", "steps_made", "changes")

    def __init__(
        self, params: Parameters, lr: Rate = 1.0, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        most = whole("LBFGS", "max_iter", max_iter, least=1)
        super().__init__(
            params, lr, max_iter=most,
            max_eval=most * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad, tolerance_change=tolerance_change,
            history_size=history_size, line_search_fn=line_search_fn,
        )  # fmt: skip
        if len(self.groups) != 1:
            raise ArgumentError(f"LBFGS: needs exactly one group, got {len(self.groups)}")

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("LBFGS", options, "tolerance_grad", "tolerance_change")
        at_least("LBFGS", options, "max_iter", "max_eval", "history_size", least=1)
        if options["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(
                "LBFGS: line_search_fn must be None or 'strong_wolfe', got "
                f"{options['line_search_fn']!r}"
            )

    def moment_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        kept = name in ("steps_made", "changes")
        return (self.groups[0].options["history_size"], *shape) if kept else shape

    def step(self, closure: Closure) -> Tensor:  # type: ignore[override]
        """Does up to `max_iter` iterations; if anything raises, nothing has changed.

        Args:
            closure: returns the loss, or the loss and its gradients, as a compiled function does.
                It sees the parameters where the search has moved them.

        Returns:
            The loss before.
        """
        if not callable(closure):
            raise OperandError(
                f"LBFGS.step: expected a function that returns the loss, got "
                f"{type(closure).__name__}; write optimizer.step(lambda: loss_of(model))"
            )
        with transaction():
            group = self.groups[0]
            if group.schedule is not None:
                group.rate.value = group.lr(self.steps.raw)
            first = self._minimize(closure)
            self.steps.value = self.steps.raw + 1
        return first

    def _minimize(self, closure: Closure) -> Tensor:
        slots, options, lr = self._trained(), self.groups[0].options, self.groups[0].rate.raw
        first, grads = self._evaluated(closure, slots)
        loss, calls = float(first.item()), 1
        if _largest(grads) <= options["tolerance_grad"]:
            return first
        for i in range(options["max_iter"]):
            begin = slots[0].steps.raw == 0
            direction, slope = self._direction(slots, grads)
            length = min(1.0, 1.0 / sum(it.sum(it.abs(g)).item() for g in grads)) if begin else 1.0
            for slot, g in zip(slots, grads, strict=True):
                slot.moment("previous_grad").value = g
            advance([slot.steps for slot in slots])
            if slope > -options["tolerance_change"]:
                break
            before, start = loss, [slot.value for slot in slots]
            line = _Line(self, closure, slots, start, direction)
            found = Point(length * lr, loss, slope, grads)
            if options["line_search_fn"]:
                shortest = options["tolerance_change"] / _largest(direction)
                origin = found._replace(t=0.0)
                found = strong_wolfe(line.at, origin, found.t, shortest)
            elif i + 1 < options["max_iter"]:
                found = line.at(found.t)
            calls += line.calls
            line.move(found.t)
            for slot, d in zip(slots, direction, strict=True):
                slot.moment("last_step").value = d * found.t
            loss, grads = found.loss, found.grads
            change = max(abs(loss - before), 0.0 if line.calls else math.inf)
            if (
                calls >= options["max_eval"]
                or _largest(grads) <= options["tolerance_grad"]
                or _largest(direction) * found.t <= options["tolerance_change"]
                or change < options["tolerance_change"]
            ):
                break
        return first

    def _trained(self) -> list[Slot]:
        slots = [s for s in self.groups[0].slots if s.parameter.requires_grad]
        if not slots:
            raise ArgumentError("LBFGS.step: all parameters are frozen")
        return slots

    def _evaluated(self, closure: Closure, slots: Sequence[Slot]) -> tuple[Tensor, list[Tensor]]:
        found = closure()
        loss, grads = found if isinstance(found, tuple) else (found, None)
        if grads is None:
            grads = loss.backward()
        zeros = (it.zeros_like(slot.value) for slot in slots)
        return loss.detach(), [
            slot.fitting(grads[slot.parameter].detach()) if slot.parameter in grads else zero
            for slot, zero in zip(slots, zeros, strict=True)
        ]

    def _direction(self, slots: list[Slot], grads: list[Tensor]) -> tuple[list[Tensor], float]:
        """Minus the inverse curvature times the gradient, and the slope of the loss along it."""
        count = self.groups[0].options["history_size"]
        if slots[0].steps.raw:
            self._remember(slots, grads)
        rows, products = [], np.zeros((2 * count + 1, 2 * count + 1))
        for slot, g in zip(slots, grads, strict=True):
            shape = (count, *g.shape)
            held = [slot.moment(name, shape).raw for name in ("steps_made", "changes")]
            flat = [it.reshape(h, (count, g.size)) for h in held]
            rows.append(it.concat([*flat, it.reshape(g, (1, g.size))], axis=0))
            products += (rows[-1] @ rows[-1].mT).numpy()
        weights = two_loops(products)
        direction = [
            it.reshape(it.asarray(weights[None], dtype=r.dtype, device=r.device) @ r, g.shape)
            for r, g in zip(rows, grads, strict=True)
        ]
        return direction, float(weights @ products[-1])

    def _remember(self, slots: list[Slot], grads: list[Tensor]) -> None:
        """Keeps the last step and the change of the gradient, if the loss curves upwards."""
        count = self.groups[0].options["history_size"]
        changes = [
            g - slot.moment("previous_grad").raw for slot, g in zip(slots, grads, strict=True)
        ]
        made = [slot.moment("last_step").raw for slot in slots]
        curved = sum(it.sum(s * y).item() for s, y in zip(made, changes, strict=True))
        if curved <= 1e-10:
            return
        for slot, s, y in zip(slots, made, changes, strict=True):
            for name, new in (("steps_made", s), ("changes", y)):
                held = slot.moment(name, (count, *s.shape))
                held.value = it.concat([held.raw[1:], new[None]], axis=0)


class _Line:
    """The loss along a direction, and how often it was asked for."""

    def __init__(
        self, optimizer: LBFGS, closure: Closure, slots: list[Slot], start: list[Tensor],
        direction: list[Tensor],
    ) -> None:  # fmt: skip
        self.optimizer, self.closure, self.slots = optimizer, closure, slots
        self.start, self.direction, self.calls = start, direction, 0

    def move(self, t: float) -> None:
        for slot, x, d in zip(self.slots, self.start, self.direction, strict=True):
            slot.value = x + d * t

    def at(self, t: float) -> Point:
        self.move(t)
        self.calls += 1
        loss, grads = self.optimizer._evaluated(self.closure, self.slots)
        slope = sum(it.sum(g * d).item() for g, d in zip(grads, self.direction, strict=True))
        return Point(t, float(loss.item()), float(slope), grads)


def _largest(tensors: Sequence[Tensor]) -> float:
    return max((it.max(it.abs(x)).item() for x in tensors if x.size), default=0.0)


def two_loops(products: np.ndarray) -> np.ndarray:
    """Weights of the direction; Nocedal and Wright, algorithm 7.4, on products alone.

    Args:
        products: of m steps, m changes of gradients and the gradient, with each other. A step that
            is zero does not count.

    >>> import numpy as np
    >>> from ingle.optim.lbfgs import two_loops
    >>> two_loops(np.eye(3)).tolist()
    [0.0, 0.0, -1.0]
    """
    count = len(products) // 2
    curved = np.diagonal(products[:count, count : 2 * count])
    kept = [i for i in range(count) if curved[i] > 0.0]
    weights, alphas = np.zeros(len(products)), np.zeros(count)
    weights[-1] = -1.0
    for i in reversed(kept):
        alphas[i] = weights @ products[i] / curved[i]
        weights[count + i] -= alphas[i]
    if kept:
        last = kept[-1]
        weights *= curved[last] / products[count + last, count + last]
    for i in kept:
        weights[i] += alphas[i] - weights @ products[count + i] / curved[i]
    return weights


def strong_wolfe(
    at: Callable[[float], Point], origin: Point, t: float, shortest: float,
    decrease: float = 1e-4, curvature: float = 0.9, most: int = 25,
) -> Point:  # fmt: skip
    """A point where the loss has fallen enough and is flat enough; Nocedal and Wright, 3.5, 3.6.

    The points are PyTorch's, where losses are numbers: which rule ends the first part when, and how
    far from the ends of an interval the next point is. A loss that is NaN is too high.

    Args:
        at: the point at a distance.
        origin: the point at 0.
        t: the first distance.
        shortest: an interval that is shorter is not searched.
        decrease, curvature: how much of the first slope the loss must fall by, and may be left.
        most: how many points may be asked for behind the first.
    """

    def high(p: Point) -> bool:
        return not p.loss <= origin.loss + decrease * p.t * origin.slope

    def flat(p: Point) -> bool:
        return abs(p.slope) <= -curvature * origin.slope

    before, now = origin, at(t)
    for asked in range(most):
        if high(now) or (asked > 1 and now.loss >= before.loss):
            break
        if flat(now):
            return now
        if now.slope >= 0.0:
            break
        reach = now.t + 0.01 * (now.t - before.t), 10.0 * now.t
        before, now = now, at(_cubic(before, now, reach))
    else:
        before, asked = origin, most
    return _zoomed(at, high, flat, [before, now], shortest, most - asked)


def _zoomed(
    at: Callable[[float], Point], high: Callable[[Point], bool], flat: Callable[[Point], bool],
    ends: list[Point], shortest: float, most: int,
) -> Point:  # fmt: skip
    """The point of an interval that `strong_wolfe` looks for, or the lowest that it has found."""
    low, near = _lower(ends), False
    for _ in range(most):
        least, largest = sorted(end.t for end in ends)
        if largest - least < shortest:
            break
        t, edge = _cubic(ends[0], ends[1], (least, largest)), 0.1 * (largest - least)
        close = min(largest - t, t - least) < edge
        if close and (near or t >= largest or t <= least):
            # A second point this close to an end would leave most of the interval.
            t = largest - edge if abs(t - largest) < abs(t - least) else least + edge
            close = False
        near, now = close, at(t)
        if high(now) or now.loss >= ends[low].loss:
            ends[1 - low] = now
            low = _lower(ends)
            continue
        if flat(now):
            return now
        if now.slope * (ends[1 - low].t - ends[low].t) >= 0.0:
            ends[1 - low] = ends[low]
        ends[low] = now
    return ends[low]


def _lower(ends: Sequence[Point]) -> int:
    return 1 if ends[1].loss < ends[0].loss or math.isnan(ends[0].loss) else 0


def _cubic(a: Point, b: Point, reach: tuple[float, float]) -> float:
    """Where the cubic through two points with their slopes is least, within reach; the middle of
    that if nowhere."""
    middle = (reach[0] + reach[1]) / 2.0
    if a.t == b.t:
        return middle
    d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0.0:
        return middle
    d2 = math.copysign(math.sqrt(square), b.t - a.t)
    below = b.slope - a.slope + 2.0 * d2
    if below == 0.0:
        return middle
    return min(max(b.t - (b.t - a.t) * (b.slope + d2 - d1) / below, reach[0]), reach[1])
