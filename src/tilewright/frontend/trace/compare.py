"""Chained comparisons: the conjunction of their links."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilewright.frontend.trace.index import mask
from tilewright.frontend.trace.predicates import ScalarPredicate
from tilewright.frontend.trace.tensors import nki_tensor

LINKS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: operator.contains(b, a),
    "not in": lambda a, b: not operator.contains(b, a),
}
SYMBOLIC = (nki_tensor, mask, ScalarPredicate)


def compare_chain(left: Any, *links: Any) -> Any:
    """`left < a < b`, given as (left, "<", thunk of a, "<", thunk of b).

    Concrete links stop at the first that is false, as in Python; symbolic ones are all combined.
    """
    total: Any = None
    for sign, thunk in zip(links[::2], links[1::2]):
        right = thunk()
        link = LINKS[sign](left, right)
        total = link if total is None or not isinstance(total, SYMBOLIC) else total & link
        if not isinstance(link, SYMBOLIC) and not link:
            return link
        left = right
    return total
