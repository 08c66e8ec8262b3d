"""Runs that MLflow itself reads; without it an error that says what to install."""

import importlib.util
import math
import sys

import numpy as np
import pytest
from learners import loader, make

from ingle.tensor.errors import ArgumentError, MissingPackageError
from ingle.train import MLflowLogger, MLflowWriter, TrainingError


@pytest.fixture
def client(tmp_path, monkeypatch):
    """MLflow's client of a database of its own, or of files where it has no database here."""
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    if not (importlib.util.find_spec("sqlalchemy") and importlib.util.find_spec("alembic")):
        uri = (tmp_path / "mlruns").as_uri()
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return mlflow.MlflowClient(tracking_uri=uri)


def runs(client):
    """All runs of the experiment, the oldest first."""
    place = client.get_experiment_by_name("tries").experiment_id
    return sorted(client.search_runs([place]), key=lambda run: run.info.start_time)


def history(client, run, name):
    found = client.get_metric_history(run.info.run_id, name)
    return sorted((one.step, one.value) for one in found)


def logger(**options):
    return MLflowLogger(experiment="tries", parameters={"width": 8}, **options)


pytestmark = pytest.mark.filterwarnings("ignore")
"""MLflow's own warnings."""


@pytest.mark.slow
def test_mlflow_reads_a_training_that_was_resumed(client, tmp_path):
    kept, times = tmp_path / "kept", {"seconds", "waited"}
    first = make(callbacks=[logger(run="first")], checkpoints=kept, checkpoint_every=3)
    records = first.fit(loader(), epochs=1, valid=loader())
    (run,) = runs(client)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params == {"width": "8"}
    assert [step for step, _ in history(client, run, "loss")] == [1, 2, 3, 4, 5]
    assert history(client, run, "train/loss") == [(5, records[0]["train/loss"])]
    assert history(client, run, "valid/loss") == [(5, records[0]["valid/loss"])]
    assert set(run.data.metrics) == {"loss", "lr", "train/loss", "valid/loss", *times}

    # From its end: the same run goes on.
    whole = make(callbacks=[logger()], checkpoints=kept)
    whole.fit(loader(), epochs=2, valid=loader(), resume=True)
    (run,) = runs(client)
    losses = history(client, run, "loss")
    assert [step for step, _ in losses] == list(range(1, 11))
    assert losses[-1] == (10, whole.last_loss)

    # From an earlier step: a new run with what was before it, and what is made again.
    for path in kept.glob("step-*"):
        if path.name != "step-00000005.safetensors":
            path.unlink()
    (kept / "latest").write_text("step-00000005.safetensors\n")
    make(callbacks=[logger()], checkpoints=kept).fit(
        loader(), epochs=2, valid=loader(), resume=True
    )
    old, new = runs(client)
    assert new.data.tags["ingle.resumed_from"] == old.info.run_id
    assert history(client, new, "loss") == history(client, old, "loss") == losses


@pytest.mark.slow
def test_numbers_of_any_size_and_name(client):
    writer = MLflowWriter(experiment="tries", interval=1e9)
    writer.begin(0)
    for step in range(1, 601):
        writer.write(step, {"a": step, "b": -step})
    writer.write(601, {"größe@5": math.nan, "large": math.inf})
    writer.close()
    (run,) = runs(client)
    assert [step for step, _ in history(client, run, "a")] == list(range(1, 601))
    assert run.data.metrics["b"] == -600
    assert math.isnan(run.data.metrics["größe_5"])
    assert run.data.metrics["large"] > 1e300
    stranger = MLflowWriter(experiment="tries")
    stranger.run_id = "0" * 32
    with pytest.raises(TrainingError, match=r"MLflow at .*: .*Run.*not found"):
        stranger.begin(5)


def test_without_mlflow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingPackageError, match=r"pip install ingle-train\[mlflow\]"):
        make(callbacks=[MLflowLogger()]).fit(loader(), epochs=1)
    with pytest.raises(ArgumentError, match="interval must not be negative"):
        MLflowWriter(interval=np.nan)
