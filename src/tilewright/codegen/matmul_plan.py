"""Which matmul there is to do, and the blocks, registers and instructions that suit it."""

from dataclasses import replace

from tilewright.codegen.formats import INT_FORMATS
from tilewright.codegen.group_packing import BYTES, FLIPPED, PAIRS, Group, unsigned_side
from tilewright.codegen.microkernel import LANES, Finish
from tilewright.codegen.packing import Source, is_narrow
from tilewright.codegen.text import ELEMENT_BYTES
from tilewright.dataclass import dataclass
from tilewright.target import Isa

PARAMETERS = (
    "ptr %c, i64 %ldc, ptr %a, i64 %lda, ptr %b, i64 %ldb, "
    "i64 %m, i64 %n, i64 %k, ptr %work, i1 %accumulate"
)
EPILOGUE = ", ptr %env, ptr %ctx, i64 %row, i64 %column"
PANEL = ", ptr %panel"
PACKING_ROWS = 4
STREAM_WIDTH, STREAM_DEPTH, STREAM_COLUMNS, STREAM_VECTORS = 2048, 8, 12288, 4
FAR, STREAM_AHEAD = 16 << 20, 2048
NEAR, MANY_ROWS = 1 << 18, 512
TURNED_COLUMNS, TURNED_STEPS = 1024, 4096
WORD = 4
"""Bytes of what a micro-kernel multiplies."""

# Register blocks for matrices of few rows: enough independent chains to hide the latency of one.
FEW_ROWS: dict[str, dict[int, int]] = {
    "avx512": {1: 12, 2: 8, 3: 6, 4: 4, 5: 4, 6: 4, 7: 3, 8: 3},
    "avx2": {1: 6, 2: 3, 3: 2, 4: 1, 5: 1},
}


@dataclass(frozen=True, slots=True)
class Matmul:
    """What is known of a matmul now; None is "at run time". An m of run time is some `unit`s.

    `a_major` and `b_major` name the axis of unit stride: "k" or "m" for A, "n" or "k" for B.
    `lda` and `ldb` are the strides of the other axis. C has unit stride along n. `packs` overrides
    the choice whether a B that could be read in place is packed. With an epilogue, which is a
    `finish` of the registers or called for panels of rows, the function takes `EPILOGUE`, too:
    which row and column of the whole its first ones are; then `PANEL`, what it calls for rows that
    are complete (see epilogue.py).
    """

    a_dtype: str
    b_dtype: str
    m: int | None
    n: int | None
    k: int | None
    a_major: str = "k"
    b_major: str = "n"
    lda: int | None = None
    ldb: int | None = None
    packs: bool | None = None
    unit: int = 1
    has_panels: bool = False
    finish: Finish | None = None

    @property
    def has_epilogue(self) -> bool:
        """Whether something comes after the product, of either kind."""
        return self.has_panels or self.finish is not None

    @property
    def parameters(self) -> str:
        """The parameters of the function."""
        return PARAMETERS + EPILOGUE * self.has_epilogue + PANEL * self.has_panels

    @property
    def symbol(self) -> str:
        """The name of the function."""
        sizes = ".".join(
            "x" if s is None else str(s) for s in (self.m, self.n, self.k, self.lda, self.ldb)
        )
        sizes += f".{self.unit}" * (self.unit > 1)
        layout = self.a_major + self.b_major + {None: "", True: "p", False: "u"}[self.packs]
        layout += "e" * self.has_panels
        return f"@tilewright.matmul.{self.a_dtype}.{self.b_dtype}.{layout}.{sizes}"

    @property
    def element(self) -> str:
        """What is multiplied and accumulated: float or i32."""
        return self.a_source.wide_element

    @property
    def a_source(self) -> Source:
        """A in memory."""
        return source_of(self.a_dtype, self.b_dtype)

    @property
    def b_source(self) -> Source:
        """B in memory."""
        return source_of(self.b_dtype, self.a_dtype)

    @property
    def a_bytes(self) -> int:
        """The bytes of an element of A."""
        return ELEMENT_BYTES[self.a_source.element]

    @property
    def b_bytes(self) -> int:
        """The bytes of an element of B."""
        return ELEMENT_BYTES[self.b_source.element]


def source_of(dtype: str, other: str) -> Source:
    """An operand of `dtype` in memory, where the other one is of `other`."""
    wide = "INT32" if {dtype, other} <= INT_FORMATS.keys() else "FP32"
    return Source(dtype, wide, flushes=dtype == other == "BF16")


@dataclass(frozen=True, slots=True)
class Plan:
    """The blocks chosen for a matmul. `packs` is True, False or None: decided at run time.

    `dot` is the kind of dot-product instructions, as a micro-kernel has it. With `turns_a`, the
    copy of A has the elements of a column together. `ahead` is how far, in bytes, the micro-kernel
    asks for what it reads. With a `span`, it takes B as it is, so many elements along k at a time,
    and only what is left of them is packed.
    """

    rows: int
    vectors: int
    depth: int
    columns: int
    packs: bool | None
    widens_a: bool
    turns_a: bool = False
    dot: str = ""
    ahead: int = 0
    span: int = 0

    @property
    def packed(self) -> int:
        """How many elements along k of B are packed at a time, at most."""
        return self.span - 1 if self.span else 0 if self.packs is False else self.depth

    @property
    def has_bias(self) -> bool:
        """Whether every row of C starts with a number of its own."""
        return self.dot in ("a", "b")

    @property
    def groups(self) -> int:
        """The steps of the micro-kernel for a block of k."""
        return self.depth // self.group

    @property
    def pitch(self) -> int:
        """From row to row of a copy of A: a line of the cache more than a row has.

        Rows that are a power of two apart would meet in a few places of the cache.
        """
        return self.groups + LANES

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return LANES * self.vectors

    @property
    def group(self) -> int:
        """Elements along k that make one element of the micro-kernel."""
        return group_size(self.dot)


def choose_plan(spec: Matmul, isa: Isa) -> Plan:
    """The blocks for this matmul on this instruction set."""
    rows, vectors, depth, columns = isa.rows, isa.vectors, isa.kc, isa.nc
    packs, dot = packs_b(spec, isa), dot_of(spec, isa)
    if dot:
        rows, vectors, columns = isa.dot
    span = span_of(spec, isa)
    if spec.m is not None and (span or spec.m < rows):
        rows, vectors = spec.m, FEW_ROWS.get(isa.name, {}).get(spec.m, vectors)
    turns_b = span > 0 and spec.b_major == "k"
    streams = not turns_b and (span > 0 or packs is False) and streams_b(spec, isa)
    if streams:
        depth, columns = STREAM_DEPTH if rows < isa.rows else 2 * STREAM_DEPTH, STREAM_COLUMNS
        vectors = min(vectors, STREAM_VECTORS)
    if turns_b:
        depth, columns = TURNED_STEPS, TURNED_COLUMNS * LANES // span
        vectors = 1
    if spec.n is not None:
        vectors = max(1, min(vectors, -(-spec.n // LANES)))
    turns_a = dot == PAIRS.name and spec.a_major == "m"
    ahead = STREAM_AHEAD if (streams or turns_b) and is_far(spec) else 0
    widens_a = is_narrow(spec.a_dtype)
    plan = Plan(rows, vectors, depth, columns, packs, widens_a, turns_a, dot, ahead, span)
    depth *= plan.group
    if spec.k is not None:
        step = span if turns_b else LANES
        least = min(depth, -(-max(spec.k, 1) // step) * step)
        columns, depth = columns * (1 if turns_b else depth // least), least
    columns = max(plan.width, columns // plan.width * plan.width)
    return replace(plan, depth=depth, columns=columns)


def span_of(spec: Matmul, isa: Isa) -> int:
    """How many elements along k a micro-kernel takes of B as it is; 0 where B had better be packed.

    With few rows, B is used once: what must be rearranged or widened is so in registers.
    """
    is_plain = spec.b_major == "n" and not is_narrow(spec.b_dtype)
    if is_plain or spec.m is None or spec.m > isa.rows:
        return 0
    if spec.b_major == "k":
        return LANES * WORD // spec.b_bytes
    return group_size(dot_of(spec, isa))


def dot_of(spec: Matmul, isa: Isa) -> str:
    """The kind of instructions that multiply several elements along k at a time, or ""."""
    dtypes = {spec.a_dtype, spec.b_dtype}
    if isa.has_pair_dot and dtypes == {"BF16"}:
        return PAIRS.name
    if isa.has_byte_dot and dtypes <= {"INT8", "UINT8"}:
        return unsigned_side(spec.a_dtype, spec.b_dtype)
    return ""


def group_size(dot: str) -> int:
    """Elements along k that an instruction multiplies at a time."""
    return PAIRS.count if dot == PAIRS.name else BYTES.count if dot else 1


def group_of_b(spec: Matmul, isa: Isa) -> Group | None:
    """How elements of B lie side by side; None where they do not."""
    dot = dot_of(spec, isa)
    if dot in ("", PAIRS.name):
        return PAIRS if dot else None
    return FLIPPED if spec.a_dtype == spec.b_dtype else BYTES


def streams_b(spec: Matmul, isa: Isa) -> bool:
    """Whether B is read once from far away: then whole rows of it, a few at a time, are best."""
    if spec.m is None or spec.m >= PACKING_ROWS * isa.rows:
        return False
    return spec.m == 1 or spec.n is None or spec.n > STREAM_WIDTH


def is_far(spec: Matmul) -> bool:
    """Whether the memory that has B is perhaps more than any cache."""
    across = spec.k if spec.b_major == "n" else spec.n
    return across is None or spec.ldb is None or spec.b_bytes * across * spec.ldb >= FAR


def asks_for_rows(spec: Matmul, plan: Plan) -> bool:
    """Whether micro-kernels ask for the rows of A after theirs: where those are not near."""
    m = MANY_ROWS if spec.m is None else spec.m
    if plan.span or m <= plan.rows or (plan.widens_a and spec.a_major == "m"):
        return False
    if spec.lda is None:
        return plan.widens_a
    return m * spec.lda * spec.a_bytes > NEAR


def packs_b(spec: Matmul, isa: Isa) -> bool | None:
    """Whether B is packed: where it must be rearranged or widened, or is large and reused."""
    if spec.b_major == "k" or is_narrow(spec.b_dtype):
        return True
    if spec.packs is not None:
        return spec.packs
    enough_rows = None if spec.m is None else spec.m >= PACKING_ROWS * isa.rows
    wide = None if spec.n is None else spec.n > isa.in_place
    if enough_rows is False or wide is False:
        return False
    return True if enough_rows and wide else None


def workspace_bytes(spec: Matmul, isa: Isa) -> int:
    """The bytes of workspace this matmul may write, at most; a multiple of 64."""
    plan = choose_plan(spec, isa)
    size = 0
    if plan.packed:
        columns = plan.columns
        if spec.n is not None:
            columns = min(columns, -(-spec.n // plan.width) * plan.width)
        groups = -(-plan.packed // plan.group)
        size += WORD * (columns * groups + LANES * plan.width)
        size = -(-size // 64) * 64
    if plan.widens_a:
        size += a_bytes(plan) + 2 * 64
    return -(-size // 64) * 64


def a_bytes(plan: Plan) -> int:
    """The bytes of a copy of a row panel of A."""
    return WORD * (plan.groups * LANES if plan.turns_a else plan.pitch * plan.rows)
