"""Every public function that computes tensors is checked; the table tells of every operation."""

import inspect

import pytest

import ingle.tensor as it
from ingle.tensor.device import backend_of
from ingle.tensor.eager import EagerBackend
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.cases import operations, subjects
from ingle.testkit.table import report, rows

NOT_CHECKED = {
    "asarray": "takes host data: check_round_trip",
    "from_dlpack": "takes other libraries' memory: the exchange's own tests",
    "allclose": "returns a bool: isclose with all",
    "quantize_dynamic": "returns a QuantizedTensor, made of quantization_range and quantize",
    "quantize_per_channel": "returns a QuantizedTensor, made of quantize",
    "quantize_per_tensor": "returns a QuantizedTensor, made of quantize",
    "transaction": "writes cells: check_cells",
    "anomaly": "watches others: the tests of hooks and of anomalies in nn",
    "broadcast_shapes": "computes sizes: broadcast_arrays",
    "on_host": "marks a function of numbers",
    **dict.fromkeys(
        ("can_cast", "finfo", "iinfo", "isdtype", "promote_types", "result_type", "default_dtypes"),
        "answers about dtypes",
    ),
    **dict.fromkeys(("precision", "chosen_precision"), "casts of others: test_precision of tensor"),
    **dict.fromkeys(("default_device", "device"), "about devices: check_selection"),
}
"""Public functions without samples, each with the reason."""

MODULES = (it, it.linalg, it.fft)  # draws of it.random are tested by their statistics


def public_functions():
    for module in MODULES:
        for name, value in vars(module).items():
            if not name.startswith("_") and inspect.isfunction(value):
                yield name, inspect.unwrap(value)  # without PyTorch's spellings of arguments


def test_every_public_function_is_checked():
    checked = {inspect.unwrap(s.public) for s in subjects()}
    lacking = {n for n, f in public_functions() if f not in checked}
    assert lacking <= NOT_CHECKED.keys(), (
        f"no samples for {sorted(lacking - NOT_CHECKED.keys())}: give each an Operation, or a "
        "`Checked` record in ingle.tensor.checked"
    )


def test_exceptions_are_needed():
    checked = {inspect.unwrap(s.public) for s in subjects()}
    names = {n for n, f in public_functions() if f not in checked}
    assert NOT_CHECKED.keys() <= names


def test_names_are_unique():
    names = [s.name for s in subjects()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_the_table_covers_all_operations():
    found = {r.operation: r for r in rows("numpy")}
    assert found.keys() == {o.name for o in operations()}
    backend = backend_of("numpy")
    for name, row in found.items():
        operation = OPERATIONS[name]
        native = name in backend.kernels or operation.traits.family in backend.kernels
        assert row.road == ("native" if native else "composed"), name
        assert row.seconds is not None, name


@pytest.mark.slow
def test_the_table_tells_of_the_host_and_of_what_is_missing(make_device, monkeypatch):
    where = make_device("bare")
    monkeypatch.setattr(backend_of(where), "kernels", {"exp": backend_of(where).kernels["exp"]})
    found = {r.operation: r.road for r in rows(where)}
    assert found["exp"] == "native"
    assert found["softmax"] == "composed"
    assert found["qr"] == found["full"] == "host"
    monkeypatch.setattr(EagerBackend, "_on_host", lambda *_: 1 / 0)
    assert {r.operation: r.seconds for r in rows(where)}["qr"] is None


@pytest.mark.slow
def test_the_report_counts():
    lines = list(report("numpy"))
    assert lines[0].split()[0] == "operation"
    assert lines[-1].startswith(f"{len(operations())} operations: ")
