"""Named axes compute what einsum does, say what does not fit, and learn."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_writes_rows_backwards(script, tmp_path):
    assert script.main(["--steps", "100", "--out", str(tmp_path)]) >= 0.99
    assert (tmp_path / "attention.png").stat().st_size > 3_000


@pytest.mark.slow
def test_it_reads_lines_of_a_file(script, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(["abcd", "dcba", "bb", "acacac"] * 20))
    options = ["--data", str(file), "--time", "4", "--steps", "3", "--width", "8", "--heads", "2"]
    assert 0 <= script.main([*options, "--out", str(tmp_path), "--batch-size", "4"]) <= 1


def test_operations_are_those_of_einsum(script):
    import ingle.tensor as it

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5, 2))
    named = script.Named
    x, y = named(it.asarray(a), "batch time width"), named(it.asarray(b), "width out batch")
    found = x.dot(y, "width").tensor("batch", "out", "time").numpy()
    np.testing.assert_allclose(found, np.einsum("btw,wob->bot", a, b))
    total = (x * y - y).tensor("time", "out", "width", "batch").numpy()
    np.testing.assert_allclose(total, np.einsum("btw,wob->towb", a - 1, b))
    parts = x.split("width", head=2, part=2).join("width", "part", "head")
    np.testing.assert_allclose(
        parts.tensor("batch", "time", "width").numpy(),
        a.reshape(2, 3, 2, 2).swapaxes(2, 3).reshape(2, 3, 4),
    )
    np.testing.assert_allclose(
        (x / 2).sum("time").mean("batch").value.numpy(), a.sum(1).mean(0) / 2
    )
    shares = x.softmax("time").sum("time").value.numpy()
    np.testing.assert_allclose(shares, np.ones((2, 4)))


def test_mistakes_name_the_axis(script):
    import ingle.tensor as it

    named = script.Named
    x = named(it.ones((2, 10)), "batch time")
    with pytest.raises(ValueError, match=r"axis 'time' has length 10 in .* and 8 in .*rename one"):
        x + named(it.ones((8,)), "time")
    with pytest.raises(ValueError, match="axis 'time' has length 10"):
        x.dot(named(it.ones((3, 8)), "out time"), "time")
    with pytest.raises(ValueError, match="there is no axis 'tim' in"):
        x.sum("tim")
    with pytest.raises(ValueError, match="needs 2 different names, got time time"):
        named(it.ones((2, 2)), "time time")
    with pytest.raises(ValueError, match="has other axes than batch"):
        x.tensor("batch")
