"""Wrong calls, drawn at random from the samples: their errors say what one needs to know."""

import itertools

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, IngleError
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.sample import FUNCTIONS, Checked
from ingle.testkit.cases import subjects
from ingle.testkit.fuzzed_calls import complaint, is_public, mistakes


def complaints(count, seed, where, elsewhere):
    """What is wrong with the answers to so many wrong calls."""
    found, answered, drawn = [], 0, mistakes(np.random.default_rng(seed))
    while answered < count:
        mistake = next(drawn)
        try:
            problem = complaint(mistake, where, elsewhere)
        except LookupError:
            continue  # it was right by chance
        answered += 1
        if problem is not None:
            call = mistake.text(where, elsewhere)
            found.append(f"{mistake.what}: {problem}\n    {call:.400}")
    return found


def test_wrong_calls(other_device):
    found = complaints(60, 11, "numpy", other_device)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_more_wrong_calls(other_device):
    found = complaints(400, 12, "numpy", other_device)
    assert not found, "\n".join(found)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(8))
def test_thousands_of_wrong_calls(other_device, seed):
    found = complaints(2500, 100 + seed, "numpy", other_device)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_mistakes_are_of_all_kinds_and_subjects():
    drawn = list(itertools.islice(mistakes(np.random.default_rng(3)), 3000))
    kinds = ("axis more", "axis less", "element more", "without", "dtype", "device", "=", "keyword")
    for kind in kinds:
        assert any(kind in m.what for m in drawn), kind
    public = [s for s in subjects() if is_public(s)]
    assert len(public) > 250
    assert len({m.case.operation.name for m in drawn}) > 0.9 * len(public)


@pytest.fixture
def careless():
    """Adds a function to those that are checked, for as long as a test runs."""
    added = []

    def add(public, reference):
        samples = FUNCTIONS["diag"].samples
        added.append(Checked(public, samples=samples, reference=reference).name)
        return FUNCTIONS[added[-1]]

    yield add
    for name in added:
        del FUNCTIONS[name]


def problems_of(subject, other_device):
    found = []
    for mistake in itertools.islice(mistakes(np.random.default_rng(1), [subject]), 60):
        try:
            found.append(complaint(mistake, "numpy", other_device) or "")
        except LookupError:
            continue
    return "\n".join(found)


def test_silence_is_found(careless, other_device):
    def silent(x: it.Tensor, /, *, offset: int = 0) -> it.Tensor:
        return it.diag(it.asarray(np.ones(3)))

    assert "no error" in problems_of(
        careless(silent, lambda x, offset: np.ones((3, 3))), other_device
    )


def test_raw_errors_are_found(careless, other_device):
    def raw(x: it.Tensor, /, *, offset: int = 0) -> it.Tensor:
        return it.asarray(np.diag(x.numpy(), offset))

    assert "a raw error" in problems_of(
        careless(raw, lambda x, offset: np.diag(x, offset)), other_device
    )


def test_errors_that_say_nothing_are_found(careless, other_device):
    def mute(x: it.Tensor, /, *, offset: int = 0) -> it.Tensor:
        try:
            return it.diag(x, offset=offset)
        except IngleError:
            raise ArgumentError("something is wrong") from None

    problems = problems_of(careless(mute, lambda x, offset: np.diag(x, offset)), other_device)
    assert "does not say the operation and the argument" in problems


def test_a_name_is_a_word(other_device):
    mistake = next(
        m for m in mistakes(np.random.default_rng(0), [OPERATIONS["add"]]) if m.what == "x2 is {}"
    )
    assert complaint(mistake, "numpy", other_device) is None
    assert mistake.text("numpy", other_device).startswith("it.add(it.")
