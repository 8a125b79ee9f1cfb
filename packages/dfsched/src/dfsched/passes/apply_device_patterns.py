"""`apply-device-patterns`: the patterns that the device brings along (scheduler spec 2.4, 3.22).

Takes any module; runs, on every function (behind `pre_mapping` only on those of nested modules, which is
where programs are), the device's pattern blocks for one checkpoint to a fixed point and canonicalises the
functions that changed. A device without patterns for the checkpoint leaves the module as
it is. The pass stands at several places of the pipeline, once for each checkpoint.

Before, on a device with an instruction for `math.exp` over the registers ``SFU_REG``, in the body of a
`linalg.generic`::

    %p = math.exp %x : f16

After, at the checkpoint ``pre_scheduling``::

    %p = math.exp %x {ktdf_arch.maps_to = "SFU_REG"} : f16

>>> from dfsched.passes.examples import after, kernel
>>> after("apply-device-patterns", kernel("%r = math.exp %a : TENSOR"),
... r"math.exp")
%38 = math.exp %in {ktdf_arch.maps_to = "SFU_REG"} : f16
"""

from __future__ import annotations

from dfsched.passes.base import Group, Pass, PassContext, Setting, names
from dfsched.patterns import apply_device_patterns
from ktir.dialects.builtin import Module

__all__ = ["GROUPS", "NAME", "PASS", "POST_LOWERING", "POST_SCHEDULING", "PRE_MAPPING", "PRE_SCHEDULING"]

NAME = "apply-device-patterns"


def _at(checkpoint: str, group: Group) -> Pass:
    def run(module: Module, context: PassContext) -> Module:
        nested = checkpoint != "pre_mapping"
        return apply_device_patterns(module, (checkpoint,), device=context.architecture, nested_only=nested)

    return Pass(NAME, group, run, f"the device's patterns for the checkpoint {checkpoint}")


PRE_MAPPING = _at("pre_mapping", Group.FRONTEND)
PRE_SCHEDULING = _at("pre_scheduling", Group.SCHEDULER)
POST_SCHEDULING = _at("post_scheduling", Group.SCHEDULER)
POST_LOWERING = _at("post_lowering", Group.BACKEND)

GROUPS: Setting[tuple[str, ...]] = Setting(NAME, "groups", (), names)
"""Which pattern groups run besides those that have none."""


def run(module: Module, context: PassContext) -> Module:
    """Apply the patterns without a group, and those of the groups that are asked for."""
    return apply_device_patterns(module, context.setting(GROUPS), device=context.architecture)


PASS = Pass(NAME, Group.SCHEDULER, run, "the device's patterns for the groups asked for", settings=(GROUPS,))
"""The same alone, outside of the pipeline."""
