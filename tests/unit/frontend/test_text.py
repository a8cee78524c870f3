"""Texts are read without running them, at every level."""

import re
from pathlib import Path

import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import (
    ParserError,
    ParserSyntaxError,
    TilewrightError,
    UndefinedVariableError,
)
from tilewright.ir.core import Function, Program

PROGRAM = """
# pypto.program: Named
import tilewright.language as pl

N = pl.dynamic("N")
ROWS = 2 * 4

@pl.program
class Named:
    @pl.function
    def main(self, x: pl.Tensor[[N, ROWS], pl.FP32]) -> pl.Tensor[[N, 8], pl.FP32]:
        return pl.exp(x)
"""
LOOSE = """
# pypto.program: my_program
import tilewright.language as pl

def loop_sum(n: pl.INT64) -> pl.INT64:
    sum_init: pl.INT64 = 0
    for i, (sum,) in pl.range(n, init_values=(sum_init,)):
        sum = pl.yield_(sum + i)
    return sum
"""


def test_a_program_is_read_with_its_name_dimensions_and_constants() -> None:
    program = pl.parse_program(PROGRAM)
    assert program.name == "Named"
    ir.assert_structural_equal(program, pl.parse(program.as_python()))


def test_functions_under_a_program_header_are_that_program() -> None:
    program = pl.parse(LOOSE)
    assert isinstance(program, Program)
    assert (program.name, list(program.functions)) == ("my_program", ["loop_sum"])


def test_an_undecorated_function_is_a_function() -> None:
    function = pl.parse(LOOSE.replace("# pypto.program: my_program", ""))
    assert isinstance(function, Function)


def test_unknown_names_in_extents_are_dimensions() -> None:
    text = """
@pl.function
def f(x: pl.Tensor[[K, 16], pl.FP32], y: pl.Tensor[[K, 16], pl.FP32]):
    z = pl.add(x, y)
"""
    function = pl.parse(text)
    assert isinstance(function, Function)
    assert "K = pl.dynamic" in function.as_python()


def test_nothing_in_a_text_runs() -> None:
    for line in (
        "print('x')",
        "import os\nos.abort()",
        "x = open('y')",
        "for i in (1,):\n    pass",
    ):
        with pytest.raises(ParserError):
            pl.parse(f"{line}\n{PROGRAM}")


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(PROGRAM)
    assert pl.loads_program(path).name == "Named"
    assert isinstance(pl.loads(path), Program)


def test_python_syntax_errors_name_the_file() -> None:
    with pytest.raises(SyntaxError, match=r"Failed to compile code from here\.py"):
        pl.parse("def f(:", "here.py")


@pytest.mark.parametrize("type_", ["pl.None", "pl.Tile[[4], pl.8]", "pl.Tile[[4, pl.FP32]"])
def test_python_syntax_errors_in_a_type_name_the_file(type_: str) -> None:
    text = (
        "@pl.function\ndef f(x: pl.Tensor[[4], pl.FP32]):\n"
        f"    y: {type_} = pl.exp(x)\n    return y\n"
    )
    with pytest.raises(SyntaxError, match=r"Failed to compile code from kernel\.py: .*line 3"):
        pl.parse(text, "kernel.py")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("(kind=3)", "pl.function does not take 'kind'"),
        ("(level='AIV')", "pl.function: level is 'AIV'; Level | None is accepted"),
        ("(type=pl.Level.AIV)", "pl.function: type is <Level.AIV: .*>; FunctionType is accepted"),
        ("(attrs=[1])", r"pl.function: attrs is \[1\]; Mapping"),
        ("(external_source=3)", r"pl.function: external_source is 3; str \| None is accepted"),
        ("(role=pl.Role.SubWorker, level=3)", r"pl.function: level is 3; Level \| None is accept"),
    ],
)
def test_a_decorator_takes_its_options_only(options: str, said: str) -> None:
    with pytest.raises(ParserError, match=said) as caught:
        pl.parse(f"@pl.function{options}\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    return x\n")
    assert caught.value.span is not None


def test_printed_options_of_loops_are_checked() -> None:
    text = (
        "@pl.function\ndef f(x: pl.Buffer[[4], pl.FP32, pl.Mem.DDR]):\n"
        "    for i in pl.loop.lanes(4, combine=True):\n        s = pl.loop.load(x, [i])\n"
    )
    with pytest.raises(ParserError, match="combine is True; a list of words is accepted"):
        pl.parse(text)


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(TypeError, match="the text of a program is expected, not 3"):
        pl.parse(3)  # type: ignore[arg-type]


def test_a_text_defines_exactly_one_thing() -> None:
    with pytest.raises(ValueError, match="defines 0"):
        pl.parse("import tilewright.language as pl\n")
    with pytest.raises(ValueError, match="defines 2"):
        pl.parse("def f(n: pl.INT64):\n    y = n\ndef g(n: pl.INT64):\n    y = n\n")
    with pytest.raises(ValueError, match="not a program"):
        pl.parse_program("def f(n: pl.INT64):\n    y = n\n")


def test_errors_show_the_line_of_the_text() -> None:
    with pytest.raises(UndefinedVariableError) as caught:
        pl.parse("@pl.function\ndef f(n: pl.INT64):\n    y = n + m\n", "t.py")
    assert "--> t.py:3:13" in str(caught.value)
    assert "y = n + m" in str(caught.value)


def test_a_source_map_leads_back_to_the_author() -> None:
    text = "@pl.function\ndef f(n: pl.INT64):\n    y = n + m\n"
    with pytest.raises(UndefinedVariableError) as caught:
        pl.parse(text, "gen.py", {3: ("author.py", 42, 7)})
    assert "author.py:42:7" in str(caught.value)


def test_other_aliases_of_the_module_work() -> None:
    text = PROGRAM.replace("as pl", "as p").replace("pl.", "p.")
    assert "pl.exp(x)" in pl.parse_program(text).as_python()


def test_names_may_be_imported_one_by_one() -> None:
    text = """
from tilewright.language import Tensor, FP32, function, exp

@function
def f(x: Tensor[[4], FP32]):
    y = exp(x)
"""
    assert isinstance(pl.parse(text), Function)


def test_a_class_body_holds_functions_only() -> None:
    with pytest.raises(ParserSyntaxError, match="holds functions only"):
        pl.parse("@pl.program\nclass P:\n    x = 3\n")


def test_every_op_can_be_called_by_its_own_name() -> None:
    text = """
@pl.function
def f(x: pl.Buffer[[8, 8], pl.FP32, pl.Mem.DDR], n: pl.Scalar[pl.INDEX]):
    v = pl.loop.load(x, [n, 0], None)
    w = pl.op.arith.and_(n, 3)
    pl.loop.store(x, [n, w], pl.op.arith.exp2(v), None)
    b = pl.loop.alloc(shape=[4, 4], dtype=pl.FP32)
"""
    function = pl.parse(text)
    ir.assert_structural_equal(function, pl.parse(function.as_python()))


def test_a_branch_on_a_constant_stays_a_branch() -> None:
    text = """
@pl.function
def f(n: pl.Scalar[pl.INDEX]):
    always: pl.Scalar[pl.BOOL] = True
    if True:
        y = pl.yield_(n)
    else:
        y = pl.yield_(n + 1)
    if always:
        z = pl.yield_(y)
    else:
        z = pl.yield_(n)
    return z
"""
    function = pl.parse(text)
    assert isinstance(function, Function)
    assert [op.name for op in function.body.ops].count("control.if") == 2
    ir.assert_structural_equal(function, pl.parse(function.as_python()))


def test_types_in_a_text_are_read_where_they_stand() -> None:
    program = """import tilewright.language as pl
@pl.function
def f(x: pl.Tensor[[4, 8], pl.FP32]):
    a: pl.Tensor[[4, 8], pl.FP32] = pl.add(x, x)
    b: pl.Tensor[[4, 9], pl.FP32] = pl.add(a, a)
    c: pl.Tensor[[4, 8], pl.FP23] = pl.add(a, a)
    return b
"""
    with pytest.raises(TilewrightError) as caught:
        pl.parse(program, "text.py")
    first, second = caught.value, *caught.value.also
    assert first.span is not None and second.span is not None
    assert (first.span.line, first.span.col) == (5, 5)
    assert (second.span.line, second.span.col, second.span.end_col) == (6, 26, 33)


def test_a_line_like_a_statement_in_a_string_stays_as_it_is() -> None:
    line = "    a: pl.Tensor[[4, 8], pl.FP32] = pl.add(x, x)"
    program = f'''import tilewright.language as pl
@pl.function
def f(x: pl.Tensor[[4, 8], pl.FP32]):
    """Like so:

{line}
    """
    return x
'''
    function = pl.parse(program)
    assert isinstance(function, Function) and line.strip() in str(function.doc)


@pytest.mark.parametrize(
    ("element", "more", "message"),
    [
        ("pl.Tile", "", "'pl.Tile' in pl.access is no integer"),
        ("x", "", "'x' in pl.access is no integer"),
        ("d1 / 2", "", "Cannot evaluate 'd1 / 2'"),
        ("min()", "", "Cannot evaluate 'min()'"),
        ("d1", ", where=lambda d0, d1: (d0 < 3,)", "'expr >= 0' or 'expr == 0'"),
        ("d1", ", where=lambda d0: (d0 >= 0,)", "takes a lambda"),
        ("d1", ", mask=3", "takes a lambda"),
    ],
)
def test_an_access_that_is_none_is_refused_at_its_place(
    element: str, more: str, message: str
) -> None:
    access = f"pl.access(lambda d0, d1: (d0, {element}), [2, 4]{more})"
    program = f"""@pl.function
def f(x: pl.Tensor[[2, 8], pl.FP32]):
    t = pl.op.memory.access_load(x, [], space=pl.Mem.DDR, access={access})
    return t
"""
    with pytest.raises(TilewrightError, match=re.escape(message)) as caught:
        pl.parse(program)
    assert caught.value.span is not None and caught.value.span.line == 3


def test_a_place_shows_the_text_that_it_is_in_not_a_later_one_of_that_name() -> None:
    def body(line: str) -> str:
        return f"@pl.function\ndef f(n: pl.Scalar[pl.INDEX]):\n    m = {line}\n    return m\n"

    function = pl.parse(body("n + n"))
    pl.parse(body("n * n"))
    assert isinstance(function, Function)
    span = function.body.ops[-2].span
    assert span is not None and (3, "    m = n + n") in span.snippet()
    ir.assert_structural_equal(ir.deserialize(ir.serialize(function)), function)


@pytest.mark.parametrize("text", ["n" + "+n" * 10_000, "-" * 10_000 + "n", "n" + ".a" * 10_000])
def test_what_python_itself_cannot_read_is_refused_at_its_line(text: str) -> None:
    program = f"@pl.function\ndef f(n: pl.Scalar[pl.INDEX]):\n    m = {text}\n    return m\n"
    with pytest.raises(ParserSyntaxError, match="deeper than Python can read") as caught:
        pl.parse(program)
    assert caught.value.span is not None and caught.value.span[1:3] == (3, 5)


def test_files_are_read_in_the_encoding_that_python_finds_there(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    for head, encoding in (("", "utf-8-sig"), ("# coding: latin-1\n# \xe9\n", "latin-1")):
        path.write_bytes((head + PROGRAM.strip()).encode(encoding))
        assert pl.loads_program(path).name == "Named"
    path.write_bytes(b"# \xe9\n")
    with pytest.raises(SyntaxError, match=r"Failed to compile code from .*kernel\.py"):
        pl.loads(path)


def test_a_number_that_only_extents_mention_has_a_name_in_text() -> None:
    """Without one the extent is not known there."""

    @pl.function
    def main(
        k: pl.Scalar[pl.INDEX], j: pl.Scalar[pl.INT32], out: pl.InOut[pl.Tensor[[1], pl.FP32]]
    ):
        t = pl.create_tensor([k % k, k % 16 + k % k, 16 * j], dtype=pl.FP32)
        pl.write(out, [0], pl.read(t, [0, 0, 0]))

    ir.assert_structural_equal(pl.parse(main.as_python()), main)


def test_an_index_meets_an_int64_without_a_conversion_in_text() -> None:
    @pl.function
    def f(n: pl.INDEX, m: pl.INT64, k: pl.INT32) -> tuple[pl.INT64, pl.INT64, pl.INT64, pl.BOOL]:
        a = n + m
        b = (m * m) - (n + 1) * m
        c = m % n + (k << m)
        d = (n - m) * (n + pl.const(2, pl.INT64))
        e = pl.cast(n, pl.INT64) + pl.cast(n, pl.INT64)
        g = pl.cast(n, pl.INT64) + (m - k)
        h = pl.cast(n + 2, pl.INT64, "floor") + m
        return a + b, c * d, (e + g) * h, n < m

    text = f.as_python()
    ir.assert_structural_equal(f, pl.parse(text))
    assert " = n + m" in text and "n < m" in text and "m % n" in text
