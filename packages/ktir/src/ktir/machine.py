"""The facts about a machine that the meaning of a KTIR program depends on (KTIR spec 4.1, 4.3, 5.1)."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping, Sequence

import attrs

from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.errors import KtirError

__all__ = ["AddressUnit", "F16Format", "GridOrder", "Machine", "MachineError"]


class MachineError(KtirError):
    """A machine description is not usable; `field` names the offending entry (empty: the whole)."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class F16Format(enum.StrEnum):
    """What the bits of an ``f16`` element mean."""

    IEEE = "ieee"
    DLFLOAT = "dlfloat"


class GridOrder(enum.StrEnum):
    """Which grid dimension varies fastest in the flat tile number."""

    FIRST_FASTEST = "first_fastest"
    LAST_FASTEST = "last_fastest"


class AddressUnit(enum.StrEnum):
    """The unit of a memory view's offset: elements of the view, or bytes."""

    ELEMENT = "element"
    BYTE = "byte"


def _positive(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise MachineError(
            f"machine field '{attribute.name}' must be a positive integer, not {value!r}", attribute.name
        )


_DEFAULT_RESERVED = 471_808


@attrs.frozen
class Machine:
    """A grid of compute tiles with one scratchpad each and a shared device memory.

    `scratchpad_reserved_bytes` limits what a front end may pin: ``scratchpad_bytes`` minus it. The three
    switches may be overridden by a module (`for_module`).

    >>> Machine().pinnable_bytes
    1625344
    >>> Machine().flat_tile((1, 2), grid=(4, 8))
    9
    """

    tiles: int = attrs.field(default=32, validator=_positive)
    scratchpad_bytes: int = attrs.field(default=2 << 20, validator=_positive)
    scratchpad_reserved_bytes: int = attrs.field(default=_DEFAULT_RESERVED)
    stick_bytes: int = attrs.field(default=128, validator=_positive)
    device_memory_bytes: int = attrs.field(default=128 << 30, validator=_positive)
    first_address: int = attrs.field(default=0x10000)
    f16_format: F16Format = attrs.field(default=F16Format.IEEE, converter=F16Format)
    grid_order: GridOrder = attrs.field(default=GridOrder.FIRST_FASTEST, converter=GridOrder)
    address_unit: AddressUnit = attrs.field(default=AddressUnit.ELEMENT, converter=AddressUnit)
    cost_profile: str = "sim"

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.scratchpad_reserved_bytes <= self.scratchpad_bytes:
            raise MachineError(
                f"machine reserves {self.scratchpad_reserved_bytes} of {self.scratchpad_bytes} "
                "scratchpad bytes",
                "scratchpad_reserved_bytes",
            )
        if self.first_address < 0 or self.first_address % self.stick_bytes:
            raise MachineError(
                f"the first address must be a multiple of {self.stick_bytes} bytes, not {self.first_address}",
                "first_address",
            )

    @property
    def pinnable_bytes(self) -> int:
        """Scratchpad bytes that a front end may pin."""
        return self.scratchpad_bytes - self.scratchpad_reserved_bytes

    # -- grids

    def flat_tile(self, coordinates: Sequence[int], grid: Sequence[int]) -> int:
        """The flat number of the tile at `coordinates`; IndexError outside the grid."""
        if len(coordinates) != len(grid) or any(
            not 0 <= c < n for c, n in zip(coordinates, grid, strict=True)
        ):
            raise IndexError(f"tile {tuple(coordinates)} is not in the grid {tuple(grid)}")
        pairs = list(zip(coordinates, grid, strict=True))
        if self.grid_order is GridOrder.FIRST_FASTEST:
            pairs.reverse()
        flat = 0
        for coordinate, extent in pairs:
            flat = flat * extent + coordinate
        return flat

    def tile_coordinates(self, flat: int, grid: Sequence[int]) -> tuple[int, ...]:
        """The coordinates of the tile with a flat number; IndexError outside the grid."""
        if not 0 <= flat < math.prod(grid):
            raise IndexError(f"tile {flat} is not in the grid {tuple(grid)}")
        order = list(range(len(grid)))
        if self.grid_order is GridOrder.LAST_FASTEST:
            order.reverse()
        result = [0] * len(grid)
        for axis in order:
            flat, result[axis] = divmod(flat, grid[axis])
        return tuple(result)

    # -- modules

    def for_module(self, attributes: Mapping[str, Attribute]) -> Machine:
        """This machine with the switches that a module sets.

        They are ``ktdp.address_unit``, ``ktdp.grid_order`` and ``ktdp.f16_format``, strings.
        :class:`MachineError` for a value that does not exist.
        """
        changes: dict[str, str] = {}
        for name, values in (
            ("address_unit", AddressUnit),
            ("grid_order", GridOrder),
            ("f16_format", F16Format),
        ):
            attribute = attributes.get(f"ktdp.{name}")
            if attribute is None:
                continue
            allowed = [str(v) for v in values]
            if not isinstance(attribute, StringAttr) or attribute.value not in allowed:
                quoted = " or ".join(f'"{v}"' for v in allowed)
                raise MachineError(f"module attribute 'ktdp.{name}' must be {quoted}, not {attribute}", name)
            changes[name] = attribute.value
        return attrs.evolve(self, **changes)  # type: ignore[arg-type]  # converters take the strings

    # -- JSON

    def to_json(self) -> dict[str, int | str]:
        """A JSON object with every field."""
        return {name: str(v) if isinstance(v, str) else v for name, v in attrs.asdict(self).items()}

    @classmethod
    def from_json(cls, document: Mapping[str, object] | str) -> Machine:
        """Read the JSON form (an object or its text); absent fields take their defaults.

        :class:`MachineError` names an unknown field or a value of the wrong kind.
        """
        if isinstance(document, str):
            try:
                document = json.loads(document)
            except json.JSONDecodeError as error:
                raise MachineError(f"machine description is not JSON: {error}") from error
        if not isinstance(document, Mapping):
            raise MachineError("machine description must be a JSON object")
        fields = attrs.fields_dict(cls)
        values: dict[str, int | str] = {}
        for name, value in document.items():
            if name not in fields:
                raise MachineError(f"machine description has no field '{name}'", str(name))
            wanted = int if isinstance(fields[name].default, int) else str
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise MachineError(f"machine field '{name}' must be {_WORDS[wanted]}, not {value!r}", name)
            values[name] = value
        try:
            return cls(**values)  # type: ignore[arg-type]  # converters take the strings
        except ValueError as error:
            raise MachineError(str(error)) from error


_WORDS: dict[type, str] = {int: "an integer", str: "a string"}
