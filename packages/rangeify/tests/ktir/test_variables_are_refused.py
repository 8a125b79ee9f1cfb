"""Variables have no lowering yet."""

import numpy as np
import pytest

import rangeify
import rangeify.ktir
from ktir.machine import Machine
from rangeify import Tensor, UnsupportedError
from uopgraph import UOp


def test_an_access_at_a_variable_is_a_located_error() -> None:
    x = Tensor(np.ones((16, 64), np.float16))
    schedule = rangeify.schedule(x[UOp.variable("position", 0, 15)] + 1)
    with pytest.raises(UnsupportedError, match=r"index position \(in kernel E_64_"):
        rangeify.ktir.lower(schedule, Machine())
