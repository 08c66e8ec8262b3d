"""Shapes that nobody thought of: broadcasting, reductions and layouts against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import ingle.tensor as it
from ingle.tensor.errors import ShapeError

BOUNDED = settings(max_examples=40, deadline=None, derandomize=True)
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
FLOATS = st.floats(-100, 100, width=32)
WHOLE = st.integers(-50, 50)

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "less": np.less,
    "equal": np.equal,
}
UNARY = {"negative": np.negative, "abs": np.abs, "square": np.square, "floor": np.floor}
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


@st.composite
def broadcasting(draw):
    """Two arrays of one dtype whose shapes broadcast."""
    shapes = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=5))
    dtype, elements = draw(st.sampled_from([(np.float32, FLOATS), (np.int32, WHOLE)]))
    return [draw(npst.arrays(dtype, s, elements=elements)) for s in shapes.input_shapes]


@st.composite
def reduced(draw, min_side=0):
    """An array, the axes to reduce and `keepdims`."""
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=min_side, max_side=5))
    x = draw(npst.arrays(np.int64, shape, elements=st.integers(-3, 3)))
    axes = st.sets(st.integers(-x.ndim, x.ndim - 1)) if x.ndim else st.just(set())
    chosen = draw(st.one_of(st.none(), axes))
    axis = None if chosen is None else tuple({a % x.ndim: a for a in chosen}.values())
    return x, axis, draw(st.booleans())


@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts_as_numpy_does(name):
    @BOUNDED
    @given(broadcasting())
    def check(arrays):
        a, b = arrays
        got = getattr(it, name)(it.asarray(a), it.asarray(b)).numpy()
        want = BINARY[name](a, b)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)

    check()


@pytest.mark.parametrize("name", UNARY)
def test_unary_keeps_every_shape(name):
    @BOUNDED
    @given(npst.arrays(np.float32, SHAPES, elements=FLOATS))
    def check(a):
        np.testing.assert_array_equal(getattr(it, name)(it.asarray(a)).numpy(), UNARY[name](a))

    check()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_any_axes(name):
    @BOUNDED
    @given(reduced(min_side=1 if name in ("max", "min") else 0))
    def check(drawn):
        x, axis, keepdims = drawn
        got = getattr(it, name)(it.asarray(x), axis=axis, keepdims=keepdims)
        want = np.asarray(REDUCTIONS[name](x, axis=axis, keepdims=keepdims))
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)

    check()


@pytest.mark.slow
@BOUNDED
@given(broadcasting())
def test_a_binary_gradient_has_the_shape_of_its_input(arrays):
    a, b = (x.astype(np.float64) for x in arrays)
    x, y = it.asarray(a).require_grad(), it.asarray(b).require_grad()
    product = x * y
    grads = product.sum().backward()
    for of, value, other in ((x, a, b), (y, b, a)):
        spread = np.broadcast_to(other, product.shape)
        extra = tuple(range(product.ndim - value.ndim))
        kept = np.sum(spread, axis=extra)
        ones = tuple(i for i, n in enumerate(value.shape) if n == 1)
        np.testing.assert_allclose(
            grads[of].numpy(), np.sum(kept, axis=ones, keepdims=True).reshape(value.shape)
        )


@BOUNDED
@given(st.data(), npst.arrays(np.int32, SHAPES, elements=WHOLE))
def test_permuting_and_reshaping_as_numpy_does(data, a):
    axes = data.draw(st.permutations(range(a.ndim)))
    x = it.permute_dims(it.asarray(a), axes)
    np.testing.assert_array_equal(x.numpy(), a.transpose(axes))
    np.testing.assert_array_equal(it.reshape(x, (a.size,)).numpy(), a.transpose(axes).ravel())


@BOUNDED
@given(SHAPES, SHAPES)
def test_shapes_broadcast_where_numpy_broadcasts_them(a, b):
    x, y = it.zeros(a), it.zeros(b)
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            x + y
    else:
        assert (x + y).shape == want
