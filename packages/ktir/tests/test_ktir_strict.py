"""Level S: what verifies and still contradicts itself (KTIR spec 0.2; S rules of 1.2 to 1.13 and 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktir
from ktir.strict import strict_findings

HEADER = """
#id0 = affine_map<() -> ()>
#id1 = affine_map<(i) -> (i)>
#id2 = affine_map<(i, j) -> (i, j)>
#swap = affine_map<(i, j) -> (j, i)>
#fold = affine_map<(i, j) -> (i, i)>
#b96x64 = affine_set<(i, j) : (i >= 0, -i + 95 >= 0, j >= 0, -j + 63 >= 0)>
#b96x65 = affine_set<(i, j) : (i >= 0, -i + 95 >= 0, j >= 0, -j + 64 >= 0)>
#b8x16 = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j >= 0, -j + 15 >= 0)>
#nx64 = affine_set<(i, j)[n] : (i >= 0, -i + n - 1 >= 0, j >= 0, -j + 63 >= 0)>
#mxn = affine_set<(i, j)[m, n] : (i >= 0, -i + m - 1 >= 0, j >= 0, -j + n - 1 >= 0)>
#b32 = affine_set<(i) : (i >= 0, -i + 31 >= 0)>
#b5x3 = affine_set<(i, j) : (i >= 0, -i + 4 >= 0, j >= 0, -j + 2 >= 0)>
#triangle = affine_set<(i, j) : (i >= 0, -i + 2 >= 0, j >= 0, i - j >= 0)>
#even = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j >= 0, -j + 15 >= 0, j mod 2 == 0)>
#low = affine_set<(i) : (i >= 0, -i + 47 >= 0)>
#high = affine_set<(i) : (i - 48 >= 0, -i + 95 >= 0)>
#late = affine_set<(i) : (i - 64 >= 0, -i + 95 >= 0)>
#cross = affine_set<(i) : (i - 40 >= 0, -i + 95 >= 0)>
#g1 = affine_set<(g) : (g == 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
"""

BUFFERS = "%x: index, %y: index, %n: index, %t96: memref<96x64xf16>, %t32: memref<32xf16>, %tab: memref<5x3xi32>, %c: i1"
TENSORS = "%part: tensor<8xf16>, %tile: tensor<8x16xf16>, %wide: tensor<8x16xf32>"


def module(body: str, grid: str = "") -> str:
    """A function around `body`; with a grid it is a kernel, which takes no tensors."""
    head = f"@k({BUFFERS}) attributes {{{grid}}}" if grid else f"@k({BUFFERS}, {TENSORS})"
    return f"{HEADER}\nfunc.func {head} {{\n%c0 = arith.constant 0 : index\n{body}\nreturn\n}}"


def strict(body: str, grid: str = "", machine: ktir.Machine | None = None) -> list[str]:
    """The messages of level S; each has a place and a note that says what would be right."""
    parsed = ktir.parse(module(body, grid), None, "s.mlir")
    ktir.verify(parsed)
    found = strict_findings(parsed, machine)
    assert all(d.severity == "warning" and d.notes and all(n.message for n in d.notes) for d in found)
    assert all(d.location is not None and d.location.file_line_column() for d in found)
    return [d.message for d in found]


def view(
    sizes: str, type: str, set: str, strides: str = "64, 1", space: str = "global", offset: str = "%x"
) -> str:
    return (
        f"%v = ktdp.construct_memory_view {offset}, sizes: [{sizes}], strides: [{strides}] "
        f"{{coordinate_set = {set}, memory_space = #ktdp.memory_space<{space}>}} : {type}\n"
    )


VIEW = "'ktdp.construct_memory_view' op "
GOOD = view("96, 64", "memref<96x64xf16>", "#b96x64")


# -- grids


@pytest.mark.parametrize(
    ("grid", "messages"),
    [
        ("grid = [4, 2]", []),
        ("grid = [4 : index, 2 : i32]", []),
        ("grid = [8, 4]", []),
        ("", []),
        ("grid = []", ["Grid must have at least one dimension"]),
        ("grid = [2, 0]", ["Grid size must be positive (got 0)"]),
        ('grid = ["a"]', ["Grid size must be integer attribute"]),
        ("grid = 3 : index", ["the grid must be an array of integers, not 3 : index"]),
        ("grid = [3, 11]", ["the grid [3, 11] has 33 compute tiles, the machine has 32"]),
    ],
)
def test_grids(grid: str, messages: list[str]) -> None:
    """ktir checklist 21, 22. The level that reports a malformed grid; a larger one than the machine has."""
    text = f"func.func @k() {'attributes {' + grid + '} ' if grid else ''}{{ return }}"
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    assert [d.message for d in strict_findings(parsed)] == messages


def test_the_machine_bounds_the_grid() -> None:
    parsed = ktir.parse("func.func @k() attributes {grid = [3]} { return }")
    assert not strict_findings(parsed)
    (only,) = strict_findings(parsed, ktir.Machine(tiles=2))
    assert only.message == "the grid [3] has 3 compute tiles, the machine has 2"


@pytest.mark.parametrize(
    ("grid", "results", "fits"),
    [
        ("grid = [4, 2]", 2, True),
        ("grid = [4, 2]", 3, False),
        ("grid = [4, 2]", 1, False),
        ("grid = [4, 1]", 1, True),  # the other coordinate is always 0
        ("grid = [1, 4]", 1, True),
        ("grid = [4]", 2, False),
        ("", 3, True),
    ],
)
def test_tile_id_against_the_grid(grid: str, results: int, fits: bool) -> None:
    """ktir checklist 23. S-GR4, also inside a loop."""
    types = ", ".join(["index"] * results)
    body = f"%i:{results} = ktdp.get_compute_tile_id : {types}"
    rank = grid.count(",") + 1
    expected = f"get_compute_tile_id result count ({results}) does not match grid rank ({rank})"
    assert strict(body, grid) == ([] if fits else [expected])
    looped = f"%one = arith.constant 1 : index\nscf.for %a = %c0 to %n step %one {{ {body} }}"
    assert strict(looped, grid) == ([] if fits else [expected])


# -- views


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (GOOD, []),
        (view("%n, 64", "memref<?x64xf16>", "#nx64"), []),
        (view("96, 64", "memref<96x32xf16>", "#b96x64"),
         ["memref extent 1 is 32, but the size of the view is 64"]),
        (view("96, 64", "memref<?x64xf16>", "#b96x64"),
         ["memref extent 0 is dynamic, but the size of the view is 96"]),
        (view("%n, 64", "memref<96x64xf16>", "#nx64"),
         ["memref extent 0 is 96, but the size of the view is dynamic"]),
        (view("64, 96", "memref<96x64xf16>", "#b96x64"),
         ["memref extent 0 is 96, but the size of the view is 64",
          "memref extent 1 is 64, but the size of the view is 96",
          "coordinate_set holds coordinates 0 to 95 in dimension 0, but the size of the view is 64"]),
    ],
)  # fmt: skip
def test_extents_of_views(body: str, messages: list[str]) -> None:
    """ktir checklist 32. S-CMV7: level V takes them, level S reports them, all at once."""
    assert strict(body) == [VIEW + m for m in messages]


def test_the_note_names_the_type_that_fits() -> None:
    parsed = ktir.parse(module(view("%n, 64", "memref<96x32xf16>", "#nx64")))
    notes = {n.message for d in strict_findings(parsed) for n in d.notes}
    assert notes == {"the type that fits the sizes is memref<?x64xf16>"}


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (view("96, 64", "memref<96x64xf16>", "#b32"), ["coordinate_set has 1 dimensions, but the view has rank 2"]),
        (view("%n, 64", "memref<?x64xf16>", "#mxn"),
         ["coordinate_set has 2 symbols, but the view has 1 dynamic sizes"]),
        (view("96, 64", "memref<96x64xf16>", "#nx64", strides="%n, 1"),
         ["coordinate_set has 1 symbols, but the view has 0 dynamic sizes"]),
        (view("96, 64", "memref<96x64xf16>", "#b96x65"),
         ["coordinate_set holds coordinates 0 to 64 in dimension 1, but the size of the view is 64"]),
        ("%s = arith.constant 40 : index\n" + view("%s, 64", "memref<?x64xf16>", "#nx64"), []),
        ("%s = arith.constant -4 : index\n" + view("%s, 64", "memref<?x64xf16>", "#nx64"),
         ["size 0 of the view is negative (-4)"]),
        (view("96", "memref<96xf64>", "#low", strides="1"), ["element type f64 of the view is no storage type"]),
        (view("96", "memref<96xi7>", "#low", strides="1"), ["element type i7 of the view is no storage type"]),
        *[(view("96", f"memref<96x{t}>", "#low", strides="1"), [])
          for t in ("f16", "bf16", "!spyreop.df16", "f32", "i1", "i8", "si32", "ui32", "i64", "index", "f8E4M3FN",
                    "!spyreop.fp32_fused")],
        (view("96", "memref<96xf16, #ktdp.memory_space<ct_local>>", "#low", strides="1"),
         ["memory space #ktdp.memory_space<ct_local> of the memref differs from the view's, "
          "#ktdp.memory_space<global>"]),
        (view("96", "memref<96xf16, #ktdp.memory_space<global>>", "#low", strides="1"), []),
    ],
)  # fmt: skip
def test_sets_sizes_and_elements_of_views(body: str, messages: list[str]) -> None:
    """S-CMV8 to S-CMV10; constants behind values count."""
    assert strict(body) == [VIEW + m for m in messages]


def test_symbols_bind_to_dynamic_sizes_from_left_to_right() -> None:
    """ktir checklist 34. Sizes 3 and 5: the set over [a, b] has 15 points, rows first."""
    constants = "%three = arith.constant 3 : index\n%five = arith.constant 5 : index\n"
    body = constants + view("%three, 8, %five", "memref<?x8x?xf16>", "SET", strides="40, 5, 1")
    fitting = "(i, j, k)[a, b] : (i >= 0, -i + a - 1 >= 0, j >= 0, -j + 7 >= 0, k >= 0, -k + b - 1 >= 0)"
    crossed = fitting.replace("[a, b]", "[b, a]")
    assert strict(body.replace("SET", f"affine_set<{fitting}>")) == []
    assert strict(body.replace("SET", f"affine_set<{crossed}>")) == [
        VIEW + "coordinate_set holds coordinates 0 to 4 in dimension 0, but the size of the view is 3"
    ]
    parsed = ktir.parse(module(body.replace("SET", f"affine_set<{fitting}>")))
    (made,) = (op for op in parsed.walk() if op.name == "ktdp.construct_memory_view")
    points = made.coordinate_set.set.points((3, 5))  # type: ignore[attr-defined]
    assert points.max(axis=0).tolist() == [2, 7, 4]


def test_sets_that_begin_elsewhere_are_for_partitions() -> None:
    """Section 8 item 10: a view used directly is indexed from 0."""
    late = view("32", "memref<32xf16>", "#late", strides="1")
    use = (
        "%a = ktdp.construct_access_tile %v[%c0] {access_tile_set = #b32, access_tile_order = #id1} "
        ": memref<32xf16> -> !ktdp.access_tile<32xindex>"
    )
    message = VIEW + "coordinate_set begins at (64), but a view that is used directly is indexed from 0"
    assert strict(late + use) == [message]
    first = view("64", "memref<64xf16>", "affine_set<(i) : (i >= 0, -i + 63 >= 0)>", strides="1")
    joined = (
        first.replace("%v", "%w")
        + late
        + "%d = ktdp.construct_distributed_memory_view(%w, %v : memref<64xf16>, memref<32xf16>) : memref<96xf16>"
    )
    assert strict(joined) == []


@pytest.mark.parametrize(
    ("offset", "size", "type", "message"),
    [
        (1048512, 64, "f16", None),
        (1048513, 64, "f16", "view covers bytes 2097026 to 2097154 of a scratchpad of 2097152 bytes"),
        (524288 - 64, 64, "f32", None),
        (524288, 64, "f32", "view covers bytes 2097152 to 2097408 of a scratchpad of 2097152 bytes"),
        (-1, 64, "f16", "view covers bytes -2 to 126 of a scratchpad of 2097152 bytes"),
    ],
)
def test_views_at_constant_places_lie_in_the_scratchpad(
    offset: int, size: int, type: str, message: str | None
) -> None:
    """Spec 4.6."""
    body = f"%o = arith.constant {offset} : index\n" + view(
        f"{size}", f"memref<{size}x{type}>", "affine_set<(i) : (i >= 0, -i + 63 >= 0)>", "1", "ct_local", "%o"
    )
    assert strict(body) == ([] if message is None else [VIEW + message])


def test_the_address_unit_of_the_module_counts() -> None:
    body = "%o = arith.constant 1048513 : index\n" + view(
        "64", "memref<64xf16>", "affine_set<(i) : (i >= 0, -i + 63 >= 0)>", "1", "ct_local", "%o"
    )
    inner = module(body).replace(HEADER, "")
    text = f'{HEADER} module attributes {{ktdp.address_unit = "byte"}} {{ {inner} }}'
    assert strict_findings(ktir.parse(text)) == ()
    assert strict_findings(ktir.parse(text.replace('"byte"', '"element"'))) != ()


def test_tiles_that_the_grid_does_not_have() -> None:
    body = view("96", "memref<96xf16>", "#low", "1", "ct_local, ct_id = 9")
    assert strict(body, "grid = [2, 5]") == []
    assert strict(body) == []
    assert strict(body, "grid = [2, 2]") == [VIEW + "ct_id = 9 is out of range [0, 4) for this grid"]


def test_old_memory_spaces_without_a_new_form() -> None:
    body = GOOD.replace("#ktdp.memory_space<global>", "#ktdp.spyre_memory_space<L0>")
    assert strict(body) == [VIEW + "memory space #ktdp.spyre_memory_space<L0> has no meaning on this machine"]


# -- distributed views


def parts(*sets: str, space: str = "ct_local, ct_id = {}") -> str:
    """One partition per set, each in the scratchpad of its own tile."""
    sizes = {"#low": 48, "#high": 48, "#late": 32, "#cross": 56}
    return "".join(
        view(str(sizes[s]), f"memref<{sizes[s]}xf16>", s, "1", space.format(i)).replace("%v", f"%p{i}")
        for i, s in enumerate(sets)
    )


def joined(*sets: str, type: str = "memref<96xf16>", space: str = "ct_local, ct_id = {}") -> str:
    sizes = {"#low": 48, "#high": 48, "#late": 32, "#cross": 56}
    names = ", ".join(f"%p{i}" for i in range(len(sets)))
    types = ", ".join(f"memref<{sizes[s]}xf16>" for s in sets)
    return parts(*sets, space=space) + (
        f"%d = ktdp.construct_distributed_memory_view({names} : {types}) : {type}"
    )


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (joined("#low", "#high"), []),
        (joined("#low", "#high", type="memref<?xf16>"), []),
        ("%d = ktdp.construct_distributed_memory_view() : memref<4xf16>", ["has no partitions"]),
        ("%d = ktdp.construct_distributed_memory_view(%t32, %t32 : memref<32xf16>, memref<32xf16>) : memref<64xf16>",
         ["partition #0 is not the direct result of ktdp.construct_memory_view",
          "partition #1 is not the direct result of ktdp.construct_memory_view"]),
        (joined("#low", "#high", type="memref<97xf16>"), ["memref extent 0 is 97, but the partitions end at 96"]),
        (joined("#low", "#cross"), ["partitions #0 and #1 overlap"]),
        (joined("#low", "#late"), ["partitions cover 80 of the 96 coordinates"]),
        (joined("#low", "#high", space="ct_local"),
         ["partition #0 lies in the scratchpad of whichever tile executes",
          "partition #1 lies in the scratchpad of whichever tile executes"]),
        (joined("#low", "#high", space="global"), []),
    ],
)  # fmt: skip
def test_distributed_views(body: str, messages: list[str]) -> None:
    """S-CDV5 to S-CDV8."""
    assert strict(body) == ["'ktdp.construct_distributed_memory_view' op " + m for m in messages]


def test_nested_distributed_views() -> None:
    """S-CDV5: the coordinates of a distributed view are no partition's."""
    body = joined("#low", "#high") + (
        "\n%e = ktdp.construct_distributed_memory_view(%d : memref<96xf16>) : memref<96xf16>"
    )
    (message,) = strict(body)
    assert "partition #0 is not the direct result of ktdp.construct_memory_view" in message


# -- tiles


def tile(
    set: str, order: str, type: str, at: str = "%c0, %c0", base: str = "%t96 : memref<96x64xf16>"
) -> str:
    name, _, base_type = base.partition(" : ")
    return (
        f"%a = ktdp.construct_access_tile {name}[{at}] {{access_tile_set = {set}, access_tile_order = {order}}} "
        f": {base_type} -> !ktdp.access_tile<{type}>\n"
    )


TILE = "'ktdp.construct_access_tile' op "


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (tile("#b8x16", "#id2", "8x16xindex"), []),
        (tile("#b8x16", "#swap", "16x8xindex"), []),
        (tile("#b8x16", "#id2", "16x8xindex"),
         ["tile extents 16x8 do not fit the 8x16 points of access_tile_set"]),
        (tile("#b8x16", "#swap", "8x16xindex"),
         ["tile extents 8x16 do not fit the 16x8 points of access_tile_set"]),
        (tile("#b8x16", "#id2", "?x16xindex"),
         ["tile extents ?x16 do not fit the 8x16 points of access_tile_set"]),
        (tile("#even", "#id2", "8x8xindex"), []),
        (tile("#even", "#id2", "8x16xindex"), ["tile extents 8x16 do not fit the 8x8 points of access_tile_set"]),
        (tile("#triangle", "#id2", "6x1xindex"), []),
        (tile("#triangle", "#id2", "3x3xindex"), ["the tile has 9 elements, but access_tile_set has 6 points"]),
        (tile("#b8x16", "#fold", "8x16xindex"), ["access_tile_order must be a permutation"]),
    ],
)  # fmt: skip
def test_extents_of_tiles(body: str, messages: list[str]) -> None:
    """ktir checklist 49. S-CAT8 and S-CAT9: verified programs, reported at level S."""
    assert strict(body) == [TILE + m for m in messages]


def test_extents_with_symbols() -> None:
    """Open symbols leave the extents open; constants behind symbols count."""
    text = (
        "%a = ktdp.construct_access_tile %t96[%c0, %c0] symbols(%s) "
        "{{access_tile_set = #nx64, access_tile_order = #id2}} : memref<96x64xf16> -> !ktdp.access_tile<{}>"
    )
    for constant, extent, messages in (
        ("%s = arith.addi %n, %n : index\n", "?x64xindex", []),
        ("%s = arith.addi %n, %n : index\n", "9x64xindex", []),
        ("%s = arith.constant 9 : index\n", "?x64xindex", []),
        ("%s = arith.constant 9 : index\n", "9x64xindex", []),
        ("%s = arith.constant 9 : index\n", "8x64xindex",
         [TILE + "tile extents 8x64 do not fit the 9x64 points of access_tile_set"]),
        ("%e = arith.constant 8 : index\n%o = arith.constant 1 : index\n%s = arith.addi %e, %o : index\n",
         "8x64xindex", [TILE + "tile extents 8x64 do not fit the 9x64 points of access_tile_set"]),
    ):  # fmt: skip
        assert strict(constant + text.format(extent)) == messages


@pytest.mark.parametrize("last", [2**62, 2**63 - 1, 2**64 - 2])
def test_sets_of_absurd_size(last: int) -> None:
    """More points than anything can hold are a finding like any other."""
    try:
        messages = strict(
            tile(f"affine_set<(i, j) : (i >= 0, -i + {last} >= 0, j == 0)>", "#id2", "8x1xindex")
        )
    except ktir.ParseError:  # the number itself is refused
        return
    assert TILE + f"tile extents 8x1 do not fit the {last + 1}x1 points of access_tile_set" in messages


def test_number_of_subscripts() -> None:
    """S-CAT7, with the note that says what the base wants."""
    body = tile("#b32", "#id1", "32xindex", "%c0")
    assert strict(body) == [TILE + "number of subscripts (1) must match base rank (2)"]
    (only,) = strict_findings(ktir.parse(module(body)))
    assert [n.message for n in only.notes] == ["expected 2 indices for memref<96x64xf16>, got 1"]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("88, 48", None),
        ("89, 48", "the tile covers coordinates 89 to 96 of dimension 0, but the base has extent 96"),
        ("0, -1", "the tile covers coordinates -1 to 14 of dimension 1, but the base has extent 64"),
        ("%n, 0", None),
        ("%n, 49", "the tile covers coordinates 49 to 64 of dimension 1, but the base has extent 64"),
        ("%k * 12, 0", "the tile covers coordinates 96 to 103 of dimension 0, but the base has extent 96"),
    ],
)
def test_tiles_that_leave_their_base(at: str, message: str | None) -> None:
    """S-CAT10: what can be seen without running."""
    body = "%k = arith.constant 8 : index\n" + tile("#b8x16", "#id2", "8x16xindex", at)
    assert strict(body) == ([] if message is None else [TILE + message])


def test_tiles_larger_than_their_base() -> None:
    """Section 8 item 29: 65 columns of 64."""
    body = tile("#b96x65", "#id2", "96x65xindex", "%n, %n")
    message = "the tile spans 65 coordinates of dimension 1, but the base has extent 64"
    assert strict(body) == [TILE + message]


def test_loads_and_stores_do_not_convert() -> None:
    """S-LD3 and S-ST3."""
    made = tile("#b8x16", "#id2", "8x16xindex")
    short = "!ktdp.access_tile<8x16xindex>"
    assert strict(f"{made}%d = ktdp.load %a : {short} -> tensor<8x16xf16>") == []
    assert strict(f"{made}%d = ktdp.load %a : {short} -> tensor<8x16xf32>") == [
        "'ktdp.load' op loads elements of type f32, but the base holds f16"
    ]
    assert strict(f"{made}ktdp.store %tile, %a : tensor<8x16xf16>, {short}") == []
    assert strict(f"{made}ktdp.store %wide, %a : tensor<8x16xf32>, {short}") == [
        "'ktdp.store' op stores elements of type f32, but the base holds f16"
    ]


def test_tensors_cannot_be_stored_to() -> None:
    made = tile("#b8x16", "#id2", "8x16xindex", base="%tile : tensor<8x16xf16>")
    assert strict(f"{made}%d = ktdp.load %a : <8x16xindex> -> tensor<8x16xf16>") == []
    assert strict(f"{made}ktdp.store %tile, %a : tensor<8x16xf16>, <8x16xindex>") == [
        "'ktdp.store' op stores into an access tile of a tensor"
    ]


INDIRECT = """%a = ktdp.construct_indirect_access_tile intermediate_variables(%i, %j) %t96[ind(TAB[%i, %j]), (%j)]
  {variables_space_set = #b5x3, variables_space_order = #id2} : memref<96x64xf16>, TYPE -> !ktdp.access_tile<5x3xindex>
"""


def test_indirect_tiles() -> None:
    """S-IAT16, S-IAT17 and the element type of index views."""
    good = INDIRECT.replace("TAB", "%tab").replace("TYPE", "memref<5x3xi32>")
    name = "'ktdp.construct_indirect_access_tile' op "
    assert strict(good) == []
    assert strict(good.replace("5x3xindex", "3x5xindex")) == [
        name + "tile extents 3x5 do not fit the 5x3 points of variables_space_set"
    ]
    assert strict(good.replace("#id2", "#fold")) == [name + "variables_space_order must be a permutation"]
    floats = INDIRECT.replace("TAB", "%t96").replace("TYPE", "memref<96x64xf16>")
    assert strict(floats) == [name + "index view of dimension 0 has elements of type f16"]


def test_indices_are_read_when_the_tile_is_made() -> None:
    """Section 8 item 12: a store to the index view between construction and use does not move the tile."""
    table = view("5, 3", "memref<5x3xi32>", "#b5x3", "3, 1", offset="%y")
    gather = INDIRECT.replace("TAB", "%v").replace("TYPE", "memref<5x3xi32>")
    target = (
        "%t = ktdp.construct_access_tile %v[%c0, %c0] {access_tile_set = #b5x3, access_tile_order = #id2} "
        ": memref<5x3xi32> -> !ktdp.access_tile<5x3xindex>\n%z = arith.constant dense<0> : tensor<5x3xi32>\n"
    )
    store = "ktdp.store %z, %t : tensor<5x3xi32>, <5x3xindex>\n"
    load = "%d = ktdp.load %a : <5x3xindex> -> tensor<5x3xf16>\n"
    message = (
        "'ktdp.construct_indirect_access_tile' op an index view may be written between this tile and its use"
    )
    assert strict(table + target + gather + store + load) == [message]
    assert strict(table + target + store + gather + load) == []
    assert strict(table + target + gather + load + store) == []
    elsewhere = view("5, 3", "memref<5x3xi32>", "#b5x3", "3, 1", offset="%x").replace("%v", "%w")
    assert strict(table + elsewhere + target.replace("%v", "%w") + gather + store + load) == []


# -- communication


PRODUCE = """%f = ktdp.inter_tile_produce producer_tiles_per_group = #four -> <(tensor<8xf16>), groups = #g1> {
^bb0(%g: index):
  INSIDE
  ktdp.yield_partial %part : tensor<8xf16>
}
"""
REDUCE = """%r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #four, identity(%part : tensor<8xf16>)
  : <(tensor<8xf16>), groups = #g1> -> tensor<8xf16> {
^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
  INSIDE
  %s = arith.addf %a, %b : tensor<8xf16>
  ktdp.yield_reduced %s : tensor<8xf16>
}
"""
BOTH = (PRODUCE + REDUCE).replace("INSIDE", "")
MADE = tile("#b8x16", "#id2", "8x16xindex").replace("%a", "%at")
LOAD = "%d = ktdp.load %at : <8x16xindex> -> tensor<8x16xf16>"
STORE = "ktdp.store %tile, %at : tensor<8x16xf16>, <8x16xindex>"


def test_regions_of_inter_tile_operations() -> None:
    """S-IP7 and R10: the producer may read; neither writes or communicates."""
    effect = "'{}' op has an effect inside the region of 'ktdp.inter_tile_{}'"
    for inside, region, messages in (
        ("", "produce", []),
        (LOAD, "produce", []),
        (STORE, "produce", [effect.format("ktdp.store", "produce")]),
        (LOAD, "reduce", [effect.format("ktdp.load", "reduce")]),
        (STORE, "reduce", [effect.format("ktdp.store", "reduce")]),
    ):
        body = PRODUCE.replace("INSIDE", inside if region == "produce" else "")
        body += REDUCE.replace("INSIDE", inside if region == "reduce" else "")
        assert strict(MADE + body) == messages
    nested = PRODUCE.replace("INSIDE", PRODUCE.replace("%f", "%h").replace("%g", "%gg").replace("INSIDE", ""))
    assert "'ktdp.inter_tile_produce' op stands inside the region of 'ktdp.inter_tile_produce'" in strict(
        nested + REDUCE.replace("INSIDE", "")
    )


def test_partials_are_tensors() -> None:
    """Spec 1.1.3."""
    text = BOTH.replace("tensor<8xf16>", "i1").replace("%part", "%c").replace("arith.addf", "arith.addi")
    assert strict(text) == ["'ktdp.inter_tile_produce' op partial type #0 of the future is i1"]


@pytest.mark.parametrize(
    ("around", "under"),
    [
        ("scf.if %same {{ {} }}", "scf.if"),
        ("scf.for %q = %c0 to %id step %one {{ {} }}", "scf.for"),
        ("scf.while (%w = %same) : (i1) -> (i1) {{ scf.condition(%w) %w : i1 }} do {{ ^bb0(%z: i1): {} "
         "scf.yield %z : i1 }}", "scf.while"),
        ("%l = scf.for %q = %c0 to %n step %one iter_args(%m = %c0) -> (index) {{ %p = arith.addi %m, %id : index "
         "scf.yield %p : index }}\n%u = arith.cmpi eq, %l, %one : index\nscf.if %u {{ {} }}", "scf.if"),
    ],
)  # fmt: skip
def test_communication_under_conditions_that_differ_between_tiles(around: str, under: str) -> None:
    """Spec 1.13.7: the tiles that do not come wait for ever."""
    before = (
        "%id = ktdp.get_compute_tile_id : index\n%one = arith.constant 1 : index\n"
        "%same = arith.cmpi eq, %id, %c0 : index\n"
    )
    message = f"op runs under an '{under}' that depends on the tile id"
    assert strict(before + around.format(BOTH)) == [
        f"'ktdp.inter_tile_{name}' {message}" for name in ("produce", "reduce")
    ]
    uniform = (before + around.format(BOTH)).replace(
        "= ktdp.get_compute_tile_id : index", "= arith.addi %n, %n : index"
    )
    assert strict(uniform) == []


def test_what_an_all_reduce_delivers_is_uniform() -> None:
    body = (
        BOTH.replace("%part : tensor<8xf16>\n", "%mine : tensor<8xf16>\n")
        + "%h = tensor.extract %r[%c0] : tensor<8xf16>\n%u = arith.cmpf ogt, %h, %h : f16\n"
        + f"scf.if %u {{ {BOTH.replace('%f', '%f2').replace('%r ', '%r2 ')} }}"
    )
    before = (
        "%id = ktdp.get_compute_tile_id : index\n%i32 = arith.index_cast %id : index to i32\n"
        "%h0 = arith.sitofp %i32 : i32 to f16\n%mine = tensor.splat %h0 : tensor<8xf16>\n"
    )
    assert strict(before + body) == []


def test_deliveries_follow_what_they_deliver() -> None:
    other = BOTH.replace("%f", "%f2").replace("%r", "%r2")
    body = PRODUCE.replace("INSIDE", "") + other + REDUCE.replace("INSIDE", "")
    assert strict(body) == [
        "'ktdp.inter_tile_reduce' op another delivery stands between this one and what produces its future"
    ]
    assert strict(BOTH + other) == []
    apart = PRODUCE.replace("INSIDE", "") + f"scf.if %c {{ {REDUCE.replace('INSIDE', '')} }}"
    assert strict(apart) == [
        "'ktdp.inter_tile_reduce' op stands in another block than what produces its future"
    ]


def test_placeholders_of_dependencies() -> None:
    """Section 8 item 13: accepted, with a warning that nothing is said."""
    body = BOTH.replace("#four, identity", "#four, producer_dependency_per_consumer = "
                        "affine_set<(p, c)[g] : (p >= 0)>, identity")  # fmt: skip
    assert strict(body) == [
        "'ktdp.inter_tile_reduce' op producer_dependency_per_consumer gives no dependency information"
    ]


def test_communication_in_bodies_of_tensor_operations() -> None:
    body = f"%t = tensor.generate {{ ^bb0(%i: index): {BOTH} %h = tensor.extract %r[%i] : tensor<8xf16> tensor.yield %h : f16 }} : tensor<8xf16>"
    assert strict(body) == [
        f"'ktdp.inter_tile_{name}' op communicates inside 'tensor.generate'" for name in ("produce", "reduce")
    ]


# -- values and whole modules


def test_results_that_nobody_uses() -> None:
    """Section 8 item 29: storing 'outs' instead of the result."""
    add = "%r = linalg.add ins(%tile, %tile : tensor<8x16xf16>, tensor<8x16xf16>) outs(%tile : tensor<8x16xf16>) -> tensor<8x16xf16>\n"
    assert strict(add) == ["'linalg.add' op result is never used"]
    assert strict(MADE + add + STORE.replace("%tile", "%r")) == []


def test_layer_norm_takes_the_mean() -> None:
    """Spec 2.5: the operand is named after something else than it takes."""
    body = (
        "%h = arith.constant 1.0 : f16\n%m, %s = spyreop.exx2 %h : f16\n%z = spyreop.layernormscale %m squares %s : f16\n"
        "%r = spyreop.layernormnorm %h squares {} scale %z weight %h bias %h : f16"
    )
    assert strict(body.format("%m")) == []
    assert strict(body.format("%s")) == [
        "'spyreop.layernormnorm' op operand 'squares' takes the mean, but this is the mean of squares"
    ]


def test_kernels_whose_interface_cannot_be_derived() -> None:
    """Spec 4.3: one buffer viewed with two element sizes."""
    body = GOOD + view("96, 32", "memref<96x32xf32>", "affine_set<(i, j) : (i >= 0, -i + 95 >= 0, j >= 0, -j + 31 >= 0)>", "32, 1").replace("%v", "%w")  # fmt: skip
    (only,) = strict_findings(ktir.parse(module(body, "grid = [1]")))
    assert "is viewed with element sizes of 2 and 4 bytes" in only.message


REPOSITORY = Path(__file__).parents[3]
PROGRAMS = sorted(
    (
        *(REPOSITORY / "packages" / "ktir" / "examples").glob("*.mlir"),
        *(REPOSITORY / "integration" / "kernels").glob("*.mlir"),
    )
)


@pytest.mark.parametrize("path", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_good_programs_have_no_findings(path: Path) -> None:
    """Examples and kernels written by hand pass levels V, L and S silently."""
    assert ktir.check(ktir.load(path), "VLS") == ()
