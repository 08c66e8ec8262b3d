"""First and second gradients of every operation against PyTorch, on the rooms' own samples.

What PyTorch has no counterpart or no second derivative for, the testkit compares with finite
differences of the reference and of the first gradient, as it does everything else.
"""

import pytest

from ingle.testkit.cases import cases, operations
from ingle.testkit.checks import Findings
from ingle.testkit.running import NothingToCheckError, host_allowed
from ingle.testkit.torch_oracle import COUNTERPARTS, check_against_torch

pytest.importorskip("torch")

COMPARED = [o for o in operations() if o.name in COUNTERPARTS and o.public]


def checked(operation, dtype, second, seed=0):
    findings = Findings(operation.name)
    with host_allowed():
        for case in cases(operation, dtype, seed):
            with findings.at(case.name):
                check_against_torch(case, "numpy", second=second)
    findings.close()
    return findings.checked


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("operation", COMPARED, ids=lambda o: o.name)
def test_gradients_of_both_orders(operation, dtype):
    if not checked(operation, dtype, True) and not checked(operation, dtype, False):
        pytest.skip(f"PyTorch takes none of the calls in {dtype}")


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_other_numbers(dtype, seed):
    for operation in COMPARED:
        if not checked(operation, dtype, True, seed):
            checked(operation, dtype, False, seed)


def test_second_derivatives_are_indeed_compared():
    named = {o.name: o for o in COMPARED}
    for name in ("sin", "matmul", "softmax", "conv", "cholesky", "layer_norm", "cross_entropy"):
        assert checked(named[name], "float64", True)
    case = next(cases(named["hardsigmoid"], "float64"))
    with pytest.raises(NothingToCheckError):  # PyTorch has no second derivative of it
        check_against_torch(case, "numpy", second=True)
