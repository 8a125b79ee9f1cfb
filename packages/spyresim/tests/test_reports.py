"""Reports and traces: what the page shows, what the trace file holds (scheduler issue: to look at)."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfsched
import ktir
from spyresim import run_dataflow, run_ktir
from spyresim.engine import Options, Outcome
from spyresim.engine.trace import Access
from spyresim.report import Result
from spyresim.report_files import to_html, units_of, write_trace
from spyresim.trace_file import chrome_trace, occupancy

KERNEL = """
#all = affine_set<(r, c) : (r >= 0, 7 - r >= 0, c >= 0, 255 - c >= 0)>
#part = affine_set<(r, c) : (r >= 0, 3 - r >= 0, c >= 0, 255 - c >= 0)>
#id = affine_map<(r, c) -> (r, c)>
func.func @"a<b"(%a: index, %b: index) attributes {grid = [2]} {
  %c4 = arith.constant 4 : index
  %tile = ktdp.get_compute_tile_id : index
  %row = arith.muli %tile, %c4 : index
  %av = ktdp.construct_memory_view %a, sizes: [8, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x256xf16>
  %bv = ktdp.construct_memory_view %b, sizes: [8, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x256xf16>
  %at = ktdp.construct_access_tile %av[%row, 0] {access_tile_order = #id, access_tile_set = #part} : memref<8x256xf16> -> !ktdp.access_tile<4x256xindex>
  %bt = ktdp.construct_access_tile %bv[%row, 0] {access_tile_order = #id, access_tile_set = #part} : memref<8x256xf16> -> !ktdp.access_tile<4x256xindex>
  %x = ktdp.load %at : <4x256xindex> -> tensor<4x256xf16>
  %y = arith.addf %x, %x : tensor<4x256xf16>
  ktdp.store %y, %bt : tensor<4x256xf16>, <4x256xindex>
  return
}
"""
A = np.arange(2048, dtype=np.float16).reshape(8, 256)


@pytest.fixture(scope="module")
def compiled() -> dfsched.Compiled:
    """One vector at a time through single buffers: the plainest schedule."""
    options = dfsched.Options(pins={"tile_sizes": 1, "buffer_depths": 1})
    return dfsched.compile(ktir.parse(KERNEL), "spyre", options)


@pytest.fixture(scope="module")
def traced(compiled: dfsched.Compiled) -> Result:
    return run_dataflow(compiled, {"a": A}, options=Options(trace=True))


def events(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)["traceEvents"]
    assert isinstance(found, list)
    return found


# -- the trace file


def test_a_track_a_unit_and_slices_that_do_not_overlap(traced: Result, tmp_path: Path) -> None:
    write_trace(traced.report, tmp_path / "t.json")
    found = events((tmp_path / "t.json").read_text())
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {"C0-mnilu", "C0-mnilu copies", "C0-sfp", "C1-sfp"} <= set(tracks.values())
    rows = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(rows) == set(tracks)
    for slices in rows.values():
        slices.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(slices))


def test_flows_join_slices_of_sender_and_receiver(traced: Result) -> None:
    found = events(chrome_trace(traced.report.details.trace, units_of(traced.report)))
    starts = {e["id"]: e for e in found if e["ph"] == "s"}
    ends = {e["id"]: e for e in found if e["ph"] == "f"}
    assert starts
    assert set(starts) == set(ends)
    slices = [e for e in found if e["ph"] == "X"]
    for identity, start in starts.items():
        end = ends[identity]
        assert start["ts"] <= end["ts"]
        for point, name in ((start, "send"), (end, "receive")):
            around = [
                e["name"]
                for e in slices
                if (e["pid"], e["tid"]) == (point["pid"], point["tid"])
                and e["ts"] <= point["ts"] <= e["ts"] + e["dur"]
            ]
            assert around == [name]


def test_levels_of_fifos_start_and_end_empty(traced: Result) -> None:
    found = events(chrome_trace(traced.report.details.trace, units_of(traced.report)))
    levels = defaultdict(list)
    for event in found:
        if event["ph"] == "C" and event["name"].startswith("FIFO"):
            levels[event["pid"], event["name"]].append(event["args"]["items"])
    assert levels
    for values in levels.values():
        assert min(values) >= 0
        assert 0 < max(values) <= 16
        assert values[-1] == 0


def test_a_file_keeps_to_its_size_and_says_what_it_leaves_out(traced: Result) -> None:
    trace, units = traced.report.details.trace, units_of(traced.report)
    whole = chrome_trace(trace, units)
    assert "left out" not in whole
    for limit in (len(whole) * 3 // 4, len(whole) // 4, 2000):
        text = chrome_trace(trace, units, max_bytes=limit)
        assert len(text) <= limit + 400
        note = json.loads(text)["otherData"]["left out, for the size of the file"]
        assert note.startswith("core")


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 8), st.booleans(), st.integers(0, 5), st.integers(1, 3)),
        max_size=12,
    )
)
def test_occupancy_against_brute_force(rows: list[tuple[int, int, bool, int, int]]) -> None:
    """For every tick and stick: is there a write before, and a read of it after, without a write between?"""
    accesses = [
        Access(
            "LX",
            np.array([3]),
            np.array([stick * 128]),
            np.array([(stick + count) * 128]),
            np.array([start]),
            np.array([start + length]),
            writing,
        )
        for start, length, writing, stick, count in rows
    ]
    ordered = sorted((s, s + n, w, a, a + c) for s, n, w, a, c in rows)
    expected = dict.fromkeys(range(50), 0)
    for stick in range(10):
        mine = [(s, e, w) for s, e, w, a, b in ordered if a <= stick < b]
        intervals: list[tuple[int, int]] = []
        for position, (start, end, writing) in enumerate(mine):
            if writing:
                later = mine[position + 1 :]
                upto = next((i for i, (_, _, w) in enumerate(later) if w), len(later))
                last = max([end, *(e for _, e, _ in later[:upto])])
                cut = later[upto][0] if upto < len(later) else last
                intervals.append((start, min(last, cut)))
        for tick in expected:
            expected[tick] += 128 * sum(start <= tick < end for start, end in intervals)
    steps = dict(occupancy(accesses, "LX", 3))
    value, got = 0, {}
    for tick in range(50):
        value = steps.get(tick, value)
        got[tick] = value
    assert got == expected
    assert not list(occupancy(accesses, "LX", 0))


# -- the page


class Checker(HTMLParser):
    """Collects tags, and refuses what is not closed or closed twice."""

    VOID = frozenset(("meta", "br", "hr", "img", "input", "link"))

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] == "h2":
            self.titles.append(data)


def test_the_page_is_whole_and_needs_nothing_else(traced: Result, compiled: dfsched.Compiled) -> None:
    text = to_html(traced.report, compiled)
    checker = Checker()
    checker.feed(text)
    assert checker.stack == []
    assert checker.titles == [
        "Bounds", "Roofline", "Units", "Timeline", "Scratchpad", "Counters", "IR after each pass",
    ]  # fmt: skip
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://", text)
    panes = [attributes for tag, attributes in checker.seen if attributes.get("class") == "pane"]
    assert len(panes) == len(compiled.passes)
    assert sum("hidden" not in pane for pane in panes) == 1
    boxes = sum(tag == "rect" for tag, _ in checker.seen)
    assert boxes > 100


def test_names_are_escaped(traced: Result) -> None:
    text = to_html(traced.report)
    assert "<h1>a&lt;b at level dataflow</h1>" in text
    assert "a<b" not in text


def test_a_level_without_time_has_its_counters(compiled: dfsched.Compiled) -> None:
    result = run_ktir(compiled.source, "a<b", {"a": A})
    checker = Checker()
    checker.feed(to_html(result.report))
    assert "Counters" in checker.titles
    assert "Timeline" not in checker.titles


def test_work_and_bounds(traced: Result) -> None:
    """One addition an element; the bound is the larger of memory and compute."""
    engine = traced.report.details.report
    assert engine.operations == A.size
    assert [(work.unit, work.element) for work in engine.work] == [("SFP", "f16")]
    assert engine.bytes_moved == 2 * A.nbytes
    assert engine.bound_cycles == -(-2 * A.nbytes * 5 // 1024)
    assert engine.compute_bound_cycles == A.size // (2 * 64)
    assert engine.ideal_cycles == max(engine.bound_cycles, engine.compute_bound_cycles) <= engine.cycles


def test_time_alone_says_what_it_does_not_know(compiled: dfsched.Compiled) -> None:
    """No addresses, so no map of the scratchpad; what was skipped is told."""
    result = run_dataflow(compiled, {}, options=Options(time_only=True, trace=True))
    text = to_html(result.report, compiled)
    assert "time alone was simulated" in text
    outcome = result.report.details
    assert isinstance(outcome, Outcome)
    assert ("everything repeats" in text) == bool(outcome.report.skipped)


def test_waiting_for_bandwidth_is_no_copying(compiled: dfsched.Compiled, traced: Result) -> None:
    """On the tracks of copies, slices add up to busy and bandwidth of the report."""
    outcome = traced.report.details
    assert isinstance(outcome, Outcome)
    assert outcome.trace is not None
    moved = {"copy": 0, "wait for bandwidth": 0}
    for event in outcome.trace.events:
        if event.track == "copies":
            moved[event.name] += int((event.end - event.start).sum())
    assert all(moved.values())
    waits = sum(dict(unit.stall).get("bandwidth", 0) for unit in outcome.report.units)
    assert abs(moved["wait for bandwidth"] / 1024 - waits) < len(outcome.report.units)
