"""What ingle-train brings to `ingle`."""

from ingle.tensor.hooks import hookimpl


@hookimpl
def ingle_loggers() -> dict[str, str]:
    """Loggers that write files, and one for MLflow."""
    return {
        "csv": "ingle.train.history:CSVLogger",
        "jsonl": "ingle.train.history:JSONLLogger",
        "mlflow": "ingle.train.mlflow:MLflowLogger",
        "tensorboard": "ingle.train.tensorboard:TensorBoardLogger",
    }
