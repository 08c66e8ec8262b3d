"""Handlers of signals write to cells of their own, whatever they interrupt."""

import signal
import threading
from contextlib import contextmanager

import pytest

import ingle.tensor as it

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="no signals of the user's on this system"
)


@pytest.fixture
def counts():
    """A cell that the handler of SIGUSR1 counts in."""
    counter = it.Cell(0)

    def handler(*_):
        counter.value = counter.value + 1

    before = signal.signal(signal.SIGUSR1, handler)
    yield counter
    signal.signal(signal.SIGUSR1, before)


def come():
    signal.raise_signal(signal.SIGUSR1)


def test_a_transaction_that_raises_takes_no_handlers_write_along(counts):
    own = it.Cell(0)
    with pytest.raises(ZeroDivisionError), it.transaction():  # noqa: PT012
        own.value = 5
        come()
        raise ZeroDivisionError
    assert (counts.value, own.value) == (1, 0)


def test_a_handlers_write_stays_when_a_transaction_is_discarded(counts):
    with it.transaction(commit=False), it.transaction():
        come()
        come()
    assert counts.value == 2


def test_a_handler_at_the_end_of_a_transaction_counts_on(counts, monkeypatch):
    # It comes when the scope is left, and its writes are not committed yet.
    from ingle.tensor import transactions

    committed = transactions.commit_writes

    def commit_writes(writes):
        come()
        committed(writes)
        come()

    monkeypatch.setattr(transactions, "commit_writes", commit_writes)
    own = it.Cell(0)
    with it.transaction():
        come()
        own.value = 5
    assert (counts.value, own.value) == (3, 5)


def test_handlers_have_transactions_of_their_own():
    total, rolled_back = it.Cell(0), it.Cell(0)

    @contextmanager
    def grouped():
        with it.transaction():
            yield

    def handler(*_):
        with grouped():
            total.value = total.value + 1
        with pytest.raises(ZeroDivisionError), grouped():  # noqa: PT012
            rolled_back.value = 1
            raise ZeroDivisionError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(ZeroDivisionError), it.transaction():  # noqa: PT012
            come()
            raise ZeroDivisionError
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (total.value, rolled_back.value) == (1, 0)


def test_a_function_that_is_a_handler_too_may_be_called(counts):
    handler = signal.getsignal(signal.SIGUSR1)
    handler()
    with it.transaction():
        handler()
    assert counts.value == 2


def test_what_helpers_write_in_a_transaction_is_part_of_it(counts):
    own = it.Cell(0)

    @contextmanager
    def grouped():
        with it.transaction(commit=False):
            yield

    def write():
        own.value = own.value + 1

    with grouped():
        write()
        assert own.value == 1
    assert own.value == 0


def test_other_threads_are_not_interrupted(counts):
    own = it.Cell(0)

    def work():
        with it.transaction():
            own.value = 3

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert own.value == 3
