"""AdaBelief learns, and its updates are those of its formula."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_learns(script, tmp_path, capsys):
    assert script.main(["--epochs", "5", "--out", str(tmp_path)]) >= 0.88
    assert "AdaBelief  loss" in capsys.readouterr().out
    assert (tmp_path / "losses.png").stat().st_size > 5_000


def test_updates_are_those_of_the_formula(script):
    import ingle.tensor as it
    from ingle import nn

    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=5), rng.normal(size=(20, 5))
    parameter = nn.Parameter(it.asarray(start))
    optimizer = script.AdaBelief([parameter], lr=0.1, betas=(0.8, 0.9), weight_decay=0.01)
    x, mean, variance = start.copy(), np.zeros(5), np.zeros(5)
    for t, g in enumerate(gradients, 1):
        optimizer.step((parameter * it.asarray(g)).sum().backward())
        mean = 0.8 * mean + 0.2 * g
        variance = 0.9 * variance + 0.1 * (g - mean) ** 2 + 1e-12
        x *= 1 - 0.1 * 0.01
        x -= 0.1 * (mean / (1 - 0.8**t)) / (np.sqrt(variance / (1 - 0.9**t)) + 1e-12)
        np.testing.assert_allclose(parameter.value.numpy(), x, rtol=1e-10)


def test_a_saved_state_goes_on(script):
    import ingle.tensor as it
    from ingle import nn

    def trained(steps, state=None):
        parameter = nn.Parameter(it.asarray([1.0, 2.0]) if state is None else state[0])
        optimizer = script.AdaBelief([parameter], lr=0.1)
        if state is not None:
            optimizer.load_state_dict(state[1])
        for _ in range(steps):
            optimizer.backward_step((parameter * parameter).sum())
        return parameter.value, optimizer.state_dict()

    assert trained(3, trained(4))[0].tolist() == trained(7)[0].tolist()


def test_bad_options_are_refused(script):
    from ingle import nn

    with pytest.raises(ValueError, match="betas must be in"):
        script.AdaBelief(nn.Linear(1, 1), betas=(0.9, 1.0))
