"""A backend of lies: one lie at a time, each of which the suite catches."""

from functools import partial

import numpy as np
import pytest

from ingle.tensor.eager import ArrayHandle
from ingle.tensor.operation import OPERATIONS, infer
from ingle.testkit import basics, checks, own_memory, traps
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


@pytest.mark.parametrize("through", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "multiply", "negative", "max", "take", "where", "concat"])
def test_int64_through_floats(lying, name, through):
    def rounded(op, *arrays):
        found = np.asarray(honest(op, *arrays))
        return found.astype(through).astype(np.int64) if found.dtype == np.int64 else found

    assert "above 2^53" in caught(traps.check_wide_integers, lying(rounded, name))


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


def test_the_reference_tells_no_lies(make_device):
    where = make_device("honest")
    for check in (
        traps.check_results_are_apart, traps.check_wide_integers, traps.check_signed_zeros,
        traps.check_edges, traps.check_indices,
    ):  # fmt: skip
        check(where)


@pytest.mark.parametrize("where", ["numpy", "cpu"])
def test_checks_of_own_memory_pass_on_honest_devices(where):
    own_memory.check_uploads(where)
    own_memory.check_views(where)
    own_memory.check_streams(where)
    own_memory.check_late_errors(where)
    own_memory.check_several(["numpy", "cpu"])


def test_an_upload_that_sees_later_writes(make_device):
    class Sharing(NumpyBackend):
        def upload(self, array):
            return self.adopt(array)

    where = make_device("sharing", kind=Sharing)
    assert "later write" in caught(own_memory.check_uploads, where)


def test_a_view_without_its_offset(lying):
    def from_the_start(op, x, *rest):
        if op.operation.name != "slice":
            return honest(op, x, *rest)
        found = honest(op, x, *rest)
        return np.lib.stride_tricks.as_strided(x, found.shape, found.strides)

    caught(own_memory.check_views, lying(from_the_start, "movement", "slice"))


def test_a_device_that_denies_its_end(make_device):
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        own_memory.check_loss(make_device("immortal"), lambda: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        own_memory.check_out_of_memory(make_device("endless"), 4096)


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
