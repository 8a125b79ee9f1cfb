"""The native functions that pattern text may call (device spec 4.4), and ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dfsched.architecture.feature_attributes import get_feature
from dfsched.patterns.pattern import Native
from dfsched.patterns.rewriter import Abandon, Handle, Rewriter
from dfsched.patterns.templates import opaque_over_registers
from ktir.affine import Dim
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, StringAttr
from ktir.dialects import linalg
from ktir.ir import Value
from ktir.types import F16, F32, MemRefType, ShapedType

__all__ = ["CONSTRAINTS", "REWRITES"]


def _text(attribute: Attribute) -> str:
    if not isinstance(attribute, StringAttr):
        raise Abandon(f"expected a string attribute, but got '{attribute}'")
    return attribute.value


# -- constraints -----------------------------------------------------------------------------------------


def mapped_to(_: Rewriter, op: Handle) -> Attribute | None:
    """Binds `ktdf_arch.maps_to`; fails if absent."""
    return op.attributes.get("ktdf_arch.maps_to")


def has_feature(
    _: Rewriter, op: Handle, name: Attribute, required: Attribute | None = None
) -> Attribute | None:
    """Binds the feature of that name, if it is there and meets the requirement."""
    return get_feature(op.attributes, _text(name), required)


def is_one_of(_: Rewriter, op: Handle, names: Attribute) -> bool:
    """Whether the operation's name is in a list."""
    return isinstance(names, ArrayAttr) and StringAttr(op.name) in names.elements


def in_structured_body(rewriter: Rewriter, op: Handle) -> bool:
    """Whether the operation stands directly in the body of a `linalg.generic`."""
    parent = rewriter.parent(op)
    return parent is not None and parent.name == "linalg.generic"


def is_inner_dim_reduction(rewriter: Rewriter, op: Handle) -> bool:
    """A generic on memrefs that reduces its first input's last dimension into a subview."""
    generic = op.operation
    if not isinstance(generic, linalg.Generic) or not generic.inputs or not generic.outputs:
        return False
    if not isinstance(generic.inputs[0].type, MemRefType) or not generic.maps[0].results:
        return False
    last = generic.maps[0].results[-1]
    if not isinstance(last, Dim) or generic.iterators[last.position] != "reduction":
        return False
    definer = rewriter.definer(generic.outputs[0])
    return definer is not None and definer.name == "memref.subview"


def folds_lanes(rewriter: Rewriter, op: Handle, combinations: Attribute) -> bool:
    """A generic that reduces the lanes of one vector by one of the named operations."""
    generic = op.operation
    if not isinstance(generic, linalg.Generic) or len(generic.inputs) != 1 or len(generic.outputs) != 1:
        return False
    body = rewriter.body(op)
    folds = "reduction" in generic.iterators and len(body) == 2
    return folds and isinstance(combinations, ArrayAttr) and StringAttr(body[0].name) in combinations.elements


_ACCUMULATORS = {"sum": "arith.addf", "max": "arith.maximumf", "min": "arith.minimumf"}


def is_reduction_kind(rewriter: Rewriter, op: Handle, kind: Attribute) -> bool:
    """Whether every yielded value accumulates in the given way: sum, max, min or absmax."""
    body = rewriter.body(op)
    if not body or not body[-1].operands:
        return False
    wanted = _text(kind)
    for value in body[-1].operands:
        combine = rewriter.definer(value)
        if combine is None or not _accumulates(rewriter, combine, wanted):
            return False
    return True


def _accumulates(rewriter: Rewriter, combine: Handle, kind: str) -> bool:
    if kind == "absmax":
        definers = [rewriter.definer(value) for value in combine.operands]
        return combine.name == "arith.maxnumf" and all(
            d is not None and d.name == "math.absf" for d in definers
        )
    return combine.name == _ACCUMULATORS.get(kind)


# -- rewrites --------------------------------------------------------------------------------------------


def map_to(rewriter: Rewriter, op: Handle, target: Attribute) -> None:
    """Sets `ktdf_arch.maps_to`."""
    rewriter.set_attribute(op, "ktdf_arch.maps_to", target)


def set_feature(rewriter: Rewriter, op: Handle, name: Attribute, value: Attribute) -> None:
    """Adds or replaces one entry of `ktdf_arch.features`."""
    features = op.attributes.get("ktdf_arch.features", DictAttr())
    if not isinstance(features, DictAttr):
        raise Abandon("'ktdf_arch.features' is no dictionary")
    rewriter.set_attribute(op, "ktdf_arch.features", features.updated({_text(name): value}))


def subview_source(rewriter: Rewriter, value: Value) -> Value:
    """The source of the `memref.subview` that defines a value."""
    definer = rewriter.definer(value)
    if definer is None or definer.name != "memref.subview":
        raise Abandon("the value is not defined by memref.subview")
    return definer.operands[0]


def with_precision(_: Rewriter, op: Handle, parameters: Attribute) -> DictAttr:
    """Adds ``prec`` to a dictionary, by the element type of the operation's first destination."""
    operation = op.operation
    outs = operation.outputs if isinstance(operation, linalg.Generic) else operation.operands[-1:]
    type = outs[0].type if outs else None
    element = type.element if isinstance(type, ShapedType) else type
    precision = "fp16" if element == F16 else "fp32" if element == F32 else None
    if precision is None or not isinstance(parameters, DictAttr):
        raise Abandon(f"no precision for element type '{element}'")
    return parameters.updated({"prec": StringAttr(precision)})


def over_registers(rewriter: Rewriter, op: Handle, registers: Attribute) -> Value:
    """An instruction of the same name on registers of the given kind, instead of a scalar operation.

    The operation's own attributes become the parameters of the instruction.
    """
    if len(op.results) != 1:
        raise Abandon("only operations with one result become instructions")
    return opaque_over_registers(
        rewriter,
        op.name,
        inputs=op.operands,
        result=op.results[0].type,
        registers=registers,
        parameters={k: v for k, v in op.attributes.items() if not k.startswith("ktdf_arch.")},
    )


CONSTRAINTS: Mapping[str, Native] = MappingProxyType(
    {
        "ktdf_arch.mapped_to": mapped_to,
        "ktdf_arch.has_feature": has_feature,
        "ktdf.is_inner_dim_reduction": is_inner_dim_reduction,
        "ktdf.is_reduction_kind": is_reduction_kind,
        "ktdf_ext.folds_lanes": folds_lanes,
        "ktdf_ext.is_one_of": is_one_of,
        "ktdf_ext.in_structured_body": in_structured_body,
    }
)

REWRITES: Mapping[str, Native] = MappingProxyType(
    {
        "ktdf_arch.map_to": map_to,
        "ktdf_arch.set_feature": set_feature,
        "ktdf.subview_source": subview_source,
        "ktdf.with_precision": with_precision,
        "ktdf_ext.over_registers": over_registers,
    }
)
