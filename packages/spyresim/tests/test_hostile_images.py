"""Images with arbitrary values in their fields: a result or a fault, never anything else."""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched import image as im
from spyrert import SpyreCode
from spyrert.errors import SpyreError
from spyrert.spyrecode.image import Image
from spyresim import SpyresimError, run_device
from spyresim.engine import Options
from spyresim.engine.access import addresses, base_index, pattern
from spyresim.engine.state import ViewValue
from spyresim.engine.values import spread, wrap64
from spyresim.errors import Site
from spyresim.testing import text as k

NUMBERS = (0, 1, 2, 3, 5, 63, 64, 65, 128, 255, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 63) - 1)
BUDGET = Options(max_instructions=20_000, max_bytes=1 << 28)


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"hostile_{name}", Path(__file__).with_name(f"test_{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(value: Any) -> Iterator[tuple[object, ...]]:
    """Paths to all numbers, enumerators, truth values and byte strings of a tree of attrs classes."""
    if attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            for path in leaves(getattr(value, field.name)):
                yield field.name, *path
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            for path in leaves(item):
                yield position, *path
    elif isinstance(value, int | bytes):
        yield ()


def put(value: Any, path: tuple[object, ...], rng: random.Random) -> Any:
    """The tree with another value at a path."""
    if not path:
        return another(value, rng)
    head, rest = path[0], path[1:]
    if isinstance(head, str):
        return attrs.evolve(value, **{head: put(getattr(value, head), rest, rng)})
    items = list(value)
    assert isinstance(head, int)
    items[head] = put(items[head], rest, rng)
    return tuple(items)


def another(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case enum.Enum():
            return rng.choice(list(type(value)))
        case bytes():
            return rng.randbytes(len(value))
        case _:
            near = value + rng.choice((-1, 1))
            return rng.choice((near, near, rng.choice(NUMBERS), -rng.choice(NUMBERS)))


def mutated(image: im.Image, rng: random.Random) -> im.Image | None:
    """The image with one to three fields changed that still counts as valid; None after too many trials."""
    paths = list(leaves(image))
    code = [path for path in paths if path[0] in ("programs", "generators", "shuffles", "opaques", "views")]
    for _ in range(50):
        changed = image
        for _ in range(rng.choice((1, 1, 2, 3))):
            changed = put(changed, rng.choice(rng.choice((paths, code))), rng)
        try:
            if next(im.problems(changed), None) is None:
                return im.decode(im.encode(changed))
        except (im.InvalidImage, OverflowError, IndexError):
            pass  # IndexError: a negative number where only others can be encoded
    return None


def zoo() -> im.Image:
    """`add_image` with every kind of vector instruction between the addition and its sending."""
    ex = _module("engine_images")
    image = ex.add_image(2)
    f16, f32, i32 = im.ElementType.F16, im.ElementType.F32, im.ElementType.I32
    memory = len(image.memories)
    extra: list[im.Instruction] = [
        im.LoadImmediate(3, 3),
        im.VectorConstant(3, 0),
        im.VectorCompare(im.CompareOperator.LT, 4, 2, 3, None),
        im.VectorSelect(5, 4, 2, 3),
        im.VectorBinary(im.BinaryOperator.MAX, 5, 5, 3, 4),
        im.VectorUnary(im.UnaryOperator.NEG, 5, 5, 4),
        im.VectorUnary(im.UnaryOperator.RSQRT_ESTIMATE, 6, 3, None),
        im.VectorMultiplyAdd(6, 5, 3, 2, 4),
        im.VectorCast(7, 6, f32, 64),
        im.VectorCast(7, 7, i32, 64),
        im.VectorBinary(im.BinaryOperator.XNOR, 7, 7, 7, None),
        im.VectorRotate(6, 6, 3, True),
        im.Shuffle(6, 6, 0),
        im.VectorMove(8, 6),
        im.VectorStore(8, 0, 2),
        im.CallOpaque(0),
        im.VectorLoad(9, 0, 1),
    ]

    def insert(code: list[im.Instruction]) -> None:
        at = ex.where(code, im.Send)
        code[at:at] = extra
        head, end = ex.where(code, im.For), ex.where(code, im.EndFor)
        code[head] = attrs.evolve(code[head], end=end - head)
        code[end] = im.EndFor(head - end)
        code[:0] = [im.LoadImmediate(3, 0), im.MakeView(0, im.MemoryId(memory), im.Register(3), 1)]

    image = ex.change(image, "SFP", insert)
    (program,) = image.programs
    parts = [attrs.evolve(part, vector_registers=10) for part in program.unit_programs]
    operand = im.OpaqueOperand("in0", 0, f16, 64)
    return attrs.evolve(
        image,
        programs=(attrs.evolve(program, unit_programs=tuple(parts)),),
        memories=(*image.memories, im.Memory("reg", "SFP_REG", im.MemoryClass.REGISTER, -1, -1, 2048)),
        constants=(im.Constant(f16, 64, bytes.fromhex("003c") * 64),),
        shuffles=(im.ShuffleDescriptor(f16, (*range(31, -1, -1), *([-1] * 32)), 1, (3,), 4),),
        opaques=(im.Opaque("math.absf", memory, (operand,), (attrs.evolve(operand, name="out0"),)),),
    )


def test_the_example_with_all_vector_instructions_runs() -> None:
    image = zoo()
    assert list(im.problems(image)) == []
    found, expected, _ = _module("engine_images").run(image)
    assert (found == expected).all()


NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
SCALAR = NUMBER | st.lists(NUMBER, min_size=2, max_size=2).map(lambda rows: np.array(rows, np.int64))


@given(
    scalars=st.lists(SCALAR, min_size=1, max_size=3),
    numbers=st.lists(st.one_of(NUMBER, st.sampled_from(NUMBERS)), min_size=6, max_size=6),
    start=SCALAR,
)
def test_addresses_wrap_around(scalars: list[Any], numbers: list[int], start: Any) -> None:
    """Whatever an image says: addresses are those of 64-bit arithmetic."""
    f16, count = im.ElementType.F16, len(scalars)
    line = im.BoxLanes((64,), (0,))
    side = im.Side(f16, tuple(range(count)), (numbers[0],), (tuple(numbers[1 : 1 + count]),), ((),), line)
    view = im.View(f16, (1 << 30,), (numbers[4],), numbers[5])
    shape = pattern(attrs.evolve(side), (), attrs.evolve(view, coefficients=(1,)))
    (index,) = base_index(side, scalars, Site())
    found = addresses(ViewValue(0, start, view), (index,), shape, False, Site())
    for row in range(2):
        of = [int(v[row]) if isinstance(v, np.ndarray) else v for v in (start, *scalars)]
        expected = numbers[0] + sum(c * v for c, v in zip(numbers[1:], of[1:], strict=False))
        expected = of[0] + 2 * (numbers[5] + numbers[4] * expected)
        assert int(spread(found, 2)[row]) == wrap64(expected)


@pytest.mark.sweep(default=80, full=2000)
def test_engine(cases: int) -> None:
    """Any valid image on the engine: a result or a fault of the simulator."""
    image, ex = zoo(), _module("engine_images")
    for seed in range(cases):
        changed = mutated(image, random.Random(seed))
        assert changed is not None
        with contextlib.suppress(SpyresimError):
            ex.run(changed, BUDGET)


@pytest.fixture(scope="module")
def code() -> SpyreCode:
    return dfsched.compile(ktir.parse(k.shifted_add()), "sample").spyrecode


@pytest.mark.sweep(default=16, full=2000)
def test_device(cases: int, code: SpyreCode) -> None:
    """Any payload on the device, valid or not: a result, or an error of the simulator or of the runtime."""
    flips = _module("flipped_images")
    (file,) = code.files
    container = Image.decode(file.data)
    image = im.decode(container.payload)
    for seed in range(cases):
        rng = random.Random(seed)
        changed = mutated(image, rng) if seed % 2 else None
        payload = bytearray(container.payload) if changed is None else bytearray(im.encode(changed))
        for _ in range(0 if changed else rng.randint(1, 8)):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        data = attrs.evolve(container, payload=bytes(payload)).encode()
        hostile = attrs.evolve(code, files=(attrs.evolve(file, data=data),))
        with contextlib.suppress(SpyresimError, SpyreError):
            run_device(hostile, flips.ARGUMENTS, device="sample", options=BUDGET)
