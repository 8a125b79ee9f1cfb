"""Levels of checking: which findings belong to which, in Python and on the command line (KTIR spec 0.2, 1.14)."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ktir
from ktir.cli import main
from ktir.legality import LEGAL_UPSTREAM
from ktir.scheduler_profile import scheduler_v1

# Breaks level L (dialect vector), S (extents of the view) and D (a loop with carried values), but not V.
ALL = """
func.func @k(%p: index, %n: index) {
  %v = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {
    coordinate_set = affine_set<(i) : (i >= 0, -i + 95 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<64xf16>
  "vector.print"() : () -> ()
  %r = scf.for %i = %n to %n step %n iter_args(%a = %n) -> (index) { scf.yield %a : index }
  return
}
"""
VIEW = "'ktdp.construct_memory_view' op memref extent 0 is 64, but the size of the view is 96"
VECTOR = "'vector.print' op is not legal in a KTIR program"
LOOP = "V1 does not support scf.for with loop-carried arguments (iter_args)"


def messages(levels: str, text: str = ALL, **options: object) -> list[str]:
    return [d.message for d in ktir.check(ktir.parse(text), levels, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("P", []),
        ("V", []),
        ("L", [VECTOR]),
        ("S", [VIEW]),
        ("D", [LOOP]),
        ("V,L", [VECTOR]),
        ("DSLVP", [VECTOR, VIEW, LOOP]),
    ],
)
def test_each_level_finds_its_own(levels: str, expected: list[str]) -> None:
    assert messages(levels) == expected


def test_severities() -> None:
    """Level S warns unless asked for errors; the others report errors."""
    module = ktir.parse(ALL)
    assert [d.severity for d in ktir.check(module, "LSD")] == ["error", "warning", "error"]
    assert [d.severity for d in ktir.check(module, "LSD", strict=True)] == ["error"] * 3


def test_levels_above_need_a_verified_module() -> None:
    """What breaks level V is reported, and nothing that rests on it; level P does not ask."""
    broken = ALL.replace("return\n", "return %n : index\n")
    (found,) = messages("LSD", broken)
    assert "has 1 operands, but enclosing function (@k) returns 0" in found
    assert messages("P", broken) == []


def test_levels_are_spelled_out_or_named() -> None:
    assert ktir.check(ktir.parse(ALL), (ktir.Level.STRICT,)) == ktir.check(ktir.parse(ALL), "S")
    with pytest.raises(ktir.KtirError, match=r"no level 'X'; levels: P \(parse\), V \(verify\), L \(legal\)"):
        ktir.check(ktir.parse(ALL), "VX")


def test_machine_and_dialects_are_options() -> None:
    assert messages(
        "S", "func.func @k() attributes {grid = [4]} { return }", machine=ktir.Machine(tiles=2)
    ) == ["the grid [4] has 4 compute tiles, the machine has 2"]
    intrinsic = "func.func @k() { %c = spyreop.constant 1.0 : f16 return }"
    assert messages("L", intrinsic) == []
    assert messages("L", intrinsic, legal=LEGAL_UPSTREAM) == [
        "'spyreop.constant' op is not legal in a KTIR program"
    ]


# -- the profile of the scheduler's first version

TENSOR = "tensor<8xf16>"
GENERIC = f"""func.func @k(%x: {TENSOR}) {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
    ins(%x : {TENSOR}) outs(%x : {TENSOR}) {{
  ^bb0(%a: f16, %b: f16):
    %y = BODY
    linalg.yield %y : f16
  }} -> {TENSOR}
  return
}}"""


def named(name: str, operands: str = f"%x, %x : {TENSOR}, {TENSOR}") -> str:
    return f"func.func @k(%x: {TENSOR}, %h: f16) {{ %r = linalg.{name} ins({operands}) outs(%x : {TENSOR}) -> {TENSOR} return }}"


REDUCE = f"""func.func @k(%x: {TENSOR}, %h: tensor<f16>) {{
  %r = linalg.reduce {{ arith.addf }} ins(%x : {TENSOR}) outs(%h : tensor<f16>) dimensions = [0] return }}"""
NAMED = "V1 only supports add/mul/sub/reduce compute ops; found unsupported compute op"
BODY = "V1 only supports add/mul/sub compute ops; found unsupported compute op"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALL, LOOP),
        ("func.func @k(%c: i1) { scf.while : () -> () { scf.condition(%c) } do { scf.yield } return }",
         "V1 does not support scf.while loops"),
        ("func.func @k() { %v = ktdp.construct_distributed_memory_view() : memref<4xf16> return }",
         "V1 does not support ktdp.construct_distributed_memory_view"),
        ("func.func @k(%m: memref<4xf16>, %q: index, %t: memref<4xi32>) { %a = ktdp.construct_indirect_access_tile "
         "intermediate_variables() %m[ind(%t[%q])] {variables_space_order = affine_map<() -> ()>, variables_space_set = "
         "affine_set<() : ()>} : memref<4xf16>, memref<4xi32> -> !ktdp.access_tile<index> return }",
         "V1 does not support ktdp.construct_indirect_access_tile"),
        *[(GENERIC.replace("BODY", f"{op} : f16"), None)
          for op in ("arith.addf %a, %b", "arith.mulf %a, %b", "arith.subf %a, %b", "spyreop.exp %a")],
        (GENERIC.replace("BODY", "math.exp %a : f16"), BODY),
        (GENERIC.replace("BODY", "arith.divf %a, %b : f16"), BODY),
        *[(named(op), None) for op in ("add", "mul", "sub")],
        (REDUCE, None),
        (named("div"), NAMED),
        (named("fill", "%h : f16"), NAMED),
        ("func.func @k(%x: tensor<4x4xf16>) { %r = linalg.matmul ins(%x, %x : tensor<4x4xf16>, tensor<4x4xf16>) "
         "outs(%x : tensor<4x4xf16>) -> tensor<4x4xf16> return }", NAMED),
        (f"func.func @k(%x: {TENSOR}, %c: i1) {{ scf.if %c {{ %y = math.exp %x : {TENSOR} }} return }}", None),
    ],
)  # fmt: skip
def test_scheduler_profile(text: str, message: str | None) -> None:
    """ktir checklist 103. Verbatim texts, without the operation's name, with a note."""
    module = ktir.parse(text, None, "d.mlir")
    ktir.verify(module)
    found = scheduler_v1(module)
    assert [d.message for d in found] == ([] if message is None else [message])
    assert all(d.notes and d.location is not None for d in found)


def test_scheduler_profile_stops_at_the_first() -> None:
    """ktir checklist 103. At the body operation of a generic, and only once."""
    text = GENERIC.replace("BODY", "math.exp %a : f16\n    %z = math.exp %y : f16")
    (only,) = scheduler_v1(ktir.parse(text, None, "d.mlir"))
    assert only.location is not None
    assert only.location.file_line_column() == ("d.mlir", 5, 10)


# -- the command line


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.mlir"
    path.write_text(ALL)
    return str(path)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ((), 0, []),
        (("--level", "P"), 0, []),
        (("--level", "S"), 0, ["warning: " + VIEW]),
        (("--level", "L"), 1, ["error: " + VECTOR]),
        (("--level", "LSD"), 1, ["error: " + VECTOR, "warning: " + VIEW, "error: " + LOOP]),
        (("--strict",), 1, ["error: " + VIEW]),
        (("--strict", "--level", "D"), 1, ["error: " + VIEW, "error: " + LOOP]),
    ],
)
def test_check_levels(file: str, arguments: tuple[str, ...], code: int, expected: list[str]) -> None:
    """Warnings do not fail; every finding is followed by its source line, a caret and its notes."""
    result = call(*arguments, file)
    assert result.exit_code == code
    lines = result.stderr.splitlines()
    assert [
        line.split(": ", 1)[1] for line in lines if ": error: " in line or ": warning: " in line
    ] == expected
    assert sum(": note: " in line for line in lines) >= len(expected)
    assert sum(line.strip() == "^" for line in lines) >= len(expected)


def test_check_refuses_unknown_levels(file: str) -> None:
    result = call("--level", "Q", file)
    assert result.exit_code == 2
    assert "no level 'Q'" in result.stderr


def test_check_accepts_proposals_on_request(tmp_path: Path) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(
        "func.func @k(%f: !ktdp.tile_future<(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>>) {\n"
        "  %r = ktdp.inter_tile_gather(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - g == 0)>, "
        "gather_dimensions = [0] : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<32xf16>\n"
        "  return\n}\n"
    )
    refused = call(str(path))
    assert refused.exit_code == 1
    assert "error: custom op 'ktdp.inter_tile_gather' is unknown" in refused.stderr
    assert "note: this operation is a proposal" in refused.stderr
    assert call("--proposed", str(path)).exit_code == 0
    printed = CliRunner().invoke(main, ["fmt", "--proposed", str(path)])
    assert "gather_dimensions = [0]" in printed.stdout
