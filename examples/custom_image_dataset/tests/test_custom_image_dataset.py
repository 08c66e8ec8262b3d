"""A net recognizes shapes in folders of pictures, and says which it took for what."""

import pytest


@pytest.mark.slow
def test_it_recognizes_shapes(script, tmp_path):
    from PIL import Image

    options = ["--epochs=4", "--pictures=120", f"--out={tmp_path}"]
    assert script.main(options) >= 0.85
    with Image.open(tmp_path / "told.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 20)) > 1000


@pytest.mark.slow
def test_folders_without_a_test_part_are_split(script, tmp_path):
    script.shapes(tmp_path / "photos", 12, 0)
    train, test, classes = script.load(tmp_path / "photos", 24, 0)
    assert (len(train), len(test), classes) == (36, 12, tuple(script.SIDES))
    assert train[0][0].shape == (3, 24, 24)
    options = [f"--data={tmp_path / 'photos'}", "--epochs=1", "--size=24", "--width=4"]
    assert 0 <= script.main([*options, "--batch-size=8", f"--out={tmp_path}"]) <= 1
