"""Random devices: text round trips, views against brute force, and hostile text."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import ktir
from dfsched import Architecture, DfschedError, load_architecture
from dfsched.architecture import (
    Access,
    AddressBuffer,
    DeviceBuilder,
    Endpoint,
    Features,
    GroupBuilder,
    MemoryTracker,
    Queue,
    RegisterFile,
    Simd,
    Transfer,
)
from dfsched.architecture.writer import device_text
from dfsched.commands.device import describe, dot
from dfsched.errors import AddressError
from dfsched.patterns import CHECKPOINTS, apply_device_patterns
from ktir.attributes import IntegerAttr, StringAttr

SEEDS = st.integers(0, 2**32 - 1)


def random_features(rng: random.Random, what: str) -> Features:
    def transfer() -> Transfer | None:
        if rng.random() < 0.5:
            return None
        sizes = {kind: rng.choice((1, 2, 64)) for kind in rng.sample("ABC", rng.randrange(3))}
        accesses = {
            kind: tuple(Access(rng.randrange(1, 9), rng.randrange(1, 9)) for _ in range(rng.randrange(3)))
            for kind in rng.sample("ABC", rng.randrange(3))
        }
        return Transfer(sizes, accesses)

    def maybe(value: object) -> object:
        return value if rng.random() < 0.5 else None

    match what:
        case "unit":
            lanes = {
                name: rng.randrange(1, 65)
                for name in rng.sample(["f16", "df16", "f32", "i8", "si4"], rng.randrange(4))
            }
            simd = Simd(lanes, rng.random() < 0.5, rng.random() < 0.5) if rng.random() < 0.5 else None
            return Features(
                rng.random() < 0.3, transfer(), transfer(), simd, foreign=(("x.y", IntegerAttr(3)),)
            )
        case "link":
            queue = Queue(rng.random() < 0.5, maybe(rng.randrange(1, 99)), maybe(rng.randrange(1, 99)))  # type: ignore[arg-type]
            return Features(queue=queue) if rng.random() < 0.7 else Features()
        case _:
            buffer = AddressBuffer(rng.randrange(1, 9), "si32") if rng.random() < 0.2 else None
            registers = RegisterFile(maybe(rng.randrange(1, 9))) if rng.random() < 0.3 else None  # type: ignore[arg-type]
            return Features(address_buffer=buffer, register_file=registers)


def random_device(seed: int) -> Architecture:
    """A device with nested groups, captures, yields, switches and links; kinds repeat."""
    rng = random.Random(seed)
    device = DeviceBuilder(
        "random",
        version=rng.choice((None, 3)),
        cores=rng.choice((32, 7)),
    )
    number = itertools.count()

    def name() -> str | None:
        return f"id{next(number)}" if rng.random() < 0.2 else None

    def fill(scope: DeviceBuilder | GroupBuilder, memories: list[Endpoint], depth: int) -> list[Endpoint]:
        memories, units = list(memories), []
        for _ in range(rng.randrange(1, 6)):
            match rng.randrange(4 if depth < 3 else 3):
                case 0:
                    size = rng.choice((None, rng.randrange(1, 1 << 20)))
                    reserved = 0 if size is None else rng.randrange(size)
                    bandwidth = rng.choice((None, Fraction(rng.randrange(1, 99), rng.randrange(1, 9))))
                    memories.append(
                        scope.memory(
                            rng.choice("ABC"),
                            id=name(),
                            size=size,
                            reserved=reserved,
                            bandwidth=bandwidth,
                            features=random_features(rng, "memory"),
                        )
                    )
                case 1:
                    kind = rng.choice(("U", "V", "W", None))
                    attributes = (("foo.bar", StringAttr("x")),) if rng.random() < 0.3 else ()
                    units.append(
                        scope.unit(
                            kind,
                            id=name(),
                            features=random_features(rng, "unit"),
                            attributes=attributes,
                            double_buffer_last=rng.random() < 0.3,
                        )
                    )
                case 2:
                    count = rng.randrange(1, 4)
                    matrix = [[rng.random() < 0.7 for _ in range(count)] for _ in range(count)]
                    units.extend(scope.switch(count, rng.choice((None, matrix))))
                case _:
                    shared = rng.sample(memories, rng.randrange(len(memories) + 1))
                    with scope.group(rng.choice(("G", "H", None)), shared, id=name()) as group:
                        inside = fill(group, shared, depth + 1)
                        switches = (
                            Endpoint(r.index, p)
                            for r in device.resources
                            if r.mnemonic == "switch"
                            for p in range(9)
                        )
                        known = set(switches)
                        inside = [value for value in inside if value not in known]
                        group.release(*rng.sample(inside, rng.randrange(len(inside) + 1)))
                    units.extend(group.results)
        ends = memories + units
        for _ in range(rng.randrange(6) if ends else 0):
            source, target = rng.choice(ends), rng.choice(ends)
            if device.resolve(source) != device.resolve(target):
                scope.datapath(
                    source,
                    target,
                    id=name(),
                    granularity=rng.choice((None, (64, 2))),
                    bandwidth=rng.choice((None, 128, Fraction(3, 2))),
                    features=random_features(rng, "link"),
                )
        return units

    fill(device, [], 0)
    built = device.build()
    known = {memory.kind for memory in built.memories}
    mapping = tuple((space, kind) for space, kind in (("s", "A"), ("t", "B")) if kind in known)
    return evolve(built, mem_space_mapping=mapping)


@pytest.mark.sweep(default=25, full=1000)
@given(SEEDS)
def test_text_round_trip(seed: int) -> None:
    """Architecture -> text -> architecture is the identity, in both forms (checklist V14)."""
    architecture = random_device(seed)
    text = device_text(architecture)
    module = ktir.parse(text)
    ktir.verify(module)
    again = load_architecture(module)
    assert again == architecture
    assert again.digest == architecture.digest
    generic = ktir.parse(ktir.print_module(module, generic=True))
    ktir.verify(generic)
    assert load_architecture(generic) == architecture
    assert describe(again) == describe(architecture)
    assert dot(again).count("->") == len(architecture.datapaths)


def shortest(edges: list[tuple[int, int]], source: int, target: int, count: int) -> int | None:
    """Hops by relaxing all edges."""
    distance = {source: 0}
    for _ in range(count):
        for a, b in edges:
            if a in distance and distance.get(b, 1 << 30) > distance[a] + 1:
                distance[b] = distance[a] + 1
    return distance.get(target)


@pytest.mark.sweep(default=100, full=2000)
@given(SEEDS)
def test_paths_against_relaxation(seed: int) -> None:
    """Paths are connected, start and end right, and have the fewest hops (checklist V39, V40)."""
    graph = random_device(seed).routing
    edges = [(e.source, e.target) for e in graph.edges]
    rng = random.Random(seed)
    for _ in range(10 if graph.nodes else 0):
        a, b = rng.randrange(len(graph.nodes)), rng.randrange(len(graph.nodes))
        path = graph.shortest_path(a, b)
        expected = shortest(edges, a, b, len(graph.nodes))
        assert (None if path is None else len(path) - 1) == expected
        if path is not None:
            assert (path[0], path[-1]) == (a, b)
            assert all(pair in edges for pair in itertools.pairwise(path))


@pytest.mark.sweep(default=100, full=2000)
@given(SEEDS)
def test_memory_tree_paths(seed: int) -> None:
    """A path goes up to the nearest common ancestor and down; depths follow parents (checklist V43)."""
    tree = random_device(seed).memory_tree

    def ancestry(node: int) -> list[int]:
        parent = tree.nodes[node].parent
        return [node] if parent is None else [node, *ancestry(parent)]

    for a, b in itertools.product(range(len(tree.nodes)), repeat=2):
        path = tree.path(a, b)
        common = [n for n in ancestry(a) if n in ancestry(b)]
        if not common:
            assert path == ()
            continue
        assert path[0] == a
        assert path[-1] == b
        assert len(path) == ancestry(a).index(common[0]) + ancestry(b).index(common[0]) + 1
        assert tree.is_descendant(a, b) == (b in ancestry(a)[1:])
    for node in tree.nodes:
        assert tree.depth(node.id) == len(ancestry(node.id)) - 1
        assert node.id in tree.at_depth(tree.depth(node.id))


@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from((1, 2, 64, 128))), max_size=12), SEEDS)
def test_tracker_places_buffers_apart(requests: list[tuple[int, int]], seed: int) -> None:
    """Buffers are aligned, disjoint, off the pinned ranges and inside the memory (checklist V52)."""
    rng = random.Random(seed)
    device = DeviceBuilder("d")
    device.memory("M", size=1500)
    low = rng.randrange(1500)
    pinned = [(low, min(1500, low + rng.randrange(1, 200)))]
    tracker = MemoryTracker(device.build(), {"M": pinned})
    taken = list(pinned)
    for size, alignment in requests:
        try:
            address = tracker.allocate("M", size, alignment)
        except AddressError:
            continue
        assert address % alignment == 0
        assert address + size <= 1500
        assert all(address + size <= a or b <= address for a, b in taken)
        taken.append((address, address + size))


def mutate(text: str, rng: random.Random) -> str:
    """A few small damages."""
    for _ in range(rng.randrange(1, 4)):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        end = min(end, at + rng.choice((1, 2, 10, 60)))
        match rng.randrange(5):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + text[at:end] * 2 + text[end:]
            case 2:
                text = text[:at] + rng.choice('{}[]()<>%@#"=,:!-0x1 \n\0\u00e9') + text[end:]
            case 3:
                words = text.split(" ")
                i, j = rng.randrange(len(words)), rng.randrange(len(words))
                words[i], words[j] = words[j], words[i]
                text = " ".join(words)
            case _:
                text = (
                    text[:at]
                    + rng.choice(("memory", "yield", "-1", "1 : i32", "unit", "%x", "@a", "f16"))
                    + text[end:]
                )
        if not text:
            return "?"
    return text


BODY = """
func.func @f(%a: tensor<8xf16>) -> tensor<8xf16> {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<8xf16>) outs(%a : tensor<8xf16>) {
  ^bb0(%x: f16, %o: f16):
    %p = math.exp %x : f16
    %q = arith.divf %p, %x : f16
    %t = math.fma %p, %q, %x : f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}
"""


@pytest.mark.sweep(default=80, full=5000)
@given(SEEDS)
def test_hostile_text(seed: int) -> None:
    """Damaged device files give located errors or a device whose views work, never a crash."""
    from importlib import resources

    rng = random.Random(seed)
    names = ("sample", "sample_h", "spyre")
    text = (resources.files("dfsched") / "devices" / f"{rng.choice(names)}.mlir").read_text()
    start = text.find("  patterns") if rng.random() < 0.5 else 0
    damaged = text[: max(start, 0)] + mutate(text[max(start, 0) :], rng)
    try:
        module = ktir.parse(damaged)
        ktir.verify(module)
        architecture = load_architecture(module)
        describe(architecture)
        dot(architecture)
        program = ktir.parse(BODY)
        apply_device_patterns(program, CHECKPOINTS, device=architecture)
    except (ktir.KtirError, DfschedError):
        return
