"""A loop without a learner learns."""

import pytest


@pytest.mark.slow
def test_it_learns(script, tmp_path, capsys):
    assert script.main(["--epochs", "5", "--out", str(tmp_path)]) >= 0.88
    assert "digits/s" in capsys.readouterr().out
    assert (tmp_path / "model.safetensors").is_file()
