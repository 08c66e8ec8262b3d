import gzip
import hashlib
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from local_server import LocalServer

from ingle.dataset import (
    DataValueError,
    DownloadError,
    MissingExtraError,
    cache_folder,
    download,
    mnist,
)
from ingle.dataset.downloads import partial_path

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    made = LocalServer({"/file": CONTENT})
    yield made
    made.close()


@pytest.fixture
def second():
    made = LocalServer({"/file": CONTENT})
    yield made
    made.close()


def fetch(path, *servers, **options):
    return download([s.url + "file" for s in servers], path, sha256=SHA, **options)


def test_a_file_is_downloaded_once(server, tmp_path):
    path = tmp_path / "deep" / "down" / "file"
    assert fetch(path, server) == path
    assert path.read_bytes() == CONTENT
    fetch(path, server)
    assert server.requests == [("/file", None)]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_an_interrupted_download_is_continued(server, tmp_path):
    path = tmp_path / "file"
    server.break_after = [100_000]
    with pytest.raises(DownloadError, match=r"broke off at 100000 of 300000 bytes[\s\S]*are kept"):
        fetch(path, server)
    assert not path.exists()
    assert partial_path(path).stat().st_size == 100_000
    fetch(path, server)
    assert path.read_bytes() == CONTENT
    assert server.requests[1] == ("/file", "bytes=100000-")
    assert not partial_path(path).exists()


def test_the_next_mirror_continues(server, second, tmp_path):
    server.break_after = [12_345]
    assert fetch(tmp_path / "file", server, second).read_bytes() == CONTENT
    assert second.requests == [("/file", "bytes=12345-")]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.ranges = False
    server.break_after = [100]
    with pytest.raises(DownloadError):
        fetch(tmp_path / "file", server)
    assert fetch(tmp_path / "file", server).read_bytes() == CONTENT


def test_a_whole_part_file_is_taken_as_it_is(server, tmp_path):
    path = tmp_path / "file"
    partial_path(path).write_bytes(CONTENT)
    assert fetch(path, server).read_bytes() == CONTENT


def test_a_wrong_part_file_is_dropped_and_the_next_mirror_starts_anew(server, tmp_path):
    path = tmp_path / "file"
    partial_path(path).write_bytes(b"of another file" * 30_000)
    assert fetch(path, server, server).read_bytes() == CONTENT
    assert server.requests[1] == ("/file", None)


def test_a_wrong_file_is_never_left_behind(server, second, tmp_path):
    server.files["/file"] = b"an error page"
    assert fetch(tmp_path / "file", server, second).read_bytes() == CONTENT
    path = tmp_path / "other" / "file"
    with pytest.raises(DownloadError, match="the checksum is wrong"):
        fetch(path, server)
    assert list(path.parent.iterdir()) == []


GIT = hashlib.sha1(b"blob 300000\0" + CONTENT).hexdigest()


@pytest.mark.parametrize("known", [{"sha256": SHA[:8]}, {"git_sha1": GIT}, {"sha256": SHA.upper()}])
def test_other_checksums(server, tmp_path, known):
    path = tmp_path / "file"
    for _ in range(2):
        assert download([server.url + "file"], path, **known).read_bytes() == CONTENT
    assert len(server.requests) == 1
    path.write_bytes(b"damaged")
    assert download([server.url + "file"], path, **known).read_bytes() == CONTENT
    server.files["/file"] = b"another one"
    other = tmp_path / "other"
    with pytest.raises(DownloadError, match="the checksum is wrong"):
        download([server.url + "file"], other, **known)
    assert not other.exists()
    assert not partial_path(other).exists()


@pytest.mark.parametrize("known", [{}, {"sha256": SHA, "git_sha1": GIT}, {"sha256": "1234567"}])
def test_one_checksum_is_needed(known, tmp_path):
    with pytest.raises(DataValueError, match="checksum"):
        download(["http://127.0.0.1:9/file"], tmp_path / "file", **known)


def test_what_each_mirror_did_is_told(server, second, tmp_path):
    del server.files["/file"]
    second.stalls = True
    with pytest.raises(DownloadError) as e:
        fetch(tmp_path / "file", server, second, timeout=0.2)
    message = str(e.value)
    assert "no mirror delivered file" in message
    assert f"{server.url}file: the server answered 404" in message
    assert f"{second.url}file: timed out" in message
    assert f"put the file into {tmp_path} by hand" in message


def test_an_answer_that_is_an_error_is_closed(server, tmp_path, monkeypatch):
    """Python 3.15 warns of one that is not, in whatever line the collector runs."""
    del server.files["/file"]
    answers, ask = [], urllib.request.urlopen

    def noted(*args, **options):
        try:
            return ask(*args, **options)
        except urllib.error.HTTPError as error:
            answers.append(error)
            raise

    monkeypatch.setattr(urllib.request, "urlopen", noted)
    with pytest.raises(DownloadError, match="the server answered 404"):
        fetch(tmp_path / "file", server)
    assert [answer.fp.closed for answer in answers] == [True]


def test_no_server_at_all(server, tmp_path):
    with pytest.raises(DownloadError, match="refused"):
        download(["http://127.0.0.1:9/file"], tmp_path / "file", sha256=SHA)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match="cannot make this folder"):
        fetch(tmp_path / "taken" / "file", server)


def test_without_pooch_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r'pip install "ingle-dataset\[download\]"'):
        download(["http://127.0.0.1:9/file"], tmp_path / "file", sha256=SHA)


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("INGLE_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("INGLE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / "ingle" / "data"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("INGLE_DATA", "~/mine")
    assert cache_folder() == tmp_path / "mine"
    # Empty is unset, and relative paths of XDG's are to be ignored.
    monkeypatch.setenv("INGLE_DATA", " ")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "ingle" / "data"
    monkeypatch.setenv("INGLE_DATA", "~no-such-user/x")
    with pytest.raises(DownloadError, match="set INGLE_DATA to a folder of yours"):
        cache_folder()


def test_mnist_is_downloaded_into_its_folder(server, tmp_path, monkeypatch, idx_bytes):
    checksums = {}
    for part, count in (("train", 12), ("t10k", 4)):
        for name, array in (
            (f"{part}-images-idx3-ubyte", np.zeros((count, 28, 28), np.uint8)),
            (f"{part}-labels-idx1-ubyte", np.arange(count, dtype=np.uint8) % 10),
        ):
            data = gzip.compress(idx_bytes(array))
            server.files[f"/{name}.gz"] = data
            checksums[name] = hashlib.sha256(data).hexdigest()
    monkeypatch.setattr("ingle.dataset.mnist_source.CHECKSUMS", checksums)
    options = {"mirrors": ["http://127.0.0.1:9/", server.url], "progress": False}
    assert len(mnist(tmp_path, "train", **options)) == 10
    assert len(mnist(tmp_path, "valid", **options)) == 2
    assert len(mnist(tmp_path, "test", **options)) == 4
    assert len(server.requests) == 4
