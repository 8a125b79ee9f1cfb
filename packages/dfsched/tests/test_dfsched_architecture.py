"""`Architecture` and its views on devices built in Python, independent of the text form."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.architecture import (
    Access,
    AddressBuffer,
    Architecture,
    DeviceBuilder,
    Endpoint,
    Features,
    MemoryTracker,
    NodeClass,
    Queue,
    Scope,
    Simd,
    Transfer,
    Unit,
    fit_access,
)
from dfsched.architecture.ids import ResourceIds
from dfsched.architecture.lint import lint
from dfsched.errors import AddressError, ArchitectureError, RouteError

LOAD = Features(load=Transfer())
STORE = Features(store=Transfer())
FIFO = Features(queue=Queue(ordered=True, depth=16))


def sample(blocks: bool) -> Architecture:
    """The upstream sample device: plain, or (``blocks``) with its DMA units in groups of their own."""
    device = DeviceBuilder("sample_device")
    ddr = device.memory("DDR", size=1 << 30)
    with device.group("core", share=[ddr]) as core:
        l1 = core.memory("L1", size=1 << 20)

        def dma(kind: str, features: Features) -> Endpoint:
            if not blocks:
                return core.unit(kind, features=features, double_buffer_last=True)
            with core.group(f"{kind}_Block") as block:
                block.memory("IAB", features=Features(address_buffer=AddressBuffer(32, "si32")))
                block.release(block.unit(kind, features=features, double_buffer_last=True))
            return block.results[0]

        sizes = {"DDR": 64, "L1": 64}
        words = {"DDR": (Access(1),), "L1": (Access(1),)}
        mnilu = dma("MNILU", Features(load=Transfer(sizes, words)))
        mnisu = dma("MNISU", Features(store=Transfer(sizes, words)))
        for a, b in ((ddr, mnilu), (mnilu, l1), (l1, mnisu), (mnisu, ddr)):
            core.datapath(a, b, granularity=[64])
        for _ in range(2):
            with core.group(share=[l1]) as sub:
                with sub.group("SFU_Block") as block:
                    block.memory("SFU_REG", size=2048)
                    block.release(block.unit("SFU", features=Features(compute=True, simd=Simd({"f16": 64}))))
                sfu = block.results[0]
                pair = (Access(64, 64), Access(2, 2))
                l1lu = sub.unit(
                    "L1LU", features=Features(load=Transfer({}, {"L1": pair}), simd=Simd(splat=True))
                )
                l1su = sub.unit("L1SU", features=Features(store=Transfer({}, {"L1": pair})))
                sub.datapath(l1, l1lu, features=FIFO)
                sub.datapath(l1lu, sfu, features=FIFO, granularity=[64, 2])
                sub.datapath(sfu, l1su, features=FIFO, granularity=[64, 2])
                sub.datapath(l1su, l1, features=FIFO)
    return device.build()


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "blocks"])
def device(request: pytest.FixtureRequest) -> Architecture:
    return sample(request.param)


def _edges(device: Architecture) -> list[tuple[int, int]]:
    return [(edge.source, edge.target) for edge in device.routing.edges]


def test_routing_graph_plain() -> None:
    """Ids, classes and edges of the plain sample device (checklist V38, V42)."""
    graph = sample(False).routing
    assert [(n.kind, n.node_class) for n in graph.nodes] == [
        ("DDR", NodeClass.MEMORY),
        ("L1", NodeClass.MEMORY),
        ("MNILU", NodeClass.LOAD_STORE),
        ("MNISU", NodeClass.LOAD_STORE),
        ("SFU_REG", NodeClass.MEMORY),
        ("SFU", NodeClass.COMPUTE),
        ("L1LU", NodeClass.LOAD_STORE),
        ("L1SU", NodeClass.LOAD_STORE),
        ("SFU_Block", NodeClass.COMPUTE),
        ("L1LU", NodeClass.LOAD_STORE),
        ("L1SU", NodeClass.LOAD_STORE),
    ]
    assert _edges(sample(False)) == [
        (0, 2), (2, 1), (1, 3), (3, 0), (1, 6), (6, 5), (5, 7), (7, 1), (1, 9), (9, 8), (8, 10), (10, 1),
    ]  # fmt: skip


def test_routing_graph_blocks() -> None:
    """Ids and edges of the sample device with DMA blocks (checklist V38)."""
    device = sample(True)
    assert [n.kind for n in device.routing.nodes] == [
        "DDR", "L1", "IAB", "MNILU", "IAB", "MNISU", "SFU_REG", "SFU", "L1LU", "L1SU",
        "SFU_Block", "L1LU", "L1SU",
    ]  # fmt: skip
    assert _edges(device) == [
        (0, 3), (3, 1), (1, 5), (5, 0), (1, 8), (8, 7), (7, 9), (9, 1), (1, 11), (11, 10), (10, 12), (12, 1),
    ]  # fmt: skip


def test_routes(device: Architecture) -> None:
    """Shortest routes by kind (checklist V39)."""

    def kinds(a: str, b: str) -> list[object] | None:
        route = device.route(a, b)
        return None if route is None else list(route.kinds)

    assert kinds("DDR", "SFU") == ["DDR", "MNILU", "L1", "L1LU", "SFU"]
    assert kinds("SFU", "DDR") == ["SFU", "L1SU", "L1", "MNISU", "DDR"]
    assert kinds("L1", "SFU") == ["L1", "L1LU", "SFU"]
    assert kinds("DDR", "L1") == ["DDR", "MNILU", "L1"]
    assert kinds("DDR", "DDR") == ["DDR"]
    assert kinds("DDR", "SFU_REG") is None
    assert kinds("DDR", "nowhere") is None
    full = device.routing.full_route(["DDR", "SFU", "DDR"])
    assert list(full.kinds) == ["DDR", "MNILU", "L1", "L1LU", "SFU", "L1SU", "L1", "MNISU", "DDR"]
    assert full.cost == 8
    assert list(full.movers) == ["MNILU", "L1LU", "L1SU", "MNISU"]
    with pytest.raises(RouteError, match="no datapaths lead there"):
        device.routing.full_route(["DDR", "SFU_REG"])
    with pytest.raises(RouteError, match="the device has no X"):
        device.routing.full_route(["X", "DDR"])


def test_earlier_datapath_wins() -> None:
    """Of two equally long routes the earlier-written one is taken (checklist V40)."""
    for first, second in (("A", "B"), ("B", "A")):
        device = DeviceBuilder("d")
        source, target = device.memory("S"), device.memory("T")
        units = [device.unit(kind, features=LOAD) for kind in (first, second)]
        for unit in units:
            device.datapath(source, unit)
        for unit in reversed(units):
            device.datapath(unit, target)
        route = device.build().route("S", "T")
        assert route is not None
        assert route.kinds == ("S", first, "T")


def test_load_with_compute_is_a_mover() -> None:
    """A unit with load and compute routes as a mover and is still the compute kind (checklist V41)."""
    device = DeviceBuilder("d")
    device.unit("U", features=Features(compute=True, load=Transfer()))
    built = device.build()
    assert built.routing.nodes[0].node_class is NodeClass.LOAD_STORE
    assert built.compute_kind == "U"


def test_routing_text() -> None:
    """The golden text form of the routing graph."""
    device = DeviceBuilder("d")
    memory = device.memory("M", size=128, reserved=28)
    unit = device.unit("U", features=LOAD)
    device.datapath(memory, unit)
    assert str(device.build().routing) == (
        "RoutingGraph {\n"
        "  Nodes:\n"
        '    - 0: "M" [Memory] (capacity=128 bytes, reserved=28 bytes)\n'
        '    - 1: "U" [LoadStoreUnit]\n'
        "  Edges:\n"
        '    - 0: "M" -> 1: "U" [cost=1]\n'
        "}"
    )


def test_memory_tree(device: Architecture) -> None:
    """Depths, classes and capacities (checklist V43, V44)."""
    tree = device.memory_tree
    depth = {node.kind: tree.depth(node.id) for node in tree.nodes}
    assert (depth["DDR"], depth["L1"], depth["SFU_REG"]) == (0, 1, 2)
    assert device.is_global("DDR")
    assert not device.is_global("L1")
    assert device.is_per_core_scratchpad("L1")
    assert device.is_below_scratchpad("SFU_REG")
    assert not device.is_below_scratchpad("L1")
    assert tree.capacity("L1") == tree.available("L1") == 1 << 20
    assert tree.capacity("nothing") is None
    l1, ddr, register = (tree.find(kind) for kind in ("L1", "DDR", "SFU_REG"))
    assert l1 is not None
    assert ddr is not None
    assert register is not None
    assert tree.path(register, ddr) == (register, l1, ddr)
    assert tree.path(l1, register) == (l1, register)
    assert tree.path(l1, l1) == (l1,)
    assert tree.is_descendant(register, ddr)
    assert not tree.is_descendant(ddr, ddr)


def test_memory_parent_through_two_groups() -> None:
    """A memory captured through two groups is still the parent (compatibility choice of 3.2)."""
    device = DeviceBuilder("d")
    outer = device.memory("OUT")
    with device.group(share=[outer]) as one, one.group(share=[outer]) as two:
        two.memory("IN")
    tree = device.build().memory_tree
    assert tree.depth(1) == 1
    assert str(tree) == 'Memory Hierarchy Tree:\n  - "OUT"\n    - "IN"'


def test_local_memory(device: Architecture) -> None:
    """Group-local memories (checklist V45)."""
    assert device.local_memory("SFU") == "SFU_REG"
    assert device.local_memory("L1LU") is None
    blocks = device.resource("IAB") is not None
    assert device.local_memory("MNILU") == ("IAB" if blocks else "L1")


def test_local_memory_is_an_intersection() -> None:
    """Two memories beside a unit, or a second group without the memory, give nothing (checklist V45)."""
    device = DeviceBuilder("d")
    for memories in (("A", "B"), ("B",)):
        with device.group() as group:
            for kind in memories:
                group.memory(kind)
            group.unit("U")
    assert device.build().local_memory("U") == "B"
    with device.group() as group:
        group.unit("U")
    assert device.build().local_memory("U") is None


def test_compute_kind(device: Architecture) -> None:
    """The compute kind; several kinds are an error, none gives none (checklist V46)."""
    assert device.compute_kind == "SFU"
    two = DeviceBuilder("d")
    two.unit("A", features=Features(compute=True))
    assert two.build().compute_kind == "A"
    two.unit("B", features=Features(compute=True))
    with pytest.raises(ArchitectureError, match="found second compute resource"):
        _ = two.build().compute_unit
    assert [u.kind for u in two.build().compute_units] == ["A", "B"]
    assert DeviceBuilder("e").build().compute_unit is None


def test_links(device: Architecture) -> None:
    """Links are followed through wrapper groups (checklist V47, V48, V49)."""
    link = device.incoming("SFU")
    assert link is not None
    assert device.node(link.source).kind == "L1LU"
    assert device.incoming("L1") is None
    assert len(device.links_between("L1", "MNISU")) == 1
    assert device.links_between("MNISU", "L1") == ()
    assert device.reads("MNILU") == ("DDR",)
    assert device.writes("L1SU") == ("L1",)
    assert device.shared_memories("MNILU", "L1LU") == ("L1",)
    assert device.shared_memories("L1LU", "SFU") == ()
    assert device.movers("DDR", "L1") == ("MNILU",)
    assert device.movers("L1", "DDR") == ("MNISU",)
    assert device.movers("DDR", "DDR") == ()
    assert device.operand_memories("SFU") == ("L1",)
    assert device.result_memories("SFU") == ("L1",)
    assert device.queue("L1LU", "SFU").depth == 16


def test_instances(device: Architecture) -> None:
    """Instance counts (checklist V51)."""
    instances = device.instances_for(["L1LU", "SFU", "L1SU"])
    assert instances is not None
    assert instances.count == 2
    assert device.instances_for(["SFU"]) is not None
    assert device.instances_for(["MNILU"]) is None
    assert device.instances_for(["MNILU", "SFU"]) is None
    assert device.instances_for(["unknown"]) is None


def test_no_distribution_over_cores() -> None:
    """Groups directly in the device are never instances of each other (checklist V71)."""
    device = DeviceBuilder("d")
    for _ in range(4):
        with device.group("core") as core:
            core.unit("DMA", features=LOAD)
    assert device.build().instances_for(["DMA"]) is None


def test_scopes_and_private_memories(device: Architecture) -> None:
    """Memory identity: per device, core or corelet; register files are private (reading 10)."""
    assert device.scope("DDR") is Scope.DEVICE
    assert device.scope("L1") is Scope.CORE
    assert device.scope("SFU_REG") is Scope.CORELET
    assert device.scope("SFU") is Scope.CORELET
    assert device.scope("MNILU") is Scope.CORE
    assert device.is_private("SFU_REG")
    assert not device.is_private("L1")
    if device.is_memory("IAB"):
        assert device.is_address_buffer("IAB")
        assert not device.is_private("IAB")
        assert not device.is_per_core_scratchpad("IAB")


def test_exemplars_of_the_plain_device() -> None:
    """Exemplars in post-order; "no kind" is one entry (device spec 2.3)."""
    assert list(sample(False).exemplars) == [
        "DDR", "L1", "MNILU", "MNISU", None, "SFU_REG", "SFU", "SFU_Block", "L1LU", "L1SU", "core",
    ]  # fmt: skip
    assert sample(False).ancestors("SFU") == ("SFU_Block", "core")


def test_vector_length(device: Architecture) -> None:
    """Lanes per type, the minimum over types, 1 for an unsupported type (checklist V72, reading 17)."""
    assert device.lanes("f16") == 64
    assert device.lanes("f32") == 0
    assert device.vector_length(["f16"]) == 64
    assert device.vector_length(["f16", "f32"]) == 1
    simd = DeviceBuilder("d")
    simd.unit("V", features=Features(compute=True, simd=Simd({"f16": 64, "f32": 32})))
    assert simd.build().vector_length(["f16", "f32"]) == 32


def test_fit_access() -> None:
    """Choosing an access (checklist V25)."""
    accesses = [Access(64, 64), Access(2, 2)]
    assert fit_access(accesses, 2) == Access(2, 2)
    assert fit_access(accesses, 3) == Access(64, 64)
    assert fit_access(accesses, 65) is None
    assert fit_access(accesses, 3, 2) is None


def test_tracker() -> None:
    """Bump allocation with alignment, capacity and pinned ranges (checklist V52)."""
    tracker = MemoryTracker(sample(False))
    assert [tracker.allocate("L1", elements * 2) for elements in (128, 64, 32)] == [0, 256, 384]
    assert tracker.allocate("L1", 1, alignment=128) == 512
    with pytest.raises(AddressError, match="capacity 1048576 bytes, 513 bytes already allocated"):
        tracker.allocate("L1", (1 << 20) - 512)
    assert tracker.allocate("L1", (1 << 20) - 513) == 513
    pinned = MemoryTracker(sample(False), {"L1": [(100, 200), (300, 400)]})
    assert pinned.allocate("L1", 100) == 0
    assert pinned.allocate("L1", 100) == 200
    assert pinned.allocate("L1", 1) == 400
    with pytest.raises(AddressError, match="has no size"):
        MemoryTracker(_sizeless()).allocate("M", 1)


def _sizeless() -> Architecture:
    device = DeviceBuilder("d")
    device.memory("M")
    return device.build()


def test_switch_routes() -> None:
    """Switches route by their connectivity and do not show in routes."""
    device = DeviceBuilder("d")
    memory, other = device.memory("M"), device.memory("N")
    load, store = device.unit("LU", features=LOAD), device.unit("SU", features=STORE)
    device.datapath(memory, load)
    device.datapath(store, other)
    ports = device.switch(3, [[False, True, False], [False, False, False], [False, True, True]])
    device.datapath(load, ports[0], bandwidth=64)
    device.datapath(ports[1], store, bandwidth=Fraction(1, 2))
    device.datapath(ports[2], load)
    built = device.build()
    route = built.route("M", "N")
    assert route is not None
    assert route.kinds == ("M", "LU", "SU", "N")
    assert route.bandwidth == Fraction(1, 2)
    assert [u.kind for u in built.successors("LU")] == ["SU"]
    assert [u.kind for u in built.predecessors("SU")] == ["LU"]
    blocked = DeviceBuilder("d")
    memory, unit = blocked.memory("M"), blocked.unit("U")
    a, b = blocked.switch(2, [[False, False], [True, False]])
    blocked.datapath(memory, a)
    blocked.datapath(b, unit)
    assert blocked.build().route("M", "U") is None


def test_scoping_errors() -> None:
    """Values are visible where the language says (checklist V9, V14, ids V12)."""
    device = DeviceBuilder("d")
    memory = device.memory("M", id="m")
    with device.group() as group:
        unit = group.unit("U")
        with pytest.raises(ArchitectureError, match="not visible"):
            group.datapath(memory, unit)
        with pytest.raises(ArchitectureError, match='resource with id "m" redefined'):
            group.unit("V", id="m")
        group.release(unit)
    with pytest.raises(ArchitectureError, match="not visible"):
        device.datapath(memory, unit)
    (outer,) = group.results
    with pytest.raises(ArchitectureError, match="can't link resource to itself"):
        device.datapath(outer, outer)
    link = device.datapath(memory, outer)
    node = device.build().node(link.target)
    assert isinstance(node, Unit)
    assert node.kind == "U"
    with pytest.raises(ArchitectureError, match=r"size must be in 1\.\..*, but is 0"):
        device.memory("Z", size=0)


def test_digest() -> None:
    """Equal descriptions have equal digests; any number changes it."""
    assert sample(True).digest == sample(True).digest
    assert sample(True) == sample(True)
    assert sample(True).digest != sample(False).digest
    one, two = DeviceBuilder("d"), DeviceBuilder("d")
    one.memory("M", size=1)
    two.memory("M", size=2)
    assert one.build().digest != two.build().digest


def test_resource_ids() -> None:
    """Given and assigned ids (checklist V50)."""
    device = DeviceBuilder("d")
    for id in (None, "exec_unit_1", None, None):
        device.unit(id=id)
    memory = device.memory("M")
    built = device.build()
    ids = ResourceIds(built)
    assert [ids.get_or_assign(unit) for unit in built.units] == [
        "exec_unit", "exec_unit_1", "exec_unit_2", "exec_unit_3",
    ]  # fmt: skip
    first, second = built.units[:2]
    assert ids.lookup("exec_unit") is first
    assert ids.get_or_assign(built.node(memory)) == "M"
    assert not ids.assign(first, "exec_unit_1")
    assert ids.assign(first, "exec_unit")
    assert ids.assign(first, "renamed")
    assert ids.lookup("exec_unit") is None
    assert ids.assign_fresh(second, "exec_unit_1") == "exec_unit_1"
    assert ids.assign(second, None)
    assert ids.id_of(second) is None
    foreign = sample(False).units[0]
    assert not ids.assign(foreign, "x")
    assert ids.get_or_assign(foreign) is None
    assert built.ids.keys() == {"exec_unit_1"}


def test_lint() -> None:
    """Legal but doubtful descriptions are remarked on."""
    assert lint(sample(True)) == ()
    device = DeviceBuilder("d")
    memory, other = device.memory("low"), device.memory("M", size=1)
    device.memory("M", size=2)
    device.datapath(memory, other)
    device.unit("C", features=Features(compute=True, load=Transfer()))
    device.unit("D", features=Features(compute=True))
    text = "\n".join(lint(device.build()))
    for key in (
        "kind 'low' is not in upper case", "kind 'M' differ", "several compute kinds (C, D)", "also loads or stores",
        "no unique incoming link", "no unique outgoing link", "linked directly to memory",
    ):  # fmt: skip
        assert key in text
    assert "nothing can be scheduled" in lint(DeviceBuilder("d").build())[0]


def test_endpoints_through_two_levels() -> None:
    """A captured argument is the memory, a group's result the unit, at any depth (checklist V49)."""
    device = DeviceBuilder("d")
    memory = device.memory("M")
    with device.group(share=[memory]) as outer:
        with outer.group(share=[memory]) as inner:
            unit = inner.unit("U", features=LOAD)
            inner.datapath(memory, unit)
            inner.release(unit)
        outer.release(*inner.results)
    device.datapath(outer.results[0], memory)
    built = device.build()
    first, second = built.datapaths
    assert built.endpoint(second.source) == unit
    assert built.node(first.source).kind == built.node(second.target).kind == "M"
    assert built.links_between("M", "U") == (first,)
    assert built.links_between("U", "M") == (second,)
    assert built.enclosing_group(["U"]) is None
    route = built.route("M", "U")
    assert route is not None
    assert route.cost == 1


def test_every_result_of_a_group_is_its_own_unit() -> None:
    """Results are released in order, in the text as in Python (checklist V49)."""
    device = dfsched.load_architecture(
        ktir.parse("""ktdf_arch.device @d {
          %m = memory {kind = "M"}
          %u, %v = group share(%m) {
            %x = exec_unit {kind = "X", ktdf_arch.features = {ktdf_arch.feature.load = {}}}
            %y = exec_unit {kind = "Y", ktdf_arch.features = {ktdf_arch.feature.load = {}}}
            yield %x, %y
          } -> exec_unit, exec_unit
          datapath %m to %v : memory, exec_unit
        }""")
    )
    assert len(device.links_between("M", "Y")) == 1
    assert device.links_between("M", "X") == ()


def test_the_shortest_route_is_taken() -> None:
    """Fewest hops, however many other ways there are and wherever they stand (checklist V40)."""
    for order in (("short", "long"), ("long", "short")):
        device = DeviceBuilder("d")
        a, b, c = (device.memory(kind) for kind in "ABC")
        units = {kind: device.unit(kind, features=LOAD) for kind in ("U", "V", "W")}
        ways = {
            "short": [(a, units["W"]), (units["W"], c)],
            "long": [(a, units["U"]), (units["U"], b), (b, units["V"]), (units["V"], c)],
        }
        for name in order:
            for source, target in ways[name]:
                device.datapath(source, target)
        route = device.build().route("A", "C")
        assert route is not None
        assert route.kinds == ("A", "W", "C")


@given(
    st.lists(st.builds(Access, st.integers(1, 9), st.integers(1, 9)), max_size=6),
    st.integers(1, 10),
    st.none() | st.integers(1, 10),
)
def test_fit_access_against_brute_force(accesses: list[Access], size: int, align: int | None) -> None:
    """The smallest size that fits, then the smallest alignment (checklist V24, V25)."""
    fitting = [
        (a.size_in_words, a.align_in_words)
        for a in accesses
        if a.size_in_words >= size and (align is None or a.align_in_words <= align)
    ]
    found = fit_access(accesses, size, align)
    assert (None if found is None else (found.size_in_words, found.align_in_words)) == min(
        fitting, default=None
    )


def test_unit_tags() -> None:
    """Kinds survive the way through lower-case tags (checklist V74)."""

    device = dfsched.load_architecture("spyre")
    tags = {str(r.kind).lower() for r in (*device.memories, *device.units)}
    assert tags >= {"hbm", "lx", "mnilu", "mnisu", "lxlu", "lxsu", "sfp", "sfp_reg"}
    assert all(device.resource(tag.upper()) is not None for tag in tags)
