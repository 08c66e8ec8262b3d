"""Llama 2 and 3 and Qwen2 beside transformers: the same scores, gradients and tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import llama
from models.generation import Choice, generate
from models.llama import Llama, Sizes, rescaled
from models.qwen2 import Qwen2
from models.writing import main, quantized

import ingle.nn as nn
import ingle.tensor as it
from ingle.importer import UnsupportedError

PROMPTS = [[5, 17, 80, 33, 2, 9], [41, 7], [60, 61, 62, 3]]
SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1,
    "initializer_range": 0.4,
}  # fmt: skip
SCALED = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 5e3,
}  # fmt: skip
KINDS = {
    "llama2": {},
    "llama3": {"num_key_value_heads": 2, "rope_parameters": SCALED},
    "llama3.2": {"num_key_value_heads": 1, "tie_word_embeddings": True, "head_dim": 16},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
    "qwen2": {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 1e6}},
    "qwen2.5": {"num_key_value_heads": 2, "tie_word_embeddings": True},
}


@pytest.fixture(params=KINDS)
def both(request: Any, hf: Any, saved: Any) -> Any:
    qwen = request.param.startswith("qwen")
    config = (hf.Qwen2Config if qwen else hf.LlamaConfig)(**SMALL, **KINDS[request.param])
    theirs = (hf.Qwen2ForCausalLM if qwen else hf.LlamaForCausalLM)(config).eval()
    for name, parameter in theirs.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            parameter.data.normal_(1.0 * name.endswith("norm.weight"), 0.3)
    # Both ways of publishing weights: one file, and shards with an index.
    folder = saved(theirs, max_shard_size="20KB" if request.param == "llama3" else "1GB")
    return (Qwen2 if qwen else Llama).from_pretrained(folder), theirs


@pytest.mark.slow
def test_scores_gradients_and_tokens(both: Any, agree: Any, generated: Any) -> None:
    import torch

    ours, theirs = both
    tokens = np.random.default_rng(0).integers(0, 97, (2, 24))
    agree(ours, theirs, ours(it.asarray(tokens)), theirs(torch.tensor(tokens)).logits)
    found = generate(ours, PROMPTS, Choice(16, end=(1,)))
    want = generated(theirs, PROMPTS, max_new_tokens=16)
    assert [[t for t in row if t > 1] for row in found] == want


@pytest.fixture(scope="module")
def model() -> Llama:
    it.random.seed(0)
    return Llama(Sizes(64, 48, 64, 2, 4, 2, 16, 96)).eval()


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_quantized_weights(model: Llama, weights: str) -> None:
    tokens = it.asarray(np.random.default_rng(1).integers(0, 64, (2, 10)))
    want, size = model(tokens).numpy(), nn.footprint(model)
    small = Llama(model.sizes).eval()
    small.load_state_dict(model.state_dict())
    quantized(small, weights)
    found = small(tokens).numpy()
    error = np.abs(found - want).max() / np.abs(want).max()
    assert error <= {"int8": 0.03, "int4": 0.3}[weights]
    assert nn.footprint(small) <= size * {"int8": 0.35, "int4": 0.25}[weights]
    tokens = generate(small, [[1, 2, 3], [4]], Choice(8))
    # Step by step with a cache as in one pass without.
    scores = small(it.asarray(np.array([[1, 2, 3, *tokens[0]]]))).numpy()
    assert scores[0, 2:-1].argmax(-1).tolist() == tokens[0]


def test_scaled_positions() -> None:
    plain = 100.0 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(rescaled(plain, {"type": "linear", "factor": 4.0}, 8), plain / 4)
    scaling = {**SCALED, "original_max_position_embeddings": 40}
    found = rescaled(plain, scaling, 8)
    waves = 2 * np.pi / plain
    assert (waves < 10)[:1].all()
    assert (waves > 40)[2:].all()
    np.testing.assert_allclose(found[:1], plain[:1])
    np.testing.assert_allclose(found[2:], plain[2:] / 8)
    smooth = (40 / waves[1] - 1) / 3
    np.testing.assert_allclose(found[1], (1 - smooth) * plain[1] / 8 + smooth * plain[1])
    with pytest.raises(UnsupportedError, match="scaled by 'yarn'"):
        rescaled(plain, {"rope_type": "yarn", "factor": 2.0}, 8)


def test_settings_of_older_files() -> None:
    """Positions had two settings of their own, and the kind of scaling another name."""
    scaled = {k: v for k, v in SCALED.items() if k != "rope_theta"}
    older = {"rope_theta": 5e3, "rope_scaling": {**scaled, "type": scaled.pop("rope_type")}}
    sizes = [
        Llama.from_config({**SMALL, **rope}).model.rotary.frequencies
        for rope in (older, {"rope_parameters": SCALED})
    ]
    assert sizes[0] == sizes[1]
    plain = Llama.from_config({**SMALL, "rope_scaling": None}).model.rotary.frequencies
    np.testing.assert_allclose(plain, 10_000.0 ** (-np.arange(4) / 4))
    with pytest.raises(UnsupportedError, match="attention_bias=True"):
        Llama.from_config({**SMALL, "attention_bias": True})


@pytest.mark.slow
def test_the_command(hf: Any, saved: Any, tokenizer: Any, capsys: Any) -> None:
    theirs = hf.LlamaForCausalLM(
        hf.LlamaConfig(**{**SMALL, "vocab_size": 300, "eos_token_id": 299})
    ).eval()
    folder = saved(theirs)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = {}
    for options in ([], ["--quantize", "int8"], ["--temperature", "1", "--seed", "1"]):
        given = ["--weights", str(folder), "--max-new-tokens", "8", *options, "the fox"]
        (texts["".join(options)],) = main(Llama, llama.__doc__, given)
        assert capsys.readouterr().out.startswith("the fox")
    assert len(texts[""]) > 4
    assert texts[""] != texts["--temperature1--seed1"]
