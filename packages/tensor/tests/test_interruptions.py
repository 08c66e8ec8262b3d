"""Who asks: the function at hand, or what comes in between."""

import sys
import types

import pytest

from ingle.tensor.callers import caller, own_files
from ingle.tensor.interruptions import Outside

OWN = """
def through(depth, ask):
    return through(depth - 1, ask) if depth else ask()
"""


def module(name, file, own_file=None):
    """A module of a name, whose code says that it comes from a file."""
    made = types.ModuleType(name)
    made.__file__ = own_file or file
    exec(compile(OWN, file, "exec"), vars(made))
    return made


OURS = module("ingle.made", "/somewhere/ingle/made.py")
WRITTEN = module("ingle.written", "<text>", "/somewhere/ingle/written.py")
THEIRS = module("theirs", "<text>", "/somewhere/theirs.py")


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("way", [(), (OURS,), (WRITTEN,), (OURS, THEIRS), (THEIRS, WRITTEN, OURS)])
def test_both_questions_have_the_answers_that_each_has_alone(way, depth):
    for _ in range(2):  # files are known the second time
        outside, seen = Outside(sys._getframe()), []

        def ask(outside=outside, seen=seen):
            spoken, frame = outside.asker()
            seen.append((spoken, frame is caller(), outside.speaks(), frame.f_globals["__name__"]))

        for made in reversed(way):
            ask = lambda made=made, ask=ask: made.through(depth, ask)  # noqa: E731
        ask()
        assert seen == [(False, True, False, __name__)]
    assert "<text>" not in own_files


@pytest.mark.parametrize(("name", "asking"), [("theirs", "ask"), ("ingle.text", "test_")])
def test_code_that_is_made_of_text_is_told_by_its_module(name, asking):
    outside = Outside(sys._getframe())
    names = {"OURS": OURS, "outside": outside, "__name__": name, "__file__": "/somewhere/made.py"}
    exec(
        compile("def ask():\n    return OURS.through(2, outside.asker)\n", "<text>", "exec"), names
    )
    for _ in range(2):
        spoken, frame = OURS.through(2, names["ask"])
        assert not spoken
        assert frame.f_code.co_name.startswith(asking)


def test_a_finalizer_and_whoever_comes_behind_the_end_are_told_apart():
    outside, seen = Outside(sys._getframe()), []

    class Dying:
        def __del__(self):
            OURS.through(2, lambda: seen.append((outside.asker(), outside.speaks())))

    Dying()
    outside.end()
    seen.append((outside.asker(), outside.speaks()))
    assert seen == [((True, None), True), ((True, seen[1][0][1]), True)]
