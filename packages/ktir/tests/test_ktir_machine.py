"""`Machine`: grid numbering, module switches, JSON (KTIR spec 4.1, 4.3, 5.1)."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir.attributes import IntegerAttr, StringAttr
from ktir.machine import AddressUnit, F16Format, GridOrder, Machine, MachineError


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from(GridOrder))
def test_flat_numbers_are_a_bijection(grid: list[int], order: GridOrder) -> None:
    machine = Machine(grid_order=order)
    flats = [machine.flat_tile(c, grid) for c in itertools.product(*map(range, grid))]
    assert sorted(flats) == list(range(math.prod(grid)))
    for flat in range(math.prod(grid)):
        assert machine.flat_tile(machine.tile_coordinates(flat, grid), grid) == flat


def test_order_of_flat_numbers() -> None:
    """Spec 5.1: flat = x0 + n0 * (x1 + n1 * x2), or the other way round."""
    assert Machine().flat_tile((1, 2, 1), (2, 3, 4)) == 1 + 2 * (2 + 3 * 1)
    assert Machine(grid_order="last_fastest").flat_tile((1, 2, 1), (2, 3, 4)) == (1 * 3 + 2) * 4 + 1
    for bad in [(2, 0), (-1, 0), (0,)]:
        with pytest.raises(IndexError, match="is not in the grid"):
            Machine().flat_tile(bad, (2, 3))
    with pytest.raises(IndexError, match="tile 6 is not in the grid"):
        Machine().tile_coordinates(6, (2, 3))


def test_reserve() -> None:
    assert Machine().pinnable_bytes == 1_625_344
    assert Machine(scratchpad_bytes=1 << 20, scratchpad_reserved_bytes=0).pinnable_bytes == 1 << 20


def test_module_switches() -> None:
    attributes = {
        "ktdp.address_unit": StringAttr("byte"),
        "ktdp.grid_order": StringAttr("last_fastest"),
        "ktdp.f16_format": StringAttr("dlfloat"),
    }
    machine = Machine(tiles=4).for_module(attributes)
    assert (machine.tiles, machine.address_unit, machine.grid_order, machine.f16_format) == (
        4,
        AddressUnit.BYTE,
        GridOrder.LAST_FASTEST,
        F16Format.DLFLOAT,
    )
    assert Machine().for_module({}) == Machine()


@pytest.mark.parametrize("value", [StringAttr("stick"), IntegerAttr(1)])
def test_bad_module_switch(value: StringAttr | IntegerAttr) -> None:
    with pytest.raises(MachineError, match=r"'ktdp.address_unit' must be \"element\" or \"byte\"") as caught:
        Machine().for_module({"ktdp.address_unit": value})
    assert caught.value.field == "address_unit"


@given(
    st.builds(
        Machine,
        tiles=st.integers(1, 64),
        scratchpad_bytes=st.integers(1 << 20, 1 << 22),
        f16_format=st.sampled_from(F16Format),
        grid_order=st.sampled_from(GridOrder),
        address_unit=st.sampled_from(AddressUnit),
        cost_profile=st.text(max_size=8),
    )
)
def test_json_round_trip(machine: Machine) -> None:
    text = json.dumps(machine.to_json())
    assert Machine.from_json(text) == machine
    assert Machine.from_json(json.loads(text)) == machine
    assert type(machine.to_json()["f16_format"]) is str


@pytest.mark.parametrize(
    ("text", "message", "field"),
    [
        ('{"tiles": 0}', "'tiles' must be a positive integer, not 0", "tiles"),
        ('{"tiles": "4"}', "'tiles' must be an integer, not '4'", "tiles"),
        ('{"tiles": true}', "'tiles' must be an integer, not True", "tiles"),
        ('{"cores": 4}', "has no field 'cores'", "cores"),
        ('{"grid_order": "fast"}', "'fast' is not a valid GridOrder", ""),
        ('{"first_address": 100}', "must be a multiple of 128", "first_address"),
        ('{"scratchpad_bytes": 10}', "reserves 471808 of 10", "scratchpad_reserved_bytes"),
        ("[]", "must be a JSON object", ""),
        ("{", "is not JSON", ""),
    ],
)
def test_bad_json(text: str, message: str, field: str) -> None:
    with pytest.raises(MachineError, match=message) as caught:
        Machine.from_json(text)
    assert caught.value.field == field
