"""Printing, equality, hashing, verification, rewriting and serialization of one small program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tilewright import ir
from tilewright.errors import InternalError, VerificationError
from tilewright.ir.core import Block, Value
from tilewright.ir.equal import find_difference
from tilewright.ir.rewrite import Cloner, RuleCloner, rewrite_function
from tilewright.ir.serializer import VERSION
from tilewright.ops import arith, control, loop
from unit.ir.programs import program, scaled_sum

TEXT = """\
N = pl.dynamic("N")

@pl.function
def f(x: pl.Buffer[[N, 64], pl.FP32, pl.Mem.DDR], n: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.FP32]:
    for i, (acc,) in pl.range(n, init_values=(0.0,)):
        item: pl.Scalar[pl.FP32] = pl.loop.load(x, [i * 2, n])
        total = pl.yield_(acc + item * item)
    if total < 2.0:
        y = pl.yield_(pl.op.arith.exp(total))
    else:
        y = pl.yield_(total)
    return y
"""


def test_a_function_prints_as_the_code_one_would_write() -> None:
    assert scaled_sum().as_python() == TEXT


def test_concise_text_omits_the_types_of_intermediate_values() -> None:
    assert "item = pl.loop.load" in scaled_sum().as_python(concise=True)


def test_the_prefix_is_the_callers() -> None:
    assert "item: ir.Scalar[ir.FP32] = ir.loop.load(x, [i * 2, n])" in scaled_sum().as_python("ir")


def test_names_are_numbered_only_on_a_clash() -> None:
    function = scaled_sum()
    function.params[1].name = "x"
    assert "def f(x: pl.Buffer[[N, 64], pl.FP32, pl.Mem.DDR], x_1: pl.Scalar" in str(function)


def test_a_single_operation_prints_alone() -> None:
    loads = [op for op in scaled_sum().body.walk() if op.opdef is loop.load]
    assert [op.as_python(concise=True) for op in loads] == ["item = pl.loop.load(x, [i * 2, n])"]


def test_equal_programs_are_equal_and_hash_alike() -> None:
    assert ir.structural_equal(program(), program())
    assert ir.content_hash(program()) == ir.content_hash(program())


def test_names_do_not_count() -> None:
    renamed = scaled_sum()
    renamed.params[0].name = "other"
    ir.assert_structural_equal(renamed, scaled_sum())
    assert ir.content_hash(renamed) == ir.content_hash(scaled_sum())


def test_a_difference_is_explained_by_its_path() -> None:
    difference = find_difference(scaled_sum(2), scaled_sum(3))
    assert difference is not None
    assert "control.for" in difference
    assert "'INDEX:2' and 'INDEX:3'" in difference
    assert ir.content_hash(scaled_sum(2)) != ir.content_hash(scaled_sum(3))


def test_assert_structural_equal_names_the_difference() -> None:
    with pytest.raises(ValueError, match=r"arith\.mul"):
        ir.assert_structural_equal(scaled_sum(2), scaled_sum(3))


def test_copies_are_equal_with_fresh_and_with_shared_symbols() -> None:
    function = scaled_sum()
    for fresh in (False, True):
        copy = rewrite_function(function, lambda b, f=fresh: Cloner(b, fresh_symbols=f))
        ir.assert_structural_equal(copy, function)


def test_rules_replace_operations() -> None:
    rules = {arith.exp: (lambda x: x,)}
    changed = rewrite_function(scaled_sum(), lambda builder: RuleCloner(builder, rules))
    assert "exp" not in changed.as_python()
    ir.verify(ir.Program("P", {"f": changed}))


def test_a_valid_program_verifies() -> None:
    checked = program()
    assert ir.verify(checked) is checked


def test_a_use_before_its_definition_is_refused() -> None:
    function = scaled_sum()
    function.body.ops.reverse()
    with pytest.raises(VerificationError):
        ir.verify(ir.Program("P", {"f": function}))


def test_a_block_without_terminator_is_refused() -> None:
    function = scaled_sum()
    function.body.ops.pop()
    with pytest.raises(VerificationError, match=r"control\.return"):
        ir.verify(ir.Program("P", {"f": function}))


def test_a_wrong_result_type_is_refused() -> None:
    function = scaled_sum()
    function.params[0].type = ir.ScalarType(function.params[0].type.dtype)
    with pytest.raises(VerificationError, match=r"loop\.load"):
        ir.verify(ir.Program("P", {"f": function}))


def test_only_programs_and_functions_have_bytes() -> None:
    with pytest.raises(ir.SerializationError, match="3 is neither a program nor a function"):
        ir.serialize(3)  # pyright: ignore[reportArgumentType]


def test_bytes_give_the_same_program_back() -> None:
    copy = ir.deserialize(ir.serialize(program()))
    assert isinstance(copy, ir.Program)
    ir.assert_structural_equal(copy, program())
    assert copy.as_python() == program().as_python()


def values_of(block: Block) -> list[Value]:
    return [*block.params, *(value for op in block.walk() for value in op.results)]


def test_a_process_that_has_imported_no_op_reads_bytes(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(ir.serialize(program()))
    code = "import sys; from tilewright import ir; print(ir.deserialize_from_file(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == str(program()).strip(), done.stderr


def test_a_type_is_written_once() -> None:
    data = ir.serialize(program())
    types = {str(v.type) for f in program().functions.values() for v in values_of(f.body)}
    assert sum(data.count(name) for name in (b"TileType", b"TensorType", b"ScalarType")) <= len(
        types
    )


@pytest.mark.parametrize("damage", range(0, 1500, 7))
def test_damaged_bytes_are_refused_or_still_a_valid_program(damage: int) -> None:
    data = bytearray(ir.serialize(program()))
    data[damage % len(data)] ^= 0x5A
    try:
        survivor = ir.deserialize(bytes(data))
    except (ir.SerializationError, VerificationError):
        return
    assert isinstance(survivor, ir.Program)
    ir.verify(survivor)
    assert survivor.as_python()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["dtype", "FP32"], ["tuple"]),
        (["dtype", "FP32"], {"no": "node"}),
        (["enum", "ForKind", "Sequential"], "range"),
        ("control.for", "control.if"),
        ("arith.const", "arith.exp"),
        ("value", "dtype"),
        ("kind", "stage"),
    ],
)
def test_nodes_of_other_kinds_are_damage(old: Any, new: Any) -> None:
    unpacked = msgpack.unpackb(ir.serialize(program()))
    changed = replaced(unpacked, old, new)
    assert changed != unpacked
    with pytest.raises((ir.SerializationError, VerificationError)):
        ir.deserialize(msgpack.packb(changed))


@pytest.mark.parametrize(("old", "new"), [("n", "n n"), ("N", "1N"), ("i", "class"), ("x", "x-1")])
def test_names_that_text_cannot_use_are_damage(old: str, new: str) -> None:
    changed = replaced(msgpack.unpackb(ir.serialize(program())), old, new)
    with pytest.raises(ir.SerializationError, match=f"{new!r} is no name"):
        ir.deserialize(msgpack.packb(changed))


def replaced(node: Any, old: Any, new: Any) -> Any:
    if node == old:
        return new
    return [replaced(part, old, new) for part in node] if isinstance(node, list) else node


def test_foreign_messagepack_is_refused() -> None:
    name = "tilewright-ir"
    for body in ([], ["other", VERSION, []], [name, VERSION, ["program"]], [name, VERSION, {}]):
        with pytest.raises(ir.SerializationError):
            ir.deserialize(msgpack.packb(body))


def test_an_op_outside_a_builder_is_an_internal_error() -> None:
    x = scaled_sum().params[1]
    with pytest.raises(InternalError):
        arith.add(x, x)


def test_every_terminator_knows_that_it_is_one() -> None:
    assert control.yield_.terminator
    assert control.return_.terminator
    assert not loop.load.terminator
