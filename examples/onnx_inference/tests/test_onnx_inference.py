"""A net in an ONNX file tells digits, one by one too, as onnxruntime does."""

import numpy as np
import pytest


@pytest.mark.slow
def test_it_reads_digits(script, tmp_path, capsys):
    from PIL import Image

    out = ["--out", str(tmp_path)]
    assert script.main(out) >= 0.93
    assert "y = Gemm(reshape_3, 5.weight, 5.bias" in capsys.readouterr().out
    x, _ = script.arrays("test")
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(tmp_path / "digits.onnx", providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"x": x})
    ours = script.importer.load_onnx(tmp_path / "digits.onnx")(script.it.asarray(x)).numpy()
    np.testing.assert_allclose(ours, scores, atol=1e-4, rtol=1e-4)
    files = []
    for i in range(4):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray((x[i, 0] * 255).round().astype(np.uint8)).save(files[-1])
    assert script.main([*out, *map(str, files)]) == scores[:4].argmax(-1).tolist()


def test_pictures_are_cut_in_the_middle(script, tmp_path):
    from PIL import Image

    pixels = np.zeros((20, 60, 3), np.uint8)
    pixels[:, 20:40] = 255
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    x = script.prepared(tmp_path / "wide.png", 3, 20, 20, (0.5,) * 3, (0.5,) * 3)
    np.testing.assert_allclose(x, np.ones((3, 20, 20)))
    assert script.prepared(tmp_path / "wide.png", 1, 8, 8, (0.0,) * 3, (1.0,) * 3).shape == (
        1,
        8,
        8,
    )
