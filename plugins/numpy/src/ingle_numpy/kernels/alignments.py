"""The likelihood of a text over all of its alignments, and its gradient: see the room of ctc_loss.

One step of time after the other, for all sequences at once. In front of the labels lie two columns
of impossible ones, so that a shifted row is a view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ingle.tensor.operation import Op

from .classes import checked
from .elementwise import is_half
from .selecting import select

Array = np.ndarray[Any, Any]


class Lattice(NamedTuple):
    """Labels with blanks around them: (batch, labels) but for `steps`.

    Attributes:
        steps: (time, batch, labels), the logarithms of the labels' probabilities.
        places: their classes.
        skips: 0 where a label may follow the one before the last, else -inf.
        ends: 0 for the last label and the blank behind it, else -inf.
    """

    steps: Array
    places: Array
    skips: Array
    ends: Array


def _lattice(op: Op, log_probs: Array, targets: Array, counts: Array) -> Lattice:
    blank, (batch, longest) = op.attributes["blank"], targets.shape
    inside = np.arange(longest) < counts[:, np.newaxis]
    labels = np.where(inside, targets, blank)
    places = np.full((batch, 2 * longest + 1), blank)
    places[:, 1::2] = checked(op.operation.name, "targets", labels, log_probs.shape[2], "classes")
    wide = log_probs.astype(np.float32) if is_half(log_probs) else log_probs
    skips, ends = np.full((2, *places.shape), -np.inf, wide.dtype)
    follows = (places[:, 2:] != blank) & (places[:, 2:] != places[:, :-2])
    skips[:, 2:][follows] = 0
    last, position = 2 * counts[:, np.newaxis], np.arange(places.shape[1])
    ends[(position == last) | (position == last - 1)] = 0
    steps = np.take_along_axis(wide, places[np.newaxis], axis=2)
    return Lattice(steps, places, skips, ends)


def _alphas(lattice: Lattice, lengths: Array) -> Array:
    """For each time the ways to each label; behind a sequence's end those at its end."""
    steps = lattice.steps
    found = np.full((*steps.shape[:2], steps.shape[2] + 2), -np.inf, steps.dtype)
    found[0, :, 2:4] = steps[0, :, :2]
    for t in range(1, len(steps)):
        old = found[t - 1]
        ways = _log_sum(old[:, 2:], old[:, 1:-1], old[:, :-2] + lattice.skips)
        ways += steps[t]
        found[t, :, 2:] = np.where(lengths[:, np.newaxis] > t, ways, old[:, 2:])
    return found[:, :, 2:]


def _betas(lattice: Lattice, lengths: Array) -> Array:
    """For each time the ways on from each label, without its own step; none behind the end."""
    steps = lattice.steps
    found = np.full(steps.shape, -np.inf, steps.dtype)
    on = np.full((steps.shape[1], steps.shape[2] + 2), -np.inf, steps.dtype)
    skips = np.full(on.shape, -np.inf, steps.dtype)
    skips[:, :-2] = lattice.skips
    for t in range(len(steps) - 1, -1, -1):
        if t + 1 < len(steps):
            np.add(found[t + 1], steps[t + 1], out=on[:, :-2])
            found[t] = _log_sum(on[:, :-2], on[:, 1:-1], on[:, 2:] + skips[:, 2:])
        found[t] = np.where(lengths[:, np.newaxis] == t + 1, lattice.ends, found[t])
    return found


def _log_sum(a: Array, b: Array, c: Array) -> Any:
    """The logarithm of the sum of three exponentials."""
    top = np.maximum(np.maximum(a, b), c)
    top[np.isinf(top)] = 0
    total = np.exp(a - top)
    total += np.exp(b - top)
    total += np.exp(c - top)
    np.log(total, out=total)
    total += top
    return total


def _likelihood(alphas: Array, ends: Array) -> Array:
    last = alphas[-1] + ends
    top = last.max(axis=1, keepdims=True)
    top[np.isinf(top)] = 0
    return np.asarray(np.log(np.exp(last - top).sum(axis=1)) + top[:, 0])


def _loss(op: Op, log_probs: Array, targets: Array, lengths: Array, counts: Array) -> Array:
    lattice = _lattice(op, log_probs, targets, counts)
    loss = -_likelihood(_alphas(lattice, lengths), lattice.ends)
    if op.attributes["zero_infinity"]:
        loss[loss == np.inf] = 0
    return loss.astype(log_probs.dtype, copy=False)


def _gradient(
    op: Op, g: Array, log_probs: Array, targets: Array, lengths: Array, counts: Array
) -> Array:
    lattice = _lattice(op, log_probs, targets, counts)
    alphas = _alphas(lattice, lengths)
    total = _likelihood(alphas, lattice.ends)[:, np.newaxis]
    ways = alphas + _betas(lattice, lengths)
    ways -= np.where(total == -np.inf, 0, total)
    share = np.exp(ways, out=ways)
    share *= -g.astype(share.dtype)[:, np.newaxis]
    share = select(np.broadcast_to(total != -np.inf, share.shape), share, share.dtype.type(0))
    time, batch, classes = log_probs.shape
    rows = np.arange(time * batch).reshape(time, batch, 1) * classes
    out = np.zeros(time * batch * classes, share.dtype)
    np.add.at(out, (rows + lattice.places).reshape(-1), share.reshape(-1))
    return out.reshape(log_probs.shape).astype(log_probs.dtype, copy=False)


KERNELS: dict[str, Callable[..., Any]] = {"ctc_loss": _loss, "ctc_loss_gradient": _gradient}
