"""Comments of the author's source stand in the printed program, and stay there when it is read."""

from __future__ import annotations

import textwrap
from typing import Any

import tilewright.language as pl
from tilewright import ir
from tilewright.passes import pipeline

HEAD = "@pl.function\ndef f(x: pl.Tensor[[8, 8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"


def body(text: str, **options: Any) -> list[str]:
    """The printed lines of a function with this body, without its head; printing is stable."""
    f = pl.parse(HEAD + textwrap.indent(textwrap.dedent(text).strip("\n"), "    ") + "\n")
    printed = f.as_python(concise=True)
    assert pl.parse(printed).as_python(concise=True) == printed
    assert ir.structural_equal(pl.parse(printed), f)
    lines = printed.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def f"))
    return textwrap.dedent("\n".join(lines[start + 1 :])).splitlines()


def test_a_comment_on_its_own_line_goes_before_the_next_statement() -> None:
    assert body(
        """
        # squares
        #   of all
        y = pl.mul(x, x)

        # what is wanted
        return y
        """
    ) == ["# squares", "#   of all", "y = pl.mul(x, x)", "# what is wanted", "return y"]


def test_a_comment_after_code_goes_behind_its_statement() -> None:
    assert body(
        """
        y = pl.mul(x, x)  # squares
        for i in pl.range(n):  # each
            y = pl.exp(y)  # grows
        return y  # done
        """
    ) == [
        "y = pl.mul(x, x)  # squares",
        "for i, (y_1,) in pl.range(n, init_values=(y,)):  # each",
        "    y_3 = pl.exp(y_1)  # grows",
        "    y_2 = pl.yield_(y_3)",
        "return y_2  # done",
    ]


def test_comments_inside_an_expression_belong_to_its_statement() -> None:
    assert body(
        """
        y = pl.add(  # sum
            # of the square
            pl.mul(x, x),  # here
            1.0,
        )
        return y
        """
    ) == ["# of the square", "y = pl.add(pl.mul(x, x), 1.0)  # sum  # here", "return y"]


def test_a_comment_whose_statement_prints_as_nothing_goes_before_the_next() -> None:
    assert body(
        """
        pass  # for now
        pl.static_assert(True)  # sure
        return x
        """
    ) == ["# for now", "# sure", "return x"]


def test_strings_and_docstrings_are_no_comments() -> None:
    assert body(
        '''
        """What # it does."""
        pl.static_print("# nothing")
        return x
        '''
    ) == ['"""What # it does."""', "return x"]


def test_the_comments_of_a_program_stay_with_their_methods() -> None:
    text = textwrap.dedent(
        """
        @pl.program
        class P:
            @pl.function
            def g(self, x: pl.Tensor[[8], pl.FP32]):  # signatures keep none
                # in g
                return pl.exp(x)

            @pl.function
            def f(self, x: pl.Tensor[[8], pl.FP32]):
                y = self.g(x)  # in f
                return y
        """
    )
    program = pl.parse_program(text)
    printed = program.as_python(concise=True)
    assert "        # in g\n        return pl.exp(x)\n" in printed
    assert "        y = self.g(x)  # in f\n" in printed and "signatures" not in printed
    assert pl.parse_program(printed).as_python(concise=True) == printed


def test_specialized_kernels_keep_the_comments_of_their_author() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):  # one core
            # half of it
            out[:] = pl.mul(x, 0.5)
        return out

    text = k.specialize().as_python()
    assert "  # one core\n            # half of it\n" in text


def test_comments_are_the_authors_text_and_no_part_of_the_program() -> None:
    kernel = HEAD + "    y = pl.mul(x, x){}\n    return y\n"
    noted, plain = (pl.parse(kernel.format(comment)) for comment in ("  # q", ""))
    ir.assert_structural_equal(noted, plain)
    assert ir.serialize(noted) == ir.serialize(plain)
    noted, plain = (ir.Program("P", {"f": f}, None) for f in (noted, plain))
    assert ir.content_hash(noted) == ir.content_hash(plain)
    lowered = pipeline.lower(noted, "f").as_python()
    assert "# q" not in lowered and lowered == pipeline.lower(plain, "f").as_python()
