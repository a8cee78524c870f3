"""What a register block of a matmul asks for while it works, so that the next one need not wait.

The rows of A that come after its own are read from far away once for every block of B; they come
into the second cache meanwhile. So do, into the first, the elements of C that it will store.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.index import Index, Num
from tilewright.codegen.text import Text
from tilewright.dataclass import dataclass

LINE = 64
PARAMETERS = ", ptr %next, i64 %pitch"


@dataclass(frozen=True, slots=True)
class NextRows:
    """`count` lines, `pitch` bytes apart, from `%next` on: the next ones are a step along k away.

    A step is `step` bytes; None is a pitch. A pitch of None is known at run time, `%pitch`.
    """

    count: int
    pitch: int | None
    step: int | None

    @property
    def name(self) -> str:
        """What the names of blocks have that ask for these."""
        return f"n{self.count}.{self.pitch}.{self.step}"

    def fetch(self, text: Text, k: str) -> None:
        """Asks for the lines of step `k`."""
        index = Index(text)
        pitch: Num = "%pitch" if self.pitch is None else self.pitch
        place = index.place("%next", index.mul(k, pitch if self.step is None else self.step), "i8")
        for number in range(self.count):
            text.fetch(place)
            if number < self.count - 1:
                place = index.place(place, pitch, "i8")


def fetch_results(text: Text, places: Sequence[str]) -> None:
    """Asks for lines that will be written."""
    for place in places:
        text.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")
