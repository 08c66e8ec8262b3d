"""Models that are on another device than the default one, without `it.device` around a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models.generation import Choice, generate
from models.gpt2 import GPT2
from models.llama import Llama, Sizes
from models.masking import padding_mask, positions
from models.unet import _Time

import ingle.nn as nn
import ingle.tensor as it

OTHER = "cpu" if it.default_device().name == "numpy" else "numpy"


def llama() -> Any:
    return Llama(Sizes(11, 24, 16, 2, 4, 2, 4, 24)).eval()


def gpt2() -> Any:
    return GPT2(11, 24, 16, 2, 4, 32).eval()


@pytest.mark.slow
@pytest.mark.parametrize("made", [llama, gpt2])
def test_a_model_writes_where_it_is(made: Any) -> None:
    """Prompts of several lengths, so that there are masks and positions; with beams, too."""
    model = made()
    prompts, wanted = [[1, 2, 3], [4]], []
    for beams in (1, 2):
        wanted.append(generate(model, prompts, Choice(6, beams=beams)))
    with it.device(OTHER):
        other = made()
    other.load_state_dict({k: v.numpy() for k, v in model.state_dict().items()})
    assert all(p.raw.device.name == OTHER for p in other.parameters())
    for beams, texts in zip((1, 2), wanted, strict=True):
        assert generate(other, prompts, Choice(6, beams=beams)) == texts


def test_masks_and_positions_are_on_the_device_of_the_tokens() -> None:
    first = it.asarray(np.array([0, 2], np.int32), device=OTHER)
    mask = padding_mask(3, 1, 6, first, first.device)
    assert mask is not None
    assert (mask.device, positions(3, 1, first, first.device).device) == (first.device,) * 2


def test_steps_of_noise_are_waves_where_they_are() -> None:
    with it.device(OTHER):
        time = _Time(8, 16)
    steps = it.asarray(np.array([3.0, 500.0], np.float32), device=OTHER)
    assert time(steps).device.name == OTHER


def test_packed_sequences_are_put_in_order_on_their_own_device() -> None:
    with it.device(OTHER):
        layer = nn.LSTM(3, 5)
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(n, 3)).astype(np.float32) for n in (2, 4, 3)]
    rows = [it.asarray(row, device=OTHER) for row in drawn]
    given = nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    first = [it.asarray(rng.normal(size=(1, 3, 5)).astype(np.float32), device=OTHER)] * 2
    _, (last, _) = layer(given, first)
    assert last.device.name == OTHER
    for n, row in enumerate(rows):
        alone = [state[:, n : n + 1] for state in first]
        _, (wanted, _) = layer(it.expand_dims(row, 1), alone)
        np.testing.assert_allclose(last[:, n].numpy(), wanted[:, 0].numpy(), rtol=1e-5, atol=1e-6)
