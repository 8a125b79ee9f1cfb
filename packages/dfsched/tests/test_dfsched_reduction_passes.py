"""`reduction-dim-chunking` and `map-reduction-partials`: text in, text out, on several devices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.passes import map_reduction_partials, reduction_dim_chunking, reduction_pieces
from dfsched.passes.base import PassContext

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
NAMES = {"sample": ("L1LU", "SFU", "L1SU", "SFU_REG"), QUAD: ("FETCH", "VPU", "PUT", "VREG")}


def program(body: str, device: str, units: str | None = None) -> str:
    """A pipeline whose compute stage holds `body`; `Q` is its queue in, `R` its queue out."""
    load, unit, store, _ = NAMES[device]
    body = body.replace("LOAD", load).replace("UNIT", unit).replace("STORE", store)
    return f"""
func.func @f(%first: i1) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  ktdf.pipeline {{
    %r:4 = ktdf.private -> (!ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>, !ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>,
                            !ktdf.fifo.slot<"{unit}" -> "{store}", 64xf16>, !ktdf.token) {{
      %a:2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>, !ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>
      %b = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"{unit}" -> "{store}", 64xf16>
      %t = ktdf.create_token : !ktdf.token
      ktdf.private_yield %a#0, %a#1, %b, %t : !ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>, !ktdf.fifo.slot<"{load}" -> "{unit}", 64xf16>, !ktdf.fifo.slot<"{unit}" -> "{store}", 64xf16>, !ktdf.token
    }}
    ktdf.stage depends_in(none) depends_out(none) {{
      {body}
    }} {{applicable_units = [{units or f'"{unit}"'}]}}
  }}
  return
}}
"""


LOOP = """
%f = scf.for %k = %c0 to %c32 step %c1 iter_args(%acc = %e) -> (tensor<1x64xf16>) {
  %x = ktdf.read_from_fifo %r#0 : <"LOAD" -> "UNIT", 64xf16> -> tensor<1x1x64xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>],
       iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<1x1x64xf16>) outs(%acc : tensor<1x64xf16>) {
  ^bb0(%in: f16, %out: f16):
    %s = COMBINE %out, %in : f16
    linalg.yield %s : f16
  } -> tensor<1x64xf16>
  %l = arith.cmpi eq, %k, %c31 : index
  scf.if %l {
    ktdf.write_to_fifo %y, %r#2 : tensor<1x64xf16>, <"UNIT" -> "STORE", 64xf16>
  }
  scf.yield %y : tensor<1x64xf16>
} {loop_type = #ktdf.loop_type<reduction_loop>}
"""
EMPTY = "%e = tensor.empty() : tensor<1x64xf16>\n"
PARTIAL = '%e = ktdf.read_from_fifo %r#1 : <"LOAD" -> "UNIT", 64xf16> -> tensor<1x64xf16>\n'
EITHER = """%e = scf.if %first -> (tensor<1x64xf16>) {
  %n = tensor.empty() : tensor<1x64xf16>
  scf.yield %n : tensor<1x64xf16>
} else {
  %p = ktdf.read_from_fifo %r#1 : <"LOAD" -> "UNIT", 64xf16> -> tensor<1x64xf16>
  scf.yield %p : tensor<1x64xf16>
}
"""


def mapped(body: str, device: str = "sample", units: str | None = None) -> str:
    """The module after the pass, printed; it is valid, and the pass leaves it alone the second time."""
    context = PassContext(dfsched.load_architecture(device))
    module = ktir.parse(program(body, device, units))
    ktir.verify(module)
    new = map_reduction_partials.run(module, context)
    ktir.verify(new)
    assert map_reduction_partials.run(new, context) is new
    return ktir.print_module(new)


@pytest.mark.parametrize("device", NAMES)
def test_the_accumulator_is_a_buffer(device: str) -> None:
    """Checklist R8: in the memory beside the unit, nothing is carried, a sum starts at zero."""
    text = mapped(EMPTY + LOOP.replace("COMBINE", "arith.addf"), device)
    registers = NAMES[device][3]
    stage = text[text.index("ktdf.stage") : text.index("applicable_units")]
    load, unit, store, _ = NAMES[device]
    memory, queue = f'memref<1x64xf16, "{registers}">', "memref<1x1x64xf16>"
    assert [line.strip() for line in stage.splitlines()[1:]][:-1] == [
        f"%alloc = memref.alloc() : {memory}",
        "%cst = arith.constant -0.000000e+00 : f16",
        f"linalg.fill ins(%cst : f16) outs(%alloc : {memory})",
        "scf.for %arg0 = %c0 to %c32 step %c1 {",
        f'%1 = ktdf.read_from_fifo %0#0 : <"{load}" -> "{unit}", 64xf16> -> {queue}',
        'linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "parallel"]} '
        f"ins(%1 : {queue}) outs(%alloc : {memory}) {{",
        "^bb0(%in: f16, %out: f16):",
        "%3 = arith.addf %out, %in : f16",
        "linalg.yield %3 : f16",
        "}",
        "%2 = arith.cmpi eq, %arg0, %c31 : index",
        "scf.if %2 {",
        f'ktdf.write_to_fifo %alloc, %0#2 : {memory}, <"{unit}" -> "{store}", 64xf16>',
        "}",
        "} {loop_type = #ktdf.loop_type<reduction_loop>}",
    ]
    assert "iter_args" not in text


@pytest.mark.parametrize(
    ("combine", "start"),
    [
        ("arith.addf", "-0.000000e+00"),
        ("arith.mulf", "1.000000e+00"),
        ("arith.maximumf", "0xFC00"),
        ("arith.minimumf", "0x7C00"),
    ],
)
def test_the_start_is_neutral(combine: str, start: str) -> None:
    """Checklist R9."""
    assert f"arith.constant {start} : f16" in mapped(EMPTY + LOOP.replace("COMBINE", combine))


def test_other_starts() -> None:
    """What comes out of a queue is copied; a condition keeps both ways; a number fills; loops share one buffer."""
    text = mapped(PARTIAL + LOOP.replace("COMBINE", "arith.addf"))
    assert 'memref.copy %1, %alloc : memref<1x64xf16> to memref<1x64xf16, "SFU_REG">' in text
    assert "linalg.fill" not in text
    text = mapped(EITHER + LOOP.replace("COMBINE", "arith.mulf"))
    branch = text[text.index("scf.if %first") : text.index("scf.for")]
    assert re.search(r"linalg\.fill.*\} else \{.*memref\.copy", branch, re.DOTALL)
    number = "%e = arith.constant dense<3.0> : tensor<1x64xf16>\n"
    assert "arith.constant 3.000000e+00 : f16" in mapped(number + LOOP.replace("COMBINE", "arith.addf"))
    inner = LOOP.replace("COMBINE", "arith.addf").replace("%e", "%o").replace("%f", "%g")
    outer = (
        "%f = scf.for %m = %c0 to %c32 step %c1 iter_args(%o = %e) -> (tensor<1x64xf16>) {\n"
        + inner
        + "scf.yield %g : tensor<1x64xf16>\n}"
    )
    text = mapped(EMPTY + outer)
    assert text.count("memref.alloc") == 1
    assert text.count("scf.for") == 2


@pytest.mark.parametrize(
    ("body", "units", "message"),
    [
        (EMPTY + LOOP, '"SFU", "L1LU"', "a stage with accumulators must name one unit, not 2"),
        (EMPTY + LOOP, '"L1LU"', "device 'sample_device' has no single memory beside L1LU for accumulators"),
        (
            '%e = "some.thing"() : () -> tensor<1x64xf16>\n' + LOOP,
            None,
            "'some.thing' on a tensor cannot work on buffers",
        ),
        (
            "%e = arith.constant dense<[[" + ", ".join(["1.0, 2.0"] * 32) + "]]> : tensor<1x64xf16>\n" + LOOP,
            None,
            "a partial result must start with tensor.empty, ktdf.read_from_fifo, a computation, a constant of one "
            "number, or an scf.if of these",
        ),
    ],
)
def test_what_cannot_be_mapped(body: str, units: str | None, message: str) -> None:
    """Checklist R10: located errors, none at all for a unit without memory, or for a stage of two units."""
    with pytest.raises(dfsched.ScheduleError) as caught:
        mapped(body.replace("COMBINE", "arith.addf"), "sample", units)
    (found,) = caught.value.diagnostics
    assert found.message == message
    assert found.location is not None
    assert found.location.file_line_column() is not None


def test_two_memories_beside_a_unit(tmp_path: Path) -> None:
    """Checklist R10: which one is not for the pass to guess."""
    device = (Path(dfsched.__file__).parent / "devices" / "sample_h.mlir").read_text()
    registers = re.search(r"%\w+ = memory #SFU_REG", device)
    assert registers is not None
    path = tmp_path / "two.mlir"
    path.write_text(
        device.replace(registers[0], registers[0] + '\n      %more = memory { kind = "MORE", size = 64 }')
    )
    context = PassContext(dfsched.load_architecture(path))
    module = ktir.parse(program(EMPTY + LOOP.replace("COMBINE", "arith.addf"), "sample"))
    with pytest.raises(dfsched.ScheduleError, match="no single memory beside SFU"):
        map_reduction_partials.run(module, context)


def test_stages_that_carry_nothing_stay() -> None:
    """The same object comes back."""
    module = ktir.parse(program("", "sample"))
    assert map_reduction_partials.run(module, PassContext(dfsched.load_architecture("sample"))) is module


# -- pieces


def rows(shape: tuple[int, ...], over: list[int], op: str = "arith.addf") -> str:
    """A reduction of one f16 array on one tile."""
    kept = [n for d, n in enumerate(shape) if d not in over]

    def box(extents: list[int]) -> str:
        names = [f"d{d}" for d in range(len(extents))]
        rules = [f"{n} >= 0, -{n} + {e - 1} >= 0" for n, e in zip(names, extents, strict=True)]
        return f"affine_set<({', '.join(names)}) : ({', '.join(rules)})>"

    def order(rank: int) -> str:
        names = ", ".join(f"d{d}" for d in range(rank))
        return f"affine_map<({names}) -> ({names})>"

    lines = ["func.func @k(%x: index, %y: index) attributes {grid = [1]} {\n%c0 = arith.constant 0 : index"]
    for name, extents in (("x", list(shape)), ("y", kept)):
        dims = "".join(f"{n}x" for n in extents)
        strides = [1] * len(extents)
        for d in range(len(extents) - 2, -1, -1):
            strides[d] = strides[d + 1] * extents[d + 1]
        zeros = ", ".join(["%c0"] * len(extents))
        lines.append(
            f"%v{name} = ktdp.construct_memory_view %{name}, sizes: {extents}, strides: {strides} "
            f"{{coordinate_set = {box(extents)}, memory_space = #ktdp.memory_space<global>}} : memref<{dims}f16>"
        )
        lines.append(
            f"%t{name} = ktdp.construct_access_tile %v{name}[{zeros}] {{access_tile_set = {box(extents)}, "
            f"access_tile_order = {order(len(extents))}}} : memref<{dims}f16> -> !ktdp.access_tile<{dims}index>"
        )
    full, part = "".join(f"{n}x" for n in shape), "".join(f"{n}x" for n in kept)
    lines.append(f"%a = ktdp.load %tx : <{full}index> -> tensor<{full}f16>")
    lines.append(f"%i = arith.constant dense<1.0> : tensor<{part}f16>")
    lines.append(
        f"%r = linalg.reduce {{ {op} }} ins(%a : tensor<{full}f16>) outs(%i : tensor<{part}f16>) "
        f"dimensions = {over}"
    )
    lines.append(f"ktdp.store %r, %ty : tensor<{part}f16>, <{part}index>\nreturn\n}}")
    return "\n".join(lines)


def before_chunking(text: str, device: str) -> ktir.Module:
    options = dfsched.Options(stop_after="narrow-index-lanes")
    return dfsched.compile(ktir.parse(text), device, options).passes[-1].module


def chunked(text: str, device: str, **settings: str) -> ktir.Module:
    """The module after the pass, on what comes before it."""
    named = {f"reduction-dim-chunking.{name.replace('_', '-')}": value for name, value in settings.items()}
    module = before_chunking(text, device)
    context = PassContext(dfsched.load_architecture(device), dfsched.Options(settings=named))
    new = reduction_dim_chunking.run(module, context)
    ktir.verify(new)
    return new


def loads(module: ktir.Module) -> list[str]:
    return [str(op.results[0].type) for op in module.walk() if op.name == "ktdp.load"]


def test_small_reductions_are_not_cut() -> None:
    """Checklist R1: half a MiB at a time is less than the default threshold."""
    text = rows((2, 262144), [1])
    module = before_chunking(text, "spyre")
    context = PassContext(dfsched.load_architecture("spyre"))
    assert reduction_dim_chunking.run(module, context) is module


def test_as_few_pieces_as_fit() -> None:
    """Checklist R2: two pieces of 2 MiB; an extent without divisors element by element."""
    assert reduction_pieces.chunk_counts([16384], 2 << 20, 1 << 20) == (2,)
    assert reduction_pieces.chunk_counts([12289], 12289 * 128 * 2, 1 << 20) == (12289,)
    for extent in (1, 2, 12, 97, 360, 2**10, 65537 * 3):
        found = reduction_pieces.divisors(extent)
        assert found == [n for n in range(1, extent + 1) if extent % n == 0]
    for extent in (2**31 - 1, 2**61 - 1, 2**63, 65537**3, 10**40 + 1):  # at once, whatever the extent
        (count,) = reduction_pieces.chunk_counts([extent], 128 * extent, 1 << 20) or (0,)
        assert extent % count == 0
        assert 128 * (extent // count) <= 1 << 20
    new = chunked(rows((16384, 64), [0]), "spyre")
    assert loads(new) == ["tensor<8192x64xf16>", "tensor<8192x64xf16>", "tensor<64xf16>"]
    (loop,) = (op for op in new.walk() if op.name == "scf.for")
    text = ktir.print_module(new)
    assert re.search(r"scf\.for %arg0 = %c1\w* to %c2\w* step %c1\w*", text)
    assert re.search(r"arith\.muli %arg0, %c8192", text)
    assert "loop_type" not in loop.attributes
    prime = chunked(rows((13, 64), [0]), "spyre", chunk_size_threshold="256")
    assert loads(prime)[0] == "tensor<1x64xf16>"
    assert re.search(r"to %c13\w* step", ktir.print_module(prime))


def test_a_smaller_device_cuts_earlier() -> None:
    """Half of the smallest scratchpad on the way is the limit: 8 KiB here."""
    assert loads(chunked(rows((2, 8192), [1]), QUAD))[0] == "tensor<2x4096xf16>"
    module = before_chunking(rows((2, 4096), [1]), QUAD)
    assert reduction_dim_chunking.run(module, PassContext(dfsched.load_architecture(QUAD))) is module
    assert loads(chunked(rows((2, 4, 4096), [1, 2]), QUAD))[0] == "tensor<2x1x4096xf16>"


def test_numbers_of_pieces() -> None:
    """Checklist R3: a wrong count is an error, a number that does not divide leaves the reduction alone."""
    text = rows((8, 64), [0])
    with pytest.raises(
        dfsched.ScheduleError, match="the reduction has 1 dimensions, but 2 numbers of chunks"
    ):
        chunked(text, "sample", num_chunks="2,2")
    for number in ("3", "0", "16"):
        assert loads(chunked(text, "sample", num_chunks=number)) == ["tensor<8x64xf16>"]
    assert loads(chunked(text, "sample", num_chunks="1")) == ["tensor<8x64xf16>"]
    assert loads(chunked(text, "sample", num_chunks="4"))[0] == "tensor<2x64xf16>"


def test_pieces_keep_the_order() -> None:
    """Sums are cut along a dimension only where those in front of it are single elements; maxima anyhow."""
    text = rows((4, 6, 64), [0, 1])
    assert loads(chunked(text, "sample", num_chunks="2,3")) == ["tensor<4x6x64xf16>"]
    assert loads(chunked(text, "sample", num_chunks="4,3"))[0] == "tensor<1x2x64xf16>"
    maxima = rows((4, 6, 64), [0, 1], "arith.maximumf")
    assert loads(chunked(maxima, "sample", num_chunks="2,3"))[0] == "tensor<2x2x64xf16>"


@pytest.mark.parametrize("device", ["sample", QUAD])
def test_partial_results_are_loaded_once_a_piece(device: str) -> None:
    """Checklist R7: in front of the loop over the vectors of the piece, not in it."""
    settings = {"reduction-dim-chunking.num-chunks": "2"}
    options = dfsched.Options(settings=settings, stop_after="reduction-loop-exposure")
    module = dfsched.compile(ktir.parse(rows((2, 512), [1])), device, options).passes[-1].module
    stages = ktir.print_module(module).split("ktdf.stage")
    loading = [stage for stage in stages if "reduction_loop" in stage and "iter_args" not in stage]
    assert len(loading) == 2
    partial = loading[1]
    assert partial.index("size [1]") < partial.index("scf.for")
    loop = partial[partial.index("scf.for") : partial.index("reduction_loop")]
    assert loop.count("ktdf.data_transfer") == 1


def negated(shape: tuple[int, ...], over: list[int]) -> str:
    """What `rows` folds, negated: the result of the reduction is not what is stored."""
    kept = "".join(f"{n}x" for d, n in enumerate(shape) if d not in over)
    text = rows(shape, over).replace("%r = linalg", "%q = linalg")
    return text.replace("ktdp.store %r", f"%r = arith.negf %q : tensor<{kept}f16>\nktdp.store %r")


def test_results_that_are_used_again_get_a_place() -> None:
    """The pieces fold into the scratchpad; what is computed further loads from there."""
    twice = negated((8, 64), [0])
    piece, rest, out = "tensor<4x64xf16>", "tensor<64xf16>", "tensor<64xf16>"
    cut = chunked(twice, "sample", num_chunks="2")
    assert loads(cut) == [piece, piece, rest, out]
    assert len({op.operands[1] for op in cut.walk() if op.name == "ktdp.store"}) == 2
    assert ktir.print_module(cut).count("#ktdp.memory_space<ct_local>") == 1
    (whole,) = loads(chunked(twice, "sample", num_chunks="3"))
    assert whole == "tensor<8x64xf16>"
    with pytest.raises(
        dfsched.ScheduleError, match="the reduction has 1 dimensions, but 2 numbers of chunks"
    ):
        chunked(twice, "sample", num_chunks="2,2")


COLLAPSED = (
    rows((1024, 2, 16), [0])
    .replace("%r = linalg", "%q = linalg")
    .replace(
        "ktdp.store %r",
        "%r0 = tensor.collapse_shape %q [[0, 1]] : tensor<2x16xf16> into tensor<32xf16>\n"
        "%r = tensor.expand_shape %r0 [[0, 1]] output_shape [2, 16] : tensor<32xf16> into tensor<2x16xf16>\n"
        "ktdp.store %r",
    )
)
CONTINUED = rows((1024, 16), [0]).replace(
    "ktdp.store %r,",
    "%r2 = linalg.reduce { arith.addf } ins(%a : tensor<1024x16xf16>) outs(%r : tensor<16xf16>) "
    "dimensions = [0]\nktdp.store %r2,",
)
"""Results that are reshaped, and that another reduction goes on from."""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (negated((510, 16), [0]), {}),
        (negated((1024, 40000), [0]), {}),
        (negated((1024, 16), [0]), {"profile": "v1"}),
        (negated((1024, 1024), [0]).replace("(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1, d0)", 1), {}),
    ],
    ids=["fits", "results too large", "v1", "another order"],
)
def test_groups_that_fit_or_cannot_be_split_stay(text: str, options: dict[str, str]) -> None:
    """More than half of a scratchpad is no reason; only what surely does not fit is split."""
    module = before_chunking(text, QUAD)
    context = PassContext(dfsched.load_architecture(QUAD), dfsched.Options(**options))
    assert reduction_dim_chunking.run(module, context) is module


@pytest.mark.parametrize(
    ("text", "loops"),
    [(negated((1024, 16), [0]), 1), (COLLAPSED, 1), (CONTINUED, 2)],
    ids=["negated", "reshaped", "continued"],
)
def test_groups_that_do_not_fit_are_split(text: str, loops: int) -> None:
    """The slab is 32 bytes a row, and there are 16 KiB; pieces are of 8 KiB."""
    options = dfsched.Options(stop_after="construct-three-stage-pipeline")
    passes = dfsched.compile(ktir.parse(text), QUAD, options).passes
    new = next(item.module for item in passes if item.name == "reduction-dim-chunking")
    assert loads(new)[0] in ("tensor<256x16xf16>", "tensor<256x2x16xf16>")
    assert sum(op.name == "scf.for" for op in new.walk()) == loops


def test_what_is_left_alone() -> None:
    """Results that overwrite an operand, and computations that use the sum for more."""
    in_place = rows((8, 64), [0]).replace("ktdp.construct_memory_view %y", "ktdp.construct_memory_view %x")
    assert len(loads(chunked(in_place, "sample", num_chunks="2"))) == 1
