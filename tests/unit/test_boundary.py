"""Tests of boundary.py and of where it is used."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki.language as nl
from tilewright import nki
from tilewright.boundary import public_entry
from tilewright.errors import InternalError, ParserError, TilewrightError

X = np.zeros((128, 64), np.float32)


def refused(call: Callable[..., Any], *args: Any) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        call(*args)
    return caught.value


def functions(error: BaseException) -> list[str]:
    """The functions of the frames that a traceback shows."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def declares_function() -> None:
    @pl.function
    def bad(x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
        return pl.addd(x, x)


def declares_program() -> None:
    @pl.program
    class Bad:
        @pl.function
        def f(self, x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
            return pl.add(x, undefined_name)  # noqa: F821


def calls_entry() -> None:
    @pl.jit
    def bad(x: pl.Tensor[[64], pl.FP32], out: pl.Out[pl.Tensor[[64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.addd(x, x)
        return out

    bad(X[0], X[0].copy())


def gives_wrong_shape() -> None:
    @pl.jit
    def double(x: pl.Tensor[[64], pl.FP32], out: pl.Out[pl.Tensor[[64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)
        return out

    double(X[0], X[0].copy())
    double(X[0, :63].copy(), X[0].copy())


def decorates_a_lambda() -> None:
    pl.jit(lambda x: x)


def decorates_a_generator() -> None:
    @pl.jit.incore(level=pl.Level.AIV)
    def bad(x: pl.Tensor):
        yield x


def calls_an_entry_without_source() -> None:
    names: dict[str, Any] = {"pl": pl}
    exec("@pl.jit\ndef bad(x: pl.Tensor): return x\n", names)
    names["bad"](X)


def reads_text() -> None:
    pl.parse("import tilewright.language as pl\n@pl.function\ndef f(x: pl.Nothing): return x\n")


@pytest.mark.parametrize(
    "fails",
    [
        declares_function,
        declares_program,
        calls_entry,
        gives_wrong_shape,
        decorates_a_lambda,
        decorates_a_generator,
        calls_an_entry_without_source,
        reads_text,
    ],
)
def test_a_traceback_shows_the_author_and_one_way_in(fails: Callable[[], None]) -> None:
    names = functions(refused(fails))
    assert names[:2] == ["refused", fails.__name__]
    assert len(names) <= 5, names


def test_frames_of_a_traced_body_stay() -> None:
    def helper(t: Any) -> Any:
        return nl.add(t, nl.zeros((3, 5), dtype=t.dtype))

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, helper(nl.load(x)))
        return out

    names = functions(refused(kernel, X))
    assert names[-2:] == ["kernel", "helper"]
    assert "trace_kernel_impl" not in names


def test_the_reference_of_a_named_error_is_said_once_and_last() -> None:
    def helper(t: Any) -> Any:
        return nl.load(t)

    @nki.jit
    def kernel(x):
        helper(nl.load(x))
        return x

    text = str(refused(kernel, X))
    assert "called from here" in text
    assert text.count("docs/reference/nki-errors.md#err_unsupported_memory") == 1
    assert text.endswith("#err_unsupported_memory")


@pytest.mark.parametrize("variable", ["TILEWRIGHT_BACKTRACE", "PTO_BACKTRACE"])
def test_every_frame_is_shown_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert "read_function" in functions(refused(declares_function))


def test_what_else_a_backtrace_is_set_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTO_BACKTRACE", "2")
    with pytest.raises(ValueError, match="PTO_BACKTRACE='2': 0 or 1 is accepted"):
        declares_function()


@pytest.mark.parametrize("error", [InternalError("a defect"), KeyError("no error of an author")])
def test_defects_keep_every_frame(error: Exception) -> None:
    def inner() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        public_entry(inner)()
    assert functions(caught.value)[-1] == "inner"


def test_a_cause_is_kept() -> None:
    def inner() -> None:
        raise ParserError("outer") from ValueError("inner")

    error = refused(public_entry(inner))
    assert isinstance(error.__cause__, ValueError)


SCRIPT = """import sys
{before}
import tilewright.language as pl

{decorator}
def f(x: pl.Tensor[[8], pl.FP32]):
    t = pl.add(x, 1.0)
    return pl.mul(t, xx)

{after}
"""
UNDEFINED = """Error: Undefined variable 'xx'
  --> {path}:8:22
   |
 6 | def f(x: pl.Tensor[[8], pl.FP32]):
 7 |     t = pl.add(x, 1.0)
 8 |     return pl.mul(t, xx)
   |                      ^^ Undefined variable 'xx'
 9 |
10 |
   |
   = help: Did you mean 'x'?
"""


def uncaught(path: Path, environment: dict[str, str] | None = None, **parts: str) -> str:
    """What a script that fails leaves on standard error."""
    given = {"before": "", "decorator": "@pl.function", "after": "", **parts}
    path.write_text(SCRIPT.format(**given))
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    ran = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, env={**plain, **(environment or {})}
    )
    assert ran.returncode == 1
    return ran.stderr


def test_an_uncaught_error_of_a_kernel_is_its_place_alone(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    assert uncaught(path).split() == UNDEFINED.format(path=path).split()
    coloured = uncaught(path, {"FORCE_COLOR": "1"})
    assert "\x1b[1;31mError" in coloured
    assert "\x1b" not in uncaught(path, {"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert "Traceback" in uncaught(path, {"PTO_BACKTRACE": "1"})


def test_other_errors_and_other_hooks_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    hook = "sys.excepthook = lambda kind, value, trace: print('mine', file=sys.stderr)"
    assert uncaught(path, before=hook) == "mine\n"
    assert "Traceback" in uncaught(path, decorator="", after="[][1]")
    assert "Traceback" in uncaught(path, decorator="@pl.jit", after="f.compile(3)")
