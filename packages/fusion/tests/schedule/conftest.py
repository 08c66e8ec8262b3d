"""Graphs of layers, planned by layers and as a whole."""

from __future__ import annotations

import pytest

from ingle.fusion.schedule.donation import donors
from ingle.fusion.schedule.repeated_layers import shortened
from ingle.fusion.schedule.schedule import laid_out
from ingle.fusion.schedule.scheduler import Scheduler


@pytest.fixture
def both(monkeypatch):
    """Plans what is compiled in both ways; the nodes of graphs with layers, and those planned."""
    sequence, repeated, found, again = Scheduler.sequence, Scheduler._repeated, [], []

    def noting_groups(self):
        groups = repeated(self)
        again.append(groups is not None)
        return groups

    monkeypatch.setattr(Scheduler, "_repeated", noting_groups)

    def planned(scheduler, way):
        lengths = []

        def noting(graph, *given):
            short = way(graph, *given)
            lengths.extend([] if short is None else [len(short.graph.nodes)])
            return short

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ingle.fusion.schedule.scheduler.shortened", noting)
            return sequence(scheduler), lengths

    def twice(self):
        graph, pairs = self._graph, self._donors
        whole, _ = planned(Scheduler(graph, self._legality, pairs), lambda *given: None)
        now, lengths = planned(self, shortened)
        if lengths:
            assert again[-1], "layers were found, and the whole graph was planned"
            assert list(now.calls) == list(whole.calls)
            one, other = laid_out(now), laid_out(whole)
            assert (one.arena, one.own, one.inline) == (other.arena, other.own, other.inline)
            assert donors(one, pairs, ()) == donors(other, pairs, ())
            found.append((len(graph.nodes), lengths[-1]))
        return now

    monkeypatch.setattr(Scheduler, "sequence", twice)
    return found
