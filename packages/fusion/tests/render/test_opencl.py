"""OpenCL C for processors: which loops take whole vector registers."""

from __future__ import annotations

import pytest

from ingle.fusion.device.opencl import render, render_wide
from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Nest, Operand, map_nest


def negative(stored: str, computed: str, outer: int = 0) -> Nest:
    """-x, of values that are stored in one dtype and computed in another."""
    b = CodeBuilder()
    x = b.load(0, stored)
    if stored != computed:
        x = b.append("cast", computed, (x,))
    y = b.append("neg", computed, (x,))
    if stored != computed:
        y = b.append("cast", stored, (y,))
    code, (root,) = b.finish(y)
    return map_nest(outer, [Operand(stored), Operand(stored, True)], [], code, (1, root))


@pytest.mark.parametrize(
    ("stored", "computed", "widest"),
    [
        ("float32", "float32", 4), ("float64", "float64", 8), ("int8", "int8", 1),
        ("bfloat16", "float32", 4), ("float32", "float64", 8),
    ],
)  # fmt: skip
def test_long_loops_take_whole_registers_of_their_widest_dtype(
    stored: str, computed: str, widest: int
) -> None:
    wanted = f"vectorize_width(INGLE_VECTOR / {widest})"
    assert wanted in render(negative(stored, computed), "kernel")
    assert wanted in render(negative(stored, computed, outer=1)._replace(long_rows=True), "kernel")


def test_rows_that_may_be_short_leave_that_to_the_compiler() -> None:
    assert "INGLE_VECTOR" not in render(negative("float32", "float32", outer=1), "kernel")


def test_work_items_of_gpus_ask_for_rare_cases_themselves() -> None:
    """They are lanes of their own: what loops of processors leave out costs them nothing."""
    b = CodeBuilder()
    x = b.load(0, "float32")
    large = b.append("lt", "bool", (b.constant(4, "float32"), x))
    code, (root,) = b.finish(b.append("fallback", "float32", (x, large, x), "sin_far"))
    nest = map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
    assert "if (rare)" in render(nest, "kernel")
    assert "sin_far" in render_wide(nest, "kernel")
    assert "if (rare)" not in render_wide(nest, "kernel")
