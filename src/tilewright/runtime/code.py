"""A kernel in memory: its code, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.abi import Manifest, Signature
from tilewright.runtime.context import current_context
from tilewright.runtime.faults import fault_error
from tilewright.runtime.load import LoadedObject, load_object


class Code:
    """A loaded kernel; the machine code stays while this lives."""

    def __init__(self, image: LoadedObject, signature: Signature, manifest: Manifest) -> None:
        self.image = image
        self.signature = signature
        self.manifest = manifest
        self.entry = image.address(manifest.symbol)

    @staticmethod
    def from_object(
        data: bytes,
        signature: Signature,
        manifest: Manifest | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> Code:
        """Load object bytes; `symbols` are addresses they refer to beside the library functions."""
        return Code(load_object(data, symbols), signature, manifest or Manifest())

    def fault(self, status: int) -> BaseException:
        """The error that `status`, just given by this thread's kernel, stands for."""
        return fault_error(status, current_context(), self.signature, self.manifest)
