"""Participants of compiled code: who sleeps, who is woken, what ends all of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest

from moments import PATIENCE, comes_true, working_threads
from tilewright.abi import CREWS, GATE_BYTES, Fault, Manifest, Site, WaitKind
from tilewright.errors import CancelledError, Deadlock, IndexOutOfBounds
from tilewright.ops import participant
from tilewright.runtime import hands, stage
from tilewright.runtime.stage import Communicator, Member, Sleeper, Stage

SITE = Site(__file__, 1, 0, 1, 3, '"""P')
MANIFEST = Manifest(sites={7: SITE}, texts={7: "slot {0}"})


def run(count: int, job: Callable[[Stage, Member, int], object]) -> Stage:
    """A job as each of so many members of a stage, which is given back."""
    made = Stage()
    made.running = 1
    comm = Communicator(made, 0, 1, ())
    members = [Member(made, f"block {k}", comm, manifest=MANIFEST) for k in range(count)]
    made.run(members, [lambda k=k: job(made, members[k], k) for k in range(count)])
    return made


def asleep(member: Member, word: ctypes.c_int64, number: int) -> int:
    """Sleeps until a word is at least a number."""
    address = ctypes.addressof(word)
    return member.stage.wait(Sleeper(member, address, number, WaitKind.WIDE, 7))


def test_members_wake_each_other_in_turn() -> None:
    word, order = ctypes.c_int64(0), list[int]()

    def job(made: Stage, member: Member, number: int) -> None:
        assert asleep(member, word, number) == Fault.OK
        order.append(number)
        word.value += 1
        made.wake(ctypes.addressof(word))

    made = run(12, job)
    assert order == list(range(12)) and made.error is None and made.running == 1


def test_narrow_words_are_compared_as_such() -> None:
    pair = (ctypes.c_int32 * 2)(5, -1)

    def job(made: Stage, member: Member, number: int) -> None:
        for kind, wanted in ((WaitKind(0), 4), (WaitKind.EQUAL, 5)):
            sleeper = Sleeper(member, ctypes.addressof(pair), wanted, kind, 7)
            assert sleeper.is_over() and made.wait(sleeper) == Fault.OK
        assert not Sleeper(member, ctypes.addressof(pair), 4, WaitKind.EQUAL, 7).is_over()

    assert run(1, job).error is None


def test_all_asleep_is_a_deadlock_that_names_each() -> None:
    word = ctypes.c_int64(0)
    statuses: list[int] = []

    def job(made: Stage, member: Member, number: int) -> None:
        if number < 2:
            statuses.append(asleep(member, word, 1 + number))

    error = run(3, job).error
    assert isinstance(error, Deadlock) and statuses == [Fault.CANCELLED] * 2
    assert [text for text, _ in error.notes] == [
        "block 0 waits for slot 1",
        "block 1 waits for slot 2",
    ]
    assert error.span == SITE.span


def test_the_first_error_ends_the_others_and_is_kept() -> None:
    word = ctypes.c_int64(0)

    def job(made: Stage, member: Member, number: int) -> None:
        if number == 1:
            raise IndexOutOfBounds("first")
        assert asleep(member, word, 1) == Fault.CANCELLED
        raise CancelledError("gave up")

    error = run(3, job).error
    assert isinstance(error, IndexOutOfBounds)


def test_a_word_that_is_changed_without_a_signal_is_seen_all_the_same() -> None:
    word = ctypes.c_int64(0)

    def job(made: Stage, member: Member, number: int) -> None:
        if number == 0:
            assert asleep(member, word, 1) == Fault.OK
        else:
            threading.Event().wait(0.05)
            word.value = 1
            threading.Event().wait(3 * stage.POLL_SECONDS)

    assert run(2, job).error is None


def test_threads_are_used_again() -> None:
    def names() -> set[str]:
        found: list[str] = []
        together = threading.Barrier(6)

        def job(*_: object) -> None:
            found.append(threading.current_thread().name)
            together.wait(PATIENCE)

        run(6, job)
        return set(found)

    working = working_threads()
    assert len(names()) == 6
    before = threading.active_count()
    for _ in range(5):
        assert comes_true(lambda: working_threads() <= working)
        names()
    assert threading.active_count() == before


def test_a_job_that_is_over_leaves_its_hand_idle() -> None:
    done = threading.Event()
    hands.start(done.set)
    assert done.wait(PATIENCE)


@pytest.mark.parametrize("crew", CREWS)
def test_native_and_interpreted_participants_have_the_same_names(crew: str) -> None:
    assert [stage.title(crew, k) for k in range(3)] == [
        participant.title(crew, k) for k in range(3)
    ]


def test_the_counters_of_ranks_are_as_large_as_the_op_says() -> None:
    rows, columns = participant.GATE_SHAPE
    assert rows * columns * 8 == GATE_BYTES


def test_sleepers_are_found_by_their_word_the_least_number_first() -> None:
    words = (ctypes.c_int64 * 2)(3, 0)
    sleepers, member = stage.Sleepers(), Member(Stage(), "x", Communicator(Stage(), 0, 1, ()))

    def sleeper(word: int, number: int, kind: WaitKind) -> Sleeper:
        made = Sleeper(member, ctypes.addressof(words) + 8 * word, number, kind, 7)
        sleepers.add(made)
        return made

    late, early = sleeper(0, 5, WaitKind.WIDE), sleeper(0, 3, WaitKind.WIDE)
    equal = sleeper(0, 3, WaitKind.WIDE | WaitKind.EQUAL)
    other = sleeper(1, 0, WaitKind.WIDE)
    assert [*sleepers] == [late, early, equal, other]
    assert sleepers.take_over(ctypes.addressof(words)) == [early, equal]
    assert sleepers.take_over(ctypes.addressof(words)) == [] and len(sleepers) == 2
    words[0] = 6
    assert sleepers.take_over() == [late, other] and not [*sleepers]


def test_everybody_is_taken_out_at_once() -> None:
    word, sleepers = ctypes.c_int64(0), stage.Sleepers()
    member = Member(Stage(), "x", Communicator(Stage(), 0, 1, ()))
    made = [Sleeper(member, ctypes.addressof(word), k, WaitKind.WIDE, 7) for k in (2, 1)]
    for each in made:
        sleepers.add(each)
    assert sleepers.take_all() == made
    assert len(sleepers) == 0 and sleepers.take_over() == []
