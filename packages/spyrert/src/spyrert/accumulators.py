"""Outputs of another dtype than the one in which a kernel accumulates (runtime spec 3.14.6).

A kernel that adds into its output may declare the dtype of the sum (``DimSpec.acc_dtype``). The caller may
then pass an output of another floating type: the runtime accumulates in a tensor of its own and converts at
the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from spyrert.plan import JobPlan
from spyrert.spyrecode import DimKind
from spyrert.tensor import DeviceTensor

if TYPE_CHECKING:
    from spyrert.runtime.tensors import Tensors

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


@attrs.frozen(eq=False)
class Accumulator:
    """A tensor that takes the place of an output during a launch."""

    index: int
    tensor: DeviceTensor
    output: DeviceTensor

    def free(self) -> None:
        """The launch was refused."""
        self.tensor.storage.context.allocator.free(self.tensor.storage.root)


def accumulators(runtime: Tensors, plan: JobPlan, tensors: Sequence[object]) -> tuple[Accumulator, ...]:
    """Those that a launch needs: for arguments that the kernel adds to, declared with a dtype for the sum
    that the tensor does not have."""
    launch = plan.launch
    if launch is None or len(tensors) != len(launch.args):
        return ()
    declared = {
        dim.acc_dtype
        for dim in launch.dims
        if dim.kind is DimKind.REDUCTION and dim.accumulate == "kernel" and dim.acc_dtype is not None
    }
    found = []
    for index, (spec, tensor) in enumerate(zip(launch.args, tensors, strict=True)):
        adds = spec.role.reads and spec.role.writes and spec.dtype in declared
        if not adds or not isinstance(tensor, DeviceTensor) or tensor.storage.context is not plan.context:
            continue
        if tensor.dtype == spec.dtype or not {tensor.dtype, spec.dtype} <= set(FLOATS):
            continue
        layout = spec.layout if tensor.shape == spec.shape else None
        own = runtime.empty(tensor.shape, spec.dtype, layout, tensor.device)
        found.append(Accumulator(index, own, tensor))
    return tuple(found)


def replaced(tensors: Sequence[DeviceTensor], found: Sequence[Accumulator]) -> list[DeviceTensor]:
    """The tensors of a launch with accumulators in their places."""
    result = list(tensors)
    for one in found:
        result[one.index] = one.tensor
    return result
