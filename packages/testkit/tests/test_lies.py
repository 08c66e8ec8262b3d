"""A backend of lies: one lie at a time, each of which the suite catches."""

from functools import partial

import numpy as np
import pytest

from ingle.tensor.eager import ArrayHandle
from ingle.tensor.operation import OPERATIONS, infer
from ingle.testkit import basics, checks, corners, huge, integers, traps
from ingle.testkit.cases import cases
from ingle.testkit.checks import Findings
from ingle_numpy.backend import NumpyBackend

KERNELS = NumpyBackend.kernels


def honest(op, *arrays):
    """What the reference's own kernel returns."""
    kernel = KERNELS.get(op.operation.name) or KERNELS[op.operation.traits.family]
    with np.errstate(all="ignore"):
        return kernel(op, *arrays)


class Sloppy(NumpyBackend):
    """Believes its kernels: a handle has the dtype of the rule, whatever the array has."""

    def wrap(self, op, result, inputs):
        results = result if isinstance(result, tuple) else (result,)
        return tuple(
            ArrayHandle(self, np.asarray(array), aval.dtype)
            for array, aval in zip(results, infer(op, inputs), strict=True)
        )


@pytest.fixture
def lying(make_device):
    """Makes a device whose kernels of some names or families go through a function of a lie."""

    def make(lie, *names, kind=NumpyBackend):
        return make_device("lying", kind=kind, **dict.fromkeys(names, lie))

    return make


def caught(check, where):
    with pytest.raises(AssertionError) as error:
        check(where)
    return str(error.value)


def forward(name, dtype="float32"):
    def check(where):
        findings = Findings(name)
        for case in cases(OPERATIONS[name], dtype):
            with findings.at(case.name):
                checks.check_forward(case, where)
        findings.close()

    return check


@pytest.mark.parametrize(
    ("name", "wrong", "dtype"),
    [("exp", np.float64, "float32"), ("argmax", np.int32, "float32"), ("add", np.int64, "int32")],
)
def test_a_wrong_dtype(lying, name, wrong, dtype):
    where = lying(lambda op, *a: honest(op, *a).astype(wrong), name, kind=Sloppy)
    told = caught(forward(name, dtype), where)
    assert f"the values have dtype {np.dtype(wrong)}" in told


@pytest.mark.parametrize("name", ["exp", "add", "sum", "matmul", "take", "concat"])
def test_results_of_a_shape_in_one_buffer(lying, name):
    buffers = {}

    def shared(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        out = buffers.setdefault((found.shape, found.dtype), np.empty_like(found))
        out[...] = found
        return out

    assert "share a buffer" in caught(
        partial(traps.check_results_are_apart, only=[name]), lying(shared, name)
    )


def clamped(op, *arrays):
    """Indices are moved into the axis, in silence."""
    x, indices, *rest = arrays
    size = x.shape[op.attributes["axis"]]
    return honest(op, x, np.clip(indices, -size, size - 1), *rest)


@pytest.mark.parametrize("name", ["take", "take_along_axis"])
def test_a_clamped_index(lying, name):
    told = caught(traps.check_indices, lying(clamped, name))
    assert f"{name} of 3 in 3" in told


@pytest.mark.parametrize("beyond", [1024, 4096])
@pytest.mark.parametrize(
    "name",
    [
        "exp", "add", "negative", "sum", "max", "where", "take", "astype", "argmax", "matmul",
        "conv", "scatter_add", "slice_update", "reshape", "argsort", "iota",
    ],
)  # fmt: skip
def test_wrong_beyond_some_size(lying, name, beyond):
    def short(op, *arrays):
        found = np.array(honest(op, *arrays), order="C")
        if max(found.size, *[np.size(a) for a in arrays]) > beyond:
            found.reshape(-1)[-1:] += 1
        return found

    assert "4099 elements" in caught(partial(traps.check_large, only=[name]), lying(short, name))


@pytest.mark.parametrize(
    ("dtype", "through"),
    [("int64", "float64"), ("int64", "float32"), ("int32", "float32"), ("uint32", "float32"),
     ("uint64", "float64"), ("int16", "float16")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["add", "multiply", "negative", "max", "take", "where", "concat"])
def test_integers_through_floats(lying, name, dtype, through):
    def rounded(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        return found.astype(through).astype(dtype) if found.dtype == dtype else found

    told = caught(partial(integers.check_integers, dtype=dtype), lying(rounded, name))
    assert dtype in told


@pytest.mark.parametrize(
    "name", ["floor_divide", "remainder", "less", "max", "min", "bitwise_right_shift", "abs"]
)
def test_unsigned_numbers_taken_for_signed(lying, name):
    def signed(op, *arrays):
        found = honest(op, *[
            a.view(f"i{a.itemsize}") if a.dtype.kind == "u" else a for a in arrays
        ])  # fmt: skip
        return found if found.dtype.kind == "b" else found.view(arrays[0].dtype)

    where = lying(signed, name)
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        assert f"  {name}" in caught(partial(integers.check_integers, dtype=dtype), where)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "sum"])
def test_integers_that_saturate(lying, name):
    def saturating(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        if found.dtype.kind not in "iu":
            return found
        wide = [np.asarray(a).astype(object) for a in arrays]
        if name == "sum":
            wide = [np.sum(wide[0], axis=op.attributes["axis"], keepdims=op.attributes["keepdims"])]
        exact = wide[0] if name == "sum" else getattr(np, name)(*wide)
        ends = np.iinfo(found.dtype)
        return np.asarray(np.clip(exact, ends.min, ends.max)).astype(found.dtype)

    told = caught(partial(integers.check_integers, dtype="uint64"), lying(saturating, name))
    assert f"  {name}: " in told


@pytest.mark.parametrize(
    "name",
    ["maximum", "sum", "prod", "matmul", "conv", "where", "abs", "floor", "exp", "sqrt", "add",
     "multiply", "sign", "take", "scatter_add", "max", "atan2"],
)  # fmt: skip
def test_swallowed_nan(lying, name):
    def deaf(op, *arrays):
        return honest(op, *[
            np.where(np.isnan(a), a.dtype.type(0), a) if np.asarray(a).dtype.kind == "f" else a
            for a in arrays
        ])  # fmt: skip

    check = partial(corners.check_special_values, OPERATIONS[name])
    assert "  NaN: " in caught(check, lying(deaf, name))


@pytest.mark.parametrize(
    ("name", "check"),
    [
        *[(n, partial(corners.check_few_elements, OPERATIONS[n])) for n in ("exp", "maximum")],
        *[(n, corners.check_calls_of_few) for n in ("reshape", "astype", "full", "sum")],
    ],
)
def test_wrong_without_an_axis(lying, name, check):
    def nothing(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        return found * found.dtype.type(0) if found.shape == () else found

    assert "no axes" in caught(check, lying(nothing, name))


@pytest.mark.parametrize(
    ("name", "check"),
    [
        *[(n, partial(corners.check_few_elements, OPERATIONS[n])) for n in ("exp", "add", "where")],
        *[(n, corners.check_calls_of_few) for n in ("sum", "take", "concat", "broadcast_to")],
        *[(n, corners.check_calls_of_few) for n in ("astype", "full", "matmul")],
    ],
)
def test_a_launch_of_nothing(lying, name, check):
    def launched(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        if not found.size or any(np.size(a) == 0 for a in arrays):
            raise RuntimeError("a grid of 0 blocks")
        return found

    assert "a grid of 0 blocks" in caught(check, lying(launched, name))


@pytest.mark.parametrize("name", ["sum", "matmul"])
def test_sums_in_another_order_each_time(lying, name):
    rng = np.random.default_rng(0)

    def shuffled(op, x, *rest):
        if x.dtype.kind == "f" and x.shape[-1:] > (100,):
            order = rng.permutation(x.shape[-1])
            x, rest = x[..., order], [y[..., order, :] for y in rest]
        return honest(op, x, *rest)

    assert "other bits" in caught(traps.check_repeats, lying(shuffled, name))


class Careless(NumpyBackend):
    """Writes in place without asking who else holds the memory."""

    def reuse(self, op, inputs, place, owner):
        (made,) = self.execute(op, inputs)
        target = inputs[place].array
        if not target.flags.writeable or made.shape != target.shape:
            return made
        target[...] = made.array
        return inputs[place]


@pytest.mark.parametrize("name", ["slice", "part", "reshape", "permute_dims"])
def test_writes_in_place_that_ask_nobody(make_device, name):
    told = caught(traps.check_writes_in_place, make_device("careless", kind=Careless))
    assert f"{name}: an assignment to the operand changed the other one" in told


@pytest.mark.parametrize("name", ["abs", "maximum", "floor", "take", "where", "multiply"])
def test_a_result_that_is_its_operand(make_device, name):
    def itself(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        alike = (a for a in arrays if np.shape(a) == found.shape and np.array_equal(a, found))
        return next((a for a in alike if a.dtype == found.dtype), found)

    where = make_device("careless", kind=Careless, **{name: itself})
    assert f"{name}: an assignment to" in caught(traps.check_writes_in_place, where)


@pytest.mark.parametrize(
    "name", ["negative", "sqrt", "multiply", "add", "ceil", "where", "concat", "take", "astype"]
)
def test_lost_signs_of_zeros(lying, name):
    def unsigned(op, *arrays):
        found = np.array(honest(op, *arrays))
        if found.dtype.kind == "f":
            found[found == 0] = 0.0
        return found

    assert "signs of zeros" in caught(traps.check_signed_zeros, lying(unsigned, name))


def cut_off(op, x):
    """bfloat16 by leaving bits out, and bool by way of integers."""
    found, wanted = honest(op, x), op.attributes["dtype"].name
    if x.dtype == np.float32 and wanted == "bfloat16":
        found = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(found.dtype)
    if x.dtype == np.float32 and wanted == "bool":
        found = np.nan_to_num(np.trunc(x)).astype(bool)
    return found


def test_casts_that_cut_off(lying):
    told = caught(traps.check_edges, lying(cut_off, "astype"))
    assert "float32 to bfloat16" in told
    assert "small float32 to bool" in told


def test_comparisons_of_unsigned_numbers_as_signed(lying):
    def signed(op, *arrays):
        kinds = {8: np.int8, 32: np.int32}
        return honest(op, *[
            a.view(kinds[8 * a.itemsize]) if np.asarray(a).dtype.kind == "u" else a for a in arrays
        ])  # fmt: skip

    told = caught(traps.check_edges, lying(signed, "less", "greater_equal"))
    assert "less of uint8" in told
    assert "greater_equal of uint32" in told


@pytest.mark.parametrize("name", ["less", "not_equal", "equal", "greater_equal"])
def test_comparisons_of_nan(lying, name):
    def otherwise(op, *arrays):
        nan = np.isnan(arrays[0]) | np.isnan(arrays[1])
        return np.where(nan, name != "not_equal", honest(op, *arrays))

    assert f"{name} of float32" in caught(traps.check_edges, lying(otherwise, name))


@pytest.mark.slow
def test_the_reference_tells_no_lies(make_device):
    where = make_device("honest")
    for check in (
        traps.check_results_are_apart, traps.check_writes_in_place, traps.check_repeats,
        traps.check_signed_zeros, traps.check_edges, traps.check_indices,
        corners.check_calls_of_few, *[partial(integers.check_integers, dtype=d) for d in
                                      integers.NUMBERS],
    ):  # fmt: skip
        check(where)


@pytest.mark.slow
def test_the_reference_takes_special_values_and_few_elements(make_device):
    where, count = make_device("honest"), 0
    for operation in list(OPERATIONS.values()):
        if operation.public and operation.samples and operation.reference:
            if corners.takes_special_values(operation):
                corners.check_special_values(operation, where)
                count += 1
            if corners.native(operation):
                corners.check_few_elements(operation, where)
    assert count > 100


@pytest.mark.parametrize("name", ["take", "argmax"])
def test_places_of_few_bits(lying, monkeypatch, name):
    """As the kit looks behind 2^31, on arrays that are small enough for this test."""
    monkeypatch.setattr(huge, "ROWS", 5)

    def narrow(op, x, *indices):
        short = [np.where(i < 0, i, i & 0xFFFF).astype(i.dtype) for i in indices]
        found = honest(op, x, *short)
        return found & 0xFFFF if name == "argmax" else found

    huge.check_huge("numpy")
    assert f"  {name}: got " in caught(huge.check_huge, lying(narrow, name))


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ({"sofmax": honest}, r"kernels\['sofmax'\] names no .* did you mean 'softmax'"),
        ({"exp": 3}, r"kernels\['exp'\] is 3, a function was expected"),
    ],
)
def test_kernels_that_nobody_can_call(kernels, told):
    with pytest.raises(AssertionError, match=told):
        basics.check_kernels(kernels)
