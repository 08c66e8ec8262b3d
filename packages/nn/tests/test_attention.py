"""Attention and transformers against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, DTypeError, IngleError, ShapeError

torch = pytest.importorskip("torch")

Q, KV = (4, 2, 6), (3, 2, 6)
AHEAD = np.triu(np.ones((4, 3), bool), 1)
PADDED = np.asarray([[False, False, True], [False, True, True]])
BIAS = np.random.default_rng(0).normal(size=(4, 4, 3))

ATTENTION: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any]]] = {
    "plain": ({}, [Q, KV, KV], {}),
    "without bias": ({"bias": False}, [Q, KV, KV], {"average_attn_weights": False}),
    "batch first": ({"batch_first": True}, [(2, 4, 6), (2, 3, 6), (2, 3, 6)], {}),
    "one sequence": ({}, [(4, 6), (3, 6), (3, 6)], {"attn_mask": AHEAD}),
    "masked": ({}, [Q, KV, KV], {"attn_mask": AHEAD, "key_padding_mask": PADDED}),
    "biased": ({}, [Q, KV, KV], {"attn_mask": BIAS, "need_weights": False}),
    "more keys": (
        {"add_bias_kv": True, "add_zero_attn": True}, [Q, KV, KV], {"key_padding_mask": PADDED},
    ),
    "other sizes": ({"kdim": 5, "vdim": 3}, [Q, (3, 2, 5), (3, 2, 3)], {"need_weights": False}),
    "causal": (
        {}, [Q, Q, Q],
        {"attn_mask": np.triu(np.ones((4, 4), bool), 1), "is_causal": True, "need_weights": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ATTENTION)
def test_multihead_attention(parity: Any, case: str) -> None:
    options, inputs, call = ATTENTION[case]
    parity("MultiheadAttention", 6, 2, inputs=inputs, call=call, **options)


@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_of_bools_and_of_floats_hide_alike(need_weights: bool) -> None:
    """Bools stay bools, and become floats beside floats."""
    x = it.asarray(np.random.default_rng(0).standard_normal((2, 4, 6)), dtype="float32")
    attend = nn.MultiheadAttention(6, 2, batch_first=True, add_bias_kv=True)
    ahead, padded = np.triu(np.ones((4, 4), bool), 1), np.array([[False] * 4, [False, True] * 2])
    masks = [[m, np.where(m, np.float32(-np.inf), np.float32(0))] for m in (ahead, padded)]
    results = [
        attend(
            x, x, x, it.asarray(padding), need_weights=need_weights, attn_mask=it.asarray(mask)
        )[0].numpy()
        for mask in masks[0]
        for padding in masks[1]
    ]  # fmt: skip
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-6)


def test_causal_needs_no_mask() -> None:
    attend = nn.MultiheadAttention(6, 2)
    x = it.random.normal((4, 2, 6))
    want, _ = attend(x, x, x, attn_mask=it.asarray(np.triu(np.ones((4, 4), bool), 1)))
    np.testing.assert_allclose(
        attend(x, x, x, is_causal=True)[0].numpy(), want.numpy(), rtol=1e-5, atol=1e-6
    )


LAYER: list[dict[str, Any]] = [
    {"dropout": 0.0},
    {"dropout": 0.0, "norm_first": True, "activation": "gelu", "layer_norm_eps": 1e-3},
    {"dropout": 0.0, "batch_first": True, "bias": False},
]


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", LAYER)
def test_encoder_and_decoder_layers(parity: Any, options: dict[str, Any]) -> None:
    tgt = it.asarray(np.triu(np.ones((4, 4), bool), 1)).numpy()
    encoder, decoder = "TransformerEncoderLayer", "TransformerDecoderLayer"
    if options.get("batch_first"):
        parity(encoder, 6, 2, 8, inputs=[(2, 4, 6)], **options)
        parity(decoder, 6, 2, 8, inputs=[(2, 4, 6), (2, 3, 6)], **options)
        return
    parity(encoder, 6, 2, 8, inputs=[Q], call={"src_mask": tgt}, **options)
    masks = {"tgt_mask": tgt, "memory_mask": AHEAD, "memory_key_padding_mask": PADDED}
    parity(decoder, 6, 2, 8, inputs=[Q, KV], call=masks, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_a_whole_transformer(parity: Any) -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype="float64").numpy()
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(4).numpy()
    np.testing.assert_array_equal(mask, theirs)
    parity(
        "Transformer", 6, 2, 1, 2, 8, 0.0, inputs=[KV, Q],
        call={"tgt_mask": mask, "src_key_padding_mask": PADDED}, rtol=1e-8,
    )  # fmt: skip


def test_layers_are_copies_of_one() -> None:
    layer = nn.TransformerEncoderLayer(6, 2, 8)
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6))
    first, second = (block.linear1.weight for block in model.layers)
    assert first is not second
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert len(list(model.parameters())) == 2 * 12 + 2


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.MultiheadAttention(6, 4), ArgumentError, "embed_dim=6 must be divisible"),
        (lambda: nn.MultiheadAttention(6, 2, dropout=-1), ArgumentError, "dropout must be"),
        (lambda: nn.MultiheadAttention(6, 2)(*[it.ones((3, 2, 5))] * 3), ShapeError,
         "(length, batch, features) with 6, 6 and 6 features"),
        (lambda: nn.MultiheadAttention(6, 2)(it.ones(Q), *[it.ones((3, 3, 6))] * 2), ShapeError,
         "the same batch"),
        (lambda: nn.MultiheadAttention(6, 2)(*[it.ones(Q)] * 3, it.ones((4, 2))), ShapeError,
         "key_padding_mask must be (batch, sources), (2, 4), got (4, 2)"),
        (lambda: nn.MultiheadAttention(6, 2)(*[it.ones(Q)] * 3, attn_mask=it.ones((2, 2))),
         ShapeError, "attn_mask must be (4, 4) or (4, 4, 4)"),
        (lambda: nn.MultiheadAttention(6, 2)(*[it.ones(Q)] * 3, it.ones((2, 4), dtype="int64")),
         DTypeError, "key_padding_mask must be bools, where a true place is left out, or floats"),
        (lambda: nn.TransformerEncoderLayer(6, 2)(it.ones(Q), it.ones((4, 4), dtype="uint8")),
         DTypeError, "attn_mask must be bools"),
        (lambda: nn.GroupedQueryAttention(6, 2)(it.ones((1, 4, 6)), it.ones((4, 4), dtype="int64"),
         nn.KVCache(1, 2, 4, 3)), DTypeError, "mask must be bools, where a true place takes part"),
        (lambda: nn.TransformerEncoderLayer(6, 2, activation="swish"), ArgumentError, "'gelu'"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)
