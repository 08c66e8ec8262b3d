"""A transformer learns how text looks, and goes on with one."""

import pytest

SMALL = ["--most=60000", "--length=48", "--width=64", "--layers=2", "--heads=4"]


@pytest.mark.slow
def test_it_learns_to_write(script, tmp_path, capsys):
    # By frequencies of characters alone the loss is 3.1.
    out = f"--out={tmp_path}"
    assert script.main([*SMALL, "--epochs=8", "--count=20", out]) <= 2.75
    capsys.readouterr()
    script.main(["--generate=The class ", "--count=30", out])
    written = capsys.readouterr().out.rstrip("\n")
    assert written.startswith("The class ")
    assert len(written) >= 35


def test_writing_needs_a_model(script, tmp_path):
    with pytest.raises(SystemExit, match="train first"):
        script.main(["--generate=a", f"--out={tmp_path}"])


def test_what_comes_later_is_not_looked_at(script):
    import numpy as np

    import ingle.tensor as it

    it.random.seed(0)
    model = script.Writer(10, 8, 16, 2, 1).eval()
    text = np.arange(8)[None] % 10
    changed = text.copy()
    changed[0, 5:] = 0
    a, b = (model(it.asarray(t)).numpy() for t in (text, changed))
    np.testing.assert_allclose(a[0, :5], b[0, :5], atol=1e-5)
    assert not np.allclose(a[0, 6], b[0, 6], atol=1e-3)
