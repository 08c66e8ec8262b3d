"""The learner recognizes digits, and leaves a run that can be shown and resumed."""

import pytest


@pytest.mark.slow
def test_it_learns_and_leaves_a_run(script, tmp_path, capsys):
    from ingle.dashboard import read_run

    out = tmp_path / "run"
    assert script.main(["--epochs", "3", "--out", str(out)]) >= 0.92
    assert "test accuracy: 0.9" in capsys.readouterr().out
    run = read_run(out)
    assert (run.status, run.epoch) == ("finished", 3)
    assert {"train/top3", "valid/accuracy", "valid/precision", "lr"} <= run.series.keys()
    assert (out / "model.safetensors").is_file()
    script.main(["--epochs", "3", "--out", str(out), "--resume"])
    assert read_run(out).epoch == 3


def test_the_net_takes_digits(script):
    import ingle.tensor as it

    assert script.Net(8)(it.ones((2, 1, 28, 28))).shape == (2, 10)
