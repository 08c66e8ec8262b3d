"""What the tests of models share: transformers' models as folders, a tokenizer, agreement."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import ingle.tensor as it

WORDS = (
    "the fox runs over the lazy dog and the dog runs after the fox, again and again. Ünter ßtraßen"
)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A byte-level tokenizer of 300 tokens, as those of GPT-2 and Llama 3 are."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"], show_progress=False,
    )  # fmt: skip
    made.train_from_iterator([WORDS] * 3, trainer)
    return made


@pytest.fixture
def hf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The transformers library, silent, with a fixed seed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield transformers


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    """A function that saves a model of transformers as it is published, and gives the folder."""

    def save(model: Any, **options: Any) -> Path:
        folder = tmp_path / "published"
        model.save_pretrained(folder, **options)
        return folder

    return save


@pytest.fixture
def agree() -> Callable[..., None]:
    """Compares outputs of a model, and gradients of a sum of them, with torch's."""

    def compare(
        ours: Any,
        theirs: Any,
        mine: it.Tensor,
        other: Any,
        tolerance: float = 1e-4,
        names: Callable[[str], str | None] | None = None,
    ) -> None:
        want = other.detach().numpy()
        assert np.abs(want).max() > 1e-2
        np.testing.assert_allclose(mine.numpy(), want, atol=tolerance, rtol=tolerance)
        # Random weights: the squares behind a norm have a sum that hardly changes.
        weights = np.random.default_rng(1).normal(size=want.shape).astype(want.dtype)
        gradients = it.sum(mine * it.asarray(weights)).backward()
        (other * other.new_tensor(weights)).sum().backward()
        names = names or type(ours).rename
        turned = getattr(ours, "transpose", None) or "(?!)"
        wanted = {
            new: p.grad.numpy().T if re.search(turned, new) else p.grad.numpy()
            for name, p in theirs.named_parameters()
            if p.grad is not None and (new := names(name)) is not None
        }
        # Some are 0 but for rounding, as those of biases of keys: softmax does not see them.
        least = 1e-2 * max(np.abs(g).max() for g in wanted.values())
        compared = 0
        for name, parameter in ours.named_parameters():
            if name not in wanted:
                continue
            given, grad = wanted[name], gradients[parameter].numpy()
            scale = max(np.abs(given).max(), least)
            np.testing.assert_allclose(grad / scale, given / scale, atol=tolerance, err_msg=name)
            compared += 1
        assert compared == len(wanted)

    return compare


@pytest.fixture
def generated() -> Callable[..., list[list[int]]]:
    """What transformers goes on with, from a batch padded on the left; 0 and 1 are left out."""

    def go_on(theirs: Any, prompts: list[list[int]], **options: Any) -> list[list[int]]:
        import torch

        longest = max(map(len, prompts))
        tokens = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        found = theirs.generate(
            tokens, attention_mask=mask, do_sample=False, pad_token_id=0, eos_token_id=1, **options
        )
        return [[t for t in row if t > 1] for row in found[:, longest:].tolist()]

    return go_on
