"""The package devices and the test device: parse, verify, print, and the facts derived from them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import ktir
from dfsched import Architecture, load_architecture
from dfsched.architecture import Scope
from dfsched.architecture.loading import package_devices
from dfsched.errors import ArchitectureError
from dfsched.patterns import apply_device_patterns

QUAD = Path(__file__).parent / "devices" / "quad.mlir"
FILES = ["sample", "sample_h", "spyre", str(QUAD)]


def device_text(name: str) -> str:
    import dfsched

    path = QUAD if name == str(QUAD) else Path(dfsched.__file__).parent / "devices" / f"{name}.mlir"
    return path.read_text()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("generic", [False, True])
def test_print_then_parse_is_the_identity(name: str, generic: bool) -> None:
    """Round trip in both forms (checklist V14, V69)."""
    module = ktir.parse(device_text(name))
    ktir.verify(module)
    text = ktir.print_module(module, generic=generic)
    again = ktir.parse(text)
    ktir.verify(again)
    assert ktir.print_module(again, generic=generic) == text
    assert load_architecture(again).digest == load_architecture(module).digest
    assert load_architecture(again) == load_architecture(name)


def test_package_devices() -> None:
    """Package files of reading 18; the sample device keeps its symbol."""
    assert package_devices() == ("sample", "sample_h", "spyre")
    assert load_architecture("sample").name == "sample_device"
    assert load_architecture("spyre").name == "spyre"
    assert load_architecture("spyre") is load_architecture("spyre")


@pytest.mark.parametrize(
    ("name", "unit", "down", "up", "instances"),
    [
        ("sample", "SFU", "DDR MNILU L1 L1LU SFU", "SFU L1SU L1 MNISU DDR", 2),
        ("sample_h", "SFU", "DDR MNILU L1 L1LU SFU", "SFU L1SU L1 MNISU DDR", 2),
        ("spyre", "SFP", "HBM MNILU LX LXLU SFP", "SFP LXSU LX MNISU HBM", 2),
        (str(QUAD), "VPU", "DRAM DIN BANK FILL PAD FETCH VPU", "VPU PUT PAD DRAIN BANK DOUT DRAM", 4),
    ],
)
def test_routes_and_instances(name: str, unit: str, down: str, up: str, instances: int) -> None:
    """The road between device memory and the compute unit, and how often it exists (checklist V69, V71)."""
    device = load_architecture(name)
    memory = down.split()[0]
    assert device.compute_kind == unit
    for text, ends in ((down, (memory, unit)), (up, (unit, memory))):
        route = device.route(*ends)
        assert route is not None
        assert list(route.kinds) == text.split()
    found = device.instances_for([unit])
    assert found is not None
    assert found.count == instances
    dma = down.split()[1]
    assert device.instances_for([dma]) is None
    assert device.instances_for([dma, unit]) is None


def test_routing_of_spyre() -> None:
    """The routing view of `spyre`: 5.3 plus the unconnected matrix unit with its memory (checklist V69)."""
    graph = load_architecture("spyre").routing
    assert [n.kind for n in graph.nodes] == [
        "HBM", "LX", "IAB", "MNILU", "IAB", "MNISU", "SFP_REG", "SFP", "L0", "PT", "LXLU", "LXSU",
    ]  # fmt: skip
    assert len(graph.edges) == 8


@pytest.mark.parametrize("name", ["sample", "spyre"])
def test_lanes(name: str) -> None:
    """Lane counts of reading 17; the unsupported type counts 1 (checklist V72)."""
    device = load_architecture(name)
    for types, lanes in (
        (["f16"], 64), (["bf16"], 64), (["df16"], 64), (["i16"], 64), (["f32"], 32), (["i32"], 32),
        (["i8"], 128), (["i1"], 64), (["f16", "f32"], 32), (["f64"], 1),
    ):  # fmt: skip
        assert device.vector_length(types) == lanes
    assert device.vector_length([ktir.types.F16, ktir.types.F32]) == 32
    assert load_architecture("sample_h").vector_length(["f32"]) == 1


def test_word_sizes() -> None:
    """A device-memory byte address is divided by the word size (checklist V73)."""
    assert load_architecture("spyre").word_size("MNILU", "HBM") == 128
    assert load_architecture("sample").word_size("MNISU", "DDR") == 64
    assert load_architecture("sample").word_size("L1LU", "L1") == 1


def test_numbers_of_spyre() -> None:
    """Sizes, reserve and the frozen time figures (readings 9 and 19)."""
    device = load_architecture("spyre")
    scratchpad = device.memory("LX")
    assert scratchpad.size == 2097152
    assert scratchpad.reserved == 471808
    assert device.memory_tree.available("LX") == 1625344
    assert device.memory("HBM").bandwidth == Fraction(2048, 10)
    assert device.memory("HBM").latency == 100
    assert (device.timing.clock_hz, device.timing.sync_latency, device.timing.fifo_latency) == (10**9, 2, 1)
    assert device.bandwidth("HBM", "MNILU") == 128
    assert device.bandwidth("LX", "LXLU") == 128
    assert device.cores == 32
    assert device.queue("LXLU", "SFP").depth == 16
    assert device.unit("MNILU").double_buffer_last
    assert not device.unit("LXLU").double_buffer_last
    assert dict(device.unit("PT").attributes)["ktdf_ext.systolic"] is not None
    assert not device.unit("PT").computes
    assert device.links("PT") == ()


def test_classes_of_memories() -> None:
    """Three levels with datapaths, private register files, and buffers of addresses (reading 10)."""
    quad = load_architecture(QUAD)
    assert [quad.scope(k) for k in ("DRAM", "BANK", "PAD", "VREG")] == [
        Scope.DEVICE, Scope.CORE, Scope.CORELET, Scope.CORELET,
    ]  # fmt: skip
    assert [quad.is_private(k) for k in ("DRAM", "BANK", "PAD", "VREG")] == [False, False, False, True]
    spyre = load_architecture("spyre")
    assert spyre.is_private("L0")
    assert spyre.is_private("SFP_REG")
    assert spyre.is_address_buffer("IAB")
    assert quad.memory("DRAM").bandwidth == Fraction(64, 5)
    assert quad.movers("BANK", "PAD") == ("FILL",)
    assert quad.movers("DRAM", "PAD") == ()
    assert quad.operand_memories("VPU") == ("PAD",)
    assert quad.access_alignment("PAD") == 32
    assert quad.access_alignment("DRAM") == 64


def _mapped(device: Architecture, text: str) -> object:
    module = ktir.parse(f'"x.y"() {{space = {text}}} : () -> ()')
    (op,) = module.regions[0].block.operations
    return device.memory_kind(op.attributes["space"])


def test_memory_spaces() -> None:
    """Memory spaces of kernels (checklist V37, V43 and the `ct_id` fallback of 1.9)."""
    device = load_architecture("spyre")
    assert _mapped(device, "#ktdp.memory_space<global>") == "HBM"
    assert _mapped(device, "#ktdp.memory_space<ct_local>") == "LX"
    assert _mapped(device, "#ktdp.memory_space<ct_local, ct_id = 3>") == "LX"
    assert _mapped(device, "#ktdp.spyre_memory_space<HBM>") == "HBM"
    other = _mapped(device, "#other.space<1>")
    assert str(other) == "#other.space<1>"


def test_full_topology() -> None:
    """32 cores on a ring: 42 routing nodes, 74 edges, 161 memories, 64 ring links (checklist V70, V71)."""
    core = device_text("spyre")
    core = core[core.index("  group @core ") : core.index("  // Scalar operations")]
    core = core[: core.rindex("}")].rstrip()
    start, end = core.index('      group { kind = "PT_Block"'), core.index("      %lxlu = exec_unit")
    block = core[start:end]
    core = core.replace(block, "")
    head = device_text("spyre").split("ktdf_arch.device")[0]
    head += (
        '#RING = { kind = "RING", ktdf_arch.features = {ktdf_arch.feature.load, ktdf_arch.feature.store} }\n'
    )
    body = ""
    for c in range(32):
        one = core.replace("group @core ", f"%r{c} = group @core{c} ").replace(
            "@corelet", f"@core{c}_corelet"
        )
        body += (
            one + "\n    %ring = exec_unit #RING\n    datapath #STICK_LINK %lx to %ring : memory, exec_unit\n"
            "    datapath #STICK_LINK %ring to %lx : exec_unit, memory\n    yield %ring\n  } -> exec_unit\n"
        )
    for c in range(32):
        n = (c + 1) % 32
        body += f"  datapath #STICK_LINK %r{c} to %r{n} : exec_unit, exec_unit\n"
        body += f"  datapath #STICK_LINK %r{n} to %r{c} : exec_unit, exec_unit\n"
    module = ktir.parse(head + "ktdf_arch.device @ring {\n  %hbm = memory #HBM\n" + body + "}\n")
    ktir.verify(module)
    device = load_architecture(module)
    assert len(device.routing.nodes) == 42
    assert len(device.routing.edges) == 74
    assert len(device.memories) == 161
    links = [d for d in device.datapaths if d.parent is None]
    assert len(links) == 64
    assert all(link.bandwidth == 128 for link in links)
    route = device.route("HBM", "SFP")
    assert route is not None
    assert list(route.kinds) == ["HBM", "MNILU", "LX", "LXLU", "SFP"]
    assert device.instances_for(["MNILU"]) is None
    assert device.instances_for(["SFP"]) is not None


def test_machine() -> None:
    """What KTIR's meaning depends on (readings 9 and 26)."""
    machine = load_architecture("spyre").machine()
    assert (machine.tiles, machine.stick_bytes) == (32, 128)
    assert (machine.scratchpad_bytes, machine.pinnable_bytes) == (2097152, 1625344)
    assert machine.device_memory_bytes == 120259084288
    quad = load_architecture(QUAD).machine()
    assert (quad.tiles, quad.scratchpad_bytes, quad.pinnable_bytes) == (8, 262144, 258048)
    assert load_architecture("sample").machine().scratchpad_bytes == 1 << 20
    with pytest.raises(ArchitectureError, match="no device memory"):
        load_architecture(ktir.parse("ktdf_arch.device @d { exec_unit }")).machine()


@pytest.mark.parametrize(
    ("name", "registers"),
    [("sample", "SFU_REG"), ("spyre", "SFP_REG"), (str(QUAD), "VREG"), ("sample_h", None)],
)
def test_instructions_of_the_devices(name: str, registers: str | None) -> None:
    """Operations in structured bodies are mapped to instructions over registers, by patterns (reading 13)."""
    module = ktir.parse(
        f'ktdf_arch.device @{load_architecture(name).name} import("{name}")\n'
        """func.func @f(%a: tensor<8xf16>, %c: f16) -> (tensor<8xf16>, f16) {
  %outside = math.exp %c : f16
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%x: f16, %o: f16):
    %p = math.exp %x : f16
    %q = arith.divf %p, %x : f16
    %s = arith.addf %q, %x : f16
    %t = math.fma %s, %q, %x : f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  return %r, %outside : tensor<8xf16>, f16
}"""
    )
    ktir.verify(module)
    after = apply_device_patterns(module, ("pre_scheduling",))
    ktir.verify(after)
    mapped = {op.name for op in after.walk() if "ktdf_arch.maps_to" in op.attributes}
    assert mapped == ({"math.exp", "arith.divf", "math.fma"} if registers else set())
    assert ktir.print_module(after).count("ktdf_arch.maps_to") == (3 if registers else 0)
    if registers:
        assert f'ktdf_arch.maps_to = "{registers}"' in ktir.print_module(after)
        assert apply_device_patterns(after, ("pre_scheduling",)) is after
    assert apply_device_patterns(module, ("post_scheduling",)) is module
