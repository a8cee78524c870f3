"""What watches a pipeline and leaves files: the program after each pass, and what each took."""

from __future__ import annotations

from pathlib import Path

from tilewright.ir.core import Program
from tilewright.passes.instruments import Instrument, TimingInstrument


class DumpInstrument(Instrument):
    """Writes the program after each pass as `NN_after_PASS.py` into `directory`."""

    name = "dump"

    def __init__(self, directory: str | Path, *, concise: bool = True) -> None:
        self.directory = Path(directory)
        self.concise = concise
        self._count = 0

    def before_pass(self, pass_name: str, program: Program) -> None:
        if self._count == 0:
            self._write("pipeline_input", program)

    def after_pass(self, pass_name: str, program: Program) -> None:
        self._write(f"after_{pass_name}", program)

    def _write(self, name: str, program: Program) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = program.as_python(concise=self.concise)
        (self.directory / f"{self._count:02d}_{name}.py").write_text(text, encoding="utf-8")
        self._count += 1


class ReportInstrument(Instrument):
    """Writes one line per pass, with its time and the number of operations, to `report.txt`."""

    name = "report"

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._timing = TimingInstrument()

    def before_pass(self, pass_name: str, program: Program) -> None:
        self._timing.before_pass(pass_name, program)

    def after_pass(self, pass_name: str, program: Program) -> None:
        self._timing.after_pass(pass_name, program)
        count = sum(1 for f in program.functions.values() for _ in f.body.walk())
        spent = self._timing.seconds[pass_name]
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "report.txt").open("a", encoding="utf-8") as file:
            file.write(f"{pass_name}: {spent * 1e3:.3f} ms, {count} operations\n")
