"""Published models from a server on this machine: checked, continued, and taken once."""

from __future__ import annotations

import gc
import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_server import LocalServer

import ingle.tensor as it
from ingle import importer, nn
from ingle.dataset import DownloadError
from ingle.importer import WeightsError
from ingle.nn import StateError
from ingle.testkit.bits import same_bits

CONFIG = json.dumps({"inputs": 300, "outputs": 40}).encode()


def build(config: Mapping[str, Any]) -> nn.Linear:
    return nn.Linear(config["inputs"], config["outputs"])


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INGLE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def layer() -> nn.Linear:
    return nn.Linear(300, 40)


@pytest.fixture
def folder(tmp_path: Path, layer: nn.Linear) -> Path:
    made = tmp_path / "published"
    made.mkdir()
    (made / "config.json").write_bytes(CONFIG)
    importer.save_safetensors(made / "model.safetensors", layer.state_dict())
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    made = LocalServer({f"/org/net/{f.name}": f.read_bytes() for f in folder.iterdir()})
    lines = [f"{sha(c)}  {Path(n).name}" for n, c in made.files.items()]
    made.files["/org/net/SHA256SUMS"] = "\n".join(lines).encode()
    yield made
    made.close()


def load(server: LocalServer, **options: Any) -> nn.Linear:
    return importer.from_pretrained(server.url + "org/net", build, progress=False, **options)


def asked(server: LocalServer) -> list[str]:
    """The files that were downloaded, without the list of checksums."""
    names = [path.rpartition("/")[2] for path, _ in server.requests]
    return [name for name in names if name != "SHA256SUMS"]


def agrees(module: nn.Linear, layer: nn.Linear) -> None:
    for name, value in layer.state_dict().items():
        assert same_bits(module.state_dict()[name].numpy(), value.numpy())


def test_a_folder(folder: Path, layer: nn.Linear) -> None:
    module = importer.from_pretrained(folder, build)
    agrees(module, layer)
    assert not module.training
    half = importer.from_pretrained(str(folder), build, dtype="float16")
    assert half.weight.raw.dtype == it.float16


def test_a_url_is_downloaded_once(server: LocalServer, layer: nn.Linear, own_cache: Path) -> None:
    agrees(load(server), layer)
    assert asked(server) == ["config.json", "model.safetensors"]
    count = len(server.requests)
    agrees(load(server), layer)
    assert len(server.requests) == count
    place = importer.fetch_pretrained(server.url + "org/net")
    assert place.is_relative_to(own_cache)
    assert place.parts[-2:] == ("org", "net")


def test_an_interrupted_download_goes_on(server: LocalServer, layer: nn.Linear) -> None:
    size = len(server.files["/org/net/model.safetensors"])
    sums = len(server.files["/org/net/SHA256SUMS"])
    server.break_after = [sums, len(CONFIG), 20_000]
    with pytest.raises(DownloadError, match=f"broke off at 20000 of {size} bytes"):
        load(server)
    agrees(load(server), layer)
    assert server.requests[-1] == ("/org/net/model.safetensors", "bytes=20000-")
    assert asked(server).count("config.json") == 1


def test_a_sharded_model(server: LocalServer, layer: nn.Linear, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    importer.save_safetensors(parts / "model.safetensors", layer.state_dict(), shard_size=1_000)
    del server.files["/org/net/model.safetensors"]
    files = {f"/org/net/{f.name}": f.read_bytes() for f in parts.iterdir()}
    assert len(files) == 3
    server.files |= files
    server.files["/org/net/SHA256SUMS"] += "".join(
        f"\n{sha(c)} *{Path(n).name}" for n, c in files.items()
    ).encode()
    agrees(load(server), layer)


def test_checksums_in_the_answer(server: LocalServer, layer: nn.Linear, tmp_path: Path) -> None:
    """As hubs send them: git's name of small files, SHA-256 of large ones before a redirect."""
    weights = server.files["/org/net/model.safetensors"]
    del server.files["/org/net/SHA256SUMS"]
    server.files["/far/away"] = weights
    server.headers["/org/net/config.json"] = {"ETag": f'W/"{git(CONFIG)}"'}
    server.moved["/org/net/model.safetensors"] = "/far/away"
    server.headers["/org/net/model.safetensors"] = {"X-Linked-ETag": f'"{sha(weights)}"'}
    server.headers["/far/away"] = {"ETag": f'"{"0" * 32}"'}
    agrees(load(server), layer)
    server.headers["/org/net/config.json"] = {"ETag": f'"{git(b"another")}"'}
    with pytest.raises(DownloadError, match="the checksum is wrong"):
        importer.fetch_pretrained(server.url + "org/net", folder=tmp_path / "new")


def test_what_is_not_checked_is_not_loaded(server: LocalServer, layer: nn.Linear) -> None:
    del server.files["/org/net/SHA256SUMS"]
    with pytest.raises(WeightsError, match=r"config\.json: neither the server nor the name gives"):
        load(server)
    known = {Path(n).name: sha(c) for n, c in server.files.items()}
    agrees(load(server, checksums=known), layer)
    count = len(server.requests)
    agrees(load(server, checksums=known), layer)
    assert len(server.requests) == count
    with pytest.raises(DownloadError, match="the checksum is wrong"):
        load(server, checksums=known | {"model.safetensors": "0" * 64})


def test_a_file_whose_name_has_the_checksum(server: LocalServer, layer: nn.Linear) -> None:
    content = server.files["/org/net/model.safetensors"]
    name = f"net-{sha(content)[:8]}.safetensors"
    server.files[f"/{name}"] = content
    path = importer.fetch_pretrained(server.url + name, progress=False)
    assert path.read_bytes() == content
    fresh = nn.Linear(300, 40)
    importer.load_weights(fresh, path)
    agrees(fresh, layer)
    server.files["/net-00000000.safetensors"] = content
    with pytest.raises(DownloadError, match="the checksum is wrong"):
        importer.fetch_pretrained(server.url + "net-00000000.safetensors", progress=False)
    with pytest.raises(WeightsError, match="a file of weights alone"):
        importer.from_pretrained(path, build)


def test_an_index_that_leads_out(server: LocalServer) -> None:
    index = json.dumps({"weight_map": {"weight": "../../secret"}}).encode()
    server.files["/org/net/model.safetensors.index.json"] = index
    name = "model.safetensors.index.json"
    server.files["/org/net/SHA256SUMS"] += f"\n{sha(index)}  {name}".encode()
    with pytest.raises(WeightsError, match=r"names '../../secret', which is no file beside it"):
        load(server)


def test_what_is_missing_is_named(server: LocalServer, tmp_path: Path, folder: Path) -> None:
    with pytest.raises(WeightsError, match="there is no such folder or file"):
        importer.fetch_pretrained(tmp_path / "nowhere")
    with pytest.raises(WeightsError, match=r"there is none of model\.safetensors"):
        importer.fetch_pretrained(server.url + "org/other")
    with pytest.raises(WeightsError, match="refused"):
        importer.fetch_pretrained("http://127.0.0.1:9/net")
    (folder / "config.json").write_text("[")
    with pytest.raises(WeightsError, match=r"config\.json: it is no JSON"):
        importer.from_pretrained(folder, build)
    (folder / "config.json").write_text("[]")
    with pytest.raises(WeightsError, match="no table of settings, but list"):
        importer.from_pretrained(folder, build)


def test_a_server_that_redirects_for_ever(server: LocalServer) -> None:
    server.moved["/org/net/SHA256SUMS"] = "/org/net/SHA256SUMS"
    with pytest.raises(WeightsError, match="redirected more than 5 times"):
        load(server)
    server.moved["/org/net/SHA256SUMS"] = "file:///etc/passwd"
    with pytest.raises(WeightsError, match="it is redirected to file"):
        load(server)


def test_matrices_the_other_way_round(tmp_path: Path) -> None:
    weight = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "w.npz", weight=weight, bias=np.ones(3, np.float32))
    layer = nn.Linear(2, 3)
    with pytest.raises(StateError, match=r"the module has shape \(3, 2\), the file \(2, 3\)"):
        importer.load_weights(layer, tmp_path / "w.npz")
    importer.load_weights(layer, tmp_path / "w.npz", transpose=r"^weight$")
    assert same_bits(layer.weight.numpy(), weight.T.copy())


def test_what_is_tied_may_be_there_once(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.table.weight

    weight = np.arange(20.0, dtype=np.float32).reshape(5, 4)
    np.savez(tmp_path / "w.npz", **{"table.weight": weight})
    model = Tied()
    assert importer.load_weights(model, tmp_path / "w.npz").complete
    assert same_bits(model.head.weight.numpy(), weight)


def test_files_without_weights(server: LocalServer, folder: Path) -> None:
    url = server.url + "org/net"
    server.files.pop("/org/net/model.safetensors")
    place = importer.fetch_pretrained(url, files=("no.txt", "config.json"), weights=False)
    assert (place / "config.json").read_bytes() == CONFIG
    assert asked(server) == ["config.json"]
    with pytest.raises(WeightsError, match=r"there is none of no\.txt"):
        importer.fetch_pretrained(server.url + "org/net/", files=("no.txt",), weights=False)


def test_a_folder_with_weights_of_several_dtypes(folder: Path, layer: nn.Linear) -> None:
    halves = {name: value.astype("float16") for name, value in layer.state_dict().items()}
    importer.save_safetensors(folder / "model.fp16.safetensors", halves)
    agrees(importer.from_pretrained(folder, build), layer)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is nothing to read it of")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_first_values_are_not_computed(tmp_path: Path, dtype: str) -> None:
    """They would take as much memory as the weights that are written over them."""
    side, count = 1024, 16
    names = [f"{i}.weight" for i in range(count)]
    array = np.ones((side, side), np.float32)
    importer.save_safetensors(tmp_path / "model.safetensors", dict.fromkeys(names, array))
    (tmp_path / "config.json").write_text("{}")

    def layers(config: Mapping[str, Any]) -> nn.Sequential:
        return nn.Sequential(*[nn.Linear(side, side, bias=False) for _ in range(count)])

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    gc.collect()
    before = resident()
    module = importer.from_pretrained(tmp_path, layers, dtype=dtype)
    assert resident() - before <= 1.25 * nn.footprint(module)
    assert module[0].weight.raw.dtype.name == dtype
    assert module[0].weight.numpy().all()
