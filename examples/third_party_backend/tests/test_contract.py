from ingle.testkit import BackendContract


class TestToy(BackendContract):
    device = "toy"
