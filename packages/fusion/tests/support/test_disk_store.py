"""The store on disk: what it gives back, what it refuses, and whom it keeps out."""

import os
import stat
import subprocess
import sys
import threading
import warnings
from itertools import permutations
from pathlib import Path

import pytest

from ingle.fusion.support import disk_store, disk_sweep
from ingle.fusion.support.disk_store import CacheWarning, DiskStore, cache_folder
from ingle.fusion.support.settings import check_settings
from ingle.tensor.errors import ArgumentError

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no mode here")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def free_umask():
    """Under which `mkdir` lets everybody write."""
    before = os.umask(0)
    yield
    os.umask(before)


class TestEntries:
    @pytest.mark.slow
    def test_bytes_come_back_in_another_process(self, tmp_path: Path) -> None:
        DiskStore(tmp_path / "k").put("a", b"x" * 1000)
        program = "import sys; from pathlib import Path\n"
        program += "from ingle.fusion.support.disk_store import DiskStore\n"
        program += "print(len(DiskStore(Path(sys.argv[1])).get('a') or b''))"
        command = [sys.executable, "-c", program, str(tmp_path / "k")]
        assert subprocess.check_output(command, text=True).strip() == "1000"

    def test_a_later_entry_takes_the_place_of_an_earlier_one(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("a", b"first")
        store.put("a", b"")
        assert store.get("a") == b""

    def test_entries_that_were_exchanged_count_as_absent(self, tmp_path: Path) -> None:
        names = ["a", "b", "plan-1", "host-7.json"]
        store = DiskStore(tmp_path / "k")
        for one, other in permutations(names, 2):
            for name in names:
                store.put(name, name.encode())
            (tmp_path / "k" / one).replace(tmp_path / "k" / other)
            assert store.get(one) is None
            assert store.get(other) is None
            assert not (tmp_path / "k" / other).exists()

    def test_names_and_bytes_cannot_be_shifted_against_each_other(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("ab", b"c")
        (tmp_path / "k" / "ab").replace(tmp_path / "k" / "a")
        entry = (tmp_path / "k" / "a").read_bytes()
        (tmp_path / "k" / "a").write_bytes(entry[:-1] + b"bc")
        assert store.get("a") is None

    def test_every_damaged_byte_is_noticed(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("a", b"payload")
        whole = (tmp_path / "k" / "a").read_bytes()
        damaged = [whole[:n] for n in range(len(whole))]
        damaged += [
            whole[:n] + bytes([whole[n] ^ 1 << n % 8]) + whole[n + 1 :] for n in range(len(whole))
        ]
        for entry in [*damaged, whole + b"\0"]:
            (tmp_path / "k" / "a").write_bytes(entry)
            assert store.get("a") is None
            assert not (tmp_path / "k" / "a").exists()

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "../a", "a/b", "/etc/passwd", ".new-1", "a" * 201, "ä", "a\n", "a\0"],
    )
    def test_a_name_that_could_lead_elsewhere(self, tmp_path: Path, name: str) -> None:
        store = DiskStore(tmp_path / "k")
        for act in (lambda: store.get(name), lambda: store.put(name, b"x")):
            with pytest.raises(ArgumentError, match="letters, digits"):
                act()

    @posix
    @pytest.mark.parametrize("kind", ["pipe", "link", "dangling", "folder", "device"])
    def test_what_is_no_file(self, tmp_path: Path, kind: str) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("real", b"x")
        place = tmp_path / "k" / "a"
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        else:
            target = {"link": "real", "dangling": "nowhere", "device": "/dev/zero"}[kind]
            place.symlink_to(target)
        assert store.get("a") is None
        if kind != "folder":
            store.put("a", b"y")
            assert store.get("a") == b"y"
        assert store.get("real") == b"x"

    @posix
    def test_an_entry_that_others_may_write_to(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("a", b"x")
        (tmp_path / "k" / "a").chmod(0o660)
        assert store.get("a") is None
        store.put("a", b"y")
        assert store.get("a") == b"y"
        assert mode(tmp_path / "k" / "a") == 0o600

    def test_threads_that_begin_together_open_the_folder_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened, together = [], threading.Barrier(4)
        asked = disk_store.Directory.is_there

        class Slow(disk_store.Directory):
            def __init__(self, path: Path) -> None:
                opened.append(self)
                super().__init__(path)

        def is_there(self: disk_store.Directory) -> bool:
            together.wait(10)
            return asked(self)

        store = DiskStore(tmp_path / "k")
        store.put("a", b"x")
        (tmp_path / "k" / "a").unlink()
        (tmp_path / "k").rmdir()  # so that all find the old folder gone, before one opens another
        monkeypatch.setattr(disk_store, "Directory", Slow)
        monkeypatch.setattr(Slow, "is_there", asked)
        monkeypatch.setattr(type(store._directory), "is_there", is_there)
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append(store.get("a"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert found == [None] * 4
        assert len(opened) == 1

    def test_threads_share_one(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=40_000)
        wrong: list[object] = []

        def work() -> None:
            for n in range(100):
                store.put(str(n % 7), str(n % 7).encode() * 1000)
                found = store.get(str(n % 5))
                if found not in (None, str(n % 5).encode() * 1000):
                    wrong.append(found)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestSize:
    def test_there_are_never_very_many_entries(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk_sweep, "MOST", 40)
        monkeypatch.setattr(disk_store, "_SWEEP_EVERY", 8)
        store = DiskStore(tmp_path / "k")
        store.put("winners.json", b"{}")
        for number in range(100):
            store.put(f"plan-{number}", b"small")
        assert len(list((tmp_path / "k").iterdir())) < 50
        assert store.get("plan-99") == b"small"
        assert store.get("winners.json") == b"{}"

    def test_a_large_folder_is_not_gone_through_by_every_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks, now = [], [1e9]
        entries = disk_store.Directory.entries
        monkeypatch.setattr(disk_sweep, "FEW", 4)
        monkeypatch.setattr(disk_sweep.time, "time", lambda: now[0])
        monkeypatch.setattr(
            disk_store.Directory, "entries", lambda self: looks.append(1) or entries(self)
        )

        def process(number: int, store: DiskStore | None = None) -> int:
            """Writes once, and says how often the folder was looked at."""
            looks.clear()
            store = store or DiskStore(tmp_path / "k", limit=20_000)
            store.put(f"plan-{number % 10}", bytes(100))
            assert store.get(f"plan-{number % 10}") == bytes(100)
            return len(looks)

        assert [process(n) for n in range(5)] == [1, 1, 1, 1, 1]  # a few cost nothing
        noted = [process(n) for n in range(10, 14 + 2 * disk_sweep.MOST_MARKS)]
        assert sum(noted) == 2
        assert process(0) == 0
        now[0] += disk_sweep.DAY + 1
        assert [process(1), process(2)] == [1, 0]
        now[0] -= 3 * disk_sweep.DAY  # somebody has set the clock
        assert [process(1), process(2)] == [1, 0]
        for damaged in (b"", b"x", b"1 2 3\n", b"-1 -1\n", b"9" * 9999):
            (tmp_path / "k" / disk_sweep.NOTE).write_bytes(damaged)
            assert [process(1), process(2)] == [1, 0]
        for marks, looked in ((disk_sweep.MOST_MARKS - 1, 0), (disk_sweep.MOST_MARKS, 1)):
            note = b"%d 100\n" % now[0] + disk_sweep.MARK * marks
            (tmp_path / "k" / disk_sweep.NOTE).write_bytes(note)
            assert process(1) == looked
        store = DiskStore(tmp_path / "k", limit=20_000)
        for number in range(300):  # a folder over its limit is swept all the same
            store.put(f"many-{number}", bytes(100))
        assert sum(p.stat().st_size for p in (tmp_path / "k").iterdir()) <= 20_000

    def test_the_entries_used_longest_ago_go_first(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=4096)
        for i in range(66):
            store.put(str(i), bytes(100))
            os.utime(tmp_path / "k" / str(i), (i, i))
            assert sum(p.stat().st_size for p in (tmp_path / "k").iterdir()) <= 4096
        assert store.get("0") is None
        assert store.get("64") is not None

    def test_what_is_used_stays(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=4096)
        for i in range(60):
            store.put(str(i), bytes(100))
            os.utime(tmp_path / "k" / str(i), (i, i))
            assert store.get("0") is not None

    def test_measurements_stay(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=4096)
        store.put("tuning-1.json", b"{}")
        os.utime(tmp_path / "k" / "tuning-1.json", (1, 1))
        for i in range(60):
            store.put(str(i), bytes(100))
        assert store.get("tuning-1.json") == b"{}"

    def test_an_entry_that_would_throw_out_all_others_is_not_kept(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=4096)
        store.put("a", b"x")
        store.put("b", bytes(2000))
        assert store.get("b") is None
        assert store.get("a") == b"x"

    def test_a_file_that_is_larger_than_all_may_be_is_not_read(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k", limit=4096)
        store.put("a", b"x")
        with open(tmp_path / "k" / "a", "r+b") as file:
            file.truncate(1 << 40)
        assert store.get("a") is None

    def test_what_killed_processes_left_goes(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        for name, age in ((".new-old", 1), (".new-young", None)):
            (tmp_path / "k" / name).write_bytes(b"half")
            if age is not None:
                os.utime(tmp_path / "k" / name, (age, age))
        store.put("a", b"x")
        assert {p.name for p in (tmp_path / "k").iterdir()} == {".new-young", "a"}


@posix
class TestOthers:
    @pytest.mark.usefixtures("free_umask")
    def test_all_folders_are_the_users_own(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        DiskStore(tmp_path / "a" / "b" / "k").put("a", b"x")
        for folder in ("a", "a/b", "a/b/k"):
            assert mode(tmp_path / folder) == 0o700
        assert mode(tmp_path / "a/b/k/a") == 0o600

    def test_a_folder_that_others_may_write_to(self, tmp_path: Path) -> None:
        for given in (0o777, 0o770, 0o1777):
            (tmp_path / "k").mkdir()
            (tmp_path / "k").chmod(given)
            with pytest.warns(CacheWarning, match="others may write to it"):
                store = DiskStore(tmp_path / "k")
            store.put("a", b"x")
            assert store.get("a") is None
            assert list((tmp_path / "k").iterdir()) == []
            (tmp_path / "k").rmdir()

    def test_a_parent_that_anybody_may_write_to(self, tmp_path: Path) -> None:
        (tmp_path / "open" / "closed").mkdir(parents=True)
        (tmp_path / "open").chmod(0o777)
        with pytest.warns(CacheWarning, match=r"anybody may exchange .*open \(mode 777\)"):
            DiskStore(tmp_path / "open" / "closed" / "k")
        # As in /tmp, where only owners may rename.
        (tmp_path / "open").chmod(0o1777)
        DiskStore(tmp_path / "open" / "closed" / "k").put("a", b"x")

    def test_a_link_in_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir(mode=0o700)
        (tmp_path / "k").symlink_to(tmp_path / "real")
        with pytest.warns(CacheWarning, match="no folder but a link"):
            DiskStore(tmp_path / "k")

    def test_a_parent_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir(mode=0o700)
        (tmp_path / "cache").symlink_to(tmp_path / "real")
        DiskStore(tmp_path / "cache" / "k").put("a", b"x")
        assert (tmp_path / "real" / "k" / "a").exists()

    def test_a_foreign_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "k").mkdir(mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.warns(CacheWarning, match="not to you"):
            DiskStore(tmp_path / "k")

    def test_a_foreign_entry(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = DiskStore(tmp_path / "k")
        store.put("a", b"x")
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert store.get("a") is None

    def test_a_folder_that_was_exchanged_after_the_check(self, tmp_path: Path) -> None:
        """What lies under the path later does not matter."""
        store = DiskStore(tmp_path / "k")
        store.put("a", b"mine")
        (tmp_path / "k").rename(tmp_path / "moved")
        (tmp_path / "evil").mkdir(mode=0o777)
        DiskStore(tmp_path / "other").put("a", b"theirs")
        (tmp_path / "other" / "a").rename(tmp_path / "evil" / "a")
        (tmp_path / "k").symlink_to(tmp_path / "evil")
        assert store.get("a") == b"mine"
        store.put("b", b"x")
        assert (tmp_path / "moved" / "b").exists()

    def test_a_folder_that_was_deleted_is_made_anew(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        (tmp_path / "k").rmdir()
        store.put("a", b"x")
        assert DiskStore(tmp_path / "k").get("a") == b"x"

    def test_a_descriptor_that_a_daemon_has_closed(self, tmp_path: Path) -> None:
        """`python-daemon` and its like close all there are; the number may be another's next."""
        store = DiskStore(tmp_path / "k")
        store.put("a", b"x")
        (tmp_path / "other").mkdir()
        number = store._directory._number
        os.close(number)
        other = os.open(tmp_path / "other", os.O_RDONLY)
        assert other == number
        assert store.get("a") == b"x"
        store.put("b", b"y")
        assert list((tmp_path / "other").iterdir()) == []
        del store
        os.fstat(other)
        os.close(other)

    def test_descriptors_are_given_back(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "k")
        number = store._directory._number
        del store
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(number)


class TestTrouble:
    def test_a_full_disk_warns_once_and_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        store = DiskStore(tmp_path / "k")
        store.put("old", b"x")
        monkeypatch.setattr(os, "replace", full)
        with pytest.warns(CacheWarning, match="No space left on device"):
            store.put("a", b"x")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.put("b", b"x")
        assert [p.name for p in (tmp_path / "k").iterdir()] == ["old"]

    def test_a_place_where_no_folder_can_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.warns(CacheWarning, match="is not kept in"):
            store = DiskStore(tmp_path / "file" / "k")
        store.put("a", b"x")
        assert store.get("a") is None

    def test_without_a_folder(self) -> None:
        store = DiskStore(None)
        store.put("a", b"x")
        assert store.get("a") is None


class TestPlace:
    @pytest.fixture(autouse=True)
    def _plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("INGLE_CACHE", "INGLE_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)

    def test_the_environment_chooses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INGLE_CACHE_DIR", str(Path("/somewhere")))
        assert cache_folder() == Path("/somewhere/kernels").absolute()
        monkeypatch.setenv("INGLE_CACHE", "0")
        assert cache_folder() is None
        monkeypatch.setenv("INGLE_CACHE", " ")
        assert cache_folder() is not None
        monkeypatch.setenv("INGLE_CACHE", "nein")
        with pytest.raises(ArgumentError, match="INGLE_CACHE is 'nein': give 0 or 1"):
            cache_folder()

    def test_the_users_home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        monkeypatch.setenv("INGLE_CACHE_DIR", "~/mine")
        assert cache_folder() == tmp_path / "mine" / "kernels"
        monkeypatch.setenv("INGLE_CACHE_DIR", "~no-such-user/mine")
        if sys.platform != "win32":
            with pytest.raises(ArgumentError, match="INGLE_CACHE_DIR is '~no-such-user/mine'"):
                cache_folder()
            with pytest.raises(ArgumentError, match="INGLE_CACHE_DIR is '~no-such-user/mine'"):
                check_settings()  # also where the device keeps nothing before it has much to do

    @pytest.mark.skipif(sys.platform != "linux", reason="XDG's variables are Linux'")
    def test_the_caches_of_the_user(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        usual = tmp_path / ".cache" / "ingle" / "kernels"
        # The specification has paths ignored that are not absolute.
        for said in ("", "relative/path", "."):
            monkeypatch.setenv("XDG_CACHE_HOME", said)
            assert cache_folder() == usual
        monkeypatch.setenv("XDG_CACHE_HOME", "~/caches")
        assert cache_folder() == tmp_path / "caches" / "ingle" / "kernels"

    def test_a_relative_folder_is_that_of_the_first_use(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("INGLE_CACHE_DIR", "here")
        monkeypatch.chdir(tmp_path)
        assert cache_folder() == tmp_path / "here" / "kernels"

    def test_a_user_without_a_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(self: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "expanduser", none)
        with pytest.warns(CacheWarning, match="no home folder"):
            assert cache_folder() is None
