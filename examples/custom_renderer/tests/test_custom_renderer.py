"""A page shows how far training is, and stops it."""

import xml.etree.ElementTree as ElementTree

import pytest


@pytest.mark.slow
def test_it_learns_and_draws(script, tmp_path):
    assert script.main(["--epochs", "6", "--out", str(tmp_path)]) >= 0.9
    root = ElementTree.parse(tmp_path / "progress.svg").getroot()
    lines = root.findall("{*}polyline")
    assert len(lines) == 3
    spots = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in lines]
    assert [len(one) for one in spots] == [240, 6, 6]
    for one in spots:
        assert all(script.EDGE <= x <= script.WIDTH - script.EDGE for x, _ in one)
        assert one[0][1] < one[-1][1] <= script.HEIGHT  # losses fall, and down is more
    assert "finished" in "".join(root.itertext())


def test_a_file_stops_it(script, tmp_path):
    import numpy as np

    import ingle.tensor as it
    from ingle import nn, optim
    from ingle.dataset import ArrayDataset, Loader
    from ingle.train import Learner

    x, model = np.ones((40, 1), np.float32), nn.Linear(1, 1)
    (tmp_path / "stop").touch()
    page = script.Page(tmp_path / "progress.svg", interval=0.0)
    learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss, progress=page)
    learner.fit(Loader(ArrayDataset(x, x), 4), epochs=5)
    assert learner.steps == 1
    assert not (tmp_path / "stop").exists()
    assert "a file asked for it" in (tmp_path / "progress.svg").read_text()


def test_many_points_become_means(script):
    points = [(float(i), float(i % 2)) for i in range(1, 1001)]
    few = script.thinned(points, 100)
    assert len(few) == 100
    assert few[-1] == (1000.0, 0.5)
