"""Turns of a loop over a sequence are layers: passes over a few of them make what they make of
all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from unrolled_loops import CELLS, STEPS, WIDTH, parameters, sequence, unrolled

import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion.ir.layers import layers_of

from .layered_graphs import checked, recorded

Piece = Callable[[it.Tensor, int], it.Tensor]

PIECES: dict[str, Piece] = {
    "in order": lambda x, t: x[:, t],
    "from the end": lambda x, t: x[:, x.shape[1] - 1 - t],
    "counted from the end": lambda x, t: x[:, -1 - t],
    "windows": lambda x, t: it.mean(x[:, min(t, STEPS - 3) : min(t, STEPS - 3) + 3], axis=1),
}
TAKEN_TWICE: dict[str, Piece] = {
    "with the next one": lambda x, t: x[:, t] + x[:, min(t + 1, STEPS - 1)],
    "of both ends": lambda x, t: x[:, t] * x[:, STEPS - 1 - t],
}
IRREGULAR: dict[str, Piece] = {
    "one is another": lambda x, t: x[:, 3 if t == 12 else t],
    "in another order": lambda x, t: x[:, t * 7 % STEPS],
    "twice as far from the middle on": lambda x, t: x[:, t // 2 if t < 12 else t - 6],
    "across the front": lambda x, t: x[:, t - 12],
    "there and back": lambda x, t: x[:, min(t, STEPS - 1 - t)],
    "of three parts": lambda x, t: it.concat([x[:, :4], x[:, :16] * 2, x[:, :4]], axis=1)[:, t],
}


def given(steps: int = STEPS) -> list[it.Tensor]:
    with it.device("cpu"):
        return [it.asarray(a) for a in (sequence(steps), *parameters())]


def loss_of(cell: str, piece: Piece) -> Any:
    """The gradients of what the last turn makes, and of all that they make."""

    def loss(x: it.Tensor, *p: it.Tensor) -> it.Tensor:
        found = unrolled(cell, x, p, piece)
        every = sum([it.mean(h * h) for h in found], it.asarray(0.0))
        return every + it.sum(found[-1])

    return loss


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_turns(cell: str, piece: str) -> None:
    slopes = grad(loss_of(cell, PIECES[piece]), argnums=(1, 2, 3))
    decomposed, others = checked(*recorded(slopes, *given()))
    assert (decomposed, others) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("piece", TAKEN_TWICE)
@pytest.mark.parametrize("cell", CELLS)
def test_pieces_that_two_turns_take(cell: str, piece: str) -> None:
    """They are decomposed by turns; what two turns take is one piece then."""
    slopes = grad(loss_of(cell, TAKEN_TWICE[piece]), argnums=(1, 2, 3))
    decomposed, _ = checked(*recorded(slopes, *given()))
    assert decomposed


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*PIECES, *TAKEN_TWICE, *IRREGULAR])
def test_gradients_of_the_sequence(piece: str) -> None:
    """Pieces of all turns are put together: that is done with all of them."""
    slopes = grad(loss_of("gru", (PIECES | TAKEN_TWICE | IRREGULAR)[piece]), argnums=(0, 1))
    decomposed, _ = checked(*recorded(slopes, *given()))
    assert not decomposed


@pytest.mark.slow
@pytest.mark.parametrize("piece", IRREGULAR)
@pytest.mark.parametrize("cell", CELLS)
def test_pieces_that_begin_unevenly(cell: str, piece: str) -> None:
    slopes = grad(loss_of(cell, IRREGULAR[piece]), argnums=(1, 2, 3))
    checked(*recorded(slopes, *given()))


@pytest.mark.slow
def test_rows_of_an_embedding() -> None:
    def loss(table: it.Tensor, *p: it.Tensor) -> it.Tensor:
        rows = it.reshape(it.arange(3 * STEPS), (3, STEPS)) % 7
        state = (it.zeros((3, WIDTH)),)
        for t in range(STEPS):
            state = CELLS["gru"][0](it.take(table, rows[:, t], axis=0), state, p)
        return it.sum(state[0] * state[0])

    with it.device("cpu"):
        table = it.asarray(sequence(7)[0])
    checked(*recorded(grad(loss, argnums=(0, 1)), table, *given()[1:]))


@pytest.mark.slow
def test_a_result_that_turns_write_into() -> None:
    def written(x: it.Tensor, *p: it.Tensor) -> it.Tensor:
        y, state = it.zeros((3, STEPS, WIDTH)), (it.zeros((3, WIDTH)),)
        for t in range(STEPS):
            state = CELLS["gru"][0](x[:, t], state, p)
            y = y.at[:, t].set(state[0])
        return y

    decomposed, others = checked(*recorded(written, *given()))
    assert (decomposed, others) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("turns", [33, 40])
def test_turns_behind_those_that_go_on(turns: int) -> None:
    """They are as many and as alike, but take one piece: nothing is written again among them."""

    def loss(weight: it.Tensor, x: it.Tensor) -> it.Tensor:
        h = it.zeros((3, WIDTH))
        for t in range(turns):
            h = h + 0.3 * it.tanh(x[:, min(2 * t, 42)] @ weight) * it.exp(-h * h)
        return it.sum(h)

    x, weight, *_ = given(43)
    checked(*recorded(grad(loss), weight[:, :WIDTH], x))


@pytest.mark.slow
def test_turns_behind_others_that_take_one_piece_as_well() -> None:
    def loss(weight: it.Tensor, x: it.Tensor) -> it.Tensor:
        h = it.zeros((3, WIDTH))
        for t in range(48):
            h = h + 0.3 * it.tanh(x[:, 9 if t < 27 else 0] @ weight) * it.exp(-h * h)
        return it.sum(h)

    x, weight, *_ = given(43)
    checked(*recorded(grad(loss), weight[:, :WIDTH], x))


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "behind"), [(31, 20), (20, 31), (25, 28)])
@pytest.mark.parametrize("piece", [0, 3])
def test_turns_behind_others_with_another_number(turns: int, behind: int, piece: int) -> None:
    """What both take tells nothing, and none of what they make is returned."""

    def loss(x: it.Tensor) -> it.Tensor:
        h = x[:, 0]
        for t in range(turns + behind):
            h = it.tanh(h * (0.9 if t < turns else 1.3) + x[:, 0 if t < turns else piece])
        return it.sum(h * h)

    checked(*recorded(grad(loss), given(43)[0][:, :, 0]))
    checked(*recorded(lambda x: (loss(x), loss(-x)), given(43)[0][:, :, 0]))


def test_steps_are_part_of_layers() -> None:
    """A whole number for each operand that says where a piece begins; uneven ones are no layers."""
    _, _, graph, *_ = recorded(lambda x, *p: unrolled("rnn", x, p)[-1], *given())
    layers = layers_of(graph)
    assert layers is not None
    assert {*layers.steps.values()} == {1}
    assert layers.last - layers.first >= STEPS - 3
    shuffled = IRREGULAR["in another order"]
    _, _, graph, *_ = recorded(lambda x, *p: unrolled("rnn", x, p, shuffled)[-1], *given())
    assert layers_of(graph) is None
