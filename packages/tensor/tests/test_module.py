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


def test_a_module_that_is_not_imported_says_how() -> None:
    with pytest.raises(AttributeError, match=r"import the module ingle\.tensor\.cli$"):
        vars(type(it))["__getattr__"](it, "cli")
    with pytest.raises(AttributeError, match=r"has no attribute 'frobnicate'$"):
        it.frobnicate  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"write it\.concat\("):
        it.cat  # type: ignore[attr-defined]  # noqa: B018
