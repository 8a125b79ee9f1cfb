"""Device layouts: where every element of a host array lies in device memory (planning spec 1).

`Layout` is the attribute ``#ktdp.layout<...>`` that a kernel argument carries as ``ktdp.layout``. There are
two kinds. A :class:`LinearLayout` is exactly the bytes of the C-contiguous host array; it is what an argument
without the attribute has. A :class:`StickLayout` cuts one host dimension into sticks of 128 bytes, pads it to
whole sticks, and orders the other dimensions freely.

>>> from ktir.types import F16
>>> layout = StickLayout.default((37, 130), F16)
>>> print(layout.device_size, layout.stride_map, layout.device_bytes)
(3, 37, 64) (64, 130, 1) 14208
>>> layout.coordinates((5, 129))
(2, 5, 1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import attrs

from ktir.attribute import Attribute
from ktir.dtypes import decode_array, dtype_name, element_bytes, element_type, encode_array, storage_dtype
from ktir.errors import KtirError
from ktir.machine import F16Format
from ktir.types import Type

if TYPE_CHECKING:  # NumPy is loaded when offsets or bytes are asked for
    import numpy as np
    import numpy.typing as npt

    from ktir.parser import AttributeParser
    from ktir.printer import Printer

    IntArray: TypeAlias = npt.NDArray[np.int64]

__all__ = [
    "ARRANGEMENTS",
    "MAX_RANK",
    "SPARSE",
    "STICK_BYTES",
    "Layout",
    "LayoutError",
    "LinearLayout",
    "StickLayout",
    "from_device_bytes",
    "layout_from_json",
    "to_device_bytes",
]

STICK_BYTES = 128
"""Bytes of one stick, the unit of device layouts (KTIR spec 4.1)."""
MAX_RANK = 6
"""Dimensions that a stick layout can order (planning spec 1.2)."""
SPARSE = -1
"""As last entry of an order: sticks with one useful element each (planning spec 1.2)."""
ARRANGEMENTS = ("STANDARD", "DL16_TO_FP32", "FP32_TO_DL16", "QFP8CH", "QFP8WT", "EXX2")
"""Orders of the elements inside a stick (planning spec 1.7); only STANDARD has index arithmetic here."""


def _integer_tuple(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


class LayoutError(KtirError):
    """A layout contradicts itself, or an array or index does not fit it."""


@attrs.frozen
class Layout(Attribute):
    """Base of the two kinds of layout. `shape` is the host shape (elements), `element` the device format."""

    mnemonic: ClassVar[str] = "ktdp.layout"

    shape: tuple[int, ...] = attrs.field(converter=_integer_tuple)
    element: Type

    @property
    def item_bytes(self) -> int:
        """Bytes of one element on the device."""
        return element_bytes(self.element)

    @property
    def lanes(self) -> int:
        """Elements in one stick."""
        return STICK_BYTES // self.item_bytes

    @property
    def host_strides(self) -> tuple[int, ...]:
        """C-order strides of the host array, in elements."""
        return _packed(self.shape)

    @property
    def device_shape(self) -> tuple[int, ...]:
        """The shape of the device array, in elements."""
        raise NotImplementedError

    @property
    def device_strides_bytes(self) -> tuple[int, ...]:
        """The strides of the device array, in bytes."""
        raise NotImplementedError

    @property
    def device_bytes(self) -> int:
        """Bytes on the device, padding included."""
        raise NotImplementedError

    @property
    def device_sticks(self) -> int:
        """Sticks on the device; a linear array that ends inside a stick occupies it."""
        return -(-self.device_bytes // STICK_BYTES)

    def coordinates(self, index: Sequence[int]) -> tuple[int, ...]:
        """Device coordinates of the element at a host index; :class:`LayoutError` outside the shape."""
        raise NotImplementedError

    def offset_bytes(self, index: Sequence[int]) -> int:
        """Byte offset of the element at a host index from the start of the device array."""
        pairs = zip(self.coordinates(index), self.device_strides_bytes, strict=True)
        return sum(c * s for c, s in pairs)

    def element_offsets(self) -> IntArray:
        """Offset in elements on the device of every host element; int64 array of shape `shape`."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The JSON form. The host shape is not in it: it stands beside the layout wherever that is used."""
        raise NotImplementedError

    def _check_index(self, index: Sequence[int]) -> None:
        if len(index) != len(self.shape) or any(
            not 0 <= i < n for i, n in zip(index, self.shape, strict=True)
        ):
            raise LayoutError(f"index {tuple(index)} is not in a host array of shape {self.shape}")

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        """``<shape = [..], (linear | device_size = [..], stride_map = [..] ...), element = type>``."""
        return _parse(parser)  # type: ignore[return-value]  # the text decides which subclass it is


@attrs.frozen
class LinearLayout(Layout):
    """Row-major without padding: the bytes of the C-contiguous host array."""

    @property
    def device_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def device_strides_bytes(self) -> tuple[int, ...]:
        return tuple(s * self.item_bytes for s in self.host_strides)

    @property
    def device_bytes(self) -> int:
        return math.prod(self.shape) * self.item_bytes

    def coordinates(self, index: Sequence[int]) -> tuple[int, ...]:
        self._check_index(index)
        return tuple(index)

    def element_offsets(self) -> IntArray:
        import numpy as np

        return np.arange(math.prod(self.shape), dtype=np.int64).reshape(self.shape)

    def to_json(self) -> dict[str, Any]:
        return {"arrangement": "linear", "device_dtype": dtype_name(self.element)}

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<shape = {list(self.shape)}, linear, element = ")
        printer.type(self.element)
        printer.write(">")


@attrs.frozen
class StickLayout(Layout):
    """A dense row-major array of sticks.

    `device_size` is the device shape, its last entry the elements of a stick. ``stride_map[j]`` is how far
    the host offset (elements) moves when device coordinate j grows by one; -1 for dimensions without host
    elements behind them (synthetic, or of host extent 1), 0 for broadcast. `device_strides` (bytes) is None
    when packed.

    For every element ``host offset == sum(c[j] * stride_map[j])`` over the entries above 0.
    """

    device_size: tuple[int, ...] = attrs.field(converter=_integer_tuple)
    stride_map: tuple[int, ...] = attrs.field(converter=_integer_tuple)
    arrangement: str = "STANDARD"
    device_strides: tuple[int, ...] | None = None

    def __attrs_post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise LayoutError(f"bad layout: {problem}")

    def _problem(self) -> str | None:
        rank = len(self.device_size)
        if rank < 2 or rank != len(self.stride_map):
            return (
                f"device_size {list(self.device_size)} and stride_map {list(self.stride_map)} must have the "
                "same length of 2 or more"
            )
        if any(n < 0 for n in (*self.device_size, *self.shape)):
            return "an extent is negative"
        if self.device_size[-1] != self.lanes:
            return (
                f"the last device dimension is {self.device_size[-1]}, but a stick of {self.element} has "
                f"{self.lanes} elements"
            )
        if self.arrangement not in ARRANGEMENTS:
            return f"unknown element arrangement '{self.arrangement}'"
        if self.device_strides is not None:
            if len(self.device_strides) != rank:
                return f"{len(self.device_strides)} device strides for {rank} device dimensions"
            if self.device_strides[-1] != self.item_bytes:
                return "the stride of the stick dimension must be one element"
            if any(s % STICK_BYTES for s in self.device_strides[:-1]):
                return f"device strides above the stick must be multiples of {STICK_BYTES} bytes"
        return self._coverage_problem()

    def _coverage_problem(self) -> str | None:
        """Every host dimension must be covered by a chain of device dimensions, each element once."""
        if math.prod(self.shape) == 0:
            return None
        live = sorted(self._live(), key=lambda j: self.stride_map[j])
        for d in range(len(self.shape) - 1, -1, -1):
            extent, stride = self.shape[d], self.host_strides[d]
            if extent == 1:
                continue
            covered = 1
            while live and self.stride_map[live[0]] == stride * covered and covered < extent:
                covered *= self.device_size[live.pop(0)]
            if covered < extent:
                return (
                    f"host dimension {d} of extent {extent} (stride {stride}) is not covered by "
                    f"device_size {list(self.device_size)} with stride_map {list(self.stride_map)}"
                )
        if live:
            return (
                f"device dimension {live[0]} with stride {self.stride_map[live[0]]} belongs to no host "
                f"dimension of {list(self.shape)}"
            )
        return None

    def _live(self) -> list[int]:
        """Device dimensions that count host elements."""
        return [j for j, s in enumerate(self.stride_map) if s > 0 and self.device_size[j] > 1]

    @classmethod
    def default(cls, shape: Sequence[int], element: Type, order: Sequence[int] | None = None) -> StickLayout:
        """The stick layout of a C-contiguous host array (planning spec 1.2, runtime spec 3.4.2).

        `order` lists the host dimensions, the one that runs inside a stick last; a trailing `SPARSE` gives
        one useful element a stick. The default order is 0, 1, ... . :class:`LayoutError` for an order that
        is no permutation or has more than 6 entries.
        """
        shape = tuple(shape)
        rank = len(shape)
        order = tuple(range(rank)) if order is None else tuple(order)
        if sorted(order[:-1] if order[-1:] == (SPARSE,) else order) != list(range(rank)):
            raise LayoutError(f"order {list(order)} does not fit a host array of rank {rank}")
        if len(order) > MAX_RANK:
            raise LayoutError(f"a stick layout orders at most {MAX_RANK} dimensions, not {len(order)}")
        lanes = STICK_BYTES // element_bytes(element)
        if not order:
            return cls((), element, (1, lanes), (-1, -1))
        slots = (order[0], order[0]) if len(order) == 1 else (*order[1:], order[0], order[-1])
        stick = slots[-1]
        sizes = [
            (1 if d == SPARSE else -(-shape[d] // lanes)) if d == stick else shape[d] for d in slots[:-1]
        ] + [lanes]
        host = _packed(shape)
        steps = [0] * len(slots)
        running: dict[int, int] = {}
        for j in range(len(slots) - 1, -1, -1):
            d = slots[j]
            if d == SPARSE or shape[d] == 1:
                steps[j] = -1
                continue
            steps[j] = running.get(d, host[d])
            running[d] = steps[j] * sizes[j]
        return cls(shape, element, tuple(sizes), tuple(steps))

    @property
    def device_shape(self) -> tuple[int, ...]:
        return self.device_size

    @property
    def device_strides_bytes(self) -> tuple[int, ...]:
        if self.device_strides is not None:
            return self.device_strides
        return tuple(s * self.item_bytes for s in _packed(self.device_size))

    @property
    def device_bytes(self) -> int:
        if 0 in self.device_size:
            return 0
        pairs = zip(self.device_size[:-1], self.device_strides_bytes[:-1], strict=True)
        return STICK_BYTES + sum((n - 1) * s for n, s in pairs)

    def coordinates(self, index: Sequence[int]) -> tuple[int, ...]:
        self._check_index(index)
        rest = sum(i * s for i, s in zip(index, self.host_strides, strict=True))
        result = [0] * len(self.device_size)
        for j in sorted(self._live(), key=lambda j: -self.stride_map[j]):
            result[j], rest = divmod(rest, self.stride_map[j])
        return tuple(result)

    def element_offsets(self) -> IntArray:
        if self.arrangement != "STANDARD":
            raise LayoutError(f"no index arithmetic for element arrangement '{self.arrangement}'")
        import numpy as np

        rest = np.arange(math.prod(self.shape), dtype=np.int64)
        offsets = np.zeros_like(rest)
        for j in sorted(self._live(), key=lambda j: -self.stride_map[j]):
            coordinate, rest = np.divmod(rest, self.stride_map[j])
            offsets += coordinate * (self.device_strides_bytes[j] // self.item_bytes)
        return offsets.reshape(self.shape)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "device_size": list(self.device_size),
            "stride_map": list(self.stride_map),
            "device_dtype": dtype_name(self.element),
            "element_arrangement": self.arrangement,
        }
        if self.device_strides is not None:
            document["device_strides"] = list(self.device_strides)
        return document

    def print_parameters(self, printer: Printer) -> None:
        printer.write(
            f"<shape = {list(self.shape)}, device_size = {list(self.device_size)}, "
            f"stride_map = {list(self.stride_map)}"
        )
        if self.arrangement != "STANDARD":
            printer.write(f', arrangement = "{self.arrangement}"')
        if self.device_strides is not None:
            printer.write(f", device_strides = {list(self.device_strides)}")
        printer.write(", element = ")
        printer.type(self.element)
        printer.write(">")


def _packed(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def layout_from_json(document: Mapping[str, Any], shape: Sequence[int]) -> Layout:
    """Read the JSON form of either kind for a host array of `shape`.

    ``element_arrangement`` and ``device_strides`` may be absent. :class:`LayoutError` for anything malformed.
    """
    try:
        element = element_type(document["device_dtype"])
        if "arrangement" in document:
            if document["arrangement"] != "linear":
                raise LayoutError(
                    f"unknown arrangement {document['arrangement']!r}, only 'linear' has this form"
                )
            return LinearLayout(tuple(shape), element)
        strides = document.get("device_strides")
        return StickLayout(
            tuple(shape),
            element,
            _integers(document, "device_size"),
            _integers(document, "stride_map"),
            document.get("element_arrangement", "STANDARD"),
            None if strides is None else _integers(document, "device_strides"),
        )
    except KeyError as error:
        raise LayoutError(f"layout has no field '{error.args[0]}'") from None


def _integers(document: Mapping[str, Any], name: str) -> tuple[int, ...]:
    values = document[name]
    if not isinstance(values, list) or any(type(v) is not int for v in values):
        raise LayoutError(f"layout field '{name}' must be a list of integers, not {values!r}")
    return tuple(values)


def _parse(parser: AttributeParser) -> Layout:
    start = parser.offset
    fields: dict[str, Any] = {}
    linear = False

    def integers() -> tuple[int, ...]:
        return tuple(parser.parse_comma_list("[", "]", parser.parse_integer))

    def entry() -> None:
        nonlocal linear
        place = parser.offset
        name = parser.keyword("a layout field")
        if name in fields or (name == "linear" and linear):
            raise parser.error_at(place, f"layout field '{name}' is given twice")
        if name == "linear":
            linear = True
            return
        parser.expect("=", f"behind '{name}'")
        match name:
            case "shape" | "device_size" | "stride_map" | "device_strides":
                fields[name] = integers()
            case "element":
                fields[name] = parser.parse_type()
            case "arrangement":
                fields[name] = parser.parse_string()
            case _:
                raise parser.error_at(
                    place,
                    f"unknown layout field '{name}', expected shape, linear, device_size, stride_map, "
                    "arrangement, device_strides or element",
                )

    parser.parse_comma_list("<", ">", entry)
    required = ("shape", "element") if linear else ("shape", "element", "device_size", "stride_map")
    for name in required:
        if name not in fields:
            raise parser.error_at(start, f"layout has no field '{name}'")
    extra = sorted(set(fields) - set(required)) if linear else []
    if extra:
        raise parser.error_at(start, f"a linear layout has no field '{extra[0]}'")
    try:
        return LinearLayout(**fields) if linear else StickLayout(**fields)
    except KtirError as error:
        raise parser.error_at(start, str(error)) from error


def to_device_bytes(
    array: npt.NDArray[Any], layout: Layout, f16_format: F16Format = F16Format.IEEE
) -> npt.NDArray[np.uint8]:
    """The device bytes of a host array: `layout.device_bytes` of them, padding zero.

    The array's dtype must be the format of the layout's element type or convert to it as
    `ktir.dtypes.encode_array` says. :class:`LayoutError` if the shape differs.
    """
    import numpy as np

    if array.shape != layout.shape:
        raise LayoutError(f"an array of shape {array.shape} does not fit a layout of shape {layout.shape}")
    stored = encode_array(array, layout.element, f16_format)
    if isinstance(layout, LinearLayout):
        return np.ascontiguousarray(stored).reshape(-1).view(np.uint8).copy()
    device = np.zeros(layout.device_bytes // layout.item_bytes, dtype=stored.dtype)
    device[layout.element_offsets()] = stored
    return device.view(np.uint8)


def from_device_bytes(
    data: npt.NDArray[np.uint8],
    layout: Layout,
    dtype: npt.DTypeLike | None = None,
    f16_format: F16Format = F16Format.IEEE,
) -> npt.NDArray[Any]:
    """The host array of shape `layout.shape` in device bytes; `dtype` as in `ktir.dtypes.decode_array`.

    :class:`LayoutError` unless there are exactly `layout.device_bytes` bytes.
    """
    import numpy as np

    if data.dtype != np.uint8 or data.ndim != 1 or len(data) != layout.device_bytes:
        raise LayoutError(
            f"expected {layout.device_bytes} bytes for {layout}, got {data.dtype} array {data.shape}"
        )
    device = np.ascontiguousarray(data).view(storage_dtype(layout.element))
    stored = (
        device.reshape(layout.shape) if isinstance(layout, LinearLayout) else device[layout.element_offsets()]
    )
    return decode_array(stored, layout.element, dtype, f16_format)
