"""A product has the same bits alone, in a plan and in a compiled function.

Sums are taken in an order that depends on how operands lie, which is known in one way of a tensor
that exists, and in another of a view inside a plan.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor import Tensor
from ingle.testkit.bits import same_bits

Step = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]


def transposed(x: Tensor) -> Tensor:
    return it.matrix_transpose(x)


# What is done to an operand before the product; those that transpose are given it transposed.
STRAIGHT: dict[str, Step] = {
    "as it is": lambda x: x,
    "flip": lambda x: it.flip(x),
    "flip of rows": lambda x: it.flip(x, axis=-2),
    "flip along rows": lambda x: it.flip(x, axis=-1),
    "cast": lambda x: x.astype(it.float64).astype(x.dtype),
    "copy of a flip": lambda x: -it.flip(x),
    "every second": lambda x: it.repeat(x, 2, axis=-1)[..., ::2],
    "a part": lambda x: it.concat([x, x], axis=-1)[..., : x.shape[-1]],
    "twice": lambda x: transposed(transposed(x)),
    "reshaped": lambda x: it.reshape(it.reshape(x, (-1,)), x.shape),
}
TRANSPOSED: dict[str, Step] = {
    "transposed": transposed,
    "flip, transposed": lambda x: transposed(it.flip(x, axis=-1)),
    "transposed flip": lambda x: it.flip(transposed(x)),
    "cast, transposed": lambda x: transposed(x.astype(it.float64)).astype(x.dtype),
    "transposed copy": lambda x: transposed(x) + 0.0,
    "transposed part": lambda x: transposed(it.concat([x, x], axis=-1)[..., : x.shape[-1]]),
    "transposed, and unchanged": lambda x: transposed(x) * 1.0,
    "transposed, cast and back": lambda x: transposed(x).astype(it.float64).astype(x.dtype),
    "transposed, negated twice": lambda x: it.negative(it.negative(transposed(x))),
    "transposed, in pieces": lambda x: it.roll(transposed(x), 1, axis=-2),
    "transposed, joined along rows": lambda x: it.concat(
        [transposed(x)[..., :2], transposed(x)[..., 2:]], axis=-1
    ),
    "transposed, every second": lambda x: transposed(it.repeat(x, 2, axis=-1)[..., ::2]),
}
STEPS = STRAIGHT | TRANSPOSED
# What multiplies, and whether its second operand has its columns as rows.
PRODUCTS: dict[str, tuple[Product, bool]] = {
    "matmul": (lambda a, b: a @ b, False),
    "einsum": (lambda a, b: it.einsum("...mk,...kn->...mn", a, b), False),
    "linear": (lambda a, b: it.linear(a, b), True),
    "attention": (lambda a, b: it.scaled_dot_product_attention(a, b, b), True),
}
SHAPES = [
    (1, 1, 37), (1, 5, 40), (3, 1, 70), (2, 33, 65), (40, 1, 100), (5, 7, 130), (30, 26, 64),
]  # fmt: skip


def operand(draw: random.Random, shape: tuple[int, ...], step: str, dtype: Any) -> Tensor:
    made = shape if step in STRAIGHT else (*shape[:-2], shape[-1], shape[-2])
    values = np.random.default_rng(draw.getrandbits(32)).standard_normal(made)
    return it.asarray(values.astype(np.float32), device="cpu").astype(dtype)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(4))
def test_alone_in_a_plan_and_compiled(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        m, n, k = draw.choice(SHAPES)
        name = draw.choice([*PRODUCTS])
        product, by_rows = PRODUCTS[name]
        first, second = draw.choice([*STEPS]), draw.choice([*STEPS])
        lead = draw.choice([(), (), (2,)]) if name != "linear" else ()
        dtype = draw.choice([it.float32, it.float32, it.float64])
        a = operand(draw, (*lead, m, k), first, dtype)
        b = operand(draw, (*lead, n, k) if by_rows else (*lead, k, n), second, dtype)
        turns = draw.choice([True, False])

        def after(
            x: Tensor, y: Tensor, product: Product = product, turns: bool = turns
        ) -> Tensor:  # fmt: skip
            out = product(x, y)
            return (transposed(out) if turns else out) + 1

        def whole(
            a: Tensor, b: Tensor, first: Step = STEPS[first], second: Step = STEPS[second],
            after: Product = after,
        ) -> Tensor:  # fmt: skip
            return after(first(a), second(b))

        expected = whole(a, b).numpy()
        x, y = STEPS[first](a), STEPS[second](b)
        x.numpy(), y.numpy()  # They exist before the product is asked for.
        one = product(x, y)
        one.numpy()
        found = {
            "again": whole(a, b), "planned": whole(a, b),
            "one by one": (transposed(one) if turns else one) + 1,
            "of what exists": after(x, y), "again of it": after(x, y),
            "compiled": compile(whole)(a, b), "compiled on what exists": compile(after)(x, y),
        }  # fmt: skip
        for way, result in found.items():
            text = f"{name} of {first!r} and {second!r} {(*lead, m, n, k)} {dtype}: {way}"
            np.testing.assert_array_equal(result.numpy(), expected, text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 4, 5, 7, 9])
def test_a_column_beside_others_is_the_one_that_stands_alone(columns: int, dtype: str) -> None:
    rng = np.random.default_rng(columns)
    a, b = (rng.standard_normal((n, 37)).astype(dtype) for n in (6, columns))
    b[-1, 3] = np.nan  # in one column alone
    rows, others = it.asarray(a, device="cpu"), it.asarray(b, device="cpu")
    together = np.asarray(rows @ others.mT)
    expected = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(together, expected, rtol=1e-4, atol=1e-5)
    for column in range(columns):
        alone = np.asarray(rows @ others[column])
        assert same_bits(alone, np.ascontiguousarray(together[:, column]))
