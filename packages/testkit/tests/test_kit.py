"""The kit finds what it is there to find: wrong values, gradients, layouts, exceptions, silence."""

import dataclasses

import numpy as np
import pytest

from ingle.autodiff import recording
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import bfloat16, complex64, float32, float64, int32
from ingle.tensor.operation import OPERATIONS
from ingle.testkit import BackendContract, checks, override_policy, overrides
from ingle.testkit.cases import TIERS, cases
from ingle.testkit.checks import Findings
from ingle.testkit.table import report, road_of, rows
from ingle.testkit.tolerance import compare, sensitivities, ulp
from ingle.testkit.torch_oracle import COUNTERPARTS


@pytest.fixture
def wrong(make_device):
    """Makes a device `wrong` whose kernels are the given ones over the reference's."""
    return lambda **kernels: make_device("wrong", **kernels)


def failure(check, operation, where, dtype="float32", **options):
    findings = Findings(operation)
    for seed in range(4):
        for case in cases(OPERATIONS[operation], dtype, seed):
            with findings.at(case.name):
                check(case, where, **options)
    with pytest.raises(AssertionError) as caught:
        findings.close()
    return str(caught.value)


def test_a_wrong_value_is_found(wrong):
    where = wrong(exp=lambda op, x: np.exp(x) * np.float32(1 + 1e-6))
    assert "ulp" in failure(checks.check_forward, "exp", where)


def test_a_wrong_dtype_is_found(wrong):
    where = wrong(exp=lambda op, x: np.exp(x.astype(np.float64)))
    assert "its rule says float32" in failure(checks.check_forward, "exp", where)


def test_a_wrong_shape_is_found(wrong):
    where = wrong(sum=lambda op, x: np.sum(x, axis=op.attributes["axis"], keepdims=True))
    assert "its rule says" in failure(checks.check_forward, "sum", where)


def test_sums_in_a_half_type_are_found(wrong):
    def accumulate(op, x):
        axis, keepdims = op.attributes["axis"], op.attributes["keepdims"]
        total = np.zeros_like(x[(slice(0, 1),) * x.ndim])
        if axis == tuple(range(x.ndim)):
            for value in x.ravel():
                total = (total + value).astype(x.dtype)
            return total.reshape((1,) * x.ndim if keepdims else ())
        return np.sum(x.astype(np.float32), axis=axis, keepdims=keepdims).astype(x.dtype)

    assert "off by" in failure(checks.check_forward, "sum", wrong(sum=accumulate), "bfloat16")


def test_a_modified_input_is_found(wrong):
    def negate(op, x):
        if x.flags.writeable:
            x[...] = -x
        return x.copy()

    where = wrong(negative=negate)
    assert "an input was modified" in failure(checks.check_forward, "negative", where)


def test_results_that_change_from_run_to_run_are_found(wrong):
    calls = iter(range(1000))

    def unsteady(op, x1, x2):
        return np.nextafter(x1 + x2, np.float32(next(calls) % 2 * 99))

    assert "a second run" in failure(checks.check_forward, "add", wrong(add=unsteady))


def test_a_kernel_that_reads_memory_in_order_is_found(wrong):
    def flat(op, x):
        return np.negative(x.ravel(order="K")).reshape(x.shape)

    assert "permuted" in failure(checks.check_layouts, "negative", wrong(negative=flat))


def test_a_wrong_gradient_is_found(monkeypatch):
    broken = dataclasses.replace(OPERATIONS["exp"].vjp[0], function=lambda g, out: g * out * 1.001)
    monkeypatch.setattr(OPERATIONS["exp"], "vjp", (broken,))
    monkeypatch.setattr(recording, "_plans", {})
    message = failure(checks.check_first_order, "exp", "numpy", "float64")
    assert "finite differences say" in message


def test_whole_and_expanded_are_told_apart(wrong):
    where = wrong(softmax=lambda op, x: np.full_like(x, 0.5))
    assert "differ" in failure(checks.check_forward, "softmax", where)
    for case in cases(OPERATIONS["softmax"], "float32"):
        checks.check_forward(case, where, expand=OPERATIONS["softmax"])


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16])
def test_ulp_is_the_spacing(dtype):
    values = np.asarray([1.0, 1.99, 2.0, 0.75, 300.0])
    rounded = values.astype(dtype.dtype)
    bits = rounded.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize])
    following = (bits + 1).astype(bits.dtype).view(dtype.dtype)
    spacing = following.astype(np.float64) - rounded.astype(np.float64)
    np.testing.assert_array_equal(ulp(rounded.astype(np.float64), dtype), spacing)


@pytest.mark.parametrize(
    ("actual", "expected", "agree"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], True),
        ([1.0], [1.0 + 1e-7], True),
        ([1.0], [1.0 + 1e-5], False),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([np.inf], [-np.inf], False),
        ([np.inf], [1e300], True),
        ([3.4e38], [1e300], False),
        ([0.0], [1e-46], True),
    ],
)
def test_comparison_of_floats(actual, expected, agree):
    problem = compare(np.asarray(actual, np.float32), np.asarray(expected), float32, allowed=(4, 0))
    assert (problem is None) is agree


def test_comparison_of_other_dtypes():
    got = np.asarray([1, 2], np.int32)
    assert compare(got, np.asarray([1, 3]), int32, allowed=(9, 0)) is not None
    assert compare(got, np.asarray([1, 2]), int32, allowed=(0, 0)) is None
    assert "tensor says" in compare(np.asarray([1, 2]), np.asarray([1, 2]), int32, allowed=(0, 0))
    odd = np.asarray([complex(np.inf, np.nan)], np.complex64)
    assert compare(odd, np.asarray([complex(np.inf, 3)]), complex64, allowed=(1, 0)) is None
    assert compare(np.zeros(2), np.zeros(3), float64, allowed=(1, 0)).startswith("shape")


def test_a_cancelling_sum_is_judged_by_its_terms():
    x = np.asarray([1e6, -1e6, 1.0])
    (moved,) = sensitivities(lambda a: [np.sum(a[0])], [x], [np.asarray(1.0)])
    assert float(moved) * 2 > 1e6
    assert float(moved) < 4e6


class Standard(BackendContract):
    device = "numpy"


def test_an_override_without_a_reason_fails():
    class Silent(Standard):
        def test_training(self): ...

    with pytest.raises(AssertionError, match="overrides test_training without a reason"):
        override_policy.check_overrides(Silent, BackendContract)


def test_an_override_with_a_reason_passes():
    class Honest(Standard):
        @overrides("the device cannot hold weights")
        def test_training(self): ...

    override_policy.check_overrides(Honest, BackendContract)


@pytest.mark.parametrize("name", ["test_overrides_have_reasons", "test_exceptions_are_needed"])
def test_the_honesty_checks_cannot_be_overridden(name):
    with pytest.raises(TypeError, match=f"overrides {name}"):
        type("Sly", (BackendContract,), {name: lambda self: None})


@pytest.mark.parametrize(
    ("key", "reason", "message"),
    [
        ("float64", "the device has no doubles", "float64 works on numpy"),
        ("exp", "no exponential", "exp works on numpy"),
        ("exp:float32", "only in halves", "exp:float32 works on numpy"),
        ("nothing", "no such thing", "no operation and no dtype"),
        ("exp:float31", "no such thing", "'float31' is no dtype"),
        ("float64", " ", "gives no reason"),
    ],
)
def test_exceptions_that_are_not_needed_fail(key, reason, message):
    with pytest.raises(AssertionError, match=message):
        override_policy.check_exception("numpy", key, reason)


def test_an_exception_that_is_needed_passes(wrong):
    where = wrong(exp=lambda op, x: x)
    override_policy.check_exception(where, "exp", "it is the identity")


def test_the_loss_of_a_device_comes_last():
    """Whatever ran behind it would fail."""
    assert [name for name in vars(BackendContract) if name.startswith("test_")][-1] == "test_loss"


def test_each_so_many_th_operation_is_checked_by_every_test_in_another_place():
    class Third(BackendContract):
        device, every = "numpy", 3

    whole, third = Standard(), Third()
    tier = TIERS["smoke"]
    for name in ("test_forward", "test_gradient", "test_variations"):
        all_of_them, some = whole._chosen(name, tier), third._chosen(name, tier)
        assert some == all_of_them[len(name) % 3 :: 3]
        assert len(all_of_them) // 3 <= len(some) < len(all_of_them) // 2


def test_a_road_is_that_of_the_backend_that_is_decorated():
    class Hardware:
        def road(self, op, avals):
            return "host"

    class Decorator:
        inner = Hardware()

        def supports(self, op, avals):
            return False

    op = OPERATIONS["qr"].op(mode="reduced")
    aval = Aval((2, 2), float32)
    assert road_of(Decorator(), op, (aval,)) == "host"
    del Hardware.road
    assert road_of(Decorator(), op, (aval,)) == "missing"


def test_counterparts_are_operations():
    assert not COUNTERPARTS.keys() - OPERATIONS.keys()


@pytest.mark.slow
def test_the_table_tells_the_roads(wrong):
    where = wrong()
    roads = {r.operation: r for r in rows(where)}
    assert roads["add"].road == "native"
    assert roads["add"].factor is not None
    lines = list(report("numpy"))
    assert lines[0].split()[0] == "operation"
    assert lines[-1].startswith(f"{len(lines) - 2} operations: ")
