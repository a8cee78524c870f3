"""Rows P-178 to P-195: the IR prints as Python, and what is printed is read back."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import ParserSyntaxError
from tilewright.ir.core import Program, Value
from unit.frontend.parsed_kernels import settled

T = "pl.Tensor[[64, 128], pl.FP32]"


@pl.function
def add(a: pl.Scalar[pl.INT64], b: pl.Scalar[pl.INT64]) -> pl.Scalar[pl.INT64]:
    x: pl.Scalar[pl.INT64] = a + b
    return x


@pl.program
class Cast:
    """The founding document's concise example."""

    @pl.function
    def main(self, x: pl.Tensor[[64, 128], pl.FP32]) -> pl.Tensor[[64, 128], pl.FP16]:
        y: pl.Tensor[[64, 128], pl.FP32] = pl.exp(x)
        result: pl.Tensor[[64, 128], pl.FP16] = pl.cast(y, pl.FP16)
        return result


def read(signature: str, *body: str, decorator: str = "@pl.function") -> Any:
    lines = [decorator, f"def f({signature}):", *(f"    {line}" for line in body)]
    return pl.parse("\n".join(lines) + "\n", "<row>")


# ---- nodes, prefixes, verbosity ------------------------------------------------------------------


def test_p_178_a_statement_prints_itself() -> None:
    (statement, _) = add.body.stmts
    assert statement.as_python() == "x: pl.Scalar[pl.INT64] = a + b"


@pytest.mark.parametrize(
    "node",
    [Cast, Cast["main"], Cast["main"].body, Cast["main"].body.ops[0], Cast["main"].params[0]],
    ids=["program", "function", "block", "operation", "value"],
)
def test_p_178_every_node_prints_and_str_is_the_same(node: Any) -> None:
    assert node.as_python() and str(node) == node.as_python()


def test_p_178_types_print_as_the_annotation_that_gives_them() -> None:
    type_ = Cast["main"].params[0].type
    assert str(type_) == ir.python_print_type(type_) == T
    assert ir.python_print_type(type_, "q") == T.replace("pl.", "q.")


def test_p_179_the_prefix_is_the_alias_of_the_module() -> None:
    (statement, _) = add.body.stmts
    assert statement.as_python("ir") == "x: ir.Scalar[ir.INT64] = a + b"
    text = Cast.as_python("q")
    assert "import tilewright.language as q" in text and "pl." not in text.split("\n", 1)[1]
    ir.assert_structural_equal(pl.parse_program(text), Cast)


def test_p_185_concise_omits_types_of_intermediate_values_only() -> None:
    lines = Cast["main"].as_python(concise=True).splitlines()
    assert lines[1] == f"def main(x: {T}) -> pl.Tensor[[64, 128], pl.FP16]:"
    assert [line.strip().split(" = ")[0] for line in lines[2:4]] == ["y", "result"]


@pytest.mark.parametrize(
    "extra",
    [
        ", pl.Mem.Mat",
        ', pl.MemRef("m", 0, 1024), pl.Mem.Vec',
        ", pl.Mem.Vec, pl.TileView(valid_shape=[8, 16])",
    ],
)
def test_p_185_concise_keeps_what_only_an_annotation_says(extra: str) -> None:
    f = read(
        "x: pl.Tensor[[16, 16], pl.FP32]",
        f"t: pl.Tile[[16, 16], pl.FP32{extra}] = pl.load(x, [0, 0], [16, 16])",
        "u = pl.set_validshape(t, 8, 16)",
    )
    text = f.as_python(concise=True)
    assert f"t: pl.Tile[[16, 16], pl.FP32{extra}] = pl.load" in text and "    u = pl." in text
    ir.assert_structural_equal(pl.parse(text), f)


def test_p_186_the_default_types_every_assignment() -> None:
    lines = [line.strip() for line in Cast["main"].as_python().splitlines()]
    assert lines[2].startswith(f"y: {T} = pl.exp(x)")
    assert lines[3].startswith("result: pl.Tensor[[64, 128], pl.FP16] = pl.cast(y, ")


@pytest.mark.parametrize("prefix", ["pl", "ir"])
@pytest.mark.parametrize("concise", [False, True])
def test_p_187_the_free_function_gives_the_same_text(prefix: str, concise: bool) -> None:
    for node in (Cast, Cast["main"], *Cast["main"].body.stmts):
        assert ir.python_print(node, prefix, concise) == node.as_python(prefix, concise)


# ---- attributes of functions ---------------------------------------------------------------------

SUB_WORKER = """
import tilewright.language as pl

@pl.program
class P:
    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def callback(self, x: pl.Tensor[[64], pl.FP32]):
{body}
"""
SIGNATURE = "x: pl.Tensor[[64], pl.FP32], w: pl.Tensor[[64], pl.FP32]"


def sub_worker(*body: str) -> Program:
    return pl.parse_program(SUB_WORKER.format(body="\n".join(f"        {line}" for line in body)))


def test_p_180_attributes_print_as_a_prologue_and_are_no_statements() -> None:
    f = read(SIGNATURE, 'pl.func_attr({"level_hint": 3, "name": "k"})', "y = pl.exp(x)")
    assert f.attrs == {"level_hint": 3, "name": "k"}
    lines = settled(f).as_python().splitlines()
    assert lines[2] == '    pl.func_attr({"level_hint": 3, "name": "k"})'
    assert [op.name for op in f.body.stmts] == ["elementwise.exp", "control.return"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("k", '"k"'),
        ("a'b", '"a\'b"'),
        ('a"b', "'a\"b'"),
        ("'\"", "'\\'\"'"),
        ("a\n\\", '"a\\n\\\\"'),
        ("\u00e9", '"\u00e9"'),
        ("", '""'),
    ],
)
def test_strings_print_in_double_quotes_and_survive(text: str, printed: str) -> None:
    f = read(SIGNATURE, repr(text), f'pl.func_attr({{"a": {text!r}}})', "y = pl.exp(x)")
    assert f'pl.func_attr({{"a": {printed}}})' in f.as_python()
    again = settled(f)
    assert again.attrs == f.attrs == {"a": text} and again.doc == f.doc


def test_p_180_nested_values_survive() -> None:
    f = read(SIGNATURE, 'pl.func_attr({"shape": [8, (16, 0.5)], "on": True, "none": None})')
    assert f.attrs["shape"] == (8, (16, 0.5)) and f.attrs["on"] is True and f.attrs["none"] is None
    assert settled(f).attrs == f.attrs


def test_p_181_the_body_of_a_sub_worker_excludes_directives() -> None:
    program = sub_worker('"""doc"""', 'pl.func_attr({"n": 3})', "print('hello', x)")
    callback = settled(program)["callback"]
    assert callback.attrs == {"n": 3}
    assert callback.body.ops[0].attrs["body"] == '"""doc"""\nprint(\'hello\', x)'


def test_p_182_an_attribute_may_be_a_parameter() -> None:
    f = read(SIGNATURE, 'pl.func_attr({"stationary": w})', "y = pl.exp(x)")
    assert isinstance(f.attrs["stationary"], Value) and f.attrs["stationary"] is f.params[1]
    again = pl.parse(settled(f).as_python())
    assert again.attrs["stationary"] is again.params[1]  # type: ignore[union-attr]


def test_p_183_a_docstring_may_stand_before_the_prologue() -> None:
    f = read(SIGNATURE, '"""What it does."""', 'pl.func_attr({"n": 3})', "y = pl.exp(x)")
    assert f.attrs == {"n": 3} and f.doc == "What it does."
    lines = [line.strip() for line in settled(f).as_python().splitlines()]
    assert lines[2:4] == ['"""What it does."""', 'pl.func_attr({"n": 3})']


def test_p_183_several_directives_add_up() -> None:
    f = read(SIGNATURE, 'pl.func_attr({"a": 1})', 'pl.func_attr({"b": 2})', "y = pl.exp(x)")
    assert f.attrs == {"a": 1, "b": 2}


LATE = ("y = pl.exp(x)", 'pl.func_attr({"n": 3})')
TWICE = ('pl.func_attr({"a": 1})', 'pl.func_attr({"a": 2})', "y = pl.exp(x)")
TWICE_IN_ONE = ('pl.func_attr({"a": 1, "a": 2})', "y = pl.exp(x)")


def test_p_184_a_late_directive_is_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="must appear before every other statement"):
        read(SIGNATURE, *LATE)
    with pytest.raises(ParserSyntaxError, match="must appear before every other statement"):
        sub_worker("print(x)", 'pl.func_attr({"n": 3})')


@pytest.mark.parametrize("body", [TWICE, TWICE_IN_ONE], ids=["two directives", "one directive"])
def test_p_184_a_duplicate_key_is_refused(body: tuple[str, ...]) -> None:
    with pytest.raises(ParserSyntaxError, match="Duplicate function attribute 'a'"):
        read(SIGNATURE, *body)
    with pytest.raises(ParserSyntaxError, match="Duplicate function attribute 'a'"):
        sub_worker(*body[:-1], "print(x)")


# ---- round trips ---------------------------------------------------------------------------------

EXPRESSIONS = (
    "a = n - (m - 1)",
    "b = (n + m) * 2 - n // 3 % 4",
    "c = -(n - 1)",
    "d = n < m and not m == 3 or n > 4",
    "e = (n << 2) >> 1",
    "g = pl.max(pl.min(n, m), 3)",
    "h = pl.const(-5, pl.INT8)",
    "k = pl.const(0.1, pl.FP16)",
    "return a, b, c, d, e, g, h, k",
)
STATEMENTS = (
    "for i in pl.range(2, n, 3):",
    "    for j in pl.parallel(4):",
    "        if i < m:",
    "            x[j, 0:8] = pl.slice(x, [1, 8], [j, 8])",
    "        else:",
    "            x[j, 8:16] = pl.slice(x, [1, 8], [j, 0])",
    "for i, (s, t) in pl.range(n, init_values=(m, n)):",
    "    s, t = pl.yield_(t, s + i)",
    "for (u,) in pl.while_(init_values=(n,)):",
    "    pl.cond(u > 0)",
    "    u = pl.yield_(u - 1)",
    "for i in pl.range(8):",
    "    if i > n:",
    "        break",
    "return s, u",
)
SCOPES = (
    "with pl.cluster():",
    "    with pl.at(level=pl.Level.CORE_GROUP, name_hint='first'):",
    "        x[0:8, 0:16] = pl.exp(x[8:16, 0:16])",
    "with pl.manual_scope():",
    "    with pl.at(level=pl.Level.CORE_GROUP) as tid:",
    "        x[8:16, 0:16] = pl.exp(x[0:8, 0:16])",
    "    with pl.at(level=pl.Level.CORE_GROUP, deps=[tid]):",
    "        x[0:8, 0:16] = pl.exp(x[0:8, 0:16])",
)
NUMBERS = "n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX]"
MATRIX = "x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]"


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        (NUMBERS, EXPRESSIONS),
        (f"{MATRIX}, {NUMBERS}", STATEMENTS),
        (MATRIX, SCOPES),
    ],
    ids=["expressions", "statements", "scopes"],
)
def test_p_188_p_191_p_192_what_is_printed_parses_back(
    signature: str, body: tuple[str, ...]
) -> None:
    settled(read(signature, *body))


TYPES = (
    "pl.Tensor[[8, 8], pl.FP32]",
    "pl.Tensor[[8, 8], pl.BF16, pl.NZ]",
    "pl.Tensor[[8, 8], pl.FP32, pl.TensorView(stride=[16, 1], layout=pl.TensorLayout.ND)]",
    "pl.Tensor[[8, 8], pl.FP32, pl.MemRef('m', 0, 256)]",
    "pl.Tile[[8, 8], pl.FP16, pl.Mem.Left]",
    "pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[4, 8])]",
    "pl.Tile[[8, 8], pl.FP32, pl.MemRef('m', 0, 256), pl.Mem.Vec]",
    "pl.Scalar[pl.UINT16]",
    "pl.Ptr",
)


@pytest.mark.parametrize("type_", TYPES)
def test_p_193_types_memory_references_and_views_print_and_parse(type_: str) -> None:
    f = read(f"x: {type_}", "pass")
    text = settled(f).as_python()
    assert pl.parse(text).params[0].type == f.params[0].type  # type: ignore[union-attr]
    if not type_.startswith("pl.Ptr"):
        assert text.split("x: ")[1].startswith(type_.split(",")[0])


def test_p_189_two_values_with_one_name_print_apart_and_consistently() -> None:
    f = read(
        "x: pl.Tensor[[8], pl.FP32]",
        "y = pl.exp(x)",
        "y = pl.mul(y, 2.0)",
        "z = pl.add(y, y)",
        "return y, z",
    )
    text = settled(f).as_python()
    assert "y: pl.Tensor[[8], pl.FP32] = pl.exp(x)" in text
    assert "y_1: pl.Tensor[[8], pl.FP32] = pl.mul(y, 2.0)" in text
    assert "pl.add(y_1, y_1)" in text and "return y_1, z" in text


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tilewright.ir.printing.entry", ["python_print", "python_print_type"]),
        ("tilewright.ir.printing.names", ["NameTable"]),
        ("tilewright.ir.printing.expressions", ["render_constant", "AttrRenderer", "PRECEDENCE"]),
        ("tilewright.ir.printing.printer", ["Printer"]),
        ("tilewright.ops.control_syntax", []),
        ("tilewright.ir.types", ["render_type", "render_memref", "render_tile_view"]),
    ],
)
def test_p_190_to_p_193_the_printer_is_kept_by_subject(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert found.__doc__ and all(hasattr(found, name) for name in names)


def test_p_192_windows_of_ranks_print_and_parse() -> None:
    text = """
import tilewright.language as pl
import tilewright.language.distributed as pld

@pl.program
class P:
    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, x: pl.Tensor[[2, 64], pl.FP32]):
        buf = pld.alloc_window_buffer(256, name="data")
        win = pld.window(buf, [1, 64], dtype=pl.FP32)
"""
    printed = settled(pl.parse_program(text)).as_python()
    assert "pld.alloc_window_buffer(256" in printed and "pld.window(" in printed


def test_p_194_there_is_one_public_printer() -> None:
    assert ir.python_print.__module__ == "tilewright.ir.printing.entry"
    assert {"python_print", "python_print_type"} <= set(ir.__all__)


def test_p_195_names_in_shapes_are_those_of_the_printed_values() -> None:
    text = """
M = pl.dynamic("M")

@pl.function
def f(M: pl.Tensor[[8], pl.FP32], x: pl.Tensor[[M, 8], pl.FP32], n: pl.Scalar[pl.INDEX]):
    for i in pl.range(1, n):
        t = pl.create_tensor([i, 8], dtype=pl.FP32)
        for j in pl.range(i, n):
            for i in pl.range(1, j):
                u = pl.create_tensor([i + 1, 8], dtype=pl.FP32)
"""
    printed = settled(pl.parse(text)).as_python()
    assert printed.startswith('M_1 = pl.dynamic("M")') and "pl.Tensor[[M_1, 8], pl.FP32]" in printed
    assert "t: pl.Tensor[[i, 8], pl.FP32] = pl.create_tensor([i, 8]" in printed
    assert "u: pl.Tensor[[i_1 + 1, 8], pl.FP32] = pl.create_tensor([i_1 + 1, 8]" in printed


CALLBACK = """
@pl.program
class P:
    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def callback(
        self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]
    ) -> pl.Tensor[[8], pl.FP32]:
        {body}
"""


@pytest.mark.parametrize("body", ["...", "y[:] = x * 2"])
def test_p_181_p_182_attributes_of_a_sub_worker_name_its_parameters(body: str) -> None:
    directive = 'pl.func_attr({"source": x, "sizes": [1, 2]})'
    text = CALLBACK.format(body=f'"""What it does."""\n        {directive}\n        {body}')
    function = settled(pl.parse_program(text))["callback"]
    assert function.attrs == {"source": function.params[0], "sizes": (1, 2)}
    assert f"    {directive}\n" in function.as_python()
    kept = function.body.ops[0].attrs["body"]
    assert kept is None if body == "..." else kept.splitlines()[-1] == body


def test_p_190_a_callback_formats_what_is_shown() -> None:
    f = read(SIGNATURE, "return pl.exp(x)")
    plain = f.as_python()
    ir.register_format_callback(lambda text: text.upper())
    try:
        assert str(f) == ir.python_print(f) == plain.upper()
        assert f.as_python() == ir.python_print(f, format=False) == plain
    finally:
        ir.register_format_callback(None)
    assert str(f) == ir.python_print(f) == plain
