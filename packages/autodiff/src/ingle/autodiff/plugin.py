"""What this package brings to tensors and cells, by name."""

from ingle.tensor.hooks import hookimpl


@hookimpl
def ingle_transforms() -> dict[str, str]:
    return {
        "lift": "ingle.autodiff.tracked:lift",
        "require_grad": "ingle.autodiff.tracked:require_grad",
        "backward": "ingle.autodiff.engine:backward",
        "checkpoint": "ingle.autodiff.checkpoint:checkpoint",
        "recorded_from": "ingle.autodiff.residuals:recorded_from",
        "records": "ingle.autodiff.residuals:records",
        "grad": "ingle.autodiff.transforms:grad",
        "vjp": "ingle.autodiff.products:vjp",
        "linear_program": "ingle.autodiff.programs:linear_program",
        "pushed_program": "ingle.autodiff.programs:pushed_program",
        "batched_program": "ingle.autodiff.programs:batched_program",
    }
