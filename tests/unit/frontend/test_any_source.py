"""Whatever stands in a body, the author gets an author's error, or a program that holds."""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import json.decoder
import random
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import tilewright.language as pl
from tilewright.errors import InternalError, TilewrightError
from tilewright.frontend.annotations import as_type
from tilewright.frontend.function import parse_function
from tilewright.frontend.namespace import Namespace
from tilewright.source import SourceText
from unit.frontend.parsed_kernels import settled

TYPES = [
    as_type(annotation)
    for annotation in (
        pl.Tensor[[16, 16], pl.FP32],
        pl.INDEX,
        pl.Tile[[16, 16], pl.FP32],
        pl.FP32,
        pl.BOOL,
    )
]
MODULES = (argparse, json.decoder, textwrap, inspect)
KERNELS = (
    """
@pl.function(type=pl.FunctionType.InCore)
def f(a: pl.Tensor[[64, 64], pl.FP32], out: pl.InOut[pl.Tensor[[64, 64], pl.FP32]],
      n: pl.INDEX, b: pl.BOOL):
    acc = pl.tile.full([16, 64], pl.FP32, 0.0)
    c = 0
    for i in pl.range(4):
        t = pl.load(a, [i * 16, 0], [16, 64])
        acc = pl.add(acc, t)
        c = c + 1
        if b:
            r = pl.store(t, [i * 16, 0], out)
        else:
            acc = pl.mul(acc, 2.0)
    if n > 3:
        acc = pl.mul(acc, 2.0)
        c = n
    pl.store(acc, [0, 0], out)
    x = a[0:16, n:n + 16]
    out[0:16, 0:16] = x
    return out
""",
    """
@pl.function
def f(n: pl.INT64, a: pl.FP32, x: pl.Tensor[[16, 16], pl.FP32],
      out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    i = 0
    s = 0
    while i < n:
        i = i + 1
        if i % 2 == 0:
            continue
        if i > 10:
            break
        s = s + i
    for k, (z, w) in pl.range(n, init_values=(s, a)):
        z1, w1 = pl.yield_(z + k, w * 2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.exp(x)
        with pl.scope():
            q = pl.add(y, x)
            pl.store(pl.load(q, [0, 0], [8, 16]), [0, 0], out)
        u = out[0:8]
        for j in pl.parallel(2):
            out[j * 8:j * 8 + 8] = u
    if s > 3:
        v = pl.yield_(z1)
    elif s < 2:
        v = pl.yield_(s)
    else:
        v = pl.yield_(i)
    return v, w1, out
""",
)


def functions(module: ModuleType) -> Iterator[tuple[ast.FunctionDef, SourceText]]:
    text = inspect.getsource(module)
    source = SourceText(module.__file__ or "", text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node, source


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_any_python_function_is_read_or_refused_with_an_author_s_error(module: ModuleType) -> None:
    refused = 0
    for node, source in functions(module):
        node.args = ast.arguments([], node.args.args, None, [], [], None, [])
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        types = {a.arg: TYPES[k % len(TYPES)] for k, a in enumerate(node.args.args)}
        names = Namespace({"pl": pl, "K": 3, **vars(module)})
        try:
            parse_function(node, names, source, param_types=types)
        except InternalError:
            raise
        except TilewrightError as error:
            refused += 1
            assert error.span is not None, f"{node.name}: {error.message}"
    assert refused > 5


def mutated(text: str, chance: random.Random) -> str:
    """`text` with one to three small changes: statements moved, copied or gone, names swapped."""
    tree: Any = copy.deepcopy(ast.parse(text))
    for _ in range(chance.choice([1, 1, 2, 3])):
        CHANGES[chance.randrange(len(CHANGES))](tree, chance)
    return ast.unparse(ast.fix_missing_locations(tree))


def bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, "body", None) for node in ast.walk(tree)]
    return [body for body in found[1:] if isinstance(body, list) and body]


def drop_statement(tree: ast.AST, chance: random.Random) -> None:
    body = chance.choice([body for body in bodies(tree) if len(body) > 1])
    del body[chance.randrange(len(body))]


def swap_statements(tree: ast.AST, chance: random.Random) -> None:
    body = chance.choice(bodies(tree))
    i, j = chance.randrange(len(body)), chance.randrange(len(body))
    body[i], body[j] = body[j], body[i]


def copy_statement(tree: ast.AST, chance: random.Random) -> None:
    body, source = chance.choice(bodies(tree)), chance.choice(bodies(tree))
    body.insert(chance.randrange(len(body) + 1), copy.deepcopy(chance.choice(source)))


def rename(tree: ast.AST, chance: random.Random) -> None:
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id != "pl"]
    chance.choice(names).id = chance.choice(names).id


def change_constant(tree: ast.AST, chance: random.Random) -> None:
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    chance.choice(constants).value = chance.choice([0, 1, 2, -1, 3.5, True, "s", None, 16])


def drop_argument(tree: ast.AST, chance: random.Random) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    chance.choice(calls).args.pop()


CHANGES = (
    drop_statement,
    swap_statements,
    copy_statement,
    rename,
    change_constant,
    drop_argument,
)


@pytest.mark.parametrize("kernel", range(len(KERNELS)))
def test_a_changed_kernel_is_refused_or_prints_reads_back_and_verifies(kernel: int) -> None:
    accepted = 0
    for seed in range(150):
        text = mutated(KERNELS[kernel], random.Random(seed))
        try:
            function = pl.parse(text)
        except InternalError:
            raise
        except (TilewrightError, ValueError):
            continue
        settled(function)
        accepted += 1
    assert accepted > 20
