"""A pole is kept upright; carts move as mechanics has it."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_keeps_the_pole(script, tmp_path, capsys):
    assert script.main(["--steps", "2000", "--out", str(tmp_path)]) >= 100
    assert "at worst" in capsys.readouterr().out
    assert (tmp_path / "learning.png").stat().st_size > 5_000
    assert (tmp_path / "values.safetensors").is_file()


def test_random_pushes_lose_it_soon(script):
    rng = np.random.default_rng(0)
    carts, ages = script.Carts(64, 0), []
    lasted = np.zeros(64)
    for _ in range(400):
        _, _, ended = carts.push(rng.integers(0, 2, 64))
        lasted += 1
        ages += lasted[ended].tolist()
        lasted[ended] = 0
    assert 19 < np.mean(ages) < 26


def test_carts_obey_their_equations(script):
    """Both equations of motion hold: of the whole along the track, and of the pole's turning."""
    carts = script.Carts(100, 1)
    carts.states = np.random.default_rng(1).normal(0, 0.1, (100, 4)).astype(np.float32)
    before = carts.states.astype(np.float64)
    actions = np.arange(100) % 2
    after, failed, _ = carts.push(actions)
    _, speed, angle, turning = before.T
    slide, turn = ((after - before) / carts.TIME).T[[1, 3]]
    np.testing.assert_allclose(after[:, 0], before[:, 0] + carts.TIME * speed, rtol=1e-5, atol=1e-6)
    force = np.where(actions == 1, 10.0, -10.0)
    sine, cosine = np.sin(angle), np.cos(angle)
    along = 1.1 * slide + 0.05 * (turn * cosine - turning**2 * sine)
    np.testing.assert_allclose(along, force, atol=1e-3)
    np.testing.assert_allclose(0.5 * 4 / 3 * turn, 9.8 * sine - slide * cosine, atol=1e-3)
    lost = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > np.radians(12))
    np.testing.assert_array_equal(failed, lost)


def test_the_memory_forgets_the_oldest(script):
    memory = script.Memory(6, 0)
    for i in range(5):
        states = np.full((2, 4), i, np.float32)
        memory.add(states, np.array([0, 1]), states + 1, np.array([False, True]))
    assert sorted(memory.before[:, 0].tolist()) == [2, 2, 3, 3, 4, 4]
    before, actions, after, failed = memory.draw(100)
    np.testing.assert_array_equal(after, before + 1)
    np.testing.assert_array_equal(actions, failed)
