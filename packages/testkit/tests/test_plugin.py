"""The pytest plugin from outside: options, selection, and messages."""

import subprocess
import sys

import pytest

FIVE_LINES = """
from ingle.testkit import BackendContract

class TestNumpy(BackendContract):
    device = "numpy"
    unsupported = {"float64": "the device has no doubles"}
"""


def run_pytest(cwd, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


@pytest.mark.slow
def test_a_backend_has_to_be_named(tmp_path):
    done = run_pytest(tmp_path, "--pyargs", "ingle.testkit")
    assert done.returncode == 4
    assert "which backend? Add --backend=NAME; installed: numpy" in done.stderr


@pytest.mark.slow
def test_by_name_with_a_table(tmp_path):
    done = run_pytest(
        tmp_path, "--pyargs", "ingle.testkit", "--backend=numpy", "--tier=smoke", "--ingle-table",
        "-k", "test_cells or (test_forward and add)",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "operations on numpy" in done.stdout
    assert "native" in done.stdout


@pytest.mark.slow
def test_five_lines(tmp_path):
    (tmp_path / "test_mine.py").write_text(FIVE_LINES)
    done = run_pytest(tmp_path, "--tier=smoke", "-k", "exceptions or test_cells or overrides")
    assert "float64 works on numpy: remove it from unsupported" in done.stdout
    assert "1 failed, 2 passed" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_what_a_device_cannot_do_at_the_command_line(tmp_path):
    done = run_pytest(
        tmp_path, "--pyargs", "ingle.testkit", "--backend=numpy", "--tier=smoke",
        "--unsupported=int4,uint4", "-k", "exceptions or storage",
    )  # fmt: skip
    assert "int4 works on numpy: remove it from unsupported" in done.stdout
    assert "test_storage[int4]" not in done.stdout
    assert "2 failed" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_assertions_of_the_contract_are_explained(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        FIVE_LINES.replace("unsupported = {", "unsupported = {'gone': 'it is gone', ")
    )
    done = run_pytest(tmp_path, "-k", "exceptions and gone")
    assert "assert 'gone' in {'" in done.stdout


@pytest.mark.parametrize("tier", ["smoke", "standard", "full"])
def test_tiers_grow(tier):
    from ingle.testkit.cases import TIERS

    order = list(TIERS)
    smaller = TIERS[order[max(0, order.index(tier) - 1)]]
    assert set(smaller.gradients) <= set(TIERS[tier].gradients)
    assert len(smaller.dtypes) <= len(TIERS[tier].dtypes)
