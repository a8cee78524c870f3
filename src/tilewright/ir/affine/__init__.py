"""The affine engine: dims, offsets, index maps, masks and loop bounds in one canonical form."""

from typing import TYPE_CHECKING

from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.ir.affine import folding as folding
    from tilewright.ir.affine.access import Access
    from tilewright.ir.affine.bounding import bounds, equal, less, less_equal
    from tilewright.ir.affine.constraints import Constraint, implies, infeasible
    from tilewright.ir.affine.expr import (
        Atom,
        Dim,
        Expr,
        FloorDiv,
        Max,
        Min,
        Operand,
        Product,
        Symbol,
        as_expr,
        ceildiv,
        const,
        maximum,
        minimum,
        simplify,
        symbol,
    )
    from tilewright.ir.affine.folding import Algebra, fold, product_of, remainders
    from tilewright.ir.affine.queries import (
        coefficient,
        evaluate,
        evaluate_many,
        exact_quotient,
        scaled_symbol,
        solve_for,
        subexpressions,
        substitute,
        symbols,
        with_ranges,
    )
    from tilewright.ir.affine.questions import (
        disjoint,
        disjoint_across,
        in_bounds,
        is_identity,
        same,
        subset,
    )
    from tilewright.ir.affine.unknown import counting_unknown


__all__ = [
    "Access",
    "Algebra",
    "Atom",
    "Constraint",
    "Dim",
    "Expr",
    "FloorDiv",
    "Max",
    "Min",
    "Operand",
    "Product",
    "Symbol",
    "as_expr",
    "bounds",
    "ceildiv",
    "coefficient",
    "const",
    "counting_unknown",
    "disjoint",
    "disjoint_across",
    "equal",
    "evaluate",
    "evaluate_many",
    "exact_quotient",
    "fold",
    "implies",
    "in_bounds",
    "infeasible",
    "is_identity",
    "less",
    "less_equal",
    "maximum",
    "minimum",
    "product_of",
    "remainders",
    "same",
    "scaled_symbol",
    "simplify",
    "solve_for",
    "subexpressions",
    "subset",
    "substitute",
    "symbol",
    "symbols",
    "with_ranges",
]

_HOMES = (
    "expr", "queries", "folding", "bounding", "constraints", "access", "questions", "unknown",
)  # fmt: skip
__getattr__, __dir__ = late(__name__, __all__, _HOMES)
