"""IR prints as Python that parses back to the same IR."""

from tilewright.ir.printing.entry import python_print, python_print_type, text_of
from tilewright.ir.printing.printer import Printer

__all__ = ["Printer", "python_print", "python_print_type", "text_of"]
