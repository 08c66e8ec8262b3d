import json
import threading

import numpy as np
import pytest

from ingle.dataset import (
    DataValueError,
    EmptyDatasetError,
    Loader,
    MapDataset,
    Padding,
    SampleError,
    balancing_weights,
)

LENGTHS = np.random.default_rng(0).integers(1, 40, 103)


def batches(loader):
    return [np.asarray(b).tolist() for b in loader]


def flat(epoch):
    return [sample for batch in epoch for sample in batch]


def loader(samples=103, batch_size=8, **options):
    return Loader(range(samples), batch_size, tensors=False, **options)


class TestBuckets:
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_every_sample_once_an_epoch(self, shuffle):
        made = loader(lengths=LENGTHS, shuffle=shuffle)
        for _ in range(2):
            epoch = batches(made)
            assert len(epoch) == len(made) == 13
            assert sorted(flat(epoch)) == list(range(103))

    def test_a_batch_has_like_lengths(self):
        spread = [np.ptp(LENGTHS[b]) for b in batches(loader(lengths=LENGTHS, shuffle=True))]
        plain = [np.ptp(LENGTHS[b]) for b in batches(loader(shuffle=True))]
        assert np.mean(spread) < 0.2 * np.mean(plain)

    def test_shuffled_batches_come_in_no_order_of_length(self):
        made = loader(lengths=LENGTHS, shuffle=True, seed=3)
        first, second = batches(made), batches(made)
        assert first != second
        means = [LENGTHS[b].mean() for b in first]
        assert means != sorted(means)
        ordered = [LENGTHS[b].tolist() for b in batches(loader(lengths=LENGTHS))]
        assert flat(ordered) == sorted(LENGTHS.tolist())

    def test_far_apart_samples_meet_in_later_epochs(self):
        """Sorting is among a hundred batches, so that batches are not the same in each epoch."""
        made = loader(1000, 2, lengths=np.zeros(1000, int), shuffle=True)
        first = {tuple(sorted(b)) for b in batches(made)}
        assert len(first & {tuple(sorted(b)) for b in batches(made)}) < 10

    def test_drop_last(self):
        epoch = batches(loader(lengths=LENGTHS, shuffle=True, drop_last=True))
        assert [len(b) for b in epoch] == [8] * 12

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([1, 2], r"each of the 3 samples, got int64 of shape \(2,\)"),
            ([1.0, 2, 3], "got float64"),
            ([1, -2, 3], "got -2 for sample 1"),
        ],
    )
    def test_lengths_that_do_not_fit(self, lengths, message):
        with pytest.raises(DataValueError, match=message):
            loader(3, lengths=lengths)


class TestShares:
    @pytest.mark.sampled(6)
    @pytest.mark.parametrize("world", [1, 2, 3, 7])
    @pytest.mark.parametrize("samples", [7, 100, 101, 112])
    @pytest.mark.parametrize("buckets", [False, True])
    @pytest.mark.parametrize("drop_last", [False, True])
    def test_all_ranks_together_are_the_epoch(self, world, samples, buckets, drop_last):
        options = {"lengths": np.arange(samples) % 5} if buckets else {}
        if drop_last and samples < 4 * world:
            with pytest.raises(EmptyDatasetError, match="no batch at all"):
                loader(samples, 4, drop_last=True, world_size=world, **options)
            return
        ranks = [
            loader(samples, 4, shuffle=True, seed=5, drop_last=drop_last, rank=r,
                   world_size=world, **options)
            for r in range(world)
        ]  # fmt: skip
        for _ in range(2):
            epochs = [batches(r) for r in ranks]
            assert {len(e) for e in epochs} == {len(ranks[0])}
            seen = sorted(flat(b for e in epochs for b in e))
            if drop_last:
                assert len(seen) == len(set(seen)) >= samples - 4 * world
                assert {len(b) for e in epochs for b in e} == {4}
            else:
                assert set(seen) == set(range(samples))
                assert len(seen) < samples + 4 * world

    def test_ranks_have_different_samples(self):
        first, second = (batches(loader(16, 4, rank=r, world_size=2)) for r in range(2))
        assert first == [[0, 2, 4, 6], [8, 10, 12, 14]]
        assert second == [[1, 3, 5, 7], [9, 11, 13, 15]]

    def test_what_makes_no_sense(self):
        with pytest.raises(DataValueError, match="rank 2 is out of range: 2 processes have"):
            loader(rank=2, world_size=2)
        with pytest.raises(DataValueError, match="rank must be an integer of at least 0"):
            loader(rank=-1)
        with pytest.raises(DataValueError, match="world_size must be"):
            loader(world_size=0)
        with pytest.raises(EmptyDatasetError, match=r"in each of 3 processes; .* at most 2"):
            loader(8, 3, drop_last=True, world_size=3)

        class Stream:
            def __iter__(self):
                return iter(range(3))

        for options in ({"world_size": 2}, {"lengths": [1]}, {"weights": [1]}):
            with pytest.raises(DataValueError, match="Stream is a stream"):
                Loader(Stream(), **options)


class TestWeights:
    def test_an_epoch_is_drawn_by_weight(self):
        labels = np.array([0] * 950 + [1] * 50)
        made = loader(1000, 100, weights=balancing_weights(labels))
        first, second = (np.concatenate(batches(made)) for _ in range(2))
        assert len(first) == 1000
        assert abs(labels[first].mean() - 0.5) < 0.06
        assert (first != second).any()

    def test_weights_that_do_not_fit(self):
        with pytest.raises(DataValueError, match="Loader: weights must be one number"):
            loader(3, weights=[1, 2])
        with pytest.raises(DataValueError, match="leave shuffle out"):
            loader(3, weights=[1, 2, 3], shuffle=True)


OPTIONS = [
    {"lengths": LENGTHS, "shuffle": True},
    {"weights": LENGTHS / 7},
    {"rank": 1, "world_size": 3, "shuffle": True},
    {"rank": 2, "world_size": 3, "lengths": LENGTHS, "weights": LENGTHS, "drop_last": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_an_epoch_is_resumed_exactly_after_every_batch(options):
    whole = loader(seed=8, **options)
    expected = [batches(whole), batches(whole)]
    for epoch in range(2):
        for at in range(len(whole)):
            broken = loader(seed=8, **options)
            broken.epoch = epoch
            running = iter(broken)
            for _ in range(at):
                next(running)
            state = json.loads(json.dumps(broken.state_dict()))
            broken.close()
            resumed = loader(seed=8, **options)
            resumed.load_state_dict(state)
            assert batches(resumed) == expected[epoch][at:]


def test_settings_may_be_changed_between_epochs():
    made = loader(12, 3, lengths=np.arange(12))
    made.batch_size = 4
    assert (len(made), [len(b) for b in batches(made)]) == (3, [4, 4, 4])
    made.rank, made.world_size = 1, 3
    assert batches(made) == [[4, 5, 6, 7]]


def test_a_state_of_other_batches_is_refused():
    for options in OPTIONS:
        state = loader(**options).state()
        for other in [{}, *OPTIONS]:
            if other is not options:
                with pytest.raises(DataValueError, match="its batches would differ"):
                    loader(**other).load_state(state)
    with pytest.raises(DataValueError, match="lengths="):
        loader(lengths=LENGTHS).load_state(loader(lengths=LENGTHS + 1).state())


class TestWorkers:
    @pytest.mark.parametrize("prefetch", [0, 2])
    def test_batches_are_the_same_with_any_number(self, prefetch):
        expected = batches(loader(shuffle=True))
        for workers in (1, 3):
            assert batches(loader(shuffle=True, workers=workers, prefetch=prefetch)) == expected
        padded = Loader([[1], [2, 3]], 2, workers=2, collate=Padding(), tensors=False)
        assert batches(padded) == [[[1, 0], [2, 3]]]

    def test_samples_are_made_side_by_side(self):
        meeting = threading.Barrier(2, timeout=10)

        class Waiting:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                meeting.wait()
                return index

        assert batches(Loader(Waiting(), 2, workers=2, tensors=False)) == [[0, 1], [2, 3]]

    def test_what_fails_is_named_and_threads_end(self):
        data = MapDataset(range(9), lambda x: 1 / (x - 7))
        with pytest.raises(SampleError, match=r"sample 7 .*ZeroDivisionError"):
            list(Loader(data, 3, workers=2))
        left = Loader(data, 3, workers=2)
        running = iter(left)
        next(running)
        left.close()
        names = [t.name for t in threading.enumerate()]
        assert not [n for n in names if n.startswith("ingle-worker")]
        with pytest.raises(DataValueError, match="workers must be"):
            loader(workers=-1)


class TestPadding:
    def test_parts_are_padded_each(self):
        samples = [
            {
                "tokens": np.arange(n),
                "weights": np.ones((n, 2), np.float32),
                "n": n,
                "text": "x" * n,
            }
            for n in (2, 4, 1)
        ]
        batch = Padding(7)(samples)
        assert batch["tokens"].tolist() == [[0, 1, 7, 7], [0, 1, 2, 3], [0, 7, 7, 7]]
        assert batch["weights"].shape == (3, 4, 2)
        assert batch["weights"].dtype == np.float32
        assert batch["n"].tolist() == [2, 4, 1]
        assert batch["text"] == ["xx", "xxxx", "x"]

    def test_multiples_and_axes(self):
        images = [np.ones((3, 5, n), np.uint8) for n in (4, 9)]
        batch = Padding(axis=2, multiple=8)(images)
        assert batch.shape == (2, 3, 5, 16)
        assert batch.sum() == 3 * 5 * 13
        assert Padding(multiple=4)([[1], []]).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
        assert Padding(multiple=4)([[1], []]).dtype == np.int64

    def test_nan_and_infinity_fill_floats(self):
        assert np.isnan(Padding(np.nan)([[1.0], [1.0, 2.0]])[0, 1])
        assert Padding(-np.inf)([np.float32([1]), np.float32([1, 2])])[0, 1] == -np.inf

    @pytest.mark.parametrize(
        ("padding", "samples", "message"),
        [
            (Padding(), [np.ones((2, 2)), np.ones((1, 3))], "resize or pad"),
            (Padding(), [np.ones(2), np.ones((1, 3))], "resize or pad"),
            (Padding(-1), [np.ones(2, np.uint8), np.ones(1, np.uint8)], "cannot hold -1"),
            (Padding(0.5), [[1, 2], [1]], "int64, which cannot hold 0.5"),
            (Padding(np.nan), [[1, 2], [1]], "int64, which cannot hold nan"),
        ],
    )
    def test_what_cannot_be_padded(self, padding, samples, message):
        with pytest.raises(DataValueError, match=message):
            padding(samples)

    @pytest.mark.parametrize("options", [{"axis": -1}, {"multiple": 0}, {"multiple": True}])
    def test_arguments(self, options):
        with pytest.raises(DataValueError, match="must be an integer of at least"):
            Padding(**options)
