"""The `ktdf_arch` language: parsing, printing, every verifier rule, and feature matching."""

from __future__ import annotations

import pytest

import ktir
from dfsched import load_architecture
from dfsched.architecture.feature_attributes import get_feature, matches
from dfsched.architecture.features import Access, Transfer, fit_access
from dfsched.dialects.ktdf_arch import DeviceOp, MapAttr
from dfsched.errors import ArchitectureError
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr, StringAttr, UnitAttr
from ktir.types import I64


def device(body: str, head: str = "") -> ktir.Operation:
    """A verified module with one device."""
    module = ktir.parse(f"{head}\nktdf_arch.device @d {{\n{body}\n}}\n")
    ktir.verify(module)
    return module


def refused(text: str, *keys: str) -> None:
    """The text parses, and verification reports every key."""
    module = ktir.parse(text)
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(module)
    for key in keys:
        assert key in str(caught.value)


def refused_body(body: str, *keys: str) -> None:
    refused(f"ktdf_arch.device @d {{\n{body}\n}}", *keys)


def value(text: str) -> Attribute:
    module = ktir.parse(f'"x.y"() {{a = {text}}} : () -> ()')
    (op,) = module.regions[0].block.operations
    return op.attributes["a"]


# -- language ----------------------------------------------------------------------------------------------


def test_aliases() -> None:
    """Aliases and one device; undefined and repeated ones fail (checklist V1, V2)."""
    one = load_architecture(device("memory #A", '#A = {kind = "M", size = 8}'))
    two = load_architecture(device('memory {size = 8, kind = "M"}'))
    assert one.resources == two.resources
    with pytest.raises(ktir.ParseError, match="undefined symbol alias id"):
        device("memory #B")
    with pytest.raises(ktir.ParseError, match="redefinition of attribute alias id"):
        device("memory #A", '#A = {kind = "M"}\n#A = {kind = "N"}')
    with pytest.raises(ktir.ParseError, match="expected a dictionary attribute"):
        device("memory #A", "#A = [1]")


def test_integers_and_dictionaries() -> None:
    """Untyped integers are i64; repeated keys fail; no value is unit (checklist V3, V4)."""
    assert value("16") == IntegerAttr(16, I64)
    refused_body('memory {kind = "M", size = 1 : i32}', "64-bit integer attribute")
    refused(
        'ktdf_arch.device @d attributes {version = 1 : i32} {\nmemory {kind = "M"}\n}',
        "64-bit signless integer",
    )
    assert value("{flag}")["flag"] == UnitAttr()  # type: ignore[index]
    with pytest.raises(ktir.ParseError, match="duplicate key"):
        value("{a = 1, a = 2}")


def test_map_attribute() -> None:
    """Order is kept, repeated keys fail in text and in Python, empty is legal (checklist V5, rule V30)."""
    parsed = value('#ktdf_arch.map<f32 = 1, "a" = [2]>')
    assert isinstance(parsed, MapAttr)
    assert [str(k) for k in parsed] == ["f32", '"a"']
    assert parsed[StringAttr("a")] == value("[2]")
    assert len(parsed) == 2
    assert StringAttr("b") not in parsed
    assert value("#ktdf_arch.map<>") == MapAttr(())
    with pytest.raises(ktir.ParseError, match="multiple entries for key"):
        value('#ktdf_arch.map<"a" = 1, "a" = 2>')
    with pytest.raises(ValueError, match="multiple entries for key"):
        MapAttr([(StringAttr("a"), UnitAttr()), (StringAttr("a"), UnitAttr())])


def test_prefix_may_be_dropped() -> None:
    """With and without the prefix (checklist V6)."""
    short = 'memory {kind = "M"}\ngroup share() { exec_unit {kind = "U"} }'
    full = 'ktdf_arch.memory {kind = "M"}\nktdf_arch.group share() { ktdf_arch.exec_unit {kind = "U"} }'
    assert load_architecture(device(short)) == load_architecture(device(full))
    with pytest.raises(ktir.ParseError, match="unknown"):
        ktir.parse('%m = memory {kind = "M"}')


def test_groups() -> None:
    """Bodies without yield, wrong results, captures (checklist V7, V8, V9, rules V10, V12)."""
    module = device("group share() { }")
    (group,) = load_architecture(module).groups
    assert group.results == ()
    refused_body(
        'group share() { exec_unit {kind = "U"} } -> exec_unit', "region branch point has 0 operands"
    )
    with pytest.raises(ktir.ParseError, match="undeclared SSA value name"):
        device(
            '%m = memory {kind = "M"}\ngroup share() { %u = exec_unit datapath %m to %u : memory, exec_unit }'
        )
    with pytest.raises(ktir.ParseError, match="expects different type"):
        device("%u = exec_unit\ngroup share(%u) { }")
    with pytest.raises(ktir.ParseError, match="without '#'"):
        device('%m = memory {kind = "M"}\ngroup share(%m#0) { }')
    with pytest.raises(ktir.ParseError, match="redefinition of SSA value"):
        device('%m = memory {kind = "M"}\ngroup share(%m, %m) { }')


def test_result_counts() -> None:
    """Naming more or fewer results than there are is a located error."""
    for text in (
        "%a:2 = memory {kind = 1}",
        "%a = group share() { }",
        "%a, %b = exec_unit",
        "%a = switch [2]",
    ):
        with pytest.raises(ktir.ParseError, match="result"):
            device(text)


def test_switch() -> None:
    """Ports and connectivity (checklist V10, V11, rule V13)."""
    (switch,) = load_architecture(device("%a:2 = switch [2]")).switches
    assert switch.ports == 2
    assert switch.connectivity == ((True, True), (True, True))
    splat = "%a:2 = switch [2] {connectivity = dense<true> : tensor<2x2xi1>}"
    assert load_architecture(device(splat)).switches[0].connectivity == switch.connectivity
    (diagonal,) = load_architecture(
        device("%a:2 = switch [2] {connectivity = dense<[[1, 0], [0, 1]]> : tensor<2x2xi1>}")
    ).switches
    assert diagonal.connectivity == ((True, False), (False, True))
    refused_body(
        "%a:2 = switch [2] {connectivity = dense<true> : tensor<3x3xi1>}", "expected connectivity shape"
    )
    refused_body(
        "%a:2 = switch [2] {connectivity = dense<1> : tensor<2x2xi8>}", "expected connectivity shape"
    )
    refused_body("%a:2 = switch [2] {connectivity = 1}", "expected connectivity shape")


def test_ids() -> None:
    """Ids are unique over all levels, links included (checklist V12, rule V6)."""
    refused_body(
        'memory @x {kind = "M"}\ngroup share() { group share() { exec_unit @x } }',
        'resource with id "x" redefined',
        "previous definition",
    )
    refused_body(
        '%m = memory @x {kind = "M"}\n%u = exec_unit\ndatapath @x %m to %u : memory, exec_unit',
        'resource with id "x" redefined',
    )
    built = load_architecture(device('memory @"odd id" {kind = "M"}'))
    assert built.ids["odd id"].kind == "M"


def test_children() -> None:
    """Only resources, and patterns only in the device (checklist V13, rules V5, V7, V16)."""
    refused_body('"foo.bar"() : () -> ()', "expects child ops to be resources")
    refused_body("group share() { patterns { } }", "expects parent op 'ktdf_arch.device'")
    refused('ktdf_arch.memory {kind = "M"}', "expects parent op to be")
    refused_body('patterns { "foo.bar"() : () -> () }', "expects child ops to be 'pdl.pattern'")
    device('patterns ["a", "b"] attributes {x = 1} { }')


def test_device_forms() -> None:
    """A body or an import, never both, never neither (rules V1 to V4)."""
    refused("ktdf_arch.device @d { }", "empty device requires 'import_path'")
    refused(
        '"ktdf_arch.device"() ({ %0 = "ktdf_arch.memory"() {kind = "M"} : () -> !ktdf_arch.memory })'
        ' {sym_name = "d", import_path = ""} : () -> ()',
        "non-empty device can't have 'import_path'",
    )
    refused('"ktdf_arch.device"() ({}) {import_path = "x"} : () -> ()', "sym_name")
    refused('ktdf_arch.device @d attributes {version = 1 : i32} import("x")', "64-bit")
    module = ktir.parse('ktdf_arch.device @d attributes {version = 3} import("x")')
    ktir.verify(module)
    (op,) = module.regions[0].block.operations
    assert isinstance(op, DeviceOp)
    assert op.is_import
    assert 'ktdf_arch.device @d attributes {version = 3 : i64} import("x")' in ktir.print_module(module)


def test_generic_device() -> None:
    """The generic form is accepted (1.3)."""
    module = ktir.parse(
        '"ktdf_arch.device"() ({ %0 = "ktdf_arch.memory"() {kind = "M"} : () -> !ktdf_arch.memory })'
        ' {sym_name = "d"} : () -> ()'
    )
    ktir.verify(module)
    assert load_architecture(module).memories[0].kind == "M"


@pytest.mark.parametrize(
    ("kind", "legal"),
    [
        ("1", True), ('"X"', True), ("{a}", True), ("#ktdp.memory_space<global>", True), ("#foo.bar", True),
        ("1.23", False), ("[1]", False), ("unit", False), ("f32", False), ("@x", False),
    ],
)  # fmt: skip
def test_memory_kinds(kind: str, legal: bool) -> None:
    """Legal memory spaces (checklist V15, rule V8)."""
    if legal:
        device(f"memory {{kind = {kind}}}")
    else:
        refused_body(f"memory {{kind = {kind}}}", "attribute 'kind' requires valid memory space")


def test_memory_without_kind_and_sizes() -> None:
    """Kind is required, sizes are i64 >= 1 (checklist V15, V16, rules V8, V9)."""
    refused_body("memory", "attribute 'kind' requires valid memory space")
    refused_body('memory {kind = "M", size = 0}', "64-bit integer attribute", "minimum value is 1")
    refused_body('memory {kind = "M", size = 1.4}', "64-bit integer attribute")
    device('memory {kind = "M"}')


LINK = '%m = memory {{kind = "M"}}\n%u = exec_unit\ndatapath {{{}}} %m to %u : memory, exec_unit'


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ("ktdf_arch.bandwidth = 0", "value must be > 0"),
        ('ktdf_arch.bandwidth = "a"', "requires 64-bit integer attribute"),
        ("ktdf_arch.transfer_granularity = [64]", "requires dense 64-bit integer array"),
        ("ktdf_arch.transfer_granularity = array<i32: 64>", "requires dense 64-bit integer array"),
        ("ktdf_arch.transfer_granularity = array<i64: 64, 2, 64>", "repeated granularity"),
        ("ktdf_arch.transfer_granularity = array<i64: -1>", "granularity"),
        ("ktdf_arch.features = 1", "requires dictionary attribute"),
        ("ktdf_arch.maps_to = @x", "only valid on mappable ops"),
        ('ktdf_arch.overlaps = "x"', "requires array attribute"),
        ("ktdf_arch.foo = 1", "unrecognized 'ktdf_arch'"),
        ("ktdf_arch.features = {ktdf_arch.feature.foo}", "unrecognized 'ktdf_arch' feature"),
        ("ktdf_arch.features = {ktdf_arch.feature.compute}", "only valid on execution units"),
        ("ktdf_arch.features = {ktdf_arch.feature.register_file}", "only valid on memory"),
        ("ktdf_arch.features = {ktdf_arch.feature.queue = 1}", "requires unit or dictionary attribute"),
        ("ktdf_arch.features = {ktdf_arch.feature.queue = {ordered = 1}}", "requires unit"),
        ("ktdf_arch.features = {ktdf_arch.feature.queue = {size = 1 : i32}}", "requires 64-bit integer"),
        ("ktdf_arch.features = {ktdf_arch.feature.queue = {depth = 0}}", "must be > 0"),
    ],
)
def test_link_rules(attributes: str, key: str) -> None:
    """Properties and features of links (checklist V17 to V22, rules V17 to V25, V29)."""
    refused_body(LINK.format(attributes), key)


def test_link_attributes_that_pass() -> None:
    """The passing side of the link rules."""
    device(
        LINK.format(
            "ktdf_arch.bandwidth = 1, ktdf_arch.transfer_granularity = array<i64: 64, 2>, foo.bar = 1, "
            "ktdf_arch.overlaps = [1], ktdf_arch.features = {ktdf_arch.feature.queue = {ordered, depth = 1}, "
            "spyre.feature.x = 3}"
        )
    )
    device(LINK.format("ktdf_arch.features = {ktdf_arch.feature.queue}"))


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ("ktdf_arch.bandwidth = 1", "only valid on links"),
        ("ktdf_arch.transfer_granularity = array<i64: 1>", "only valid on links"),
        ("ktdf_arch.features = {ktdf_arch.feature.queue}", "only valid on links"),
        ("ktdf_arch.features = {ktdf_arch.feature.load = 1}", "requires unit or dictionary attribute"),
        ("ktdf_arch.features = {ktdf_arch.feature.load = {word_size = 1}}", "'word_size' requires map"),
        (
            'ktdf_arch.features = {ktdf_arch.feature.load = {word_size = #ktdf_arch.map<"K" = "x">}}',
            "'word_size' requires map",
        ),
        (
            'ktdf_arch.features = {ktdf_arch.feature.store = {word_size = #ktdf_arch.map<"K" = 0>}}',
            "'word_size[\"K\"]' must be",
        ),
        (
            "ktdf_arch.features = {ktdf_arch.feature.load = {access_granularity = 1}}",
            "'access_granularity' requires map",
        ),
        (
            "ktdf_arch.features = {ktdf_arch.feature.load = {access_granularity = #ktdf_arch.map<0 = [1]>}}",
            "'access_granularity' requires map",
        ),
        (
            "ktdf_arch.features = {ktdf_arch.feature.load = {access_granularity = #ktdf_arch.map<0 = [{}]>}}",
            "'size_in_words' requires 64-bit integer",
        ),
        (
            "ktdf_arch.features = {ktdf_arch.feature.load = {access_granularity = "
            '#ktdf_arch.map<"K" = [{size_in_words = 1, align_in_words = 0}]>}}',
            "'align_in_words' must be > 0",
        ),
        ("ktdf_arch.features = {ktdf_arch.feature.simd = {splat = 1}}", "requires unit"),
        (
            "ktdf_arch.features = {ktdf_arch.feature.simd = {lanes = 1}}",
            "requires map from type to 64-bit integer",
        ),
        (
            'ktdf_arch.features = {ktdf_arch.feature.simd = {lanes = #ktdf_arch.map<"f16" = 1>}}',
            "requires map from type to 64-bit integer",
        ),
        (
            "ktdf_arch.features = {ktdf_arch.feature.simd = {lanes = #ktdf_arch.map<f16 = 64, f32 = -4>}}",
            "field 'lanes' value must be > 0, but got -4 for f32",
        ),
    ],
)
def test_unit_rules(attributes: str, key: str) -> None:
    """Properties and features of units (checklist V17, V18, V21, rules V18 to V28)."""
    refused_body(f"exec_unit {{{attributes}}}", key)


def test_unit_attributes_that_pass() -> None:
    """The passing side of the unit rules."""
    device(
        "exec_unit {ktdf_arch.features = {ktdf_arch.feature.compute, ktdf_arch.feature.load, "
        'ktdf_arch.feature.store = {word_size = #ktdf_arch.map<"K" = 64>, '
        'access_granularity = #ktdf_arch.map<"K" = [{size_in_words = 1}]>},'
        "ktdf_arch.feature.simd = {splat, zero_pad, lanes = #ktdf_arch.map<f16 = 64>}}}"
    )


def test_memory_features() -> None:
    """Address buffers and register files (rules V24, V25)."""
    built = load_architecture(
        device(
            'memory {kind = "A", ktdf_arch.features = {ktdf_arch.feature.indirect_address_buffer = '
            '{num_entries = 32, entry_type = si32}}}\nmemory {kind = "B", ktdf_arch.features = '
            "{ktdf_arch.feature.register_file = {word_size = 128}}}"
        )
    )
    first, second = built.memories
    assert first.features.address_buffer is not None
    assert (first.features.address_buffer.num_entries, first.features.address_buffer.entry_type) == (
        32,
        "si32",
    )
    assert second.features.register_file is not None
    assert second.features.register_file.word_size == 128
    for record, key in (
        ("indirect_address_buffer = {entry_type = f16}", "requires integer type"),
        ("indirect_address_buffer = {num_entries = 1.0}", "requires 64-bit integer"),
        ("register_file = {word_size = 0}", "must be > 0"),
        ("register_file = 7", "requires unit or dictionary"),
    ):
        refused_body(f'memory {{kind = "A", ktdf_arch.features = {{ktdf_arch.feature.{record}}}}}', key)


def test_properties_on_other_operations() -> None:
    """`maps_to` and features are requirements elsewhere; unknown names fail (checklist V19, V20)."""
    tail = '\nktdf_arch.device @d { memory {kind = "M"} }'
    for good in (
        'ktdf_arch.maps_to = "SFU"',
        "foo.bar = 1",
        "ktdf_arch.features = {ktdf_arch.feature.compute}",
    ):
        ktir.verify(ktir.parse(f'"foo.op"() {{{good}}} : () -> ()' + tail))
    refused('"foo.op"() {ktdf_arch.foo = 1} : () -> ()' + tail, "unrecognized 'ktdf_arch'")
    refused("%c = arith.constant {ktdf_arch.bandwidth = 1} 0 : index" + tail, "only valid on links")
    refused('module { "foo.op"() {ktdf_arch.bar} : () -> () }' + tail, "unrecognized 'ktdf_arch'")


def test_self_link() -> None:
    """Endpoints are compared, not values (rule V14 and its compatibility choice)."""
    refused_body(
        "%g:2 = group share() { %u = exec_unit yield %u, %u } -> exec_unit, exec_unit\n"
        "datapath %g#0 to %g#1 : exec_unit, exec_unit",
        "can't link resource to itself",
    )
    with pytest.raises(ktir.ParseError, match="expects different type"):
        device('%m = memory {kind = "M"}\n%u = exec_unit\ndatapath %m to %u : exec_unit, exec_unit')


def test_extension_attributes() -> None:
    """Our own attributes are read with errors of their own (5.3)."""
    built = load_architecture(
        device('memory {kind = "M", size = 9, ktdf_ext.reserved = 4, ktdf_ext.bandwidth = [3, 2]}')
    )
    assert built.memories[0].reserved == 4
    assert built.memory_tree.available("M") == 5
    for bad in ("ktdf_ext.reserved = -1", "ktdf_ext.bandwidth = 0", "ktdf_ext.bandwidth = [1, 0]"):
        with pytest.raises(ArchitectureError, match="ktdf_ext"):
            load_architecture(device(f'memory {{kind = "M", {bad}}}'))


# -- matching ----------------------------------------------------------------------------------------------


def test_word_size_matching() -> None:
    """Absent means 1 (checklist V23)."""
    provided = value("{}")
    assert matches("load", provided, value('{word_size = #ktdf_arch.map<"K" = 1>}'))
    assert not matches("load", provided, value('{word_size = #ktdf_arch.map<"K" = 2>}'))


def test_access_matching() -> None:
    """Larger accesses with no stricter alignment satisfy (checklist V24)."""

    def one(size: int, align: int = 1) -> Transfer:
        return Transfer({}, {"K": (Access(size, align),)})

    assert one(8, 4).satisfies(one(4, 8))
    assert not one(8, 8).satisfies(one(8, 1))
    assert not one(1).satisfies(one(8))
    assert not Transfer().satisfies(one(1))
    assert fit_access([Access(2, 2), Access(2, 1)], 1) == Access(2, 1)


def test_simd_and_queue_matching() -> None:
    """Lanes and queues (checklist V26, V27)."""
    needs = value("{lanes = #ktdf_arch.map<f16 = 2>}")
    assert matches("simd", value("{lanes = #ktdf_arch.map<f16 = 4>}"), needs)
    assert not matches("simd", value("{lanes = #ktdf_arch.map<f16 = 1>}"), needs)
    assert not matches("simd", value("{lanes = #ktdf_arch.map<f32 = 4>}"), needs)
    assert not matches("simd", value("{}"), value("{splat}"))
    assert matches("queue", value("{depth = 256}"), value("{depth = 12}"))
    assert not matches("queue", value("{depth = 256}"), value("{depth = 512}"))
    assert not matches("queue", value("{depth = 256}"), value("{ordered}"))
    assert matches("queue", value("{ordered, size = 1}"), value("{ordered}"))


def test_unit_requirements() -> None:
    """A required unit is met by anything present (checklist V28)."""
    record, unit = value("{depth = 4}"), UnitAttr()
    assert matches("queue", record, unit)
    assert not matches("queue", unit, record)
    assert matches("compute", unit, unit)
    assert not matches("compute", unit, value("{}"))
    assert matches("register_file", value("{word_size = 2}"), value("{word_size = 2}"))
    assert not matches("register_file", value("{word_size = 2}"), value("{word_size = 4}"))
    assert not matches("foreign.x", record, value("{depth = 3}"))
    attributes = {"ktdf_arch.features": value("{ktdf_arch.feature.queue = {depth = 4}, foo.x = 1}")}
    assert get_feature(attributes, "queue") == record
    assert get_feature(attributes, "ktdf_arch.feature.queue", value("{depth = 4}")) == record
    assert get_feature(attributes, "queue", value("{depth = 5}")) is None
    assert get_feature(attributes, "foo.x") == value("1")
    assert get_feature({}, "queue") is None
