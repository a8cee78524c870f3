"""What is said about a program: by which check, at which phase, where, and how loudly."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir, passes
from tilewright.errors import VerificationError
from tilewright.passes import (
    DiagnosticCheck,
    DiagnosticCheckSet,
    DiagnosticPhase,
    PassContext,
    VerificationLevel,
    diagnostics,
)
from tilewright.passes.pipeline import PIPELINE

HEAD = "x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"


def kernel(*lines: str, head: str = HEAD) -> Any:
    body = "\n".join(f"    {line}" for line in lines)
    return pl.parse(f"@pl.function\ndef f({head}):\n{body}\n", "k.py")


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Any:
    """The lines on standard error when a function is compiled."""

    def run(function: Any, **options: Any) -> list[str]:
        capfd.readouterr()
        ir.compile(function, **options)
        return capfd.readouterr().err.splitlines()

    return run


# ---- UnusedVariable ------------------------------------------------------------------------------


def test_a_variable_that_nothing_reads_is_reported_at_its_assignment(said: Any) -> None:
    assert said(kernel("t = pl.exp(x)", "o[:] = x")) == [
        "[warning] [UnusedVariable] (pipeline_input) Variable 't' in function 'f' is never used. "
        "Remove it, or name it '_'. at k.py:3:5"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "t = pl.load(x, [0, 0], [8, 64])",
        "v = x[0:2, :]",
        "s = pl.read(x, [0, 0])",
        "t = pl.create_tensor([4, 4], dtype=pl.FP32)",
        "for i in pl.range(2):\n        u = pl.mul(x, 2.0)",
        "half = x.shape[1] // 2",
    ],
)
def test_so_is_every_value_without_effect(line: str, said: Any) -> None:
    (found,) = said(kernel(line, "o[:] = x"))
    assert "[UnusedVariable]" in found


@pytest.mark.parametrize(
    "lines",
    [
        ["t = pl.exp(x)", "o[:] = t"],
        ["_ = pl.exp(x)", "o[:] = x"],
        ["_t = pl.exp(x)", "o[:] = x"],
        ["n = 3", "o[:] = x"],
        ["t = pl.exp(x)", "u = pl.mul(t, t)", "o[:] = u"],
        ["p = pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], o)"],
        ["i, v = pl.tensor.dim(x, 0), x", "o[:] = v"],
        ["t = x", "for i in pl.range(3):", "    t = pl.mul(t, 2.0)", "o[:] = t"],
        ["half = x.shape[1] // 2", "o[:, 0:half] = x[:, half:64]"],
        ["n = x.shape[0] * 2", "t = pl.reshape(x, [n, 32])", "o[:] = pl.reshape(t, [16, 64])"],
        ["t = pl.exp(x)", "if False:", "    o[:] = t", "else:", "    o[:] = x"],
        ["rows = 4 * 2", "t = pl.load(x, [0, 0], [rows, 64])", "o[0:8, :] = t"],
    ],
)
def test_what_is_read_or_has_an_effect_is_not(lines: list[str], said: Any) -> None:
    assert said(kernel(*lines)) == []


def test_a_dropped_write_is_reported_once(said: Any) -> None:
    (found,) = said(kernel("o = pl.exp(x)"))
    assert "[OutParamWriteDropped]" in found
    off = DiagnosticCheckSet([DiagnosticCheck.OutParamWriteDropped])
    assert said(kernel("o = pl.exp(x)"), disabled_diagnostics=off) == []


COPY = "r = pl.reshape(o, [64, 16])"
TAIL = "o[:] = x"


@pytest.mark.parametrize("made", ["pl.reshape", "pl.tensor.reshape"])
@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["r[:] = pl.reshape(x, [64, 16])"], 4),
        (["r = pl.assemble(r, pl.reshape(x, [64, 16]), [0, 0])"], 4),
        (["r[0:1, :] = x[0:1, 0:16]", "r[2:3, :] = x[0:1, 0:16]"], 5),
        (["for i in pl.range(4):", "    r[i : i + 1, :] = x[0:1, 0:16]"], 5),
        (["if n > 2:", "    r[:] = pl.reshape(x, [64, 16])"], 5),
        (["r[:] = pl.exp(r)", "r[0:1, :] = x[0:1, 0:16]"], 5),
    ],
)
def test_a_write_into_a_reshaped_output_that_is_lost_is_reported(
    made: str, lines: list[str], line: int, said: Any
) -> None:
    copy = COPY.replace("pl.reshape", made)
    found = said(kernel(copy, *lines, TAIL, head=f"{HEAD}, n: pl.Scalar[pl.INT64]"))
    found = [each for each in found if "OutParamWriteDropped" in each]
    assert len(found) == 1 and f"k.py:{line}:" in found[0]
    assert "pl.tensor.view(o, <shape>)" in found[0]


@pytest.mark.parametrize(
    "lines",
    [
        [COPY, "r[:] = pl.reshape(x, [64, 16])", "o[:] = pl.reshape(r, [16, 64])"],
        [COPY, "o[:] = x", "t = pl.exp(r)", "o[:] = pl.reshape(t, [16, 64])"],
        ["r = pl.tensor.view(o, [64, 16])", "r[:] = pl.reshape(x, [64, 16])"],
        [COPY, "for i in pl.range(4):", "    r[i : i + 1, :] = x[0:1, 0:16]", "return r"],
    ],
)
def test_one_that_is_read_or_reaches_the_output_is_not(lines: list[str], said: Any) -> None:
    assert not [found for found in said(kernel(*lines)) if "OutParamWriteDropped" in found]


def test_a_traced_kernel_may_leave_values_unused(capfd: pytest.CaptureFixture[str]) -> None:
    import tilewright.nki.language as nl
    from tilewright import nki

    @nki.jit
    def traced(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        u = nl.exp(t)
        del u
        nl.store(out, t)
        return out

    traced(np.zeros((8, 8), np.float32))
    assert "Unused" not in capfd.readouterr().err


# ---- UnusedControlFlowResult ---------------------------------------------------------------------

LOOP = (
    "for i, (a, b) in pl.range(4, init_values=(x, x)):",
    "    p, q = pl.yield_(pl.mul(a, 2.0), pl.mul(b, 3.0))",
    "o[:] = p",
)


def test_unused_results_of_loops_are_reported_when_asked_for(said: Any) -> None:
    assert said(kernel(*LOOP)) == []
    (found,) = said(kernel(*LOOP), disabled_diagnostics=DiagnosticCheckSet())
    assert found == (
        "[warning] [UnusedControlFlowResult] (pipeline_input) Result 'q' of a for in function 'f' "
        "is never used. at k.py:3:5"
    )
    used = kernel(*LOOP[:2], "o[:] = pl.add(p, q)")
    assert said(used, disabled_diagnostics=DiagnosticCheckSet()) == []


def test_so_are_those_of_branches(said: Any) -> None:
    lines = ["if n > 1:", "    y = pl.yield_(1)", "else:", "    y = pl.yield_(n)", "o[:] = x"]
    given = kernel(*lines, head=f"{HEAD}, n: pl.INDEX")
    (found,) = said(given, disabled_diagnostics=DiagnosticCheckSet())
    assert "Result 'y' of a branch" in found


# ---- TileInnermostDimGranularity -----------------------------------------------------------------

NARROW = (
    "for i in pl.range(16):",
    "    t = pl.load(x, [0, 4 * i], [16, 4])",
    "    pl.store(pl.mul(t, 2.0), [0, 4 * i], o)",
)


def test_narrow_tiles_are_hints_for_those_who_listen(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(kernel(*NARROW)) == []
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "info")
    load, store = said(kernel(*NARROW))
    assert load == (
        "[hint] [TileInnermostDimGranularity] (pipeline_input) PH001: load in function 'f' moves "
        "rows of 16 bytes; memory is moved in lines of 64. Make the innermost extent at least 16. "
        "at k.py:4:9"
    )
    assert "PH001: store" in store
    off = DiagnosticCheckSet([DiagnosticCheck.TileInnermostDimGranularity])
    assert said(kernel(*NARROW), disabled_diagnostics=off) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)"],
        ["pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], o)"],
    ],
)
def test_whole_lines_are_no_hint(lines: list[str], said: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TILEWRIGHT_LOG_LEVEL", "info")
    assert said(kernel(*lines)) == []


def test_tensors_with_short_rows_are_no_hint(said: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TILEWRIGHT_LOG_LEVEL", "info")
    head = HEAD.replace("64", "4")
    assert said(kernel("pl.store(pl.load(x, [0, 0], [8, 4]), [0, 0], o)", head=head)) == []


def test_hints_are_in_the_output_directory(tmp_path: Path) -> None:
    compiled = ir.compile(kernel(*NARROW), output_dir=str(tmp_path / "one"))
    lines = (compiled.output_dir / "perf_hints.log").read_text().splitlines()
    assert [line.partition("PH001: ")[2].split()[0] for line in lines] == ["load", "store"]
    plain = ir.compile(kernel("o[:] = x"), output_dir=str(tmp_path / "two"))
    assert not (plain.output_dir / "perf_hints.log").exists()


# ---- phases and loudness -------------------------------------------------------------------------


def test_the_phase_says_what_is_looked_at(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = kernel("t = pl.exp(x)", "o[:] = x")
    assert said(given, diagnostic_phase=DiagnosticPhase.NONE) == []
    monkeypatch.setenv("PYPTO_WARNING_LEVEL", "none")
    assert said(given) == []
    for phase in (DiagnosticPhase.PRE_PIPELINE, DiagnosticPhase.POST_PASS):
        assert len(said(given, diagnostic_phase=phase)) == 1


CALLED = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: pl.Tensor[[16, w], pl.FP32], o: pl.Out[pl.Tensor[[16, w], pl.FP32]],
          n: pl.INDEX):
        for i in pl.range(2):
            t = pl.load(x, [0, 0], [16, 16], valid_shape=[16, n])
            pl.store(t, [0, 0], o)

    @pl.function
    def main(self, x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
        self.k(x, o, 4)
"""


def test_a_finding_is_said_once_however_many_passes_keep_it(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "info")
    monkeypatch.setenv("PYPTO_WARNING_LEVEL", "post_pass")
    assert len(said(kernel(*NARROW))) == 2


def test_an_instrument_reports_what_passes_bring_out(capfd: pytest.CaptureFixture[str]) -> None:
    watch = passes.DiagnosticInstrument(DiagnosticPhase.POST_PASS)

    def narrow(program: Any) -> Any:
        del program
        return ir.Program("P", {"f": kernel("pl.store(pl.load(x, [0, 0], [16, 4]), [0, 0], o)")})

    with passes.PassContext(instruments=[watch]):
        passes.PassPipeline().add_pass(passes.create_program_pass(narrow)).run(
            ir.Program("P", {"f": kernel("o[:] = x")})
        )
    assert [d.stage for d in watch.found] == ["after narrow"] * 2
    assert capfd.readouterr().err == ""


def test_the_log_level_silences_and_talks(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = kernel("t = pl.exp(x)", "o[:] = x")
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "error")
    assert said(given) == []
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "debug")
    lines = said(given)
    assert any(line.startswith("[debug] f: inline_calls took ") for line in lines)
    assert any("UnusedVariable" in line for line in lines)
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "loud")
    with pytest.raises(ValueError, match="PYPTO_LOG_LEVEL='loud': debug or info"):
        said(given)


# ---- verification levels -------------------------------------------------------------------------


class Seen:
    """Counts what is verified and read back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verified = self.read = 0
        from tilewright.ir import reading
        from tilewright.passes import instruments

        def verify(program: Any) -> Any:
            self.verified += 1
            return program

        def read(program: Any) -> Any:
            self.read += 1
            return program

        monkeypatch.setattr(instruments, "verify", verify)
        monkeypatch.setattr(reading, "verify_text", read)


def test_a_text_is_searched_once_however_many_names_are_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []

    def findall(pattern: str, text: str) -> list[str]:
        searched.append(text)
        return re.findall(pattern, text)

    monkeypatch.setattr(diagnostics, "re", SimpleNamespace(findall=findall))
    made = kernel(*(f"v{k} = pl.exp(x)" for k in range(20)), "o[:] = x")
    assert len(list(diagnostics.find_unused_variables(made))) == 20
    assert len(searched) == 1


EACH = len(PIPELINE) + 1
"""What every pass gives, and what the front end gave."""


@pytest.mark.parametrize(
    ("level", "verified", "read"), [("none", 0, 0), ("basic", EACH, 0), ("roundtrip", EACH, EACH)]
)
def test_levels_say_what_is_verified(
    level: str, verified: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    ir.compile(kernel("o[:] = x"))
    assert (seen.verified, seen.read) == (1, 0)
    for how in ("environment", "option"):
        seen.verified = seen.read = 0
        if how == "environment":
            monkeypatch.setenv("PYPTO_VERIFY_LEVEL", level)
            ir.compile(kernel("o[:] = x"))
            monkeypatch.delenv("PYPTO_VERIFY_LEVEL")
        else:
            asked = passes.VerificationLevel(level)
            ir.compile(kernel("o[:] = x"), verification_level=asked)
        assert (seen.verified, seen.read) == (verified, read)


def test_programs_are_their_text_at_every_level() -> None:
    level = passes.VerificationLevel.ROUNDTRIP
    ir.compile(pl.parse_program(CALLED), verification_level=level)
    ir.compile(kernel(*LOOP), verification_level=level)


def broken() -> ir.Program:
    function = kernel("o[:] = x")
    function.return_types = (function.params[0].type,)
    return ir.Program("P", {"f": function})


def test_a_pass_that_breaks_a_program_is_named() -> None:
    step = passes.create_program_pass(lambda program: broken(), "break_it")
    good = ir.Program("P", {"f": kernel("o[:] = x")})
    basic = passes.PassContext(verification_level=passes.VerificationLevel.BASIC)
    with basic, pytest.raises(VerificationError, match="returns") as caught:
        passes.PassPipeline().add_pass(step).run(good)
    assert "after break_it" in str(caught.value)


def test_the_mode_says_when() -> None:
    step = passes.create_program_pass(lambda given: given, "same")
    for mode, when in (("BEFORE", "before same"), ("AFTER", "after same")):
        watch = passes.VerificationInstrument(passes.VerificationMode[mode])
        with passes.PassContext(instruments=[watch]), pytest.raises(VerificationError) as caught:
            passes.PassPipeline().add_pass(step).run(broken())
        assert when in str(caught.value)


# ---- properties ----------------------------------------------------------------------------------


def verify(program: ir.Program, *properties: passes.IRProperty, name: str = "") -> None:
    passes.verify_properties(passes.IRPropertySet(properties), program, name)


def test_a_set_of_properties_is_verified_and_no_other() -> None:
    verify(broken(), passes.IRProperty.SSAForm, passes.IRProperty.UseAfterDef)
    with pytest.raises(VerificationError, match="returns") as caught:
        verify(broken(), passes.IRProperty.TypeChecked, name="my_pass")
    assert "after my_pass" in str(caught.value)


def parsed(*lines: str, head: str = HEAD, kind: str = "Opaque") -> ir.Program:
    body = "\n".join(f"        {line}" for line in lines)
    return pl.parse_program(
        "@pl.program\nclass P:\n    @pl.function(type=pl.FunctionType.InCore)\n"
        f"    def k(self, {HEAD}):\n        pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], o)\n"
        f"    @pl.function(type=pl.FunctionType.{kind})\n    def main(self, {head}):\n{body}\n"
    )


def without(program: ir.Program, change: Any) -> ir.Program:
    """`program`, whose function main has been changed behind the back of the front end."""
    change(program["main"])
    return program


def defined_twice(function: Any) -> None:
    function.body.ops.insert(1, function.body.ops[0])


def used_before(function: Any) -> None:
    function.body.ops.insert(0, function.body.ops.pop(-2))


def nested(function: Any) -> None:
    function.func_type = ir.FunctionType.InCore


def incoherent(function: Any) -> None:
    view = ir.TileView(valid_shape=(99, 99))
    tile = next(op.result for op in function.body.ops if isinstance(op.result.type, ir.TileType))
    tile.type = ir.TileType(tile.type.shape, tile.type.dtype, tile.type.space, view)


def escaped(function: Any) -> None:
    function.return_types = (ir.ArrayType(4, pl.INT32),)


def unwritten(function: Any) -> None:
    ending = function.body.terminator
    ending.operands = (ending.operands[0], ())


LOADED = ("t = pl.load(x, [0, 0], [16, 64])", "pl.store(pl.mul(t, 2.0), [0, 0], o)")
SCOPED = ("with pl.at(level=pl.Level.CORE_GROUP):", "    o[:] = pl.exp(x)")
CALLS = ("t = pl.create_tensor([16, 64], dtype=pl.FP32)", "self.k(x, t)", "o[:] = t")


def read_stale(function: Any) -> None:
    made, *_ = function.body.ops
    last = function.body.ops[-2]
    target, source, *rest = last.operands
    assert source.name.startswith("t")
    last.operands = (target, made.result, *rest)


@pytest.mark.parametrize(
    ("given", "change", "name"),
    [
        (LOADED, defined_twice, "SSAForm"),
        (LOADED, used_before, "UseAfterDef"),
        (LOADED, unwritten, "OutParamNotShadowed"),
        (SCOPED, nested, "NoNestedInCore"),
        (LOADED, incoherent, "TileTypeCoherence"),
        (LOADED, escaped, "ArrayNotEscaped"),
        (CALLS, read_stale, "InOutUseValid"),
    ],
)
def test_each_property_is_refused_by_its_own_check(given: Any, change: Any, name: str) -> None:
    wanted = passes.IRProperty[name]
    verify(parsed(*given), *passes.IRProperty)
    with pytest.raises(VerificationError):
        verify(without(parsed(*given), change), wanted)
    if name in ("NoNestedInCore", "TileTypeCoherence", "InOutUseValid"):
        ir.verify(without(parsed(*given), change))


def test_the_verifier_is_a_pass() -> None:
    program = parsed(*LOADED)
    pipeline = passes.PassPipeline().add_pass(passes.run_verifier())
    assert pipeline.run(program) is program
    with pytest.raises(VerificationError):
        pipeline.run(broken())
    only = passes.run_verifier(passes.IRPropertySet([passes.IRProperty.ArrayNotEscaped]))
    assert only(broken()).name == "P"


def test_a_set_of_properties_grows_and_shrinks() -> None:
    given = passes.IRPropertySet()
    given.insert(passes.IRProperty.SSAForm)
    assert given.contains(passes.IRProperty.SSAForm) and len(given) == 1
    given.remove(passes.IRProperty.SSAForm)
    assert given == passes.IRPropertySet() != passes.DiagnosticCheckSet()


# ---- Settings ------------------------------------------------------------------------------------


def with_context(**options: Any) -> None:
    with PassContext([], **options):
        ir.compile(kernel("o[:] = x"))


def with_options(**options: Any) -> None:
    ir.compile(kernel("o[:] = x"), **options)


@pytest.mark.parametrize("use", [with_context, with_options])
@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("diagnostic_phase", "none", "early"),
        ("verification_level", "roundtrip", 3),
        ("disabled_diagnostics", ["UnusedVariable"], "UnusedVariable"),
        ("disabled_diagnostics", {DiagnosticCheck.UnusedVariable}, 3),
    ],
)
def test_settings_are_members_or_what_stands_for_them(
    use: Any, option: str, good: Any, bad: Any
) -> None:
    use(**{option: good})
    with pytest.raises((TypeError, ValueError), match=f"{option} is {bad!r}: "):
        use(**{option: bad})


def test_a_level_given_by_its_value_is_that_level() -> None:
    level: Any = "roundtrip"
    assert PassContext([], level).verification_level is VerificationLevel.ROUNDTRIP
