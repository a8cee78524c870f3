"""Programs of the parsed style run under the names that they import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unit.compat.running import run_under

SOFTMAX = """
import numpy as np
import pypto.language as pl
from pypto import DataType, ir
from pypto.runtime import RunConfig

ROWS, COLS, BLOCK = 64, 128, 16


@pl.jit.inline
def normalised(x: pl.Tensor[[BLOCK, COLS], pl.FP32]):
    biggest = pl.row_max(x)
    shifted = pl.exp(pl.row_expand_sub(x, biggest))
    return pl.row_expand_div(shifted, pl.row_sum(shifted))


@pl.jit
def softmax(x: pl.Tensor[[ROWS, COLS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]]):
    for i in pl.parallel(0, ROWS, BLOCK):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.slice(x, [BLOCK, COLS], [i, 0])
            out = pl.assemble(out, normalised(rows), [i, 0])
    return out


x = np.random.default_rng(0).standard_normal((ROWS, COLS)).astype(np.float32)
out = np.zeros_like(x)
softmax(x, out, config=RunConfig())
e = np.exp(x - x.max(axis=1, keepdims=True))
np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
assert isinstance(pl.FP32, DataType) and DataType.FP32 is pl.FP32
assert "import tilewright.language as pl" in softmax.specialize().as_python()
print("ran")
"""

PROGRAM = """
import numpy as np
import pypto.language as pl
from pypto import ir, passes
from pypto.backend import BackendType, set_backend_type
from pypto.ir.pass_manager import OptimizationStrategy, PassManager
from pypto.ir.printer import python_print
from pypto.runtime import RunConfig, TensorSpec, execute_compiled, run

N = pl.dynamic("N")
set_backend_type(BackendType.Ascend910B)


@pl.program
class TileMatmul:
    @pl.function(type=pl.FunctionType.InCore)
    def tile(
        self,
        a: pl.Tensor[[32, 16], pl.FP32],
        b: pl.Tensor[[16, 32], pl.FP32],
        c: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
    ) -> pl.Tensor[[32, 32], pl.FP32]:
        ta = pl.load(a, [0, 0], [32, 16], target_memory=pl.Mem.Mat)
        tb = pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        left = pl.move(ta, target_memory=pl.Mem.Left)
        right = pl.move(tb, target_memory=pl.Mem.Right)
        return pl.store(pl.matmul(left, right), [0, 0], c)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        a: pl.Tensor[[32, 16], pl.FP32],
        b: pl.Tensor[[16, 32], pl.FP32],
        c: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
    ) -> pl.Tensor[[32, 32], pl.FP32]:
        c = self.tile(a, b, c)
        return c


a = TensorSpec("a", [32, 16], np.float32, lambda: 2.0).create_tensor()
b = TensorSpec("b", [16, 32], pl.FP32, 3.0).create_tensor()
c = np.zeros((32, 32), np.float32)
compiled = run(TileMatmul, a, b, c, config=RunConfig(backend_type=BackendType.Ascend910B))
np.testing.assert_array_equal(c, a @ b)
c[:] = 0
execute_compiled(compiled.output_dir, [a, b, c], platform="a2a3sim", device_id=0)
np.testing.assert_array_equal(c, a @ b)
assert python_print(TileMatmul) == TileMatmul.as_python()
assert PassManager.get_strategy(OptimizationStrategy.Default).run_passes(TileMatmul)
checks = passes.DiagnosticCheckSet()
checks.insert(passes.DiagnosticCheck.OutParamWriteDropped)
ir.compile(TileMatmul, disabled_diagnostics=checks)(a, b, c)
print("ran")
"""

TEXT = '''
import pypto.language as pl
from pypto import ir
from pypto.language.parser.diagnostics import ParserError, UndefinedVariableError

code = """
import pypto.language as pl

@pl.function
def f(x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
    y: pl.Tensor[[8], pl.FP32] = pl.exp(x)
    return y
"""
f = pl.parse(code)
ir.assert_structural_equal(f, pl.parse(f.as_python()))
try:
    pl.parse(code.replace("exp(x)", "exp(z)"))
except UndefinedVariableError as error:
    assert isinstance(error, ParserError) and error.span.line == 6
    print("ran")
'''

HARNESS = """
import numpy as np
import pypto.language as pl
from pypto.debug import torch_codegen
from pypto.ir.compiled_program import _to_runtime_shape
from pypto.runtime import ChipWorker, StackedDeviceTensor, benchmark, pto_isa_include_dir
from pypto.runtime.debug.pto_rebuild import rebuild_kernel_cpp_from_pto


@pl.program
class Scaled:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]
    ) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, 2.0)
        return out


from pypto import ir

compiled = ir.compile(Scaled)
with ChipWorker(platform="a2a3sim", device_id=0) as worker:
    x, out = worker.alloc_tensor([4, 8], pl.FP32), worker.alloc_tensor([4, 8])
    worker.copy_to(x, np.arange(32, dtype=np.float32).reshape(4, 8))
    worker.run(compiled, x, out)
    np.testing.assert_array_equal(out, 2 * x)
    try:
        worker(x, out)
    except Exception as error:
        assert "has no program of its own" in str(error), error
assert StackedDeviceTensor([x, out]).shape == (2, 4, 8)

for program in (compiled, compiled.output_dir):
    found = benchmark(program, x, out, warmup=1, rounds=5, platform="a2a3sim")
    assert len(found.samples_us) == 5 and found.min_us <= found.median_us <= found.max_us, found
    assert found.min_us <= found.mean_us <= found.max_us and "5 calls" in str(found)

golden = {}
exec(torch_codegen(Scaled, check_shapes=True), golden)
np.testing.assert_array_equal(golden["run"](x), 2 * x)
np.testing.assert_array_equal(golden["main"](x), 2 * x)
lone = pl.parse("@pl.function\\ndef f(x: pl.Tensor[[4, 8], pl.FP32]):\\n    return pl.exp(x)\\n")
exec(torch_codegen(lone), golden)
np.testing.assert_allclose(golden["f"](x), np.exp(x), rtol=1e-6)

from pypto.runtime.distributed_runner import _tensor_from_continuous

try:
    import torch
except ImportError:
    pass
else:
    for dtype in (np.float32, np.int64, np.bool_, pl.BF16.numpy):
        given = np.zeros((2, 3), dtype)
        seen = _tensor_from_continuous(given)
        seen[1, 2] = 1
        assert isinstance(seen, torch.Tensor) and given[1, 2] == 1 and not given[0].any()
    assert _tensor_from_continuous(seen) is seen and seen.dtype is torch.bfloat16

assert _to_runtime_shape([4, 8]) == _to_runtime_shape(Scaled["main"].params[0].type) == (4, 8)
try:
    _to_runtime_shape([pl.dynamic("N"), 8])
except ValueError as error:
    assert "the extent N is not known" in str(error), error

import pathlib

assert (pathlib.Path(pto_isa_include_dir()) / "tilewright.h").exists()
try:
    rebuild_kernel_cpp_from_pto(compiled.output_dir)
except RuntimeError as error:
    raise AssertionError from error
except Exception as error:
    assert "compiled from their IR" in str(error), error
print("ran")
"""

DISTRIBUTED = """
import pypto.language as pl
import pypto.language.distributed as pld
from pypto.ir.distributed_compiled_program import DistributedConfig

assert list(DistributedConfig(device_ids=[0, 1]).device_ids) == [0, 1]


@pl.function
def f(
    x: pl.InOut[pld.DistributedTensor[[8], pl.FP32]],
    s: pl.InOut[pld.DistributedTensor[[1, 1], pl.INT32]],
):
    x = pld.tensor.allreduce(x, s, op=pld.ReduceOp.Max)


assert "pld.ReduceOp.Max" in f.as_python()
print("ran")
"""

TORCH = """
import torch
import pypto.language as pl


@pl.jit
def scaled(
    x: pl.Tensor[[16, 16], pl.FP32],
    k: pl.Scalar[pl.FP32],
    out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, k)
    return out


x, out = torch.randn(16, 16), torch.zeros(16, 16)
scaled(x, 3.0, out)
assert torch.equal(out, x * 3)
got = scaled(x, 0.5)
assert isinstance(got, torch.Tensor) and torch.equal(got, x * 0.5)
print("ran")
"""


@pytest.mark.parametrize(
    "text",
    [SOFTMAX, PROGRAM, TEXT, HARNESS, DISTRIBUTED],
    ids=["jit", "program", "text", "harness", "pld"],
)
def test_a_published_program_runs_unmodified(text: str, tmp_path: Path) -> None:
    assert run_under(["pypto"], text, tmp_path).splitlines()[-1] == "ran"


@pytest.mark.torch
def test_tensors_of_torch_are_taken_and_given(tmp_path: Path) -> None:
    assert run_under(["pypto"], TORCH, tmp_path) == "ran"


MISSING = """
import importlib
import sys

import pypto.ir

for name in ("pypto.runtime.nowhere", "pypto.frontend.ast"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name.rsplit(".", name.count(".") - 1)[0] or error.name == name
        assert "Tilewright's alias 'pypto' has pypto, pypto.backend" in str(error), error
try:
    pypto.ir.no_such_thing
except AttributeError as error:
    assert "Tilewright has no 'no_such_thing' in its alias 'pypto.ir'" in str(error), error
for name, instead in (("Call", "an Operation says what it is"), ("GlobalVar", "attrs['callee']")):
    try:
        getattr(pypto.ir, name)
    except AttributeError as error:
        assert f"has no '{name}'" in str(error) and instead in str(error), error
    else:
        raise AssertionError(name)
try:
    from pypto.runtime import no_such_thing
except ImportError as error:
    assert "no_such_thing" in str(error) and "pypto.runtime" in str(error), error
print(sys.argv[1:])
"""


def test_names_that_are_missing_say_so_and_arguments_reach_the_script(tmp_path: Path) -> None:
    assert run_under(["pypto"], MISSING, tmp_path, "one", "--two") == "['one', '--two']"


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_installing_twice_is_installing_once() -> None:
    program = (
        "from tilewright.compat import install\n"
        "install('pypto'); import pypto; first = pypto\n"
        "install('pypto', 'neuronxcc'); import pypto, neuronxcc.nki, nki\n"
        "print(first is pypto)"
    )
    assert python(program) == "True"


def test_a_package_that_is_there_already_is_not_replaced() -> None:
    program = (
        "import sys, types; sys.modules['pypto'] = types.ModuleType('pypto')\n"
        "sys.modules['pypto'].__file__ = 'somewhere'\n"
        "from tilewright.compat import install\n"
        "try: install('pypto')\n"
        "except ImportError as error: print(error)"
    )
    assert "has been imported already, from somewhere" in python(program)


def test_nothing_is_installed_unasked() -> None:
    program = (
        "import sys, tilewright.compat\n"
        "print([n for n in ('pypto', 'nki', 'neuronxcc') if n in sys.modules])"
    )
    assert python(program) == "[]"


@pytest.mark.parametrize("arguments", [[], ["pypto"], ["pypto", "--"], ["torch", "--", "x.py"]])
def test_a_malformed_command_is_answered_with_the_usage(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.compat", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m tilewright.compat")


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("import pypto.language as pl\n1 / 0", 'File "{}", line 2', "ZeroDivisionError: division"),
        ("def f(:", 'File "{}", line 1', "SyntaxError: invalid syntax"),
        ("import pypto.language as pl\npl.parse('x')", "-->", "Error: A text cannot contain"),
    ],
)
def test_a_script_that_fails_is_shown_without_what_ran_it(
    text: str, first: str, last: str, tmp_path: Path
) -> None:
    script = tmp_path / "author.py"
    script.write_text(text + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "tilewright.compat", "pypto", "--", str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "runpy" not in done.stderr
    assert first.format(script) in done.stderr.splitlines()[0 if "f(:" in text else 1]
    assert last in done.stderr


def test_a_script_that_is_not_there_is_named() -> None:
    command = [sys.executable, "-m", "tilewright.compat", "pypto", "--", "nowhere.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("nowhere.py does not exist\n")


def test_a_module_of_the_alias_runs_as_the_one_it_stands_for(tmp_path: Path) -> None:
    root, config = tmp_path / "root", tmp_path / "warm.json"
    kernels = SOFTMAX.partition("x = np.random")[0]
    (tmp_path / "kernels.py").write_text(kernels, encoding="utf-8")
    requests = [{"kernel": "softmax"}]
    cache = {"root": str(root)}
    config.write_text(json.dumps({"schema_version": 1, "cache": cache, "requests": requests}))
    alias = [sys.executable, "-m", "tilewright.compat", "pypto", "--", "-m", "pypto.jit"]
    warm = ["warm", "--module", "kernels", "--config", str(config)]
    done = subprocess.run([*alias, *warm], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and '"binary_builds": 1' in done.stdout, done.stderr
    done = subprocess.run([*alias, "stat", "--root", str(root)], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["ready"] == 1


def test_an_unknown_alias_is_refused() -> None:
    from tilewright.compat import install

    with pytest.raises(ValueError, match="no alias 'cupy'"):
        install("cupy")
