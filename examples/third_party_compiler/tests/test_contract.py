from ingle.testkit import BackendContract


class TestGcc(BackendContract):
    device = "gcc"
