"""A net explains more than a line does, and draws how much."""

from pathlib import Path

import numpy as np
import pytest

from ingle import nn


@pytest.mark.slow
def test_it_explains_a_third_of_the_variance(script, tmp_path, capsys):
    assert script.main(["--epochs", "40", "--out", str(tmp_path)]) >= 0.3
    assert "a linear model: R² 0.3" in capsys.readouterr().out
    assert (tmp_path / "told.png").stat().st_size > 5_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_a_picture_that_has_no_room_is_named(script, tmp_path):
    path = tmp_path / "told.png"
    path.symlink_to("/dev/full")
    with pytest.raises(nn.FileWriteError, match=r"told.png: cannot be written: No space left"):
        script.draw(path, np.ones(3), np.ones(3), "price", 1.0)
