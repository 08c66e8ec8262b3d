"""GPT-2 beside transformers: the same scores, gradients and tokens from the same files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from models import gpt2
from models.generation import Choice, generate
from models.gpt2 import GPT2

import ingle.tensor as it
from ingle.importer import UnsupportedError

PROMPTS = [[5, 17, 80, 33, 2, 9], [41, 7], [60, 61, 62, 3]]


@pytest.fixture
def both(hf: Any, saved: Any) -> Any:
    config = hf.GPT2Config(
        vocab_size=97, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=1, initializer_range=0.4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    theirs = hf.GPT2LMHeadModel(config).eval()
    return GPT2.from_pretrained(saved(theirs)), theirs


@pytest.mark.slow
def test_scores_and_gradients(both: Any, agree: Any) -> None:
    import torch

    ours, theirs = both
    tokens = np.random.default_rng(0).integers(0, 97, (2, 12))
    agree(ours, theirs, ours(it.asarray(tokens)), theirs(torch.tensor(tokens)).logits)


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 4])
def test_tokens_of_prompts_of_different_lengths(both: Any, beams: int, generated: Any) -> None:
    ours, theirs = both
    found = generate(ours, PROMPTS, Choice(20, beams=beams, end=(1,)))
    want = generated(theirs, PROMPTS, max_new_tokens=20, num_beams=beams)
    assert [[t for t in row if t > 1] for row in found] == want


@pytest.mark.slow
def test_the_command(hf: Any, saved: Any, tokenizer: Any, capsys: Any) -> None:
    import torch

    config = hf.GPT2Config(
        vocab_size=300, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=0, initializer_range=0.4,
    )  # fmt: skip
    theirs = hf.GPT2LMHeadModel(config).eval()
    folder = saved(theirs)
    tokenizer.save(str(folder / "tokenizer.json"))
    (text,) = gpt2_main(["--weights", str(folder), "--max-new-tokens", "12", "the fox"])
    start = torch.tensor([tokenizer.encode("the fox").ids])
    want = theirs.generate(start, max_new_tokens=12, do_sample=False, pad_token_id=0)
    whole = tokenizer.decode(want[0].tolist())
    assert whole == "the fox" + text
    assert capsys.readouterr().out == whole + "\n"
    stopped = gpt2_main(
        ["--weights", str(folder), "--max-new-tokens", "12", "--stop", text[3:5], "the fox", "a"]
    )
    assert stopped[0] == text[: text.find(text[3:5])]


def gpt2_main(arguments: list[str]) -> list[str]:
    from models.writing import main

    return main(GPT2, gpt2.__doc__, arguments)


def test_names_of_the_first_checkpoint() -> None:
    """The published file has no prefix, and masks that are no weights."""
    model = GPT2(11, 8, 8, 1, 2)
    names = {GPT2.rename(n) for n in ("wte.weight", "h.0.attn.c_attn.bias", "ln_f.bias")}
    assert names <= set(model.state_dict())
    assert GPT2.rename("h.0.attn.bias") is None


def test_settings_that_are_not_there(tmp_path: Any) -> None:
    settings: dict[str, Any] = {"model_type": "gpt2", "activation_function": "relu"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(UnsupportedError, match="activation_function='relu', and there is only"):
        GPT2.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnsupportedError, match="of model_type 'bert', and this is 'gpt2'"):
        GPT2.from_pretrained(tmp_path)
