"""Rows R-028 to R-033: types, literals, closures, subscripts, operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.dtypes import FP8E4M3FN, INDEX
from tilewright.errors import (
    ParserError,
    ParserTypeError,
    ShapeMismatch,
    TilewrightError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from unit.frontend.parsed_kernels import array, execute, settled

F32 = np.float32
MATRIX = "x: pl.Tensor[[16, 8], pl.FP32]"
DTYPES = [
    *("INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP4", "FP8E4M3FN", "FP8E5M2", "FP8E8M0", "FP16", "FP32", "BF16", "HF4", "HF8"),
    *("BOOL", "INDEX"),
]


def read(signature: str, *body: str) -> Any:
    lines = ["@pl.function", f"def f({signature}):", *(f"    {line}" for line in body)]
    return pl.parse("\n".join(lines) + "\n", "<row>")


def types_of(f: Any) -> list[str]:
    return [str(t).removeprefix("pl.Scalar[pl.").removesuffix("]") for t in f.return_types]


# ---- types ---------------------------------------------------------------------------------------


def test_r_028_arrays_stay_in_the_function_that_makes_them() -> None:
    @pl.function
    def inside(n: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INT32]:
        a = pl.array.create(4, pl.INT32)
        a[2] = pl.const(7, pl.INT32)
        return a[n]

    assert execute(inside, 2) == 7
    with pytest.raises(ParserTypeError, match=r"'taken' is pl.Array\[4, pl.INT32\].*do not cross"):

        @pl.function
        def takes(taken: pl.Array[4, pl.INT32]) -> pl.Scalar[pl.INT32]:
            return taken[0]

    with pytest.raises(
        ParserTypeError, match=r"'gives' returns pl.Array\[4.*do not cross"
    ) as error:

        @pl.function
        def gives(n: pl.Scalar[pl.INDEX]):
            return pl.array.create(4, pl.INT32)

    assert error.value.span is not None and "pl.Tensor" in (error.value.hint or "")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "form", ["pl.Scalar[{}]", "pl.Tensor[[4, 8], {}]", "pl.Tile[[4, 8], {}, pl.Mem.Vec]"]
)
def test_r_028_every_dtype_prints_and_parses_in_every_container(dtype: str, form: str) -> None:
    annotation = form.format(f"pl.{dtype}")
    f = read(f"x: {annotation}", "pass")
    assert f"x: {annotation}" in settled(f).as_python()


@pytest.mark.parametrize(
    ("dtype", "bits", "kind"),
    [("INT4", 4, "int"), ("UINT16", 16, "uint"), ("BF16", 16, "float"), ("BOOL", 1, "bool")],
)
def test_r_028_dtypes_answer_questions(dtype: str, bits: int, kind: str) -> None:
    found = getattr(pl, dtype)
    assert found.get_bit() == bits and found.get_byte() == max(1, bits // 8)
    assert found.is_float() is (kind == "float") and found.is_int() is (kind in ("int", "uint"))
    assert found.to_string() == dtype.lower() and found.from_code(found.code()) is found


def test_r_028_a_dtype_without_arithmetic_is_refused_by_name_at_use() -> None:
    f = read("x: pl.Tensor[[4, 8], pl.HF8]", "pass")
    assert f.params[0].type.dtype is pl.HF8
    with pytest.raises(TilewrightError, match="HF8"):
        ir.compile(read("x: pl.Tensor[[4, 8], pl.HF8]", "y = pl.add(x, x)", "return y"))


@pytest.mark.parametrize(
    "annotation",
    [
        "pl.Tensor[[8, 8], pl.FP32, pl.NZ]",
        "pl.Tensor[[8, 8], pl.FP32, pl.MemRef('m', 0, 256)]",
        "pl.Tile[[8, 8], pl.FP16, pl.Mem.Left, pl.TileView(valid_shape=[4, 8])]",
        "pl.Tile[[8, 8], pl.FP32, pl.MemRef('m', 0, 256), pl.Mem.Vec]",
        "pl.Out[pl.Tensor[[8, 8], pl.FP32]]",
    ],
)
def test_r_028_views_and_memory_references_are_part_of_the_type(annotation: str) -> None:
    settled(read(f"x: {annotation}", "pass"))


def test_r_028_a_view_equal_to_the_implicit_one_is_none() -> None:
    whole = read("x: pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[8, 8])]", "pass")
    plain = read("x: pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec]", "pass")
    ir.assert_structural_equal(whole, plain)


def test_r_028_a_tile_with_a_memory_reference_names_its_space() -> None:
    with pytest.raises(ParserTypeError, match="must also name its memory space"):
        read("x: pl.Tile[[8, 8], pl.FP32, pl.MemRef('m', 0, 256)]", "pass")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ('pl.MemRef("m", slots=4)[4], pl.Mem.Vec', "4 slots; there is no slot 4"),
        ('pl.MemRef("m", slots=0), pl.Mem.Vec', "slots is 0; at least 1"),
        ('pl.MemRef("m", 0), pl.Mem.Vec', "to have an offset and a size, or slots"),
        ('pl.MemRef("m", 0, 4)[1], pl.Mem.Vec', "to have an offset and a size, or slots"),
        ('pl.MemRef("m", -1, 4), pl.Mem.Vec', "offset is -1; at least 0"),
        ('pl.MemRef("m", slots=2.5), pl.Mem.Vec', r"slots is 2\.5"),
        ("pl.TileView(pad=3)", "pad is 3; PadValue is accepted"),
        ("pl.TileView(fractal='x')", "fractal is 'x'; int is accepted"),
        ("pl.TileView(valid_shape=[1])", r"valid_shape is \[1\], of a shape \[16, 16\]"),
        ("pl.TileView(stride=[1])", r"stride is \[1\], of a shape"),
        ("pl.TileView(valid_shape=[16, 20])", "valid_shape says 20 of 16 in dimension 1"),
    ],
)
def test_r_028_a_view_or_reference_that_cannot_be_is_refused(extra: str, says: str) -> None:
    given = f"t: pl.Tile[[16, 16], pl.FP32, {extra}] = pl.load(x, [0, 0], [16, 16])"
    with pytest.raises(ParserTypeError, match=says) as caught:
        read("x: pl.Tensor[[16, 16], pl.FP32]", given)
    assert caught.value.span is not None and caught.value.span.col in (8, 35)


def test_r_028_a_memory_reference_may_depend_on_scalars() -> None:
    f = read(
        "x: pl.Tensor[[16, 16], pl.FP32], k: pl.INDEX",
        "for i in pl.range(2):",
        '    t: pl.Tile[[16, 16], pl.FP32, pl.MemRef("m", k + 1024 * i, 1024), pl.Mem.Vec] = '
        "pl.load(x, [0, 0], [16, 16])",
        '    u: pl.Tile[[16, 16], pl.FP32, pl.MemRef("s", slots=2)[i], pl.Mem.Vec] = pl.exp(t)',
    )
    settled(f)
    ir.assert_structural_equal(ir.deserialize(ir.serialize(f)), f)


@pytest.mark.parametrize(
    ("valid", "declared", "fits"),
    [
        ("8", "8", True),
        ("12", "8", True),
        ("8", "12", False),
        ("n", "n", True),
        ("n", "m", False),
        ("16", "m", True),
    ],
)
def test_an_annotation_says_what_is_valid_or_narrows_it(
    valid: str, declared: str, fits: bool
) -> None:
    given = (
        f"t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[{declared}, 16])] = "
        f"pl.load(x, [0, 0], [16, 16], valid_shape=[{valid}, 16])"
    )
    signature = "x: pl.Tensor[[16, 16], pl.FP32], n: pl.INDEX, m: pl.INDEX"
    if fits:
        assert f"valid_shape=[{declared}, 16]" in settled(read(signature, given)).as_python()
        return
    with pytest.raises(ParserTypeError, match=r"has valid_shape .* but expression is valid"):
        read(signature, given)


def test_a_scalar_may_stand_behind_the_types_that_mention_it() -> None:
    @pl.function
    def f(a: "pl.Tensor[[k * 2], pl.FP32]", k: "pl.INDEX"):  # type: ignore  # noqa
        return pl.mul(a, 2.0)

    x = np.ones(6, F32)
    for execution in (None, "interpret"):
        compiled = ir.compile(settled(f), execution=execution)
        np.testing.assert_array_equal(compiled(x, 3), 2 * x)
        for k in (-3, 0, 2, 4):
            with pytest.raises(ShapeMismatch, match=rf"must be 2\*k = {2 * k}, as k = {k}"):
                compiled(x, k)


@pytest.mark.parametrize(
    ("extent", "k"), [("k", 6), ("k + 1", 5), ("k // 2", 13), ("k * 2 + N", 2), ("k + j", 5)]
)
@pytest.mark.parametrize("execution", [None, "interpret"])
def test_an_extent_of_scalars_is_what_they_make_it(
    extent: str, k: int, execution: str | None
) -> None:
    f = read(
        f"k: pl.INDEX, a: pl.Tensor[[{extent}], pl.FP32], j: pl.INT32, b: pl.Tensor[[N], pl.FP32]",
        f"made = pl.create_tensor([{extent}], dtype=pl.FP32, init_value=2.0)",
        "return pl.add(a, 1.0), made",
    )
    compiled = ir.compile(settled(f), execution=execution)
    x, rest = np.zeros(6, F32), (np.int32(1), np.zeros(2, F32))
    added, made = compiled(k, x, *rest)
    assert (added.tolist(), made.tolist()) == ([1.0] * 6, [2.0] * 6)
    for wrong in (k + 2, k - 2):
        with pytest.raises(ShapeMismatch, match=f"k = {wrong}"):
            compiled(wrong, x, *rest)


@pytest.mark.parametrize("execution", [None, "interpret"])
def test_a_result_may_have_the_extent_that_a_scalar_says(execution: str | None) -> None:
    f = read(
        "n: pl.INDEX", "t = pl.create_tensor([n - 2], dtype=pl.FP32, init_value=3.0)", "return t"
    )
    compiled = ir.compile(settled(f), execution=execution)
    assert [compiled(n).tolist() for n in (2, 4)] == [[], [3.0, 3.0]]
    with pytest.raises(ShapeMismatch, match=r"a result would have shape \(-1,\)"):
        compiled(1)


@pytest.mark.parametrize("region", ["if", "for"])
def test_r_028_the_annotation_of_a_yield_is_a_check_as_any_other(region: str) -> None:
    loop = "for i, (c,) in pl.range(2, init_values=(x,)):"
    body = [
        "if n > 0:" if region == "if" else loop,
        "    y: pl.Tensor[[8], pl.FP32] = pl.yield_(pl.exp(x))",
        *(["else:", "    y = pl.yield_(x)"] if region == "if" else []),
        "return y",
    ]
    with pytest.raises(ParserTypeError, match="'y' has shape dimension 0 = 8 but expression has"):
        read("x: pl.Tensor[[4], pl.FP32], n: pl.INDEX", *body)
    body[1] = body[1].replace("[8]", "[4]")
    settled(read("x: pl.Tensor[[4], pl.FP32], n: pl.INDEX", *body))


ROWS = {
    "load": ["t = pl.load(x, [0, 0], [16, 16], valid_shape=[n, 16])"],
    "slice": ["t = pl.slice(pl.load(x, [0, 0], [16, 16]), [16, 16], [0, 0], valid_shape=[n, 16])"],
    "set_validshape": ["t = pl.set_validshape(pl.load(x, [0, 0], [16, 16]), n, 16)"],
    "subscript": ["t = x[0:n, :]"],
    "annotation": [
        "t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[n, 16])] = "
        "pl.load(x, [0, 0], [16, 16])"
    ],
}


@pytest.mark.parametrize("way", ROWS)
@pytest.mark.parametrize("rest", ["o = pl.store(u, [0, 0], o)", "o = pl.assemble(o, u, [0, 0])"])
def test_rows_that_a_run_counts_are_those_and_no_more(way: str, rest: str) -> None:
    f = read(
        "x: pl.Tensor[[16, 16], pl.FP32], n: pl.INDEX, o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]",
        *ROWS[way],
        "u = pl.add(t, 1.0)",
        rest if way != "subscript" else "o = pl.assemble(o, u, [0, 0])",
        "return o",
    )
    for execution in (None, "interpret"):
        compiled = ir.compile(settled(f), execution=execution)
        for n in (-20, -1, 0, 5, 16):
            out = np.zeros((16, 16), F32)
            compiled(array(16, 16), n, out)
            expected = np.where(np.arange(16)[:, None] < n, array(16, 16) + 1, 0)
            np.testing.assert_array_equal(out, expected)
        with pytest.raises(IndexError):
            compiled(array(16, 16), 17, np.zeros((16, 16), F32))


# ---- literals ------------------------------------------------------------------------------------


def test_r_029_bare_literals_are_index_fp32_and_bool() -> None:
    f = read("n: pl.INT64", "a = 3", "b = 0.5", "c = True", "return a, b, c")
    assert types_of(f) == ["INDEX", "FP32", "BOOL"]


@pytest.mark.parametrize(
    ("literal", "dtype"),
    [
        ("pl.const(3, pl.INT16)", "INT16"),
        ("pl.const(-1, pl.INT8)", "INT8"),
        ("pl.const(0.1, pl.BF16)", "BF16"),
    ],
)
def test_r_029_const_gives_other_literals(literal: str, dtype: str) -> None:
    f = read("n: pl.INT64", f"a = {literal}", "return a")
    assert types_of(settled(f)) == [dtype]


@pytest.mark.parametrize(
    "literal", ["pl.const(3)", "pl.const(3, 4)", "pl.const(n, pl.INT32)", "pl.const('a', pl.INT32)"]
)
def test_r_029_const_takes_a_literal_and_a_dtype(literal: str) -> None:
    with pytest.raises(ParserTypeError, match="takes a literal number and a numeric dtype"):
        read("n: pl.INT64", f"a = {literal}")


def test_r_029_index_and_int64_differ() -> None:
    a = read("n: pl.INT64", "a = 3", "return a")
    b = read("n: pl.INT64", "a = pl.const(3, pl.INT64)", "return a")
    assert not ir.structural_equal(a, b)


# ---- closures ------------------------------------------------------------------------------------


def with_number(value: Any) -> Any:
    @pl.function
    def f(x: pl.Tensor[[8, 8], pl.FP32]) -> pl.Tensor[[8, 8], pl.FP32]:
        return pl.mul(x, value)

    return f


@pytest.mark.parametrize("value", [4, 0.5, -2])
def test_r_030_numbers_of_the_closure_are_constants(value: float) -> None:
    x = array(8, 8)
    np.testing.assert_array_equal(execute(with_number(value), x), x * F32(value))


@pytest.mark.parametrize("flag", [True, False])
def test_r_030_a_bool_of_the_closure_decides_a_branch(flag: bool) -> None:
    @pl.function
    def f(x: pl.Tensor[[8, 8], pl.FP32]) -> pl.Tensor[[8, 8], pl.FP32]:
        y = x
        if flag:
            y = pl.mul(x, 2.0)
        return y

    x = array(8, 8)
    np.testing.assert_array_equal(execute(f, x), x * 2 if flag else x)
    assert "if " not in f.as_python()


@pytest.mark.parametrize("shape", [[4, 8], (4, 8)])
def test_r_030_lists_and_tuples_of_the_closure_are_shapes(shape: Any) -> None:
    rows = shape[0]

    @pl.function
    def f(x: pl.Tensor[[8, 8], pl.FP32]) -> pl.Tensor[[rows, 8], pl.FP32]:
        return pl.slice(x, shape, [0, 0])

    x = array(8, 8)
    np.testing.assert_array_equal(execute(f, x), x[:4])


def test_r_030_expressions_and_dtypes_of_the_closure_are_used() -> None:
    rows = pl.dynamic("rows")
    half = pl.FP16

    @pl.function
    def f(x: pl.Tensor[[rows, 8], pl.FP32]) -> pl.Tensor[[rows, 8], half]:
        return pl.cast(x, half)

    assert "pl.Tensor[[rows, 8], pl.FP16]" in settled(f).as_python()


def test_r_030_other_objects_are_refused_by_name() -> None:
    thing = object()
    with pytest.raises(ParserError, match="thing"):

        @pl.function
        def f(x: pl.Tensor[[8, 8], pl.FP32]) -> pl.Tensor[[8, 8], pl.FP32]:
            return pl.mul(x, thing)

    with pytest.raises(UndefinedVariableError, match="nothing"):
        read(MATRIX, "y = pl.mul(x, nothing)")


# ---- subscripts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscript", "shape"),
    [
        ("x[3]", "[8]"),
        ("x[3, 0:4]", "[4]"),
        ("x[0:4, 2]", "[4]"),
        ("x[0:4, :]", "[4, 8]"),
        ("x[0:4]", "[4, 8]"),
        ("x[:, 2:]", "[16, 6]"),
        ("x[0:8][0:4]", "[4, 8]"),
    ],
)
def test_r_031_indices_drop_their_axis_and_slices_keep_it(subscript: str, shape: str) -> None:
    f = read(MATRIX, f"y = {subscript}", "return y")
    assert [str(t) for t in settled(f).return_types] == [f"pl.Tensor[{shape}, pl.FP32]"]
    x = array(16, 8)
    np.testing.assert_array_equal(execute(f, x), eval(subscript))


def test_r_031_all_indices_read_an_element() -> None:
    f = read(MATRIX, "y = x[3, 4]", "return y")
    x = array(16, 8)
    assert types_of(f) == ["FP32"] and execute(f, x) == x[3, 4]


@pytest.mark.parametrize(
    ("subscript", "says"),
    [
        ("x[0:8:2, :]", "step"),
        ("x[..., 0]", "not supported here"),
        ("x[None, 0]", "not supported in a subscript"),
        ("x[-1, 0]", "negative index"),
        ("x[0, -4:]", "negative index"),
    ],
)
def test_r_031_steps_ellipses_and_negative_indices_are_refused(subscript: str, says: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"(?i){says}"):
        read(MATRIX, f"y = {subscript}")


@pytest.mark.parametrize(
    "subscript", ["x[0, 0, 0]", "x[0.5, 0]", "x[4:2, :]", "x['0']", "x[[0, 1]]", "x[pl.FP32]"]
)
def test_r_031_what_is_no_subscript_of_the_type_is_refused(subscript: str) -> None:
    with pytest.raises(ParserTypeError, match=r"3 indices|an index is an integer|ends before"):
        read(MATRIX, f"y = {subscript}")


# ---- operators -----------------------------------------------------------------------------------

INTEGERS = {
    "n + m": -4,
    "n - m": -10,
    "n * m": -21,
    "n // m": -3,
    "n % m": 2,
    "m << 2": 12,
    "n >> 1": -4,
    "-n": 7,
    "n == m": False,
    "n != m": True,
    "n < m": True,
    "n <= m": True,
    "n > m": False,
    "n >= m": False,
    "n < m and m < n": False,
    "n < m or m < n": True,
    "not n < m": False,
}


@pytest.mark.parametrize("expression", INTEGERS)
def test_r_032_operators_on_scalars(expression: str) -> None:
    f = read("n: pl.INT64, m: pl.INT64", f"y = {expression}", "return y")
    assert execute(f, -7, 3) == INTEGERS[expression]
    assert ir.compile(f)(-7, 3) == INTEGERS[expression]


@pytest.mark.parametrize("expression", ["n is m", "n is not 3", "n in m"])
def test_r_032_values_have_no_identity_to_compare(expression: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"Unsupported comparison: I[sn]"):
        read("n: pl.INT64, m: pl.INT64", f"y = {expression}")


def test_r_032_constants_and_absence_are_compared_while_the_kernel_is_read() -> None:
    f = read("n: pl.INT64", "a = pl.FP32 is pl.FP32", "b = n is None", "return a, b")
    assert execute(f, 1) == (True, False)


@pytest.mark.parametrize("expression", ["n ** m", "n & m", "n | m", "n ^ m", "n @ m"])
def test_r_032_other_operators_are_refused(expression: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="Unsupported binary operator"):
        read("n: pl.INT64, m: pl.INT64", f"y = {expression}")


@pytest.mark.parametrize("dtype", ["FP32", "INT32"])
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%"])
@pytest.mark.parametrize("form", ["x {} 3", "7 {} x", "pl.load(x, [0], [4]) {} 3"])
def test_r_032_a_number_beside_a_tensor_has_its_dtype(dtype: str, operator: str, form: str) -> None:
    f = read(f"x: pl.Tensor[[4], pl.{dtype}]", f"y = {form.format(operator)}", "return y")
    x = np.array([-5, 2, 3, 7], dtype.lower().replace("fp", "float"))
    number = x.dtype.type
    given = (number(7), x) if form.startswith("7") else (x, number(3))
    python = {"+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide}
    word = python.get(operator, np.mod if operator == "%" else np.true_divide)
    for execution in (None, "interpret"):
        got = ir.compile(settled(f), execution=execution)(x)
        assert got.dtype == x.dtype
        if operator != "/" or dtype == "FP32":
            np.testing.assert_array_equal(got, word(*given).astype(x.dtype))


def test_r_031_a_starred_name_takes_no_values() -> None:
    with pytest.raises(ParserError, match=r"Cannot assign to '\*z'"):
        read("x: pl.Tensor[[4], pl.FP32]", "y, *z = (x, x, x)")


def test_r_032_comparisons_do_not_chain() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"(?i)chain"):
        read("n: pl.INT64", "y = 0 < n < 8")


@pytest.mark.parametrize("word", ["and", "or"])
def test_r_032_and_and_or_evaluate_both_sides(word: str) -> None:
    f = read("x: pl.Tensor[[4], pl.INT32], n: pl.INT64", f"y = n < 0 {word} x[2] > 0", "return y")
    names = [op.name for op in f.body.walk()]
    assert names.count("control.if") == 0 and names.count("memory.read") == 1


# ---- jit annotations -----------------------------------------------------------------------------


def test_r_033_a_layout_is_the_only_third_element_under_jit() -> None:
    @pl.jit
    def laid_out(x: pl.Tensor[[16, 16], pl.FP32, pl.NZ], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    assert "pl.NZ" in laid_out.source() or "NZ" in laid_out.specialize().as_python()

    view = pl.TensorView(stride=[32, 1], layout=pl.TensorLayout.ND)

    @pl.jit
    def viewed(y: pl.Tensor[[16, 16], pl.FP32, view], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(y, 1.0)
        return out

    with pytest.raises(TypeError, match="'y'"):
        viewed.compile()


def test_r_029_index_is_64_bits_wide() -> None:
    assert INDEX.bits == 64 and FP8E4M3FN.bits == 8


def part(of: str, valid: str) -> str:
    return of.replace("Vec]", f"Vec, pl.TileView(valid_shape={valid})]")


WHOLE = "pl.Tile[[32, 64], pl.FP32, pl.Mem.Vec]"
INDICES = WHOLE.replace("FP32", "INT32")
OPERANDS = (
    f"w: {WHOLE}, p: {part(WHOLE, [5, 7])}, i: {INDICES}, pi: {part(INDICES, [5, 7])}, "
    f"h: {WHOLE.replace('64', '32')}, ph: {part(WHOLE.replace('64', '32'), [5, 7])}, "
    "t: pl.Tensor[[32, 64], pl.FP32], at: pl.Tensor[[2, 4], pl.INT32]"
)
NEEDS_WHOLE = {
    "gather_mask": ("src", "w, 1", "p, 1"),
    "gather": ("x", "w, i, i", "p, i, i"),
    "gatherb": ("src", "w, i", "p, i"),
    "gatherb, places": ("offset", "w, i", "w, pi"),
    "gather_compare": ("src", "w, 1, i, out_cols=8", "p, 1, i, out_cols=8"),
    "mgather": ("idx", "t, i", "t, pi"),
    "scatter": ("dst", "w, w, i", "p, w, i"),
    "scatter, values": ("values", "w, w, i", "w, p, i"),
    "scatter_mask": ("dst", "w, h, 1", "p, h, 1"),
    "scatter_mask, values": ("src", "w, h, 1", "w, ph, 1"),
    "mscatter": ("values", "w, i, t", "p, i, t"),
    "sort32": ("src", "w, i", "p, i"),
    "sort32, places": ("idx", "w, i", "w, pi"),
}


@pytest.mark.parametrize("name", NEEDS_WHOLE)
def test_r_028_gathers_scatters_and_sorts_take_fully_valid_operands(name: str) -> None:
    argument, good, bad = NEEDS_WHOLE[name]
    call = name.partition(",")[0]
    assert read(OPERANDS, f"z = pl.tile.{call}({good})")
    with pytest.raises(ShapeMismatch, match=rf"{argument} is valid only in \[5, 7\]"):
        read(OPERANDS, f"z = pl.tile.{call}({bad})")
