"""The module answers when it is taken for a function."""

import pytest

import ingle.tensor as it


def test_calling_the_module_says_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"make a tensor with ingle\.tensor\.asarray\("):
        it([1, 2])  # type: ignore[operator]
