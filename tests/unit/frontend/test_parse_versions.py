"""What branches and loops only hand on is the same tensor under another name."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import ScopeIsolationError, StaleRead
from unit.frontend.parsed_kernels import array, execute

CHOSEN = """
    if n > 3:
        y = pl.yield_(x)
    else:
        y = pl.yield_(x)
"""
LOOPED = """
    for i, (a,) in pl.range(n, init_values=(x,)):
        y = pl.yield_(a)
"""
NESTED = """
    if n > 3:
        if n > 5:
            z = pl.yield_(x)
        else:
            z = pl.yield_(x)
        y = pl.yield_(z)
    else:
        y = pl.yield_(x)
"""
CHOSEN_IN_A_LOOP = """
    for i, (a,) in pl.range(n, init_values=(x,)):
        if i > 1:
            b = pl.yield_(a)
        else:
            b = pl.yield_(x)
        y = pl.yield_(b)
"""
IN_TURN = """
    for i, (a, b) in pl.range(n, init_values=(x, x)):
        y, z = pl.yield_(b, a)
"""
WHILE = """
    for (a, i) in pl.while_(init_values=(x, 0)):
        pl.cond(i < n and pl.read(a, [0, 0]) + pl.read(x, [0, 0]) < 1000.0)
        y, j = pl.yield_(a, i + 1)
"""
IN_A_SCOPE = """
    with pl.at(level=pl.Level.CORE_GROUP):
        if n > 3:
            y = pl.yield_(x)
        else:
            y = pl.yield_(x)
"""
HANDED_ON = {
    "chosen": CHOSEN,
    "looped": LOOPED,
    "nested": NESTED,
    "chosen in a loop": CHOSEN_IN_A_LOOP,
    "in turn": IN_TURN,
    "while": WHILE,
    "in a scope": IN_A_SCOPE,
}


def parsed(body: str, direction: str = "InOut") -> ir.Function:
    type_ = "pl.Tensor[[8, 8], pl.FP32]"
    param = type_ if direction == "In" else f"pl.{direction}[{type_}]"
    return pl.parse(f"@pl.function\ndef f(x: {param}, n: pl.INDEX) -> {type_}:{body}")


def run_everywhere(f: ir.Function, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The result and what `x` is then, which are the same interpreted and compiled."""
    x, other = array(8, 8), array(8, 8)
    result, compiled = execute(f, x, n), ir.compile(f)(other, n)
    assert np.array_equal(result, compiled)
    assert np.array_equal(x, other)
    return result, x


@pytest.mark.parametrize("handed_on", HANDED_ON.values(), ids=HANDED_ON.keys())
def test_what_is_handed_on_unwritten_is_read_with_the_parameter(handed_on: str) -> None:
    for direction in ("In", "InOut"):
        f = parsed(f"{handed_on}    return pl.add(x, y)\n", direction)
        assert f.directions[0].name == direction
        result, _ = run_everywhere(f, 4)
        assert np.array_equal(result, 2 * array(8, 8))


@pytest.mark.parametrize("handed_on", HANDED_ON.values(), ids=HANDED_ON.keys())
@pytest.mark.parametrize("written", ["x", "y"])
def test_writing_what_is_handed_on_writes_the_parameter(handed_on: str, written: str) -> None:
    body = f"""{handed_on}
    t = pl.add(pl.load(x, [0, 0], [4, 8]), pl.load(y, [4, 0], [4, 8]))
    {written}[0:4, :] = t
    return pl.add({written}, 1.0)
"""
    result, x = run_everywhere(parsed(body), 4)
    expected = array(8, 8)
    expected[:4] += expected[4:]
    assert np.array_equal(x, expected)
    assert np.array_equal(result, expected + 1)


@pytest.mark.parametrize(("written", "read"), [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("handed_on", [CHOSEN, LOOPED], ids=["chosen", "looped"])
def test_what_is_handed_on_is_another_after_a_write(
    handed_on: str, written: str, read: str
) -> None:
    body = f"{handed_on}    {written}[0:4, :] = pl.load(x, [4, 0], [4, 8])\n    return {read}\n"
    with pytest.raises(StaleRead, match=f"'{read}' is read as it was before a later write"):
        parsed(body.replace(f"return {read}", f"return pl.add({read}, 1.0)"))


@pytest.mark.parametrize(
    "body",
    [
        """
    if n > 3:
        y = pl.yield_(x)
    else:
        y = pl.yield_(pl.store(pl.load(x, [0, 0], [4, 8]), [4, 0], x))
    return pl.add(x, y)
""",
        """
    for i, (a,) in pl.range(n, init_values=(x,)):
        y = pl.yield_(pl.store(pl.load(a, [0, 0], [4, 8]), [4, 0], a))
    return pl.add(x, y)
""",
        """
    for i, (a,) in pl.range(n, init_values=(x,)):
        y = pl.yield_(pl.store(pl.load(x, [0, 0], [4, 8]), [4, 0], a))
    return pl.add(y, 1.0)
""",
    ],
)
def test_a_parameter_that_an_arm_or_a_loop_writes_is_another_one(body: str) -> None:
    with pytest.raises(StaleRead, match="'x' is read as it was before a later write"):
        parsed(body)


def test_contents_that_have_no_name_are_not_called_by_it() -> None:
    written = "pl.store(pl.load(x, [0, 0], [4, 8]), [4, 0], x)"
    with pytest.raises(StaleRead) as caught:
        parsed(f"\n    return pl.mul({written}, x)\n")
    assert "or use its contents after the write." in str(caught.value)


@pytest.mark.parametrize(
    "later",
    [
        "    for i, (a,) in pl.range(n, init_values=(y,)):\n        z = pl.yield_(x)\n",
        "    if n > 3:\n        z = pl.yield_(x)\n    else:\n        z = pl.yield_(pl.add(y, y))\n",
    ],
    ids=["loop", "arm"],
)
def test_what_is_yielded_under_an_older_name_is_what_was_written(later: str) -> None:
    written = "    y[0:4, :] = pl.load(x, [4, 0], [4, 8])\n"
    result, x = run_everywhere(parsed(f"{CHOSEN}{written}{later}    return pl.add(z, 1.0)\n"), 4)
    assert np.array_equal(x, np.concatenate([array(8, 8)[4:], array(8, 8)[4:]]))
    assert np.array_equal(result, x + 1)


def test_several_results_may_be_one_parameter() -> None:
    body = """
    if n > 3:
        y, z = pl.yield_(x, x)
    else:
        y, z = pl.yield_(x, pl.add(x, 1.0))
    for i, (a, b) in pl.range(n, init_values=(x, y)):
        c, d = pl.yield_(pl.add(a, x), b)
    return pl.add(pl.add(x, d), pl.add(c, z))
"""
    result, _ = run_everywhere(parsed(body), 3)
    assert np.allclose(result, 7 * array(8, 8) + 1, rtol=1e-6)


def test_what_is_chosen_in_a_loop_stays_there() -> None:
    body = """
    for i in pl.range(n):
        if i > 1:
            y = pl.yield_(x)
        else:
            y = pl.yield_(x)
    return pl.add(x, y)
"""
    with pytest.raises(ScopeIsolationError, match="'y' is bound only inside a loop"):
        parsed(body)


def test_a_result_that_begins_as_a_parameter_may_become_something_else() -> None:
    body = f"""{CHOSEN}
    for i in pl.range(n):
        y = pl.add(y, x)
    return y
"""
    result, _ = run_everywhere(parsed(body), 3)
    assert np.allclose(result, 4 * array(8, 8))


def test_nested_loops_that_write_are_read_once_for_each_level() -> None:
    lines: list[str] = []
    indent = "    "
    for k in range(10):
        outer = "x" if k == 0 else f"a{k - 1}"
        lines.append(f"{indent}for i{k}, (a{k},) in pl.range(2, init_values=({outer},)):")
        indent += "    "
    lines.append(f"{indent}b = pl.store(pl.load(a9, [0, 0], [4, 8]), [4, 0], a9)")
    for k in reversed(range(10)):
        lines.append(f"{indent}b = pl.yield_(b)")
        indent = indent[4:]
    parsed("\n" + "\n".join(lines) + "\n    return pl.add(b, 1.0)\n")
