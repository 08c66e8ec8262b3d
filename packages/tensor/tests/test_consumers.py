"""SciPy and scikit-learn take tensors where they take arrays of the standard, and return them.

Both read the variable SCIPY_ARRAY_API when they are imported, so that they run in a process of
their own. What they return for NumPy arrays is the reference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

SCIPY = {
    "cluster.vq.whiten": "scipy.cluster.vq.whiten(x)",
    "fft and back": "scipy.fft.ifft(scipy.fft.fft(x, axis=0), axis=0)",
    "signal.hilbert": "scipy.signal.hilbert(x, axis=0)",
    "stats.kurtosis": "scipy.stats.kurtosis(x, axis=0)",
    "stats.pearsonr": "scipy.stats.pearsonr(x[:, 0], x[:, 1]).statistic",
    "special.logsumexp": "scipy.special.logsumexp(x, axis=0)",
    "differentiate.derivative": "scipy.differentiate.derivative(xp.exp, x[:, 0]).df",
}
SKLEARN = {
    "StandardScaler": "preprocessing.StandardScaler().fit_transform(x)",
    "PCA": "decomposition.PCA(2, svd_solver='full').fit(x).explained_variance_",
    "Ridge": "linear_model.Ridge(solver='svd').fit(x, x[:, 0]).predict(x)",
    "rbf_kernel": "metrics.pairwise.rbf_kernel(x)",
    "r2_score": "metrics.r2_score(x[:, 0], x[:, 1])",
    "LabelEncoder": "preprocessing.LabelEncoder().fit_transform(x[:, 0] > 0)",
}
_START = """
import json, sys
import numpy as np
import ingle.tensor as it
values = np.random.default_rng(0).normal(size=(8, 4))

def answer(call):
    answers = {}
    for xp in (np, it):
        got = eval(call, {**globals(), "xp": xp, "x": xp.asarray(values)})
        array = np.asarray(got.numpy() if hasattr(got, "numpy") else got)
        parts = [array.real.tolist(), array.imag.tolist()]
        answers[xp.__name__] = type(got).__name__, array.dtype.name, parts
    return answers
"""
_LIBRARIES = {
    "scipy": """
import scipy.cluster, scipy.differentiate, scipy.fft, scipy.signal, scipy.special, scipy.stats
print(json.dumps({c: answer(c) for c in json.loads(sys.argv[1])}))
""",
    "sklearn": """
from sklearn import config_context, decomposition, linear_model, metrics, preprocessing
with config_context(array_api_dispatch=True):
    print(json.dumps({c: answer(c) for c in json.loads(sys.argv[1])}))
""",
}


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a library returns for each call, with arrays and with tensors."""
    library, calls = request.param
    pytest.importorskip(library)
    code = _START + _LIBRARIES[library]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, json.dumps(list(calls.values()))],
        env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "call"),
    [
        pytest.param((library, calls), call, id=f"{library}-{name}")
        for library, calls in (("scipy", SCIPY), ("sklearn", SKLEARN))
        for name, call in calls.items()
    ],
    indirect=["answers"],
)
def test_libraries_take_tensors(answers: dict[str, Any], call: str) -> None:
    kind, dtype, values = answers[call]["ingle.tensor"]
    expected_kind, expected_dtype, expected = answers[call]["numpy"]
    assert kind == ("float" if expected_kind == "float" else "Tensor")
    assert dtype == expected_dtype
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
