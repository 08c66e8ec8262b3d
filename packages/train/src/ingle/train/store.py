"""A folder of checkpoints: each file whole or not there, the newest and the best kept."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingle.nn import CheckpointError, FileWriteError, atomic_write, load, save, writing
from ingle.tensor import argument_checks, transaction
from ingle.tensor.callers import warn

from .background import BackgroundWrite, frozen
from .callbacks import Mode, better, checked_mode, monitored
from .errors import CheckpointWarning

FORMAT = 1
"""The version of what `CheckpointStore.save` puts into a file's metadata."""

_LONGEST = 1 << 16
"""Bytes of `best.json` and `latest` at most: they have one line."""
_NAME = re.compile(r"step-(\d{8,})\.safetensors")


class CheckpointStore:
    """Writes and reads checkpoints `step-00000120.safetensors` in one folder, for one training.

    A file is written beside its place, flushed and renamed, so that a crash at any moment leaves
    whole files alone. `latest` names the newest; `best.json` the best, if `monitor` is given.

    Args:
        folder: where they are; made at the first save.
        keep: how many of the newest stay. The best stays besides.
        monitor: the number of an epoch's record that tells the best, such as "valid/accuracy".
        mode: whether a larger ("max") or a smaller ("min") number is better.
        background: whether a thread writes them while training goes on with values of its own.
            What goes wrong is raised by the next `save`, or by `wait`, which a learner calls when
            training ends. There is one file at a time: a `save` waits for the one before.

    >>> import tempfile
    >>> from ingle import nn
    >>> from ingle.train import CheckpointStore
    >>> store = CheckpointStore(tempfile.mkdtemp(), keep=1, monitor="valid/accuracy")
    >>> for step, accuracy in ((10, 0.5), (20, 0.8), (30, 0.7)):
    ...     path = store.save(step, {"model": nn.Linear(2, 1)}, {}, {"valid/accuracy": accuracy})
    >>> store.latest().name, store.best().name
    ('step-00000030.safetensors', 'step-00000020.safetensors')
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 3,
        monitor: str | None = None,
        mode: Mode = "max",
        background: bool = False,
    ) -> None:
        self.folder = argument_checks.path("CheckpointStore", "folder", folder)
        self.keep = argument_checks.whole("CheckpointStore", "keep", keep, least=1)
        self.monitor = monitor
        self.mode: Mode = checked_mode("CheckpointStore", mode)
        self.background = background
        self._writing: BackgroundWrite | None = None

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
            FileWriteError: it could not be; older checkpoints are left alone.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def paths(self) -> list[Path]:
        """All checkpoints, the newest first."""
        if not self.folder.is_dir():
            return []
        found = {int(m[1]): p for p in self.folder.iterdir() if (m := _NAME.fullmatch(p.name))}
        return [found[step] for step in sorted(found, reverse=True)]

    def latest(self) -> Path | None:
        """The checkpoint to resume from; None if there is none.

        Warns with `CheckpointWarning` where `latest` names none of this folder, and takes the one
        of the most steps.
        """
        pointer = self.folder / "latest"
        # A crash between the first checkpoint and its pointer leaves only the former.
        newest = next(iter(self.paths()), None)
        if not _is_there(pointer):
            return newest
        said = _short_text(pointer)
        if said is None or not self._holds(said.strip()):
            _warn(pointer, f"it names no checkpoint of this folder; the newest one is {newest}")
            return newest
        return self.folder / said.strip()

    def best(self) -> Path | None:
        """The checkpoint with the best `monitor`; None if there is none."""
        found = self._best()
        return None if found is None else self.folder / found["file"]

    def save(
        self, step: int, parts: Mapping[str, Any], state: Any, record: Mapping[str, float] | None
    ) -> Path:
        """Writes a checkpoint and lets go of old ones.

        Args:
            step: how many steps were done; names the file.
            parts: the model, the optimizer and whatever else has a `state_dict`, by name.
            state: all else, as values that JSON can hold.
            record: the numbers of the epoch that just ended, in which `monitor` is looked up.

        Raises:
            FileWriteError: the disk is full or read-only; older checkpoints are left alone.
        """
        self.wait()
        if not self.background:
            return self._save_explaining(step, parts, state, record)
        # What was wrong with the record is said at once, not by a thread.
        if record is not None and self.monitor is not None:
            monitored(record, self.monitor, "CheckpointStore")
        kept = {name: frozen(part) for name, part in parts.items()}
        text = json.loads(json.dumps(state))
        noted = None if record is None else dict(record)
        self._writing = BackgroundWrite(lambda: self._save_explaining(step, kept, text, noted))
        return self.folder / f"step-{step:08}.safetensors"

    def _save_explaining(
        self, step: int, parts: Mapping[str, Any], state: Any, record: Mapping[str, float] | None
    ) -> Path:
        older = self.paths()
        try:
            return self._saved(step, parts, state, record)
        except FileWriteError as error:
            good = f"; the last good checkpoint is {older[0]}" if older else ""
            explained = FileWriteError(f"{error}{good}")
            explained.errno = error.errno
            raise explained from error

    def _saved(
        self, step: int, parts: Mapping[str, Any], state: Any, record: Mapping[str, float] | None
    ) -> Path:
        path = self.folder / f"step-{step:08}.safetensors"
        text = json.dumps(state)
        crc = zlib.crc32(text.encode())
        save(path, parts, metadata={"training": FORMAT, "state": text, "crc32": crc})
        with atomic_write(self.folder / "latest") as file:
            file.write(f"{path.name}\n".encode())
        if record is not None and self.monitor is not None:
            self._note_best(path, monitored(record, self.monitor, "CheckpointStore"))
        self._prune(path)
        return path

    def load(self, path: Path, parts: Mapping[str, Any]) -> Any:
        """Sets the parts from a checkpoint and returns its state; or changes nothing and raises.

        Raises:
            CheckpointError: the file cannot be read; the message names the newest that can be.
            StateError: the parts are not those that were saved.
        """
        self.wait()
        try:
            checkpoint = load(path)
            state = _state(path, checkpoint.metadata)
        except CheckpointError as error:
            good = next((p for p in self.paths() if p != path and _readable(p)), None)
            hint = (
                f"The newest good checkpoint is {good}: resume from it with resume={str(good)!r}"
                if good
                else f"There is no other good checkpoint in {self.folder}: start anew"
            )
            raise CheckpointError(f"cannot resume. {error}. {hint}") from error
        with transaction():
            for name, part in parts.items():
                part.load_state_dict(checkpoint.section(name))
        return state

    def clear(self) -> None:
        """Deletes all checkpoints and what interrupted writes left. Other files stay."""
        self.wait()
        for path in [*self.paths(), self.folder / "latest", self.folder / "best.json"]:
            _delete(path)
        self.clean()

    def clean(self) -> None:
        """Deletes what interrupted writes left; no other process may be writing."""
        self.wait()
        for pattern in (".step-*.part", ".latest.*.part", ".best.json.*.part"):
            for path in self.folder.glob(pattern):
                _delete(path)

    def _best(self) -> dict[str, Any] | None:
        pointer = self.folder / "best.json"
        if not _is_there(pointer):
            return None
        try:
            found = json.loads(_short_text(pointer) or "")
            value = found["value"]
            sensible = isinstance(value, int | float) and not isinstance(value, bool)
            if not sensible or not self._holds(found["file"]):
                raise ValueError(f"it has {found}, which names no checkpoint of this folder")
            entry = {"file": found["file"], "monitor": found["monitor"], "value": float(value)}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            _warn(pointer, f"it is damaged ({error!r:.200}); the best one so far is not known")
            return None
        return entry if entry["monitor"] == self.monitor else None

    def _holds(self, name: str) -> bool:
        """Whether a note names a checkpoint that is here: somebody may have deleted it."""
        return _NAME.fullmatch(name) is not None and (self.folder / name).is_file()

    def _note_best(self, path: Path, value: float) -> None:
        found = self._best()
        if found is not None and not better(value, found["value"], self.mode):
            return
        entry = {"file": path.name, "monitor": self.monitor, "value": value}
        with atomic_write(self.folder / "best.json") as file:
            file.write(json.dumps(entry).encode())

    def _prune(self, newest: Path) -> None:
        spare = {newest, self.best()}
        for path in self.paths()[self.keep :]:
            if path not in spare:
                _delete(path)


def _is_there(path: Path) -> bool:
    """Whether there is anything of this name, be it a link to nowhere."""
    return os.path.lexists(path)


def _short_text(path: Path) -> str | None:
    """What a file of one line says; None if it is none that anybody could have written here."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(_LONGEST).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _warn(pointer: Path, why: str) -> None:
    warn(f"{pointer}: {why}", CheckpointWarning)


def _delete(path: Path) -> None:
    with writing(path, " (it was to be deleted)"):
        path.unlink(missing_ok=True)


def _state(path: Path, metadata: Any) -> Any:
    if not isinstance(metadata, dict) or "training" not in metadata:
        raise CheckpointError(
            f"{path}: this file holds values but no training to resume; load it with "
            "ingle.nn.load(path, model)"
        )
    if type(metadata["training"]) is not int:
        raise CheckpointError(f"{path}: the file is damaged: its training format is no number")
    if metadata["training"] > FORMAT:
        raise CheckpointError(
            f"{path}: it has training format {metadata['training']}, and this ingle-train reads "
            f"formats up to {FORMAT}; upgrade with `pip install --upgrade ingle-train`"
        )
    text = metadata.get("state", "")
    try:
        if zlib.crc32(text.encode()) == metadata.get("crc32"):
            return json.loads(text)
    except (ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: the file is damaged: its state cannot be read: {error!r:.200}"
        ) from error
    raise CheckpointError(f"{path}: the file is damaged: the checksum of its state is wrong")


def _readable(path: Path) -> bool:
    try:
        _state(path, load(path).metadata)
    except CheckpointError:
        return False
    return True
