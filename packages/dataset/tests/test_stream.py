"""Streams have transforms, orders by epoch, and resume."""

import json

import numpy as np
import pytest

from ingle.dataset import DataValueError, Loader, SampleError, Stream


def numbers(count=20):
    return Stream(lambda: iter(range(count)))


def test_transforms_are_those_of_lists():
    chain = numbers().filter(lambda x: x % 2).map(lambda x: 10 * x).skip(2).take(5)
    for _ in range(2):  # each loop begins anew
        assert list(chain) == [10 * x for x in range(20) if x % 2][2:7]
    joined = numbers(3) + range(7, 9)
    assert list(joined) == [0, 1, 2, 7, 8]
    assert [w.tolist() for w in numbers(8).windows(3, 2)] == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert [w.tolist() for w in numbers(7).windows(2, 3)] == [[0, 1], [3, 4]]
    assert list(numbers(2).windows(3)) == []


def test_nothing_is_read_before_it_is_asked_for():
    read = []
    endless = Stream(lambda: iter(lambda: read.append(1) or len(read), None))
    stream = endless.map(lambda x: x * x).filter(lambda x: x % 2)
    assert not read
    assert list(stream.take(3)) == [1, 9, 25]
    assert len(read) == 5


def test_shuffling_depends_on_seed_and_epoch():
    stream = numbers(200).shuffle(50, seed=3)
    first = list(stream)
    assert sorted(first) == list(range(200))
    assert first == list(stream) == list(stream.at_epoch(0))
    orders = [first, list(stream.at_epoch(1)), list(numbers(200).shuffle(50, seed=4))]
    assert len({tuple(order) for order in orders}) == 3
    # Nothing comes before the buffer could hold it.
    assert all(place >= value - 50 for place, value in enumerate(first))
    whole = np.array([list(numbers(4).shuffle(9, seed=s)) for s in range(2000)])
    shares = np.stack([(whole == v).mean(0) for v in range(4)])
    np.testing.assert_allclose(shares, 0.25, atol=0.05)


def test_a_loader_has_an_order_each_epoch_and_resumes():
    def make():
        return Loader(numbers(50).shuffle(20, seed=1).map(lambda x: x + 1), 8, tensors=False)

    loader = make()
    epochs = [[b.tolist() for b in loader] for _ in range(2)]
    assert epochs[0] != epochs[1]
    interrupted = make()
    list(interrupted)
    running = iter(interrupted)
    next(running), next(running)
    resumed = make()
    resumed.load_state(json.loads(json.dumps(interrupted.state())))
    assert [b.tolist() for b in resumed] == epochs[1][2:]


def test_a_stream_over_a_stream_knows_the_epoch():
    outer = Stream(numbers(30).shuffle(30))
    assert list(outer.at_epoch(2)) == list(numbers(30).shuffle(30).at_epoch(2))
    joined = numbers(30).shuffle(30) + numbers(30).shuffle(30)
    assert list(joined.at_epoch(2))[:30] == list(outer.at_epoch(2))


def test_mistakes_are_explained():
    with pytest.raises(DataValueError, match=r"a list_iterator can be gone through only once"):
        Stream(iter([1]))
    with pytest.raises(DataValueError, match="must be iterable or a function"):
        Stream(3)
    with pytest.raises(DataValueError, match=r"Stream.shuffle: buffer must be .* got 0"):
        numbers().shuffle(0)
    with pytest.raises(SampleError, match=r"sample 4 of the stream Stream .* division by zero"):
        list(Loader(numbers().map(lambda x: 1 / (4 - x)), 2))
