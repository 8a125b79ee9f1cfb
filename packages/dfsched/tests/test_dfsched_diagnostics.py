"""What cannot be scheduled is told with its place, with numbers, and all at once (issue 4, point 8)."""

from __future__ import annotations

import re

import pytest

import dfsched
import ktir
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.passes.base import PassContext
from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from dfsched.pipeline import select_passes
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


def all_of(text: str, name: str, device: str = "sample") -> tuple[list[str], list[str]]:
    """What one pass has against a module: messages, and the lines that they are about."""
    (item,) = select_passes([name])
    module = ktir.parse(text)
    ktir.verify(module)
    with pytest.raises(ScheduleError) as caught:
        item.run(module, PassContext(dfsched.load_architecture(device)))
    return [d.message for d in caught.value.diagnostics], lines_of(caught.value, text)


def test_all_that_keeps_kernels_from_being_cut_into_programs() -> None:
    """In two kernels: loads for nothing, compute in a branch with results, an access between two of a group."""
    late = (
        "%from_c4 = ktdp.load %from_{0} : <4x64xindex> -> tensor<4x64xf16>\n"
        "%more = arith.negf %x_{0} : tensor<4x64xf16>\n"
        "ktdp.store %more, %from_{0} : tensor<4x64xf16>, <4x64xindex>\n"
    )
    inner = "ktdp.store %y_b, %from_b : tensor<4x64xf16>, <4x64xindex>\n"
    loop = f"%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%j = %c0) -> (index) {{\n{inner}scf.yield %i : index\n}}\n"
    text = kernel(moved("a", "%c0", "%c4"), late.format("a"), moved("b", "%c0", "%c4"), loop)
    twice = text + "\n" + text.replace("@k(", "@l(")
    messages, lines = all_of(twice, "compute-group-extraction")
    assert messages == [
        "'scf.for' around compute may not have results",
        "this load feeds no store of its block",
    ] * 2  # fmt: skip
    assert [line.split("=")[0].strip() for line in lines] == ["%r", "%from_c4"] * 2


def test_all_accesses_out_of_order_are_told() -> None:
    """Two stores of a group stand behind stores of another one to the same places."""
    arrays = "".join(
        view(name) + tile(f"from_{name}", name, "%c0") + tile(f"to_{name}", name, "%c4") for name in "abc"
    )
    stores = "".join(f"ktdp.store %{{0}}, %to_{name} : tensor<4x64xf16>, <4x64xindex>\n" for name in "ab")
    text = kernel(
        arrays,
        "%x = ktdp.load %from_a : <4x64xindex> -> tensor<4x64xf16>\n",
        "%z = ktdp.load %from_c : <4x64xindex> -> tensor<4x64xf16>\n",
        stores.format("z"),
        "%y = arith.negf %x : tensor<4x64xf16>\n",
        stores.format("y"),
    )
    messages, lines = all_of(text, "compute-group-extraction")
    assert messages == ["this access is interleaved with a compute group that touches the same memory"] * 2
    assert [re.sub(":.*", "", line) for line in lines] == [f"ktdp.store %y, %to_{n} " for n in "ab"]


def triangle(name: str, target: str, compute: str) -> str:
    """A group on the lower triangle of four rows, from row 0 of an array to another row."""
    rows = "affine_set<(r, c) : (r >= 0, -r + 3 >= 0, c >= 0, r - c >= 0)>"
    made = "".join(
        f"%{end}_{name} = ktdp.construct_access_tile %v{name}[%{row}, %c0] {{access_tile_set = {rows}, "
        "access_tile_order = affine_map<(r, c) -> (r, c)>} : memref<8x64xf16> -> "
        "!ktdp.access_tile<10x1xindex>\n"
        for end, row in (("from", "c0"), ("to", target))
    )
    return (
        f"{view(name)}{made}%x_{name} = ktdp.load %from_{name} : <10x1xindex> -> tensor<10x1xf16>\n"
        f"{compute}ktdp.store %y_{name}, %to_{name} : tensor<10x1xf16>, <10x1xindex>\n"
    )


def test_all_groups_that_cannot_be_split_are_told() -> None:
    """Of three groups on triangles one reads in another order, twice, one overwrites what it reads."""

    def shifted(result: str, operand: str) -> str:
        return (
            f"%{result} = linalg.generic {{indexing_maps = [#back, #id], iterator_types = "
            f'["parallel", "parallel"]}} ins(%{operand} : tensor<10x1xf16>) outs(%e : tensor<10x1xf16>) {{\n'
            "^bb0(%in: f16, %out: f16):\n%s = arith.addf %in, %in : f16\nlinalg.yield %s : f16\n"
            "} -> tensor<10x1xf16>\n"
        )

    negated = "%y_{0} = arith.negf %x_{0} : tensor<10x1xf16>\n"
    maps = "#id = affine_map<(r, c) -> (r, c)>\n#back = affine_map<(r, c) -> (9 - r, c)>\n"
    text = maps + kernel(
        "%e = tensor.empty() : tensor<10x1xf16>\n",
        triangle("a", "c4", shifted("z", "x_a") + shifted("y_a", "z")),
        triangle("b", "c1", negated.format("b")),
        triangle("c", "c4", negated.format("c")),
    )
    messages, lines = all_of(text, "split-access-tiles")
    only = "'linalg.generic' on a tile whose elements do not lie in equal steps: only element-wise operations"
    assert messages == [
        *[f"{only} and reductions of all elements are supported"] * 2,
        "a compute group that is cut into parts overwrites memory that it also touches elsewhere",
    ]
    assert [line.split()[0] for line in lines] == ["%z", "%y_a", "ktdp.store"]


def test_all_views_that_nothing_bounds_are_told() -> None:
    """Two views with strides that only a launch knows."""
    views = "".join(
        view(name).replace(", 1] {", ", %b] {").replace("xf16>\n", "xf16, strided<[64, ?]>>\n")
        for name in "ac"
    )
    assert views.count("%b]") == 2
    messages, lines = all_of(kernel(views), "bind-symbolic-shapes")
    assert [message.split(";")[0] for message in messages] == [
        "the strides of a memory view must be known at compile time"
    ] * 2  # fmt: skip
    assert [line[:3] for line in lines] == ["%va", "%vc"]
