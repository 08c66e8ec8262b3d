"""Kernels of the inverse normal integral have the bits of the operation's body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Operand, map_nest
from ingle.tensor.ops.random.normal import _inverse_normal


@pytest.mark.parametrize("permute", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_of_the_body(machine: Any, dtype: str, permute: bool) -> None:
    tails = 2.0 ** -np.arange(1, 120, 0.25)
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 20_001), tails, 1 - tails[30:90]])
    p = p.astype(dtype)
    p = p[p < 1]
    builder = CodeBuilder()
    code, (root,) = builder.finish(
        builder.append("inverse_normal", dtype, (builder.load(0, dtype),))
    )
    nest = map_nest(0, [Operand(dtype), Operand(dtype, True)], [], code, (1, root))
    target = machine.target._replace(permute=permute and machine.target.permute)
    out = np.empty_like(p)
    machine.kernel(nest, target)(p, out)
    body = _inverse_normal(it.asarray(p, device="numpy")).numpy()
    np.testing.assert_array_equal(out.view(np.uint8), body.view(np.uint8))
