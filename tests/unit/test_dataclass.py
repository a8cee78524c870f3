"""Our dataclasses are those of the standard library, made later: both are asked the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.dataclass import dataclass

OPTIONS = [
    {"frozen": frozen, "eq": eq, "slots": slots}
    for frozen in (False, True)
    for eq in (False, True)
    for slots in (False, True)
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def classes_of(decorate: Callable[..., Any], options: dict[str, bool]) -> Any:
    """A base, a subclass and an empty class of one decorator."""

    @decorate(**options)
    class Base:
        """A base."""

        left: int
        right: Any = 2
        items: list[int] = field(default_factory=list[int])
        hidden: int = field(default=5, repr=False, compare=False)

    @decorate(**options)
    class Derived(Base):
        """A subclass with a field of its own, and another default."""

        right: Any = 7
        more: str = "m"

    @decorate(**options)
    class Empty:
        """Nothing inside."""

    return SimpleNamespace(base=Base, derived=Derived, empty=Empty)


def answer(ask: Callable[[], Any]) -> Any:
    """What a question gives, or the class of what it raises."""
    try:
        return ask()
    except Exception as error:
        return type(error)


def raises(ask: Callable[[], Any]) -> bool:
    """True when a question has no answer."""
    return isinstance(answer(ask), type)


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "repr": lambda c: repr(c.derived(1, items=[3])).replace("test_dataclass.", ""),
    "same": lambda c: c.base(1) == c.base(1),
    "other value": lambda c: c.base(1) == c.base(2),
    "hidden value": lambda c: c.base(1, hidden=3) == c.base(1),
    "other class": lambda c: c.base(1) == c.derived(1, 2),
    "an object of none": lambda c: c.base(1) == 1,
    "hash": lambda c: hash(c.base(1, items=())) and None,
    "hash function": lambda c: c.base.__hash__ is None,
    "default": lambda c: (c.derived(1).right, c.base(1).items, c.derived(1).more),
    "factory": lambda c: c.base(1).items is c.base(1).items,
    "many": lambda c: [repr(c.derived(n, more=n)).partition("Derived")[2] for n in range(99)],
    "given twice": lambda c: c.base(1, left=2),
    "too few": lambda c: c.base(),
    "too many": lambda c: c.base(1, 2, [], 3, 4),
    "unknown": lambda c: c.base(1, other=3),
    "assignment": lambda c: setattr(c.base(1), "left", 3),
    "new attribute": lambda c: raises(lambda: setattr(c.base(1), "new", 3)),
    "deletion": lambda c: delattr(c.base(1), "left"),
    "replace": lambda c: dataclasses.asdict(dataclasses.replace(c.derived(1), more="x")),
    "fields": lambda c: [f.name for f in dataclasses.fields(c.derived)],
    "namespace": lambda c: hasattr(c.base(1), "__dict__"),
    "parameters": lambda c: str(inspect.signature(c.derived)),
    "match": lambda c: c.derived.__match_args__,
    "empty": lambda c: (c.empty() == c.empty(), repr(c.empty()).rpartition(".")[2]),
    "copy": lambda c: dataclasses.asdict(copy.copy(c.derived(4))),
    "deep copy": lambda c: dataclasses.asdict(copy.deepcopy(c.derived(4, items=[2]))),
}


@every_option
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_the_librarys(question: str, options: dict[str, bool]) -> None:
    ask = QUESTIONS[question]
    ours, theirs = classes_of(dataclass, options), classes_of(dataclasses.dataclass, options)
    assert answer(lambda: ask(ours)) == answer(lambda: ask(theirs))


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Tree:
    name: str
    child: Any = None

    def __post_init__(self) -> None:
        self.name = self.name.upper()

    @cached_property
    def size(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Written:
    a: int

    def __repr__(self) -> str:
        return "written"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written)


def test_a_frozen_instance_without_a_namespace_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(Point(1.0, 2.0)))
    assert again == Point(1.0, 2.0) and hash(again) == hash(Point(1.0, 2.0))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        again.x = 3.0


def test_identical_values_that_differ_from_themselves_are_equal() -> None:
    nan = float("nan")
    assert Point(nan) == Point(nan) and Point(nan) != Point(float("nan"))


def test_what_the_class_writes_stays() -> None:
    assert repr(Written(1)) == "written"
    assert Written(1) == Written(2) and hash(Written(1)) == hash((1,))


def test_a_later_step_runs_and_a_circle_is_shown() -> None:
    tree = Tree("ab")
    tree.child = tree
    assert (tree.name, tree.size) == ("AB", 2)
    assert repr(tree) == "Tree(name='AB', child=...)"


def test_no_method_is_compiled_before_it_is_wanted() -> None:
    made: type[Any] = classes_of(dataclass, {"frozen": True, "slots": False}).derived
    methods: Any = vars(made)
    assert not inspect.isfunction(methods["__init__"])
    made(1)
    assert not inspect.isfunction(methods["__init__"])
    for _ in range(99):
        made(1)
    assert inspect.isfunction(methods["__init__"])
    assert methods["__init__"].__qualname__.endswith("Derived.__init__")


@every_option
def test_the_library_looks_at_a_class_when_that_is_asked(options: dict[str, bool]) -> None:
    made: Any = classes_of(dataclass, options).derived
    assert made(1) is not made(2) and repr(made(1)) and made(1) != 1
    assert not isinstance(vars(made)["__dataclass_fields__"], dict)
    assert dataclasses.is_dataclass(made)
    assert vars(made)["__dataclass_fields__"] == made.__dataclass_fields__
