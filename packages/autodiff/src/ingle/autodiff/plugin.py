"""What this package brings to tensors and cells, by name."""

from ingle.tensor.hooks import hookimpl


@hookimpl
def ingle_transforms() -> dict[str, str]:
    return {
        "lift": "ingle.autodiff.recording:lift",
        "require_grad": "ingle.autodiff.recording:require_grad",
        "backward": "ingle.autodiff.engine:backward",
        "grad": "ingle.autodiff.transforms:grad",
    }
