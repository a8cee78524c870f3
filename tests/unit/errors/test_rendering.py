"""Errors point at the right character and say what would help."""

import pytest

from tilewright.errors import (
    ErrorPage,
    IndexOutOfBounds,
    ParserError,
    ParserTypeError,
    SSAViolationError,
    TilewrightError,
    catalogue,
    explain,
    render,
)
from tilewright.errors.terminal import wants_color
from tilewright.source import Span, remember

TEXT = "def f(x):\n    t = x\n    z = add(t, yy)\n    return z\n"


@pytest.fixture
def span() -> Span:
    remember("<rendering>", TEXT)
    return Span("<rendering>", 3, 16, 3, 18)


def test_an_error_renders_with_context_carets_help_and_notes(span: Span) -> None:
    error = ParserError("Undefined variable 'yy'", span, "Did you mean 'y'?", "a note")
    assert render(error).splitlines() == [
        "Error: Undefined variable 'yy'",
        "  --> <rendering>:3:16",
        "     |",
        "   1 | def f(x):",
        "   2 |     t = x",
        "   3 |     z = add(t, yy)",
        "     |                ^^ Undefined variable 'yy'",
        "   4 |     return z",
        "     |",
        "   = help: Did you mean 'y'?",
        "   = note: a note",
    ]


def test_an_error_without_help_says_where_its_page_is(span: Span) -> None:
    page = f"`tilewright explain {ParserError.code}`"
    assert page in str(ParserError("no good", span))
    assert page not in str(ParserError("no good", span, "Do better."))


def test_a_class_can_say_what_helps_against_all_of_its_errors(span: Span) -> None:
    assert "= help: Keep it inside" in str(IndexOutOfBounds("index 8", span))
    assert IndexOutOfBounds("index 8", span, "Look.").hint == "Look."


def test_a_long_message_is_not_repeated_beside_the_carets(span: Span) -> None:
    text = str(ParserError("x" * 60, span))
    assert text.count("x" * 60) == 1
    assert "^^\n" in text


def test_the_text_of_an_error_starts_with_its_message_and_has_no_colour(span: Span) -> None:
    text = str(ParserError("no good", span))
    assert text.startswith("no good\n")
    assert "\x1b" not in text
    assert "\x1b[1;31m" in render(ParserError("no good", span), color=True)


def test_given_source_lines_win_over_the_file() -> None:
    error = ParserError("bad", Span("nowhere.py", 1, 1, 1, 4), source_lines=["abc = 1\n"])
    assert "   1 | abc = 1" in str(error)


def test_call_sites_are_shown_innermost_first(span: Span) -> None:
    inner = Span("<rendering>", 2, 9, 2, 10, parent=span)
    text = str(ParserError("bad", inner))
    assert text.index(":2:9") < text.index("called from here") < text.index(":3:16")


def test_a_previous_definition_is_shown(span: Span) -> None:
    error = SSAViolationError("again", span, previous_span=Span("<rendering>", 2, 5, 2, 6))
    assert error.previous_span is not None
    assert "previous definition is here" in str(error)
    assert ":2:5" in str(error)


def test_companions_are_rendered_after_the_first_error(span: Span) -> None:
    first = ParserError("one", span)
    first.also.append(ParserError("two", span))
    assert str(first).index("one") < str(first).index("Error: two")


def test_locating_keeps_a_place_that_is_known(span: Span) -> None:
    other = Span("<rendering>", 1, 1, 1, 2)
    assert ParserError("x", span).locate(other).span is span
    assert ParserError("x").locate(other).span is other


@pytest.mark.parametrize("cls", catalogue(), ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_a_cause_and_two_examples(cls: type[TilewrightError]) -> None:
    page = explain(cls)
    assert page.code == cls.code != "" and page.cause and page.bad and page.good
    assert "::" not in page.cause


def test_codes_are_unique() -> None:
    codes = [cls.code for cls in catalogue()]
    assert len(codes) == len(set(codes))


def test_a_page_of_data_raises_its_class_with_its_code(span: Span) -> None:
    page = ErrorPage(
        "err_example",
        ParserTypeError,
        "tensor {name} is wrong",
        "Why.\n\nBad::\n\n    x\n\nGood::\n\n    y\n",
        hint="do y",
        reference="see the error reference",
    )
    error = page(span=span, name="t")
    assert isinstance(error, TypeError) and error.code == "err_example"
    assert error.message == "tensor t is wrong"
    assert "see the error reference" in str(error)
    assert (page.explain().bad, page.explain().good) == ("x", "y")


class _Stream:
    def __init__(self, tty: bool) -> None:
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


@pytest.mark.parametrize(
    ("env", "tty", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
    ],
)
def test_colour_follows_terminal_and_environment(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], tty: bool, expected: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wants_color(_Stream(tty)) is expected  # type: ignore[arg-type]
