"""Entries on disk: whole or absent, checked, pruned, never written where that is forbidden."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from moments import PATIENCE, pressed
from tilewright.cache import CacheWarning, Entry, State, Store, cache_stats
from tilewright.cache import store as store_module
from tilewright.cache.entries import InvalidEntry, decode, encode

DIGEST = "ab" + "0" * 62
pytestmark = pytest.mark.filterwarnings("ignore::tilewright.cache.CacheWarning")


def entry(digest: str = DIGEST, body: bytes = b"code") -> Entry:
    return Entry(digest, State.READY, (("kernel", "k"),), {"object": body}, created=1.0)


def test_an_entry_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.find(DIGEST, State.READY) is None
    assert store.publish(entry())
    assert store.find(DIGEST, State.READY) == entry()
    assert store.find(DIGEST, State.GENERATED) is None


@pytest.mark.parametrize("cut", [0, 5, 40, 60])
def test_a_truncated_entry_is_counted_and_ignored(tmp_path: Path, cut: int) -> None:
    store = Store(tmp_path)
    store.publish(entry())
    path = store.path(DIGEST, State.READY)
    path.write_bytes(path.read_bytes()[:cut])
    before = cache_stats().invalid_entries
    assert store.find(DIGEST, State.READY) is None
    assert cache_stats().invalid_entries == before + 1


def test_a_flipped_bit_is_noticed() -> None:
    data = bytearray(encode(entry()))
    data[-3] ^= 1
    with pytest.raises(InvalidEntry, match="checksum"):
        decode(bytes(data))


def test_an_entry_under_another_key_is_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = "cd" + "0" * 62
    store.publish(entry())
    store.path(other, State.READY).parent.mkdir()
    store.path(DIGEST, State.READY).rename(store.path(other, State.READY))
    assert store.find(other, State.READY) is None


def misplaced(path: Path) -> None:
    path.write_bytes(encode(entry("cd" + "0" * 62)))


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(os.name != "posix", reason="makes special files")
@pytest.mark.parametrize("replace", [misplaced, a_pipe, a_directory, endless])
def test_what_stands_in_the_place_of_an_entry_is_no_entry(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    store.publish(entry())
    path = store.path(DIGEST, State.READY)
    replace(path)
    assert store.find(DIGEST, State.READY) is None
    assert list(store.entries()) == [(path, None)]


def test_a_readonly_store_writes_neither_entries_nor_locks(tmp_path: Path) -> None:
    store = Store(tmp_path, readonly=True)
    with store.building(DIGEST):
        assert not store.publish(entry())
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_is_counted_not_raised(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = Store(blocked)
    before = cache_stats().storage_errors
    with pytest.warns(CacheWarning, match="it is no directory"), store.building(DIGEST):
        assert not store.publish(entry())
    assert cache_stats().storage_errors > before


def test_no_unfinished_file_stays_behind(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(5):
        store.publish(entry(body=b"x" * number))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{DIGEST}.ready"]


def test_pruning_takes_the_longest_unused_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = [f"{number:02x}" + "0" * 62 for number in range(4)]
    for age, digest in enumerate(reversed(digests)):
        store.publish(entry(digest, b"x" * 1000))
        used = time.time() - 100 * age
        os.utime(store.path(digest, State.READY), (used, used))
    size = store.path(digests[0], State.READY).stat().st_size
    removed = store.prune(max_bytes=2 * size)
    assert [path.stem for path in removed] == digests[:2]
    assert [path.stem for path in store.prune(max_age=50)] == digests[2:3]
    assert [path.stem for path in store.files()] == digests[3:]


def hold(root: str, held: Event, let_go: Event) -> None:
    with Store(root).building(DIGEST):
        held.set()
        let_go.wait(PATIENCE)


def test_one_process_builds_while_the_others_wait(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, let_go, built = context.Event(), context.Event(), threading.Event()
    other = context.Process(target=hold, args=(str(tmp_path), held, let_go))
    other.start()
    assert held.wait(PATIENCE)
    waits = threading.Thread(target=lambda: (seconds_until_free(tmp_path), built.set()))
    waits.start()
    assert not built.wait(0.2)
    let_go.set()
    assert built.wait(PATIENCE)
    waits.join()
    other.join()


# ---- locks between processes ---------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@contextmanager
def held_by_a_thread(root: Path) -> Iterator[None]:
    """While another thread builds."""
    started, done = threading.Event(), threading.Event()

    def build() -> None:
        with Store(root).building(DIGEST):
            started.set()
            done.wait(2 * PATIENCE)

    builder = threading.Thread(target=build)
    builder.start()
    started.wait(PATIENCE)
    try:
        yield
    finally:
        done.set()
        builder.join()


@contextmanager
def a_child(action: Callable[[], object]) -> Iterator[None]:
    """While a forked child lives, which ends with its action at the latest."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def seconds_until_free(root: Path) -> float:
    start = time.monotonic()
    with Store(root).building(DIGEST):
        return time.monotonic() - start


def test_a_wait_for_a_builder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LOCK_SECONDS", 0.1)
    with held_by_a_thread(tmp_path):
        assert 0.1 <= seconds_until_free(tmp_path) < PATIENCE


def test_a_wait_for_a_builder_ends_with_ctrl_c_and_leaves_nothing(tmp_path: Path) -> None:
    with held_by_a_thread(tmp_path), pytest.raises(KeyboardInterrupt), pressed():
        seconds_until_free(tmp_path)
    assert seconds_until_free(tmp_path) < PATIENCE / 2
    assert list((tmp_path / "locks").iterdir()) == []


@forks
def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    with held_by_a_thread(tmp_path):
        child = a_child(lambda: time.sleep(2 * PATIENCE))
        child.__enter__()
    assert seconds_until_free(tmp_path) < PATIENCE / 2
    child.__exit__(None, None, None)


@forks
def test_a_child_does_not_give_back_the_lock_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_LOCK_SECONDS", 0.2)
    building = Store(tmp_path).building(DIGEST)
    with building, a_child(lambda: building.__exit__(None, None, None)):
        time.sleep(0.2)
        waits = threading.Thread(target=lambda: waited.append(seconds_until_free(tmp_path)))
        waited: list[float] = []
        waits.start()
        waits.join()
    assert waited[0] >= 0.2


def test_a_directory_that_cannot_hold_locks_is_built_in_without(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("")
    with Store(tmp_path).building(DIGEST):
        assert Store(tmp_path).publish(entry())
