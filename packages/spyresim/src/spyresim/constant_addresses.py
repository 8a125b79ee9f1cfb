"""Buffers at constant addresses, and the implicit arguments that hold them in a compiled kernel (readings 4).

A kernel names such a buffer by the byte address of its view (``@0x800``). Its launch spec has one implicit
argument of bytes for a segment (``@0x0``), which spans all of them. All levels take and give the former; a
compiled kernel takes the latter, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from ktir.dtypes import decode_array, element_bytes, encode_array, storage_dtype
from ktir.interface import ConstantBuffer, Role
from ktir.layout import LinearLayout
from ktir.machine import F16Format
from ktir.types import Type
from spyrert.spyrecode import LaunchSpec
from spyresim.errors import ArgumentError
from spyresim.meaning.formats import Array
from spyresim.report import Result

__all__ = ["ConstantAddresses"]


@attrs.frozen
class _Span:
    """An implicit argument: its name, first byte address, and bytes."""

    name: str
    start: int
    size: int

    def holds(self, address: int, size: int) -> bool:
        return self.start <= address and address + size <= self.start + self.size


@attrs.frozen
class ConstantAddresses:
    """Puts buffers together into implicit arguments, and takes outputs apart.

    Without `buffers` (a folder holds no KTIR) arrays are taken as the bytes that they are, and outputs stay
    together.
    """

    kernel: str
    spans: tuple[_Span, ...]
    buffers: tuple[ConstantBuffer, ...]
    f16_format: F16Format

    @classmethod
    def of(cls, spec: LaunchSpec, buffers: Sequence[ConstantBuffer] = ()) -> ConstantAddresses:
        """For a launch spec, and the buffers of its kernel (`ktir.interface.constant_buffers`)."""
        spans = tuple(
            _Span(
                arg.name,
                int(arg.name.removeprefix("@"), 16),
                math.prod(n for n in arg.shape if isinstance(n, int)),
            )
            for arg in spec.args
            if arg.kernel_position is None and arg.name is not None
        )
        return cls(spec.kernel_name, spans, tuple(buffers) if spans else (), F16Format(spec.f16_format))

    def pack(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Arguments of the launch spec; `ArgumentError` for a buffer that is missing or does not fit."""
        whole = self._whole(arguments)
        pieces = {n: v for n, v in arguments.items() if n.startswith("@") and n not in whole}
        if not self.spans or whole or not (pieces or self.buffers):
            return dict(arguments)
        data = {span.name: np.zeros(span.size, np.uint8) for span in self.spans}
        packed = {name: value for name, value in arguments.items() if name not in pieces}
        for buffer in self.buffers:
            if buffer.role is not Role.OUTPUT and buffer.name not in pieces:
                raise ArgumentError(
                    f"argument '{buffer.name}' of '{self.kernel}' ({buffer.role}, {buffer.element} of shape "
                    f"{buffer.shape}) is missing",
                    buffer.name,
                    self.kernel,
                )
        for name, value in pieces.items():
            self._place(name, value, data)
        return {**packed, **data}

    def _whole(self, arguments: Mapping[str, object]) -> set[str]:
        """Implicit arguments that are given as such; a view that begins where one does has the same name."""
        views = {buffer.name for buffer in self.buffers}
        found = set()
        for span in self.spans:
            value = arguments.get(span.name)
            raw = isinstance(value, np.ndarray) and (value.dtype, value.shape) == (np.uint8, (span.size,))
            if span.name in arguments and (raw or span.name not in views):
                found.add(span.name)
        return found

    def _place(self, name: str, value: object, data: Mapping[str, Array]) -> None:
        raw = self._bytes(name, value)
        address = int(name.removeprefix("@"), 16)
        for span in self.spans:
            if span.holds(address, len(raw)):
                data[span.name][address - span.start : address - span.start + len(raw)] = raw
                return
        raise ArgumentError(
            f"argument '{name}' of '{self.kernel}' is outside of what the kernel addresses", name, self.kernel
        )

    def _bytes(self, name: str, value: object) -> Array:
        known = {buffer.name: buffer for buffer in self.buffers}
        if self.buffers and name not in known:
            raise ArgumentError(
                f"'{self.kernel}' has no argument '{name}'; its arguments: {', '.join(known)}",
                name,
                self.kernel,
            )
        try:
            int(name.removeprefix("@"), 16)
        except ValueError:
            raise ArgumentError(f"'{self.kernel}' has no argument '{name}'", name, self.kernel) from None
        if not isinstance(value, np.ndarray):
            raise ArgumentError(
                f"argument '{name}' of '{self.kernel}' must be an array, not {type(value).__name__}",
                name,
                self.kernel,
            )
        buffer = known.get(name)
        if buffer is not None:
            if value.shape != buffer.shape:
                raise ArgumentError(
                    f"argument '{name}' of '{self.kernel}' must have shape {buffer.shape}, but the array has "
                    f"shape {value.shape}",
                    name,
                    self.kernel,
                )
            value = encode_array(value, buffer.element, self.f16_format)
        return np.ascontiguousarray(value).reshape(-1).view(np.uint8)

    def unpack(self, result: Result, arguments: Mapping[str, object]) -> Result:
        """The result with the outputs at constant addresses under the names that the arguments have."""
        names = {span.name for span in self.spans}
        if not self.buffers or self._whole(arguments):
            return result
        outputs: dict[str, Any] = {name: a for name, a in result.outputs.items() if name not in names}
        for buffer in self.buffers:
            size = element_bytes(buffer.element) * math.prod(buffer.shape)
            for span in self.spans:
                if buffer.role is Role.INPUT or not span.holds(buffer.address, size):
                    continue
                at = buffer.address - span.start
                raw = (
                    np.ascontiguousarray(result.outputs[span.name]).reshape(-1).view(np.uint8)[at : at + size]
                )
                outputs[buffer.name] = _decoded(raw, buffer.element, buffer.shape, self.f16_format)
        return attrs.evolve(result, outputs=outputs)


def _decoded(raw: Any, type: Type, shape: Sequence[int], format: F16Format) -> Array:
    stored = raw.copy().view(storage_dtype(type)).reshape(LinearLayout(tuple(shape), type).shape)
    return decode_array(stored, type, None, format)
