"""What may happen to a cache on disk: killed writers, flipped bytes, full and forbidden disks,
clocks that go back, other versions. Never a wrong artifact, never a traceback.

A bounded share runs always; `make test-long` runs the rest.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from moments import PATIENCE
from tilewright.cache import CacheConfig, Entry, State, Store, cache_stats, compiler, entries, store
from tilewright.cache.entries import InvalidEntry, decode, encode
from tilewright.jit import _persistent
from tilewright.jit.cache import Key
from tilewright.runtime import RunConfig

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed"),
    pytest.mark.filterwarnings("ignore::tilewright.cache.CacheWarning"),
]
F32 = np.float32
X = np.ones((16, 16), F32)


def long(*values: Any) -> Any:
    """Values for `make test-long`."""
    return pytest.param(*values, marks=[pytest.mark.long, pytest.mark.timeout(1200)])


def entry_kernel(number: float = 1.0) -> Any:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, number)
        return out

    return k


def use(root: Path, number: float = 1.0, **policy: Any) -> None:
    """A new kernel under a policy, compiled or restored, gives what it should."""
    config = RunConfig(cache_config=CacheConfig(enabled=True, root=root, **policy))
    assert (entry_kernel(number).compile(config=config)(X) == 1 + number).all()


def in_a_child(action: Callable[[], None]) -> int:
    """The process id of a child that runs an action, and ends with 1 when it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException as error:
            os.write(2, f"child: {error!r}\n".encode())
        finally:
            os._exit(code)
    return child


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---- killed writers ------------------------------------------------------------------------------


class Workload:
    """Five kernels whose text is known; machine code is made, published, found and removed."""

    def __init__(self, root: Path) -> None:
        self.config = CacheConfig(enabled=True, root=root, max_bytes=200_000)
        self.generated: dict[Key, Any] = {}
        self.objects: dict[Key, bytes] = {}
        for number in range(5):
            kernel = entry_kernel(float(number))
            made = kernel.compile()
            text = _persistent_text(kernel)
            key = kernel.key()
            self.generated[key] = text
            self.objects[key] = made.kernel.data

    def once(self, chance: random.Random) -> None:
        """One request, as a process of its own makes it; now and then somebody prunes."""
        key = chance.choice([*self.objects])
        text: Any = (None, self.generated[key])
        made = _persistent.obtain(key, self.config, lambda: text)
        assert made.kernel.data == self.objects[key], "another kernel's code"
        if chance.random() < 0.5:
            Store(self.config.directory).prune(max_bytes=chance.randrange(3) * 5000)

    def forever(self, seed: int) -> None:
        chance = random.Random(seed)
        while True:
            self.once(chance)


def _persistent_text(kernel: Any) -> Any:
    from tilewright.jit.build import generate
    from tilewright.jit.options import CompileOptions

    return generate(kernel.specialize(), kernel.name, CompileOptions())


@pytest.mark.parametrize("kills", [40, long(1000)])
def test_writers_may_be_killed_at_any_point(tmp_path: Path, kills: int) -> None:
    work = Workload(tmp_path)
    chance = random.Random(kills)
    children = [in_a_child(lambda seed=seed: work.forever(seed)) for seed in range(2)]
    for kill in range(kills):
        time.sleep(chance.random() * 0.03)
        victim = children.pop(0)
        os.kill(victim, signal.SIGKILL)
        assert status_of(victim) == -signal.SIGKILL, "a writer failed before it was killed"
        assert all(entry is not None for _, entry in Store(tmp_path).entries())
        children.append(in_a_child(lambda seed=kill + 2: work.forever(seed)))
    for child in children:
        os.kill(child, signal.SIGKILL)
        assert status_of(child) == -signal.SIGKILL
    start, before = time.monotonic(), cache_stats().invalid_entries
    for seed in range(20):
        work.once(random.Random(seed))
    assert time.monotonic() - start < PATIENCE / 2 and cache_stats().invalid_entries == before


def test_what_killed_writers_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    use(tmp_path)
    (entry,) = Store(tmp_path).files()
    left = [entry.parent / ".unfinished-abc", tmp_path / "locks" / "0.lock"]
    for path in left:
        path.write_bytes(b"half")
    Store(tmp_path).prune()
    assert all(path.exists() for path in left), "they may be in use"
    for path in left:
        os.utime(path, (time.time() - 7200,) * 2)
    Store(tmp_path).prune()
    assert not any(path.exists() for path in left) and entry.exists()


def test_a_killed_builder_leaves_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GENERATED stands from the moment the text is known until READY replaces it."""

    def die(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def build() -> None:
        monkeypatch.setattr(_persistent, "finish", die)
        use(tmp_path)

    assert status_of(in_a_child(build)) == -signal.SIGKILL
    assert [path.suffix for path in Store(tmp_path).files()] == [".generated"]
    before = cache_stats()
    use(tmp_path)
    assert cache_stats().generated_hits == before.generated_hits + 1
    assert [path.suffix for path in Store(tmp_path).files()] == [".ready"]


# ---- damage --------------------------------------------------------------------------------------


def test_every_flipped_byte_of_an_entry_is_noticed(tmp_path: Path) -> None:
    use(tmp_path)
    (path,) = Store(tmp_path).files()
    data = bytearray(path.read_bytes())
    for place in range(len(data)):
        data[place] ^= 1 << place % 8
        with pytest.raises(InvalidEntry):
            decode(bytes(data))
        data[place] ^= 1 << place % 8
    assert decode(bytes(data)).kernel == "k"


@pytest.mark.parametrize("step", [701, long(1)])
def test_a_kernel_whose_entry_has_a_flipped_byte_is_compiled(tmp_path: Path, step: int) -> None:
    use(tmp_path)
    (path,) = Store(tmp_path).files()
    data = path.read_bytes()
    for place in range(0, len(data), step):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        before = cache_stats()
        use(tmp_path)
        after = cache_stats()
        assert after.invalid_entries > before.invalid_entries and after.misses > before.misses
        assert decode(path.read_bytes()).state is State.READY, "it was written anew"


def test_an_entry_that_lacks_something_is_a_miss(tmp_path: Path) -> None:
    """A checksum says that an entry is whole, not that this version can read it."""
    use(tmp_path)
    (path,) = Store(tmp_path).files()
    whole = decode(path.read_bytes())
    for payloads in ({}, {"facts": b"{}", "object": b""}, {"facts": b"no json", "object": b""}):
        changed = Entry(whole.digest, whole.state, whole.parts, payloads)
        path.write_bytes(encode(changed))
        before = cache_stats().invalid_entries
        use(tmp_path)
        assert cache_stats().invalid_entries > before


def test_damage_is_warned_of_once(tmp_path: Path) -> None:
    use(tmp_path)
    (path,) = Store(tmp_path).files()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            path.write_bytes(b"damage")
            use(tmp_path)
    assert [str(w.message) for w in caught if str(path) in str(w.message)] == [
        f"{path} is not used: it is no entry of this version"
    ]


# ---- disks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1500, long(50)])
def test_a_disk_that_is_full_at_any_byte_costs_the_cache_only(tmp_path: Path, step: int) -> None:
    def fill(limit: int, root: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        use(root)
        use(root)

    for limit in range(0, 12_000, step):
        root = tmp_path / str(limit)
        assert status_of(in_a_child(lambda: fill(limit, root))) == 0, limit  # noqa: B023
        files = [path for path in root.rglob("*") if path.is_file() and path.parent.name != "notes"]
        assert all(decode(path.read_bytes()) for path in files)
        use(root)
        assert [path.suffix for path in Store(root).files()] == [".ready"]


@pytest.mark.parametrize("name", ["mkdir", "replace", "open", "unlink", "utime"])
def test_a_disk_that_refuses_costs_the_cache_only(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path, 2.0)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    homes = {"open": store.os, "utime": store.os}
    monkeypatch.setattr(homes.get(name, Path), name, full)
    use(tmp_path, 1.0)
    use(tmp_path, 2.0)
    monkeypatch.undo()
    use(tmp_path, 1.0)
    assert all(entry is not None for _, entry in Store(tmp_path).entries())


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Path]:
    """A root with an entry, which this user may look at and not change."""
    root = tmp_path / "root"
    use(root)
    paths = [*root.rglob("*"), root]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.owner() == tmp_path.owner() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    yield root
    for path in reversed(paths):
        path.chmod(0o755)


def as_nobody(action: Callable[[], None]) -> int:
    """The status of a child that runs an action without the rights of the system's user."""

    def run() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        action()

    return status_of(in_a_child(run))


def test_a_root_that_cannot_be_written_is_read(forbidden: Path) -> None:
    def look() -> None:
        before = cache_stats()
        use(forbidden)
        use(forbidden, 2.0)
        after = cache_stats()
        assert after.ready_hits == before.ready_hits + 1
        assert after.storage_errors > before.storage_errors

    before = sorted((path, path.stat().st_mtime_ns) for path in forbidden.rglob("*"))
    assert as_nobody(look) == 0
    assert before == sorted((path, path.stat().st_mtime_ns) for path in forbidden.rglob("*"))


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_root_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    use(tmp_path)
    before = cache_stats()
    tmp_path.chmod(mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(tmp_path)
        use(tmp_path, 2.0)
    tmp_path.chmod(0o700)
    assert cache_stats().ready_hits == before.ready_hits
    assert len(Store(tmp_path).files()) == 1
    assert ["chmod 700" in str(w.message) for w in caught] == [True]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a directory away")
def test_a_root_of_another_user_is_refused(tmp_path: Path) -> None:
    use(tmp_path)
    os.chown(tmp_path, 65534, 65534)
    before = cache_stats().ready_hits
    with pytest.warns(match="another user"):
        use(tmp_path)
    assert cache_stats().ready_hits == before


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "root"
    before = os.umask(0)
    try:
        use(root)
    finally:
        os.umask(before)
    paths = [root, *root.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


# ---- size ----------------------------------------------------------------------------------------


def test_the_longest_unused_entries_make_room(tmp_path: Path) -> None:
    for number in range(4):
        use(tmp_path, float(number))
        for path in Store(tmp_path).files():
            os.utime(path, (path.stat().st_mtime - 100,) * 2)
    use(tmp_path, 0.0)  # the first one is used again
    one = max(path.stat().st_size for path in Store(tmp_path).files())
    use(tmp_path, 9.0, max_bytes=2 * one)
    kept = [entry for _, entry in Store(tmp_path).entries() if entry]
    before = cache_stats().ready_hits
    use(tmp_path, 0.0)
    use(tmp_path, 9.0)
    assert len(kept) == 2 and cache_stats().ready_hits == before + 2


def test_an_entry_larger_than_the_bound_is_kept_until_another_comes(tmp_path: Path) -> None:
    for number in range(3):
        use(tmp_path, float(number), max_bytes=1)
        assert len(Store(tmp_path).files()) == 1


# ---- clocks and versions -------------------------------------------------------------------------


def test_a_clock_that_goes_back_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time()]
    monkeypatch.setattr(store.time, "time", lambda: now[0])
    plain = os.utime
    monkeypatch.setattr(store.os, "utime", lambda path: plain(path, (now[0], now[0])))
    for number in range(6):
        now[0] -= 86_400 * 365 * (number % 3)
        use(tmp_path, float(number % 2), max_bytes=20_000)
        use(tmp_path, float(number % 2))
        Store(tmp_path).prune(max_age=3600.0, max_bytes=50_000)
    assert all(entry is not None for _, entry in Store(tmp_path).entries())


def test_versions_that_share_a_root_keep_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        for version in ("one", "two"):
            monkeypatch.setattr(compiler, "_of_this_process", [version])
            before = cache_stats()
            use(tmp_path)
            found = cache_stats().ready_hits - before.ready_hits
            assert found == (len(Store(tmp_path).files()) == 2 and _ == 1)
    assert len(Store(tmp_path).files()) == 2


def test_entries_of_another_format_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path)
    with monkeypatch.context() as other:
        other.setattr(entries, "MAGIC", b"tilewright-cache-9\n")
        other.setattr(compiler, "_of_this_process", ["other"])
        use(tmp_path)
    before = cache_stats().ready_hits
    use(tmp_path)
    assert cache_stats().ready_hits == before + 1 and len(Store(tmp_path).files()) == 2


def package(directory: Path, text: str) -> Path:
    """A package of one file, whose times are always the same."""
    directory.mkdir()
    (directory / "module.py").write_text(text, encoding="utf-8")
    os.utime(directory / "module.py", (10**9, 10**9))
    return directory


def test_a_compiler_is_known_by_its_contents(tmp_path: Path) -> None:
    root = Store(tmp_path / "root")
    first = package(tmp_path / "first", "x = 1")
    same = package(tmp_path / "same", "x = 1")
    other = package(tmp_path / "other", "x = 2")
    identities = [compiler.identity_of(each, root) for each in (first, same, other, first)]
    assert identities[0] == identities[1] == identities[3] != identities[2]
    (first / "module.py").write_text("x = 3", encoding="utf-8")
    os.utime(first / "module.py", (10**9, 10**9))
    assert compiler.identity_of(first, root) not in identities
