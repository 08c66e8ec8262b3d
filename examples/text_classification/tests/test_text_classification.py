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


@pytest.mark.slow
def test_it_learns_what_chapters_are_about(script, tmp_path, capsys):
    small = ["--epochs=10", "--length=48", "--width=32", "--layers=1", "--lr=6e-3"]
    out = f"--out={tmp_path / 'run'}"
    # The commonest subject, types, has half of the texts.
    assert script.main([*small, out]) >= 0.62
    assert "of 4 labels" in capsys.readouterr().out
    script.main(["--predict=the for statement loops over the items of a sequence", out])
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in lines} == set(script.SUBJECTS)


NEWS = {
    1: ["minister", "war", "election", "border"],
    2: ["match", "goal", "team", "coach"],
    3: ["shares", "bank", "profit", "oil"],
    4: ["software", "chip", "internet", "phone"],
}


def news(draw, count):
    """Rows of the form of AG News: a class from 1, a title, a description, all quoted."""
    rows = []
    for _ in range(count):
        label = draw.choice(list(NEWS))
        words = [*draw.choices(NEWS[label], k=4), *draw.choices(["the", "of", "in"], k=3)]
        draw.shuffle(words)
        rows.append(f'"{label}","{" ".join(words[:3])}","{" ".join(words[3:])}, ""said"""')
    return "\n".join(rows) + "\n"


@pytest.mark.slow
def test_it_learns_from_ag_news_with_a_tokenizer(script, tmp_path, capsys, monkeypatch):
    import hashlib
    import random

    draw, sums = random.Random(0), {}
    for name, count in (("train.csv", 400), ("test.csv", 80)):
        data = news(draw, count).encode()
        (tmp_path / name).write_bytes(data)
        sums[name] = hashlib.md5(data).hexdigest()
    monkeypatch.setattr("ingle.dataset.ag_news_source.CHECKSUMS", sums)
    options = ["--ag-news", f"--data={tmp_path}", "--length=12", "--width=16", "--layers=1"]
    options.append("--lr=6e-3")
    out = f"--out={tmp_path / 'run'}"
    assert script.main([*options, "--epochs=8", out]) >= 0.9
    assert "380 texts to train and 80 to test, of 4 labels" in capsys.readouterr().out
    script.main(["--predict=the team and the coach of the match", out])
    assert capsys.readouterr().out.splitlines()[0].endswith("sports")

    tokenizers = pytest.importorskip("tokenizers")
    words = ["[UNK]", "the", "of", "in", "said", *(word for part in NEWS.values() for word in part)]
    model = tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    options.append(f"--tokenizer={tmp_path / 'tokenizer.json'}")
    assert script.main([*options, "--epochs=8", out]) >= 0.9
    capsys.readouterr()
    script.main(["--predict=profit of the bank", out])
    assert capsys.readouterr().out.splitlines()[0].endswith("business")


def test_a_bad_row_of_a_file_is_named(script, tmp_path):
    from ingle.dataset import DataFileError

    file = tmp_path / "texts.csv"
    file.write_text("weather,rain\nfood\n")
    with pytest.raises(DataFileError, match=r"texts\.csv: line 2, row 1: 1 fields, expected 2"):
        script.main([f"--data={file}", f"--out={tmp_path}"])


def test_a_tokenizer_needs_its_package(script, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SystemExit, match="pip install tokenizers"):
        script.tokenizer_of(tmp_path / "tokenizer.json", [])
