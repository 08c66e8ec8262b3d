"""A net explains more than a line does, and draws how much."""

import pytest


@pytest.mark.slow
def test_it_explains_a_third_of_the_variance(script, tmp_path, capsys):
    assert script.main(["--epochs", "40", "--out", str(tmp_path)]) >= 0.3
    assert "a linear model: R² 0.3" in capsys.readouterr().out
    assert (tmp_path / "told.png").stat().st_size > 5_000
