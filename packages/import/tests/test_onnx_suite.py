"""The onnx package's own tests of backends, run through `ingle.importer.onnx_backend`."""

from __future__ import annotations

import re
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ingle.importer import onnx_backend
from ingle.importer.onnx.reading import known_operators

PAGE = Path(__file__).resolve().parents[3] / "docs" / "import.md"
KINDS = ("OnnxBackendNodeModelTest", "OnnxBackendSimpleModelTest",
         "OnnxBackendPyTorchOperatorModelTest", "OnnxBackendPyTorchConvertedModelTest")  # fmt: skip


def excepted() -> list[str]:
    """The cases that the page lists as not passing, as regular expressions."""
    rows = re.findall(r"^\| `(test_\S+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows
    return [row.replace("*", r"\w*") for row in rows]


def backend_on(device: str) -> type[onnx_backend.IngleBackend]:
    """The backend whose `CPU` is a device of Ingle's."""

    class On(onnx_backend.IngleBackend):
        @classmethod
        def prepare(cls, model: Any, device_: str = "CPU", **kwargs: Any) -> Any:
            return super().prepare(model, device, **kwargs)

    return On


@pytest.mark.slow
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_the_suite_passes_but_for_what_the_page_lists(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx.backend.test

        cases = onnx.backend.test.BackendTest(backend_on(device), __name__).test_cases
        chosen = unittest.TestSuite(
            test
            for kind in KINDS
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(cases[kind])
            if test.id().endswith("_cpu")
        )
        result = unittest.TestResult()
        chosen.run(result)
    wrong = {test.id() for test, _ in [*result.failures, *result.errors, *result.skipped]}
    listed = {row: {i for i in wrong if re.search(row, i)} for row in excepted()}
    assert wrong == set().union(*listed.values())
    assert all(listed.values()), "a row of the page whose cases pass"
    assert result.testsRun > 2000


SAMPLES: dict[str, tuple[dict[str, object], list[np.ndarray]]] = {}


def sample(kind: str, *shapes: tuple[int, ...], **attributes: object) -> None:
    rng = np.random.default_rng(len(SAMPLES))
    SAMPLES[f"{kind} {attributes or ''}"] = (
        attributes,
        [rng.normal(size=s).astype(np.float32) for s in shapes],
    )


sample("Conv", (1, 4, 7, 6), (6, 2, 3, 3), (6,), group=2, pads=[1, 0, 2, 1], strides=[2, 1])
sample("ConvTranspose", (1, 3, 4, 5), (3, 2, 3, 3), strides=[2, 2], pads=[1, 0, 0, 1])
sample("MaxPool", (1, 2, 7, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
sample("AveragePool", (1, 2, 7, 7), kernel_shape=[3, 2], pads=[1, 0, 0, 1])
sample("LSTM", (4, 2, 3), (2, 20, 3), (2, 20, 5), direction="bidirectional", hidden_size=5)
sample("GRU", (4, 2, 3), (1, 15, 3), (1, 15, 5), hidden_size=5, linear_before_reset=1)
sample("LayerNormalization", (2, 3, 4), (3, 4), (3, 4), axis=1)
sample("LRN", (5, 5, 3, 3), size=4)
sample("Gemm", (3, 4), (5, 3), (5,), transA=1, transB=1, alpha=0.5)
sample("Softmax", (2, 3, 4), axis=1)
sample("LogSoftmax", (2, 3, 4))
sample("Einsum", (2, 3), (3, 4), equation="ij,jk->ki")
sample("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD")
sample("InstanceNormalization", (2, 3, 4, 4), (3,), (3,))
sample("ReduceLogSumExp", (2, 3, 4), keepdims=0)
sample("Elu", (5,), alpha=0.5)
sample("PRelu", (2, 3), (3,))
sample("Hardmax", (2, 5))


@pytest.mark.parametrize("name", SAMPLES)
def test_operators_equal_the_reference(name: str) -> None:
    kind = name.split(" ")[0]
    attributes, arrays = SAMPLES[name]
    names = [f"x{i}" for i in range(len(arrays))]
    node = onnx.helper.make_node(kind, names, ["y"], **attributes)
    expected = ReferenceEvaluator(node).run(None, dict(zip(names, arrays, strict=True)))
    (got,) = onnx_backend.run_node(node, arrays, device="numpy")
    np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-5)


def test_every_operator_of_the_newest_opset_is_there() -> None:
    known = known_operators()
    missing = {
        (s.domain, s.name)
        for s in onnx.defs.get_all_schemas()
        if not s.deprecated and (s.domain, s.name) not in known
    }
    assert missing == {("ai.onnx.ml", "SVMClassifier"), ("ai.onnx.preview.training", "Gradient")}


def test_the_backend_answers_for_devices() -> None:
    assert onnx_backend.supports_device("numpy")
    assert not onnx_backend.supports_device("TOASTER")
