"""A transformer learns what texts are about, and says so of new ones."""

import pytest


@pytest.mark.slow
def test_it_learns_from_a_file(script, tmp_path, capsys):
    import random

    draw = random.Random(0)
    kinds = {
        "weather": ["rain", "sun", "wind", "cloud", "storm", "snow"],
        "food": ["bread", "soup", "apple", "cheese", "rice", "cake"],
    }
    rows = []
    for _ in range(300):
        kind = draw.choice(list(kinds))
        words = [*draw.choices(kinds[kind], k=3), *draw.choices(["the", "a", "and", "was"], k=4)]
        draw.shuffle(words)
        rows.append(f'{kind},"{" ".join(words)}"')
    (tmp_path / "texts.csv").write_text("\n".join(rows))
    out = f"--out={tmp_path / 'run'}"
    options = [f"--data={tmp_path / 'texts.csv'}", "--length=8", "--width=16", "--layers=1"]
    assert script.main([*options, "--epochs=20", out]) >= 0.95
    capsys.readouterr()
    script.main(["--predict=the rain and a storm", out])
    assert capsys.readouterr().out.splitlines()[0].endswith("weather")


def test_predicting_needs_a_model(script, tmp_path):
    with pytest.raises(SystemExit, match="train first"):
        script.main(["--predict=a", f"--out={tmp_path}"])


def test_padding_changes_nothing(script):
    import numpy as np

    import ingle.tensor as it

    it.random.seed(0)
    model = script.Classifier(20, 3, 8, 16, 1).eval()
    short = np.array([[5, 6, 7]])
    long = np.array([[5, 6, 7, 0, 0, 0, 0, 0]])
    a, b = (model(it.asarray(t)).numpy() for t in (short, long))
    np.testing.assert_allclose(a, b, atol=1e-5)
