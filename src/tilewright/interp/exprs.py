"""Affine expressions and attributes as Python text over the names of the running function."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.affine import Atom, FloorDiv, Min, Operand, Product, Symbol, as_expr
from tilewright.ir.affine.queries import subexpressions

NameOf = Callable[[Symbol], str]


def expr_text(given: Operand, name_of: NameOf) -> str:
    """Python that computes `given`; `name_of` gives the name that holds a symbol's value."""
    expr = as_expr(given)
    parts = [_scaled(c, _atom_text(atom, name_of)) for atom, c in expr.terms.items()]
    if expr.const or not parts:
        parts.append(str(expr.const))
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def _scaled(coefficient: int, text: str) -> str:
    return text if coefficient == 1 else f"{coefficient} * {text}"


def _atom_text(atom: Atom, name_of: NameOf) -> str:
    if isinstance(atom, Symbol):
        return name_of(atom)
    parts = [expr_text(part, name_of) for part in subexpressions(atom)]
    if isinstance(atom, FloorDiv):
        return f"({parts[0]} // {parts[1]})"
    if isinstance(atom, Product):
        return f"({' * '.join(parts)})"
    return f"{'least' if isinstance(atom, Min) else 'greatest'}({', '.join(parts)})"
