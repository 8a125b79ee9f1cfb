"""Several kernels on one machine (planning spec A.7; ktir spec 4.6)."""

from __future__ import annotations

import numpy as np
import pytest

import ktir
from ktir.builder import Kernel, build_module
from ktir.layout import LinearLayout
from ktir.types import F16
from spyresim import ArgumentError, MemoryFault, Session, run_ktir

RNG = np.random.default_rng(9)


def module() -> ktir.Module:
    """`keep` doubles four numbers into each tile's scratchpad, `hand_over` stores them."""
    keep = Kernel("keep", grid=(4,))
    x, s = keep.pointer("x"), keep.index("s")
    (tile,) = keep.tile_id()
    data = keep.view(x, (16,), "f16")[tile * 4 : tile * 4 + 4].load()
    keep.scratchpad(s, (4,), "f16").store(data + data)
    give = Kernel("hand_over", grid=(4,))
    s, y = give.index("s"), give.pointer("y")
    (tile,) = give.tile_id()
    give.view(y, (16,), "f16")[tile * 4 : tile * 4 + 4].store(give.scratchpad(s, (4,), "f16").load())
    return build_module(keep, give)


def test_scratchpads_keep_their_contents() -> None:
    kernels, x = module(), RNG.normal(size=16).astype(np.float16)
    session = Session()
    session.run(kernels, "keep", {"x": x, "s": 32})
    assert np.array_equal(session.run(kernels, "hand_over", {"s": 32}).outputs["y"], x + x)
    assert np.array_equal(session.read_scratchpad(1, 64, 8).view(np.float16), (x + x)[4:8])
    with pytest.raises(MemoryFault, match="which nobody has written"):
        run_ktir(kernels, "hand_over", {"s": 32})


def test_seeded_scratchpads() -> None:
    session = Session()
    for tile in range(4):
        session.write_scratchpad(tile, 64, np.full(4, tile, np.float16))
    out = session.run(module(), "hand_over", {"s": 32}).outputs["y"]
    assert out.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4


def test_resident_arrays() -> None:
    """What one kernel writes, the next one reads, without the host in between."""
    kernels, x = module(), RNG.normal(size=16).astype(np.float16)
    session = Session()
    first, second = session.place(x), session.allocate(LinearLayout((16,), F16))
    assert first.address != second.address
    session.run(kernels, "keep", {"x": first, "s": 0})
    assert session.run(kernels, "hand_over", {"s": 0, "y": second}).outputs == {}
    session.run(kernels, "keep", {"x": second, "s": 0})
    session.run(kernels, "hand_over", {"s": 0, "y": second})
    assert np.array_equal(session.fetch(second), 4 * x)
    assert np.array_equal(session.fetch(first), x)


def test_resident_array_of_another_layout() -> None:
    session = Session()
    with pytest.raises(ArgumentError, match=r"argument 'x' of 'keep' must have layout .*resident array has"):
        session.run(module(), "keep", {"x": session.place(np.zeros(8, np.float16)), "s": 0})
