"""Variations of samples find what samples miss, shrink, and print calls that one can paste."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.sample import Draw, Sample
from ingle.testkit import checks, properties
from ingle.testkit.cases import Case, cases, subjects
from ingle.testkit.layouts import LAYOUTS
from ingle.testkit.repro_source import call_text, tensor_text
from ingle.testkit.running import run_case
from ingle.testkit.variation import Variation, VariedDraw, varied

SUBJECTS = {subject.name: subject for subject in subjects()}


def doubled(number=0, **options):
    more = {"resized": lambda n: 2 * n, "reshaped": lambda s: s, "statics": False, "special": 0}
    return Variation(number=number, seed=1, **{**more, **options})


def test_equal_sizes_stay_equal():
    draw = VariedDraw(0, "float32", resized=lambda n: 10 * n, reshaped=lambda s: s)
    assert draw.array((3, 1, 5)).shape == (30, 1, 50)
    assert draw.array((5, 0, 3)).shape == (50, 0, 30)
    assert draw.integers((3,), 5).shape == (30,)
    x = draw.array((2, 3))
    assert draw.array(x.shape).shape == x.shape == (20, 30)
    assert not draw.asked


def test_sizes_that_a_room_asks_for_are_final():
    draw = VariedDraw(0, "float32", resized=lambda n: n - 2, reshaped=lambda s: (9, *s))
    assert draw.size(5) == 3
    assert draw.size(5, least=4) == 4
    assert draw.shape((5, 8)) == (3, 6)
    assert draw.array((5, 3)).shape == (5, 3)
    assert Draw(0).shape((5, 3), least=4) == (5, 3)


def test_a_sample_varies_with_its_statics():
    how = doubled(statics=True)
    case = varied(OPERATIONS["layer_norm"], "float32", how)
    assert case.arrays[0].shape == (34, 16)
    assert case.sample.args[1] == (16,)
    axes = varied(OPERATIONS["softmax"], "float32", doubled(1, reshaped=lambda s: (4, *s)))
    assert axes.arrays[0].shape == (4, 4, 34, 6)


def test_special_values_are_strewn():
    case = varied(OPERATIONS["exp"], "float32", doubled(4, special=50))
    assert not np.isfinite(case.arrays[0]).all()
    assert case.sample.gradient is False
    whole = varied(OPERATIONS["negative"], "int32", doubled(4, special=50))
    assert whole is not None


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4)])
def test_a_layout_keeps_the_values_and_can_be_pasted(name, shape):
    layout = LAYOUTS[name]
    array = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    array = array if layout.equal is None else layout.equal(array)
    np.testing.assert_array_equal(layout(array, "numpy").numpy(), array)
    text = tensor_text(array, "numpy", name)
    pasted = eval(text, {"it": it, "np": np})
    assert (pasted.shape, pasted.dtype.name) == (shape, "float32")
    np.testing.assert_array_equal(pasted.numpy(), array)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool", "int32"])
def test_a_call_can_be_pasted(dtype):
    case = list(cases(OPERATIONS["where"], dtype))[1]
    *setup, call = call_text(case, "numpy", ["permuted", "sliced", "plain"]).splitlines()
    space: dict = {}
    exec("\n".join(setup), space)
    got = eval(call, space)
    np.testing.assert_array_equal(got.numpy(), run_case(case, "numpy").results[0].numpy())


def test_special_values_and_modules_can_be_pasted():
    sample = Sample((np.asarray([[np.nan, np.inf]], np.float32),), {"keepdims": True, "ord": 1})
    case = Case(SUBJECTS["matrix_norm"], as_dtype("float32"), sample, "")
    assert call_text(case, "numpy").splitlines() == [
        "from math import inf, nan",
        "import ingle.tensor as it",
        "it.linalg.matrix_norm(it.asarray([[nan, inf]], dtype='float32', device='numpy'), "
        "keepdims=True, ord=1)",
    ]


def failure(name, where, dtypes=("float32",), examples=60):
    subject = SUBJECTS[name]
    with pytest.raises(AssertionError) as caught:
        properties.check(subject, where, dtypes, examples)
    return str(caught.value)


@pytest.mark.slow
def test_a_kernel_that_is_wrong_for_one_size_is_found_and_shrunk(make_device):
    # No sample of `negative` has an axis of 4 elements.
    where = make_device("wrong", negative=lambda op, x: x if x.shape[-1:] == (4,) else -x)
    message = failure("negative", where, examples=200)
    assert "differ" in message
    call = message.splitlines()[-1]
    assert call.startswith("it.negative(it.asarray([")
    assert call.count(",") <= 6, call


@pytest.mark.slow
def test_a_kernel_that_trusts_strides_is_found(make_device):
    where = make_device("wrong", negative=lambda op, x: -np.lib.stride_tricks.as_strided(
        x, strides=np.empty(x.shape, x.dtype).strides
    ) if x.size else -x)  # fmt: skip
    assert "differ" in failure("negative", where)


@pytest.mark.slow
def test_a_kernel_that_drops_nan_is_found(make_device):
    where = make_device("wrong", maximum=lambda op, a, b: np.fmax(a, b))
    assert "nan" in failure("maximum", where, examples=200)


@pytest.mark.slow
def test_a_raw_error_is_found(make_device):
    def refuse(op, x):
        if 0 in x.shape:
            raise ValueError("zero-size array")
        return np.exp(x)

    assert "ValueError: zero-size array" in failure("exp", make_device("wrong", exp=refuse))


@pytest.mark.slow
def test_functions_without_an_operation_vary_too(make_device):
    where = make_device("wrong", where=lambda op, c, a, b: np.where(c, a, b) + (a.ndim > 3))
    assert "differ" in failure("lerp", where, examples=200)


@pytest.mark.parametrize(
    ("name", "dtype"), [("svd", "float64"), ("eigh", "complex64"), ("qr", "float32")]
)
def test_a_view_compares_what_is_determined(name, dtype, make_device):
    """Singular vectors have any sign; what their sample's view makes of them has not."""

    def flipped(op, x):
        first, *rest = (np.array(a) for a in original(op, x))
        if name == "eigh":
            return first, -rest[0]
        rest[-1] = -rest[-1]
        return (-first, *rest)

    from ingle_numpy.backend import NumpyBackend

    original = NumpyBackend.kernels[name]
    where = make_device("flipped", **{name: flipped})
    viewed = [c for c in cases(OPERATIONS[name], dtype) if c.sample.view is not None]
    assert viewed
    for case in viewed:
        checks.check_forward(case, where)


def test_a_view_still_finds_wrong_values(make_device):
    def scaled(op, x):
        values, vectors = np.linalg.eigh(x)
        return values, vectors * np.float32(1.001)

    where = make_device("wrong", eigh=scaled)
    case = next(c for c in cases(OPERATIONS["eigh"], "float32") if c.sample.view is not None)
    with pytest.raises(AssertionError, match="result 1"):
        checks.check_forward(case, where)


def test_gradients_flow_through_a_view():
    case = next(c for c in cases(OPERATIONS["eigh"], "float64") if c.arrays[0].shape == (5, 5))
    assert case.sample.view is not None
    checks.check_first_order(case, "numpy")
