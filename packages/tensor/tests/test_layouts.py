"""How inputs lie in memory changes no result: bit for bit where IEEE arithmetic says each bit.

The testkit compares every layout with the reference within the tolerances of each operation. Here
layouts are compared with one another, gradients included. Movement, integers and operations that
round once have the same bits; of others NumPy's vector code, which runs where elements lie side by
side, may differ from its scalar code in the last places, and sums are added up in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.testkit.bits import same_bits
from ingle.testkit.cases import Case, cases, differentiable, subjects
from ingle.testkit.checks import with_values
from ingle.testkit.derivatives import backward_all, direction, gradient_arrays
from ingle.testkit.layouts import LAYOUTS, Layout
from ingle.testkit.running import NothingToCheckError, host_allowed, run_case

SUBJECTS = [s for s in subjects() if s.public and s.samples]
COMPOSED = {
    "clip", "copysign", "hardtanh", "leaky_relu", "nextafter", "reciprocal", "relu", "relu6",
    "sign", "threshold",
}  # fmt: skip
"""Operations that round once here, too, though backends need not take the same instructions."""
DTYPES = ("float32", "int32")


Answers = tuple[list[np.ndarray], list[np.ndarray]]


def answers(case: Case, layout: Layout) -> Answers:
    """Results, and gradients of a random combination of them."""
    track = case.dtype.is_inexact and bool(case.sample.gradient) and differentiable(case.operation)
    run = run_case(case, "numpy", track=track, layout=lambda a: layout(a, "numpy"))
    found = [np.array(r.detach().numpy()) for r in run.results]
    if not track:
        return found, []
    rng = np.random.default_rng(3)
    cotangents = [
        direction(rng, f) if r.dtype.is_inexact else None
        for f, r in zip(found, run.results, strict=True)
    ]
    grads = gradient_arrays(backward_all(run.results, cotangents), run.tracked)
    return found, [g for g in grads if g is not None]


def exact(case: Case, result: np.ndarray) -> bool:
    subject = case.operation
    if subject.traits.kind == "movement" or case.sample.exact:
        return True
    if result.dtype.kind in "biu":
        return subject.traits.kind != "opaque"
    rounded_once = subject.traits.exactly_rounded or subject.name in COMPOSED
    return result.dtype.kind == "f" and rounded_once


def compare(case: Case, name: str, plain: Answers | None) -> None:
    """Compares a layout with the plain one, whose answers are given for the case's own values."""
    layout = LAYOUTS[name]
    if layout.equal is not None:
        case = with_values(case, layout.equal)
        plain = None
    if not any(layout.fits(a) for a in case.arrays):
        return
    results, grads = answers(case, layout)
    expected, slopes = plain or answers(case, LAYOUTS["plain"])
    for got, want in zip(results, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if exact(case, want):
            assert same_bits(got, want)
        else:
            near(got, want, case)
    for got, want in zip(grads, slopes, strict=True):
        near(got, want, case)


def near(got: np.ndarray, want: np.ndarray, case: Case) -> None:
    loose = 2e-5 * case.sample.condition
    finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind in "fc" else np.zeros(0)
    scale = max(1.0, case.sample.magnitude, float(np.max(finite, initial=0)))
    np.testing.assert_allclose(got, want, rtol=loose, atol=loose * scale, equal_nan=True)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_results_do_not_depend_on_the_layout(subject: Any) -> None:
    with host_allowed():
        for dtype in DTYPES:
            for case in cases(subject, dtype):
                name = "plain"
                try:
                    plain = answers(case, LAYOUTS[name])
                    for name in LAYOUTS:
                        compare(case, name, plain)
                except NothingToCheckError:
                    continue
                except AssertionError as error:
                    raise AssertionError(f"{case.name}, {name}: {error}") from None
