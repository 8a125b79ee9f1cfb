"""Several kernels one after another on one machine: scratchpads and resident arrays keep their contents."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Unpack

import numpy as np

from ktir.dialects.builtin import Module
from ktir.layout import Layout, LinearLayout, from_device_bytes, to_device_bytes
from ktir.machine import Machine
from ktir.types import Type
from spyresim.arguments import Resident
from spyresim.errors import require
from spyresim.ktir_level import RunOptions, run_ktir
from spyresim.meaning.formats import Array
from spyresim.report import Result
from spyresim.sequential.memory import Bank

__all__ = ["Session"]


class Session:
    """A machine that kernels of one or more modules run on, in the order of the calls (KTIR level).

    A kernel boundary orders everything. `machine` is the default one with the switches of each module.
    """

    def __init__(self, machine: Machine | None = None) -> None:
        require("Session", "machine", machine, Machine, NoneType)
        self.machine = machine or Machine()
        stick = self.machine.stick_bytes
        self._scratchpad = Bank("scratchpad", self.machine.tiles, self.machine.scratchpad_bytes, stick)
        self._next = self.machine.first_address
        self._count = 0

    def place(self, array: Array, layout: Layout | None = None, element: Type | None = None) -> Resident:
        """Copy an array to device memory, where it stays.

        `layout` is by default linear, with elements of type `element` or of the array's dtype. The result is
        an argument for `run` wherever an array of this layout is; kernels that write it change it in place.
        """
        require("Session.place", "array", array, np.ndarray)
        require("Session.place", "layout", layout, Layout, NoneType)
        require("Session.place", "element", element, Type, NoneType)
        if layout is None:
            from ktir.dtypes import element_type

            layout = LinearLayout(array.shape, element or element_type(str(array.dtype)))
        resident = self.allocate(layout)
        resident.bank.write_bytes(0, 0, to_device_bytes(array, layout, self.machine.f16_format))
        return resident

    def allocate(self, layout: Layout) -> Resident:
        """Device memory that nobody has written yet."""
        require("Session.allocate", "layout", layout, Layout)
        stick = self.machine.stick_bytes
        size = max(layout.device_bytes, 1)
        bank = Bank(f"resident {self._count}", 1, size, stick, numbered=False)
        resident = Resident(self._next, layout, bank)
        self._next += -(-size // stick) * stick
        self._count += 1
        return resident

    def fetch(self, resident: Resident) -> Array:
        """The host array in device memory."""
        require("Session.fetch", "resident", resident, Resident)
        data = resident.bank.read_bytes(0, 0, resident.layout.device_bytes)
        return from_device_bytes(data, resident.layout, None, self.machine.f16_format)

    def write_scratchpad(self, tile: int, address: int, data: Array) -> None:
        """Seed the scratchpad of a tile with the bytes of an array at a byte address."""
        self._scratchpad.write_bytes(tile, address, np.ascontiguousarray(data).reshape(-1).view(np.uint8))

    def read_scratchpad(self, tile: int, address: int, size: int) -> Array:
        """A copy of bytes of a tile's scratchpad."""
        return self._scratchpad.read_bytes(tile, address, size)

    def run(
        self,
        module: Module,
        function: str | None = None,
        args: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """`run_ktir` on this machine; arguments may be what `place` and `allocate` gave.

        Resident arrays are not among the outputs: `fetch` reads them.
        """
        return run_ktir(
            module,
            function,
            args,
            self.machine,
            scratchpad=self._scratchpad,
            first_address=self._next,
            **options,
        )
