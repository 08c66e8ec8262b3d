from ingle.testkit import BackendContract


class TestNumpy(BackendContract):
    device = "numpy"
