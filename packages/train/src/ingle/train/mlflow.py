"""Numbers of trainings for MLflow, by MLflow's own client.

MLflow keeps runs in a database or on a server, and no longer writes folders of files; its client
knows all of them, old and new, so that nothing of their formats is repeated here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, MissingPackageError

from .errors import TrainingError
from .number_logging import NumberLogger

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from .learner import Learner

MOST = 1000
"""Numbers in a message, which is MLflow's limit."""


class MLflowWriter:
    """A `NumberWriter` for MLflow: a training is a run, which a resumed training goes on with.

    If the run has numbers of later steps, which a resumed training makes again, it is left as it is
    and the numbers up to the step are copied to a new one, whose tag `ingle.resumed_from` names it.
    Numbers are sent together, at the latest when `interval` seconds have passed.

    Args:
        uri: of MLflow's store: "sqlite:///runs/mlflow.db", "http://…"; what the environment
            variable MLFLOW_TRACKING_URI says if not given.
        experiment: the name of the experiment, made where there is none.
        run: the name of the run; MLflow makes one up if not given.
        parameters: settings to keep with the run.
        interval: seconds.

    Raises:
        MissingPackageError: MLflow is not installed.
        TrainingError: MLflow refuses, or its server cannot be reached.

    >>> from ingle.train import MLflowWriter
    >>> writer = MLflowWriter("sqlite:///mlflow.db", experiment="digits", parameters={"width": 32})
    >>> writer.run_id is None  # until training begins
    True
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | None = None,
        *,
        experiment: str = "ingle",
        run: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        interval: float = 5.0,
    ) -> None:
        if not number("MLflowWriter", "interval", interval) >= 0:
            raise ArgumentError(f"MLflowWriter: interval must not be negative, got {interval}")
        if not isinstance(parameters, (Mapping, NoneType)):
            raise ArgumentError(
                f"MLflowWriter: parameters must be values by name, got {parameters!r:.80}"
            )
        self.uri = Path(uri).resolve().as_uri() if isinstance(uri, os.PathLike) else uri
        self.experiment = experiment
        self.run = run
        self.parameters = dict(parameters or {})
        self.interval = interval
        self.run_id: str | None = None
        self._client: MlflowClient | None = None
        self._waiting: list[tuple[str, float, int, int]] = []
        self._sent = 0.0

    def begin(self, step: int) -> None:
        with self._speaking() as client:
            earlier = self.run_id if step else None
            if earlier is None:
                self._create(client, {})
            elif _last_step(client, earlier) > step:
                self._create(client, {"ingle.resumed_from": earlier})
                self._waiting = list(_until(client, earlier, step))
                self.flush()
            client.update_run(self._id(), status="RUNNING")
        self._sent = time.monotonic()

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        if self.run_id is None:
            self.begin(0)
        now = int(time.time() * 1000)
        self._waiting += [(_named(name), float(v), now, step) for name, v in numbers.items()]
        if len(self._waiting) >= MOST or time.monotonic() - self._sent >= self.interval:
            self.flush()

    def close(self) -> None:
        self.flush()
        with self._speaking() as client:
            client.set_terminated(self._id())

    def _create(self, client: MlflowClient, tags: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        found = client.get_experiment_by_name(self.experiment)
        place = client.create_experiment(self.experiment) if found is None else found.experiment_id
        self.run_id = client.create_run(place, run_name=self.run, tags=dict(tags)).info.run_id
        settings = [Param(name, str(value)) for name, value in self.parameters.items()]
        if settings:
            client.log_batch(self._id(), params=settings)

    def flush(self) -> None:
        """Sends what has gathered."""
        from mlflow.entities import Metric

        with self._speaking() as client:
            while self._waiting:
                part = [Metric(*one) for one in self._waiting[:MOST]]
                client.log_batch(self._id(), metrics=part)
                del self._waiting[:MOST]
        self._sent = time.monotonic()

    def _id(self) -> str:
        assert self.run_id is not None
        return self.run_id

    @contextmanager
    def _speaking(self) -> Iterator[MlflowClient]:
        """The client; what it cannot do is an error that says where it tried."""
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise MissingPackageError(
                "MLflowWriter: MLflow is not installed; try: pip install ingle-train[mlflow], or "
                "mlflow for its page and for databases"
            ) from None
        try:
            if self._client is None:
                self._client = MlflowClient(tracking_uri=self.uri)
            yield self._client
        except MlflowException as error:
            where = self.uri or os.environ.get("MLFLOW_TRACKING_URI") or "its default place"
            raise TrainingError(f"MLflow at {where}: {error}") from error


def _last_step(client: MlflowClient, run: str) -> int:
    """The last step that the run has numbers of; 0 if it has none."""
    names = client.get_run(run).data.metrics
    found = (one.step for name in names for one in client.get_metric_history(run, name))
    return max(found, default=0)


def _until(client: MlflowClient, run: str, step: int) -> Iterator[tuple[str, float, int, int]]:
    """The numbers of a run up to a step."""
    for name in client.get_run(run).data.metrics:
        for one in client.get_metric_history(run, name):
            if one.step <= step:
                yield name, one.value, one.timestamp, one.step


def _named(name: str) -> str:
    """The name with what MLflow takes: letters, digits and some signs."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)


class MLflowLogger(NumberLogger):
    """Sends the numbers of a training to MLflow (`pip install mlflow`), which shows them.

    `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db` opens them. Names, and what `every`
    means, are `NumberLogger`'s; the other arguments are those of `MLflowWriter`. Checkpoints hold
    which run it is, so that a resumed training goes on with it.

    Args:
        uri: of MLflow's store.
        experiment: the name of the experiment.
        run: the name of the run.
        parameters: settings to keep with the run.
        every: send each so many steps; 0 for evaluations and epochs alone.
        interval: seconds after which what has gathered is sent.

    Raises:
        MissingPackageError: MLflow is not installed, when training begins.
        TrainingError: MLflow refuses, or its server cannot be reached.

    >>> from ingle.train import MLflowLogger
    >>> logger = MLflowLogger("sqlite:///mlflow.db", experiment="digits", every=10)
    >>> logger.writer.experiment, logger.every
    ('digits', 10)
    """

    writer: MLflowWriter

    def __init__(
        self,
        uri: str | os.PathLike[str] | None = None,
        *,
        experiment: str = "ingle",
        run: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        every: int = 1,
        interval: float = 5.0,
    ) -> None:
        writer = MLflowWriter(
            uri, experiment=experiment, run=run, parameters=parameters, interval=interval
        )
        super().__init__(writer, every=every)

    def on_checkpoint(self, learner: Learner, path: Path) -> None:
        self.writer.flush()

    def state(self) -> dict[str, Any]:
        return {"run": self.writer.run_id}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.writer.run_id = state["run"]
