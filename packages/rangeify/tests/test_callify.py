"""Storage for roots, and what every stored value is afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensor_programs.on_tensors import tensors
from tensor_programs.strategies import grow

import rangeify
from rangeify import Config, InputError, Tensor
from rangeify.callify import transform_to_call
from rangeify.lowering import kernel_graph
from uopgraph import Ops, UOp
from uopgraph.spec import kernel_graph_spec, program_spec, type_verify


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32))


def callified(*values: Tensor, live: frozenset[UOp] | None = frozenset()) -> Any:
    return transform_to_call(UOp.make_sink(*(t.uop for t in values)), live)


def programs(count: int) -> list[list[Tensor]]:
    out = []
    for seed in range(count):
        program = grow(random.Random(seed).randrange)
        made = tensors(program)
        out.append([made[name] for name in program.outputs])
    return out


@pytest.mark.sweep(default=25, full=500)
def test_values_of_the_map_are_storage_and_never_keys(cases: int) -> None:
    """rangeify checklist 5: over random programs, with every CONTIGUOUS kept and with none."""
    entries = 0
    for outputs in programs(cases):
        for live in (None, frozenset[UOp]()):
            result = callified(*outputs, live=live)
            for old, new in result.buffer_map.items():
                assert new not in result.buffer_map
                assert new.base.op is Ops.BUFFER
                assert (new.shape, new.dtype) == (old.shape, old.dtype)
                entries += 1
    assert entries > 2 * cases


def test_a_stored_slice_maps_to_a_view_and_a_write_shares_its_storage() -> None:
    """rangeify checklist 5: a contiguous slice of a buffer is a view of it; a value and the write into it are one
    storage."""
    x = tensor(6, 4)
    part = x[2:4].contiguous()
    (view,) = callified(part, live=None).buffer_map.values()
    assert view.base is x.uop.base
    assert view.contiguous_view() == (x.uop.base, 8)
    value = (x * 2).contiguous()
    written = Tensor(value)
    written[0:1] = 1
    result = callified(written, live=None)
    state = next(n for n in written.uop.toposort() if n.op is Ops.AFTER)
    assert result.buffer_map[value.uop] is result.buffer_map[state]
    assert list(result.call.src[1:]) == [result.buffer_map[state], x.uop.base]


def ungated(body: UOp) -> UOp:
    """A kernel body whose indices have no gates: those are taken apart when loads are made."""
    gates = {n: n.src[1] for n in body.toposort() if n.op is Ops.WHERE and n.src[2].is_invalid}
    for gate in gates:
        assert any(gate in n.src[1:] for n in body.toposort() if n.op is Ops.INDEX)
    return body.substitute(gates)


def kernel_bodies(graph: UOp) -> Iterator[UOp]:
    """The bodies of all kernels, also of those that an all-reduce or another precompiled call holds in order."""
    for call in (n for n in graph.toposort(enter_calls=False) if n.op is Ops.CALL):
        body = call.src[0]
        if body.op is Ops.LINEAR:
            yield from kernel_bodies(body)
        else:
            yield body


@pytest.mark.sweep(default=12, full=300)
def test_graphs_of_kernels_and_their_bodies_pass_their_specifications(cases: int) -> None:
    """rangeify checklist 50: the kernel graph passes its own, every body that of a program."""
    bodies = 0
    for outputs in programs(cases):
        body = callified(*outputs).call.src[0]
        for fusion in ("reference", "rows"):
            graph, _ = kernel_graph(body, Config(fusion=fusion))
            type_verify(graph, kernel_graph_spec, enter_calls=False)
            for kernel in kernel_bodies(graph):
                type_verify(ungated(kernel), program_spec)
                bodies += 1
    assert bodies > 2 * cases


def test_a_capture_takes_the_schedule_and_the_caller_gets_nothing() -> None:
    """rangeify checklist 62: before memory planning; the Tensors have their values when the capture is run."""
    x = tensor(6, 6)
    value = x
    for _ in range(4):
        value = (value.T + 1).contiguous()
    want = rangeify.run(rangeify.schedule(value))[0]
    with rangeify.capture() as taken:
        empty = rangeify.schedule(value)
        value.realize()
        x[0:2] = 5
        x.realize()
    assert (empty.items, empty.buffers, rangeify.run(empty)) == ((), (), ())
    assert [len(s.items) for s in taken.schedules] == [4, 4, 1]
    assert all(not s.arena.offsets for s in taken.schedules)
    with pytest.raises(InputError, match="no contents"):
        value.numpy()
    taken.run(order=3)
    np.testing.assert_array_equal(value.numpy(), want)
    assert (x.numpy()[0:2] == 5).all()
    assert len(rangeify.schedule(tensor(3) + 1).items) == 1


def test_the_lines_of_debug(capsys: pytest.CaptureFixture[str]) -> None:
    """rangeify checklist 70: the line about memory has the sums; the line about the schedule has items, cache, key and
    caller."""
    x = tensor(80, 80)
    value = x
    for _ in range(6):
        value = (value.T + 1).contiguous()
    config = Config(debug=1, fusion="reference")
    schedule = rangeify.schedule(value, config=config)
    line, memory = capsys.readouterr().err.splitlines()
    before = sum(schedule.buffers[b].nbytes for b in schedule.arena.offsets)
    assert memory == (
        f"memory reduced from {before / 1e6:.2f} MB -> {schedule.arena.nbytes / 1e6:.2f} MB, 5 -> 1 bufs"
    )
    assert before == 5 * 80 * 80 * 4
    assert line.startswith("scheduled 6 items in ")
    assert "cache miss" in line
    assert line.split(" | ")[-1].startswith(__file__)
    rangeify.schedule(value, config=config)
    assert "cache hit" in capsys.readouterr().err
    rangeify.schedule(x + 1, config=config)
    assert capsys.readouterr().err == ""
    rangeify.schedule(x + 1, config=Config(debug=3))
    assert "scheduled 1 items" in capsys.readouterr().err
