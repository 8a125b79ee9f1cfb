"""The verifier reports every broken rule, with its place."""

from __future__ import annotations

import pytest

from ktir import Context, Operation, VerifyError, parse, print_module, verify
from ktir.transforms import alpha_equivalent

CONTEXT = Context(installed=False)

CASES: list[tuple[str, str | None]] = [
    ("func.func @f() -> index { return }", "has 0 operands, but enclosing function (@f) returns 1"),
    (
        "func.func @f(%a: f16) -> index { return %a : f16 }",
        "type of return operand 0 ('f16') doesn't match function result type ('index') in function @f",
    ),
    ("func.func @f() { return } func.func @f() { return }", "redefinition of symbol named 'f'"),
    (
        "func.func @f() { call @g() : () -> () return }",
        "'func.call' op 'g' does not reference a valid function",
    ),
    ('func.func @f() { "func.return"() : () -> () "u"() : () -> () }', "must be the last operation"),
    ("func.func @f() { %c = arith.constant 1 : index }", "block with no terminator"),
    (
        '"func.func"() <{function_type = () -> (), sym_name = "f"}> ({^bb0:}) : () -> ()',
        "expects a non-empty block",
    ),
    ('%a = "arith.addf"() : () -> f16', "'arith.addf' op expected 2 operands, but found 0"),
    (
        'func.func @f(%a: i32) { %b = "arith.addf"(%a, %a) : (i32, i32) -> i32 return }',
        "operand #0 must be floating-point-like, but got 'i32'",
    ),
    (
        'func.func @f(%a: f16, %b: f32) { %c = "arith.addf"(%a, %b) : (f16, f32) -> f16 return }',
        "requires the same type for all operands and results",
    ),
    ('%c = "arith.constant"() : () -> index', "requires attribute 'value'"),
    (
        '%c = "arith.constant"() <{value = 1 : i32}> : () -> index',
        "failed to verify that all of {value, result}",
    ),
    ('"scf.yield"() : () -> ()', "expects parent op to be one of 'scf.for, scf.if, scf.while'"),
    (
        "func.func @f() { %x = arith.addi %y, %y : index %y = arith.constant 1 : index return }",
        "operand #0 does not dominate this use",
    ),
    (
        'func.func @f(%a: i32) { %b = "arith.addi"(%a, %a)[^bb1] : (i32, i32) -> i32 cf.br ^bb1 ^bb1: return }',
        "'arith.addi' op requires 0 successors but found 1",
    ),
    (
        'func.func @f() { "u"()[^bb1] : () -> () cf.br ^bb1 ^bb1: return }',
        "'u' op with block successors must terminate its parent block",
    ),
    ('func.func @f() { "cf.br"() : () -> () }', "'cf.br' op requires 1 successor but found 0"),
    ("func.func @f() { ^bb0: cf.br ^bb0 }", "entry block of region may not have predecessors"),
    (
        "func.func @f(%a: i32) { cf.br ^bb1(%a : i32) ^bb1: return }",
        "'cf.br' op branch has 1 operands for successor #0, but target block has 0",
    ),
    (
        "func.func @f(%a: i32, %c: i1) { cf.cond_br %c, ^bb1, ^bb2(%a : i32) ^bb1: return "
        "^bb2(%x: index): return }",
        "'cf.cond_br' op type mismatch for bb argument #0 of successor #1",
    ),
    (
        'func.func @f(%m: memref<4xf16>, %i: index) { %r = "memref.load"(%m, %i) : (memref<4xf16>, index) -> f32 '
        "return }",
        "failed to verify that result type matches element type of 'memref'",
    ),
    (
        'func.func @f(%m: memref<4xf16>, %i: index) { "memref.store"(%i, %m, %i) : (index, memref<4xf16>, index) '
        "-> () return }",
        "failed to verify that type of 'value' matches element type of 'memref'",
    ),
    (
        'func.func @f(%x: f32) { %r = "tensor.from_elements"(%x) : (f32) -> tensor<1xf16> return }',
        "failed to verify that operand types match result element type",
    ),
    (
        'func.func @f() { %r = tensor.generate { ^bb0(%i: index): "tensor.yield"() : () -> () } : tensor<4xf16> return }',
        "body must yield a value of the result's element type",
    ),
    (
        '"func.func"() <{sym_name = "f", function_type = () -> (), sym_visibility = "x"}> ({}) : () -> ()',
        "visibility expected to be one of",
    ),
    (
        '"func.func"() <{sym_name = "f", sym_visibility = "private", function_type = (index) -> (), arg_attrs = []}> '
        "({}) : () -> ()",
        "expects argument attribute array to have 1 elements, got 0",
    ),
    (
        '"func.func"() <{sym_name = "f", sym_visibility = "private", function_type = () -> index, res_attrs = [1]}> '
        "({}) : () -> ()",
        "expects result attribute array to hold dictionaries",
    ),
    (
        '"func.func"() <{sym_name = "f"}> ({ "func.call"() <{callee = @f}> : () -> () "func.return"() : () -> () }) '
        ": () -> ()",
        "requires attribute 'function_type'",
    ),
    ('"builtin.module"() ({}) : () -> ()', "region #0 failed to verify constraint: region with 1 blocks"),
    (
        'func.func @f(%c: i1) { "scf.if"(%c) ({}, {}) : (i1) -> () return }',
        "region #0 failed to verify constraint: region with 1 blocks",
    ),
    (
        'func.func @f(%t: tensor<4xf16>) { %r = "linalg.transpose"(%t, %t) <{permutation = array<i32: 0>}> '
        "({ ^bb0(%a: f16, %b: f16): linalg.yield %a : f16 }) : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16> "
        "return }",
        "attribute 'permutation' failed to satisfy constraint: i64 dense array attribute",
    ),
    ("func.func @f()", "external functions must have private visibility"),
    (
        "func.func @f(%n: index) { %z = arith.constant 0 : index scf.for %i = %n to %n step %z {} return }",
        "constant step operand must be positive, but is 0",
    ),
    (
        "func.func @f(%a: tensor<4xf16>, %b: tensor<5xf16>) { %r = linalg.add ins(%a, %b : tensor<4xf16>, "
        "tensor<5xf16>) outs(%a : tensor<4xf16>) -> tensor<4xf16> return }",
        "inferred input/output operand #1 has shape's dimension #0 to be 4, but found 5",
    ),
    (
        "func.func @f(%a: tensor<4x5xf16>) { %r = linalg.transpose ins(%a : tensor<4x5xf16>) "
        "outs(%a : tensor<4x5xf16>) permutation = [1, 1] return }",
        "permutation is not valid",
    ),
    (
        "func.func @f(%a: tensor<4xf16>, %i: index) { %r = tensor.extract %a[%i, %i] : tensor<4xf16> return }",
        "incorrect number of indices for extract_element: expected 1, got 2",
    ),
    (
        "func.func @f(%n: index) { %e = tensor.empty() : tensor<?xf16> return }",
        "incorrect number of dynamic sizes",
    ),
    ("module { func.func @f() { return } } module {}", None),
    ("func.func @f() { %i = linalg.index 0 : index return }", "expected parent op with LinalgOp interface"),
    (
        "func.func @f(%n: index) { %z = arith.constant -2 : index scf.for %i = %n to %n step %z {} return }",
        "constant step operand must be positive, but is -2",
    ),
    ('"spyreop.constant"() <{value = 1.0 : f16}> : () -> ()', "requires one result"),
    (
        'func.func @f(%a: f16) { %c = "spyreop.constant"(%a) <{value = 1.0 : f16}> : (f16) -> f16 return }',
        "requires zero operands",
    ),
    ('func.func @f() { %c = "arith.negf"() : () -> f16 return }', "requires a single operand"),
    ('func.func @f() { "scf.for"() ({}) : () -> () return }', "expected 3 or more operands, but found 0"),
]


def cast(name: str, source: str, target: str) -> str:
    return f"func.func @f(%a: {source}) {{ %b = arith.{name} %a : {source} to {target} return }}"


INCOMPATIBLE = [
    ("extf", "f32", "f16"), ("extf", "f16", "bf16"), ("truncf", "f16", "f32"), ("extsi", "i16", "i8"),
    ("extui", "i16", "i16"), ("trunci", "i8", "i16"), ("extsi", "index", "i64"), ("trunci", "i64", "index"),
    ("index_cast", "i32", "i64"), ("index_cast", "index", "index"), ("index_castui", "i8", "i8"),
    ("sitofp", "index", "f32"), ("uitofp", "index", "f32"), ("fptosi", "f32", "index"), ("fptoui", "f32", "index"),
    ("bitcast", "i32", "f16"), ("bitcast", "index", "i64"), ("extf", "tensor<4xf16>", "tensor<5xf32>"),
    ("extf", "tensor<4xf16>", "f32"), ("truncf", "tensor<4xf16>", "tensor<4xf32>"),
]  # fmt: skip
COMPATIBLE = [
    ("extf", "f16", "f32"), ("extf", "tensor<4xbf16>", "tensor<4xf32>"), ("truncf", "f32", "bf16"),
    ("extsi", "i1", "i8"), ("trunci", "i64", "i1"), ("index_cast", "i32", "index"), ("index_castui", "index", "i8"),
    ("sitofp", "i32", "f16"), ("fptoui", "f16", "i64"), ("bitcast", "f16", "bf16"), ("bitcast", "i32", "f32"),
    ("extf", "!spyreop.df16", "f32"), ("index_cast", "tensor<3xindex>", "tensor<3xi32>"),
]  # fmt: skip
CASES += [
    (cast(name, a, b), f"'arith.{name}' op operand type '{a}' and result type '{b}' are cast incompatible")
    for name, a, b in INCOMPATIBLE
]


def tensors(
    body: str, arguments: str = "%a: tensor<4x6xf16>, %b: tensor<2x6xf16>, %i: tensor<2xindex>"
) -> str:
    return f"func.func @f({arguments}) {{ %r = {body} return }}"


CASES += [
    (tensors("tensor.concat dim(0) %a, %b : (tensor<4x6xf16>, tensor<2x6xf16>) -> tensor<7x6xf16>"),
     "static concatenation size mismatch"),
    (tensors("tensor.concat dim(1) %a, %b : (tensor<4x6xf16>, tensor<2x6xf16>) -> tensor<4x12xf16>"),
     "static concatenation size mismatch"),
    (tensors("tensor.concat dim(2) %a, %b : (tensor<4x6xf16>, tensor<2x6xf16>) -> tensor<6x6xf16>"),
     "concatenation dim must be less than the tensor rank"),
    (tensors("tensor.concat dim(0) %a, %b : (tensor<4x6xf16>, tensor<2x6xf16>) -> tensor<36xf16>"),
     "rank and element type of all inputs and of the result must be the same"),
    (tensors('"tensor.concat"() <{dim = 0 : i64}> : () -> tensor<4xf16>'), "requires at least one input"),
    (tensors("tensor.reshape %a(%i) : (tensor<4x6xf16>, tensor<2xindex>) -> tensor<5x5xf16>"),
     "source and destination tensor should have the same number of elements"),
    (tensors("tensor.reshape %a(%i) : (tensor<4x6xf16>, tensor<2xindex>) -> tensor<24xf16>"),
     "length of shape operand differs from the result's tensor rank"),
    (tensors("tensor.reshape %a(%i) : (tensor<4x6xf16>, tensor<2xindex>) -> tensor<4x6xf32>"),
     "element types of source and destination tensor types should be the same"),
    (tensors("tensor.reshape %a(%b) : (tensor<4x6xf16>, tensor<2x6xf16>) -> tensor<4x6xf16>"),
     "operand #1 must be 1D tensor of signless integer or index values, but got 'tensor<2x6xf16>'"),
    (tensors("tensor.extract_slice %a[4, 0] [1, 6] [1, 1] : tensor<4x6xf16> to tensor<1x6xf16>"),
     "offset 0 is out-of-bounds: 4 >= 4"),
    (tensors("tensor.extract_slice %a[1, 1] [2, 3] [1, 2] : tensor<4x6xf16> to tensor<2x3xf16>"), None),
    (tensors("tensor.extract_slice %a[1, 2] [2, 3] [1, 2] : tensor<4x6xf16> to tensor<2x3xf16>"),
     "slice along dimension 1 runs out-of-bounds: 6 >= 6"),
    (tensors("tensor.insert_slice %b into %a[3, 0] [2, 6] [1, 1] : tensor<2x6xf16> into tensor<4x6xf16>"),
     "slice along dimension 0 runs out-of-bounds: 4 >= 4"),
    (tensors("tensor.generate { ^bb0(%x: i32): %z = arith.constant 1.0 : f16 tensor.yield %z : f16 } : tensor<4xf16>"),
     "all body arguments must be index"),
    (tensors("tensor.generate { ^bb0(%x: index): %z = arith.constant 1.0 : f16 tensor.yield %z : f16 } : tensor<?xf16>"),
     "incorrect number of dynamic sizes, has 0, expected 1"),
]  # fmt: skip
MEMREFS = "%m: memref<4x6xf16>, %u: memref<*xf16>, %w: memref<4x6xf32>"
CASES += [
    (tensors("memref.cast %m : memref<4x6xf16> to memref<4x7xf16>", MEMREFS), "are cast incompatible"),
    (tensors("memref.cast %m : memref<4x6xf16> to memref<?x6xf16>", MEMREFS), None),
    (tensors("memref.memory_space_cast %m : memref<4x6xf16> to memref<4x6xf32, 1 : i32>", MEMREFS),
     "are cast incompatible"),
    (tensors("memref.cast %m : memref<4x6xf16> to memref<*xf16> memref.copy %m, %w : memref<4x6xf16> to memref<4x6xf32>",
             MEMREFS), "failed to verify that source and target have same shape and element type"),
    (tensors("memref.reinterpret_cast %m to offset: [0], sizes: [24], strides: [1] : memref<4x6xf16> to memref<24xf16>",
             MEMREFS), None),
    (tensors("memref.reinterpret_cast %m to offset: [0], sizes: [24, 1], strides: [1, 1] : memref<4x6xf16> to "
             "memref<24xf16>", MEMREFS), "expected 1 size values, got 2"),
    (tensors("memref.reinterpret_cast %m to offset: [0], sizes: [24], strides: [1] : memref<4x6xf16> to memref<24xf32>",
             MEMREFS), "different element types specified for source type 'memref<4x6xf16>'"),
    (tensors("memref.reinterpret_cast %m to offset: [0], sizes: [24], strides: [1] : memref<4x6xf16> to "
             "memref<24xf16, 1 : i32>", MEMREFS), "different memory spaces specified for source type"),
    (tensors("memref.subview %m[0] [2] [1] : memref<4x6xf16> to memref<2xf16>", MEMREFS),
     "expected 2 offset values, got 1"),
    (tensors("memref.subview %m[0, 0] [2, 6] [1, 1] : memref<4x6xf16> to memref<2x5xf16>", MEMREFS),
     "expected result type to be 'memref<2x6xf16>' or a rank-reduced version. (mismatch of result sizes)"),
    (tensors("memref.subview %m[0, 0] [1, 6] [1, 1] : memref<4x6xf16> to memref<6xf16>", MEMREFS), None),
]  # fmt: skip


SEGMENTS = 'func.func @f(%n: index) {{ %a = "memref.alloc"(%n) <{{operandSegmentSizes = {}}}> : (index) -> memref<?xf16> return }}'
PAIR = 'func.func @f(%a: {0}) {{ %b = "{1}"(%a, %a) <{{predicate = {2}}}> : ({0}, {0}) -> i1 return }}'
CASES += [
    (SEGMENTS.format("array<i32: 1, 0>"), None),
    (SEGMENTS.format("array<i64: 1, 0>"),
     "attribute 'operandSegmentSizes' failed to satisfy constraint: i32 dense array attribute"),
    (SEGMENTS.format("[1, 0]"),
     "attribute 'operandSegmentSizes' failed to satisfy constraint: i32 dense array attribute"),
    (SEGMENTS.format("array<i32: 1>"),
     "'operandSegmentSizes' attribute for specifying operand segments must have 2 elements, but got 1"),
    (SEGMENTS.format("array<i32: 1, 0>, alignment = 64 : i64"), None),
    *((SEGMENTS.format(f"array<i32: 1, 0>, alignment = {n} : i64"),
       "attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive "
       "and whose value is a power of two > 0") for n in (0, 5, -8)),
    (SEGMENTS.format("array<i32: 1, 0>, alignment = 8 : i32"),
     "attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute"),
    (PAIR.format("i32", "arith.cmpi", "9 : i64"), None),
    (PAIR.format("i32", "arith.cmpi", "10 : i64"), "attribute 'predicate' failed to satisfy constraint: allowed 64-bit "
     "signless integer cases: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    (PAIR.format("f32", "arith.cmpf", "-1 : i64"), "allowed 64-bit signless integer cases: 0, 1, 2,"),
    (PAIR.format("f32", "arith.cmpf", "1 : i32"),
     "attribute 'predicate' failed to satisfy constraint: 64-bit signless integer attribute"),
    ('func.func @f(%m: !ktdp.runtime_arg<index>) { %b = "ktdp.runtime_arg_extract"(%m) <{kind = 3 : i32}> : '
     "(!ktdp.runtime_arg<index>) -> index return }",
     "attribute 'kind' failed to satisfy constraint: allowed 32-bit signless integer cases: 0, 1, 2"),
    (tensors("memref.reinterpret_cast %m to offset: [0], sizes: [23], strides: [1] : memref<4x6xf16> to memref<24xf16>",
             MEMREFS), "expected result type with size = 23 instead of 24 in dim = 0"),
    (tensors("memref.reinterpret_cast %m to offset: [8], sizes: [24], strides: [1] : memref<4x6xf16> to memref<24xf16>",
             MEMREFS), "expected result type with offset = 8 instead of 0"),
    (tensors("memref.reinterpret_cast %m to offset: [8], sizes: [3, 4], strides: [5, 1] : memref<4x6xf16> to "
             "memref<3x4xf16, strided<[6, 1], offset: 8>>", MEMREFS),
     "expected result type with stride = 5 instead of 6 in dim = 0"),
    (tensors("memref.reinterpret_cast %m to offset: [8], sizes: [3, 4], strides: [5, 1] : memref<4x6xf16> to "
             "memref<3x4xf16, strided<[5, 1], offset: 8>>", MEMREFS), None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), CASES, ids=[str(c[1])[:40] for c in CASES])
def test_message(text: str, message: str | None) -> None:
    """Every rule has a place and a note that says what would be right; without a message the text is good."""
    if message is None:
        verify(parse(text, CONTEXT, "v.mlir"))
        return
    with pytest.raises(VerifyError) as caught:
        verify(parse(text, CONTEXT, "v.mlir"))
    assert message in str(caught.value)
    module = parse(text, CONTEXT)  # what breaks a rule can be printed all the same
    assert print_module(module)
    if not any(op.name == "cf.br" for op in module.walk()):  # the entry block's label is not printed
        assert alpha_equivalent(parse(print_module(module, generic=True), CONTEXT), module)
    assert all(d.notes and all(n.message for n in d.notes) for d in caught.value.diagnostics)
    assert all(d.location is not None and d.location.file_line_column() for d in caught.value.diagnostics)


@pytest.mark.parametrize(("name", "source", "target"), COMPATIBLE)
def test_casts(name: str, source: str, target: str) -> None:
    verify(parse(cast(name, source, target), CONTEXT))


def test_all_diagnostics_in_one_go() -> None:
    text = """
    func.func @f(%a: tensor<4xf16>, %i: index) -> index {
      %x = tensor.extract %a[%i, %i] : tensor<4xf16>
      %y = tensor.extract %a[] : tensor<4xf16>
      return
    }
    """
    with pytest.raises(VerifyError) as caught:
        verify(parse(text, CONTEXT, "v.mlir"))
    lines = [d.location.file_line_column()[1] for d in caught.value.diagnostics if d.location]  # type: ignore[index]
    assert lines == [3, 4, 5]


def test_dominance_over_blocks() -> None:
    """A value defined in one branch is not available behind the join; the entry's values are."""
    text = """
    func.func @f(%c: i1) {
      %e = arith.constant 1 : index
      cf.cond_br %c, ^a, ^b
    ^a:
      %x = arith.constant 2 : index
      cf.br ^j
    ^b:
      cf.br ^j
    ^j:
      "use"(%e) : (index) -> ()
      "use"(%x) : (index) -> ()
      return
    }
    """
    with pytest.raises(VerifyError) as caught:
        verify(parse(text, CONTEXT, "v.mlir"))
    (only,) = caught.value.diagnostics
    assert "operand #0 does not dominate this use" in only.message
    assert only.location is not None
    assert only.location.file_line_column() == ("v.mlir", 12, 7)


def test_unreachable_blocks_have_no_order() -> None:
    """As in MLIR: an operand in a block that nothing reaches is not checked, one in a region below it is."""
    text = """
    func.func @f(%c: i1) {
      return
    ^dead:
      "use"(%x) : (index) -> ()
      %x = "loop"(%x) : (index) -> index
      NESTED
      %y = arith.constant 1 : index
      cf.br ^dead
    }
    """
    verify(parse(text.replace("NESTED", ""), CONTEXT))
    verify(parse(text.replace("NESTED", "scf.if %c { %z = arith.addi %x, %x : index }"), CONTEXT))
    with pytest.raises(VerifyError, match="operand #0 does not dominate this use"):
        verify(parse(text.replace("NESTED", "scf.if %c { %z = arith.addi %y, %x : index }"), CONTEXT))
    reached = text.replace("NESTED", "").replace("return\n", "cf.br ^dead\n")
    with pytest.raises(VerifyError, match="operand #0 does not dominate this use"):
        verify(parse(reached, CONTEXT))


def test_isolated_regions_see_nothing_from_outside() -> None:
    text = """
    "outer"() ({
      %x = arith.constant 1 : index
      "func.func"() <{function_type = () -> (), sym_name = "f"}> ({
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    """
    verify(parse(text, CONTEXT))


def test_an_attribute_of_any_kind_may_be_an_array_of_any_type() -> None:
    """Only an attribute that is declared as an array has an element type to keep to."""
    from ktir.attribute import Attribute
    from ktir.attributes import DenseArrayAttr
    from ktir.ir import Operation
    from ktir.opdef import attribute, operation
    from ktir.types import I32, I64, Type
    from ktir.verifier import collect

    @operation("test.holds_anything")
    class HoldsAnything(Operation):
        """One attribute of any kind and one array of i64."""

        anything = attribute(Attribute)
        array = attribute(DenseArrayAttr)

    def messages(element: Type) -> list[str]:
        array = DenseArrayAttr(element, (1, 2))
        op = HoldsAnything.create([], attributes={"anything": array, "array": array})
        return [diagnostic.message for diagnostic in collect(op)]

    assert messages(I64) == []
    (found,) = messages(I32)
    assert "attribute 'array' failed to satisfy constraint: i64 dense array attribute" in found


IMPLIED = [
    cls for dialect in CONTEXT.dialects for cls in dialect.operations if cls.definition.implicit_terminator
]


@pytest.mark.parametrize("kind", IMPLIED, ids=lambda cls: cls.definition.name)
@pytest.mark.parametrize("ending", ["other.end", "func.return"])
def test_no_other_operation_ends_a_region_whose_terminator_may_be_left_out(
    kind: type[Operation], ending: str
) -> None:
    """Else the text, which leaves out or adds the terminator, would mean another program."""
    build = kind.definition.implicit_terminator
    assert build is not None
    name = build().name
    text = (
        f'func.func @f() {{ "{kind.definition.name}"() ({{ "{ending}"() : () -> () }}) : () -> () return }}'
    )
    with pytest.raises(VerifyError) as caught:
        verify(parse(text, CONTEXT))
    (found,) = [d for d in caught.value.diagnostics if "expects regions to end with" in d.message]
    assert found.message == (
        f"'{kind.definition.name}' op expects regions to end with '{name}', found '{ending}'"
    )
    assert found.notes[0].message == f"in custom textual format, the absence of terminator implies '{name}'"
