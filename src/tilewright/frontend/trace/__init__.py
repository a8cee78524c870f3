"""The traced style: a body that runs once, on stand-ins, and what each of its words records."""

from typing import TYPE_CHECKING

from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.frontend.trace import tensors as tensors

__getattr__, __dir__ = late(__name__)
