"""What ingle-dashboard brings to `ingle`."""

from ingle.tensor.hooks import hookimpl


@hookimpl
def ingle_commands() -> dict[str, str]:
    """`ingle train show` and `ingle train compare`."""
    return {"train": "ingle.dashboard.commands:Train"}
