"""Addresses of memory that has none: unique while in use, and never soon used again."""

from __future__ import annotations

import threading

import pytest

from ingle.fusion.device.kernel_backend import AddressSpace
from ingle.fusion.runtime.address_space import OFFSET_BITS, RESTING


def test_an_address_leads_to_its_buffer_and_offset() -> None:
    space: AddressSpace[str] = AddressSpace()
    first, second = space.add("first"), space.add("second")
    assert space.find(first) == ("first", 0)
    assert space.find(second + (1 << OFFSET_BITS) - 1) == ("second", (1 << OFFSET_BITS) - 1)
    assert space.remove(first) == "first"
    with pytest.raises(KeyError):
        space.find(first + 8)


def test_an_address_rests_before_it_is_used_again() -> None:
    space: AddressSpace[int] = AddressSpace()
    seen = []
    for number in range(3 * RESTING):
        seen.append(space.add(number))
        assert space.remove(seen[-1]) == number
    assert len(set(seen[:RESTING])) == RESTING
    assert max(seen) <= (RESTING + 2) << OFFSET_BITS  # numbers come back
    assert max(seen) < 1 << 63


def test_threads_get_numbers_of_their_own() -> None:
    space: AddressSpace[int] = AddressSpace()
    wrong: list[int] = []

    def work(name: int) -> None:
        for _ in range(2000):
            address = space.add(name)
            if space.find(address)[0] != name or space.remove(address) != name:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
