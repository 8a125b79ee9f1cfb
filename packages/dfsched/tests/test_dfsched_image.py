"""The device image: bytes and model are one to one, and hostile bytes are refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfsched import image as im
from dfsched.image.fields import Bits, Choice, Role
from dfsched.image.instructions import PLACED_FIELDS

I64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-1000, 1000)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=8)
ELEMENTS = st.sampled_from(im.ElementType)
STRUCTURE = (im.Halt, im.For, im.EndFor, im.Branch, im.BranchIfZero, im.Launch)
STRAIGHT = tuple(cls for cls in im.INSTRUCTIONS if cls not in STRUCTURE)
SCALAR = (im.LoadImmediate, im.LoadColumn, im.Move, im.ScalarBinary, im.ScalarCompare, im.ScalarSelect)


def unique(names: st.SearchStrategy[str], count: int) -> st.SearchStrategy[list[str]]:
    return st.lists(names, min_size=count, max_size=count, unique=True)


@st.composite
def sides(
    draw: st.DrawFn, times: int, scalars: int, element: im.ElementType, box: tuple[int, ...]
) -> im.Side:
    rank = len(box)
    registers = draw(st.lists(st.integers(0, scalars - 1), max_size=2))
    row = lambda n: st.tuples(*[SMALL] * n)  # noqa: E731
    lanes: Any = im.BoxLanes(box, tuple(draw(st.permutations(range(rank)))))
    if draw(st.booleans()):
        lanes = im.ExplicitLanes(tuple(lanes.points()))
    return im.Side(
        element,
        tuple(registers),
        draw(row(rank)),
        tuple(draw(row(len(registers))) for _ in range(rank)),
        tuple(draw(row(times)) for _ in range(rank)),
        lanes,
    )


@st.composite
def generators(draw: st.DrawFn, kind: im.GeneratorKind, scalars: int) -> im.AddressGenerator:
    dma = kind is im.GeneratorKind.DMA
    times = draw(st.integers(0, 2)) if dma else 0
    element = draw(ELEMENTS)
    box = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    return im.AddressGenerator(
        kind,
        tuple(draw(sides(times, scalars, element, box)) for _ in range(2 if dma else 1)),
        tuple(draw(st.integers(1, 5)) for _ in range(times)),
    )


@st.composite
def instructions(
    draw: st.DrawFn,
    classes: tuple[type[im.Instruction], ...],
    limits: dict[Role, int],
    by_kind: dict[Any, list[int]],
) -> im.Instruction:
    """A straight-line instruction whose references are below `limits`."""

    def number(bits: Bits, role: Role, kind: type[Any], name: str) -> Any:
        if kind is bool:
            return draw(st.booleans())
        if kind is not int:
            return draw(st.sampled_from(kind))
        if role is Role.GENERATOR:
            return draw(st.sampled_from(by_kind[cls]))
        if role is Role.LANES:
            return draw(st.integers(1, 128))
        if role in limits:
            return draw(st.integers(0, limits[role] - 1))
        low, high = (
            (-(1 << (bits.width - 1)), (1 << (bits.width - 1)) - 1)
            if bits.signed
            else (0, (1 << bits.width) - 1)
        )
        return draw(st.integers(low, high))

    cls = draw(st.sampled_from(classes))
    values: dict[str, Any] = {"op": draw(st.sampled_from(im.ScalarOp))} if cls is im.ScalarBinary else {}
    for item in PLACED_FIELDS[cls]:
        where = item.spec.where
        if item.present is not None and draw(st.booleans()):
            values[item.name] = None
        elif isinstance(where, Choice):
            second = draw(st.booleans())
            # column 0 holds unit ids and column 1 memory ids in every table
            role = where.second_role if second else where.first_role
            kind = where.second if second else where.first
            bits = where.second_bits if second else where.first_bits
            values[item.name] = kind(
                1 if item.name == "memory" and second else number(bits, role, int, item.name)
            )
        elif item.spec.role is Role.UNIT_COLUMN:
            values[item.name] = 0
        else:
            values[item.name] = number(where, item.spec.role, item.spec.kind, item.name)
    return cls(**values)


@st.composite
def code(
    draw: st.DrawFn, body: st.SearchStrategy[im.Instruction], scalars: int, depth: int = 2
) -> list[im.Instruction]:
    """Straight-line code with loops and structured branches around it."""
    result: list[im.Instruction] = []
    register = st.integers(0, scalars - 1)
    for _ in range(draw(st.integers(0, 3))):
        shape = draw(st.sampled_from(["one", "for", "if", "else"])) if depth else "one"
        if shape == "one":
            result.append(draw(body))
            continue
        inner = draw(code(body, scalars, depth - 1))
        if shape == "for":
            span = len(inner) + 1
            step = draw(st.integers(1, 9))
            head = im.For(draw(register), draw(register), draw(register), step, span)
            result += [head, *inner, im.EndFor(-span)]
        elif shape == "if":
            result += [im.BranchIfZero(draw(register), len(inner) + 1), *inner]
        else:
            other = draw(code(body, scalars, depth - 1))
            result += [
                im.BranchIfZero(draw(register), len(inner) + 2),
                *inner,
                im.Branch(len(other) + 1),
                *other,
            ]
    return result


@st.composite
def images(draw: st.DrawFn) -> im.Image:
    """Any valid image (small)."""
    scalars, vectors, views = draw(st.integers(2, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    unit_names = draw(unique(NAMES, draw(st.integers(1, 4))))
    units = tuple(
        im.Unit(n, draw(NAMES), draw(st.integers(-1, 31)), draw(st.integers(-1, 1))) for n in unit_names
    )
    memories = tuple(
        im.Memory(
            n,
            draw(NAMES),
            cls,
            draw(st.integers(0, 31)),
            draw(st.integers(-1, 1)),
            size,
            draw(st.integers(0, size)),
        )
        for n, cls in zip(draw(unique(NAMES, 3)), im.MemoryClass, strict=True)
        for size in [draw(st.integers(1, 2**40))]
    )
    pairs = draw(st.lists(st.tuples(*[st.integers(0, len(units) - 1)] * 2), unique=True, max_size=3))
    fifos = tuple(im.Fifo(a, b, draw(st.integers(1, 64)), draw(st.integers(0, 4096))) for a, b in pairs)
    elements = [draw(ELEMENTS) for _ in range(2)]
    view_list = tuple(
        im.View(
            draw(ELEMENTS),
            shape,
            tuple(draw(I64) for _ in shape),
            draw(I64),
            draw(st.integers(1, 128)),
            draw(st.booleans()),
        )
        for shape in draw(
            st.lists(st.lists(st.integers(0, 99), max_size=3).map(tuple), min_size=1, max_size=2)
        )
    )
    agens = tuple(draw(generators(kind, scalars)) for kind in im.GeneratorKind)
    constants = tuple(
        im.Constant.of(e, draw(st.lists(st.integers(0, 2**e.bits - 1), min_size=1, max_size=5)))
        for e in elements
    )
    shuffles = (
        im.ShuffleDescriptor(
            draw(ELEMENTS),
            tuple(draw(st.lists(st.integers(-2, 63), min_size=1, max_size=4))),
            draw(st.integers(1, 8)),
            (0, 1),
            draw(st.none() | st.integers(0, vectors - 1)),
        ),
    )
    operand = st.builds(im.OpaqueOperand, NAMES, st.integers(0, 2**20), ELEMENTS, st.integers(1, 128))
    operands = st.lists(operand, max_size=2).map(tuple)
    parameters = st.dictionaries(NAMES, NAMES, max_size=2).map(lambda d: tuple(sorted(d.items())))
    opaques = (im.Opaque(draw(NAMES), 2, draw(operands), draw(operands), draw(parameters)),)
    limits = {
        Role.SCALAR: scalars, Role.SCALAR_DEF: scalars, Role.VECTOR: vectors, Role.VECTOR_DEF: vectors,
        Role.VIEW: views, Role.VIEW_DEF: views, Role.COLUMN: 3, Role.VIEW_DESCRIPTOR: len(view_list),
        Role.CONSTANT: len(constants), Role.SHUFFLE: 1, Role.OPAQUE: 1, Role.MEMORY: len(memories),
    }  # fmt: skip
    by_kind = {im.VectorLoad: [0], im.VectorStore: [1], im.Dma: [2]}
    body = instructions(STRAIGHT, limits, by_kind)
    symbols = tuple(
        im.Symbol(n, draw(st.integers(1, 128)), draw(st.none() | st.integers(0, 9)), draw(NAMES))
        for n in draw(
            st.lists(st.integers(-99, -1), unique=True, max_size=3).map(lambda ns: sorted(ns, reverse=True))
        )
    )
    cells: list[int] = []
    programs = []
    for name in draw(unique(NAMES, draw(st.integers(0, 2)))):
        unit_programs = []
        free = list(range(len(units)))
        while free and draw(st.booleans()):
            members, free = free[:2], free[2:]
            unit_programs.append(
                im.UnitProgram(
                    draw(NAMES), tuple(members), (*draw(code(body, scalars)), im.Halt()), len(cells), 3,
                    scalars, vectors, views, draw(st.sampled_from(["", "fp16"])),
                )
            )  # fmt: skip
            for _ in members:
                cells += [
                    draw(st.integers(0, len(units) - 1)),
                    draw(st.integers(0, len(memories) - 1)),
                    draw(I64),
                ]
        programs.append(im.Program(name, tuple(unit_programs), tuple(draw(st.lists(NAMES, max_size=2)))))
    main = instructions(SCALAR, {**limits, Role.COLUMN: 1 + len(symbols)}, {})
    launches = [im.Launch(draw(st.integers(0, len(programs) - 1)), 0)] if programs else []
    coordinator = im.Coordinator(
        (*draw(code(main, scalars)), *launches, im.Halt()), len(cells), 1 + len(symbols), scalars
    )
    cells.append(0)
    relocations = tuple(im.Relocation(len(cells) + slot, slot) for slot in range(len(symbols)))
    cells += [symbol.id for symbol in symbols]
    result = im.Image(
        draw(NAMES), draw(NAMES), draw(st.binary(min_size=32, max_size=32)).hex(), draw(st.integers(1, 32)),
        memories, units, fifos, tuple(programs), coordinator, tuple(cells), view_list, agens, constants,
        shuffles, opaques, symbols, relocations, draw(st.sampled_from(["ieee", "dlfloat"])),
    )  # fmt: skip
    lines = [(u, i) for u, p in enumerate(result.unit_programs) for i in range(len(p.code))]
    entries = draw(st.lists(st.sampled_from(lines), max_size=3)) if lines else []
    return attrs.evolve(
        result,
        debug=tuple(im.DebugEntry(u, i, draw(NAMES), draw(st.integers(0, 9999))) for u, i in entries),
        pinned=tuple(
            im.PinnedRange(draw(NAMES), low, low + size)
            for low, size in draw(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 9)), max_size=2))
        ),
        extra=tuple(
            im.ExtraSection("XTRA", draw(st.binary(max_size=9))) for _ in range(draw(st.integers(0, 1)))
        ),
    )


@pytest.mark.sweep(default=40, full=1000)
@given(images())
def test_encode_and_decode_are_a_bijection(image: im.Image) -> None:
    """checklist B1: decode(encode(x)) == x, and encoding again gives the same bytes."""
    assert list(im.problems(image)) == []
    data = im.encode(image)
    assert len(data) % 128 == 0
    decoded = im.decode(data)
    assert decoded == image
    assert im.encode(decoded) == data


@pytest.mark.sweep(default=60, full=5000)
@given(images(), st.data())
def test_a_changed_byte_is_refused_or_another_image(image: im.Image, data: st.DataObject) -> None:
    """checklist B6: any byte changed means an error or another valid image, never the same one."""
    good = im.encode(image)
    position = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[position] ^= data.draw(st.integers(1, 255))
    try:
        other = im.decode(flipped)
    except im.InvalidImage:
        return
    else:
        assert other != image
        assert im.encode(other) == bytes(flipped)


@pytest.mark.sweep(default=25, full=1000)
@given(images(), st.data())
def test_truncated_or_extended_bytes_are_refused(image: im.Image, data: st.DataObject) -> None:
    """checklist B6."""
    good = im.encode(image)
    with pytest.raises(im.InvalidImage, match="invalid DFBIN"):
        im.decode(good[: data.draw(st.integers(0, len(good) - 1))])
    with pytest.raises(im.InvalidImage, match="header says"):
        im.decode(good + bytes(data.draw(st.integers(1, 300))))


@given(st.binary(max_size=600))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(im.InvalidImage, match="invalid DFBIN"):
        im.decode(data)


def tiny(*code: im.Instruction, **changes: object) -> im.Image:
    """One unit, one unit program with the given code."""
    program = im.UnitProgram("p/sfu", (0,), code, 0, 2, 2, 1, 1)
    image = im.Image(
        "k",
        "dev",
        "00" * 32,
        1,
        memories=(im.Memory("ddr", "DDR", im.MemoryClass.GLOBAL, -1, -1, 0),),
        units=(im.Unit("C0-sfu", "SFU", 0, 0),),
        programs=(im.Program("p", (program,)),),
        coordinator=im.Coordinator((im.Launch(0, 0), im.Halt()), 2, 0, 0),
        cells=(0, -1),
        symbols=(im.Symbol(-1, 64, 0, "x"),),
        relocations=(im.Relocation(1, 0),),
    )
    return attrs.evolve(image, **changes)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ((im.Move(0, 0),), "p/sfu: the last instruction is not a halt"),
        ((im.For(0, 0, 1, 1, 1), im.Halt()), "instruction 0: FOR without END"),
        ((im.For(0, 0, 1, 0, 1), im.EndFor(-1), im.Halt()), "step 0 is not positive"),
        ((im.EndFor(-1), im.Halt()), "instruction 0: END without FOR"),
        ((im.Branch(5), im.Halt()), "instruction 0: branch target 5 is out of range"),
        ((im.Move(0, 0), im.Branch(-1), im.Halt()), "branch target 0 is out of range"),
        ((im.Branch(2), im.For(0, 0, 1, 1, 2), im.Move(0, 0), im.EndFor(-2), im.Halt()), "branch target 2"),
        ((im.Move(2, 0), im.Halt()), r"instruction 0 \(mov\): dst 2 is out of range"),
        ((im.VectorMove(0, 1), im.Halt()), r"instruction 0 \(vmov\): a 1 is out of range"),
        ((im.LoadColumn(0, 2), im.Halt()), r"instruction 0 \(lu\): column 2 is out of range"),
        ((im.SyncReceive(1), im.Halt()), "unit column 1 holds -1, which does not exist"),
        ((im.VectorConstant(0, 0), im.Halt()), "constant 0 is out of range"),
        ((im.Launch(0, 0), im.Halt()), "only the coordinator launches programs"),
        ((im.Receive(0, 0, im.ElementType.F16, 0), im.Halt()), "0 lanes"),
    ],
)
def test_bad_code_is_refused(code: tuple[im.Instruction, ...], message: str) -> None:
    """checklist B6: branches, FOR and END, registers, descriptors, unit operands."""
    with pytest.raises(im.InvalidImage, match=message):
        im.encode(tiny(*code))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": (0, 7)}, "cell 1 does not hold the id of its symbol -1"),
        ({"relocations": (im.Relocation(9, 0),)}, "relocation of cell 9 with slot 0 is out of range"),
        ({"relocations": (), "cells": (0, 7)}, "symbol -1 is not used by any relocation"),
        ({"architecture_digest": "xyz"}, "is not 64 hexadecimal digits"),
        ({"grid": 0}, "grid size 0"),
        ({"kernel": ""}, "the kernel has no name"),
        ({"kernel": "a\0b"}, "contains a NUL"),
        ({"cells": (0, -1, 3)}, "3 cells, but the tables have 2"),
        ({"fifos": (im.Fifo(0, 1, 16),)}, "joins a unit that does not exist"),
        ({"units": (im.Unit("a", "SFU", 0, 0),) * 2}, "two units are named 'a'"),
        (
            {"memories": (im.Memory("C0-l1", "L1", im.MemoryClass.SCRATCHPAD, 0, -1, 64, 65),)},
            "memory 'C0-l1' needs 65 bytes but has 64",
        ),
    ],
)
def test_bad_tables_are_refused(changes: dict[str, object], message: str) -> None:
    """checklist B6, B13."""
    with pytest.raises(im.InvalidImage, match=message):
        im.encode(tiny(im.Halt(), **changes))


def test_a_unit_runs_one_unit_program() -> None:
    image = tiny(im.Halt())
    (program,) = image.programs
    twice = attrs.evolve(
        program, unit_programs=(*program.unit_programs, attrs.evolve(program.unit_programs[0], first_cell=2))
    )
    with pytest.raises(im.InvalidImage, match="unit C0-sfu is programmed twice"):
        im.encode(
            attrs.evolve(
                image,
                programs=(twice,),
                cells=(0, -1, 0, 0),
                coordinator=attrs.evolve(image.coordinator, first_cell=4),
            )
        )


def test_patching() -> None:
    """checklist B4, B5: an image stays unresolved, and patching is idempotent."""
    image = tiny(im.Halt())
    assert im.patch(image, [12]) == (0, 12)
    assert im.patch(image, [13]) == (0, 13)
    with pytest.raises(ValueError, match="unresolved symbol -1"):
        im.patch(image, [])


def test_sections_that_must_be_understood() -> None:
    data = bytearray(im.encode(tiny(im.Halt(), extra=(im.ExtraSection("NEWS", b"x"),))))
    assert im.decode(data).extra == (im.ExtraSection("NEWS", b"x"),)
    entry = data.index(b"NEWS")
    data[entry + 4] = 1
    with pytest.raises(im.InvalidImage, match="section NEWS must be understood"):
        im.decode(data)


def test_bits_without_meaning_are_refused() -> None:
    raw = bytearray(im.encode_instruction(im.Move(1, 0)))
    assert im.decode_instruction(bytes(raw)) == im.Move(1, 0)
    raw[15] = 1
    with pytest.raises(ValueError, match="bits without meaning"):
        im.decode_instruction(bytes(raw))
    with pytest.raises(ValueError, match="unknown opcode 0xff"):
        im.decode_instruction(b"\xff" + bytes(15))


def test_lanes_of_a_permuted_box() -> None:
    lanes = im.BoxLanes((2, 3), (1, 0))
    assert lanes.points() == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
