"""What element-wise operations do to arrays: one table for all levels.

>>> import numpy as np
>>> from ktir.types import F16
>>> evaluate_named("arith.addf", [np.float16([1, 2048]), np.float16([2, 1])], [F16, F16], [F16])[0].tolist()
[3.0, 2048.0]
"""

from spyresim.meaning import casts, floats, functions, integers, intrinsics, lane_instructions
from spyresim.meaning.constants import constant_array, from_bits
from spyresim.meaning.formats import FloatFormat, float_format, held_dtype
from spyresim.meaning.functions import elementwise
from spyresim.meaning.table import (
    Call,
    Meaning,
    evaluate,
    evaluate_named,
    has_meaning,
    meaning,
    meanings,
    named_meaning,
)

__all__ = [
    "Call",
    "FloatFormat",
    "Meaning",
    "casts",
    "constant_array",
    "elementwise",
    "evaluate",
    "evaluate_named",
    "float_format",
    "floats",
    "from_bits",
    "functions",
    "has_meaning",
    "held_dtype",
    "integers",
    "intrinsics",
    "lane_instructions",
    "meaning",
    "meanings",
    "named_meaning",
]
