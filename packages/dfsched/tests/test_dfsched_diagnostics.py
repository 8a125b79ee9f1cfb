"""What cannot be scheduled is told with its place, with numbers, and all at once (issue 4, point 8)."""

from __future__ import annotations

import re

import pytest

import dfsched
import ktir
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from ktir.errors import Diagnostic
from ktir.location import FileLineColLoc


def view(name: str, shape: str = "8, 64") -> str:
    rows, columns = shape.split(", ")
    return (
        f"%v{name} = ktdp.construct_memory_view %{name}, sizes: [{shape}], strides: [{columns}, 1] "
        f"{{coordinate_set = affine_set<(r, c) : (r >= 0, -r + {int(rows) - 1} >= 0, c >= 0, -c + "
        f"{int(columns) - 1} >= 0)>, memory_space = #ktdp.memory_space<global>}} : memref<{rows}x{columns}xf16>\n"
    )


def tile(name: str, of: str, row: str) -> str:
    return (
        f"%{name} = ktdp.construct_access_tile %v{of}[{row}, %c0] {{access_tile_set = affine_set<(r, c) : (r >= 0, "
        "-r + 3 >= 0, c >= 0, -c + 63 >= 0)>, access_tile_order = affine_map<(r, c) -> (r, c)>} : "
        "memref<8x64xf16> -> !ktdp.access_tile<4x64xindex>\n"
    )


def moved(name: str, first: str, second: str) -> str:
    """A compute group that stores the negative of rows of %name to other rows of it."""
    return (
        view(name) + tile(f"from_{name}", name, first) + tile(f"to_{name}", name, second)
        + f"%x_{name} = ktdp.load %from_{name} : <4x64xindex> -> tensor<4x64xf16>\n"
        f"%y_{name} = arith.negf %x_{name} : tensor<4x64xf16>\n"
        f"ktdp.store %y_{name}, %to_{name} : tensor<4x64xf16>, <4x64xindex>\n"
    )  # fmt: skip


def kernel(*groups: str) -> str:
    names = ", ".join(f"%{name}: index" for name in "abc")
    head = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c4 = arith.constant 4 : index\n"
    return f"func.func @k({names}) attributes {{grid = [1]}} {{\n{head}{''.join(groups)}return\n}}"


def refused(text: str, **pins: object) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        dfsched.compile(ktir.parse(text), "sample", dfsched.Options(pins=pins))
    return caught.value


def lines_of(error: ScheduleError, text: str) -> list[str]:
    """The text of the line that each diagnostic names."""
    found = []
    for diagnostic in error.diagnostics:
        assert diagnostic.location is not None
        place = diagnostic.location.file_line_column()
        assert place is not None
        found.append(text.splitlines()[place[1] - 1])
    return found


def test_all_groups_that_cannot_be_scheduled_are_told() -> None:
    """Two of three groups overwrite what they still read; both stores are named, the third is not."""
    text = kernel(moved("a", "%c0", "%c1"), moved("b", "%c0", "%c4"), moved("c", "%c1", "%c0"))
    error = refused(text)
    assert isinstance(error, UnsupportedKernel)
    assert [re.sub(r"%\w+", "%", line) for line in lines_of(error, text)] == [
        "ktdp.store %, % : tensor<4x64xf16>, <4x64xindex>"
    ] * 2
    assert [line.split("%to_")[1][0] for line in lines_of(error, text)] == ["a", "c"]


def test_a_plan_is_checked_for_every_program() -> None:
    """Errors of pins stand at the program, once where they say the same."""
    text = kernel(moved("a", "%c0", "%c4"), moved("b", "%c0", "%c4"))
    error = refused(text, tile_sizes=(1, 2, 3))
    assert {d.message for d in error.diagnostics} == {
        "plan field 'tile_sizes' has 3 entries, but the nest has 2"
    }
    assert lines_of(error, text)


def test_findings() -> None:
    """The parts that fail stay as they are; the class is what all errors have in common; equal ones are one."""
    here = FileLineColLoc("f", 1, 2)

    def change(part: int) -> int:
        if part == 2:
            raise UnsupportedKernel.at(here, "two")
        if part == 3:
            raise ScheduleError.at(here, "three")
        return 10 * part

    findings = Findings()
    findings.check()
    assert [findings.attempt(change, part) for part in (1, 2, 2, 4)] == [10, 2, 2, 40]
    with pytest.raises(UnsupportedKernel) as caught:
        findings.check()
    assert caught.value.diagnostics == (Diagnostic("two", here),)
    findings.attempt(change, 3)
    with pytest.raises(ScheduleError) as caught:
        findings.check()
    assert type(caught.value) is ScheduleError
    assert [d.message for d in caught.value.diagnostics] == ["two", "three"]


def test_a_lowering_tells_all_functions() -> None:
    """Two programs without a grid: two errors, in order."""
    stage = (
        'ktdf.pipeline { ktdf.stage depends_in(none) depends_out(none) { } {applicable_units = ["L1LU"]} }'
    )
    text = "".join(f"func.func @f{n}() {{\n{stage}\nreturn\n}}\n" for n in range(2))
    with pytest.raises(LoweringError) as caught:
        lower_to_ktdflow(ktir.parse(text), dfsched.load_architecture("sample"))
    assert [d.message for d in caught.value.diagnostics] == ["Function missing 'grid' attribute"] * 2
    assert lines_of(caught.value, text) == ["func.func @f0() {", "func.func @f1() {"]
