"""Python in, IR out: capture, evaluator, and the two front ends built on them."""

from typing import TYPE_CHECKING

from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.frontend import decorators as decorators
    from tilewright.frontend import hints as hints
    from tilewright.frontend import operations as operations
    from tilewright.frontend import suggestions as suggestions
    from tilewright.frontend import text as text
    from tilewright.frontend import trace as trace

__getattr__, __dir__ = late(__name__)
