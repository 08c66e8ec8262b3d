"""Memory that plans take turns with: one piece, as large as plans need it now."""

from __future__ import annotations

from ingle.fusion.runtime import scratch
from ingle.fusion.runtime.scratch import Lender, Lent


def test_memory_of_a_large_plan_is_given_up_when_small_ones_go_on_alone(monkeypatch):
    monkeypatch.setattr(scratch, "_PATIENCE", 4)
    lender, made = Lender(), []

    def allocated(nbytes):
        made.append(nbytes)
        return Lent(0, nbytes, None)

    def run(nbytes):
        lent = lender.lend(nbytes, allocated)
        assert lent.size >= nbytes
        lender.take_back(lent)

    run(1000)
    for nbytes in (10, 20, 400, 1000, 10, 20, 400):  # whose turn it is now and then
        run(nbytes)
    assert made == [1000]
    run(30)
    assert made == [1000, 400]
    for _ in range(20):
        run(300)
    assert made == [1000, 400]
    inner = lender.lend(300, allocated)
    other = lender.lend(300, allocated)  # of a plan inside the run of another one
    assert other is not inner
