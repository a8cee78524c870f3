"""Functions and classes are found where the author wrote them."""

import ast
import importlib
import linecache
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tilewright.errors import ParserSyntaxError
from tilewright.frontend import capture
from tilewright.frontend.namespace import MISSING, Snapshot

SHADOWED = "global"


def keep(function: Any) -> Any:
    return function


def methods(cls: type) -> list[FunctionType]:
    return [item for item in vars(cls).values() if isinstance(item, FunctionType)]


def run(text: str, file: str) -> dict[str, Any]:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"keep": keep}
    exec(compile(text, file, "exec"), names)
    return names


def test_a_function_is_captured_in_its_own_coordinates() -> None:
    @keep
    def inner(x: int) -> int:
        return x

    found = capture.capture_function(inner)
    assert found.node.name == "inner"
    line = sys._getframe().f_lineno - 6
    assert (found.node.lineno, found.source.span(found.node).col) == (line + 1, 5)


def test_a_file_is_parsed_once_for_all_its_functions() -> None:
    one = capture.capture_function(test_a_file_is_parsed_once_for_all_its_functions)
    two = capture.capture_function(keep)
    assert one.source is two.source


def test_the_shared_tree_stays_as_it_was() -> None:
    before = ast.dump(capture.capture_function(keep).node)
    assert ast.dump(capture.capture_function(keep).node) == before


def test_exec_sources_in_linecache_are_found() -> None:
    names = run("def k(x):\n    return x\n", "<cell 1>")
    assert capture.capture_function(names["k"]).source.file == "<cell 1>"


def test_a_function_without_source_is_refused_with_advice() -> None:
    names: dict[str, Any] = {}
    exec("def k(x):\n    return x\n", names)
    for kind in (ParserSyntaxError, OSError):
        with pytest.raises(
            kind, match=r"(?s)cannot retrieve source code of 'k'.*interactive prompt"
        ):
            capture.capture_function(names["k"])


LOST = "def k(x):\n    return x\n\nclass C:\n    def m(self): ...\n"


def gone(file: Path) -> None:
    file.unlink()


def changed(file: Path) -> None:
    file.write_text("# shorter\n")


def in_another_encoding(file: Path) -> None:
    file.write_bytes(b"# \xe9\n")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (gone, "keep the file where it was (No such file or directory)"),
        (changed, "There is no such definition in line 1 any more"),
        (in_another_encoding, "Save the file as UTF-8"),
    ],
)
def test_a_source_that_is_lost_is_said_to_be(
    change: Callable[[Path], None], hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "lost.py"
    names: dict[str, Any] = {}
    exec(compile(LOST, str(file), "exec"), names)
    file.write_text(LOST)
    change(file)
    with pytest.raises(ParserSyntaxError) as raised:
        capture.capture_function(names["k"])
    assert hint in str(raised.value)
    with pytest.raises(ParserSyntaxError, match="cannot retrieve source code of 'C'"):
        capture.capture_class(names["C"], methods(names["C"]))


def test_sources_in_an_archive_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as archive:
        archive.writestr("archived_kernels.py", LOST)
    monkeypatch.syspath_prepend(str(tmp_path / "kernels.zip"))
    module = importlib.import_module("archived_kernels")
    assert capture.capture_function(module.k).span.line == 1
    found = capture.capture_class(module.C, methods(module.C))
    assert (found.node.lineno, found.source.lines[3]) == (4, "class C:")


def test_a_builtin_is_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="not a Python function"):
        capture.capture_function(len)


def test_a_broken_file_still_gives_the_block_of_the_function() -> None:
    good = "if True:\n    def k(x):\n        return x\n"
    names = run(good, "<broken>")
    text = good + "def (:\n"
    linecache.cache["<broken>"] = (len(text), None, text.splitlines(keepends=True), "<broken>")
    found = capture.capture_function(names["k"])
    span = found.source.span(found.node)
    assert (span.line, span.col) == (2, 5)


def test_same_named_classes_are_told_apart_by_their_methods() -> None:
    def make(flag: bool) -> type:
        if flag:

            class Prog:
                def main(self) -> int:
                    return 1

            return Prog

        class Prog:  # type: ignore[no-redef]
            def main(self) -> int:
                return 2

        return Prog

    found = [capture.capture_class(c, methods(c)).node for c in (make(True), make(False))]
    assert ["return 1" in ast.unparse(found[0]), "return 2" in ast.unparse(found[1])] == [True] * 2


AMBIGUOUS = """
def make(flag):
    if flag:
        class Prog:
            '''one'''
        return Prog
    class Prog:
        '''two'''
    return Prog
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="classes know their line from 3.13 on")
def test_classes_that_cannot_be_told_apart_are_refused_naming_every_line() -> None:
    cls = run(AMBIGUOUS, "<ambiguous>")["make"](True)
    cls.__module__ = "nowhere"
    with pytest.raises(ParserSyntaxError) as caught:
        capture.capture_class(cls, [run(AMBIGUOUS, "<ambiguous>")["make"]])
    assert "lines 4, 7" in caught.value.message


def test_a_closure_wins_over_a_global_and_an_empty_cell_hides_it() -> None:
    def outer(fill: bool) -> Any:
        def inner() -> Any:
            return SHADOWED

        if fill:
            SHADOWED = "cell"
        return inner

    snapshot = Snapshot()
    assert snapshot.namespace(outer(True)).lookup("SHADOWED") == "cell"
    empty = snapshot.namespace(outer(False))
    assert empty.lookup("SHADOWED") is MISSING
    assert "SHADOWED" in empty.empty


def test_a_snapshot_copies_a_module_once_and_does_not_see_later_changes() -> None:
    names = run("A = 1\ndef k():\n    return A\ndef l():\n    return A\n", "<snap>")
    snapshot = Snapshot()
    namespace = snapshot.namespace(names["k"])
    names["A"] = 2
    assert namespace.lookup("A") == 1
    assert snapshot.globals_of(names["l"]) is snapshot.globals_of(names["k"])
    assert Snapshot().namespace(names["k"]).lookup("A") == 2


def test_enclosing_locals_reach_through_a_class_body() -> None:
    seen: dict[str, Any] = {}

    def look() -> None:
        seen.update(capture.enclosing_locals(sys._getframe(1)))

    width = 8

    class Prog:
        height = 4
        look()

    assert (seen["width"], seen["height"]) == (width, Prog.height)


def test_a_method_is_known_by_its_qualified_name() -> None:
    class Prog:
        def main(self) -> None: ...

    def free() -> None: ...

    assert capture.is_method(Prog.main)
    assert not capture.is_method(free)
