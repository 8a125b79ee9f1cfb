"""The `ktdf` and `ktdf_lowering` dialects: text in and out, verification, folding (scheduler spec 1)."""

from __future__ import annotations

import pytest

import ktir
from dfsched.dialects.ktdf import (
    BufferPhase,
    DataTransfer,
    DeriveSize,
    FifoAllocate,
    FifoSlotType,
    LinearizeIndex,
    Parallel,
    SelectMemref,
)
from dfsched.passes.simplify_loops import simplify_loops
from ktir import transforms
from ktir.attributes import index_attr

ARGUMENTS = (
    '%m: memref<4x32xf16, "L1">, %g: memref<64x32xf16, "DDR">, %i: index, %n: index, %v: tensor<4x8xf16>, '
    '%s: !ktdf.fifo.slot<"A" -> "B", 32xf16>, %d: !ktdf.fifo.slot<"A" -> "B", ?xf16>, %t: !ktdf.token'
)


def parse(body: str) -> ktir.Module:
    return ktir.parse(f"func.func @f({ARGUMENTS}) {{\n{body}\nreturn\n}}")


def round_trip(body: str) -> str:
    """The printed body; both forms read back to the same text."""
    module = parse(body)
    ktir.verify(module)
    text = ktir.print_module(module)
    assert ktir.print_module(ktir.parse(text)) == text
    assert ktir.print_module(ktir.parse(ktir.print_module(module, generic=True))) == text
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(lines[2:-3])


def first(module: ktir.Module, cls: type) -> ktir.Operation:
    return next(op for op in module.walk() if isinstance(op, cls))


def messages(body: str) -> str:
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(parse(body))
    return str(caught.value)


def test_slot_types_round_trip() -> None:
    """Checklist D1, D2."""
    body = (
        '%a = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"A" -> "B", 12xf32>\n'
        '%b = ktdf.fifo.allocate(%n) -> !ktdf.fifo.slot<#ktdp.memory_space<global> -> "B", ?xi32>'
    )
    assert '!ktdf.fifo.slot<#ktdp.memory_space<global> -> "B", ?xi32>' in round_trip(body)
    with pytest.raises(ktir.ParseError):
        parse('%a = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"A" -> "B", 12 f32>')


def test_reads_and_writes_print_the_stripped_type() -> None:
    """Checklist D3."""
    full = (
        '%x = ktdf.read_from_fifo %s : !ktdf.fifo.slot<"A" -> "B", 32xf16> -> tensor<4x8xf16>\n'
        'ktdf.write_to_fifo %x, %s : tensor<4x8xf16>, !ktdf.fifo.slot<"A" -> "B", 32xf16>'
    )
    stripped = full.replace("!ktdf.fifo.slot<", "<")
    assert round_trip(full) == round_trip(stripped)
    assert ' : <"A" -> "B", 32xf16> -> tensor<4x8xf16>' in round_trip(full)


def test_slots_that_nobody_uses() -> None:
    """Checklist D5: the allocation goes, unless one of its slots is used."""
    pair = '%a:2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"A" -> "B", 32xf16>, !ktdf.fifo.slot<"A" -> "B", 32xf16>'
    assert not any(isinstance(op, FifoAllocate) for op in transforms.canonicalize(parse(pair)).walk())
    used = pair + '\nktdf.write_to_fifo %v, %a#1 : tensor<4x8xf16>, <"A" -> "B", 32xf16>'
    (kept,) = [op for op in transforms.canonicalize(parse(used)).walk() if isinstance(op, FifoAllocate)]
    assert len(kept.slots) == 2


def test_what_is_never_the_same_twice() -> None:
    """Checklist D8."""
    size = "ktdf.tiling.reserve_size {divisibility = 2 : index, min_value = 1 : index} : index"
    lines = ["%k0 = ktdf.create_token : !ktdf.token", "%k1 = ktdf.create_token : !ktdf.token"]
    lines += [
        f"%s0 = {size}",
        f"%s1 = {size}",
        '"test.use"(%k0, %k1, %s0, %s1) : (!ktdf.token, !ktdf.token, index, index) -> ()',
    ]
    merged = transforms.cse(parse("\n".join(lines)))
    (use,) = [op for op in merged.walk() if op.name == "test.use"]
    assert len(set(use.operands)) == 4


def test_dynamic_slots_need_sizes() -> None:
    """Checklist D4."""
    assert "expects 1 sizes" in messages('%a = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"A" -> "B", ?xf16>')
    round_trip('%a = ktdf.fifo.allocate(%n) -> !ktdf.fifo.slot<"A" -> "B", ?xf16>')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("tensor<4x9xf16>", "slot holds 32 elements, but the data has 36"),
        ("tensor<?x8xf16>", "must both be dynamic or both be static"),
        ("tensor<4x8xf32>", "element type"),
    ],
)
def test_slot_and_data_must_agree(data: str, message: str) -> None:
    """Checklist D6, D7."""
    assert message in messages(f'%x = ktdf.read_from_fifo %s : <"A" -> "B", 32xf16> -> {data}')
    round_trip('%x = ktdf.read_from_fifo %s : <"A" -> "B", 32xf16> -> tensor<1x32xf16>')
    round_trip('%x = ktdf.read_from_fifo %d : <"A" -> "B", ?xf16> -> tensor<?x32xf16>')


def test_pipelines_hold_stages_and_one_private() -> None:
    """Checklist D9, D10, D11, D12."""
    text = messages("ktdf.pipeline {\n%c = arith.constant 1 : index\n}")
    assert "may directly hold only" in text
    assert "'arith.constant' is here" in text
    assert "at most one 'ktdf.private'" in messages(
        "ktdf.pipeline {\nktdf.private {\n}\nktdf.private {\n}\n}"
    )
    assert "modulo must be at least 1" in messages("ktdf.pipeline modulo(size: 0) {\n}")
    assert "modulo(size : 3)" in round_trip("ktdf.pipeline modulo(size: 3) {\n}")
    assert "ktdf.pipeline" in messages("ktdf.stage depends_in(none) depends_out(none) {\n}")


def test_tokens_come_from_create_token() -> None:
    """Checklist D13, D14."""
    argument = "ktdf.pipeline {\nktdf.stage depends_in(%t) depends_out(none) { }\n}"
    assert "depends_in token must come from" in messages(argument)
    private = (
        "ktdf.pipeline {\n%r = ktdf.private -> (!ktdf.token) {\n%k = ktdf.create_token : !ktdf.token\n"
        "ktdf.private_yield %k : !ktdf.token\n}\n"
        'ktdf.stage depends_in(none) depends_out(%r) { } {applicable_units = ["SFU"]}\n}'
    )
    assert '} {applicable_units = ["SFU"]}' in round_trip(private)
    assert "depends_out token" in messages(
        "ktdf.pipeline {\nktdf.stage depends_in(none) depends_out(%t) { }\n}"
    )


def test_private_yields_what_it_declares() -> None:
    """Checklist D15."""
    wrong_type = "ktdf.pipeline {\n%r = ktdf.private -> (!ktdf.token) {\nktdf.private_yield %i : index\n}\n}"
    wrong_count = "ktdf.pipeline {\nktdf.private {\nktdf.private_yield %i : index\n}\n}"
    assert "but the body yields index" in messages(wrong_type)
    assert "has 0 results, but its body yields 1 values" in messages(wrong_count)


def test_subscripts_become_a_map() -> None:
    """Checklist D16, D17."""
    module = parse(
        "ktdf.data_transfer from %g[%i, %i + 1] size [1, 32] to %m[0, 0] size [1, 32] : "
        'memref<64x32xf16, "DDR">, memref<4x32xf16, "L1">'
    )
    transfer = first(module, DataTransfer)
    assert isinstance(transfer, DataTransfer)
    assert str(transfer.source_cell.map) == "(d0) -> (d0, d0 + 1)"
    assert len(transfer.source_cell.indices) == 1
    assert str(transfer.dest_cell.map) == "() -> (0, 0)"
    assert transfer.dest_cell.indices == ()
    assert transfer.source_cell.num_elements == 32


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("%m[0, 0] size [4]", "source has 1 sizes, but the memref has rank 2"),
        ("%m[0] size [4, 8]", "source map has 1 results, but the memref has rank 2"),
        ("%m size [4, 8]", "source is a memref and needs subscripts"),
    ],
)
def test_transfer_sides_match_the_memref(source: str, message: str) -> None:
    """Checklist D18."""
    text = f'ktdf.data_transfer from {source} to %s size [32] : memref<4x32xf16, "L1">, '
    assert message in messages(text + '!ktdf.fifo.slot<"A" -> "B", 32xf16>')


def test_slots_take_no_subscripts() -> None:
    """Checklist D19."""
    types = 'memref<4x32xf16, "L1">, !ktdf.fifo.slot<"A" -> "B", 32xf16>'
    for box in ("[1, 32]", "[32]"):
        round_trip(f"ktdf.data_transfer from %m[0, 0] size [1, 32] to %s size {box} : {types}")
    bad = f"ktdf.data_transfer from %m[0, 0] size [1, 32] to %s[0] size [32] : {types}"
    assert "takes no subscripts" in messages(bad)
    mixed = 'memref<4x32xf16, "L1">, !ktdf.fifo.slot<"A" -> "B", 32xf32>'
    text = f"ktdf.data_transfer from %m[0, 0] size [1, 32] to %q size [32] : {mixed}"
    allocate = '%q = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"A" -> "B", 32xf32>\n'
    assert "same element type" in messages(allocate + text)


def test_dynamic_transfer_sizes_are_operands() -> None:
    """Scheduler spec 1.7: a size may be a value."""
    text = (
        "ktdf.data_transfer from %g[%i, %n * 2 + 3] size [1, %n] to %s size [32] : "
        'memref<64x32xf16, "DDR">, !ktdf.fifo.slot<"A" -> "B", 32xf16>'
    )
    assert round_trip(text) == text


def test_derive_size_folds_only_where_it_is_known() -> None:
    """Checklist D20, D21 and the additional folding of scheduler spec 1.8."""
    assert "expects at least one pair" in messages(
        '%x = "ktdf.tiling.derive_size"(%n) <{operandSegmentSizes = array<i32: 0, 0, 1>}> : (index) -> index'
    )
    assert "expects at least one pair" in messages(
        '%x = "ktdf.tiling.linearize_index"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> index'
    )
    one = first(parse("%x = ktdf.tiling.derive_size [%i : %n], total_size = %n : index"), DeriveSize)
    constants = index_attr(0), index_attr(5), index_attr(3)
    assert one.fold(constants) == [index_attr(3)]
    assert one.fold((index_attr(1), index_attr(5), index_attr(3))) is None
    assert one.fold((None, index_attr(4), index_attr(8))) == [index_attr(4)]
    two = first(
        parse("%x = ktdf.tiling.derive_size [%i : %n], [%i : %n], total_size = %n : index"), DeriveSize
    )
    assert two.fold((index_attr(0),) * 5) is None
    linear = first(parse("%x = ktdf.tiling.linearize_index [%i : %n], [%n : %i] : index"), LinearizeIndex)
    assert linear.fold(tuple(map(index_attr, (2, 3, 10, 1)))) == [index_attr(23)]


def test_parallel_needs_a_variable_an_instance_and_a_yield() -> None:
    """Checklist D22."""
    with pytest.raises(ktir.ParseError, match="at least one loop variable and the instance id"):
        parse("ktdf.parallel (%w) = () to () step () distribute(num_instances = 1) {\n}")
    text = "ktdf.parallel (%a, %w) = (%i) to (%n) step (%n) distribute(num_instances = {}) {{\n{}}}"
    assert "num_instances must be at least 1" in messages(text.format(0, "ktdf.parallel_yield\n"))
    with pytest.raises(ktir.VerifyError):
        ktir.verify(parse(text.format(2, "")))
    module = parse(text.format(2, "ktdf.parallel_yield\n"))
    op = first(module, Parallel)
    assert isinstance(op, Parallel)
    assert len(op.induction_variables) == 1
    assert "distribute(num_instances = 2)" in ktir.print_module(module)


def test_buffer_phases_and_selects() -> None:
    """Checklist D23, D24."""
    assert "num_phases must be at least 2" in messages(
        "%p = ktdf.buffer_phase(%i) {num_phases = 1 : i64} : index"
    )
    assert "at least one loop variable" in messages("%p = ktdf.buffer_phase() {num_phases = 2 : i64} : index")
    phase = "%p = ktdf.buffer_phase(%i) {num_phases = 3 : i64} : index\n"
    select = '%x = ktdf.select_memref %p[%m, %m] : memref<4x32xf16, "L1">'
    assert "selects among 2 candidates by a phase of 3" in messages(phase + select)
    assert "at least two candidates" in messages(phase + select.replace("%m, %m", "%m"))
    module = parse(phase.replace("3", "2") + select)
    ktir.verify(module)
    op = first(module, SelectMemref)
    assert isinstance(op, SelectMemref)
    assert op.fold((index_attr(1), None, None)) == [op.candidates[1]]
    assert op.fold((index_attr(2), None, None)) is None
    assert first(module, BufferPhase).fold((index_attr(7),)) == [index_attr(0)]
    mixed = parse(
        "%c = arith.constant 3 : index\n%p = ktdf.buffer_phase(%i, %c, %n) {num_phases = 2 : i64} : index\n"
        + select
        + '\n"test.use"(%x) : (memref<4x32xf16, "L1">) -> ()'
    )
    phase_of = first(simplify_loops(mixed), BufferPhase)
    assert [value.name for value in phase_of.operands] == ["i", "n"]


def test_discardable_attributes_survive() -> None:
    """Checklist D25."""
    text = (
        "ktdf.data_transfer from %m[0, 0] size [1, 1] to %s size [32] "
        '{foo = 1 : i32, transfer_mode = "splat"} '
        ': memref<4x32xf16, "L1">, !ktdf.fifo.slot<"A" -> "B", 32xf16>'
    )
    assert round_trip(text) == text
    module = parse(text)
    transfer = first(module, DataTransfer)
    assert isinstance(transfer, DataTransfer)
    assert transfer.mode == "splat"
    assert sorted(transfer.discardable) == ["foo", "transfer_mode"]


def test_opaque_round_trips() -> None:
    """Checklist D26."""
    round_trip('ktdf.opaque "NOP" ins() outs()')
    text = round_trip(
        '%e = ktdf.opaque "RSQRT" -> tensor<4x8xf16> ins(%v, %i : tensor<4x8xf16>, index) '
        "outs(%v : tensor<4x8xf16>)"
    )
    assert '"RSQRT" -> tensor<4x8xf16> ins(' in text


INDIRECT = """ktdf.ind_data_transfer
  ind_src = {}
  dir_src = {}
  ind_dst = {}
  dir_dst = {}
  : {}"""
TABLE = 'memref<16xindex, "IAB">'
MEMORY = 'memref<4x32xf16, "L1">'
SLOT = '!ktdf.fifo.slot<"A" -> "B", 32xf16>'
IAB = f"%iab = memref.alloc() : {TABLE}\n"


def indirect(ind_src: str, dir_src: str, ind_dst: str, dir_dst: str, types: str) -> str:
    return IAB + INDIRECT.format(ind_src, dir_src, ind_dst, dir_dst, types)


@pytest.mark.parametrize(
    "text",
    [
        indirect("%iab[%i]", "%g[%n, 0] size [1, 32]", "none", "%m[0, 0] size [1, 32]",
                 f'{TABLE}, memref<64x32xf16, "DDR">, none, {MEMORY}'),
        indirect("%iab[%i]", "%m[%n * 2, 0] size [1, 32]", "none", "%s size [32]", f"{TABLE}, {MEMORY}, none, {SLOT}"),
        indirect("none", "%s size [32]", "%iab[%n]", "%m[0, 0] size [1, 32]", f"none, {SLOT}, {TABLE}, {MEMORY}"),
    ],
    ids=["gather", "gather to a slot", "scatter from a slot"],
)  # fmt: skip
def test_indirect_transfers_round_trip(text: str) -> None:
    """Checklist D27: a table for one side; the other one may be a queue."""
    printed = round_trip(text)
    assert all(line.strip().replace("%iab", "%alloc") in printed for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (indirect("%iab[%i]", "%m[0, 0] size [1, 32]", "%iab[%n]", "%m[0, 0] size [1, 32]",
                  f"{TABLE}, {MEMORY}, {TABLE}, {MEMORY}"), "exactly one of ind_src and ind_dst must be present"),
        (indirect("none", "%m[0, 0] size [1, 32]", "none", "%m[0, 0] size [1, 32]", f"none, {MEMORY}, none, {MEMORY}"),
         "exactly one of ind_src and ind_dst must be present"),
        (indirect("%iab[%i]", "%s size [32]", "none", "%m[0, 0] size [1, 32]", f"{TABLE}, {SLOT}, none, {MEMORY}"),
         "dir_src must be a memref where ind_src is present"),
        (indirect("none", "%m[0, 0] size [1, 32]", "%iab[%i]", "%s size [32]", f"none, {MEMORY}, {TABLE}, {SLOT}"),
         "dir_dst must be a memref where ind_dst is present"),
        (indirect("%m[%i]", "%m[0, 0] size [1, 32]", "none", "%s size [32]", f"{MEMORY}, {MEMORY}, none, {SLOT}"),
         "ind_src must be a one-dimensional memref of index"),
        (indirect("%iab[%i]", "%m[0, 0] size [1]", "none", "%s size [32]", f"{TABLE}, {MEMORY}, none, {SLOT}"),
         "source has 1 sizes, but the memref has rank 2"),
    ],
    ids=["both", "neither", "gather from a slot", "scatter to a slot", "no table", "sizes"],
)  # fmt: skip
def test_indirect_transfers_that_are_refused(text: str, message: str) -> None:
    """Checklist D27."""
    assert message in messages(text)


def test_lowering_dialect_round_trips() -> None:
    """Dataflowir spec 2.1: no parentheses around units, no terminator."""
    text = "ktdf_lowering.execute_on %i, %n {\nktdf_lowering.signal %i, %n\n}"
    assert round_trip(text) == text


def test_one_way_signals_round_trip() -> None:
    """Senders and receivers are told apart however many there are."""
    text = "ktdf_lowering.post %i to %n, %i\nktdf_lowering.await %n, %i to %n"
    assert round_trip(text) == text


def test_slot_type_text() -> None:
    """The type prints as it is written."""
    from ktir.types import F16

    assert str(FifoSlotType.between("L1LU", "SFU", 64, F16)) == '!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>'
