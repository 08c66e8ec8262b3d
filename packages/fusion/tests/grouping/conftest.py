"""A device that splits what is long, as one with many workers does."""

from __future__ import annotations

from typing import Any

import pytest

from ingle.fusion.grouping import legality
from ingle.tensor.device import backend_of


@pytest.fixture
def splitting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The device `cpu` splits from now on; the answers of the rule that the module names `RULE`."""
    seen: list[Any] = []
    real = getattr(legality, request.module.RULE)

    def rule(op: Any, aval: Any) -> Any:
        found = real(op, aval)
        seen.append(found)
        return found

    monkeypatch.setattr(legality, request.module.RULE, rule)
    monkeypatch.setattr(backend_of("cpu").inner, "splits_sums", True)
    return seen
