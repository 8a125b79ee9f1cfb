"""Element types, their NumPy names, and arrays in device formats.

Contracts name element types as NumPy does: ``float16``, ``bfloat16``, ``int32``, ``bool``, and ``df16`` for
DLFloat16, which has no NumPy dtype and is held as raw ``uint16`` codes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ktir.errors import UnsupportedError
from ktir.machine import F16Format
from ktir.types import (
    BF16,
    DF16,
    F16,
    F32,
    F64,
    I1,
    FloatType,
    IndexType,
    IntegerType,
    Signedness,
    Type,
)

if TYPE_CHECKING:  # NumPy is loaded when arrays are converted
    import numpy as np
    import numpy.typing as npt

    AnyArray: TypeAlias = npt.NDArray[Any]

__all__ = [
    "decode_array",
    "dtype_name",
    "element_bytes",
    "element_type",
    "encode_array",
    "literal_bits",
    "literal_bytes",
    "storage_dtype",
]

_NAMES: dict[Type, str] = {
    F16: "float16",
    BF16: "bfloat16",
    DF16: "df16",
    F32: "float32",
    F64: "float64",
    I1: "bool",
    FloatType("f8E4M3FN"): "float8_e4m3fn",
    FloatType("f8E5M2"): "float8_e5m2",
    FloatType("f8E4M3FNUZ"): "float8_e4m3fnuz",
    FloatType("f8E5M2FNUZ"): "float8_e5m2fnuz",
    **{IntegerType(w): f"int{w}" for w in (8, 16, 32, 64)},
    **{IntegerType(w, Signedness.UNSIGNED): f"uint{w}" for w in (8, 16, 32, 64)},
}
_TYPES = {name: type for type, name in _NAMES.items()}


def dtype_name(type: Type) -> str:
    """NumPy's name of an element type; `UnsupportedError` for types that have none.

    Signed and signless integers share a name; ``index`` is stored as ``int64``.
    """
    match type:
        case IndexType():
            return "int64"
        case IntegerType(width=width, signedness=Signedness.SIGNED):
            return dtype_name(IntegerType(width))
        case _:
            name = _NAMES.get(type)
            if name is None:
                raise UnsupportedError(f"element type {type} has no storage format")
            return name


def element_type(name: str) -> Type:
    """The element type with a NumPy name; `UnsupportedError` if there is none."""
    type = _TYPES.get(name)
    if type is None:
        raise UnsupportedError(f"dtype '{name}' has no element type")
    return type


@cache
def storage_dtype(type: Type) -> np.dtype[Any]:
    """The NumPy dtype that holds elements of a type bit for bit (``df16``: ``uint16``)."""
    import numpy as np

    name = dtype_name(type)
    if name == "df16":
        return np.dtype(np.uint16)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def element_bytes(type: Type) -> int:
    """Bytes of one stored element (i1: one byte, KTIR spec 4.2)."""
    return storage_dtype(type).itemsize


def _is_dlfloat(type: Type, f16_format: F16Format) -> bool:
    return type == DF16 or (type == F16 and f16_format is F16Format.DLFLOAT)


def encode_array(array: AnyArray, type: Type, f16_format: F16Format = F16Format.IEEE) -> AnyArray:
    """Values of a host array in the device format of `type`, same shape (raw codes for DLFloat16).

    Accepted: the dtype of the format itself, any float for DLFloat16 (one rounding), bool for f16 and bf16
    (0.0 and 1.0), and wider integers whose values all fit. Everything else is `UnsupportedError`: a silent
    change of precision is not a copy.
    """
    import numpy as np

    from ktir import dlfloat

    if _is_dlfloat(type, f16_format):
        if array.dtype == np.uint16 and type == DF16:
            return array
        if array.dtype.kind in "fb" or str(array.dtype) == "bfloat16":
            return dlfloat.encode(array)
    target = storage_dtype(type)
    if array.dtype == target:
        return array
    if array.dtype.kind == "b" and type in (F16, BF16):
        return array.astype(target)
    if array.dtype.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        if array.size == 0 or (limits.min <= int(array.min()) and int(array.max()) <= limits.max):
            return array.astype(target)
        raise UnsupportedError(
            f"an array of dtype {array.dtype} with values {array.min()} to {array.max()} does not fit {type}"
        )
    raise UnsupportedError(f"an array of dtype {array.dtype} cannot be stored as {type} without conversion")


def literal_bytes(data: bytes, type: Type, f16_format: F16Format) -> bytes:
    """Stored elements of `type` that literals of a program stand for, from the bytes of the literals.

    A literal ``f16`` is an IEEE number in the text. Where ``f16`` means DLFloat16 it is rounded once, an
    infinity to the largest finite number of its sign; all other literals are stored as they are.
    """
    import numpy as np

    from ktir import dlfloat

    if type != F16 or f16_format is F16Format.IEEE:
        return data
    return dlfloat.encode_literals(np.frombuffer(data, "<f2")).astype("<u2").tobytes()


def literal_bits(bits: int, type: Type, f16_format: F16Format) -> int:
    """`literal_bytes` of one literal, as bit patterns."""
    data = bits.to_bytes(element_bytes(type), "little")
    return int.from_bytes(literal_bytes(data, type, f16_format), "little")


def decode_array(
    stored: AnyArray, type: Type, dtype: npt.DTypeLike | None = None, f16_format: F16Format = F16Format.IEEE
) -> AnyArray:
    """Host values of an array in the device format of `type` (dtype `storage_dtype(type)` or raw codes).

    `dtype` is the wanted host dtype; by default that of the format, float32 for ``df16``.
    """
    import numpy as np

    from ktir import dlfloat

    if _is_dlfloat(type, f16_format):
        values: AnyArray = dlfloat.decode(stored.view(np.uint16))
        default: npt.DTypeLike = np.float32 if type == DF16 else np.float16
        with np.errstate(over="ignore"):
            return values.astype(default if dtype is None else dtype)
    values = stored.view(storage_dtype(type))
    return values if dtype is None else values.astype(dtype)
