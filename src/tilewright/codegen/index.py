"""Index arithmetic on i64 that is computed now where both sides are known."""

from collections.abc import Generator
from contextlib import contextmanager

from tilewright.codegen.text import Text

Num = int | str
NO_ROOM = 1 << 56
"""More bytes than a process can have; the sum of many such sizes fits 64 bits."""


class Index:
    """Integer arithmetic in `text`; an int stays an int as long as possible."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def add(self, x: Num, y: Num) -> Num:
        """x + y."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0:
            return y
        return x if y == 0 else self.text.integer("add", x, y)

    def sub(self, x: Num, y: Num) -> Num:
        """x - y."""
        if isinstance(x, int) and isinstance(y, int):
            return x - y
        return x if y == 0 else self.text.integer("sub", x, y)

    def mul(self, x: Num, y: Num) -> Num:
        """x * y."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        if x == 1:
            return y
        if x == 0 or y == 0:
            return 0
        return x if y == 1 else self.text.integer("mul", x, y)

    def room(self, x: Num, y: Num) -> Num:
        """x * y bytes, or `NO_ROOM` where that is more: no product wraps to a small number."""
        x, y = self.maximum(x, 0), self.maximum(y, 0)
        if isinstance(x, int) and isinstance(y, int):
            return min(x * y, NO_ROOM)
        x, y = self.minimum(x, NO_ROOM), self.minimum(y, NO_ROOM)
        wide = [self.text.let(f"zext i64 {each} to i128") for each in (x, y)]
        product = self.text.let(f"mul i128 {wide[0]}, {wide[1]}")
        fits = self.text.let(f"icmp ult i128 {product}, {NO_ROOM}")
        narrow = self.text.let(f"trunc i128 {product} to i64")
        return self.text.let(f"select i1 {fits}, i64 {narrow}, i64 {NO_ROOM}")

    def floordiv(self, x: Num, y: Num) -> Num:
        """floor(x / y) for a positive y; 0 if y turns out to be 0."""
        if isinstance(x, int) and isinstance(y, int):
            return x // y if y else 0
        if isinstance(y, int) and y & (y - 1) == 0:
            return x if y == 1 else self.text.integer("ashr", x, y.bit_length() - 1)
        divisor = y if isinstance(y, int) else self.maximum(y, 1)
        quotient = self.text.integer("sdiv", x, divisor)
        rest = self.text.integer("srem", x, divisor)
        return self.text.integer("add", quotient, self.text.integer("ashr", rest, 63))

    def mod(self, x: Num, y: Num) -> Num:
        """x - floor(x / y) * y for a positive y."""
        if isinstance(x, int) and isinstance(y, int):
            return x % y if y else 0
        if isinstance(y, int) and y & (y - 1) == 0:
            return self.text.integer("and", x, y - 1)
        return self.sub(x, self.mul(self.floordiv(x, y), y))

    def round_down(self, x: Num, y: int) -> Num:
        """The greatest multiple of y that is at most x."""
        return self.mul(self.floordiv(x, y), y)

    def minimum(self, x: Num, y: Num) -> Num:
        """The smaller."""
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        return self.text.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")

    def maximum(self, x: Num, y: Num) -> Num:
        """The larger."""
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y)
        return self.text.let(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})")

    def place(self, pointer: str, count: Num, element: str) -> str:
        """A pointer `count` elements further."""
        if count == 0:
            return pointer
        return self.text.let(f"getelementptr {element}, ptr {pointer}, i64 {count}")

    @contextmanager
    def steps(self, low: Num, high: Num, step: Num) -> Generator[Num]:
        """A loop from `low` below `high`; no loop where it runs just once for certain."""
        runs = isinstance(low, int) and isinstance(high, int) and low < high
        if runs and isinstance(step, int) and int(high) <= int(low) + step:
            yield low
            return
        with self.text.loop(low, high, step, runs=runs) as loop:
            yield loop.counter
