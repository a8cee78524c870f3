"""Random programs of participants: native, interpreted and shuffled runs give what numpy says.

What they give does not depend on the schedule, so every schedule must give it; and where one part
of a protocol is missing, every run ends with the same participants waiting for the same things.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import compiled
from tilewright import errors, ir
from tilewright.interp import Interpreter
from tilewright.ir.verifier import verify
from tilewright.runtime import DistributedConfig

F32 = np.float32
WIDTH = 16


def outcome(run: Any, *args: Any) -> Any:
    """The arrays after a run, or the error that it ended with and what everybody waited for."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    try:
        run(*given)
    except errors.Deadlock as error:
        return "Deadlock", sorted((text, span and span.line) for text, span in error.notes)
    except errors.TilewrightError as error:
        return type(error).__name__, error.span and error.span.line
    return [a for a in given if isinstance(a, np.ndarray)]


def assert_same(found: Any, wanted: Any, text: str) -> None:
    """Two outcomes are equal; otherwise the program is shown."""
    if isinstance(found, tuple) or isinstance(wanted, tuple):
        assert found == wanted, text
        return
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, text)


def read(text: str, tmp_path: Any) -> ir.Program:
    """A program of a file, so that errors have lines."""
    file = tmp_path / "random_program.py"
    file.write_text(text)
    return pl.loads_program(str(file))


def check(program: ir.Program, text: str, *args: Any, ranks: int = 1, seeds: int = 2) -> Any:
    """Every way to run a program has the outcome of the plain interpreted run, which is given."""

    def interpreted(**options: Any) -> Any:
        made = Interpreter(verify(program), ranks=ranks, **options)
        return lambda *given: made.run("main", given)

    wanted = outcome(interpreted(), *args)
    for seed in range(seeds):
        assert_same(outcome(interpreted(checked=True, seed=seed), *args), wanted, text)
    if ranks > 1:
        config = DistributedConfig(device_ids=list(range(ranks)))
        native: Any = ir.compile(program, distributed_config=config)
        assert native.kernel.together.is_compiled, native.explain()
    else:
        native = compiled(program)
    for _ in range(3):
        assert_same(outcome(native, *args), wanted, text)
    return wanted


# ------------------------------------------------------------------------------------------ groups


@dataclass
class Sides:
    """The text of both sides of a group, and what numpy says that each holds."""

    lanes: int
    rows: int
    cube_value: Any
    lane_values: list[Any]
    cube: list[str] = field(default_factory=list[str])
    vector: list[str] = field(default_factory=list[str])

    def to_vector(self, pipe: int, rng: random.Random) -> None:
        """A tile of the cube core goes to the lanes, divided where there are two."""
        factor, split = F32(rng.choice([0.5, 1.25, -1.0])), int(self.lanes == 2)
        self.cube.append(f"pl.tpush_to_aiv(pl.mul(c, {factor}), split={split}, id={pipe})")
        self.vector += [
            f"t = pl.tpop_from_aic(shape=[{self.rows}, 16], dtype=pl.FP32, split={split}, "
            f"id={pipe})",
            "v = pl.add(pl.mul(v, 0.5), t)",
            f"pl.tfree_to_aic(t, id={pipe})",
        ]
        sent = self.cube_value * factor
        for lane in range(self.lanes):
            part = sent[lane * self.rows : (lane + 1) * self.rows]
            self.lane_values[lane] = self.lane_values[lane] * F32(0.5) + part

    def to_cube(self, pipe: int, rng: random.Random) -> None:
        """Tiles of the lanes go to the cube core, joined where there are two."""
        split, shape = int(self.lanes == 2), [self.rows * self.lanes, 16]
        self.vector.append(f"pl.tpush_to_aic(pl.add(v, 1.0), split={split}, id={pipe})")
        self.cube += [
            f"e = pl.tpop_from_aiv(shape={shape}, dtype=pl.FP32, split={split}, id={pipe})",
            "c = pl.sub(e, pl.mul(c, 0.25))",
            f"pl.tfree_to_aiv(e, id={pipe})",
        ]
        joined = np.concatenate([v + F32(1) for v in self.lane_values])
        self.cube_value = joined - self.cube_value * F32(0.25)

    def event(self, number: int, rng: random.Random) -> None:
        """One side waits for an event of the other."""
        setter, waiter = (
            (self.cube, self.vector) if rng.random() < 0.5 else (self.vector, self.cube)
        )
        known = rng.random() < 0.5
        text = str(number) if known else f"{number - 1} + pl.read(ones, [0])"
        setter.append(f"pl.system.sync_set({text}, pipe=pl.PipeType.FIX)")
        waiter.append(f"pl.system.sync_wait({text}, pipe=pl.PipeType.FIX)")

    def busy(self, rng: random.Random) -> None:
        """One side takes its time."""
        side, name = (self.cube, "a") if rng.random() < 0.5 else (self.vector, "b")
        side += [
            f"for _ in pl.range({rng.choice([1, 50, 400])}):",
            f"    {name} = pl.store(pl.add(pl.load({name}, [0, 0], [1, 16]), 0.0), [0, 0], {name})",
        ]


def group_text(sides: Sides, slots: dict[int, int]) -> str:
    """The program."""
    indent = "\n            "
    whole = f"pl.Tensor[[{sides.rows * sides.lanes}, 16], pl.FP32]"
    small = "pl.Tensor[[1, 16], pl.FP32]"
    cube = [f"pl.aic_initialize_pipe(slot_num={n}, id={pipe})" for pipe, n in slots.items()]
    vector = [f"pl.aiv_initialize_pipe(slot_num={n}, id={pipe})" for pipe, n in slots.items()]
    lane = "pl.get_subblock_idx()" if sides.lanes == 2 else "0"
    return f"""import tilewright.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: {whole}, ones: pl.Tensor[[1], pl.INT32], a: pl.InOut[{small}],
             out: pl.InOut[{whole}]):
        c = pl.load(x, [0, 0], [{sides.rows * sides.lanes}, 16])
        for r, (c,) in pl.range(2, init_values=(c,)):
            {indent.join(cube + sides.cube)}
            c = pl.yield_(c)
        out = pl.store(c, [0, 0], out)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, x: {whole}, ones: pl.Tensor[[1], pl.INT32], b: pl.InOut[{small}],
               kept: pl.InOut[{whole}]):
        row = {lane} * {sides.rows}
        v = pl.load(x, [row, 0], [{sides.rows}, 16])
        for r, (v,) in pl.range(2, init_values=(v,)):
            {indent.join(vector + sides.vector)}
            v = pl.yield_(v)
        kept = pl.store(v, [row, 0], kept)

    @pl.function(type=pl.FunctionType.Group)
    def main(self, x: {whole}, ones: pl.Tensor[[1], pl.INT32], a: pl.InOut[{small}],
             b: pl.InOut[{small}], out: pl.InOut[{whole}], kept: pl.InOut[{whole}]):
        self.cube(x, ones, a, out)
        self.vector(x, ones, b, kept)
"""


@pytest.mark.parametrize("seed", range(12))
def test_random_groups_give_what_numpy_says(seed: int, tmp_path: Any) -> None:
    rng = random.Random(seed)
    lanes, rows = rng.choice([1, 2]), rng.choice([1, 3])
    x = np.random.default_rng(seed).standard_normal((rows * lanes, WIDTH)).astype(F32)
    parts = [x[lane * rows : (lane + 1) * rows] for lane in range(lanes)]
    sides = Sides(lanes, rows, x.copy(), [part.copy() for part in parts])
    slots = {pipe: rng.choice([1, 2, 8]) for pipe in (0, 1)}
    steps: list[Any] = []
    for _ in range(rng.randrange(3, 9)):
        kind = rng.choice(["to_vector", "to_cube", "event", "busy"])
        number = rng.randrange(2) if kind.startswith("to") else rng.randrange(1, 60)
        steps.append((kind, number, rng.randrange(1 << 30)))

    def play() -> None:
        for kind, number, again in steps:
            arguments = (
                (random.Random(again),) if kind == "busy" else (number, random.Random(again))
            )
            getattr(sides, kind)(*arguments)

    play()
    text = group_text(sides, slots)
    first = sides.cube, sides.vector
    play()  # the loop runs twice
    sides.cube, sides.vector = first
    small = np.zeros((1, WIDTH), F32)
    args = x, np.ones(1, np.int32), small, small, np.zeros_like(x), np.zeros_like(x)
    found = check(read(text, tmp_path), text, *args)
    assert_same(found[4:], [sides.cube_value, np.concatenate(sides.lane_values)], text)


@pytest.mark.parametrize("seed", range(10))
def test_random_groups_that_lack_a_step_wait_for_the_same_everywhere(
    seed: int, tmp_path: Any
) -> None:
    rng = random.Random(1000 + seed)
    lanes, rows = rng.choice([1, 2]), 1
    x = np.random.default_rng(seed).standard_normal((rows * lanes, WIDTH)).astype(F32)
    sides = Sides(lanes, rows, x.copy(), [x[:rows].copy()] * lanes)
    for _ in range(rng.randrange(3, 8)):
        kind = rng.choice(["to_vector", "to_cube", "event"])
        getattr(sides, kind)(rng.randrange(2) if kind != "event" else rng.randrange(1, 60), rng)
    gone = [line for line in (*sides.cube, *sides.vector) if "push" in line or "sync_set" in line]
    lost = rng.choice(gone)
    for side in (sides.cube, sides.vector):
        side[:] = [line if line is not lost else "pass" for line in side]
    text = group_text(sides, {0: rng.choice([1, 2]), 1: 8})
    small = np.zeros((1, WIDTH), F32)
    args = x, np.ones(1, np.int32), small, small, np.zeros_like(x), np.zeros_like(x)
    found = check(read(text, tmp_path), text, *args)
    assert isinstance(found, tuple) and found[0] in ("Deadlock", "RuntimeShapeMismatch"), text


# ------------------------------------------------------------------------------------------ blocks


@pytest.mark.parametrize("seed", range(8))
def test_random_blocks_give_what_numpy_says(seed: int, tmp_path: Any) -> None:
    """Blocks, more than there are processors, read each other's rows between barriers."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 7, 40])
    x = np.random.default_rng(seed).standard_normal((64, WIDTH)).astype(F32)
    values, lines = x[:count].copy(), list[str]()
    for _ in range(rng.randrange(1, 5)):
        some, shift = rng.randrange(1, count + 1), rng.randrange(1, 5)
        meets = f"used_cores={rng.choice([str(some), 'm' if some == count else str(some)])}"
        takes = "n" if some == count else str(some)
        busy = rng.choice([1, 1, 300])
        lines += [
            f"for _ in pl.range({busy} - {busy - 1} * (i % 2)):",
            "    y = pl.store(v, [i, 0], y)",
            f"if i < {some}:",
            f"    pl.system.syncall({meets if some < count else ''})",
            f"    o = pl.load(y, [(i + {shift}) % {takes}, 0], [1, 16])",
            f"    pl.system.syncall({meets})",
            "    v = pl.add(pl.mul(v, 0.5), o)",
        ]
        values[:some] = values[:some] * F32(0.5) + np.roll(values[:some], -shift, axis=0)
    body = "\n            ".join(lines)
    whole = "pl.Tensor[[64, 16], pl.FP32]"
    text = f"""import tilewright.language as pl

@pl.program
class P:
    @pl.function
    def main(self, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], x: {whole},
             y: pl.InOut[{whole}], out: pl.InOut[{whole}]):
        for i in pl.spmd(n):
            v = pl.load(x, [i, 0], [1, 16])
            {body}
            out = pl.store(v, [i, 0], out)
"""
    args = count, count, x, np.zeros_like(x), np.zeros_like(x)
    found = check(read(text, tmp_path), text, *args)
    np.testing.assert_array_equal(found[2][:count], values, text)


# ------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize("seed", range(6))
def test_random_ranks_give_what_numpy_says(seed: int, tmp_path: Any) -> None:
    rng = random.Random(seed)
    ranks = rng.choice([2, 3, 5])
    x = np.random.default_rng(seed).standard_normal((ranks, 1, WIDTH)).astype(F32)
    values, lines, signals = x[:, 0].copy(), list[str](), 0
    for _ in range(rng.randrange(2, 6)):
        kind = rng.choice(["ring", "ring", "barrier", "sum"])
        if kind == "ring":
            shift = rng.randrange(1, ranks)
            lines += [
                f"peer = (r + {shift}) % {ranks}",
                f"pld.remote_store(v, w, peer, [{signals}, 0])",
                f"pld.notify(s, peer, [{signals}, 0], 1, op=pld.NotifyOp.Set)",
                f"pld.wait(s, [{signals}, 0], 1, cmp=pld.WaitCmp.Ge)",
                f"v = pl.sub(pl.mul(v, 0.5), pl.load(w, [{signals}, 0], [1, 16]))",
            ]
            values = values * F32(0.5) - np.roll(values, shift, axis=0)
            signals += 1
        elif kind == "barrier":
            lines.append("b = pld.tensor.barrier(b)")
        else:
            lines += [
                "q = pl.store(v, [0, 0], q)",
                "q = pld.tensor.allreduce(q, b)",
                "v = pl.mul(pl.load(q, [0, 0], [1, 16]), 0.25)",
                "b = pld.tensor.barrier(b)",
            ]
            total = values[0].copy()
            for rank in range(1, ranks):
                total = total + values[rank]
            values = np.repeat((total * F32(0.25))[None], ranks, axis=0)
    body = "\n        ".join(lines)
    one, all_ = "pl.Tensor[[1, 16], pl.FP32]", f"pl.Tensor[[{ranks}, 1, 16], pl.FP32]"
    w, s = "pld.DistributedTensor[[8, 16], pl.FP32]", "pld.DistributedTensor[[8, 1], pl.INT32]"
    q = "pld.DistributedTensor[[1, 16], pl.FP32]"
    b = f"pld.DistributedTensor[[{ranks}, 1], pl.INT32]"
    text = f"""import tilewright.language as pl
import tilewright.language.distributed as pld

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def chip(self, x: {one}, y: pl.Out[{one}], w: pl.InOut[{w}], s: pl.InOut[{s}],
             q: pl.InOut[{q}], b: pl.InOut[{b}], r: pl.Scalar[pl.INT32]):
        v = pl.load(x, [0, 0], [1, 16])
        {body}
        y = pl.store(v, [0, 0], y)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, x: {all_}, y: pl.Out[{all_}]):
        wb = pld.alloc_window_buffer([8, 16], dtype=pl.FP32)
        sb = pld.alloc_window_buffer([8, 1], dtype=pl.INT32)
        qb = pld.alloc_window_buffer([1, 16], dtype=pl.FP32)
        bb = pld.alloc_window_buffer([{ranks}, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            self.chip(x[r], y[r], pld.window(wb, [8, 16], dtype=pl.FP32),
                      pld.window(sb, [8, 1], dtype=pl.INT32),
                      pld.window(qb, [1, 16], dtype=pl.FP32),
                      pld.window(bb, [{ranks}, 1], dtype=pl.INT32), r, device=r)
"""
    found = check(read(text, tmp_path), text, x, np.zeros_like(x), ranks=ranks)
    np.testing.assert_allclose(found[1][:, 0], values, rtol=1e-5, atol=1e-5, err_msg=text)


# ------------------------------------------------------------------------------------ missing waits

T = pl.Tensor[[16, 16], pl.FP32]


def handing_over(waits: bool) -> ir.Program:
    """The cube core writes what the vector side reads, which waits for that, or not."""

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.AIC)
        def cube(self, a: T, shared: pl.InOut[T]) -> T:
            shared = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], shared)
            pl.system.sync_set(1, pipe=pl.PipeType.FIX)
            return shared

        @pl.function(type=pl.FunctionType.AIV)
        def vector(self, shared: T, n: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
            for i in pl.range(n):
                pl.system.sync_wait(1, pipe=pl.PipeType.MTE2)
            return pl.store(pl.load(shared, [0, 0], [16, 16]), [0, 0], out)

        @pl.function(type=pl.FunctionType.Group)
        def main(self, a: T, shared: pl.InOut[T], out: pl.InOut[T]) -> T:
            shared = self.cube(a, shared)
            out = self.vector(shared, int(waits), out)
            return out

    return P


@pytest.mark.parametrize("waits", [True, False])
def test_a_missing_wait_shows_in_some_checked_run(waits: bool) -> None:
    a = np.random.default_rng(0).standard_normal((16, 16)).astype(F32)
    program, right = verify(handing_over(waits)), list[bool]()
    for seed in range(8):
        out = np.zeros_like(a)
        Interpreter(program, checked=True, seed=seed).run("main", (a, np.zeros_like(a), out))
        right.append(bool((out == a).all()))
    assert all(right) == waits and any(right)
