"""Spans count characters, carets count terminal cells."""

import ast

import pytest

from tilewright.source import SourceText, Span, display_width, join, remember


def first(text: str, kind: type[ast.AST]) -> ast.AST:
    return next(node for node in ast.walk(ast.parse(text)) if isinstance(node, kind))


def test_columns_are_characters_even_after_wide_text() -> None:
    text = "é = f('漢字', x)\n"
    name = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and n.id == "x")
    span = SourceText("<t>", text).span(name)
    assert (span.line, span.col, span.end_col) == (1, text.index("x") + 1, text.index("x") + 2)


def test_dedented_text_maps_back_to_the_file() -> None:
    text = "x = 1\n"
    span = SourceText("<t>", text, first_line=7, indent=4).span(first(text, ast.Name))
    assert (span.line, span.col) == (7, 5)


def test_carets_stand_under_the_token_behind_wide_characters_and_tabs() -> None:
    remember("<wide>", "\t漢字 = bad\n")
    rows = Span("<wide>", 1, 7, 1, 10).snippet()
    shown, carets = rows[0][1], rows[1][1]
    assert shown == "    漢字 = bad"
    assert carets == " " * display_width("    漢字 = ") + "^^^"


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_only_what_ends_a_line_for_python_ends_one(mark: str) -> None:
    text = f"'a{mark}é'\nx = y\n"
    name = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and n.id == "y")
    source = SourceText(f"<mark {mark!r}>", text)
    remember(source.file, text)
    assert source.span(name)[1:3] == (2, 5) and source.segment(name) is None
    assert source.span(name).snippet(context=0) == [(2, "x = y"), (None, "    ^")]


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    remember("<escape>", "\x1b[2J = \x9b x\n")
    assert Span("<escape>", 1, 10, 1, 11).snippet()[0] == (1, " [2J =   x")


def test_a_span_of_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    remember("<multi>", "f(a,\n  b)\n")
    assert Span("<multi>", 1, 1, 2, 5).snippet()[1] == (None, "^^^^")


def test_without_source_there_is_no_snippet() -> None:
    assert Span("<unknown file>", 3, 1, 3, 2).snippet() == []


def test_spans_join_to_their_hull() -> None:
    spans = [Span("f", 2, 3, 2, 9), Span("f", 1, 5, 1, 6)]
    assert join(spans) == Span("f", 1, 5, 2, 9)
    assert join([]) is None
