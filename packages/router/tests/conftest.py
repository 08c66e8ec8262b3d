"""What the tests of the router share."""

import pytest
from router_members import Remote, members_of

from ingle.router import Router
from ingle.tensor.device import Device


@pytest.fixture
def routed():
    """Makes routers that are closed when the test ends."""
    made = []

    def make(*members, **options):
        made.append(Router(*members, **options))
        return made[-1]

    yield make
    for router in made:
        router.close()


@pytest.fixture
def remote():
    """Makes devices with memory of their own."""
    made = []

    def make(name="remote", kind=Remote, **options):
        made.append(kind(Device(name), **options))
        return made[-1]

    yield make
    for backend in made:
        backend.stop()


PAIRS = [
    "cpu+numpy", "two cpus", "two numpys", "cpu+remote", "remote+numpy",
    pytest.param("opencl+cpu", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.fixture(params=PAIRS)
def pair(request, routed, remote):
    """A router of two members, of several kinds."""
    return routed(*members_of(request.param, remote))
