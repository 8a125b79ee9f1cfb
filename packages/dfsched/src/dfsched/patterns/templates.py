"""Instruction templates over registers, for patterns in Python and for native functions (spec 4.5, 4.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfsched.patterns.rewriter import Handle, Rewriter
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DenseArrayAttr, DictAttr, StringAttr
from ktir.ir import Value
from ktir.types import I32, MemRefType, Type

__all__ = ["opaque_over_registers", "simd_reduction"]

REGISTER_NAMES = "dataflow_scheduler.register_names"


def opaque_over_registers(
    rewriter: Rewriter,
    name: str,
    *,
    inputs: Sequence[Value],
    result: Type,
    registers: Attribute,
    constants: Sequence[tuple[str, Attribute, Type]] = (),
    temporaries: Sequence[tuple[str, Type]] = (),
    parameters: Mapping[str, Attribute] | None = None,
) -> Value:
    """An instruction template called on registers: the value that replaces a scalar operation.

    Creates, in order: a constant that lives in the register file for each of ``constants`` (name, value,
    type); a rank-0 register of kind ``registers`` for each input, for the result and for each of
    ``temporaries``; stores of the inputs; the `ktdf.opaque`; the load of the result. Register names are those
    of the constants, ``in0``, ``in1``, ..., ``out0``, then those of the temporaries.
    """
    held = [
        rewriter.create(
            "arith.constant", (), (type,), {"value": value, "ktdf_arch.maps_to": registers}
        ).results[0]
        for _, value, type in constants
    ]
    loaded = [_register(rewriter, value.type, registers) for value in inputs]
    for value, register in zip(inputs, loaded, strict=True):
        rewriter.create("memref.store", (value, register))
    out = _register(rewriter, result, registers)
    scratch = [_register(rewriter, type, registers) for _, type in temporaries]
    names = [
        *(constant for constant, _, _ in constants),
        *(f"in{number}" for number in range(len(inputs))),
        "out0",
        *(temporary for temporary, _ in temporaries),
    ]
    _opaque(rewriter, name, [*held, *loaded], [out, *scratch], names, parameters)
    return rewriter.create("memref.load", (out,), (result,)).results[0]


def simd_reduction(
    rewriter: Rewriter,
    name: str,
    source: Value,
    accumulator: Value,
    parameters: Mapping[str, Attribute] | None = None,
) -> Handle:
    """A lane reduction of a buffer into an accumulator, both memrefs."""
    return _opaque(rewriter, name, [source], [accumulator], ["in0", "out0"], parameters)


def _register(rewriter: Rewriter, type: Type, registers: Attribute) -> Value:
    cell = MemRefType((), type, None, registers)
    segments = {"operandSegmentSizes": DenseArrayAttr(I32, (0, 0))}
    return rewriter.create("memref.alloca", (), (cell,), segments).results[0]


def _opaque(
    rewriter: Rewriter,
    name: str,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    names: Sequence[str],
    parameters: Mapping[str, Attribute] | None,
) -> Handle:
    attributes: dict[str, Attribute] = {
        "template_name": StringAttr(name),
        "func_name": StringAttr(name),
        REGISTER_NAMES: ArrayAttr(tuple(map(StringAttr, names))),
        "operandSegmentSizes": DenseArrayAttr(I32, (len(inputs), len(outputs))),
    }
    if parameters:
        attributes["parameter_dictionary"] = DictAttr(parameters)
    return rewriter.create("ktdf.opaque", (*inputs, *outputs), (), attributes)
