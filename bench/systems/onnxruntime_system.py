"""onnxruntime: published models as ONNX files, which Ingle writes on the device `numpy`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnxruntime
from workload import Workload

import ingle.tensor as it
from ingle import importer
from systems.ingle_published import loaded

from . import Run, System


def infer(w: Workload) -> Run:
    """A session on the file of a model."""
    (x,) = w.inputs()
    with it.device("numpy"), tempfile.TemporaryDirectory() as folder:
        model = loaded(w.function, w.parameters(), w.options.get("sizes"))
        path = Path(folder) / "model.onnx"
        importer.export_onnx(model, it.asarray(x), path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("BENCH_THREADS", "2"))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def to_numpy(result: Any) -> Any:
    return result


def system(name: str) -> System:
    return System(
        library="onnxruntime",
        build={"infer": infer},
        functions=dict.fromkeys(("squeezenet", "resnet18", "minilm"), infer),
        to_numpy=to_numpy,
        skips={"import": "it computes nothing by itself"},
    )
