"""BERT beside transformers, and sentences as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import bert
from models.bert import Bert, SentenceEncoder, sentence_features

import ingle.tensor as it

SMALL = {
    "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 40, "initializer_range": 0.3,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


@pytest.mark.slow
def test_features_and_gradients(hf: Any, saved: Any, agree: Any) -> None:
    import torch

    theirs = hf.BertModel(hf.BertConfig(**SMALL)).eval()
    ours = Bert.from_pretrained(saved(theirs))
    rng = np.random.default_rng(0)
    tokens, kinds = rng.integers(0, 300, (3, 12)), rng.integers(0, 2, (3, 12))
    mask = np.arange(12) < np.array([[12], [5], [9]])
    other = theirs(
        torch.tensor(tokens), torch.tensor(mask), torch.tensor(kinds)
    )  # fmt: skip
    mine = ours(it.asarray(tokens), it.asarray(mask), it.asarray(kinds))
    np.testing.assert_allclose(
        ours.pooled(mine).numpy(), other.pooler_output.detach().numpy(), atol=1e-4
    )
    # What the padding becomes is nobody's concern.
    agree(
        ours, theirs, mine * it.asarray(mask[..., None].astype(np.float32)),
        other.last_hidden_state * torch.tensor(mask[..., None]),
    )  # fmt: skip


@pytest.mark.slow
def test_the_command(hf: Any, saved: Any, tokenizer: Any, capsys: Any) -> None:
    import torch

    theirs = hf.BertForMaskedLM(hf.BertConfig(**SMALL)).eval()
    folder = saved(hf.BertForPreTraining(theirs.config).eval())
    theirs = hf.BertModel.from_pretrained(folder).eval()
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = ["the fox", "the lazy dog runs", "again"]
    alike = bert.main(["--weights", str(folder), *texts])
    vectors = []
    for text in texts:
        features = theirs(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state
        mean = features[0].mean(0).detach().numpy()
        vectors.append(mean / np.linalg.norm(mean))
    np.testing.assert_allclose(alike, np.array(vectors) @ np.array(vectors).T, atol=1e-4)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("the fox")
    assert lines[0].split()[0] == "1.000"


@pytest.mark.slow
def test_padding_changes_nothing(tokenizer: Any) -> None:
    it.random.seed(0)
    model = Bert(300, 16, 2, 16, 1, 2, 32).eval()
    encode = SentenceEncoder(model, type(tokenizer).from_str(tokenizer.to_str()))
    texts = ["the fox runs", "dog", "the dog runs after the fox and again and again " * 4]
    together = encode(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encode([text])[0], vector, atol=1e-5)
    tokens = it.asarray(np.array([[3, 4, 5, 9]]))
    mask = it.asarray(np.array([[True, True, True, False]]))
    np.testing.assert_allclose(
        sentence_features(model, tokens, mask).numpy(),
        sentence_features(model, tokens[:, :3], mask[:, :3]).numpy(), atol=1e-5,
    )  # fmt: skip


def test_names_of_older_files() -> None:
    names = {
        "bert.embeddings.LayerNorm.gamma": "embeddings.LayerNorm.weight",
        "bert.encoder.layer.0.output.LayerNorm.beta": "encoder.layer.0.output.LayerNorm.bias",
        "cls.predictions.bias": None,
        "embeddings.position_ids": None,
    }
    assert {old: Bert.rename(old) for old in names} == names
    known = Bert(9, 8, 2, 8, 1, 2, 8).state_dict()
    assert {new for new in names.values() if new} <= set(known)
