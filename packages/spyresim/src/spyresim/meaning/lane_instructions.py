"""Instructions of devices over the lanes of one vector (readings, item 13)."""

from __future__ import annotations

import numpy as np

from dfsched.lowering.compute import FOLD_LANES
from ktir.attributes import StringAttr
from spyresim.errors import UnsupportedError
from spyresim.meaning.folds import fold_by_name
from spyresim.meaning.formats import Array
from spyresim.meaning.table import Call, instruction

__all__: list[str] = []


@instruction(FOLD_LANES)
def _fold_lanes(call: Call) -> Array:
    """``start op lane 0 op lane 1 ...``, one rounding per combination; parameter ``combine`` names the op."""
    combine = call.attributes.get("combine")
    start, lanes = call.operands
    total = None
    if isinstance(combine, StringAttr) and start.shape[-1] == 1:
        total = fold_by_name(combine.value, call.operand_types[0], start, lanes, call.f16_format)
    if total is None:
        raise UnsupportedError(f"'{call.name}' with {combine}", call.site)
    return np.asarray(total)
