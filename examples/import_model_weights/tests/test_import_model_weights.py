"""Another library's weights tell what they told there."""

import re

import pytest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_tells_the_same(script, tmp_path, capsys):
    assert script.main(["--out", str(tmp_path)]) >= 0.9
    told = capsys.readouterr().out
    assert "coefs.0: float32[64, 64]" in told
    assert float(re.search(r"by at most (\S+)", told)[1]) < 1e-6
    assert "out.weight: the module has shape (3, 64), the file (10, 64)" in told
    again = script.main(["--weights", str(tmp_path / "sklearn.npz"), "--out", str(tmp_path)])
    assert again >= 0.9
    from ingle import importer

    module = script.Reader()
    assert importer.load_weights(module, tmp_path / "model.safetensors").complete
