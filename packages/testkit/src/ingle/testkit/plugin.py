"""The pytest plugin: options, the suite by name of a backend, and the table at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

for _module in (
    "contract",
    "basics",
    "checks",
    "override_policy",
    "oracle",
    "traps",
    "own_memory",
    "running",
    "training",
    "wrong_calls",
):
    pytest.register_assert_rewrite(f"ingle.testkit.{_module}")

SUITE = "test_backend.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ingle", "Ingle's suite for backends")
    group.addoption("--backend", metavar="NAME", help="the device that ingle.testkit checks")
    group.addoption(
        "--tier",
        choices=("smoke", "standard", "full"),
        default="standard",
        help="how much is checked: what takes seconds, what CI runs, or everything",
    )
    group.addoption(
        "--unsupported",
        metavar="NAMES",
        default="",
        help="dtypes, operations or both (sort:complex64) that the device cannot do, with commas",
    )
    group.addoption(
        "--ingle-table",
        action="store_true",
        help="after the tests, list how the backend runs each operation and how fast",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # The suite is about the backend that is named; without a name it is about none.
    ours = collection_path == Path(__file__).with_name(SUITE)
    return True if ours and not config.getoption("--backend") else None


def pytest_configure(config: pytest.Config) -> None:
    asked = any(a.split("::")[0] == "ingle.testkit" for a in config.invocation_params.args)
    if asked and not config.getoption("--backend"):
        from ingle.tensor.plugins import discover

        have = ", ".join(discover().backends) or "none"
        raise pytest.UsageError(
            f"ingle.testkit: which backend? Add --backend=NAME; installed: {have}"
        )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("--ingle-table"):
        return
    from .table import report

    name = config.getoption("--backend") or "numpy"
    terminalreporter.section(f"operations on {name}")
    for line in report(name):
        terminalreporter.write_line(line)
