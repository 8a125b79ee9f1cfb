"""What is kept about nodes beside the graph: origins; and recordings of passes on disk."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

import uopgraph
from uopgraph import (
    EncodingError,
    Ops,
    PatternMatcher,
    UOp,
    UPat,
    dtypes,
    graph_rewrite,
    live_nodes,
    symbolic,
    viz,
)
from uopgraph.origin import origin_of, origins_below, set_origin
from uopgraph.process_replay import compare, recorded, recording_to
from uopgraph.trace import recording

X = UOp.param(0, dtypes.int32, (4,), "cpu")


def simplify(root: UOp) -> UOp:
    return graph_rewrite(root, symbolic, name="simplify")


def test_origins_are_about_a_node_and_no_part_of_it() -> None:
    node = X + 3
    key = node.key
    assert set_origin(node, "first line") is node
    assert (origin_of(node), node.key) == ("first line", key)
    assert X + 3 is node
    set_origin(node, "second line")
    assert origin_of(node) == "first line"
    set_origin(node, "second line", replace=True)
    assert origin_of(node) == "second line"
    assert list(origins_below(node * 2)) == [(node, "second line")]


def test_origins_go_with_their_nodes() -> None:
    def make() -> None:
        for i in range(50):
            set_origin(X * 2 + i + 1000, f"line {i}")

    make()
    gc.collect()
    before = live_nodes()
    make()
    gc.collect()
    assert live_nodes() == before
    assert origin_of(X * 2 + 1001) is None


def test_origins_are_in_traces_and_pages() -> None:
    node = set_origin((X + 0) * 3, "scale of the input")
    with recording() as trace:
        simplify(node)
    assert "scale of the input" in trace.origins.values()
    assert trace.origins[trace.node_id(node)] == "scale of the input"
    assert "scale of the input" in viz.html(node)


def test_a_replay_without_a_change_has_no_differences(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    roots = [(X + 0) * (i + 1) for i in range(5)] * 2
    with recording_to(path) as record:
        results = [record("simplify", simplify, r) for r in roots]
    runs = list(recorded(path))
    assert [r.root for r in runs] == roots[:5]  # each input once
    assert [r.result for r in runs] == results[:5]
    assert compare(runs, {"simplify": simplify}) == []


def test_a_replay_shows_what_a_change_did(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with recording_to(path) as record:
        record("simplify", simplify, (X + 0) * 3)
        record("simplify", simplify, X * 5)
        record("gone", simplify, X * 7)

    def changed(root: UOp) -> UOp:
        if root is X * 5:
            raise ValueError("no fives")
        return graph_rewrite(root, PatternMatcher([(UPat(Ops.ADD, name="x"), lambda x: x.src[0] * 1)]))

    other, raised, gone = compare(recorded(path), {"simplify": changed})
    assert other.result is (X * 1) * 3
    assert any(line.startswith("+") and "MUL" in line for line in other.diff.splitlines())
    assert raised.diff == "simplify: ValueError: no fives"
    assert gone.diff == "gone: no such pass"


@pytest.mark.parametrize(
    "damage", ["{}\n", '{"uopgraph_replay": 99}\n', '{"uopgraph_replay": 1}\n["a", "b", "c"]\n', "\x00"]
)
def test_a_damaged_recording_names_the_line(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    path.write_text(damage)
    with pytest.raises(EncodingError, match=f"runs, line {max(1, damage.count(chr(10)))}: "):
        list(recorded(path))


def test_nodes_that_outlive_their_module_go_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the interpreter ends, the names of a module may be gone before the last node is."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    node = X * 77_777
    with monkeypatch.context() as gone:
        for name in ("_table", "_lock", "_forget"):
            gone.setattr(uopgraph.node, name, None)
        del node
        gc.collect()
    assert complaints == []
    assert (X * 77_777).src[0] is X


def test_constants_that_outlive_their_module_go_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the interpreter ends, what compares the keys of nodes may be gone, too; the table goes anyway."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    forget = uopgraph.node._forget
    node = UOp.const(77_777.5, dtypes.float32)
    with monkeypatch.context() as gone:
        assert forget.__defaults__ is not None
        assert forget.__defaults__[-1] is sys.is_finalizing
        gone.setattr(forget, "__defaults__", (*forget.__defaults__[:-1], lambda: True))
        gone.setattr(uopgraph.dtype, "math", None)
        del node
        gc.collect()
    assert complaints == []
