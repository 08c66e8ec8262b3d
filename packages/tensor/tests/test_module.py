"""The module answers when it is taken for a function."""

import copy
import pickle

import pytest

import ingle.tensor as it


def test_calling_the_module_says_what_to_call() -> None:
    for called in (it, it.tensor):
        with pytest.raises(TypeError, match=r"make a tensor with ingle\.tensor\.asarray\("):
            called([1, 2], dtype="float32")  # type: ignore[operator]
        assert pickle.loads(pickle.dumps(called)) is called
        assert copy.deepcopy(called) is called
