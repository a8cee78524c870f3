"""What machine code is made for: a triple, a processor, its features, and the numbers tuned for it.

This module is data. Asking the host what it is needs LLVM, which lives in `codegen/machine.py`.
"""

from dataclasses import replace

from tilewright.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Isa:
    """What an instruction set can do in one instruction, and the block sizes that suit it.

    `rows` x `vectors` accumulators of 16 lanes make the register block of a matmul; `kc` rows of
    the packed block of B stay in cache while `nc` columns of it are used; up to `in_place` columns
    B is not packed at all. `dot` are rows, vectors and `nc` of dot-product instructions.
    `vector_bytes` is the widest native vector, `table_entries` how many floats an instruction can
    pick from by lane.
    """

    name: str
    vector_bytes: int
    registers: int
    has_fma: bool
    has_round: bool
    has_half: bool
    has_scalef: bool
    has_range: bool
    table_entries: int
    has_byte_dot: bool
    has_pair_dot: bool
    rows: int
    vectors: int
    kc: int
    nc: int
    in_place: int
    dot: tuple[int, int, int] = (0, 0, 0)

    @property
    def is_x86(self) -> bool:
        """Whether this is a row for x86 machines."""
        return self.name in X86_ORDER


@dataclass(frozen=True, slots=True)
class Target:
    """One machine to compile for. `features` is LLVM's feature string, `isa` a key of `ISAS`."""

    triple: str
    cpu: str
    features: str
    isa: str

    @property
    def instructions(self) -> Isa:
        """The row of `ISAS` this target uses, with what only some of its machines have."""
        found = self.features.split(",") if self.isa == "avx512" else []
        return replace(
            ISAS[self.isa],
            has_byte_dot="+avx512vnni" in found,
            has_pair_dot="+avx512bf16" in found,
        )


AVX512 = Isa(
    name="avx512",
    vector_bytes=64,
    registers=32,
    has_fma=True,
    has_round=True,
    has_half=True,
    has_scalef=True,
    has_range=True,
    table_entries=16,
    has_byte_dot=False,
    has_pair_dot=False,
    rows=8,
    vectors=3,
    kc=1024,
    nc=96,
    in_place=512,
    dot=(6, 4, 128),
)
AVX2 = Isa(
    name="avx2",
    vector_bytes=32,
    registers=16,
    has_fma=True,
    has_round=True,
    has_half=True,
    has_scalef=False,
    has_range=False,
    table_entries=8,
    has_byte_dot=False,
    has_pair_dot=False,
    rows=6,
    vectors=1,
    kc=512,
    nc=512,
    in_place=256,
)
BASELINE = Isa(
    name="baseline",
    vector_bytes=16,
    registers=16,
    has_fma=False,
    has_round=False,
    has_half=False,
    has_scalef=False,
    has_range=False,
    table_entries=0,
    has_byte_dot=False,
    has_pair_dot=False,
    rows=2,
    vectors=1,
    kc=512,
    nc=512,
    in_place=256,
)
AARCH64 = Isa(
    name="aarch64",
    vector_bytes=16,
    registers=32,
    has_fma=True,
    has_round=True,
    has_half=True,
    has_scalef=False,
    has_range=False,
    table_entries=0,
    has_byte_dot=False,
    has_pair_dot=False,
    rows=5,
    vectors=1,
    kc=512,
    nc=512,
    in_place=256,
)

ISAS: dict[str, Isa] = {isa.name: isa for isa in (AVX512, AVX2, BASELINE, AARCH64)}

# The processor each restricted instruction set is compiled for, the same on every host.
PORTABLE_CPUS: dict[str, str] = {
    "avx512": "x86-64-v4",
    "avx2": "x86-64-v3",
    "baseline": "x86-64",
    "aarch64": "generic",
}

# From the most to the least capable; a host may be restricted to what it is or follows it.
X86_ORDER = ("avx512", "avx2", "baseline")

X86_REQUIREMENTS: dict[str, frozenset[str]] = {
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"}),
    "avx2": frozenset({"avx2", "fma", "f16c", "bmi2"}),
    "baseline": frozenset(),
}


def infer_isa(triple: str, features: frozenset[str]) -> str:
    """The most capable row of `ISAS` that a machine with these features can run."""
    if triple.startswith(("aarch64", "arm64")):
        return "aarch64"
    return next(isa for isa in X86_ORDER if features >= X86_REQUIREMENTS[isa])


def restrict_target(target: Target, isa: str) -> Target:
    """`target` limited to `isa`, itself when that is its own; ValueError if it cannot run it."""
    if isa == target.isa:
        return target
    if isa not in X86_ORDER or target.isa not in X86_ORDER:
        raise ValueError(
            f"TILEWRIGHT_TARGET_ISA={isa!r} does not name an instruction set of {target.triple}"
        )
    if X86_ORDER.index(isa) < X86_ORDER.index(target.isa):
        raise ValueError(
            f"TILEWRIGHT_TARGET_ISA={isa!r} needs more than this machine's {target.isa!r}"
        )
    return Target(target.triple, PORTABLE_CPUS[isa], "", isa)
