"""A router is a backend: each of its devices passes the testkit."""

import pytest
from router_members import twin

from ingle.router import Router
from ingle.testkit import BackendContract, own_memory


@pytest.fixture(scope="module")
def opened():
    with Router("numpy", twin("numpy", 1), name="checked"):
        yield


@pytest.mark.slow
@pytest.mark.sampled(6, slow=0)
@pytest.mark.usefixtures("opened")
class TestSmoke(BackendContract):
    device = "checked:1"
    tier = "smoke"


@pytest.mark.slow
def test_a_remote_member_has_what_devices_with_memory_of_their_own_need(routed, remote):
    far, other = remote("far"), remote("other")
    far.peers = [other]
    router = routed(far, other, "numpy")
    where = str(router[0])
    own_memory.check_uploads(where)
    own_memory.check_views(where)
    own_memory.check_streams(where)
    own_memory.check_late_errors(where)
    own_memory.check_several([str(d) for d in router])

    def lose():
        far.lost = "unplugged"

    own_memory.check_loss(where, lose)
