"""The passes from fusion to the grid, one by one: text in, text out, on two devices (scheduler spec 3.4 - 3.21)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from schedule_oracle import elementwise

import dfsched
import ktir
from dfsched.passes import (
    address_assignment,
    canonicalize,
    fuse_linalg,
    generalize_linalg,
    loop_invariant_code_motion,
    normalize_grid_to_1d,
    normalize_scf_for_loops,
    path_expansion,
    scalar_broadcast_legalization,
    select_plan,
)
from dfsched.passes.base import PassContext
from dfsched.pipeline import run_pipeline, select_passes
from dfsched.plan import NestPlan, Plan, ProgramFacts
from dfsched.vector_tiling import reference_tile, splats, vector_boxes

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", QUAD]
NAMES = {
    "sample": {"memory": "DDR", "compute": "SFU", "lanes": 64},
    QUAD: {"memory": "DRAM", "compute": "VPU", "lanes": 16},
}

UNITS = ["DIN", "FILL", "FETCH", "VPU", "PUT", "DRAIN", "DOUT"]

BLEND = """
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 511 >= 0)>
#blk = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 255 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @blend() attributes {grid = [4, 2]} {
  %c8 = arith.constant 8 : index
  %c256 = arith.constant 256 : index
  %pa = arith.constant 0 : index
  %qa = arith.constant 32768 : index
  %ra = arith.constant 65536 : index
  %g:2 = ktdp.get_compute_tile_id : index, index
  %r0 = arith.muli %g#0, %c8 : index
  %k0 = arith.muli %g#1, %c256 : index
VIEWS
  %p = ktdp.load %pt : <8x256xindex> -> tensor<8x256xf16>
  %q = ktdp.load %qt : <8x256xindex> -> tensor<8x256xf16>
  %e = tensor.empty() : tensor<8x256xf16>
  %m = linalg.mul ins(%p, %q : tensor<8x256xf16>, tensor<8x256xf16>) outs(%e : tensor<8x256xf16>) -> tensor<8x256xf16>
  ktdp.store %m, %rt : tensor<8x256xf16>, <8x256xindex>
  return
}
""".replace(
    "VIEWS",
    "\n".join(
        f"  %{n}v = ktdp.construct_memory_view %{n}a, sizes: [32, 512], strides: [512, 1] {{coordinate_set = #all, "
        f"memory_space = #ktdp.memory_space<global>}} : memref<32x512xf16>\n"
        f"  %{n}t = ktdp.construct_access_tile %{n}v[%r0, %k0] {{access_tile_set = #blk, access_tile_order = #id}} "
        ": memref<32x512xf16> -> !ktdp.access_tile<8x256xindex>"
        for n in "pqr"
    ),
)


def context(device: str = "sample", **options: object) -> PassContext:
    return PassContext(dfsched.load_architecture(device), dfsched.Options(**options))


def after(name: str, device: str, text: str = BLEND, **options: object) -> str:
    """The module after the first pass of a name, without value names that only count."""
    compiled = dfsched.compile(ktir.parse(text), device, dfsched.Options(emit="schedule", **options))
    return ktir.print_module(next(r.module for r in compiled.passes if r.name == name))


def picked(text: str, *needles: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if any(needle in line for needle in needles)]


def plain(lines: list[str]) -> list[str]:
    """Lines without the numbers that tell equal value names apart."""
    return [re.sub(r"%\d+#", "%v#", re.sub(r"(%[a-z]\w*?)_\d+\b", r"\1", line)) for line in lines]


# -- fusion and vectors


@pytest.mark.parametrize(
    ("extents", "tile"),
    [
        ([8, 256], (1, 64)), ([5, 96], (1, 32)), ([12, 16], (4, 16)), ([7, 24], (1, 8)), ([6, 5], (2, 1)),
        ([2, 3, 128], (1, 1, 64)), ([128], (64,)),
    ],
)  # fmt: skip
def test_reference_tiles(extents: list[int], tile: tuple[int, ...]) -> None:
    """Checklist T1 (the rule of the v1 profile)."""
    assert reference_tile(extents, 64) == tile


@pytest.mark.parametrize(
    "extents", [(8, 256), (5, 96), (7, 24), (3, 200), (4, 4, 8), (1,), (130,), (2, 3, 1)]
)
def test_vector_boxes_partition_the_space(extents: tuple[int, ...]) -> None:
    """Every point is in exactly one tile of one box, and no vector is wider than the lanes."""
    for lanes in (16, 64):
        seen: dict[tuple[int, ...], int] = {}
        for box in vector_boxes(extents, lanes, [tuple(range(len(extents)))]):
            assert box.lanes <= lanes
            assert all(extent % tile == 0 for extent, tile in zip(box.extents, box.tile, strict=True))
            points = [()]
            for low, extent in zip(box.offsets, box.extents, strict=True):
                points = [(*p, i) for p in points for i in range(low, low + extent)]
            for point in points:
                seen[point] = seen.get(point, 0) + 1
        assert set(seen.values()) == {1}
        assert len(seen) == math.prod(extents)


def test_splats_allow_only_repeating_operands() -> None:
    """A tile grows over a dimension only if every operand repeats in its lanes."""
    assert splats((4, 4, 4), (1, 2))
    assert not splats((4, 4, 4), (0, 2))
    assert [b.tile for b in vector_boxes((8, 8), 64, [(0, 1), (1,)])] == [(8, 8)]
    assert [b.tile for b in vector_boxes((8, 8), 64, [(0, 1), (0,)])] == [(1, 8)]


CHAIN = """
func.func @f(%x: tensor<4x64xf16>, %y: tensor<4x64xf16>, %t: !ktdp.access_tile<4x64xindex>) {
  %p = arith.mulf %x, %y : tensor<4x64xf16>
  %q = arith.addf %p, %p : tensor<4x64xf16>
  %k = arith.constant dense<1.0> : tensor<4x64xf16>
  %r = linalg.max ins(%q, %k : tensor<4x64xf16>, tensor<4x64xf16>) outs(%k : tensor<4x64xf16>) -> tensor<4x64xf16>
  ktdp.store %r, %t : tensor<4x64xf16>, <4x64xindex>
  return
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_everything_becomes_generic(device: str) -> None:
    """Scheduler spec 3.4 step 1; checklist T6: outs are fresh tensors."""
    module = generalize_linalg.run(ktir.parse(CHAIN), context(device))
    ktir.verify(module)
    text = ktir.print_module(module)
    assert text.count("linalg.generic") == 3
    assert text.count("tensor.empty") == 2
    assert "linalg.max" not in text
    assert generalize_linalg.run(module, context(device)) is module


@pytest.mark.parametrize("device", DEVICES)
def test_a_chain_fuses_into_one_generic(device: str) -> None:
    """Checklist T5, T7, T8: a diamond is computed once, constants enter the body (text in, text out)."""
    module = fuse_linalg.run(generalize_linalg.run(ktir.parse(CHAIN), context(device)), context(device))
    ktir.verify(module)
    assert (
        ktir.print_module(module)
        == """\
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @f(%x: tensor<4x64xf16>, %y: tensor<4x64xf16>, %t: !ktdp.access_tile<4x64xindex>) {
    %0 = tensor.empty() : tensor<4x64xf16>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} \
ins(%x, %y : tensor<4x64xf16>, tensor<4x64xf16>) outs(%0 : tensor<4x64xf16>) {
    ^bb0(%in: f16, %in_0: f16, %out: f16):
      %2 = arith.mulf %in, %in_0 : f16
      %3 = arith.addf %2, %2 : f16
      %cst = arith.constant 1.000000e+00 : f16
      %4 = arith.maximumf %3, %cst : f16
      linalg.yield %4 : f16
    } -> tensor<4x64xf16>
    ktdp.store %1, %t : tensor<4x64xf16>, <4x64xindex>
    return
  }
}
"""
    )


def test_what_does_not_fuse_is_located() -> None:
    """Reading undefined values is an error at its place; a run-time scalar is taken in from outside."""
    empty = CHAIN.replace("%k = arith.constant dense<1.0>", "%k = tensor.empty()")
    with pytest.raises(dfsched.ScheduleError, match=r"reads the contents of a 'tensor\.empty'"):
        fuse_linalg.run(generalize_linalg.run(ktir.parse(empty), context()), context())
    scalar = CHAIN.replace("%k = arith.constant dense<1.0>", "%k = tensor.splat %s").replace(
        "%x: tensor", "%s: f16, %x: tensor", 1
    )
    fused = fuse_linalg.run(generalize_linalg.run(ktir.parse(scalar), context()), context())
    text = ktir.print_module(fused)
    assert "tensor.splat" not in text
    assert ", %s : f16" in text


@pytest.mark.parametrize("device", DEVICES)
def test_three_stages(device: str) -> None:
    """Checklist T2, T3, T9, T10, T11, T12 (text in, text out)."""
    text = after("construct-three-stage-pipeline", device)
    memory, compute, lanes = (NAMES[device][key] for key in ("memory", "compute", "lanes"))
    assert plain(picked(text, "scf.for", "ktdf.stage", "data_transfer")) == [
        "scf.for %arg0 = %c0 to %c8 step %c1 {",
        f"scf.for %arg1 = %c0 to %c256 step %c{lanes} {{",
        "ktdf.stage depends_in(none) depends_out(%v#3) {",
        f"ktdf.data_transfer from %reinterpret_cast[%arg0, %arg1] size [1, {lanes}] to %v#0 size [1, {lanes}] : "
        f'memref<8x256xf16, strided<[512, 1], offset: ?>, "{memory}">, '
        f'!ktdf.fifo.slot<"{memory}" -> "{compute}", {lanes}xf16>',
        f"ktdf.data_transfer from %reinterpret_cast[%arg0, %arg1] size [1, {lanes}] to %v#1 size [1, {lanes}] : "
        f'memref<8x256xf16, strided<[512, 1], offset: ?>, "{memory}">, '
        f'!ktdf.fifo.slot<"{memory}" -> "{compute}", {lanes}xf16>',
        "ktdf.stage depends_in(%v#3) depends_out(%v#4) {",
        "ktdf.stage depends_in(%v#4) depends_out(%v#5) {",
        f"ktdf.data_transfer from %v#2 size [1, {lanes}] to %reinterpret_cast[%arg0, %arg1] size [1, {lanes}] : "
        f'!ktdf.fifo.slot<"{compute}" -> "{memory}", {lanes}xf16>, '
        f'memref<8x256xf16, strided<[512, 1], offset: ?>, "{memory}">',
    ]  # fmt: skip
    assert picked(text, "applicable_units") == [f'}} {{applicable_units = ["{compute}"]}}']
    assert text.count("loop_type = #ktdf.loop_type<parallel_loop>") == 2
    assert text.count("ktdf.fifo.allocate") == 2
    assert text.count("ktdf.create_token") == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ktdf_arch.transfer_granularity = array<i64: 64, 2>,", "", "has no transfer granularity"),
        ("#VECTOR %sfu to %l1su", "#OTHER %sfu to %l1su", "into and out of SFU differ: 64 and 32"),
        ("#VECTOR %sfu to %l1su", "#WORD %sfu to %l1su", "the outgoing link of SFU is no ordered queue"),
        ("      datapath #VECTOR %sfu to %l1su : exec_unit, exec_unit\n", "", "SFU has no outgoing link"),
    ],
)
def test_links_of_the_compute_unit(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Checklist T13: what the compute unit's links must be is a located error."""
    text = (Path(dfsched.__file__).parent / "devices" / "sample.mlir").read_text()
    assert old in text
    vector = text[text.index("#VECTOR = {") :]
    vector = vector[: vector.index("\n}\n") + 3]
    other = vector.replace("#VECTOR", "#OTHER").replace("64, 2", "32, 2")
    device = tmp_path / "device.mlir"
    device.write_text(text.replace(vector, vector + other).replace(old, new))
    with pytest.raises(dfsched.ScheduleError, match=message) as caught:
        dfsched.compile(ktir.parse(BLEND), str(device), dfsched.Options(emit="schedule"))
    assert caught.value.diagnostics[0].location is not None


def test_v1_tiles_are_not_peeled() -> None:
    """Checklist T1 under the v1 profile: 96 columns are vectors of 32."""
    text = BLEND.replace("8x256", "8x96").replace("-d1 + 255", "-d1 + 95")
    v1 = after("construct-three-stage-pipeline", "sample", text, profile="v1")
    assert v1.count("ktdf.pipeline") == 1
    assert "size [1, 32]" in v1
    assert after("construct-three-stage-pipeline", "sample", text).count("ktdf.pipeline") == 2


# -- plan


@pytest.mark.parametrize("device", DEVICES)
def test_plan_stands_on_the_program(device: str) -> None:
    """The policy is asked once per program; the plan round-trips as attribute and as JSON."""
    seen: list[ProgramFacts] = []

    def policy(facts: ProgramFacts, architecture: dfsched.Architecture) -> Plan:
        seen.append(facts)
        return dfsched.Options().policy(facts, architecture)

    module = ktir.parse(BLEND)
    compiled = dfsched.compile(module, device, dfsched.Options(emit="schedule", policy=policy))
    (facts,) = seen
    lanes = int(NAMES[device]["lanes"])
    assert facts.nests[0].trips == (8, 256 // lanes)
    assert [operand.is_store for operand in facts.nests[0].operands] == [False, False, True]
    assert facts.nests[0].operands[0].dims == (0, 1)
    assert facts.nests[0].operations == 1
    assert facts.scratchpad_bytes == compiled.architecture.scratchpad.size
    (plan,) = compiled.plans
    (nest,) = plan.nests
    assert (nest.loop_order, nest.buffer_depths) == ((0, 1), (2, 2, 2))
    assert nest.sunk_loops == sum(size > 1 for size in nest.tile_sizes)
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_attribute(plan.to_attribute()) == plan


def test_plans_that_cannot_be_carried_out() -> None:
    """A pinned decision that does not fit the nest says so; unknown fields are refused."""
    module = ktir.parse(BLEND)
    for pins, message in (
        ({"hoisted": (2,)}, r"'hoisted' must name loads of the nest, \[0, 1\], not \(2,\)"),
        ({"accumulator": "L1"}, "must name the memory beside the compute unit, SFU_REG, not L1"),
        ({"colour": 1}, "a plan has no field 'colour'"),
        ({"local_schedule_0[0].colour": 1}, "a plan has no field 'colour'"),
        ({"tile_sizes": (2, 2, 2)}, "'tile_sizes' has 3 entries, but the nest has 2"),
        ({"tile_sizes": (0, 2)}, "'tile_sizes' must hold positive numbers"),
        ({"tile_sizes": "large"}, "'tile_sizes' must hold positive numbers"),
        ({"buffer_depths": (2,)}, "'buffer_depths' has 1 entries, but the nest has 3"),
        ({"loop_order": (0, 0)}, r"'loop_order' must order the loops 0 to 1, not \[0, 0\]"),
        ({"sunk_loops": 3}, "'sunk_loops' is 3"),
        ({"instances": 0}, "spreads loop"),
        (
            {"tile_sizes": (4, 4), "instances": 7, "instance_loop": 0},
            "over 7 instances, but the device has 2",
        ),
    ):
        with pytest.raises(dfsched.ScheduleError, match=message):
            dfsched.compile(module, "sample", dfsched.Options(emit="schedule", pins=pins))
    with pytest.raises(ValueError, match="not a plan"):
        Plan.from_json("{}")
    assert select_plan.plans_of(module) == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sunk_loops = ", "sunk = ", "not a plan"),
        ("sunk_loops = ", "sunk_loops = 9", r"9\d sunk loops of 2"),
        ("compute_unit = ", "unit = ", "not a plan: 'compute_unit'"),
        ('compute_unit = "SFU"', "compute_unit = 1", "must be names"),
        ("buffer_depths = [2, 2, 2]", "buffer_depths = 2", "something else: buffer_depths"),
        ("buffer_depths = [2, 2, 2]", "buffer_depths = [2]", "'ktdf.operand' is 2 in this pipeline"),
        ("buffer_depths = [2, 2, 2]", "buffer_depths = [2, -2, 2]", "must be positive"),
        ("loop_order = [0, 1]", "loop_order = [1, 1]", r"loop_order \[1, 1\] does not order 2 loops"),
        ("instance_loop = ", "instance_loop = 1", "instance_loop 1. of 2 loops"),
        ("hoisted = []", "hoisted = [7]", r"hoisted \[7\] of 3 operands"),
        ("parts = []", "parts = [7]", "1 parts, but 0 sizes of parts"),
        ("nests = [", "nests = [[], ", "not a plan"),
        ("ktdf.nest = 0", "ktdf.nest = -1", "'ktdf.nest' is -1, but the plan of the function has 1 nests"),
        ("ktdf.loop = [0, 1]", "ktdf.loop = [1, 1]", "'ktdf.loop' is of nest 1"),
        (
            "ktdf.loop = [0, 1]",
            "ktdf.loop = [0, 4]",
            "'ktdf.loop' is loop 4, but nest 0 of the plan has 2 loops",
        ),
    ],
)
def test_plans_of_other_programs(old: str, new: str, message: str) -> None:
    """What is written as a plan is read with care: before any pass, with the place of the function."""
    options = dfsched.Options(stop_after="select-plan")
    text = ktir.print_module(dfsched.compile(ktir.parse(BLEND), "sample", options).passes[-1].module)
    assert old in text, text
    context = PassContext(dfsched.load_architecture("sample"))
    with pytest.raises(dfsched.ScheduleError, match=message) as caught:
        run_pipeline(
            ktir.parse(text.replace(old, new), file="plan.mlir"), context, select_passes(["canonicalize"])
        )
    assert all(str(d).startswith("plan.mlir:") for d in caught.value.diagnostics)


def test_pins() -> None:
    """Fields by hand: for all nests or one; what follows from tile sizes follows; sizes are clipped."""

    def compiled(**pins: object) -> tuple[NestPlan, dfsched.Compiled]:
        options = dfsched.Options(emit="schedule", pins=pins)
        made = dfsched.compile(ktir.parse(BLEND), "sample", options)
        return made.plans[0].nests[0], made

    nest, made = compiled(tile_sizes=(4, 100))
    assert (nest.tile_sizes, nest.sunk_loops, nest.instances, nest.limit) == ((4, 4), 2, 2, "pinned")
    assert any("clipped to its trips: [4, 4]" in str(remark) for remark in made.remarks)
    nest, _ = compiled(tile_sizes=1, buffer_depths=1)
    assert (nest.tile_sizes, nest.buffer_depths, nest.sunk_loops) == ((1, 1), (1, 1, 1), 0)
    nest, made = compiled(
        **{"local_schedule_0[0].tile_sizes": [2, 2], "local_schedule_7[0].tile_sizes": [3, 3]}
    )
    assert (nest.tile_sizes, nest.instance_loop, nest.instances) == ((2, 2), 0, 2)
    (remark,) = made.remarks
    assert "'local_schedule_7[0].tile_sizes' pins nothing; the nests are local_schedule_0[0]" in str(remark)
    nest, made = compiled(tile_sizes=(1, 1), buffer_depths=1_000_000)
    assert nest.buffer_depths == (32, 32, 32)
    assert any("buffer depths [1000000, 1000000, 1000000]" in str(remark) for remark in made.remarks)
    nest, made = compiled(tile_sizes=2, loop_order=(1, 0))
    assert [
        op.attributes["ktdf.loop"].elements[1].value
        for op in made.schedule_ir.walk()
        if "ktdf.loop" in op.attributes
    ][:2] == [1, 0]


def test_more_copies_than_the_scratchpad_holds() -> None:
    """Refused with the numbers, before thousands of buffers are placed."""
    text = BLEND
    for old, new in (
        ("grid = [4, 2]", "grid = [1, 1]"),
        ("-d0 + 31", "-d0 + 65535"),
        ("-d0 + 7", "-d0 + 65535"),
        ("[32, 512]", "[65536, 512]"),
        ("<32x512x", "<65536x512x"),
        ("<8x256x", "<65536x256x"),
        ("constant 65536", f"constant {1 << 27}"),
        ("constant 32768", f"constant {1 << 26}"),
    ):
        text = text.replace(old, new)
    module = ktir.parse(text)
    options = dfsched.Options(pins={"tile_sizes": (1, 1), "buffer_depths": 100_000})
    with pytest.raises(
        dfsched.ScheduleError,
        match=r"100000 copies of the buffer of operand 0 need [\d.]+ MiB of \w+, [\d.]+",
    ):
        dfsched.compile(module, "sample", options)


# -- routes

PIPELINE = """
func.func @f(%p: memref<8x256xf16, "DDR">, %r: memref<8x256xf16, "DDR">, %i: index) {
  ktdf.pipeline modulo(size : 2) {
    %v:5 = ktdf.private -> (!ktdf.fifo.slot<"DDR" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU" -> "DDR", 64xf16>, !ktdf.token, !ktdf.token, !ktdf.token) {
      %a = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"DDR" -> "SFU", 64xf16>
      %b = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"SFU" -> "DDR", 64xf16>
      %t = ktdf.create_token : !ktdf.token
      %u = ktdf.create_token : !ktdf.token
      %w = ktdf.create_token : !ktdf.token
      ktdf.private_yield %a, %b, %t, %u, %w : !ktdf.fifo.slot<"DDR" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU" -> "DDR", 64xf16>, !ktdf.token, !ktdf.token, !ktdf.token
    }
    ktdf.stage depends_in(none) depends_out(%v#2) {
      ktdf.data_transfer from %p[%i, 0] size [1, 64] to %v#0 size [1, 64] {note = 7 : i64, transfer_mode = "splat"} : memref<8x256xf16, "DDR">, !ktdf.fifo.slot<"DDR" -> "SFU", 64xf16>
    }
    ktdf.stage depends_in(%v#2) depends_out(%v#3) {
      %x = ktdf.read_from_fifo %v#0 : <"DDR" -> "SFU", 64xf16> -> tensor<1x64xf16>
      ktdf.write_to_fifo %x, %v#1 : tensor<1x64xf16>, <"SFU" -> "DDR", 64xf16>
    } {applicable_units = ["SFU"]}
    ktdf.stage depends_in(%v#3) depends_out(%v#4) {
      ktdf.data_transfer from %v#1 size [1, 64] to %r[%i, 0] size [1, 64] : !ktdf.fifo.slot<"SFU" -> "DDR", 64xf16>, memref<8x256xf16, "DDR">
    }
  }
  return
}
"""


def expanded(text: str, device: str = "sample") -> str:
    module = ktir.parse(text)
    ktir.verify(module)
    result = path_expansion.run(module, context(device))
    ktir.verify(result)
    return ktir.print_module(result)


def test_routes_of_the_sample_device() -> None:
    """Checklist X1, X2, X3, X4, X9 (text in, text out)."""
    text = expanded(PIPELINE)
    assert picked(text, "modulo", "ktdf.private ->", "ktdf.stage", "data_transfer", "units") == [
        "ktdf.pipeline modulo(size : 2) {",
        '%0:8 = ktdf.private -> (memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, '
        '!ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>, memref<1x64xf16, "L1">, !ktdf.token, !ktdf.token, '
        "!ktdf.token, !ktdf.token) {",
        "ktdf.stage depends_in(none) depends_out(%0#4) {",
        "ktdf.data_transfer from %p[%i, 0] size [1, 64] to %0#0[0, 0] size [1, 64] : "
        'memref<8x256xf16, "DDR">, memref<1x64xf16, "L1">',
        '} {applicable_units = ["MNILU"]}',
        "ktdf.stage depends_in(%0#4) depends_out(%0#5) {",
        "ktdf.data_transfer from %0#0[0, 0] size [1, 64] to %0#1 size [64] "
        '{note = 7 : i64, transfer_mode = "splat"} : memref<1x64xf16, "L1">, '
        '!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>',
        '} {applicable_units = ["L1LU"]}',
        "ktdf.stage depends_in(%0#5) depends_out(%0#6) {",
        '} {applicable_units = ["SFU"]}',
        "ktdf.stage depends_in(%0#6) depends_out(%0#7) {",
        'ktdf.data_transfer from %0#2 size [64] to %0#3[0, 0] size [1, 64] : '
        '!ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>, memref<1x64xf16, "L1">',
        '} {applicable_units = ["L1SU"]}',
        "ktdf.stage depends_in(%0#7) depends_out(none) {",
        "ktdf.data_transfer from %0#3[0, 0] size [1, 64] to %r[%i, 0] size [1, 64] : "
        'memref<1x64xf16, "L1">, memref<8x256xf16, "DDR">',
        '} {applicable_units = ["MNISU"]}',
    ]  # fmt: skip


def test_routes_over_three_memories() -> None:
    """Any number of memories on the way: two buffers a side on a device with DRAM, BANK and PAD."""
    text = expanded(PIPELINE.replace('"DDR"', '"DRAM"').replace('"SFU"', '"VPU"'), QUAD)
    assert [line.split('"')[1] for line in picked(text, "applicable_units")] == UNITS
    assert [line.split(" : ")[1] for line in picked(text, "memref.alloc")] == [
        f'memref<1x64xf16, "{memory}">' for memory in ("BANK", "PAD", "PAD", "BANK")
    ]


def test_expansion_is_idempotent_and_completes_partial_pipelines() -> None:
    """Checklist X5, X7, X8."""
    once = expanded(PIPELINE)
    assert expanded(once) == once
    local = expanded(PIPELINE.replace('"DDR"', '"L1"'))
    assert [line.split('"')[1] for line in picked(local, "applicable_units")] == ["L1LU", "SFU", "L1SU"]
    assert "memref.alloc" not in local
    half = PIPELINE.replace(
        '!ktdf.fifo.slot<"SFU" -> "DDR", 64xf16>', '!ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>'
    )
    half = half.replace('<"SFU" -> "DDR", 64xf16>', '<"SFU" -> "L1SU", 64xf16>')
    assert [line.split('"')[1] for line in picked(expanded(half), "applicable_units")] == [
        "MNILU", "L1LU", "SFU", "L1SU", "MNISU",
    ]  # fmt: skip


def test_pipelines_without_a_route() -> None:
    """Checklist X6: located errors."""
    for old, new, message in (
        ('"DDR"', '"TAPE"', "the device has no route from TAPE to SFU"),
        ("ktdf.data_transfer from %p", 'memref.dealloc %p : memref<8x256xf16, "DDR">\nktdf.data_transfer from %p',
         "a stage without units may hold only transfers"),
        ('["SFU"]', '["SFU", "L1LU"]', "a stage must name exactly one unit"),
    ):  # fmt: skip
        with pytest.raises(dfsched.ScheduleError, match=message) as caught:
            path_expansion.run(ktir.parse(PIPELINE.replace(old, new)), context())
        assert caught.value.diagnostics[0].location is not None


# -- broadcasts

SHORT = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#scalar = affine_map<(d0, d1) -> (d0, 0)>
func.func @f(%d: memref<8xWIDTHxf16, "DDR">, %i: index) {
  ktdf.pipeline {
    %v:6 = ktdf.private -> (memref<1x64xf16, "L1">, memref<1x1xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"L1LU" -> "SFU", 1xf16>, !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>, !ktdf.token) {
      %a = memref.alloc() : memref<1x64xf16, "L1">
      %b = memref.alloc() : memref<1x1xf16, "L1">
      %s:2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"L1LU" -> "SFU", 1xf16>
      %o = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>
      %t = ktdf.create_token : !ktdf.token
      ktdf.private_yield %a, %b, %s#0, %s#1, %o, %t : memref<1x64xf16, "L1">, memref<1x1xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"L1LU" -> "SFU", 1xf16>, !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>, !ktdf.token
    }
    ktdf.stage depends_in(none) depends_out(%v#5) {
      ktdf.data_transfer from %d[%i, 0] size [1, 1] to %v#1[0, 0] size [1, 1] : memref<8xWIDTHxf16, "DDR">, memref<1x1xf16, "L1">
EXTRA
    } {applicable_units = ["MNILU"]}
    ktdf.stage depends_in(%v#5) depends_out(none) {
      ktdf.data_transfer from %v#0[0, 0] size [1, 64] to %v#2 size [64] : memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>
      ktdf.data_transfer from %v#1[0, 0] size [1, 1] to %v#3 size [1] : memref<1x1xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 1xf16>
    } {applicable_units = ["L1LU"]}
    ktdf.stage depends_in(none) depends_out(none) {
      %x = ktdf.read_from_fifo %v#2 : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>
      %y = ktdf.read_from_fifo %v#3 : <"L1LU" -> "SFU", 1xf16> -> tensor<1x1xf16>
      %e = tensor.empty() : tensor<1x64xf16>
      %z = linalg.generic {indexing_maps = [#id, #scalar, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<1x64xf16>, tensor<1x1xf16>) outs(%e : tensor<1x64xf16>) {
      ^bb0(%p: f16, %q: f16, %r: f16):
        %m = arith.mulf %p, %q : f16
        linalg.yield %m : f16
      } -> tensor<1x64xf16>
      ktdf.write_to_fifo %z, %v#4 : tensor<1x64xf16>, <"SFU" -> "L1SU", 64xf16>
    } {applicable_units = ["SFU"]}
  }
  return
}
"""


def legalised(width: int, extra: str = "") -> tuple[str, PassContext]:
    module = ktir.parse(SHORT.replace("WIDTH", str(width)).replace("EXTRA", extra))
    ktir.verify(module)
    used = context()
    result = scalar_broadcast_legalization.run(module, used)
    ktir.verify(result)
    return ktir.print_module(result), used


def test_short_operands_are_replicated_by_their_queue() -> None:
    """Checklist S1, S2, S4 (text in, text out)."""
    text, _ = legalised(256)
    assert picked(text, "data_transfer", "memref.alloc", "fifo.allocate", "read_from_fifo") == [
        '%alloc = memref.alloc() : memref<1x64xf16, "L1">',
        '%alloc_0 = memref.alloc() : memref<1x64xf16, "L1">',
        '%1:2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, '
        '!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>',
        '%2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>',
        "ktdf.data_transfer from %d[%i, 0] size [1, 64] to %0#1[0, 0] size [1, 64] : "
        'memref<8x256xf16, "DDR">, memref<1x64xf16, "L1">',
        "ktdf.data_transfer from %0#0[0, 0] size [1, 64] to %0#2 size [64] : "
        'memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>',
        'ktdf.data_transfer from %0#1[0, 0] size [1, 1] to %0#3 size [64] {transfer_mode = "splat"} : '
        'memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>',
        '%1 = ktdf.read_from_fifo %0#2 : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>',
        '%2 = ktdf.read_from_fifo %0#3 : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>',
    ]  # fmt: skip
    assert picked(text, "indexing_maps") == [
        '%4 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} '
        "ins(%1, %2 : tensor<1x64xf16>, tensor<1x64xf16>) outs(%3 : tensor<1x64xf16>) {"
    ]


def test_no_room_to_widen() -> None:
    """Where memory has no vector behind the element, the first hop keeps its single element."""
    text, _ = legalised(32)
    assert "from %d[%i, 0] size [1, 1] to %0#1[0, 0] size [1, 1]" in text
    assert 'size [64] {transfer_mode = "splat"}' in text


def test_several_writers_leave_the_operand_alone() -> None:
    """Checklist S3: two transfers into one queue give a warning; the generic stays."""
    module = ktir.parse(
        SHORT.replace("WIDTH", "256").replace("EXTRA", "").replace(
            "      ktdf.data_transfer from %v#1[0, 0] size [1, 1] to %v#3",
            "      ktdf.data_transfer from %v#1[0, 0] size [1, 1] to %v#3 size [1] : memref<1x1xf16, \"L1\">, "
            "!ktdf.fifo.slot<\"L1LU\" -> \"SFU\", 1xf16>\n"
            "      ktdf.data_transfer from %v#1[0, 0] size [1, 1] to %v#3",
        )
    )  # fmt: skip
    used = context()
    assert scalar_broadcast_legalization.run(module, used) is module
    (remark,) = used.remarks
    assert remark.severity == "warning"
    assert "is not fed by exactly one transfer" in remark.message


# -- loops


def loops(body: str, run: Callable[[ktir.Module, PassContext], ktir.Module]) -> str:
    text = (
        'func.func @f(%p: memref<99x99xf16, "DDR">, %q: memref<1x1xf16, "L1">, %n: index) {\n'
        + "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 3, 4, 17, 64, 256)) + body
        + "return\n}"
    )  # fmt: skip
    module = ktir.parse(text)
    ktir.verify(module)
    result = run(module, context())
    ktir.verify(result)
    return ktir.print_module(result)


MOVE = 'size [1, 1] to %q[0, 0] size [1, 1] : memref<99x99xf16, "DDR">, memref<1x1xf16, "L1">\n'


def inside(transfer: str) -> str:
    return f"ktdf.pipeline {{\nktdf.stage depends_in(none) depends_out(none) {{\n{transfer}}}\n}}\n"


def test_loops_start_at_zero_with_step_one() -> None:
    """Checklist N1, N2, N3 (text in, text out)."""
    text = loops(
        "scf.for %i = %c3 to %c17 step %c4 {\n"
        + inside("ktdf.data_transfer from %p[%i, %i + 1] " + MOVE)
        + "}\n",
        normalize_scf_for_loops.run,
    )
    assert picked(text, "scf.for", "data_transfer", "arith.constant") == [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c4 = arith.constant 4 : index",
        "scf.for %arg0 = %c0 to %c4 step %c1 {",
        'ktdf.data_transfer from %p[%arg0 * 4 + 3, %arg0 * 4 + 4] size [1, 1] to %q[0, 0] size [1, 1] : '
        'memref<99x99xf16, "DDR">, memref<1x1xf16, "L1">',
    ]  # fmt: skip


def test_dynamic_bounds_are_computed() -> None:
    """A bound that is only known at run time: `ceildiv(ub - lb, step)` in front of the loop."""
    text = loops(
        "scf.for %i = %c3 to %n step %c4 {\n" + inside("ktdf.data_transfer from %p[%i, 0] " + MOVE) + "}\n",
        normalize_scf_for_loops.run,
    )
    assert picked(text, "arith.subi", "arith.ceildivsi", "data_transfer from %p[%arg0 * 4 + 3, 0]")
    normal = (
        "scf.for %i = %c0 to %n step %c1 {\n" + inside("ktdf.data_transfer from %p[%i, 0] " + MOVE) + "}\n"
    )
    assert "to %n step" in loops(normal, normalize_scf_for_loops.run)


def test_single_trip_loops_are_opened() -> None:
    """Scheduler spec 3.7: after `canonicalize` only real loops count (text in, text out)."""
    body = (
        "scf.for %i = %c3 to %c4 step %c1 {\n"
        + inside("ktdf.data_transfer from %p[%i, %c17] " + MOVE)
        + "}\n"
        "scf.for %i = %c4 to %c4 step %c1 {\n"
        + inside("ktdf.data_transfer from %p[%i, %c17] " + MOVE)
        + "}\n"
    )
    text = loops(body, canonicalize.run)
    assert "scf.for" not in text
    assert picked(text, "data_transfer") == ["ktdf.data_transfer from %p[3, 17] " + MOVE.strip()]


def test_casts_move_out_of_loops() -> None:
    """Pure operations leave loops, transfers do not."""
    body = (
        "scf.for %i = %c0 to %c4 step %c1 {\n%x = arith.addi %n, %c4 : index\n"
        + inside("ktdf.data_transfer from %p[%i, %x] " + MOVE) + "}\n"
    )  # fmt: skip
    text = loops(body, loop_invariant_code_motion.run)
    assert text.index("arith.addi") < text.index("scf.for") < text.index("data_transfer")


# -- addresses and grid


def assigned(body: str, device: str = "sample", attributes: str = "") -> str:
    text = f"module {attributes} {{\n{body}\n}}"
    module = ktir.parse(text)
    ktir.verify(module)
    result = address_assignment.run(module, context(device))
    ktir.verify(result)
    return ktir.print_module(result)


def addresses(text: str) -> list[int]:
    return [int(line.split("constant ")[1].split(" ")[0]) for line in picked(text, "arith.constant")]


def allocations(*types: str) -> str:
    uses = "".join(f'"use"(%b{i}) : ({t}) -> ()\n' for i, t in enumerate(types))
    allocs = "".join(f"%b{i} = memref.alloc() : {t}\n" for i, t in enumerate(types))
    return f"func.func @f() {{\n{allocs}{uses}return\n}}"


def test_addresses_count_up_per_memory() -> None:
    """Checklist K1, K3 (text in, text out)."""
    text = assigned(
        allocations('memref<4x64xf16, "L1">', 'memref<3x64xf16, "L1">', 'memref<1x64xf16, "L1">',
                    'memref<1x64xf16, "SFU_REG">', "memref<8xf16>")
    )  # fmt: skip
    assert addresses(text) == [0, 512, 896, 0]
    assert picked(text, "memref.alloc") == ["%alloc = memref.alloc() : memref<8xf16>"]
    assert picked(text, "unrealized_conversion_cast")[1].endswith('index to memref<3x64xf16, "L1">')


def test_scratchpad_starts_afresh_and_device_memory_goes_on() -> None:
    """Checklist K4, K5."""
    body = "\n".join(
        f"module @m{i} {{\nfunc.func @f() {{\n%a = memref.alloc() : memref<64xf16, \"L1\">\n"
        '"use"(%a) : (memref<64xf16, "L1">) -> ()\nmemref.dealloc %a : memref<64xf16, "L1">\n'
        '%d = memref.alloc() : memref<64xf16, "DDR">\n"use"(%d) : (memref<64xf16, "DDR">) -> ()\nreturn\n}\n}'
        for i in range(2)
    )  # fmt: skip
    text = assigned(body)
    assert addresses(text) == [0, 0, 0, 128]
    assert "dealloc" not in text


def test_buffers_that_do_not_fit() -> None:
    """scheduler checklist K2. An error at each buffer that says what else is live, and one with the count."""
    big = 'memref<1024x512xf16, "L1">', 'memref<64xf16, "L1">', 'memref<8xf16, "TAPE">'
    allocs = "".join(f"%b{i} = memref.alloc() : {t}\n" for i, t in enumerate(big))
    joint = f'"use"(%b0, %b1, %b2) : ({", ".join(big)}) -> ()\n'
    with pytest.raises(dfsched.ScheduleError) as caught:
        assigned(f"func.func @f() {{\n{allocs}{joint}return\n}}")
    messages = [d.message for d in caught.value.diagnostics]
    assert messages[0] == (
        "'f' needs 1048704 bytes of L1, 1048576 bytes available; these buffers are live at the same time:"
    )
    assert [n.message for n in caught.value.diagnostics[0].notes] == [
        '   1.0 MiB  1 x memref<1024x512xf16, "L1">',
        ' 128 bytes  1 x memref<64xf16, "L1">',
    ]
    assert messages[1].startswith(
        "cannot allocate 128 bytes aligned to 64 in L1: capacity 1048576 bytes, 1048576"
    )
    assert "TAPE" in messages[2]
    assert messages[3] == "2 buffers could not be given an address"


def test_what_does_not_fit_is_told_with_its_place() -> None:
    """Every buffer is traced to the load or store that it serves; equal ones are counted; pins take space, too."""
    text = (
        "module attributes {ktdp.scratchpad_keepout = [[0, 524288]]} {\n" + elementwise((1024, 256)) + "\n}"
    )
    options = dfsched.Options(emit="schedule", pins={"tile_sizes": (512, 4)})
    with pytest.raises(dfsched.ScheduleError) as caught:
        dfsched.compile(ktir.parse(text), "sample", options)
    first, *others = caught.value.diagnostics
    assert first.message == (
        "'local_schedule_0' needs 1.5 MiB of L1, 512.0 KiB available; these buffers are live at the same time:"
    )
    assert [note.message for note in first.notes] == [
        *[' 512.0 KiB  2 x memref<512x4x1x64xf16, "L1">'] * 3,
        " 512.0 KiB  kept for views of the kernel and residents of others",
    ]
    lines = [note.location.file_line_column()[1] for note in first.notes[:3] if note.location is not None]
    assert [text.splitlines()[line - 1].split()[0] for line in lines] == ["%ax", "%bx", "ktdp.store"]
    assert all(d.location is not None and d.location.file_line_column() is not None for d in others)


def test_buffers_share_space_only_where_they_must() -> None:
    """Buffers that are never live at the same time share space, but only if they do not fit side by side."""
    half, third = 'memref<512x512xf16, "L1">', 'memref<300x512xf16, "L1">'
    assert addresses(assigned(allocations(half, half))) == [0, 524288]
    assert addresses(assigned(allocations(half, half, third))) == [0, 0, 0]

    def sequence(*uses: tuple[int, ...]) -> str:
        allocs = "".join(f"%b{i} = memref.alloc() : {third}\n" for i in range(4))
        lines = "".join(
            f'"use"({", ".join(f"%b{i}" for i in group)}) : ({", ".join([third] * len(group))}) -> ()\n'
            for group in uses
        )
        return f"func.func @f() {{\n{allocs}{lines}return\n}}"

    size = 300 * 512 * 2
    found = addresses(assigned(sequence((0, 1), (1, 2), (2, 3))))
    assert all(abs(found[a] - found[b]) >= size for a, b in ((0, 1), (1, 2), (2, 3)))
    assert max(found) + size <= 1048576
    pinned = "attributes {ktdp.scratchpad_keepout = [[0, 64], [400000, 400064]]}"
    found = addresses(assigned(sequence((0, 1), (1,), (2,), (3,)), attributes=pinned))
    assert all(not (a < high and low < a + size) for a in found for low, high in ((0, 64), (400000, 400064)))
    with pytest.raises(dfsched.ScheduleError, match="1 buffers could not be given"):
        assigned(sequence((0, 1, 2, 3)))


def test_sizes_with_a_bound() -> None:
    """scheduler checklist K3. A dynamic buffer gets the size that its extent cannot exceed; else it fails."""

    def text(size: str) -> str:
        return (
            f"func.func @f(%n: index) {{\n%c8 = arith.constant 8 : index\n{size}"
            '%a = memref.alloc(%s) : memref<?x64xf16, "L1">\n%b = memref.alloc() : memref<64xf16, "L1">\n'
            '"use"(%a, %b) : (memref<?x64xf16, "L1">, memref<64xf16, "L1">) -> ()\nreturn\n}'
        )

    for size in (
        "%s = affine.min affine_map<(d0)[s0] -> (-d0 + 17, s0)>(%n)[%c8]\n",
        "%s = arith.minsi %n, %c8 : index\n",
        "%s = ktdf.tiling.derive_size [%n : %c8], total_size = %n : index\n",
    ):
        assert addresses(assigned(text(size)))[-1] == 8 * 128
    with pytest.raises(dfsched.ScheduleError, match="no upper bound of the size is known"):
        assigned(text("%s = arith.addi %n, %c8 : index\n"))


def test_keepout_ranges() -> None:
    """Readings item 8: residents of other kernels are not touched."""
    body = allocations('memref<64xf16, "L1">', 'memref<64xf16, "L1">')
    assert addresses(assigned(body, attributes="attributes {ktdp.scratchpad_keepout = [[0, 100], [256, 300]]}")) == [
        128, 320,
    ]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_alignment_follows_the_device(device: str) -> None:
    """Buffers are aligned to the widest access of any unit to their memory."""
    memory = "L1" if device == "sample" else "BANK"
    text = assigned(allocations(f'memref<1xf16, "{memory}">', f'memref<1xf16, "{memory}">'), device)
    architecture = dfsched.load_architecture(device)
    assert addresses(text) == [0, architecture.access_alignment(memory)]


def grid(attributes: str, ids: str, results: str, module: str = "") -> ktir.Module:
    return ktir.parse(
        f"module {module} {{\nfunc.func @f() attributes {{{attributes}}} {{\n"
        f"{results} = ktdp.get_compute_tile_id : {ids}\n"
        + "".join(f'"use"(%g#{i}) : (index) -> ()\n' for i in range(ids.count("index"))) + "return\n}\n}"
    )  # fmt: skip


def test_coordinates_from_the_flat_id() -> None:
    """Checklist K7: last dimension fastest where the module says so, first fastest otherwise."""
    last = 'attributes {ktdp.grid_order = "last_fastest"}'
    module = grid("grid = [2, 3, 4]", "index, index, index", "%g:3", last)
    text = ktir.print_module(normalize_grid_to_1d.run(module, context()))
    assert "grid = [24 : index]" in text
    assert picked(text, "arith.constant", "arith.divui", "arith.remui") == [
        "%c12 = arith.constant 12 : index",
        "%1 = arith.divui %0, %c12 : index",
        "%c4 = arith.constant 4 : index",
        "%2 = arith.divui %0, %c4 : index",
        "%c3 = arith.constant 3 : index",
        "%3 = arith.remui %2, %c3 : index",
        "%c4_0 = arith.constant 4 : index",
        "%4 = arith.remui %0, %c4_0 : index",
    ]
    first = ktir.print_module(
        normalize_grid_to_1d.run(grid("grid = [4, 6]", "index, index", "%g:2"), context())
    )
    assert picked(first, "arith.divui", "arith.remui") == [
        "%1 = arith.remui %0, %c4 : index", "%2 = arith.divui %0, %c4_0 : index",
    ]  # fmt: skip
    v1 = normalize_grid_to_1d.run(grid("grid = [4, 6]", "index, index", "%g:2"), context(profile="v1"))
    assert picked(ktir.print_module(v1), "arith.divui", "arith.remui") == [
        "%1 = arith.divui %0, %c6 : index", "%2 = arith.remui %0, %c6_0 : index",
    ]  # fmt: skip


def test_grids_that_are_kept_or_refused() -> None:
    """Checklist K8: messages verbatim."""
    module = grid("grid = [8]", "index", "%g:1")
    assert "grid = [8]" in ktir.print_module(normalize_grid_to_1d.run(module, context()))
    none = ktir.parse("func.func @f() {\nreturn\n}")
    assert "grid = [1 : index]" in ktir.print_module(normalize_grid_to_1d.run(none, context()))
    for attributes, ids, results, message in (
        ("grid = []", "index", "%g:1", "Grid must have at least one dimension"),
        ("grid = [0, 2]", "index, index", "%g:2", r"Grid size must be positive \(got 0\)"),
        ('grid = ["a"]', "index", "%g:1", "Grid size must be integer attribute"),
        ("grid = [2, 2, 2]", "index, index", "%g:2",
         r"get_compute_tile_id result count \(2\) does not match grid rank \(3\)"),
    ):  # fmt: skip
        with pytest.raises(dfsched.ScheduleError, match=message):
            normalize_grid_to_1d.run(grid(attributes, ids, results), context())
    with pytest.raises(dfsched.ScheduleError, match="must be"):
        normalize_grid_to_1d.run(
            grid("grid = [2]", "index", "%g:1", 'attributes {ktdp.grid_order = "sideways"}'), context()
        )
