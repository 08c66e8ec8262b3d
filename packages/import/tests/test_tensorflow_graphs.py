"""Graphs as exporters of TensorFlow and Keras write them, built by hand: against onnxruntime.

They keep pictures with their channels last between transposes, compute shapes in int32 by way of
casts, put loops of recurrent layers into `Loop` with sequences or gathered slices, and leave all
sizes open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import ingle.tensor as it
from ingle import importer, optim
from ingle.fusion import compile

ort = pytest.importorskip("onnxruntime")

NHWC = """
net (float[batch, height, width, 3] image) => (float[batch, classes] scores)
<float[4, 3, 3, 3] kernel, float[4] bias, float[4, 1, 3, 3] depthwise, float[4] scale,
 float[4] shift, float[4] mean, float[4] var, float[4, 5] dense,
 int64[8] pads = {0, 0, 0, 0, 0, 0, 1, 1}, int64[1] zero = {0}, int64[1] one = {1},
 int32 minus = {-1}, int64[1] axis0 = {0}> {
    t = Transpose <perm = [0, 3, 1, 2]> (image)
    padded = Pad (t, pads)
    c = Conv <strides = [2, 2], kernel_shape = [3, 3], auto_pad = "VALID"> (padded, kernel, bias)
    back = Transpose <perm = [0, 2, 3, 1]> (c)
    six = Constant <value_float = 6.0> ()
    none = Constant <value_float = 0.0> ()
    clipped = Clip (back, none, six)
    again = Transpose <perm = [0, 3, 1, 2]> (clipped)
    d = Conv <group = 4, auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [2, 2]>
        (again, depthwise)
    n = BatchNormalization <epsilon = 0.001> (d, scale, shift, mean, var)
    pooled = ReduceMean <keepdims = 1, axes = [2, 3]> (n)
    all = Shape (pooled)
    small = Cast <to = 6> (all)
    first = Slice (small, zero, one, axis0)
    rows = Squeeze (first, axis0)
    rows1 = Unsqueeze (rows, axis0)
    rest = Unsqueeze (minus, axis0)
    packed = Concat <axis = 0> (rows1, rest)
    wide = Cast <to = 7> (packed)
    flat = Reshape (pooled, wide)
    logits = MatMul (flat, dense)
    scores = Softmax (logits)
}"""

UPSAMPLING = """
net (float[batch, height, width, 2] image) => (float[batch, h, w, 2] out)
<int64[1] one = {1}, int64[1] three = {3}, int64[1] axis = {0}, int32[2] twice = {2, 2}> {
    all = Shape (image)
    sizes = Slice (all, one, three, axis)
    small = Cast <to = 6> (sizes)
    double = Mul (small, twice)
    wide = Cast <to = 7> (double)
    t = Transpose <perm = [0, 3, 1, 2]> (image)
    now = Shape (t)
    zero = Constant <value_ints = [0]> ()
    two = Constant <value_ints = [2]> ()
    front = Slice (now, zero, two, axis)
    target = Concat <axis = 0> (front, wide)
    r = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (t, , , target)
    out = Transpose <perm = [0, 2, 3, 1]> (r)
}"""

SLICES = """
net (float[batch, time, 3] x) => (float[batch, time, 4] y, float[batch, 4] last)
<float[3, 4] kernel, float[4, 4] recurrent, float[4] bias, int64[1] axis = {0},
 int64[1] begin = {1}, int64[1] end = {2}, bool go = {1}, int32 start = {0}, int32 step = {1}> {
    turned = Transpose <perm = [1, 0, 2]> (x)
    all = Shape (x)
    small = Cast <to = 6> (all)
    time1 = Slice (small, begin, end, axis)
    time = Squeeze (time1, axis)
    n = Cast <to = 7> (time)
    first = Constant <value_ints = [0]> ()
    batch = Slice (all, first, begin, axis)
    units = Constant <value_ints = [4]> ()
    shape = Concat <axis = 0> (batch, units)
    state = ConstantOfShape (shape)
    counter, h, outs = Loop (n, go, start, state) <
        body = while_body (int64 i, bool cond, int32 t, float[b, 4] s)
            => (bool cond_out, int32 t1, float[b, 4] s1, float[b, 4] out)
        {
            t1 = Add (t, step)
            cond_out = Less (t1, time)
            frame = Gather <axis = 0> (turned, t)
            w = MatMul (frame, kernel)
            r = MatMul (s, recurrent)
            sum = Add (w, r)
            moved = Add (sum, bias)
            s1 = Tanh (moved)
            out = Identity (s1)
        }
    >
    y = Transpose <perm = [1, 0, 2]> (outs)
    last = Identity (h)
}"""

FLOATS = """
net (float[batch, time, 3] x) => (float[time, batch, 3] out)
<float zero = {0.0}, float four = {4.0}, int64 most = {4}, int32 start = {0}> {
    t = Transpose <perm = [1, 0, 2]> (x)
    less = Less (zero, four)
    begin = And (less, less)
    sizes = Shape (x)
    at0 = Constant <value = int64[1] {0}> ()
    batch1 = Gather (sizes, at0)
    three = Constant <value = int64[1] {3}> ()
    size = Concat <axis = 0> (batch1, three)
    state = Expand (zero, size)
    count, last, out = Loop (most, begin, start, state) <body = step (
        int64 i, bool going, int32 place, float[batch, 3] h
    ) => (bool on, int32 next, float[batch, 3] new, float[batch, 3] kept) {
        slice = Gather (t, place)
        sum = Add (slice, h)
        new = Tanh (sum)
        kept = Identity (new)
        single = Constant <value = int32 {1}> ()
        next = Add (place, single)
        wide = Cast <to = 1> (next)
        end = Constant <value_float = 4.0> ()
        before = Less (wide, end)
        counted = Cast <to = 1> (i)
        within = Less (counted, end)
        on = And (before, within)
    }>
}"""

SEQUENCES = """
net (float[batch, time, 3] x) => (float[time, batch, 3] y)
<int64[1] axis = {0}, int64[1] begin = {1}, int64[1] end = {2}, bool go = {1}, float half = {0.5}> {
    turned = Transpose <perm = [1, 0, 2]> (x)
    all = Shape (x)
    time1 = Slice (all, begin, end, axis)
    n = Squeeze (time1, axis)
    empty = SequenceEmpty <dtype = 1> ()
    list = Loop (n, go, empty) <
        body = while_body (int64 i, bool cond, seq(float[b, 3]) before)
            => (bool cond_out, seq(float[b, 3]) after)
        {
            cond_out = Identity (cond)
            frame = Gather <axis = 0> (turned, i)
            scaled = Mul (frame, half)
            after = SequenceInsert (before, scaled)
        }
    >
    y = ConcatFromSequence <axis = 0, new_axis = 1> (list)
}"""

BRANCHES = """
net (float[batch, features] x, bool training) => (float[batch, features] y)
<float limit = {1.0}, float[1] scale = {0.25}> {
    size = ReduceMax <keepdims = 0> (x)
    large = Greater (size, limit)
    both = And (large, training)
    y = If (both) <
        then_branch = cond_true () => (float[b, f] a) {
            all = Shape (x)
            small = Cast <to = 6> (all)
            wide = Cast <to = 7> (small)
            m = Expand (scale, wide)
            a = Mul (x, m)
        },
        else_branch = cond_false () => (float[b, f] c) {
            rest = If (large) <
                then_branch = inner_true () => (float[b, f] p) { p = Neg (x) },
                else_branch = inner_false () => (float[b, f] q) { q = Identity (x) }
            >
            c = Identity (rest)
        }
    >
}"""

PADDING = """
net (float[batch, time, 2] x, int32[batch] lengths) => (float[batch, 2] mean)
<int64[1] axis = {1}, int32 zero = {0}, int32 one = {1}, int64[1] last = {2}> {
    all = Shape (x)
    small = Cast <to = 6> (all)
    at = Constant <value_int = 1> ()
    time = Gather <axis = 0> (small, at)
    steps = Range (zero, time, one)
    rows = Unsqueeze (lengths, axis)
    mask = Less (steps, rows)
    m = Cast <to = 1> (mask)
    column = Unsqueeze (m, last)
    kept = Mul (x, column)
    total = ReduceSum <keepdims = 0> (kept, axis)
    count = Cast <to = 1> (rows)
    mean = Div (total, count)
}"""

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


CASES: dict[str, tuple[str, list[list[np.ndarray]]]] = {
    "channels last": (NHWC, [[floats(2, 9, 8, 3)], [floats(1, 12, 7, 3)]]),
    "upsampling": (UPSAMPLING, [[floats(1, 3, 4, 2)], [floats(2, 5, 2, 2)]]),
    "a loop over slices": (SLICES, [[floats(2, 5, 3)], [floats(3, 1, 3)]]),
    "a loop that counts in floats": (FLOATS, [[floats(2, 4, 3)], [floats(1, 4, 3)]]),
    "a loop over sequences": (SEQUENCES, [[floats(2, 4, 3)]]),
    "branches": (BRANCHES, [[s * np.abs(floats(2, 3)), np.asarray(flag)]
                            for s in np.float32([9, -1]) for flag in (True, False)]),
    "lengths": (PADDING, [[floats(3, 4, 2), np.int32([1, 4, 2])],
                          [floats(1, 6, 2), np.int32([5])]]),
}  # fmt: skip


def model(text: str) -> onnx.ModelProto:
    """With random numbers for the weights that the text gives no values to."""
    made = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text)
    rng = np.random.default_rng(1)
    for port in made.graph.value_info:
        shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
        array = rng.uniform(0.1, 1, shape).astype(np.float32) - np.float32(0.5 * (len(shape) > 1))
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, port.name))
    made.graph.ClearField("value_info")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_gives_the_same(name: str) -> None:
    text, inputs = CASES[name]
    proto = model(text)
    session = ort.InferenceSession(proto.SerializeToString())
    loaded = importer.load_onnx(proto)
    compiled = compile(loaded)
    for given in inputs:
        names = [p.name for p in proto.graph.input]
        expected = session.run(None, dict(zip(names, given, strict=True)))
        for run in (loaded, compiled) if name != "a loop over sequences" else (loaded,):
            got: Any = run(*(it.asarray(x) for x in given))
            for a, b in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
                np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_model_with_its_channels_last_trains() -> None:
    net = importer.load_onnx(model(NHWC))
    assert {"kernel", "depthwise", "dense"} <= {n for n, _ in net.named_parameters()}
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    x, y = it.asarray(floats(8, 9, 9, 3)), it.asarray(np.arange(8) % 5)
    losses = []
    for _ in range(40):
        loss = it.nll_loss(it.log(net(x)), y)
        optimizer.step(loss.backward())
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
