"""Element types of both languages: names, widths, kinds and their numpy storage."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

Kind = Literal["float", "int", "uint", "bool", "index", "task", "opaque"]

_BY_NAME: dict[str, DType] = {}
_BY_NUMPY: dict[np.dtype[Any], DType] = {}


class _ByName(type):
    """Lets the class give its instances: `DataType.FP32`."""

    def __getattr__(cls, name: str) -> Any:
        found = _BY_NAME.get(name)
        if found is None:
            raise AttributeError(f"there is no element type '{name}'; there are {[*_BY_NAME]}")
        return found


class DType(metaclass=_ByName):
    """One element type. Instances are singletons: compare with `is` or `==`.

    Each is also an attribute of the class, whose public name is `DataType`: `DataType.FP32`.

    `name` is the spelling after `pl.` (`FP32`), `bits` the logical width, `kind` the arithmetic
    family and `numpy` the storage type (sub-byte types take one byte per element in numpy).
    """

    __slots__ = ("_code", "_extension", "bits", "kind", "name", "numpy")

    numpy: np.dtype[Any]

    def __init__(self, name: str, bits: int, kind: Kind, storage: Any, code: int) -> None:
        self.name = name
        self.bits = bits
        self.kind: Kind = kind
        self._extension = storage if isinstance(storage, str) else ""
        self._code = code
        _BY_NAME[name] = self
        if not self._extension:
            self._store_as(storage)

    def _store_as(self, storage: Any) -> None:
        self.numpy = np.dtype(storage)
        _BY_NUMPY.setdefault(self.numpy, self)

    def __getattr__(self, name: str) -> Any:
        """The storage type, where numpy has it from an extension: that is imported now."""
        if name != "numpy":
            raise AttributeError(f"an element type has no attribute '{name}'")
        import ml_dtypes

        self._store_as(getattr(ml_dtypes, self._extension))
        return self.numpy

    @staticmethod
    def from_numpy(dtype: Any) -> DType:
        """The element type stored as `dtype`; raises KeyError when the language has none."""
        found = _BY_NUMPY.get(dtype)
        if found is not None:
            return found
        known = {each.numpy: each for each in reversed(ALL)}  # makes numpy know the extensions
        return known[np.dtype(dtype)]

    @staticmethod
    def from_name(name: str) -> DType:
        """The element type called `name` ("FP32"); raises KeyError."""
        return _BY_NAME[name]

    @staticmethod
    def from_library_name(name: str) -> DType:
        """The element type that numpy or torch call so ("float32", "torch.bfloat16"); KeyError."""
        word = name.rpartition(".")[2].lower()
        word = {"bfloat16": "bf16"}.get(word, word.replace("float", "fp"))
        return _BY_NAME[word.upper()]

    @staticmethod
    def from_code(code: int) -> DType:
        """The element type with serialization code `code`; raises KeyError."""
        return _BY_CODE[code]

    def code(self) -> int:
        """The number that stands for it in files."""
        return self._code

    @property
    def nbytes(self) -> int:
        """Bytes of one stored element, at least 1."""
        return max(1, self.bits // 8)

    def get_byte(self) -> int:
        """Bytes of one element, rounded up to 1."""
        return self.nbytes

    def get_bit(self) -> int:
        """Logical width in bits."""
        return self.bits

    def is_float(self) -> bool:
        """True for floating-point types of any width."""
        return self.kind == "float"

    def is_int(self) -> bool:
        """True for signed and unsigned integers and INDEX."""
        return self.kind in ("int", "uint", "index")

    def is_signed_int(self) -> bool:
        """True for signed integers and INDEX."""
        return self.kind in ("int", "index")

    def is_unsigned_int(self) -> bool:
        """True for unsigned integers."""
        return self.kind == "uint"

    def to_string(self) -> str:
        """Lower-case name ("fp32")."""
        return self.name.lower()

    def __repr__(self) -> str:
        return f"pl.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (DType.from_name, (self.name,))


DataType = DType


def limits_of(storage: Any) -> Any:
    """What `numpy.finfo` says of a floating-point storage type, also of those it does not know."""
    import ml_dtypes

    return cast(Any, ml_dtypes).finfo(storage)


BOOL = DType("BOOL", 1, "bool", np.bool_, 0)
INT4 = DType("INT4", 4, "int", "int4", 15)
INT8 = DType("INT8", 8, "int", np.int8, 16)
INT16 = DType("INT16", 16, "int", np.int16, 17)
INT32 = DType("INT32", 32, "int", np.int32, 18)
INT64 = DType("INT64", 64, "int", np.int64, 19)
UINT4 = DType("UINT4", 4, "uint", "uint4", 31)
UINT8 = DType("UINT8", 8, "uint", np.uint8, 32)
UINT16 = DType("UINT16", 16, "uint", np.uint16, 33)
UINT32 = DType("UINT32", 32, "uint", np.uint32, 34)
UINT64 = DType("UINT64", 64, "uint", np.uint64, 35)
FP4 = DType("FP4", 4, "float", "float4_e2m1fn", 47)
FP8E4M3FN = DType("FP8E4M3FN", 8, "float", "float8_e4m3fn", 48)
FP8E5M2 = DType("FP8E5M2", 8, "float", "float8_e5m2", 49)
FP8E8M0 = DType("FP8E8M0", 8, "float", "float8_e8m0fnu", 52)
FP8E4M3 = DType("FP8E4M3", 8, "float", "float8_e4m3", 53)
FP16 = DType("FP16", 16, "float", np.float16, 50)
BF16 = DType("BF16", 16, "float", "bfloat16", 54)
FP32 = DType("FP32", 32, "float", np.float32, 51)
FP64 = DType("FP64", 64, "float", np.float64, 55)
TF32 = DType("TF32", 32, "float", np.float32, 56)
HF4 = DType("HF4", 4, "opaque", np.uint8, 57)
HF8 = DType("HF8", 8, "opaque", np.uint8, 58)
INDEX = DType("INDEX", 64, "index", np.int64, 64)
TASK_ID = DType("TASK_ID", 64, "task", np.int64, 65)

ALL: tuple[DType, ...] = tuple(_BY_NAME.values())
_BY_CODE = {dtype.code(): dtype for dtype in ALL}
