"""A whole job on the device: cells, gradients by cell, and a net that learns."""

from __future__ import annotations

import numpy as np

import ingle.tensor as it
from ingle.tensor import Cell, Tensor, asarray, transaction
from ingle.tensor.sample import Draw

STEPS, RATE = 8, 0.05


def check_cells(where: str) -> None:
    """Writes are committed together or not at all; old values stay; gradients are kept by cell."""
    start = asarray(np.asarray([1.0, -2.0, 3.0], np.float32), device=where)
    cell = Cell(start, differentiable=True)
    other = Cell(start)
    try:
        with transaction():
            cell.value = start * 2.0
            other.value = start * 3.0
            raise InterruptedError
    except InterruptedError:
        pass
    assert cell.raw.tolist() == other.raw.tolist() == [1.0, -2.0, 3.0]
    with transaction():
        cell.value = start * 2.0
        assert cell.raw.tolist() == [2.0, -4.0, 6.0]
    assert cell.raw.tolist() == [2.0, -4.0, 6.0]
    assert start.tolist() == [1.0, -2.0, 3.0], "a value that somebody holds changed"
    grads = it.sum(cell * cell * other).backward()
    assert grads[cell].tolist() == [4.0, 16.0, 36.0]
    assert other not in grads


def check_training(where: str) -> None:
    """Eight steps of gradient descent on a two-layer net, against the same in float64."""
    draw = Draw(17)
    shapes = ((5, 8), (8,), (8, 3), (3,))
    start = [draw.array(s, low=-0.7, high=0.7) for s in shapes]
    x, y = draw.array((33, 5)), draw.array((33, 3))
    expected_losses, expected = by_hand([w.astype(np.float64) for w in start], x, y)

    cells = [Cell(asarray(w, device=where), differentiable=True) for w in start]
    inputs, targets = asarray(x, device=where), asarray(y, device=where)
    losses = []
    for _ in range(STEPS):
        loss = _loss(cells, inputs, targets)
        losses.append(loss.item())
        grads = loss.backward()
        with transaction():
            for cell in cells:
                cell.value = cell.raw - grads[cell] * RATE
    assert losses[-1] < losses[0], "the loss did not fall"
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    for cell, weights in zip(cells, expected, strict=True):
        np.testing.assert_allclose(cell.raw.numpy(), weights, rtol=1e-3, atol=1e-5)


def _loss(cells: list[Cell[Tensor]], x: Tensor, y: Tensor) -> Tensor:
    w1, b1, w2, b2 = cells
    hidden = x @ w1 + b1
    difference = (hidden * hidden) @ w2 + b2 - y
    return it.sum(difference * difference) / float(y.shape[0])


def by_hand(
    weights: list[np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[list[float], list[np.ndarray]]:
    """The same losses and weights, with the gradients written out in NumPy."""
    losses = []
    for _ in range(STEPS):
        w1, b1, w2, b2 = weights
        hidden = x @ w1 + b1
        difference = hidden**2 @ w2 + b2 - y
        losses.append(float(np.sum(difference**2)) / len(x))
        g = 2 * difference / len(x)
        g_hidden = (g @ w2.T) * 2 * hidden
        grads = [x.T @ g_hidden, g_hidden.sum(0), (hidden**2).T @ g, g.sum(0)]
        weights = [w - RATE * d for w, d in zip(weights, grads, strict=True)]
    return losses, weights
