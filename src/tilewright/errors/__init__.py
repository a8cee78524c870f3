"""The one catalogue of errors an author can meet.

Every class here has a `code` and a docstring with its cause, a bad example and a good one;
`explain` reads them, and the error reference is generated from `catalogue()`. An exception that
is not in the catalogue is a defect of ours and surfaces as `InternalError`.
"""

from typing import TYPE_CHECKING

from tilewright.errors.arguments import (
    ArgumentCountMismatch,
    ArgumentError,
    ArgumentTypeMismatch,
    ByteOrderMismatch,
    DTypeMismatch,
    OutputOverlap,
    RankMismatch,
    ReadOnlyOutput,
    ShapeMismatch,
    StrideMismatch,
)
from tilewright.errors.base import (
    ErrorPage,
    Explanation,
    TilewrightError,
    catalogue,
    explain,
    explain_text,
)
from tilewright.errors.compiling import (
    CompilerMissing,
    ExternalSourceRefused,
    HeaderMissing,
    InternalError,
    LimitExceeded,
    PartialCodegenError,
    StaleRead,
    ToolchainError,
    UnsupportedOnTarget,
    VerificationError,
)
from tilewright.errors.faults import (
    CancelledError,
    Deadlock,
    DivisionByZero,
    ExternalKernelFailed,
    IndexOutOfBounds,
    KernelFault,
    OutOfMemory,
    RuntimeShapeMismatch,
    ZeroStep,
)
from tilewright.errors.location import Location
from tilewright.errors.parsing import (
    InvalidOperationError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    ScopeIsolationError,
    SourceUnavailable,
    SSAViolationError,
    UndefinedVariableError,
    UnsupportedFeatureError,
    UnsupportedSyntax,
)
from tilewright.errors.rendering import render
from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.errors import nki_control as nki_control
    from tilewright.errors.terminal import excepthook, install_excepthook

__all__ = [
    "ArgumentCountMismatch",
    "ArgumentError",
    "ArgumentTypeMismatch",
    "ByteOrderMismatch",
    "CancelledError",
    "DTypeMismatch",
    "Deadlock",
    "DivisionByZero",
    "ErrorPage",
    "Explanation",
    "IndexOutOfBounds",
    "InternalError",
    "InvalidOperationError",
    "KernelFault",
    "ExternalKernelFailed",
    "LimitExceeded",
    "Location",
    "OutOfMemory",
    "OutputOverlap",
    "ParserError",
    "ParserSyntaxError",
    "ParserTypeError",
    "PartialCodegenError",
    "RankMismatch",
    "ReadOnlyOutput",
    "RuntimeShapeMismatch",
    "SSAViolationError",
    "ScopeIsolationError",
    "ShapeMismatch",
    "SourceUnavailable",
    "StaleRead",
    "StrideMismatch",
    "TilewrightError",
    "ToolchainError",
    "CompilerMissing",
    "ExternalSourceRefused",
    "HeaderMissing",
    "UndefinedVariableError",
    "UnsupportedFeatureError",
    "UnsupportedOnTarget",
    "UnsupportedSyntax",
    "VerificationError",
    "ZeroStep",
    "catalogue",
    "excepthook",
    "explain",
    "explain_text",
    "install_excepthook",
    "render",
]

__getattr__, __dir__ = late(__name__, __all__, ("terminal",))
