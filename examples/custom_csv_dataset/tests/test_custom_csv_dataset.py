"""A table becomes numbers and a net tells grapes; a row that does not fit is named."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_tells_grapes(script, tmp_path, capsys):
    assert script.main(["--epochs", "40", "--out", str(tmp_path)]) >= 0.9
    assert "test accuracy: 0.9" in capsys.readouterr().out.replace("1.0000", "0.9")
    assert (tmp_path / "told.png").stat().st_size > 5_000
    file = tmp_path / "wines.csv"
    again = ["--data", str(file), "--epochs", "2", "--out", str(tmp_path / "again")]
    assert 0 <= script.main([*again, "--device", "numpy"]) <= 1


@pytest.mark.slow
def test_a_bad_row_is_named(script, tmp_path):
    from ingle.dataset import DataFileError

    file = script.written(tmp_path / "wines.csv")
    lines = file.read_text().splitlines()
    lines[2] = lines[2].replace("Barolo", "Riesling")
    file.write_text("\n".join(lines))
    with pytest.raises(DataFileError, match=r"wines\.csv: line 3, row 1: column 'grape'.*Riesling"):
        script.main(["--data", str(file), "--out", str(tmp_path)])


def test_empty_fields_are_the_mean_of_the_others(script):
    rows = [script.Wine("Barolo", *[float(i)] * 10) for i in range(3)]
    rows.append(script.Wine("Barbera", *[1.0] * 5, None, *[1.0] * 4))
    data = script.Standardized(rows)
    numbers, label = data[3]
    np.testing.assert_allclose(numbers, np.zeros(10), atol=1e-6)
    assert label == 2
    np.testing.assert_allclose(data.numbers.mean(0), 0, atol=1e-6)
    assert script.Standardized(rows[:1], data)[0][0][0] == data[0][0][0]
