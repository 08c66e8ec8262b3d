"""What can be wrong with a file from elsewhere, or with a module that is to leave."""

from __future__ import annotations

from ingle.tensor.errors import IngleError


class ModelError(IngleError, ValueError):
    """A model file cannot be read, or a model cannot be run or written.

    The message names the file, the node or the field, and what to do.

    >>> from ingle import importer
    >>> try:
    ...     importer.load_onnx("absent.onnx")
    ... except importer.ModelError as error:
    ...     print("absent.onnx" in str(error))
    True
    """


class UnsupportedError(ModelError):
    """The model needs an operator, a version or an option that there is none of here.

    >>> from ingle import importer
    >>> try:
    ...     importer.opset(17).Frobnicate
    ... except importer.UnsupportedError as error:
    ...     print("Frobnicate" in str(error))
    True
    """


class WeightsError(ModelError):
    """A file of weights is missing, damaged, hostile, or of another kind than its name says.

    >>> from ingle import importer
    >>> try:
    ...     importer.load_state_dict("absent.safetensors")
    ... except importer.WeightsError as error:
    ...     print("absent.safetensors" in str(error))
    True
    """
