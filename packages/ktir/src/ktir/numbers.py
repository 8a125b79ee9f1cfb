"""Bit patterns of the scalar float types that `struct` does not know."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from ktir.types import FloatType

if TYPE_CHECKING:
    import numpy as np

_ML_DTYPES = {
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E3M4": "float8_e3m4",
    "f8E8M0FNU": "float8_e8m0fnu",
}


def numpy_dtype(type: FloatType) -> np.dtype[np.generic]:
    """The ml-dtypes dtype of a small float type; KeyError for other types."""
    import ml_dtypes
    import numpy as np

    dtype: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[type.name]))
    return dtype


def encode_scalar(value: float, type: FloatType) -> int:
    """The bit pattern of `value` in `type`, one rounding to nearest even from binary64."""
    import numpy as np

    match type.name:
        case "df16":
            from ktir.dlfloat import encode

            return int(encode(np.float64(value)))
        case "tf32":
            return _encode_tf32(value)
        case _:
            dtype = numpy_dtype(type)
            with np.errstate(all="ignore"):
                stored = np.asarray(value, np.float64).astype(dtype)
            return int(stored.view(np.uint16 if dtype.itemsize == 2 else np.uint8))


def decode_scalar(bits: int, type: FloatType) -> float:
    """The number behind a bit pattern of `type` (exact)."""
    import numpy as np

    match type.name:
        case "df16":
            from ktir.dlfloat import decode

            return float(decode(np.uint16(bits)))
        case "tf32":
            return float(struct.unpack("<f", struct.pack("<I", bits << 13))[0])
        case _:
            dtype = numpy_dtype(type)
            raw = np.asarray(bits, np.uint16 if dtype.itemsize == 2 else np.uint8)
            return float(raw.view(dtype).astype(np.float64))


def _encode_tf32(value: float) -> int:
    """1-8-10, rounded once from binary64: exponent as binary32, ten fraction bits."""
    sign = 1 << 18 if math.copysign(1.0, value) < 0 else 0
    if value != value:
        return sign | 0x3FC00 | 0x200
    magnitude = abs(value)
    if magnitude == 0.0:
        return sign
    if math.isinf(magnitude):
        return sign | 0x3FC00
    exponent = max(math.frexp(magnitude)[1] - 1, -126)
    quantum = math.ldexp(1.0, exponent - 10)
    steps = round(magnitude / quantum)  # exact division by a power of two, ties to even
    rounded = steps * quantum
    if rounded >= math.ldexp(1.0, 128):
        return sign | 0x3FC00
    as_f32 = int(struct.unpack("<I", struct.pack("<f", rounded))[0])
    return sign | (as_f32 >> 13)
