"""Attention against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import DTypeError, ShapeError
from ingle.tensor.ops.neural.attention_dropout import attention_dropout_gradient
from ingle.tensor.ops.neural.attention_gradients import attention_gradient

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "scale"])
@pytest.mark.parametrize("lead", [(1,), (2, 3)])
@pytest.mark.usefixtures("road")
def test_like_pytorch(like_torch: Any, kind: str, lead: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.functional.scaled_dot_product_attention
    arrays = [RNG.standard_normal((*lead, n, d)) for n, d in ((4, 5), (6, 5), (6, 3))]
    seen = RNG.uniform(size=(4, 6)) > 0.4
    seen[:, 0] = True
    mask = {"bool": seen, "float": RNG.standard_normal((4, 6))}.get(kind)
    options: dict[str, Any] = {"is_causal": kind == "causal"}
    if kind == "scale":
        options["scale"] = 0.3

    def reference(q: Any, k: Any, v: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return theirs(q, k, v, None if mask is None else torch.tensor(mask), **options)

    like_torch(
        lambda q, k, v: it.scaled_dot_product_attention(
            q, k, v, None if mask is None else it.asarray(mask), **options
        ),
        reference,
        arrays,
        rtol=1e-7,
    )


@pytest.mark.usefixtures("road")
def test_the_gradient_of_a_mask(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (RNG.standard_normal((2, n, 3)) for n in (4, 5, 5))

    def theirs(mask: Any) -> Any:
        a, b, c = torch.tensor(q), torch.tensor(k), torch.tensor(v)
        return torch.softmax(a @ b.mT / 3**0.5 + mask, -1) @ c

    like_torch(
        lambda mask: it.scaled_dot_product_attention(
            it.asarray(q), it.asarray(k), it.asarray(v), mask
        ),
        theirs,
        [RNG.standard_normal((4, 5))],
        rtol=1e-7,
    )


@pytest.mark.usefixtures("road")
def test_keys_shared_by_a_batch(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    arrays = [RNG.standard_normal(s) for s in ((4, 3), (5, 3), (2, 5, 3))]
    like_torch(
        it.scaled_dot_product_attention,
        lambda q, k, v: torch.softmax(q @ k.mT / 3**0.5, -1) @ v,
        arrays,
        rtol=1e-7,
    )


@pytest.mark.usefixtures("road")
def test_a_query_that_sees_no_key_gets_zeros() -> None:
    x = it.ones((2, 3)).require_grad()
    mask = it.asarray([[True, True], [False, False]])
    out = it.scaled_dot_product_attention(x, x, x, mask)
    assert out.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    assert np.isfinite(out.sum().backward()[x].numpy()).all()


def test_bad_input() -> None:
    q, k, v = it.ones((4, 5)), it.ones((6, 5)), it.ones((6, 3))
    attention = it.scaled_dot_product_attention
    with pytest.raises(ShapeError, match=r"must be .* got"):
        attention(q, it.ones((6, 4)), v)
    with pytest.raises(ShapeError, match=r"must be .* got"):
        attention(q, k, it.ones((5, 3)))
    with pytest.raises(ShapeError, match="key needs at least 2 axes"):
        attention(q, it.ones(5), v)
    with pytest.raises(ShapeError, match="attn_mask"):
        attention(q, k, v, it.ones((3, 6)))
    with pytest.raises(DTypeError, match=r"attn_mask must be bools.* got int64; compare it first"):
        attention(q, k, v, it.ones((4, 6), dtype="int64"))
    with pytest.raises(DTypeError, match="must be floats"):
        attention(q.astype("int64"), k.astype("int64"), v.astype("int64"))


@pytest.mark.parametrize("mask", [False, True, -2.5])
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_mask_of_one_number_masks(mask, device):
    rng = np.random.default_rng(0)
    q, k, v = (
        it.asarray(rng.standard_normal((2, 20, 4)).astype(np.float32), device=device)
        for _ in range(3)
    )
    one = it.asarray(mask, device=device)
    whole = it.broadcast_to(one, (20, 20))
    found, wanted = (it.scaled_dot_product_attention(q, k, v, m).numpy() for m in (one, whole))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (3, 4), ()])
def test_gradients_are_of_what_attention_gives(shape: tuple[int, ...]) -> None:
    x = it.ones((2, 3, 4))
    with pytest.raises(ShapeError, match=r"attention_gradient: g must be float32\[2, 3, 4\]"):
        attention_gradient(it.ones(shape), x, x, x)
    with pytest.raises(
        ShapeError, match=r"attention_dropout_gradient: g must be float32\[2, 3, 4\]"
    ):
        attention_dropout_gradient(it.ones(shape), x, x, x, p=0.5, place=(1, 2))
