"""Qwen2 and Qwen2.5; Yang et al.: Qwen2 technical report (2024).

`python -m models.qwen2 --weights FOLDER "Once upon a time"`, where FOLDER has the published
`config.json`, `model.safetensors` or its shards, and `tokenizer.json`.
"""

from __future__ import annotations

from .llama import Llama


class Qwen2(Llama):
    """Llama with biases of queries, keys and values."""

    kinds = ("qwen2",)
    biased = True


if __name__ == "__main__":
    from .writing import main

    main(Qwen2, __doc__)
