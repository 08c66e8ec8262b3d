"""Digests of sources: equal for equal ones, another for any that were touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ingle.fusion.support import source_digest
from ingle.fusion.support.disk_store import DiskStore
from ingle.fusion.support.source_digest import folder_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sources"
    (made / "inner").mkdir(parents=True)
    (made / "one.py").write_text("x = 1\n")
    (made / "inner" / "two.py").write_text("y = 2\n")
    (made / "inner" / "data.txt").write_text("z")
    return made


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "store")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were written a moment ago count as old."""
    monkeypatch.setattr(source_digest, "_SETTLED", 0)


def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read from now on."""
    found: list[str] = []
    digest_of = source_digest._digest_of

    def watched(top, places):
        found.extend(places)
        return digest_of(top, places)

    monkeypatch.setattr(source_digest, "_digest_of", watched)
    return found


@pytest.mark.usefixtures("settled")
@pytest.mark.skipif(os.name == "nt", reason="always read there")
def test_sources_that_nobody_touched_are_not_read(folder, store, monkeypatch):
    first = folder_digest(folder, store)
    read = read_files(monkeypatch)
    (folder / "inner" / "data.txt").write_text("no source")
    assert folder_digest(folder, store) == first
    assert read == []


@pytest.mark.usefixtures("settled")
def test_any_change_is_seen(folder, store):
    seen = {folder_digest(folder, store)}
    one = folder / "one.py"
    time.sleep(0.02)  # longer than the steps of the system's clock
    status = one.stat()
    one.write_text("x = 3\n")  # as long as before
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    seen.add(folder_digest(folder, store))
    (folder / "inner" / "three.py").write_text("")
    seen.add(folder_digest(folder, store))
    one.rename(folder / "other.py")
    seen.add(folder_digest(folder, store))
    (folder / "other.py").unlink()
    seen.add(folder_digest(folder, store))
    assert len(seen) == 5


def test_what_changed_just_now_is_read(folder, store, monkeypatch):
    folder_digest(folder, store)
    read = read_files(monkeypatch)
    folder_digest(folder, store)
    assert sorted(map(os.path.basename, read)) == ["one.py", "two.py"]


@pytest.mark.usefixtures("settled")
def test_a_digest_does_not_depend_on_where_a_folder_lies(folder, store, tmp_path):
    (folder).rename(tmp_path / "moved")
    other = folder_digest(tmp_path / "moved", store)
    (tmp_path / "moved").rename(folder)
    assert folder_digest(folder, DiskStore(None)) == other


def test_a_folder_without_sources_has_none(tmp_path):
    with pytest.raises(OSError, match="no sources"):
        folder_digest(tmp_path)


@pytest.mark.usefixtures("settled")
@pytest.mark.skipif(os.name == "nt", reason="always read there")
@pytest.mark.parametrize("written", [b"", b"\xff" * 40, b"../" * 13 + b"a", b"0" * 41])
def test_what_is_no_digest_is_made_anew(folder, store, written):
    first = folder_digest(folder, store)
    (name,) = [p.name for p in store._path.iterdir()]
    store.put(name, written)
    assert folder_digest(folder, store) == first
    assert store.get(name) == first.encode()
