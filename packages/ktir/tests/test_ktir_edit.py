"""The edit mirror and the transformations: text in, text out."""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktir
from ktir import Context, EditError, Module, RewriteLimitError, edit, parse, print_module, verify
from ktir.dialects import arith, scf
from ktir.editor import EditOp, Editor
from ktir.transforms import canonicalize, clone, cse, dce, flatten, licm, rewrite, structural_hash

CONTEXT = Context(installed=False)


def read(text: str) -> Module:
    module = parse(textwrap.dedent(text), CONTEXT)
    verify(module)
    return module


def body(module: ktir.Operation) -> str:
    """The lines inside the only function, dedented."""
    verify(module)
    lines = print_module(module).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  func.func"))
    return textwrap.dedent("\n".join(lines[start + 1 : -2]))


def test_canonicalize_folds_and_drops() -> None:
    module = read(
        """
        func.func @f(%n: index) -> index {
          %c0 = arith.constant 0 : index
          %c4 = arith.constant 4 : index
          %a = arith.addi %c4, %n : index
          %b = arith.muli %c4, %c4 : index
          %z = arith.muli %a, %c0 : index
          %s = arith.addi %z, %a : index
          %r = arith.addi %s, %b : index
          %dead = arith.divui %n, %c4 : index
          return %r : index
        }
        """
    )
    assert body(canonicalize(module)) == textwrap.dedent(
        """\
        %c4 = arith.constant 4 : index
        %0 = arith.addi %n, %c4 : index
        %c16 = arith.constant 16 : index
        %1 = arith.addi %0, %c16 : index
        return %1 : index"""
    )


def test_untouched_operations_are_shared() -> None:
    module = read('func.func @f(%n: index) { "u"(%n) : (index) -> () return } func.func @g() { return }')
    assert canonicalize(module) is module
    with edit(module) as editor:
        (use,) = [op for op in editor.walk() if op.name == "u"]
        editor.set_attribute(use, "k", ktir.parse("module attributes {k} {}", CONTEXT).attributes["k"])
    changed = editor.module
    assert isinstance(changed, Module)
    assert changed.lookup("g") is module.lookup("g")
    assert changed.lookup("f") is not module.lookup("f")


def test_cse_respects_regions_and_effects() -> None:
    module = read(
        """
        func.func @f(%n: index, %c: i1) {
          scf.if %c {
            %a = arith.addi %n, %n : index
            "u"(%a) : (index) -> ()
          }
          %b = arith.addi %n, %n : index
          scf.if %c {
            %d = arith.addi %n, %n : index
            "u"(%b, %d) : (index, index) -> ()
          }
          %x = "effect"() : () -> index
          %y = "effect"() : () -> index
          "u"(%x, %y) : (index, index) -> ()
          return
        }
        """
    )
    text = body(cse(module))
    assert text.count("arith.addi") == 2
    assert text.count('"effect"') == 2


def test_licm_keeps_divisions_that_may_trap() -> None:
    module = read(
        """
        func.func @f(%n: index, %m: index) {
          %c2 = arith.constant 2 : index
          scf.for %i = %n to %m step %c2 {
            scf.for %j = %n to %m step %c2 {
              %a = arith.divui %n, %c2 : index
              %b = arith.divui %n, %m : index
              %d = arith.addi %i, %a : index
              "u"(%b, %d) : (index, index) -> ()
            }
          }
          return
        }
        """
    )
    assert body(licm(module)) == textwrap.dedent(
        """\
        %c2 = arith.constant 2 : index
        %0 = arith.divui %n, %c2 : index
        scf.for %arg0 = %n to %m step %c2 {
          %1 = arith.addi %arg0, %0 : index
          scf.for %arg1 = %n to %m step %c2 {
            %2 = arith.divui %n, %m : index
            "u"(%2, %1) : (index, index) -> ()
          }
        }
        return"""
    )


def test_edit_moves_and_refuses() -> None:
    module = read(
        """
        func.func @f(%n: index, %c: i1) {
          %a = arith.addi %n, %n : index
          scf.if %c {
            "u"(%a) : (index) -> ()
          }
          return
        }
        """
    )
    with edit(module) as editor:
        add = next(editor.walk(arith.AddI))
        use = next(op for op in editor.walk() if op.name == "u")
        branch = next(editor.walk(scf.If))
        with pytest.raises(EditError, match="its result is used by 'u'"):
            editor.erase(add)
        with pytest.raises(EditError, match="into or next to itself"):
            editor.move_before(branch, use)
        editor.move_before(add, use)
        assert add.is_before(use)
        assert add.parent is branch
    assert body(editor.module).splitlines()[1].strip() == "%0 = arith.addi %n, %n : index"


def test_rewrite_limit() -> None:
    """Patterns that undo one another are stopped."""
    module = read(
        "func.func @f(%n: index, %m: index) -> index { %a = arith.addi %n, %m : index return %a : index }"
    )

    def swap(op: EditOp, editor: Editor) -> bool:
        if isinstance(op.origin, arith.AddI):
            editor.set_operands(op, (op.operands[1], op.operands[0]))
            return True
        return False

    with pytest.raises(
        RewriteLimitError, match=r"within 7 rewrites; the last one was made by swap on 'arith.addi'"
    ):
        rewrite(module, (swap,), limit=7)


def test_clone_defines_new_values() -> None:
    module = read(
        'func.func @f(%n: index) { scf.for %i = %n to %n step %n { "u"(%i) : (index) -> () } return }'
    )
    copy, mapping = clone(module)
    assert structural_hash(copy) == structural_hash(module)
    assert not set(mapping) & set(mapping.values())
    assert isinstance(copy, Module)
    verify(module.with_operations((*module.operations, *copy.operations[0:0])))


@given(st.data())
def test_transformations_keep_the_meaning_of_index_programs(data: st.DataObject) -> None:
    """Random straight-line index programs: canonicalize, cse, dce, licm against Python arithmetic."""
    names = ["%x", "%y"]
    lines: list[str] = []
    env: dict[str, int] = {"%x": data.draw(st.integers(-50, 50)), "%y": data.draw(st.integers(-50, 50))}
    for number in range(data.draw(st.integers(1, 12))):
        name = f"%v{number}"
        if data.draw(st.booleans()):
            value = data.draw(st.integers(-3, 3))
            lines.append(f"{name} = arith.constant {value} : index")
            env[name] = value
        else:
            op = data.draw(st.sampled_from(["addi", "subi", "muli", "maxsi", "minsi"]))
            a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
            lines.append(f"{name} = arith.{op} {a}, {b} : index")
            x, y = env[a], env[b]
            env[name] = {"addi": x + y, "subi": x - y, "muli": x * y, "maxsi": max(x, y), "minsi": min(x, y)}[
                op
            ]
        names.append(name)
    program = "\n".join(lines)
    constants = (
        f"%x = arith.constant {env['%x']} : index\n%y = arith.constant {env['%y']} : index\n"
        if data.draw(st.booleans())
        else ""
    )
    arguments = "" if constants else "%x: index, %y: index"
    module = read(
        f"func.func @f({arguments}) -> index {{\n{constants}{program}\nreturn {names[-1]} : index\n}}"
    )
    for transform in (canonicalize, cse, dce, licm):
        module = transform(module)
        verify(module)
        assert _evaluate(module, [env["%x"], env["%y"]]) == (env[names[-1]] + 2**63) % 2**64 - 2**63


def _evaluate(module: Module, arguments: list[int]) -> int:
    """Straight-line index arithmetic in Python; shares nothing with the folders."""
    import operator

    functions = {"addi": operator.add, "subi": operator.sub, "muli": operator.mul, "maxsi": max, "minsi": min}
    function = module.operations[0]
    block = function.regions[0].block
    env = dict(zip(block.arguments, arguments, strict=False))
    for op in block.operations[:-1]:
        if isinstance(op, arith.Constant):
            env[op.results[0]] = op.value.value  # type: ignore[attr-defined, index]
        else:
            value = functions[op.name.removeprefix("arith.")](*(env[v] for v in op.operands))  # type: ignore[operator, index]
            env[op.results[0]] = (value + 2**63) % 2**64 - 2**63  # type: ignore[index]
    return env[block.terminator.operands[0]]  # type: ignore[index]


COUNT = 3000
LARGE = {
    "constants in front of regions": "func.func @f(%c: i1) {\n"
    + "".join(f"%a{i} = arith.constant {i} : index scf.if %c {{ }}\n" for i in range(COUNT))
    + "return }",
    "a chain of blocks": "func.func @f(%c: index) {\n"
    + "".join(f"%a{i} = arith.addi %c, %c : index cf.br ^b{i} ^b{i}:\n" for i in range(COUNT))
    + "return }",
    "calls": "".join(
        f"func.func private @f{i}() {{ call @f{COUNT - 1 - i}() : () -> () return }}\n" for i in range(COUNT)
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_modules_take_no_quadratic_time(name: str) -> None:
    module = ktir.parse(LARGE[name])
    start = time.process_time()
    ktir.verify(module)
    cse(module)
    assert time.process_time() - start < 4.0


def test_groups_of_operands_stand_where_the_declaration_says() -> None:
    """Fixed, optional and variadic groups, with and without segment sizes, from both ends."""
    from ktir.attributes import DenseArrayAttr
    from ktir.ir import BlockArgument, Operation
    from ktir.opdef import operand, operation, optional_operand, variadic_operand, variadic_result
    from ktir.types import I32, INDEX

    @operation("test.one_loose")
    class OneLoose(Operation):
        """Fixed operands around a variadic group."""

        first = operand()
        middle = variadic_operand()
        last = operand()
        outcomes = variadic_result()

    @operation("test.two_loose")
    class TwoLoose(Operation):
        """Two loose groups need segment sizes."""

        first = operand()
        maybe = optional_operand()
        rest = variadic_operand()

    values = [BlockArgument(INDEX, f"v{i}") for i in range(4)]
    for count in range(2, 5):
        op = OneLoose.create(values[:count], [INDEX] * count)
        assert op.first is values[0]
        assert op.middle == tuple(values[1 : count - 1])
        assert op.last is values[count - 1]
        assert op.outcomes == op.results
    for sizes in ((1, 0, 3), (1, 1, 2)):
        two = TwoLoose.create(values, attributes={"operandSegmentSizes": DenseArrayAttr(I32, sizes)})
        assert two.first is values[0]
        assert two.maybe is (values[1] if sizes[1] else None)
        assert two.rest == tuple(values[1 + sizes[1] :])

    with pytest.raises(ValueError, match="declare 'middle' again, it stands elsewhere in another class"):

        @operation("test.more")
        class More(OneLoose):
            """One more operand behind moves the end of `middle`."""

            behind = operand()


STAYS = {
    "endless loop": """
        %r = scf.while (%x = %n) : (index) -> index { scf.condition(%c) %x : index }
          do { ^bb0(%y: index): scf.yield %y : index }""",
    "step of unknown sign": "%r = scf.for %j = %n to %n step %n iter_args(%x = %n) -> index { scf.yield %x : index }",
    "element at a variable place": "%r = tensor.extract %t[%n] : tensor<4xindex>",
    "insertion at a variable place": "%r = tensor.insert %n into %t[%n] : tensor<4xindex>",
    "slice at a variable place": "%r = tensor.extract_slice %t[%n] [2] [1] : tensor<4xindex> to tensor<2xindex>",
}


@pytest.mark.parametrize("name", STAYS)
def test_licm_moves_nothing_that_may_trap_or_hang(name: str) -> None:
    module = read(
        f"""
        func.func @f(%n: index, %c: i1, %t: tensor<4xindex>) {{
          scf.for %i = %n to %n step %n {{
            {STAYS[name]}
            "u"(%r) : ({{type}}) -> ()
          }}
          return
        }}
        """.replace(
            "{type}",
            {
                "insertion at a variable place": "tensor<4xindex>",
                "slice at a variable place": "tensor<2xindex>",
            }.get(name, "index"),
        )
    )
    assert structural_hash(licm(module)) == structural_hash(module)


def nested(depth: int) -> Module:
    """`depth` loops inside each other, deeper than any text may be; the innermost holds a dead addition."""
    module = read(
        "func.func @f(%a: index) { scf.for %i = %a to %a step %a { %d = arith.addi %a, %a : index } return }"
    )
    function = module.lookup("f")
    assert function is not None
    entry = function.regions[0].block
    loop, end = entry.operations
    terminator = loop.regions[0].block.operations[-1]
    for _ in range(depth - 1):
        body = ktir.Region.of([loop, terminator], [ktir.BlockArgument(loop.operands[0].type)])
        loop = scf.For.create(loop.operands, (), loop.attributes, [body])
    function = function.replace(regions=[ktir.Region((entry.replace(operations=(loop, end)),))])
    return module.replace(regions=[ktir.Region.of([function])])


def test_depth_is_no_limit() -> None:
    """Nothing but text recurses: IR deeper than Python's stack is verified, edited, cloned and compared."""
    module = nested(400)
    verify(module)
    for change in (canonicalize, cse, dce, licm):
        verify(change(module))
    assert len(list(dce(module).walk())) == len(list(module.walk())) - 1
    copy, _ = clone(module)
    assert structural_hash(copy) == structural_hash(module)
    with edit(module) as editor:
        (dead,) = editor.walk(arith.AddI)
        editor.erase(dead)
    assert structural_hash(editor.module) == structural_hash(dce(module))
    with pytest.raises(ktir.UnsupportedError, match="no text for operations nested deeper than 100 levels"):
        print_module(module)


def test_what_nests_as_deep_as_text_may_is_printed() -> None:
    module = nested(90)
    for generic in (False, True):
        again = parse(print_module(module, generic), CONTEXT)
        assert structural_hash(again) == structural_hash(module)


@pytest.mark.parametrize("failed", [False, True])
def test_an_editor_that_has_ended_takes_no_change(failed: bool) -> None:
    """Every method that changes something says so instead of losing the change."""
    module = read(
        "func.func @f(%a: index) { %b = arith.addi %a, %a : index %c = arith.addi %b, %a : index return }"
    )
    editor = edit(module)
    with contextlib.suppress(ZeroDivisionError), editor:
        first, second = editor.walk(arith.AddI)
        if failed:
            raise ZeroDivisionError
    other = arith.AddI.create([first.operands[0]] * 2, [first.results[0].type])
    block = first.block
    assert block is not None
    changes: list[Callable[[], object]] = [
        lambda: editor.set_operand(first, 0, first.operands[1]),
        lambda: editor.set_operands(first, first.operands),
        lambda: editor.set_attribute(first, "a", None),
        lambda: editor.replace_all_uses(first.results[0], first.operands[0]),
        lambda: editor.erase(second),
        lambda: editor.replace(second, [first.results[0]]),
        lambda: editor.insert_before(first, other),
        lambda: editor.insert_after(first, other),
        lambda: editor.append(block, other),
        lambda: editor.prepend(block, other),
        lambda: editor.move_before(second, first),
        lambda: editor.move_after(first, second),
    ]
    for change in changes:
        with pytest.raises(EditError, match="has ended"):
            change()
    if failed:
        with pytest.raises(EditError):
            _ = editor.module
    else:
        assert editor.module is module


def test_flatten_lifts_what_nameless_modules_hold() -> None:
    """A file with something beside its module reads as the same program as one without the inner module."""
    device = 'ktdf_arch.device @d import("d.mlir")\n'
    function = "func.func @f() { return }"
    for attributes in ("", 'attributes {ktdp.grid_order = "last_fastest"} '):
        beside = parse(f"{device}module {attributes}{{ {function} }}", CONTEXT)
        inside = parse(f"module {attributes}{{ {device} {function} }}", CONTEXT)
        assert print_module(flatten(beside)) == print_module(inside)
    deep = parse(
        "module { module { module { func.func @a() { return } } } func.func @b() { return } }", CONTEXT
    )
    assert [op.attributes["sym_name"] for op in flatten(deep).operations] == [
        op.attributes["sym_name"]
        for op in parse("func.func @a() { return } func.func @b() { return }").operations
    ]
    named = parse("module { module @m { func.func @f() { return } } }", CONTEXT)
    assert flatten(named) is named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "module attributes {a = 1} { module attributes {a = 2} {} }",
            "1:29: error: a module in a module sets 'a' to another value than the one around it",
        ),
        (
            "module { func.func @f() { return } module { func.func @f() { return } } }",
            "1:45: error: symbol 'f' is defined in two modules of one file",
        ),
    ],
)
def test_flatten_names_what_contradicts(text: str, message: str) -> None:
    with pytest.raises(ktir.UnsupportedError) as caught:
        flatten(parse(text, CONTEXT, "f.mlir"))
    assert str(caught.value) == f"f.mlir:{message}"
