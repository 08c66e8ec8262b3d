"""The testkit on the backend: fused, operation by operation, and rounding after each operation.

Every change runs the smoke tier, fused, most of it with the slow tests; `-m nightly` runs the rest.
"""

from __future__ import annotations

import pytest

from ingle.testkit import BackendContract


@pytest.mark.sampled(6)
class TestFused(BackendContract):
    device = "cpu"
    tier = "smoke"


@pytest.mark.nightly
@pytest.mark.usefixtures("bare_device")
class TestBare(BackendContract):
    device = "cpu_bare"
    tier = "smoke"


@pytest.mark.nightly
@pytest.mark.usefixtures("exact_device")
class TestExact(BackendContract):
    device = "cpu_exact"
    tier = "smoke"


@pytest.mark.nightly
class TestFusedStandard(TestFused):
    tier = "standard"


@pytest.mark.nightly
class TestFusedFull(TestFused):
    tier = "full"


@pytest.mark.nightly
class TestBareStandard(TestBare):
    tier = "standard"


@pytest.mark.nightly
class TestBareFull(TestBare):
    tier = "full"


@pytest.mark.nightly
class TestExactStandard(TestExact):
    tier = "standard"


@pytest.mark.nightly
class TestExactFull(TestExact):
    tier = "full"
