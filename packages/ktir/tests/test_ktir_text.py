"""Text in, text out: the parser and the printer on small programs (checklist P1 to P40 where named)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktir import Context, KtirError, Module, ParseError, VerifyError, parse, print_module, verify
from ktir.attributes import UnitAttr, float_to_bits
from ktir.ir import Operation, Region
from ktir.printer import float_text
from ktir.transforms import alpha_equivalent, structural_hash
from ktir.types import FloatType

CONTEXT = Context(installed=False)


def read(text: str) -> Module:
    module = parse(textwrap.dedent(text), CONTEXT, "t.mlir")
    verify(module)
    return module


def roundtrip(text: str) -> str:
    """The canonical text; checks that custom and generic form both read back to the same module."""
    module = read(text)
    custom, generic = print_module(module), print_module(module, generic=True)
    for spelled in (custom, generic):
        again = parse(spelled, CONTEXT)
        verify(again)
        assert alpha_equivalent(module, again)
        assert structural_hash(module) == structural_hash(again)
        assert print_module(again) == custom
        assert print_module(again, generic=True) == generic
    return custom


def test_spec_example() -> None:
    """The example of spec 0.3.6: old spelling in, new spelling and aliases out (names of arguments stay)."""
    text = roundtrip(
        """
        #whole = affine_set<(i) : (i >= 0, i <= 95)>
        #piece = affine_set<(i) : (i >= 0, -i + 31 >= 0)>
        #keep  = affine_map<(i) -> (i)>
        func.func @double(%p: index) attributes {grid = [3 : i64]} {
          %w = arith.constant 32 : index
          %k = arith.constant 2.0 : f16
          %t = ktdp.get_compute_tile_id : index
          %v = ktdp.construct_memory_view %p, sizes : [96], strides : [1] {
              memory_space = #ktdp.spyre_memory_space<HBM>, coordinate_set = #whole } : memref<96xf16>
          %b = arith.muli %t, %w : index
          %x = ktdp.construct_access_tile %v[%b] { access_tile_set = #piece, access_tile_order = #keep }
               : memref<96xf16> -> !ktdp.access_tile<32xindex>
          %d = ktdp.load %x : !ktdp.access_tile<32xindex> -> tensor<32xf16>
          %s = tensor.splat %k : tensor<32xf16>
          %m = arith.mulf %d, %s : tensor<32xf16>
          ktdp.store %m, %x : tensor<32xf16>, !ktdp.access_tile<32xindex>
          return
        }
        """
    )
    view = (
        "%1 = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {coordinate_set = #set, "
        "memory_space = #ktdp.memory_space<global>} : memref<96xf16>"
    )
    tile = (
        "%3 = ktdp.construct_access_tile %1[%2] {access_tile_order = #map, access_tile_set = #set1} "
        ": memref<96xf16> -> !ktdp.access_tile<32xindex>"
    )
    assert text == textwrap.dedent(
        f"""\
        #map = affine_map<(d0) -> (d0)>
        #set = affine_set<(d0) : (d0 >= 0, -d0 + 95 >= 0)>
        #set1 = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>
        module {{
          func.func @double(%p: index) attributes {{grid = [3]}} {{
            %c32 = arith.constant 32 : index
            %cst = arith.constant 2.000000e+00 : f16
            %0 = ktdp.get_compute_tile_id : index
            {view}
            %2 = arith.muli %0, %c32 : index
            {tile}
            %4 = ktdp.load %3 : <32xindex> -> tensor<32xf16>
            %splat = tensor.splat %cst : tensor<32xf16>
            %5 = arith.mulf %4, %splat : tensor<32xf16>
            ktdp.store %5, %3 : tensor<32xf16>, <32xindex>
            return
          }}
        }}
        """
    )


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("1 : i64", "1 : i64"),
        ("-3 : i8", "-3 : i8"),
        ("255 : i8", "-1 : i8"),
        ("255 : ui8", "255 : ui8"),
        ("true", "true"),
        ("-1 : si1", "-1 : si1"),
        ("1 : ui1", "1 : ui1"),
        ("7 : index", "7 : index"),
        ("1.0 : f16", "1.000000e+00 : f16"),
        ("0.1 : f32", "1.000000e-01 : f32"),
        ("0.1", "1.000000e-01 : f64"),
        ("3.14159265358979", "3.14159265358979 : f64"),
        ("0x7C00 : f16", "0x7C00 : f16"),
        ("0xFF800000 : f32", "0xFF800000 : f32"),
        ("-0.0 : f32", "-0.000000e+00 : f32"),
        ("1.0e+3 : bf16", "1.000000e+03 : bf16"),
        ('"a\\"b\\0A"', '"a\\22b\\0A"'),
        ("0.1 : f16", "9.997550e-02 : f16"),
        ("0x3555 : f16", "3.332520e-01 : f16"),
        ("0x0400 : f16", "6.103520e-05 : f16"),
        ("0x40490FDB : f32", "3.14159274 : f32"),
        ("0x3D23D70A : f32", "4.000000e-02 : f32"),
        ("0x3EAAAAAB : f32", "0.333333343 : f32"),
        ("0x00800000 : f32", "1.17549435E-38 : f32"),
        ("16777215.0 : f32", "0x4B7FFFFF : f32"),
        ("2.718281828459045 : f64", "2.7182818284590451 : f64"),
        ("[1, 2 : i32, 3.5]", "[1, 2 : i32, 3.500000e+00]"),
        ("[0x7FF0000000000000 : f64]", "[0x7FF0000000000000 : f64]"),
        ('{b = 1, a, "x y" = unit}', '{a, b = 1 : i64, "x y"}'),
        ("@f::@g", "@f::@g"),
        ('@"local-schedule-0"', '@"local-schedule-0"'),
        ("dense<1.0> : tensor<8xf16>", "dense<1.000000e+00> : tensor<8xf16>"),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", "dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>"),
        ("dense<[true, false]> : tensor<2xi1>", "dense<[true, false]> : tensor<2xi1>"),
        ('dense<"0x0100020003000400"> : tensor<4xi16>', "dense<[1, 2, 3, 4]> : tensor<4xi16>"),
        ("dense<> : tensor<0xf32>", "dense<> : tensor<0xf32>"),
        ("dense_resource<blob> : tensor<4xf32>", "dense_resource<blob> : tensor<4xf32>"),
        ("array<i64: 1, -2>", "array<i64: 1, -2>"),
        ("array<i32>", "array<i32>"),
        ("array<i1: true, false>", "array<i1: true, false>"),
        ("strided<[8, ?], offset: ?>", "strided<[8, ?], offset: ?>"),
        ("affine_map<(i)[n] -> (i * n + 1)>", "#map"),
        ("affine_set<() : ()>", "#set"),
        ("tensor<4x?xf16>", "tensor<4x?xf16>"),
        ("0x2", "2 : i64"),
        ('loc("k.py":12:4)', 'loc("k.py":12:4)'),
        ('loc(fused["a", unknown])', 'loc(fused["a", unknown])'),
        ('loc(callsite("a" at "f":1:2))', 'loc(callsite("a" at "f":1:2))'),
        ("#other.thing<a -> {b, [c]}>", "#other.thing<a -> {b, [c]}>"),
        ("memref<2x16xsi32>", "memref<2x16xsi32>"),
        ("memref<4x4xf32, affine_map<(i, j) -> (i, j)>>", "memref<4x4xf32>"),
        ('memref<4xf32, strided<[1]>, "L1">', 'memref<4xf32, strided<[1]>, "L1">'),
        ("(index, f16) -> ()", "(index, f16) -> ()"),
        ("tuple<i32, tensor<f16>>", "tuple<i32, tensor<f16>>"),
        ("vector<4x[8]xf16>", "vector<4x[8]xf16>"),
        ("tensor<0x42xindex>", "tensor<0x42xindex>"),
        ("!other.type<4xf16>", "!other.type<4xf16>"),
    ],
)
def test_attribute_spelling(given: str, printed: str) -> None:
    """Builtin attributes and types of spec 0.3.3 and 0.3.4 print canonically."""
    text = roundtrip(f"module attributes {{x = {given}}} {{}}")
    assert f"module attributes {{x = {printed}}} {{" in text


def test_layout_of_the_text_carries_no_meaning() -> None:
    """Several operations on one line, line breaks anywhere, comments."""
    dense = "func.func @f(%a: index) -> index { %b = arith.addi %a, %a : index return %b : index }"
    broken = """
    func.func // comment
      @f ( %a
      : index ) -> index
    { %b
      = arith.addi %a
      , %a : index // another
      return
      %b : index }
    """
    assert print_module(read(dense)) == print_module(read(broken))


def test_names_are_numbered_as_mlir_does() -> None:
    """Values of a region are numbered before those of nested regions; arguments keep their names."""
    text = roundtrip(
        """
        func.func @f(%n: index, %c: i1) {
          %z = arith.constant 0 : index
          scf.for %i = %z to %n step %n {
            %a = arith.addi %i, %n : index
            scf.if %c {
              %b = arith.addi %a, %n : index
              "use"(%b) : (index) -> ()
            }
          }
          %k = arith.addi %n, %n : index
          "use"(%k) : (index) -> ()
          return
        }
        """
    )
    assert "%0 = arith.addi %n, %n" in text
    assert "%1 = arith.addi %arg0, %n" in text
    assert "%2 = arith.addi %1, %n" in text


def test_locations() -> None:
    """Location aliases may be used before they are defined, and are printed on request."""
    module = read(
        """
        module {
          func.func @f(%a: index loc(unknown)) {
            "test.op"() : () -> () loc(#loc2)
            return loc(#loc)
          } loc("g.py":3:1)
        }
        #loc = loc("k.py":12:4)
        #loc2 = loc("name"(#loc))
        """
    )
    text = print_module(module, locations=True)
    assert '"test.op"() : () -> () loc("name"("k.py":12:4))' in text
    assert 'return loc("k.py":12:4)' in text
    assert print_module(parse(text, CONTEXT), locations=True) == text


def test_several_results_and_bundles() -> None:
    """``%p:3`` binds three results, ``#`` picks one."""
    text = roundtrip(
        """
        func.func @f() -> (i32, f32) {
          %p:2, %q = "test.three"() : () -> (i32, f32, index)
          return %p#0, %p#1 : i32, f32
        }
        """
    )
    assert '%0:3 = "test.three"()' in text
    assert "return %0#0, %0#1 : i32, f32" in text


def test_unregistered_operations_keep_properties_and_attributes_apart() -> None:
    text = roundtrip('"a.b"() <{p = 1 : i32}> {q = 2 : i32} : () -> ()')
    assert '"a.b"() <{p = 1 : i32}> {q = 2 : i32} : () -> ()' in text


def test_device_declaration_without_its_package() -> None:
    """A top-level ``ktdf_arch.device`` is kept verbatim when no package knows it (readings, packages)."""
    text = """\
module {
  ktdf_arch.device @sample_device attributes {x = #ktdf_arch.map<"a" -> "b">} import("../x/sample_device.mlir")
  func.func @f() {
    return
  }
}
"""
    assert print_module(read(text)) == text


ERRORS = [
    ("func.func @f() {\n  return %x : index\n}", 2, 10, "use of undeclared SSA value name"),
    (
        "func.func @f(%a: index) {\n  %a = arith.constant 1 : index\n return }",
        2,
        3,
        "redefinition of SSA value '%a'",
    ),
    (
        "func.func @f(%a: index) {\n  %b = arith.addi %a, %a : i32\n return }",
        2,
        19,
        "use of value '%a' expects different type than prior uses: 'i32' vs 'index'",
    ),
    ("#a = 1\n#a = 2\nmodule {}", 2, 1, "redefinition of attribute alias id 'a'"),
    ("module attributes {x = #nope} {}", 1, 24, "undefined symbol alias id 'nope'"),
    ("module {\n  foo.bar\n}", 2, 3, "custom op 'foo.bar' is unknown"),
    ("module {\n  %a = func.func @f() { return }\n}", 2, 8, "cannot name an operation with no results"),
    ("%a, %b = arith.constant 1 : index", 1, 10, "operation defines 1 results but was provided 2 to bind"),
    ("module {", 1, 9, "expected '}' to end a region"),
    ("func.func @f(%a: index", 1, 23, "expected ')' or ',' in list"),
    ("module attributes {a = 1, a = 2} {}", 1, 27, "duplicate key 'a' in dictionary attribute"),
    ("module attributes {a = dense<[1, 2]> : tensor<3xi32>} {}", 1, 29, "inferred shape of elements literal"),
    ("module attributes {a = 300 : i8} {}", 1, 24, "integer constant out of range for attribute type i8"),
    (
        "module attributes {a = 1 : f16} {}",
        1,
        24,
        "unexpected decimal integer literal for a floating point value",
    ),
    (
        "module attributes {a = tensor<4xtensor<2xf16>>} {}",
        1,
        33,
        "invalid tensor element type: tensor<2xf16>",
    ),
    ('"arith.nope"() : () -> ()', 1, 1, "unregistered operation 'arith.nope' found in a registered dialect"),
    ("func.func @f() { cf.br ^nowhere }", 1, 24, "reference to an undefined block '^nowhere'"),
    ("#l = loc(#l)\nmodule {} loc(#l)", 1, 10, "location alias 'l' refers to itself"),
    (
        "func.func @f(%c: i1) { %r = arith.cmpi foo, %c, %c : i1 return }",
        1,
        40,
        "expected one of the predicates",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS, ids=[e[3][:40] for e in ERRORS])
def test_syntax_errors_are_located(text: str, line: int, column: int, message: str) -> None:
    """Every syntax error has line, column and what was expected."""
    with pytest.raises(ParseError) as caught:
        parse(text, CONTEXT, "bad.mlir")
    assert message in caught.value.message
    assert (caught.value.file, caught.value.line, caught.value.column) == ("bad.mlir", line, column)


DIALECT_PROGRAMS = {
    path.stem.removeprefix("dialect_"): path.read_text()
    for path in sorted((Path(__file__).parent / "programs").glob("dialect_*.mlir"))
}


@pytest.mark.parametrize("name", DIALECT_PROGRAMS)
def test_dialects_roundtrip(name: str) -> None:
    """Every operation reads, verifies, prints and reads back, in custom and in generic form."""
    roundtrip(DIALECT_PROGRAMS[name])


@pytest.mark.parametrize("name", DIALECT_PROGRAMS)
def test_xdsl_reads_the_generic_print(name: str) -> None:
    """An independent reader takes what we print."""
    from xdsl.context import Context as XdslContext
    from xdsl.dialects import get_all_dialects
    from xdsl.parser import Parser

    context = XdslContext(allow_unregistered=True)
    for dialect, factory in get_all_dialects().items():
        context.register_dialect(dialect, factory)
    text = print_module(read(DIALECT_PROGRAMS[name]), generic=True)
    Parser(context, text).parse_module()


def test_the_short_cut_for_generic_lines_reads_the_same() -> None:
    """Lines as printers write them take a short cut; with other blanks they do not: one meaning."""
    repeated = "\n".join(
        f'  %v{n} = "arith.addi"(%{"a" if n == 0 else f"v{n - 1}"}, %a) <{{overflowFlags = #arith.overflow<nsw>}}> '
        f'{{n = [{n % 3}], "s t" = "}}>"}} : (index, index) -> index'
        for n in range(12)
    )
    programs = [print_module(read(text), generic=True) for text in DIALECT_PROGRAMS.values()]
    programs.append(f"func.func @f(%a: index) {{\n{repeated}\n  return\n}}")
    for text in programs:
        spread = text.replace(" = ", "  = ").replace('"(', '" (')
        fast, slow = parse(text, CONTEXT), parse(spread, CONTEXT)
        assert alpha_equivalent(fast, slow)
        assert print_module(fast) == print_module(slow)
        assert print_module(fast, names="source") == print_module(slow, names="source")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('%b = "arith.addi"(%a, %a) : (index, index) -> index', "redefinition of SSA value '%b'"),
        ('%c = "arith.addi"(%a, %b) : (index, i32) -> index', "use of value '%b' expects different type"),
        ('%0c = "arith.addi"(%a, %b) : (index, index) -> index', "expected '='"),
        ('"arith.addi"(%a, %nope) : (index, index) -> index', "use of undeclared SSA value name"),
        ('%c = "arith.addi"(%a, %b) {x = 1, x = 2} : (index, index) -> index', "duplicate key 'x'"),
        (
            '%c, %d = "arith.addi"(%a, %b) : (index, index) -> index',
            "operation defines 1 results but was provided 2",
        ),
        ('%c = "arith.addi"(%a) : (index, index) -> index', "expected 1 operand types, but had 2"),
    ],
)
def test_the_short_cut_reports_the_same_errors(line: str, message: str) -> None:
    """The line before teaches the parser the types; the wrong line must still be refused, with its place."""
    good = '%b = "arith.addi"(%a, %a) : (index, index) -> index'
    with pytest.raises(ParseError) as caught:
        parse(f"func.func @f(%a: index) {{\n{good}\n{line}\n  return\n}}", CONTEXT)
    assert message in caught.value.message
    assert caught.value.line == 3


@pytest.mark.parametrize("name", ["f16", "df16", "tf32", "f8E4M3FN", "f8E5M2FNUZ"])
def test_float_text_reads_back_to_the_same_bits(name: str) -> None:
    kind = FloatType(name)
    for bits in range(0, 1 << kind.width, 1 if kind.width <= 8 else 37):
        text = float_text(bits, kind)
        assert (int(text, 16) if text.startswith("0x") else float_to_bits(float(text), kind)) == bits


BODIES = {
    "named operation with another body": (
        "linalg.add",
        "<{operandSegmentSizes = array<i32: 2, 1>}> ",
        "^bb0(%a: f16, %b: f16, %c: f16): %r = arith.mulf %a, %b : f16 linalg.yield %r : f16",
        2,
    ),
    "transpose with another body": (
        "linalg.transpose",
        "<{permutation = array<i64: 0>}> ",
        "^bb0(%a: f16, %b: f16): %r = arith.addf %a, %b : f16 linalg.yield %r : f16",
        1,
    ),
    "reduction whose terminator has an attribute": (
        "linalg.reduce",
        "<{dimensions = array<i64>}> ",
        "^bb0(%a: f16, %b: f16): %r = arith.addf %a, %b : f16 linalg.yield {x} %r : f16",
        1,
    ),
    "map whose terminator has an attribute": (
        "linalg.map",
        "",
        "^bb0(%a: f16): %r = math.exp %a : f16 linalg.yield {x} %r : f16",
        1,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_short_form_loses_a_body(name: str) -> None:
    op, properties, body, inputs = BODIES[name]
    operands, types = ", ".join(["%x"] * (inputs + 1)), ", ".join(["tensor<4xf16>"] * (inputs + 1))
    roundtrip(
        f'func.func @f(%x: tensor<4xf16>) {{ %y = "{op}"({operands}) {properties}({{ {body} }}) '
        f": ({types}) -> tensor<4xf16> return }}"
    )


def test_argument_of_a_block_further_down() -> None:
    """A block may stand in front of the one that dominates it, uses in nested regions included."""
    text = roundtrip(
        """
        func.func @f(%c: i1, %n: index) -> index {
          cf.br ^two(%n : index)
        ^one:
          scf.if %c {
            "u"(%x) : (index) -> ()
          }
          return %x : index
        ^two(%x: index):
          cf.br ^one
        }
        """
    )
    assert '"u"(%0) : (index) -> ()' in text
    with pytest.raises(ParseError, match="'index' vs 'i32'"):
        parse("func.func @f() { ^a: cf.br ^c ^b: return %x : index ^c(%x: i32): cf.br ^b }", CONTEXT)


MALFORMED = {
    "missing attribute": '%0 = "arith.constant"() : () -> index',
    "wrong segments": '%0 = "linalg.fill"() <{operandSegmentSizes = array<i32: 1, 1>}> ({\n  }) : () -> index',
    "no successor": '"cf.br"() : () -> ()',
    "no region": '"scf.if"() : () -> ()',
    "arguments that are not those of the type": (
        '"func.func"() <{function_type = (index) -> (), sym_name = "f"}> ({\n    "func.return"() : () -> ()\n  }) '
        ": () -> ()"
    ),
    "type that is none of a function": '"func.func"() <{function_type = index, sym_name = "f"}> ({\n  }) : () -> ()',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_operations_print_in_generic_form(name: str) -> None:
    """As in MLIR: what cannot be shown by the custom form is not hidden by it, and nothing crashes."""
    text = f"module {{\n  {MALFORMED[name]}\n}}\n"
    module = parse(text, CONTEXT)
    with pytest.raises(VerifyError):
        verify(module)
    generic = print_module(module, generic=True)
    assert alpha_equivalent(parse(print_module(module), CONTEXT), module)
    assert alpha_equivalent(parse(generic, CONTEXT), module)
    assert f'"{module.operations[0].name}"(' in print_module(module)


OUT_OF_RANGE = [
    "module attributes {a = affine_map<(i) -> (i + NUMBER)>} {}",
    "module attributes {a = affine_set<(i) : (i - NUMBER >= 0)>} {}",
    "module attributes {a = array<i64: NUMBER>} {}",
    "module attributes {a = array<i8: NUMBER>} {}",
    "module attributes {a = dense<NUMBER> : tensor<2xi64>} {}",
    "module attributes {a = NUMBER} {}",
    "module attributes {a = strided<[NUMBER]>} {}",
    "module attributes {a = strided<[1], offset: NUMBER>} {}",
    "module attributes {a = #ktdp.memory_space<ct_local, ct_id = NUMBER>} {}",
    "module attributes {a = #ktdp.layout<shape = [NUMBER], linear, element = f16>} {}",
    "func.func private @f(tensor<NUMBERxf16>)",
    "func.func private @f(memref<?xNUMBERxf16>)",
    "func.func private @f(vector<NUMBERxf16>)",
    "func.func private @f(!ktdp.access_tile<NUMBERxindex>)",
    "func.func private @f(!ktdp.runtime_arg<index, granularity=NUMBER>)",
    "func.func private @f(!ktdp.runtime_arg<index, upperbound=NUMBER>)",
    "func.func @f(%p: index) { %v = ktdp.construct_memory_view %p, sizes: [NUMBER], strides: [1] "
    "{coordinate_set = affine_set<() : ()>, memory_space = #ktdp.memory_space<global>} : memref<4xf16> return }",
    "func.func @f(%p: index) { %v = ktdp.construct_memory_view %p, sizes: [4], strides: [-NUMBER] "
    "{coordinate_set = affine_set<() : ()>, memory_space = #ktdp.memory_space<global>} : memref<4xf16> return }",
    "func.func @f(%t: tensor<4xf16>) { %r = tensor.extract_slice %t[NUMBER] [1] [1] : tensor<4xf16> to "
    "tensor<1xf16> return }",
    "func.func @f(%t: tensor<4xf16>) { %r = linalg.transpose ins(%t : tensor<4xf16>) outs(%t : tensor<4xf16>) "
    "permutation = [NUMBER] return }",
    "func.func @f(%t: tensor<4xf16>) { %r = linalg.index NUMBER : index return }",
    "func.func @f() { %r = arith.constant NUMBER : index return }",
]


@pytest.mark.parametrize("text", OUT_OF_RANGE)
@pytest.mark.parametrize("number", [1 << 64, 1 << 70, 10**40])
def test_numbers_that_do_not_fit_are_refused_where_they_stand(text: str, number: int) -> None:
    """No form of an integer is kept that the generic form could not hold."""
    with pytest.raises(ParseError) as caught:
        parse(text.replace("NUMBER", str(number)), CONTEXT, "n.mlir")
    assert caught.value.line == 1
    assert re.search("out of range|64 bits|too large", caught.value.message), caught.value.message


@pytest.mark.parametrize("text", OUT_OF_RANGE)
@pytest.mark.parametrize("number", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_numbers_at_the_border_come_back_or_are_refused(text: str, number: int) -> None:
    try:
        module = parse(text.replace("NUMBER", str(number)), CONTEXT)
    except KtirError:
        return
    for generic in (False, True):
        assert alpha_equivalent(parse(print_module(module, generic=generic), CONTEXT), module)


def _marked(module: Module) -> Iterator[tuple[str, Module]]:
    """The module with one more attribute, for each of its operations."""

    def rebuilt(op: Operation, target: Operation) -> Operation:
        regions = [
            Region(tuple(b.replace(operations=[rebuilt(o, target) for o in b.operations]) for b in r.blocks))
            for r in op.regions
        ]
        return op.replace(regions=regions, attributes={"mark": UnitAttr()} if op is target else None)

    for target in module.walk():
        if target is not module:
            marked = rebuilt(module, target)
            assert isinstance(marked, Module)
            yield target.name, marked


@pytest.mark.parametrize("name", [*DIALECT_PROGRAMS, "gather"])
def test_no_form_loses_an_attribute(name: str) -> None:
    """Terminators and bodies that the custom form leaves out are written where they carry something."""
    gather = """
        func.func @f(%m: memref<4xf16>, %t: memref<4xi32>) {
          %a = ktdp.construct_indirect_access_tile intermediate_variables(%i) %m[ind(%t[%i])]
            {variables_space_order = affine_map<(i) -> (i)>, variables_space_set = affine_set<(i) : (i >= 0, i <= 3)>}
            : memref<4xf16>, memref<4xi32> -> !ktdp.access_tile<4xindex>
          return
        }
        """
    for marked_op, marked in _marked(read(DIALECT_PROGRAMS.get(name, gather))):
        assert alpha_equivalent(marked, parse(print_module(marked), CONTEXT)), marked_op


def test_defaults_may_be_stated() -> None:
    """An attribute with its default value is the same as none, in comparisons and in the custom form."""
    text = 'func.func @f(%a: f16, %b: i32) {{ %r = "arith.addf"(%a, %a) {} : (f16, f16) -> f16 %s = "arith.addi"(%b, %b) {} : (i32, i32) -> i32 return }}'
    plain = read(text.format("", ""))
    stated = read(
        text.format("<{fastmath = #arith.fastmath<none>}>", "<{overflowFlags = #arith.overflow<none>}>")
    )
    other = read(text.format("<{fastmath = #arith.fastmath<nnan>}>", ""))
    assert alpha_equivalent(plain, stated)
    assert structural_hash(plain) == structural_hash(stated)
    assert print_module(plain) == print_module(stated)
    assert not alpha_equivalent(plain, other)
    assert structural_hash(plain) != structural_hash(other)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("func.func @f(%row: index) { %b = arith.addi %rwo, %rwo : index return }", "did you mean '%row'?"),
        ("func.func @f(%a: index) {\n%a = arith.constant 1 : index return }", "1:14: first defined here"),
        ("func.func @f(%a: index) { %b = arith.addi %a, %a : i32 return }", "1:14: its type is index"),
        ("func.func @f(%a: index) { return %a#1 : index }", "1:14: it has 1 result"),
        ("func.func @f() { cf.br ^nxt ^next: return }", "did you mean '^next'?"),
        ("#tile = 1\nmodule attributes {x = #title} {}", "did you mean '#tile'?"),
        ("!tile = f16\nfunc.func @f(%a: !title) { return }", "did you mean '!tile'?"),
        ("arith.adf", "did you mean 'arith.addf'?"),
        ('"ktdp.laod"() : () -> ()', "did you mean 'ktdp.load'?"),
        (
            "ktir.load %x",
            "dialect 'ktir' is not known; its operations are read in generic form: \"ktir.load\"(...)",
        ),
        ("func.func @f(%a: !ktdp.acces_tile<index>) { return }", "did you mean 'access_tile'?"),
        ("func.func @f(%a: !ktdp.q) { return }", "there are: access_tile, runtime_arg, tile_future"),
        ("module attributes {x = #ktdp.memory_spac<global>} {}", "did you mean 'memory_space'?"),
    ],
)
def test_notes_of_syntax_errors(text: str, note: str) -> None:
    """What was meant, or where the other party stands."""
    with pytest.raises(ParseError) as caught:
        parse(text, CONTEXT, "n.mlir")
    (only,) = caught.value.notes
    place = only.location.file_line_column() if only.location else None
    assert (f"{place[1]}:{place[2]}: " if place else "") + only.message == note


def test_results_have_the_names_that_upstream_suggests() -> None:
    """Spec 0.3.6: hints of constants, tensor and linalg operations; clashes get a number."""
    text = """
        func.func @f(%a: tensor<4x8xf16>, %v: tensor<4xf16>, %i: index) {
          %q0 = tensor.extract %a[%i, %i] : tensor<4x8xf16>
          %q1 = tensor.extract_slice %a[0, 0] [1, 8] [1, 1] : tensor<4x8xf16> to tensor<1x8xf16>
          %q2 = tensor.insert_slice %q1 into %a[0, 0] [1, 8] [1, 1] : tensor<1x8xf16> into tensor<4x8xf16>
          %q3 = tensor.expand_shape %v [[0, 1]] output_shape [2, 2] : tensor<4xf16> into tensor<2x2xf16>
          %q4 = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf16> into tensor<32xf16>
          %q5 = linalg.reduce { arith.addf } ins(%a : tensor<4x8xf16>) outs(%v : tensor<4xf16>) dimensions = [1]
          %q6:2 = linalg.reduce ins(%a, %a : tensor<4x8xf16>, tensor<4x8xf16>) outs(%v, %v : tensor<4xf16>, tensor<4xf16>)
            dimensions = [1] (%r: f16, %s: f16, %t: f16, %u: f16) { linalg.yield %r, %s : f16, f16 }
          %q7 = linalg.broadcast ins(%q6#1 : tensor<4xf16>) outs(%a : tensor<4x8xf16>) dimensions = [1]
          %q8 = linalg.map { math.exp } ins(%a : tensor<4x8xf16>) outs(%a : tensor<4x8xf16>)
          %q9 = linalg.transpose ins(%q8 : tensor<4x8xf16>) outs(%q10 : tensor<8x4xf16>) permutation = [1, 0]
          %q11 = memref.alloc() : memref<4xf16>
          %q12 = arith.constant 32 : i32
          %q13 = arith.constant true
          %q14 = arith.constant -7 : index
          %q15 = arith.constant 1.0 : f32
          %q16 = tensor.splat %q15 : tensor<4xf32>
          return
        }
    """.replace("%q9 =", "%q10 = tensor.empty() : tensor<8x4xf16>\n%q9 =")
    names = re.findall(r"^ +(%[\w:-]+) = [a-z]", roundtrip(text), re.M)
    assert names == [
        "%extracted", "%extracted_slice", "%inserted_slice", "%expanded", "%collapsed", "%reduced", "%reduced_0:2",
        "%broadcasted", "%mapped", "%0", "%transposed", "%alloc", "%c32_i32", "%true", "%c-7", "%cst", "%splat",
    ]  # fmt: skip


def test_named_operations_may_repeat_their_maps() -> None:
    """Spec 3.5: stated maps that are the usual ones change nothing; others are refused with the usual ones."""
    text = """
        func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x4xf16>, %c: tensor<4x4xf16>) {
          %r = linalg.matmul MAPS ins(%a, %b : tensor<4x8xf16>, tensor<8x4xf16>) outs(%c : tensor<4x4xf16>) -> tensor<4x4xf16>
          return
        }
    """
    maps = (
        "indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
        "affine_map<(m, n, k) -> (m, n)>]"
    )
    assert roundtrip(text.replace("MAPS", maps)) == roundtrip(text.replace("MAPS", ""))
    with pytest.raises(ParseError, match="other indexing_maps than its own is not supported") as caught:
        read(text.replace("MAPS", maps.replace("(k, n)", "(n, k)")))
    assert "affine_map<(d0, d1, d2) -> (d2, d1)>" in caught.value.notes[0].message
