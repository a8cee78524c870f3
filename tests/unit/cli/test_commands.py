"""The command line says what it finds, and fails with a reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cache import Entry, State, Store
from tilewright.cli.app import app

KERNEL = """
import tilewright.language as pl

@pl.jit
def add_c(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), 3.0), [0, 0], out)
    return out

@pl.program
class Two:
    @pl.function
    def main(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
        y: pl.Tensor[[8], pl.FP32] = pl.exp(x)
        return y

if __name__ == "__main__":
    print("it ran")
    add_c.compile(nothing=1)
"""
runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL, encoding="utf-8")
    yield str(path)


def test_run_executes_a_file_and_shows_author_errors(file: str) -> None:
    done = runner.invoke(app, ["run", file])
    assert done.exit_code == 1
    assert "it ran" in done.output and "has no parameter 'nothing'" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", ["run", "show"])
@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("def f():\n    return {}['key']\nf()", "KeyError: 'key'"),
    ],
)
def test_what_goes_wrong_in_a_file_is_shown_without_our_frames(
    command: str, text: str, last: str, tmp_path: Path
) -> None:
    path = tmp_path / "author.py"
    path.write_text(text + "\n", encoding="utf-8")
    done = runner.invoke(app, [command, str(path)])
    assert done.exit_code == 1 and done.output.splitlines()[-1].startswith(last)
    files = [line.split('"')[1] for line in done.output.splitlines() if line.startswith("  File")]
    assert set(files) == {str(path)}


@pytest.mark.parametrize("command", ["run", "show"])
def test_a_file_that_is_none_is_named(command: str, tmp_path: Path) -> None:
    for path, what in ((tmp_path, "is a directory"), (tmp_path / "no.py", "does not exist")):
        done = runner.invoke(app, [command, str(path)])
        said = " ".join(done.output.replace("│", " ").split())
        assert done.exit_code == 2 and what in said


def test_a_file_exits_with_its_own_status(tmp_path: Path) -> None:
    path = tmp_path / "author.py"
    path.write_text("import sys\nsys.exit(len(sys.argv))\n", encoding="utf-8")
    assert runner.invoke(app, ["run", str(path), "one", "--two"]).exit_code == 3


def test_the_version_is_told() -> None:
    assert runner.invoke(app, ["--version"]).output.startswith("tilewright ")


def test_explain_shows_the_page_of_an_error() -> None:
    for name in ("ShapeMismatch", "tw205"):
        page = runner.invoke(app, ["explain", name])
        assert page.exit_code == 0 and page.output.startswith("TW205 ShapeMismatch\n")
        assert "good:\n    pl.add(" in page.output
    assert "TW205" in runner.invoke(app, ["explain", "mismatch"]).output
    named = "err_dynamic_control_flow_not_supported"
    assert runner.invoke(app, ["explain", named]).output.startswith(f"{named}\n")
    assert runner.invoke(app, ["explain", "no such error"]).exit_code == 1


def test_show_prints_every_program_of_a_file(file: str) -> None:
    done = runner.invoke(app, ["show", file])
    assert done.exit_code == 0 and "class add_c" in done.output and "class Two" in done.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--level", "loop"], "pl.loop.lanes"),
        (["--after", "inline_calls"], "pl.load"),
        (["--llvm"], "define i32 @kernel"),
        (["--asm"], "kernel"),
        (["--source"], "pl.store(pl.add"),
        (["--timings"], "total"),
    ],
)
def test_show_stops_at_any_station(file: str, options: list[str], text: str) -> None:
    done = runner.invoke(app, ["show", file, "--kernel", "add_c", *options])
    assert done.exit_code == 0 and text in done.output and "Two" not in done.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--kernel", "nothing"], "add_c, Two"),
        (["--after", "nothing"], "inline_calls"),
        (["--level", "metal"], "'tile' and 'loop'"),
    ],
)
def test_show_says_what_there_is_instead(file: str, options: list[str], text: str) -> None:
    done = runner.invoke(app, ["show", file, *options])
    assert done.exit_code == 1 and text in done.output


def test_ops_lists_names_and_shows_pages() -> None:
    listed = runner.invoke(app, ["ops", "row_"])
    assert listed.exit_code == 0 and "pl.row_max" in listed.output
    page = runner.invoke(app, ["ops", "pl.row_sum"])
    assert "pl.row_sum(input, tmp_tile=None)" in page.output and "Sum over" in page.output
    assert runner.invoke(app, ["ops", "no such operation"]).exit_code == 1


def test_doctor_finds_the_toolchain_and_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = runner.invoke(app, ["doctor"])
    assert healthy.exit_code == 0 and "llvm" in healthy.output and "FAIL" not in healthy.output
    monkeypatch.setenv("TILEWRIGHT_CACHE", "maybe")
    sick = runner.invoke(app, ["doctor"])
    assert sick.exit_code == 1 and "TILEWRIGHT_CACHE='maybe'" in sick.output


@pytest.fixture
def root(tmp_path: Path) -> str:
    store = Store(tmp_path / "root")
    for number in range(3):
        parts = (("kernel", "k"), ("constant n", str(number)))
        digest = f"{number:02x}" + "0" * 62
        entry = Entry(digest, State.READY, parts, {"object": b"x" * 1000}, created=1.0 + number)
        store.publish(entry)
        os.utime(store.path(digest, State.READY), (1e9 + number, 1e9 + number))
    return str(store.root)


def test_cache_ls_and_stats_count_entries(root: str) -> None:
    listed = runner.invoke(app, ["cache", "ls", "--root", root])
    assert listed.output.count("ready") == 3
    empty = runner.invoke(app, ["cache", "ls", "--root", root + "-other"])
    assert empty.output.strip() == f"no entries under {root}-other"
    assert "ready      3" in runner.invoke(app, ["cache", "stats", "--root", root]).output


def test_a_setting_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "maybe")
    done = runner.invoke(app, ["cache", "ls"])
    assert done.exit_code == 2 and "TILEWRIGHT_CACHE='maybe': 0 or 1 is accepted" in done.output


def test_cache_why_names_the_part_that_changed(root: str) -> None:
    done = runner.invoke(app, ["cache", "why", "k", "--root", root])
    assert "constant n: 0 -> 1" in done.output and "constant n: 1 -> 2" in done.output
    assert runner.invoke(app, ["cache", "why", "other", "--root", root]).exit_code == 1


def test_cache_prune_keeps_what_was_used_last(root: str) -> None:
    done = runner.invoke(app, ["cache", "prune", "--max-size", "2k", "--root", root])
    assert done.output.strip() == "2 removed"
    assert [path.stem[:2] for path in Store(root).files()] == ["02"]


def test_cache_verify_finds_and_removes_damage(root: str) -> None:
    path = Store(root).files()[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert runner.invoke(app, ["cache", "verify", "--root", root]).exit_code == 1
    assert runner.invoke(app, ["cache", "verify", "--root", root, "--fix"]).exit_code == 0
    assert not path.exists()


def test_cache_verify_says_what_it_cannot_remove(root: str) -> None:
    path = Store(root).files()[0]
    path.unlink()
    (path / "mine").mkdir(parents=True)
    done = runner.invoke(app, ["cache", "verify", "--root", root, "--fix"])
    assert done.exit_code == 1 and (path / "mine").exists()
    assert f"not removed: {path}" in done.output and "Traceback" not in done.output


@pytest.mark.parametrize("kind", ["a file", "open to others", "closed"])
def test_doctor_says_why_a_root_is_of_no_use(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    if kind == "a file":
        root.write_text("")
    else:
        root.mkdir(mode=0o700)
    if kind == "open to others":
        root.chmod(0o777)
    if kind == "closed":
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(root))
    done = runner.invoke(app, ["doctor"])
    assert done.exit_code == (0 if kind == "closed" else 1)
    said = {"a file": "no directory", "open to others": "chmod 700", "closed": "cannot be written"}
    assert said[kind] in done.output


def test_show_says_what_fits_a_device(file: str) -> None:
    result = runner.invoke(app, ["show", file, "--kernel", "add_c", "--fit", "a2a3"])
    assert result.exit_code == 0
    assert result.output.startswith("add_c fits a2a3") and "Vec peaks at 2,048 of" in result.output
    unknown = runner.invoke(app, ["show", file, "--fit", "abacus"])
    assert unknown.exit_code == 1 and "unknown device 'abacus'" in unknown.output


TRACED = """
import numpy as np
import tilewright.nki as nki
import tilewright.nki.language as nl

@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile + tile)
    return out

@nki.jit
def idle(x):
    return x

doubled(np.ones((128, 64), np.float32))
doubled[2](np.ones((16, 8), np.float32))
"""


def test_show_takes_the_calls_that_a_file_makes_of_traced_kernels(tmp_path: Path) -> None:
    path = tmp_path / "traced.py"
    path.write_text(TRACED, encoding="utf-8")
    shown = runner.invoke(app, ["show", str(path)])
    assert shown.exit_code == 0
    assert "pl.Tensor[[128, 64], pl.FP32]" in shown.output
    assert "pl.Tensor[[16, 8], pl.FP32]" in shown.output
    assert "idle is traced when it is called" in shown.output
    fitting = runner.invoke(app, ["show", str(path), "--kernel", "doubled", "--fit", "trn2"])
    assert "doubled#1 fits trn2" in fitting.output and "SBUF peaks at 512 of" in fitting.output
    loops = runner.invoke(app, ["show", str(path), "--kernel", "doubled#2", "--level", "loop"])
    assert loops.exit_code == 0 and "pl.loop" in loops.output
