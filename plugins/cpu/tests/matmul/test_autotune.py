"""Measurements: what is chosen, kept and refused."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from ingle.fusion.support.disk_store import DiskStore
from ingle_cpu.matmul import autotune
from ingle_cpu.matmul.autotune import Tuner, TuningWarning, choice_for, rounded, tune
from ingle_cpu.matmul.blocking import choose, first_guess, variations
from ingle_cpu.matmul.problem import Problem, Variation
from ingle_cpu.matmul.winners import Asked, Winners

LONG = 1e6
"""Seconds: on a busy machine, a measurement takes as long as it takes."""
LARGE = Problem("float32", "float32", (), 400, 420, 400, (400, 1), (420, 1))


class TestRounding:
    def test_problems_of_about_a_size_are_one(self) -> None:
        other = LARGE._replace(m=390, k=410, a_strides=(410, 1))
        assert rounded(other) == rounded(LARGE)

    def test_kinds_of_strides_are_kept_apart(self) -> None:
        turned = LARGE._replace(a_strides=(1, 400))
        assert rounded(turned).a_strides == (1, 384)
        assert rounded(turned) != rounded(LARGE)

    def test_a_shared_operand_stays_shared(self) -> None:
        batched = LARGE._replace(batch=(5, 7), a_strides=(0, 0, 400, 1), b_strides=(9, 9, 420, 1))
        assert rounded(batched).a_strides[0] == 0
        assert rounded(batched).b_strides[0] != 0
        assert rounded(batched).batch == (32,)


def tuner(store: DiskStore) -> Tuner:
    """A process that has time."""
    return Tuner(Winners(store, "t.json", seconds=LONG))


class TestTuner:
    @pytest.fixture
    def store(self, tmp_path: Path) -> DiskStore:
        return DiskStore(tmp_path / "k")

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Measurements come to their end, and none has more runs than it needs."""
        quickest = autotune.quickest
        monkeypatch.setattr(autotune, "SHARE", LONG)
        monkeypatch.setattr(autotune, "quickest", lambda run, _: quickest(run, 0.0))

    def test_a_winner_is_measured_once_and_kept(self, store: DiskStore) -> None:
        first = tuner(store)
        found = first.variation(LARGE, 1)
        assert found is not None
        assert first.left < LONG
        (entry,) = json.loads(store.get("t.json") or b"")["problems"].values()
        assert Variation(*entry["variation"]) == found
        second = tuner(store)
        assert second.variation(LARGE, 1) == found
        assert second.left == LONG

    def test_a_guess_that_nothing_was_tried_beside_has_not_won(
        self, store: DiskStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a new machine its kernels are compiled first, which takes longer than there is."""
        monkeypatch.setattr(autotune, "SHARE", 0.0)
        monkeypatch.setattr(autotune, "_compiled", itertools.count().__next__)
        first = tuner(store)
        assert first.answer(LARGE, 1)[1] == Asked(None, due=True)
        assert first.left < LONG
        assert store.get("t.json") is None
        monkeypatch.setattr(autotune, "SHARE", LONG)
        for process in (first, tuner(store)):
            _, answer = process.answer(LARGE, 1)
            assert answer.variation is not None
            assert not answer.due

    def test_small_problems_and_spent_budgets_take_the_guess(self, store: DiskStore) -> None:
        assert Tuner(Winners(store, "t.json")).variation(LARGE._replace(m=10), 1) is None
        assert Tuner(Winners(store, "t.json", seconds=0)).variation(LARGE, 1) is None
        assert store.get("t.json") is None

    def test_a_measurement_takes_little_memory(
        self, store: DiskStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outer = LARGE._replace(m=9000, n=9000, k=8, a_strides=(8, 1), b_strides=(9000, 1))
        monkeypatch.setattr(autotune, "tune", lambda *_: pytest.fail("324 MB for the result"))
        assert variations(rounded(outer), 1)
        assert Tuner(Winners(store, "t.json")).variation(outer, 1) is None

    def test_the_guess_is_taken_where_there_is_no_memory_to_measure(
        self, store: DiskStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def tune(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(autotune, "tune", tune)
        made = tuner(store)
        assert made.variation(LARGE, 1) is made.variation(LARGE, 1) is None
        assert store.get("t.json") is None

    def test_problems_without_alternatives(self) -> None:
        few = Problem("float32", "float32", (), 4, 4096, 4096, (4096, 1), (1, 4096))
        assert variations(few, 1) == []
        assert Tuner(Winners(DiskStore(None), "t.json")).variation(few, 1) is None

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "[" * 100_000,
            '{"problems": {"x": {"variation": 3}}}',
            '{"problems": {"x": {"variation": [1, 2]}}}',
        ],
    )
    def test_entries_of_another_form_count_as_absent(self, store: DiskStore, text: str) -> None:
        store.put("t.json", text.encode())
        assert tuner(store).variation(LARGE, 1) is not None
        assert len(json.loads(store.get("t.json") or b"")["problems"]) == 1

    @pytest.mark.parametrize(
        "winner", [[10**9, "", "local", 1.0], [2, "else", "local", 1.0], [[], "", "local", 1.0]]
    )
    def test_a_winner_that_nobody_would_try_is_measured_anew(
        self, store: DiskStore, winner: list[object]
    ) -> None:
        key = autotune._key(rounded(LARGE), 1)
        known = {"machine": "", "problems": {key: {"variation": winner}}}
        store.put("t.json", json.dumps(known).encode())
        found = tuner(store).variation(LARGE, 1)
        assert found is not None
        assert list(found) != winner
        assert json.loads(store.get("t.json") or b"")["problems"][key]["variation"] == list(found)

    def test_without_a_folder_a_winner_is_kept_in_the_process(self) -> None:
        made = tuner(DiskStore(None))
        found = made.variation(LARGE, 1)
        left = made.left
        assert made.variation(LARGE, 1) == found
        assert made.left == left

    def test_a_candidate_with_another_result_is_never_chosen(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trial = autotune._Trial(LARGE, 1)
        guess = first_guess(LARGE, 1)
        trial.measure(guess, 0)
        trial.expected = np.zeros(1, np.float32)
        with pytest.warns(TuningWarning, match="another result"):
            assert trial.measure(guess._replace(scale=2.0), 0) == float("inf")

    def test_time_is_bounded(self) -> None:
        tune(LARGE, 1, LONG)  # its kernels are there
        for seconds in (0.0, LONG):
            found = tune(LARGE, 1, seconds)
            assert found is not None
            winner, guess, best = found
            assert 0 < best <= guess
            assert (best == guess) == (winner == first_guess(LARGE, 1))
            assert seconds or winner == first_guess(LARGE, 1)

    def test_it_can_be_switched_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INGLE_AUTOTUNE", "0")
        monkeypatch.setattr(autotune, "tuner", lambda: pytest.fail("asked"))
        assert choice_for(LARGE, 2) == choose(LARGE, 2)
