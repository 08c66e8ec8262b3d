"""What all models of the zoo have in common: they are made of a configuration and load weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import ingle.nn as nn
from ingle import importer
from ingle.importer import UnsupportedError
from ingle.tensor import Device


class Pretrained(nn.Module):
    """A model whose parameters have the names of the published checkpoint.

    Attributes:
        kinds: what `model_type` may be in its `config.json`.
        transpose: a pattern of matrices that the checkpoint has the other way round.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    transpose: ClassVar[str | None] = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A model with random weights of the sizes in a published `config.json`."""
        raise NotImplementedError(f"{cls.__name__} has no from_config")

    @classmethod
    def rename(cls, name: str) -> str | None:
        """What a name of a checkpoint is here; None for what is not a weight."""
        return name

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str],
        *,
        dtype: object = None,
        device: Device | str | None = None,
        checksums: Mapping[str, str] | None = None,
        progress: bool = True,
    ) -> Self:
        """The model of a folder, or of a folder's URL; see `ingle.importer.from_pretrained`."""
        return importer.from_pretrained(
            source, cls._checked, rename=cls.rename, transpose=cls.transpose, dtype=dtype,
            device=device, checksums=checksums, progress=progress,
        )  # fmt: skip

    @classmethod
    def _checked(cls, config: Mapping[str, Any]) -> Self:
        kind = config.get("model_type")
        if cls.kinds and kind not in cls.kinds:
            raise UnsupportedError(
                f"{cls.__name__}: config.json is of model_type {kind!r}, and this is "
                f"{' or '.join(map(repr, cls.kinds))}"
            )
        return cls.from_config(config)


def require(model: str, config: Mapping[str, Any], **expected: object) -> None:
    """Refuses a configuration with settings that a model does not have.

    Args:
        model: what the message calls it.
        config: the settings; one that is not there is the right one.
        expected: by the name of a setting the only value, or a tuple of those that are fine.

    Raises:
        UnsupportedError: a setting is there and is another one.
    """
    for name, only in expected.items():
        allowed = only if isinstance(only, tuple) else (only,)
        found = config.get(name, allowed[0])
        if found not in allowed:
            raise UnsupportedError(
                f"{model}: config.json has {name}={found!r}, and there is only "
                f"{' or '.join(map(repr, allowed))}"
            )
