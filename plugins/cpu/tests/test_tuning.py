"""Measurements: what is chosen, kept and refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from ingle_cpu import tuning
from ingle_cpu.contraction_choice import Problem, Variation, choose, first_guess, variations
from ingle_cpu.tuning import Tuner, TuningWarning, choice_for, rounded, tune

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


class TestTuner:
    def test_a_winner_is_measured_once_and_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "t.json"
        first = Tuner(path)
        found = first.variation(LARGE, 1)
        assert found is not None
        assert first.left < tuning.SECONDS
        (entry,) = json.loads(path.read_text())["problems"].values()
        assert Variation(*entry["variation"]) == found
        second = Tuner(path)
        assert second.variation(LARGE, 1) == found
        assert second.left == tuning.SECONDS

    def test_small_problems_and_spent_budgets_take_the_guess(self, tmp_path: Path) -> None:
        path = tmp_path / "t.json"
        assert Tuner(path).variation(LARGE._replace(m=10), 1) is None
        assert Tuner(path, seconds=0).variation(LARGE, 1) is None
        assert not path.exists()

    def test_problems_without_alternatives(self) -> None:
        few = Problem("float32", "float32", (), 4, 4096, 4096, (4096, 1), (1, 4096))
        assert variations(few, 1) == []
        assert Tuner(None).variation(few, 1) is None

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"problems": {"x": {"variation": 3}}}'])
    def test_damaged_files_count_as_absent(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "t.json"
        path.write_text(text)
        assert Tuner(path).variation(LARGE, 1) is not None
        assert len(json.loads(path.read_text())["problems"]) == 1

    def test_a_folder_that_takes_nothing_warns_once(self, tmp_path: Path) -> None:
        made = Tuner(tmp_path / "absent" / "t.json")
        with pytest.warns(TuningWarning, match="not kept"):
            found = made.variation(LARGE, 1)
        assert made.variation(LARGE, 1) == found

    def test_a_candidate_with_another_result_is_never_chosen(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trial = tuning._Trial(LARGE, 1)
        guess = first_guess(LARGE, 1)
        trial.measure(guess, 0)
        trial.expected = np.zeros(1, np.float32)
        with pytest.warns(TuningWarning, match="another result"):
            assert trial.measure(guess._replace(scale=2.0), 0) == float("inf")

    def test_time_is_bounded(self) -> None:
        winner, guess, best = tune(LARGE, 1, 0.0)
        assert winner == first_guess(LARGE, 1)
        assert 0 < best <= guess

    def test_it_can_be_switched_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INGLE_AUTOTUNE", "0")
        monkeypatch.setattr(tuning, "tuner", lambda: pytest.fail("asked"))
        assert choice_for(LARGE, 2) == choose(LARGE, 2)
