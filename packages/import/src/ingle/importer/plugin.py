"""What this package brings to the console script `ingle`."""

from ingle.tensor.hooks import hookimpl


@hookimpl
def ingle_commands() -> dict[str, str]:
    return {"import": "ingle.importer.command:Import"}
