"""Views of a tensor are its memory: under another shape, another layout, for reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import (
    ArgumentTypeMismatch,
    InvalidOperationError,
    RankMismatch,
    RuntimeShapeMismatch,
    ShapeMismatch,
    StaleRead,
)
from unit.frontend.parsed_kernels import execute

X = np.arange(24, dtype=np.float32).reshape(4, 6)
HEAD = "x: pl.Tensor[[4, 6], pl.FP32], o: pl.InOut[pl.Tensor[[4, 6], pl.FP32]]"


def kernel(*lines: str, head: str = HEAD) -> Any:
    body = "\n".join(f"    {line}" for line in lines)
    return pl.parse(f"@pl.function\ndef f({head}):\n{body}\n")


def outcomes(function: Any, *arrays: Any) -> list[Any]:
    """The last array after a native and an interpreted run."""
    found: list[Any] = []
    for run in (ir.compile(function), lambda *a: execute(function, *a)):
        given = [array.copy() for array in arrays]
        run(*given)
        found.append(given[-1])
    return found


def written(function: Any, x: Any = X, o: Any = None) -> Any:
    """What the last argument holds after the function, natively and interpreted."""
    native, interpreted = outcomes(function, x, np.zeros_like(X) if o is None else o)
    np.testing.assert_array_equal(native, interpreted)
    return native


def test_the_other_layout_exchanges_the_last_two_axes() -> None:
    f = kernel("v = pl.tensor.view(x, layout=pl.DN)", "o[:, :] = pl.transpose(v, 0, 1)")
    np.testing.assert_array_equal(written(f), X)
    f = kernel(
        "v = pl.tensor.view(x, [2, 5, 3], layout=pl.DN)",
        "o[:] = v",
        head="x: pl.Tensor[[2, 3, 5], pl.FP32], o: pl.Out[pl.Tensor[[2, 5, 3], pl.FP32]]",
    )
    given = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    native, interpreted = outcomes(f, given, np.zeros((2, 5, 3), np.float32))
    np.testing.assert_array_equal(native, given.swapaxes(1, 2))
    np.testing.assert_array_equal(interpreted, native)


def test_the_type_records_the_layout_and_prints_it() -> None:
    f = kernel("v = pl.tensor.view(x, layout=pl.DN)", "o[:] = pl.tensor.view(v, layout=pl.ND)")
    seen = f.body.ops[0].result.type
    assert (seen.shape, seen.view.layout) == ((6, 4), pl.TensorLayout.DN)
    assert "pl.Tensor[[6, 4], pl.FP32, pl.TensorView(layout=pl.TensorLayout.DN)]" in str(f)
    assert f.body.ops[1].result.type == f.params[0].type
    ir.assert_structural_equal(pl.parse(str(f)), f)
    np.testing.assert_array_equal(written(f), X)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["v = pl.tensor.view(o, layout=pl.DN)", "v[1:3, 0:2] = y"], lambda o: o.T[1:3, 0:2]),
        (["v = pl.tensor.view(o, [6, 4])", "v[1:3, 0:2] = y"], lambda o: o.reshape(6, 4)[1:3, :2]),
        (
            ["v = pl.tensor.view(o[1:3, :], layout=pl.DN)", "v[4:6, :] = y"],
            lambda o: o[1:3].T[4:6],
        ),
        (
            ["v = pl.tensor.view(pl.tensor.view(o, [6, 4]), layout=pl.DN)", "v[2:4, 4:6] = y"],
            lambda o: o.reshape(6, 4).T[2:4, 4:6],
        ),
        (
            ["v = pl.tensor.view(pl.tensor.view(o, layout=pl.DN), [8, 3])", "v[2:4, 0:2] = y"],
            lambda o: o.reshape(3, 8).T[2:4, :2],
        ),
        (
            [
                "v = pl.tensor.view(o, [8, 3], [7, 3])",
                "pl.store(pl.load(y, [0, 0], [2, 2]), [3, 1], v)",
            ],
            lambda o: o.reshape(8, 3)[3:5, 1:3],
        ),
    ],
)
def test_writes_into_a_view_of_an_output_go_through(lines: list[str], place: Any) -> None:
    f = kernel("y = pl.mul(x[0:2, 0:2], 2.0)", *lines)
    wanted = -X
    place(wanted)[:] = 2 * X[:2, :2]
    np.testing.assert_array_equal(written(f, X, -X), wanted)


def test_writes_into_a_view_of_a_tensor_of_ones_own_go_through() -> None:
    f = kernel(
        "t = pl.create_tensor([4, 6], dtype=pl.FP32, init_value=1.0)",
        "for i in pl.range(2):",
        "    v = pl.tensor.view(t, layout=pl.DN)",
        "    v[i:i + 1, :] = pl.tensor.view(x, layout=pl.DN)[i:i + 1, :]",
        "o[:] = t",
    )
    wanted = np.ones_like(X)
    wanted[:, :2] = X[:, :2]
    np.testing.assert_array_equal(written(f), wanted)


def test_a_kernel_that_is_given_a_view_writes_what_it_is_a_view_of() -> None:
    program = pl.parse_program("""
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def half(self, a: pl.Tensor[[6, 4], pl.FP32], b: pl.InOut[pl.Tensor[[6, 4], pl.FP32]]):
        pl.store(pl.mul(pl.load(a, [0, 0], [3, 4]), 2.0), [3, 0], b)

    @pl.function
    def f(self, x: pl.Tensor[[4, 6], pl.FP32], o: pl.InOut[pl.Tensor[[4, 6], pl.FP32]]):
        self.half(pl.tensor.view(x, layout=pl.DN), pl.tensor.view(o, layout=pl.DN))
""")
    wanted = -X
    wanted[:, 3:] = 2 * X[:, :3]
    for run in (ir.compile(program), lambda *a: execute(program, *a, entry="f")):
        o = -X
        run(X, o)
        np.testing.assert_array_equal(o, wanted)


def test_views_of_dynamic_extents_are_checked_when_they_run() -> None:
    f = kernel(
        "v = pl.tensor.view(o, [m, 4])",
        "v[0:1, :] = pl.tensor.view(x, layout=pl.DN)[0:1, :]",
        head="x: pl.Tensor[[4, n], pl.FP32], o: pl.InOut[pl.Tensor[[4, n], pl.FP32]], m: pl.INDEX",
    )
    compiled = ir.compile(f)
    o = np.zeros_like(X)
    compiled(X, o, 6)
    np.testing.assert_array_equal(o.reshape(6, 4)[0], X[:, 0])
    with pytest.raises(RuntimeShapeMismatch, match="20; it must be 24"):
        compiled(X, o, 5)


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("pl.tensor.view(x, layout=pl.NZ)", ArgumentTypeMismatch, "fractals"),
        ("pl.tensor.view(x, layout=pl.MX_A_ZZ)", ArgumentTypeMismatch, "MX_A_ZZ"),
        ("pl.tensor.view(x, [4, 6], layout=pl.DN)", ShapeMismatch, r"DN.*\[6, 4\], not \[4, 6\]"),
        ("pl.tensor.view(x, [5, 6])", ShapeMismatch, "24 elements"),
        ("pl.tensor.view(pl.reshape(x, [24]), layout=pl.DN)", RankMismatch, "no two axes"),
        ("pl.tensor.view(x, layout='DN')", ArgumentTypeMismatch, "not a layout"),
        ("pl.tensor.view(pl.load(x, [0, 0], [4, 6]))", ArgumentTypeMismatch, "not a tensor"),
    ],
)
def test_what_no_view_describes_is_refused_by_name(line: str, error: Any, message: str) -> None:
    with pytest.raises((error, InvalidOperationError), match=message):
        kernel(f"v = {line}")


def test_a_view_is_not_written_after_its_tensor_became_another() -> None:
    with pytest.raises(StaleRead, match="another tensor by now"):
        kernel(
            "t = pl.create_tensor([4, 6], dtype=pl.FP32, init_value=1.0)",
            "v = pl.tensor.view(t, layout=pl.DN)",
            "t[0:1, :] = x[0:1, :]",
            "v[0:1, :] = 2.0",
            "o[:] = t",
        )


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("o[1:3, :]", lambda o: o[1:3]),
        ("pl.tensor.view(o, layout=pl.DN)", lambda o: o.T),
        ("pl.tensor.view(o, [8, 3])", lambda o: o.reshape(8, 3)),
        ("pl.tensor.view(o[0:2, :], layout=pl.DN)", lambda o: o[:2].T),
    ],
)
def test_a_part_is_written_in_loops_and_scopes_around_which_it_was_taken(
    part: str, place: Any
) -> None:
    f = kernel(
        f"v = {part}",
        "for i in pl.range(2):",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        v[i:i + 1, 0:2] = pl.add(v[i:i + 1, 0:2], x[0:1, 0:2])",
        "    for j in pl.range(3):",
        "        v[i:i + 1, 0:2] = pl.add(v[i:i + 1, 0:2], 1.0)",
        "v[0:1, 1:2] = 9.0",
    )
    wanted = -X
    seen = place(wanted)
    seen[:2, :2] += X[:1, :2] + 3
    seen[0, 1] = 9
    np.testing.assert_array_equal(written(f, X, -X), wanted)


def test_a_part_that_a_loop_only_reads_is_what_it_was() -> None:
    f = kernel("v = o[0:1, :]", "for i in pl.range(4):", "    o[i:i + 1, :] = pl.add(v, 1.0)")
    np.testing.assert_array_equal(written(f, X, X), np.repeat(X[:1] + 1, 4, 0))


def test_a_name_that_means_another_part_after_an_iteration_is_not_written() -> None:
    with pytest.raises(StaleRead):
        kernel(
            "v = o[0:1, :]",
            "for i in pl.range(2):",
            "    v[:, :] = x[0:1, :]",
            "    v = o[1:2, :]",
        )
