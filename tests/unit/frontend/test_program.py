"""Programs are read from the class statement that made the class."""

import linecache
from typing import Any

import pytest

import tilewright.language as pl
from tilewright.errors import (
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    TilewrightError,
)
from tilewright.frontend.decorators import PendingMethod
from unit.frontend.parsed_kernels import execute, settled

T8 = pl.Tensor[[8], pl.FP32]


def test_a_program_keeps_its_name_and_functions_in_order_of_need() -> None:
    @pl.program
    class Model:
        """A docstring is fine."""

        @pl.inline
        def shift(self, x):  # type: ignore[no-untyped-def]
            return pl.add(x, 1.0)

        @pl.function
        def main(self, x: T8) -> T8:
            return self.shift(x)

    assert (Model.name, list(Model.functions)) == ("Model", ["main"])
    assert settled(Model).as_python().startswith("# pypto.program: Model\n")


def test_postponed_annotations_see_the_locals_around_the_class() -> None:
    text = (
        "from __future__ import annotations\n"
        "import tilewright.language as pl\n"
        "def make(rows):\n"
        "    @pl.program\n"
        "    class P:\n"
        "        @pl.function\n"
        "        def main(self, x: pl.Tensor[[rows], pl.FP32]) -> pl.Tensor[[rows], pl.FP32]:\n"
        "            return pl.exp(x)\n"
        "    return P\n"
    )
    linecache.cache["<later>"] = (len(text), None, text.splitlines(keepends=True), "<later>")
    names: dict[str, Any] = {}
    exec(compile(text, "<later>", "exec", dont_inherit=True), names)
    assert "pl.Tensor[[12], pl.FP32]" in names["make"](12).as_python()


def test_a_program_holds_decorated_functions_only() -> None:
    with pytest.raises(ParserSyntaxError, match="holds functions only"):

        @pl.program
        class P:
            x = 3

            @pl.function
            def main(self, x: T8) -> T8:
                return x

    with pytest.raises(ParserSyntaxError, match="'helper' of program 'Q' is not decorated"):

        @pl.program
        class Q:
            def helper(self, x: T8) -> T8:
                return x


def test_a_method_cannot_be_called_as_python() -> None:
    class Raw:
        @pl.function
        def main(self, x: T8) -> T8:
            return x

    assert isinstance(Raw.main, PendingMethod)
    with pytest.raises(ParserSyntaxError, match="is part of a program"):
        Raw.main()  # type: ignore[operator]


def test_strict_ssa_of_a_program_holds_for_its_functions() -> None:
    with pytest.raises(ParserError, match="already defined"):

        @pl.program(strict_ssa=True)
        class P:
            @pl.function
            def main(self, x: T8) -> T8:
                y = pl.exp(x)
                y = pl.exp(y)
                return y


def test_a_sub_worker_keeps_its_python_body_without_directives() -> None:
    @pl.program
    class P:
        @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
        def callback(self, x: T8):  # type: ignore[no-untyped-def]
            """doc"""
            pl.func_attr({"n": 3})
            print("hello", x)

    callback = settled(P)["callback"]
    assert callback.attrs == {"n": 3}
    (op, _) = callback.body.ops
    assert op.attrs["body"] == '"""doc"""\nprint(\'hello\', x)'


def test_misplaced_directives_of_a_sub_worker_are_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="must appear before every other statement"):

        @pl.program
        class P:
            @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
            def callback(self, x: T8):  # type: ignore[no-untyped-def]
                print("hello", x)
                pl.func_attr({"n": 3})


def test_external_sources_are_for_core_functions_with_an_empty_body(tmp_path: Any) -> None:
    source = tmp_path / "k.cpp"
    source.write_text("// nothing")

    @pl.function(type=pl.FunctionType.AIV, external_source=str(source))
    def kernel(x: T8, out: pl.Out[T8]) -> T8: ...

    assert kernel.attrs["external_source"] == str(source)
    assert len(kernel.return_types) == 1
    with pytest.raises(ParserSyntaxError, match="AIC and AIV functions only"):

        @pl.function(external_source=str(source))
        def opaque(x: T8): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ValueError, match="does not exist"):

        @pl.function(type=pl.FunctionType.AIV, external_source="missing.cpp")
        def missing(x: T8): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ParserSyntaxError, match=r"is '\.\.\.'"):

        @pl.function(type=pl.FunctionType.AIC, external_source=str(source))
        def full(x: T8) -> T8:
            return x


def test_what_is_no_method_of_a_program_is_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="'scale' of program 'P' is a property, not a"):

        @pl.program
        class P:
            @property
            def scale(self):  # type: ignore[no-untyped-def]
                return 1

            @pl.function
            def main(self, x: T8) -> T8:
                return pl.exp(x)


def test_attrs_of_the_decorator_are_deprecated_where_they_are_written() -> None:
    with pytest.warns(DeprecationWarning, match="write pl.func_attr") as caught:

        @pl.function(attrs={"n": 3})
        def f(x: T8) -> T8:
            return pl.exp(x)

    assert f.attrs["n"] == 3 and caught[0].filename == __file__


@pl.inline
def same(p: pl.Tile) -> pl.Tile:
    return p


@pl.inline
def more(n: pl.Scalar[pl.INT32]) -> pl.Scalar[pl.INT32]:
    return n + 1


def test_an_inline_helper_takes_what_its_bare_annotation_says() -> None:
    with pytest.raises(ParserTypeError, match=r"parameter 'p': expects a pl\.Tile, got pl\.Tensor"):

        @pl.function
        def f(x: T8) -> T8:
            return same(x)


def test_an_index_is_passed_to_helpers_as_to_functions() -> None:
    @pl.function
    def f(i: pl.INDEX) -> pl.INT32:
        return more(i)

    assert execute(f, 3) == 4
    with pytest.raises(TilewrightError, match=r"expects pl\.Scalar\[pl\.INT32\], got .*INT64"):

        @pl.function
        def g(i: pl.INT64) -> pl.INT32:
            return more(i)


DEFINITIONS = {
    "is a coroutine": "@pl.function\nasync def f(x: pl.INT64):\n    y = x\n",
    "takes a fixed number": "@pl.inline\ndef f(*x):\n    y = x\n",
    "Parameter 'y' of 'f' has a default": (
        "@pl.function\ndef f(x: pl.INT64, y: pl.INT64 = 1):\n    z = y\n"
    ),
    "Parameter 'y' of 'g' has a default": "@pl.inline\ndef g(x, *, y=1):\n    z = y\n",
    "derives from 'Base'": "@pl.program\nclass P(Base):\n    pass\n",
    "'f' is defined twice": (
        "@pl.program\nclass P:\n"
        "    @pl.function\n    def f(self, x: pl.INT64):\n        y = x\n"
        "    @pl.function\n    def f(self, x: pl.INT64):\n        y = x\n"
    ),
}


@pytest.mark.parametrize("says", DEFINITIONS)
@pytest.mark.parametrize("is_live", [True, False])
def test_definitions_of_other_kinds_are_refused(says: str, is_live: bool, tmp_path: Any) -> None:
    text = DEFINITIONS[says]
    with pytest.raises(ParserSyntaxError, match=says) as caught:
        if is_live:
            path = tmp_path / "kernels.py"
            path.write_text(f"import tilewright.language as pl\nclass Base: pass\n{text}")
            exec(compile(path.read_text(), str(path), "exec"), {"__name__": "kernels"})
        else:
            pl.parse(text)
    assert caught.value.span is not None


def test_a_lambda_is_no_kernel() -> None:
    with pytest.raises(ParserSyntaxError, match="decorates a 'def', not <function"):
        pl.function(lambda x: x)
