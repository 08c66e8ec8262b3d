"""Convolutions, poolings and borders as ONNX's own operators."""

from __future__ import annotations

from typing import Any

from ingle.tensor.contract import Aval, Scalar

from .dynamic_sizes import fixed
from .rules import INT64, Call, rule

Pairs = tuple[tuple[int, int], ...]


def _pads(c: Call) -> list[int]:
    """What is added around images: first before, then behind."""
    pads: Pairs = fixed(c.statics["padding"], c.name, "the padding")
    return [low for low, _ in pads] + [high for _, high in pads]


@rule("conv")
def _conv(c: Call) -> str | None:
    pads = _pads(c)
    if min(pads, default=0) < 0:
        return None
    return c.w.node(
        "Conv", *c.inputs[:2], strides=list(c.statics["stride"]),
        dilations=list(c.statics["dilation"]), group=c.statics["groups"], pads=pads,
    )  # fmt: skip


@rule("conv_input_gradient")
def _transposed(c: Call) -> str | None:
    """What a stride leaves open is added behind."""
    g, weight, s = c.given[0], c.given[1], c.statics
    pads, rank = _pads(c), len(s["stride"])
    assert isinstance(g, Aval)
    assert isinstance(weight, Aval)
    if any(not isinstance(n, int) for n in (*s["size"], *c.shape_of(0)[2:], *c.shape_of(1))):
        return None
    more = [
        n + low + high - ((m - 1) * by + d * (k - 1) + 1)
        for n, low, high, m, by, d, k in zip(
            s["size"], pads[:rank], pads[rank:], g.shape[2:], s["stride"], s["dilation"],
            weight.shape[2:], strict=True,
        )
    ]  # fmt: skip
    if min(pads, default=0) < 0 or any(
        n >= max(by, d) for n, by, d in zip(more, s["stride"], s["dilation"], strict=True)
    ):
        return None
    return c.w.node(
        "ConvTranspose", *c.inputs, strides=list(s["stride"]), dilations=list(s["dilation"]),
        group=s["groups"], pads=pads, output_padding=more,
    )  # fmt: skip


@rule("max_pool")
def _max_pool(c: Call) -> str | None:
    found = _window(c, c.statics["dilation"])
    if found is None or c.dtype.kind != "f":
        return None
    return c.w.node("MaxPool", c.inputs[0], dilations=list(c.statics["dilation"]), **found)


@rule("avg_pool")
def _avg_pool(c: Call) -> str | None:
    """All of the padding counts, or none of it; anything between is written out."""
    found, counted = _window(c, None), c.statics["counted"]
    if found is None:
        return None
    whole = counted == c.statics["padding"]
    if not whole and any(n for pair in counted for n in pair):
        return None
    return c.w.node("AveragePool", c.inputs[0], count_include_pad=int(whole), **found)


def _window(c: Call, dilation: Any) -> dict[str, Any] | None:
    """A pooling's attributes; runtimes want borders that are narrower than the window."""
    kernel = fixed(c.statics["kernel"], c.name, "the window")
    stride = fixed(c.statics["stride"], c.name, "the stride")
    pads = _pads(c)
    if any(not 0 <= p < k for p, k in zip(pads, (*kernel, *kernel), strict=True)):
        return None
    fixed(dilation, c.name, "the dilation")
    return {"kernel_shape": list(kernel), "strides": list(stride), "pads": pads}


@rule("pad")
def _pad(c: Call) -> str:
    widths = c.w.shape([*c.statics["low"], *c.statics["high"]])
    value = c.inputs[1]
    if not isinstance(c.given[1], Scalar) and c.dtype_of(1) != c.dtype:
        value = c.w.cast(value, c.dtype)
    if c.dtype.kind == "b":  # Pad of bools is missing where the standard has it.
        wide = [c.w.cast(x, INT64) for x in (c.inputs[0], value)]
        return c.w.cast(c.w.node("Pad", wide[0], widths, wide[1]), c.dtype)
    return c.w.node("Pad", c.inputs[0], widths, value)
