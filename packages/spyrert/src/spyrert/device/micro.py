"""The device for tests of the runtime: programs are short JSON lists (payload kind 3, runtime spec 5.4.7).

A program is a JSON array of operations on operands. An operand is
``{"addr": <value>, "shape": [...], "dtype": "float16", "layout": {...}}``; a value is an integer or a slot
``{"slot": k}`` of the correction tensor, times ``"unit"`` if given. The layout is the JSON form of
:mod:`spyrert.spyrecode.layout`, linear if absent. A size in ``shape`` may be a slot too.

========== =============================================== =====================================
``op``     operands                                        effect
========== =============================================== =====================================
``add``    ``lhs``, ``rhs``, ``out``                       element-wise sum
``mul``    ``lhs``, ``rhs``, ``out``                       element-wise product
``scale``  ``src``, ``out``, ``value`` (number or slot)    product with a scalar
``matmul`` ``lhs``, ``rhs``, ``out``, ``accumulate``       matrix product, added to ``out`` if asked
``copy``   ``src``, ``out``                                copy
``fill``   ``out``, ``value``                              every element becomes ``value``
``spin``   ``cycles``                                      only time passes
``fault``  ``code``                                        ``ComputeFault``
========== =============================================== =====================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from spyrert.device.costs import CostModel
from spyrert.device.event import EventDevice
from spyrert.device.protocol import (
    ComputeCB,
    ControlBlock,
    DeviceProperties,
    ExecResult,
    Phases,
    Program,
    SegmentMemory,
    engine_of,
)
from spyrert.dtypes import numpy_dtype
from spyrert.elements import element_offsets
from spyrert.errors import ComputeFault, SpyreCodeError
from spyrert.spyrecode._json import Node
from spyrert.spyrecode.image import PayloadKind
from spyrert.spyrecode.layout import Layout, LinearLayout, layout_from_json


class MicroDevice(EventDevice):
    """A device that runs micro programs, with latencies that a test may script.

    Args:
        props, cost: as for :class:`EventDevice`.
        latencies: fixed duration (ns) of operations, by kernel name, by the name of a transfer, or by engine
            (``"dma_in"``, ``"dma_out"``, ``"compute"``); names win.
    """

    def __init__(
        self,
        props: DeviceProperties | None = None,
        cost: CostModel | None = None,
        latencies: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(props, cost)
        self.latencies = dict(latencies or {})
        self.register_executor(PayloadKind.OP_LIST, run_micro)

    @classmethod
    def factory(cls, index: int) -> MicroDevice:
        """A device factory for ``Runtime(device_factory=MicroDevice.factory)``."""
        return cls(DeviceProperties(index=index))

    def script_duration(self, block: ControlBlock, duration: int) -> int:
        name = block.kernel_name if isinstance(block, ComputeCB) else getattr(block, "name", "")
        return self.latencies.get(name, self.latencies.get(engine_of(block).value, duration))


def run_micro(program: Program, memory: SegmentMemory, core_mask: int) -> ExecResult:
    """The micro executor. One cycle per stick that is read or written, plus what ``spin`` asks for."""
    try:
        operations = json.loads(program.payload)
    except ValueError as error:
        raise ComputeFault(f"micro program is not JSON: {error}") from None
    machine = _Machine(program.symbols, memory)
    for operation in operations:
        machine.run(operation)
    return ExecResult(machine.cycles, Phases(0, machine.cycles, 0))


class _Machine:
    def __init__(self, symbols: tuple[int, ...], memory: SegmentMemory) -> None:
        self.symbols = symbols
        self.memory = memory
        self.cycles = 0

    def run(self, operation: Mapping[str, Any]) -> None:
        match operation:
            case {"op": "add", "lhs": lhs, "rhs": rhs, "out": out}:
                self.store(out, self.load(lhs) + self.load(rhs))
            case {"op": "mul", "lhs": lhs, "rhs": rhs, "out": out}:
                self.store(out, self.load(lhs) * self.load(rhs))
            case {"op": "scale", "src": src, "out": out, "value": value}:
                values = self.load(src)
                self.store(out, values * values.dtype.type(self.value(value)))
            case {"op": "matmul", "lhs": lhs, "rhs": rhs, "out": out}:
                left, right = self.load(lhs), self.load(rhs)
                product = left.astype(np.float64) @ right.astype(np.float64)
                if operation.get("accumulate"):
                    product = product + self.load(out).astype(np.float64)
                self.store(out, product)
            case {"op": "copy", "src": src, "out": out}:
                self.store(out, self.load(src))
            case {"op": "fill", "out": out, "value": value}:
                shape = self.shape(out)
                self.store(out, np.full(shape, self.value(value)))
            case {"op": "spin", "cycles": cycles}:
                self.cycles += int(self.value(cycles))
            case {"op": "fault"}:
                raise ComputeFault(f"fault operation {operation.get('code', '')}", code=operation.get("code"))
            case _:
                raise ComputeFault(f"unknown micro operation {operation!r}")

    def value(self, item: Any) -> Any:
        match item:
            case {"slot": slot}:
                return self.symbols[slot] * item.get("unit", 1) + item.get("offset", 0)
            case _:
                return item

    def shape(self, operand: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(int(self.value(size)) for size in operand["shape"])

    def layout(self, operand: Mapping[str, Any]) -> Layout:
        try:
            if operand.get("layout") is None:
                return LinearLayout(operand["dtype"])
            return layout_from_json(Node(operand["layout"]))
        except SpyreCodeError as error:
            raise ComputeFault(f"bad layout in a micro program: {error}") from None

    def load(self, operand: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        data, offsets, shape = self.raw(operand)
        values: np.ndarray[Any, Any] = data.view(numpy_dtype(operand["dtype"]))[offsets]
        return values.reshape(shape)

    def store(self, operand: Mapping[str, Any], values: np.ndarray[Any, Any]) -> None:
        dtype = numpy_dtype(operand["dtype"])
        layout, shape, address = self.layout(operand), self.shape(operand), int(self.value(operand["addr"]))
        size = layout.device_bytes(shape)
        if isinstance(layout, LinearLayout):
            self.write(address, np.ascontiguousarray(values.astype(dtype)).tobytes())
            return
        data = np.frombuffer(self.memory.read(address, size), np.uint8).copy().view(dtype)
        data[element_offsets(layout, shape)] = values.astype(dtype).reshape(-1)
        self.write(address, data.tobytes())

    def write(self, address: int, data: bytes) -> None:
        self.cycles += -(-len(data) // 128)
        self.memory.write(address, data)

    def raw(
        self, operand: Mapping[str, Any]
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any], tuple[int, ...]]:
        layout, shape, address = self.layout(operand), self.shape(operand), int(self.value(operand["addr"]))
        size = layout.device_bytes(shape)
        self.cycles += -(-size // 128)
        data = np.frombuffer(self.memory.read(address, size), np.uint8)
        return data, element_offsets(layout, shape), shape
