"""These are tests of one backend: it is the default in them, and in processes that they start."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of everything that does not name one."""
    monkeypatch.setenv("INGLE_DEVICE", "numpy")
