"""Sorting networks: they sort whatever comes."""

import itertools

import pytest

from ingle.fusion.grouping.legality import LONGEST_NETWORK
from ingle.fusion.lowering.sort_network import network


@pytest.mark.sampled(5)
@pytest.mark.parametrize("count", range(1, LONGEST_NETWORK + 1))
def test_a_network_sorts_all_rows_of_zeros_and_ones(count):
    """Then it sorts everything (Knuth, 5.3.4, theorem Z)."""
    # All rows at once: bit r of a place is what row r has there.
    rows = range(1 << count)
    places = [sum((r >> k & 1) << r for r in rows) for k in range(count)]
    for i, j in network(count):
        assert i < j
        places[i], places[j] = places[i] & places[j], places[i] | places[j]
    assert all(a & ~b == 0 for a, b in itertools.pairwise(places))


def test_a_network_is_small():
    assert [len(list(network(n))) for n in (1, 2, 4, 8, 16)] == [0, 1, 5, 19, 63]
