"""`materialize-registers`: registers of instruction templates become buffers (device spec 4.6).

Takes `linalg.generic`s whose bodies call templates over registers, as device patterns write them: constants
that are mapped to a register file, cells of rank 0, stores, a `ktdf.opaque`, loads. Leaves registers in front
of the generic, each as large as the vectors that it computes: constants are filled into theirs, cells become
buffers of which a store or load in the body means all lanes, and what is stored from outside of the body is
filled in once. A generic without such things stays as it is; so do programs of the packaged devices, whose
patterns map operations instead (`ktdf_arch.maps_to` on the operation).

A register of fewer elements than the unit has lanes of holds a whole vector all the same, so that addresses
stay whole registers; more elements must be whole vectors.

Before, in the body of a generic over 64 elements::

    %k = arith.constant {ktdf_arch.maps_to = "SFU_REG"} 2.0 : f16
    %i = memref.alloca() : memref<f16, "SFU_REG">
    memref.store %x, %i[] : memref<f16, "SFU_REG">
    %o = memref.alloca() : memref<f16, "SFU_REG">
    ktdf.opaque "recip" ins(%k, %i : ...) outs(%o : ...)
    %y = memref.load %o[] : memref<f16, "SFU_REG">

After::

    %k = memref.alloc() : memref<64xf16, "SFU_REG">
    linalg.fill ins(%two : f16) outs(%k : memref<64xf16, "SFU_REG">)
    %i = memref.alloca() : memref<64xf16, "SFU_REG">
    %o = memref.alloca() : memref<64xf16, "SFU_REG">
    linalg.generic ... {
      memref.store %x, %i[%c0] : memref<64xf16, "SFU_REG">
      ktdf.opaque "recip" ins(%k, %i : ...) outs(%o : ...)
      %y = memref.load %o[%c0] : memref<64xf16, "SFU_REG">

>>> from dfsched.passes.examples import example
>>> example("materialize-registers", '''
... %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
...     outs(%e : tensor<64xf16>) {
... ^bb0(%o: f16):
...   %k = arith.constant {ktdf_arch.maps_to = "SFU_REG"} 2.0 : f16
...   %r = arith.addf %o, %o : f16
...   ktdf.opaque "note" ins(%k : f16) outs()
...   linalg.yield %r : f16
... } -> tensor<64xf16>
... ''', arguments="%e: tensor<64xf16>")
#map = affine_map<(d0) -> (d0)>
%cst = arith.constant 2.000000e+00 : f16
%alloc = memref.alloc() : memref<64xf16, "SFU_REG">
linalg.fill ins(%cst : f16) outs(%alloc : memref<64xf16, "SFU_REG">)
%0 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%e :
    tensor<64xf16>) {
^bb0(%out: f16):
  %1 = arith.addf %out, %out : f16
  ktdf.opaque "note" ins(%alloc : memref<64xf16, "SFU_REG">) outs()
  linalg.yield %1 : f16
} -> tensor<64xf16>
"""

from __future__ import annotations

import math

from attrs import define, field

from dfsched.architecture import Architecture, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import Opaque
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.generics import loop_extents, rewrite_generics
from dfsched.passes.ir_tools import Definitions, substitute
from ktir.attribute import Attribute
from ktir.dialects import arith, linalg, memref
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Region, Value
from ktir.types import MemRefType, Type

__all__ = ["PASS", "run"]

MAPS_TO = "ktdf_arch.maps_to"


def run(module: Module, context: PassContext) -> Module:
    """Move the registers of every generic in front of it."""
    definitions = Definitions(module)
    return rewrite_generics(
        module, _has_registers, lambda op: _Registers(op, definitions, context.architecture).result()
    )


PASS = Pass(
    "materialize-registers", Group.SCHEDULER, run, "registers of instruction templates become buffers"
)


def _has_registers(op: linalg.Generic) -> bool:
    return any(
        isinstance(inner, memref.Alloc | memref.Alloca)
        or (isinstance(inner, arith.Constant) and MAPS_TO in inner.attributes)
        for inner in op.body.block.operations
    )


@define(eq=False)
class _Registers:
    """The registers of one generic."""

    op: linalg.Generic
    definitions: Definitions
    architecture: Architecture
    before: list[Operation] = field(factory=list)
    cells: dict[Value, Value] = field(factory=dict)
    zero: Value | None = None

    def result(self) -> list[Operation]:
        """What was in the body and belongs in front, and the generic."""
        block = self.op.body.block
        inside = {value for inner in block.operations for value in inner.results} | set(block.arguments)
        body: list[Operation] = []
        for inner in block.operations:
            match inner:
                case arith.Constant() if MAPS_TO in inner.attributes:
                    self._constant(inner)
                case memref.Alloc() | memref.Alloca() if not inner.operands:
                    self._allocation(inner)
                case memref.Store() if inner.memref in self.cells and inner.value not in inside:
                    fill = linalg.Fill.build(
                        [inner.value], [self.cells[inner.memref]], location=inner.location
                    )
                    self.before.append(fill)
                case memref.Store() if inner.memref in self.cells:
                    operands = [inner.value, self.cells[inner.memref], self._zero()]
                    body.append(inner.replace(operands=operands))
                case memref.Load() if inner.memref in self.cells:
                    body.append(inner.replace(operands=[self.cells[inner.memref], self._zero()]))
                case _:
                    body.append(substitute(inner, self.cells))
        new = self.op.replace(regions=[Region.of(body, block.arguments)])
        return [*self.before, new]

    def _zero(self) -> Value:
        if self.zero is None:
            constant = build.index_constant(0)
            self.before.append(constant)
            self.zero = constant.result
        return self.zero

    def _lanes(self, type: Type, op: Operation) -> int:
        lanes = self.architecture.lanes(type)
        if lanes == 0:
            unit = self.architecture.compute_unit
            name = "the device" if unit is None else kind_text(unit.kind)
            raise UnsupportedKernel.at(op.location, f"{name} has no lane count for {type}")
        return lanes

    def _constant(self, op: arith.Constant) -> None:
        """A register that holds the constant in every lane."""
        space: Attribute = op.attributes[MAPS_TO]
        buffer = OpResult(MemRefType((self._lanes(op.result.type, op),), op.result.type, None, space))
        plain = arith.Constant.of(op.value).replace(location=op.location)
        self.before += [
            plain,
            build.alloc(buffer).replace(location=op.location),
            linalg.Fill.build([plain.results[0]], [buffer], location=op.location),
        ]
        self.cells[op.result] = buffer

    def _allocation(self, op: memref.Alloc | memref.Alloca) -> None:
        """A cell as one register of all lanes; other buffers only move."""
        type = op.memref.type
        assert isinstance(type, MemRefType)
        if type.shape:
            self.before.append(op)
            return
        for user in self.definitions.users(op.memref):
            if not isinstance(user, memref.Store | memref.Load | Opaque):
                raise ScheduleError.at(
                    user.location,
                    f"'{user.name}' uses a register cell; only stores, loads and ktdf.opaque may",
                )
        if type.memory_space is None or not self.architecture.is_memory(kind_of(type.memory_space)):
            raise ScheduleError.at(op.location, f"a register cell in no memory of the device: {type}")
        lanes = self._lanes(type.element, op)
        extents = loop_extents(self.op)
        if len(extents) != len(self.op.iterators):
            raise ScheduleError.at(op.location, "a register cell in a computation of unknown extents")
        count = math.prod(extents.values())
        if count > lanes and count % lanes:
            raise ScheduleError.at(
                op.location,
                f"a register cell in a computation of {count} elements, "
                f"which is no multiple of the {lanes} lanes",
            )
        buffer = OpResult(MemRefType((max(count, lanes),), type.element, None, type.memory_space))
        self.before.append(op.replace(results=[buffer]))
        self.cells[op.memref] = buffer
