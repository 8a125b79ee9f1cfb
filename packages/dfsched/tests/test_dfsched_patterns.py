"""Device patterns: the PDL subset, native functions, selection, the driver, and patterns in Python."""

from __future__ import annotations

import pytest

import ktir
from dfsched import load_architecture
from dfsched.architecture import Architecture
from dfsched.errors import PatternError
from dfsched.patterns import (
    Handle,
    PatternRegistry,
    Rewriter,
    apply_device_patterns,
    opaque_over_registers,
    select_patterns,
)
from ktir.attributes import StringAttr
from ktir.ir import Operation

UNIT = 'exec_unit {kind = "U", ktdf_arch.features = {ktdf_arch.feature.compute}}'


def program(
    patterns: str, body: str, *, registry: PatternRegistry | None = None, groups: tuple[str, ...] = ()
) -> str:
    """The function `@f` with ``body`` after the device's patterns ran; results are kept alive by a sink."""
    module = ktir.parse(
        f"ktdf_arch.device @d {{ {UNIT}\n{patterns} }}\n"
        f"module {{ func.func @f(%a: f16, %b: f32, %c: i32, %m: memref<4x8xf16>) {{\n{body}\nreturn\n}} }}\n"
    )
    ktir.verify(module)
    after = apply_device_patterns(module, groups, registry=registry or PatternRegistry())
    ktir.verify(after)
    text = ktir.print_module(after)
    return "\n".join(
        line.strip()
        for line in text[text.index("func.func") :].splitlines()[1:]
        if line.strip() not in ("}", "return")
    )


def unary(old: str, new: str, type: str = "f16", groups: str = "", benefit: int = 1) -> str:
    """A block with one pattern that renames a unary operation."""
    return f"""patterns {groups} {{ pdl.pattern : benefit({benefit}) {{
      %t = type : {type}
      %x = operand : %t
      %o = operation "{old}" (%x : !pdl.value) -> (%t : !pdl.type)
      rewrite {{
        %n = operation "{new}" (%x : !pdl.value) -> (%t : !pdl.type)
        replace %o with %n
      }} }} }}"""


USE = '"t.old"(%a) : (f16) -> f16\n"t.sink"(%0) : (f16) -> ()'
OLD = "%0 = " + USE


# -- matching and rewriting --------------------------------------------------------------------------------


def test_rename() -> None:
    """A text pattern rewrites what it matches and nothing else."""
    text = program(unary("t.old", "t.new"), OLD)
    assert '"t.new"(%a)' in text
    assert "t.old" not in text
    other = program(unary("t.old", "t.new", "f32"), OLD)
    assert "t.old" in other


def test_counts_must_match() -> None:
    """Two listed operands and no results match exactly that (checklist V55)."""
    pattern = """patterns { pdl.pattern : benefit(1) {
      %x = operand
      %y = operand
      %o = operation "t.two" (%x, %y : !pdl.value, !pdl.value)
      rewrite { erase %o } } }"""
    text = program(
        pattern,
        '"t.two"(%a, %b) : (f16, f32) -> ()\n"t.two"(%a, %a, %b) : (f16, f16, f32) -> ()\n'
        '%r = "t.two"(%a, %c) : (f16, i32) -> f16\n"t.two"() : () -> ()',
    )
    assert text.count("t.two") == 3
    same = """patterns { pdl.pattern : benefit(1) {
      %x = operand
      %o = operation "t.two" (%x, %x : !pdl.value, !pdl.value)
      rewrite { erase %o } } }"""
    text = program(same, '"t.two"(%a, %a) : (f16, f16) -> ()\n"t.two"(%a, %b) : (f16, f32) -> ()')
    assert text == '"t.two"(%a, %b) : (f16, f32) -> ()'


def test_attributes() -> None:
    """Listed attributes must be present and equal, others do not matter (checklist V56)."""
    pattern = """patterns { pdl.pattern : benefit(1) {
      %k = attribute = 7 : i32
      %o = operation "t.a" {"k" = %k}
      rewrite { erase %o } } }"""
    text = program(
        pattern, '"t.a"() {k = 7 : i32, z} : () -> ()\n"t.a"() {k = 8 : i32} : () -> ()\n"t.a"() : () -> ()'
    )
    assert text.splitlines() == ['"t.a"() {k = 8 : i32} : () -> ()', '"t.a"() : () -> ()']


def test_several_operations() -> None:
    """An operand may be the result of another matched operation; either may be the root."""
    pattern = """patterns { pdl.pattern @fuse : benefit(1) {
      %t = type
      %x = operand : %t
      %inner = operation "t.neg" (%x : !pdl.value) -> (%t : !pdl.type)
      %v = result 0 of %inner
      %outer = operation "t.neg" (%v : !pdl.value) -> (%t : !pdl.type)
      rewrite %outer { replace %outer with (%x : !pdl.value) } } }"""
    text = program(
        pattern,
        '%0 = "t.neg"(%b) : (f32) -> f32\n%1 = "t.neg"(%0) : (f32) -> f32\n"t.sink"(%1) : (f32) -> ()',
    )
    assert '"t.sink"(%b)' in text


def test_widening_applies_once() -> None:
    """f16 -> f32 -> f16 reaches a fixed point (checklist V58)."""
    pattern = """patterns { pdl.pattern : benefit(1) {
      %h = type : f16
      %w = type : f32
      %x = operand : %h
      %o = operation "t.f" (%x : !pdl.value) -> (%h : !pdl.type)
      rewrite {
        %e = operation "arith.extf" (%x : !pdl.value) -> (%w : !pdl.type)
        %ev = result 0 of %e
        %f = operation "t.f" (%ev : !pdl.value) -> (%w : !pdl.type)
        %fv = result 0 of %f
        %t = operation "arith.truncf" (%fv : !pdl.value) -> (%h : !pdl.type)
        %tv = result 0 of %t
        replace %o with (%tv : !pdl.value)
      } } }"""
    text = program(pattern, '%0 = "t.f"(%a) : (f16) -> f16\n"t.sink"(%0) : (f16) -> ()')
    assert text.count("t.f") == 1
    assert "arith.extf %a : f16 to f32" in text
    assert "arith.truncf" in text


def test_patterns_that_do_not_end() -> None:
    """Patterns that undo each other fail the pass (checklist V58)."""
    with pytest.raises(PatternError, match="fail to converge"):
        program(unary("t.old", "t.new") + unary("t.new", "t.old"), OLD)


def test_benefit_and_order() -> None:
    """Higher benefit first, equal benefit in textual order (4.3)."""
    assert "t.second" in program(unary("t.old", "t.first") + unary("t.old", "t.second", benefit=2), OLD)
    assert "t.first" in program(unary("t.old", "t.first") + unary("t.old", "t.second"), OLD)


def test_failing_native_rewrite_leaves_no_trace() -> None:
    """A native rewrite that refuses abandons the match, created operations included (4.3)."""
    pattern = """patterns { pdl.pattern : benefit(1) {
      %t = type : f16
      %x = operand : %t
      %o = operation "t.old" (%x : !pdl.value) -> (%t : !pdl.type)
      rewrite {
        %n = operation "t.new" (%x : !pdl.value) -> (%t : !pdl.type)
        %s = apply_native_rewrite "ktdf.subview_source" (%x : !pdl.value) : !pdl.value
        replace %o with %n
      } } }"""
    text = program(pattern, OLD)
    assert "t.new" not in text
    assert "t.old" in text


def test_wrong_replacements_are_refused() -> None:
    """A replacement of another type does not match; nothing is left behind."""
    pattern = """patterns { pdl.pattern : benefit(1) {
      %t = type : f16
      %x = operand : %t
      %o = operation "t.old" (%x : !pdl.value) -> (%t : !pdl.type)
      rewrite {
        %w = type : f32
        %n = operation "t.new" (%x : !pdl.value) -> (%w : !pdl.type)
        replace %o with %n
      } } }"""
    assert "t.old" in program(pattern, OLD)


def test_compile_errors() -> None:
    """Unknown natives, unclear roots and unreachable operations are errors at the pattern."""
    with pytest.raises(PatternError, match=r"no native constraint function 'x\.y'"):
        program(
            'patterns { pdl.pattern : benefit(1) { %o = operation "t.a" '
            'apply_native_constraint "x.y" (%o : !pdl.operation) rewrite { erase %o } } }',
            "",
        )
    two = '%o = operation "t.a" %p = operation "t.b"'
    with pytest.raises(PatternError, match="root is not clear"):
        program(f"patterns {{ pdl.pattern : benefit(1) {{ {two} rewrite {{ erase %o }} }} }}", "")
    with pytest.raises(PatternError, match="not reached from the root"):
        program(f"patterns {{ pdl.pattern : benefit(1) {{ {two} rewrite %o {{ erase %o }} }} }}", "")


def test_unsupported_constructs() -> None:
    """What is outside the subset is refused by name (checklist V61)."""
    for text, name in (
        ("%r = operands", "pdl.operands"),
        ("%r = types", "pdl.types"),
        ("%r = pdl.range", "pdl.range"),
        ("%r = results of %o", "pdl.results"),
        ("rewrite %o with", "external rewriter"),
        ("%r = attribute : %t", "attribute with a type"),
    ):
        with pytest.raises(ktir.ParseError, match="unsupported PDL construct") as caught:
            program(
                f'patterns {{ pdl.pattern : benefit(1) {{ %o = operation "t.a" {text} rewrite {{ erase %o }} }} }}',
                "",
            )
        assert name in str(caught.value)


def test_pattern_rules() -> None:
    """A pattern has an operation, ends in a rewrite, and its pieces stand where they belong."""
    for text, key in (
        ('pdl.pattern : benefit(1) { %o = operation "t.a" }', "pdl.rewrite"),
        ("pdl.pattern : benefit(1) { rewrite { } }", "at least one `pdl.operation`"),
        (
            'pdl.pattern : benefit(1) { %o = operation "t.a" rewrite { %n = operation replace %o with %n } }',
            "name",
        ),
    ):
        module = ktir.parse(f"ktdf_arch.device @d {{ {UNIT} patterns {{ {text} }} }}")
        with pytest.raises(ktir.VerifyError) as caught:
            ktir.verify(module)
        assert key in str(caught.value)


# -- native functions --------------------------------------------------------------------------------------

MAP = """patterns { pdl.pattern : benefit(1) {
  %o = operation "t.a"
  %m = apply_native_constraint "ktdf_arch.mapped_to" (%o : !pdl.operation) : !pdl.attribute {isNegated = true}
  rewrite {
    %u = attribute = "U"
    apply_native_rewrite "ktdf_arch.map_to" (%o, %u : !pdl.operation, !pdl.attribute)
  } } }"""


def test_mapping() -> None:
    """A negated `mapped_to` with `map_to` reaches a fixed point (checklist V57, V59)."""
    text = program(MAP, '"t.a"() : () -> ()\n"t.a"() {ktdf_arch.maps_to = "V"} : () -> ()')
    assert text.splitlines() == [
        '"t.a"() {ktdf_arch.maps_to = "U"} : () -> ()',
        '"t.a"() {ktdf_arch.maps_to = "V"} : () -> ()',
    ]


def test_features() -> None:
    """`has_feature` with and without requirement; `set_feature` creates and extends (checklist V59)."""

    def pattern(required: str) -> str:
        names = "%o, %q, %r : !pdl.operation, !pdl.attribute, !pdl.attribute"
        arguments = names if required else "%o, %q : !pdl.operation, !pdl.attribute"
        more = f"%r = attribute = {required}" if required else ""
        return f"""patterns {{ pdl.pattern : benefit(1) {{
          %o = operation "t.a"
          %q = attribute = "ktdf_arch.feature.queue"
          {more}
          %f = apply_native_constraint "ktdf_arch.has_feature" ({arguments}) : !pdl.attribute
          rewrite {{
            %n = attribute = "foo.copy"
            apply_native_rewrite "ktdf_arch.set_feature" (%o, %n, %f : !pdl.operation, !pdl.attribute, !pdl.attribute)
          }} }} }}"""

    body = '"t.a"() {ktdf_arch.features = {ktdf_arch.feature.queue = {depth = 4}}} : () -> ()\n"t.a"() : () -> ()'
    for required in ("", "{depth = 3}"):
        text = program(pattern(required), body)
        assert text.count("foo.copy = {depth = 4 : i64}") == 1
    assert "foo.copy" not in program(pattern("{depth = 5}"), body)
    fresh = """patterns { pdl.pattern : benefit(1) {
      %o = operation "t.a"
      rewrite {
        %n = attribute = "foo.x"
        %v = attribute = 1
        apply_native_rewrite "ktdf_arch.set_feature" (%o, %n, %v : !pdl.operation, !pdl.attribute, !pdl.attribute)
      } } }"""
    assert "ktdf_arch.features = {foo.x = 1 : i64}" in program(fresh, '"t.a"() : () -> ()')


GENERIC = """linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> ({map})>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "{kind}"]}} ins(%m : memref<4x8xf16>) outs(%s : {out}) {{
  ^bb0(%x: f16, %acc: f16):
    {body}
    linalg.yield %y : f16
  }}"""
SUBVIEW = "memref<4xf16, strided<[8]>>"
VIEW = f"%s = memref.subview %m[0, 0] [4, 1] [1, 1] : memref<4x8xf16> to {SUBVIEW}"


def reduction(kind: str) -> str:
    return f"""patterns ["post_scheduling"] {{ pdl.pattern : benefit(1) {{
      %src = operand
      %dst = operand
      %g = operation "linalg.generic" (%src, %dst : !pdl.value, !pdl.value)
      apply_native_constraint "ktdf.is_inner_dim_reduction" (%g : !pdl.operation)
      %kind = attribute = "{kind}"
      apply_native_constraint "ktdf.is_reduction_kind" (%g, %kind : !pdl.operation, !pdl.attribute)
      rewrite {{
        %none = attribute = {{}}
        %par = apply_native_rewrite "ktdf.with_precision" (%g, %none : !pdl.operation, !pdl.attribute) : !pdl.attribute
        %acc = apply_native_rewrite "ktdf.subview_source" (%dst : !pdl.value) : !pdl.value
        %n = operation "t.reduce" (%src, %acc : !pdl.value, !pdl.value) {{"parameters" = %par}}
        replace %g with %n
      }} }} }}"""


BODIES = {
    "sum": "%y = arith.addf %x, %acc : f16",
    "max": "%y = arith.maximumf %x, %acc : f16",
    "min": "%y = arith.minimumf %x, %acc : f16",
    "absmax": "%p = math.absf %x : f16\n%q = math.absf %acc : f16\n%y = arith.maxnumf %p, %q : f16",
}


@pytest.mark.parametrize("wanted", list(BODIES))
def test_reduction_kinds(wanted: str) -> None:
    """`is_reduction_kind` tells sum, max, min and absmax apart (checklist V64, V65)."""
    for kind, body in BODIES.items():
        text = program(
            reduction(wanted),
            VIEW + "\n" + GENERIC.format(map="d0, d1", kind="reduction", out=SUBVIEW, body=body),
            groups=("post_scheduling",),
        )
        assert ('"t.reduce"(%m, %m) {parameters = {prec = "fp16"}}' in text) == (kind == wanted)


def test_inner_dim_reduction_refuses() -> None:
    """A parallel last dimension, and an output that is no subview, are not matched (checklist V63)."""
    body = BODIES["sum"]
    for text in (
        VIEW + "\n" + GENERIC.format(map="d0, d1", kind="parallel", out=SUBVIEW, body=body),
        "%s = memref.alloc() : memref<4xf16>\n"
        + GENERIC.format(map="d0, d1", kind="reduction", out="memref<4xf16>", body=body),
    ):
        assert "t.reduce" not in program(reduction("sum"), text, groups=("post_scheduling",))


# -- selection ---------------------------------------------------------------------------------------------


def test_checkpoints() -> None:
    """A block without groups always runs, others only when one is enabled (checklist V53, V54)."""
    always = unary("t.old", "t.new")
    grouped = unary("t.old", "t.new", groups='["pre_scheduling", "b"]')
    assert "t.new" in program(always, OLD)
    assert "t.new" in program(always, OLD, groups=("x",))
    assert "t.old" in program(grouped, OLD)
    assert "t.old" in program(grouped, OLD, groups=("x",))
    assert "t.new" in program(grouped, OLD, groups=("pre_scheduling",))
    assert "t.new" in program(grouped, OLD, groups=("b", "a")) == program(grouped, OLD, groups=("a", "b"))


def test_no_device() -> None:
    """Without a device, or with an ambiguous one, functions stay as they are (checklist V35, V60)."""
    function = f"func.func @f(%a: f16) {{ {OLD} return }}"
    module = ktir.parse(function)
    assert apply_device_patterns(module) is module
    block = unary("t.old", "t.new")
    two = f"ktdf_arch.device @d {{ {UNIT} {block} }}\nktdf_arch.device @e {{ {UNIT} }}\n"
    assert "t.old" in ktir.print_module(apply_device_patterns(ktir.parse(two + function)))
    chosen = function.replace(") {", ") attributes {ktdf_arch.maps_to = @d} {", 1)
    assert "t.new" in ktir.print_module(apply_device_patterns(ktir.parse(two + chosen)))
    other = function.replace(") {", ") attributes {ktdf_arch.maps_to = @e} {", 1)
    assert "t.old" in ktir.print_module(apply_device_patterns(ktir.parse(two + other)))


# -- Python ------------------------------------------------------------------------------------------------

RECIPROCAL = """patterns ["pre_scheduling"] { pdl.pattern : benefit(1) {
  %h = type : f16
  %x = operand : %h
  %op = operation "t.reciprocal" (%x : !pdl.value) -> (%h : !pdl.type)
  rewrite {
    %rf = attribute = "REG"
    %two = attribute = 2.0 : f16
    %k_op = operation "arith.constant" {"value" = %two, "ktdf_arch.maps_to" = %rf} -> (%h : !pdl.type)
    %k = result 0 of %k_op
    %cell = type : memref<f16, "REG">
    %nodyn = attribute = array<i32: 0, 0>
    %a_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
    %a = result 0 of %a_op
    %st = operation "memref.store" (%x, %a : !pdl.value, !pdl.value)
    %b_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
    %b = result 0 of %b_op
    %c_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
    %c = result 0 of %c_op
    %name = attribute = "recip_nr"
    %regs = attribute = ["k0", "in0", "out0", "tmp0"]
    %seg = attribute = array<i32: 2, 2>
    %call = operation "ktdf.opaque" (%k, %a, %b, %c : !pdl.value, !pdl.value, !pdl.value, !pdl.value)
      {"template_name" = %name, "func_name" = %name,
       "dataflow_scheduler.register_names" = %regs, "operandSegmentSizes" = %seg}
    %ld = operation "memref.load" (%b : !pdl.value) -> (%h : !pdl.type)
    %y = result 0 of %ld
    replace %op with (%y : !pdl.value)
  } } }"""


def test_python_twin() -> None:
    """A pattern registered from Python and its text twin give equal IR (checklist V62)."""
    registry = PatternRegistry()

    @registry.pattern(checkpoint="pre_scheduling", root="t.reciprocal")
    def reciprocal(op: Handle, rewriter: Rewriter, device: Architecture) -> bool:
        assert device.name == "d"
        type = op.results[0].type
        value = opaque_over_registers(
            rewriter,
            "recip_nr",
            inputs=op.operands,
            result=type,
            registers=StringAttr("REG"),
            constants=[("k0", ktir.attributes.FloatAttr.of(2.0, ktir.types.F16), type)],
            temporaries=[("tmp0", type)],
        )
        rewriter.replace(op, [value])
        return True

    body = '%0 = "t.reciprocal"(%a) : (f16) -> f16\n"t.sink"(%0) : (f16) -> ()'
    text = program(RECIPROCAL, body, groups=("pre_scheduling",))
    assert 'ktdf.opaque "recip_nr"' in text
    assert 'dataflow_scheduler.register_names = ["k0", "in0", "out0", "tmp0"]' in text
    python = program("", body, registry=registry, groups=("pre_scheduling",))
    assert python == text
    assert program("", body, registry=registry) == body


def test_python_pattern_that_declines() -> None:
    """Staged changes of a pattern that returns False are dropped."""
    registry = PatternRegistry()

    @registry.pattern(root="t.old")
    def declines(op: Handle, rewriter: Rewriter, device: Architecture) -> bool:
        rewriter.create("t.new")
        rewriter.set_attribute(op, "x", StringAttr("y"))
        return False

    assert program("", OLD, registry=registry) == OLD


def test_native_functions_from_python() -> None:
    """Natives registered from Python are usable from text; names are unique."""
    registry = PatternRegistry()

    @registry.constraint("my.is_first")
    def is_first(rewriter: Rewriter, op: Handle) -> bool:
        return op.attributes.get("first") is not None

    with pytest.raises(ValueError, match="registered already"):
        registry.constraint("my.is_first")(is_first)
    pattern = """patterns { pdl.pattern : benefit(1) {
      %o = operation "t.a"
      apply_native_constraint "my.is_first" (%o : !pdl.operation)
      rewrite { erase %o } } }"""
    assert (
        program(pattern, '"t.a"() {first} : () -> ()\n"t.a"() : () -> ()', registry=registry)
        == '"t.a"() : () -> ()'
    )


def test_device_of_registered_pattern() -> None:
    """Patterns may be registered for one device only."""
    registry = PatternRegistry()

    @registry.pattern(root="t.a", device="other")
    def never(op: Handle, rewriter: Rewriter, device: Architecture) -> bool:
        raise AssertionError

    assert select_patterns(load_architecture("sample_h"), (), registry) == ()
    assert program("", '"t.a"() : () -> ()', registry=registry) == '"t.a"() : () -> ()'


def test_untouched_function_is_shared() -> None:
    """A function in which nothing matches comes back as the same object."""
    module = ktir.parse(
        f"ktdf_arch.device @d {{ {UNIT} {unary('t.none', 't.new')} }}\nfunc.func @f() {{ return }}"
    )
    assert apply_device_patterns(module) is module
    functions: list[Operation] = [op for op in module.walk() if op.name == "func.func"]
    assert len(functions) == 1
