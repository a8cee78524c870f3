"""The interpreter: any level of the IR, run in numpy. The simulator and the oracle of the tests.

`run` interprets one call. `Interpreter` prepares a program once and calls it many times.
"""

from tilewright.interp.run import Interpreter, run

__all__ = ["Interpreter", "run"]
