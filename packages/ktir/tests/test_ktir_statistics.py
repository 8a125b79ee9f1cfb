"""Statistics of a program: traffic against a walk that follows every loop, and the rules for ranges."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktir
from ktir.statistics import Count, ModuleStatistics, statistics, to_json

EXAMPLES = Path(__file__).parents[1] / "examples"
PROLOGUE = """
#all = affine_set<(i) : (i >= 0, 63 - i >= 0)>
#part = affine_set<(i) : (i >= 0, 7 - i >= 0)>
#id = affine_map<(i) -> (i)>
func.func @k(%p: index, %q: index, %n: index, %c: i1) attributes {grid = [4]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c10 = arith.constant 10 : index
  %g = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64xf16>
  %l = ktdp.construct_memory_view %q, sizes: [64], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<64xf32>
  %gt = ktdp.construct_access_tile %g[%c0] {access_tile_order = #id, access_tile_set = #part} : memref<64xf16> -> !ktdp.access_tile<8xindex>
  %lt = ktdp.construct_access_tile %l[%c0] {access_tile_order = #id, access_tile_set = #part} : memref<64xf32> -> !ktdp.access_tile<8xindex>
"""
LOAD = "%{0} = ktdp.load %gt : <8xindex> -> tensor<8xf16>\n"
LOCAL = "%{0} = ktdp.load %lt : <8xindex> -> tensor<8xf32>\n"


def counted(body: str, after: str = "") -> ModuleStatistics:
    module = ktir.parse(PROLOGUE + body + "return\n}\n" + after)
    ktir.verify(module)
    return statistics(module)


def loaded(body: str, after: str = "") -> dict[str, str]:
    """Bytes loaded by the first function, by memory space, as text."""
    return {space: str(count) for space, count in counted(body, after).functions[0].traffic.loaded.items()}


def test_a_loop_with_constant_bounds_counts_exactly() -> None:
    body = (
        "scf.for %i = %c1 to %c10 step %c2 {\n"
        + LOAD.format("x")
        + LOCAL.format("y")
        + "}\n"
        + LOAD.format("z")
    )
    assert loaded(body) == {"global": "96", "ct_local": "160"}  # 5 iterations


def test_stores_are_counted_by_themselves() -> None:
    traffic = (
        counted(LOAD.format("x") + "ktdp.store %x, %gt : tensor<8xf16>, <8xindex>\n").functions[0].traffic
    )
    assert traffic.loaded == {"global": Count(16, 16)}
    assert traffic.stored == {"global": Count(16, 16)}


def test_a_loop_with_computed_bounds_has_no_upper_bound() -> None:
    assert loaded("scf.for %i = %c0 to %n step %c1 {\n" + LOAD.format("x") + "}\n") == {"global": "0 or more"}
    assert loaded("scf.for %i = %c0 to %n step %c1 {\n}\n" + LOAD.format("x")) == {"global": "16"}
    assert loaded("scf.for %i = %c3 to %c3 step %c1 {\n" + LOAD.format("x") + "}\n") == {"global": "0"}


def test_branches_give_a_range() -> None:
    one = "scf.if %c {\n" + LOAD.format("x") + "}\n"
    both = "scf.if %c {\n" + LOAD.format("x") + "} else {\n" + LOAD.format("y") + LOAD.format("z") + "}\n"
    assert loaded(one) == {"global": "0 to 16"}
    assert loaded(both) == {"global": "16 to 32"}
    assert loaded(both + "scf.if %c {\n" + LOCAL.format("s") + "} else {\n" + LOCAL.format("m") + "}\n") == {
        "ct_local": "32",
        "global": "16 to 32",
    }


def test_a_while_runs_its_condition_at_least_once() -> None:
    body = (
        "scf.while : () -> () {\n"
        + LOAD.format("x")
        + "scf.condition(%c)\n} do {\n"
        + LOCAL.format("y")
        + "scf.yield\n}\n"
    )
    assert loaded(body) == {"global": "16 or more", "ct_local": "0 or more"}


def test_calls_are_followed_and_recursion_is_any_number() -> None:
    callee = "func.func private @g(%a: memref<4xf32>, %i: index) { %v = memref.load %a[%i] : memref<4xf32> return }\n"
    body = (
        "%m = memref.alloc() : memref<4xf32>\n"
        "scf.for %i = %c0 to %c3 step %c1 { func.call @g(%m, %i) : (memref<4xf32>, index) -> () }\n"
    )
    assert loaded(body, callee) == {"unknown": "12"}
    looping = callee.replace("return", "func.call @g(%a, %i) : (memref<4xf32>, index) -> ()\nreturn")
    assert loaded(body, looping) == {"unknown": "12 or more"}
    assert loaded("func.call @d() : () -> ()\n", "func.func private @d()") == {}


def test_blocks_of_a_branching_body() -> None:
    text = """
    func.func @f(%m: memref<4xi8, "L1">, %i: index, %c: i1) {
      %a = memref.load %m[%i] : memref<4xi8, "L1">
      cf.cond_br %c, ^one, ^two
    ^one:
      %b = memref.load %m[%i] : memref<4xi8, "L1">
      cf.br ^two
    ^two:
      memref.copy %m, %m : memref<4xi8, "L1"> to memref<4xi8, "L1">
      return
    }
    """
    (function,) = statistics(ktir.parse(text)).functions
    assert function.traffic.loaded == {"L1": Count(1, None)}
    assert function.traffic.stored == {"L1": Count(0, None)}
    assert function.grid is None


@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9), st.integers(1, 4)), max_size=3))
def test_nested_loops_against_counting_them_out(nest: list[tuple[int, int, int]]) -> None:
    constants, opening = "", ""
    for number, bounds in enumerate(nest):
        for name, value in zip("lus", bounds, strict=True):
            constants += f"%{name}{number} = arith.constant {value} : index\n"
        opening += f"scf.for %v{number} = %l{number} to %u{number} step %s{number} {{\n"
    trips = len(list(product(*(range(*bounds) for bounds in nest))))
    assert math.prod(len(range(*bounds)) for bounds in nest) == trips
    found = loaded(constants + opening + LOAD.format("x") + "}\n" * len(nest))
    assert found == {"global": f"{16 * trips:,}"}


def test_example_kernels_move_what_their_shapes_say() -> None:
    def of(name: str) -> tuple[int, dict[str, Count], dict[str, Count]]:
        module = ktir.load(EXAMPLES / f"{name}.mlir")
        (function,) = statistics(module).functions
        return math.prod(function.grid or ()), dict(function.traffic.loaded), dict(function.traffic.stored)

    # Every element of x is loaded once, every one of y stored once: (10, 96, 64) of f16, 32 tiles.
    tiles, loads, stores = of("softmax")
    assert tiles * loads["global"].low == tiles * stores["global"].low == 10 * 96 * 64 * 2
    # A page table row per tile: 96 i32 indices (one per token) and 2 x 96 x 64 of f16.
    tiles, loads, stores = of("paged_read")
    assert loads == {"global": Count(96 * 4 + 2 * 96 * 64 * 2, 96 * 4 + 2 * 96 * 64 * 2)}
    assert stores == {"global": Count(2 * 96 * 64 * 2, 2 * 96 * 64 * 2)}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_operations_add_up(path: Path) -> None:
    module = ktir.load(path)
    found = statistics(module)
    assert sum(found.operations.values()) == len(list(module.walk()))
    inside = sum(sum(function.operations.values()) for function in found.functions)
    assert inside + len(found.functions) + 1 == len(list(module.walk()))  # the functions and the module
    assert list(found.operations) == sorted(found.operations)
    document = to_json(found)
    assert [f["name"] for f in document["functions"]] == [f.name for f in found.functions]
