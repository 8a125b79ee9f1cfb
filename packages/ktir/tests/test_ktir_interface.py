"""`ktir.signature` and `ktir.constant_buffers` on small kernels (KTIR spec 3.3, 4.3)."""

from __future__ import annotations

import pytest

import ktir
from ktir import ArgumentKind, Role, SignatureError
from ktir.layout import LinearLayout, StickLayout
from ktir.types import F16, F32

SETS = """
#b4 = affine_set<(i) : (i >= 0, -i + 3 >= 0)>
#b2 = affine_set<(i, j) : (i >= 0, j >= 0)>
#id = affine_map<(i) -> (i)>
#id2 = affine_map<(i, j) -> (i, j)>
"""
PLACE = "{coordinate_set = #b4, memory_space = #ktdp.memory_space<global>}"
PLACE2 = "{coordinate_set = #b2, memory_space = #ktdp.memory_space<global>}"


def kernel(arguments: str, body: str, module: str = "") -> ktir.Module:
    parsed = ktir.parse(f"{SETS}\nmodule {module} {{ func.func @k({arguments}) {{\n{body}\nreturn }} }}")
    ktir.verify(parsed)
    return parsed


def view(name: str, offset: str, size: int | str = 96, element: str = "f16") -> str:
    shown = "?" if isinstance(size, str) else size
    return f"%{name} = ktdp.construct_memory_view {offset}, sizes: [{size}], strides: [1] {PLACE} : memref<{shown}x{element}>"


def use(name: str, how: str, size: int | str = 96, element: str = "f16") -> str:
    shown = "?" if isinstance(size, str) else size
    tile = f"""%c{name} = arith.constant 0 : index
    %t{name} = ktdp.construct_access_tile %{name}[%c{name}] {{access_tile_set = #b4, access_tile_order = #id}} : memref<{shown}x{element}> -> !ktdp.access_tile<4xindex>
    %d{name} = tensor.empty() : tensor<4x{element}>
    """
    if "load" in how:
        tile += f"%l{name} = ktdp.load %t{name} : <4xindex> -> tensor<4x{element}>\n"
    if "store" in how:
        tile += f"ktdp.store %d{name}, %t{name} : tensor<4x{element}>, <4xindex>\n"
    return tile


def test_pointers_scalars_and_roles() -> None:
    arguments = ktir.signature(
        kernel(
            "%x: index, %y: index, %z: index, %shift: index, %scale: f16, %n: i32",
            "\n".join([view("a", "%x"), view("b", "%y", 48, "f32"), view("c", "%z"),
                       use("a", "load"), use("b", "store", 48, "f32"), use("c", "load store")]),
        )
    )  # fmt: skip
    assert [a.name for a in arguments] == ["x", "y", "z", "shift", "scale", "n"]
    assert [a.index for a in arguments] == list(range(6))
    assert [a.kind for a in arguments] == [ArgumentKind.POINTER] * 3 + [ArgumentKind.SCALAR] * 3
    assert [a.role for a in arguments] == [Role.INPUT, Role.OUTPUT, Role.INPUT_OUTPUT, None, None, None]
    assert [a.dtype for a in arguments] == ["float16", "float32", "float16", "int64", "float16", "int32"]
    assert [a.shape for a in arguments] == [(96,), (48,), (96,), None, None, None]
    assert arguments[1].layout == LinearLayout((48,), F32)


def test_names() -> None:
    """An attribute wins, then the text's name; `argN` always works for look-up."""
    arguments = ktir.signature(kernel('%a: index {ktdp.name = "first"}, %0: i32, %b: i32', view("v", "%a")))
    assert [a.name for a in arguments] == ["first", "arg1", "b"]
    assert ktir.find_argument(arguments, "first").index == 0
    assert ktir.find_argument(arguments, "arg2").name == "b"
    with pytest.raises(KeyError, match="no argument named 'c', the kernel has: first, arg1, b"):
        ktir.find_argument(arguments, "c")
    with pytest.raises(SignatureError, match="arguments 0 and 1 are both named 'b'"):
        ktir.signature(kernel('%a: i32 {ktdp.name = "b"}, %b: i32', ""))


@pytest.mark.parametrize(
    "offset",
    [
        "%t = ktdp.get_compute_tile_id : index\n%c = arith.constant 96 : index\n%m = arith.muli %t, %c : index\n"
        "%o = arith.addi %x, %m : index",
        "%c = arith.constant 64 : index\n%m = arith.muli %s, %c : index\n%o = arith.addi %m, %x : index",
        "%o = affine.apply affine_map<(d0)[s0] -> (d0 + s0 * 16)>(%x)[%s]",
        "%c = arith.constant 8 : index\n%r = arith.remui %s, %c : index\n%o = arith.addi %x, %r : index",
        "%z = arith.constant 0 : index\n%o = arith.subi %x, %z : index",
    ],
)
def test_offsets_with_free_terms(offset: str) -> None:
    """byte = p + (p-free); what multiplies or wraps is no address."""
    arguments = ktir.signature(
        kernel("%x: index, %s: index", offset + "\n" + view("a", "%o") + use("a", "load"))
    )
    assert [a.kind for a in arguments] == [ArgumentKind.POINTER, ArgumentKind.SCALAR]


def test_largest_view_gives_the_shape() -> None:
    body = f"""%c = arith.constant 64 : index
    {view("small", "%x", 8)}
    %big = ktdp.construct_memory_view %x, sizes: [4, 32], strides: [32, 1] {PLACE2} : memref<4x32xf16>
    """
    (argument,) = ktir.signature(kernel("%x: index", body))
    assert argument.shape == (4, 32)


def test_transposed_and_strided_views() -> None:
    """The host array is the one in whose C order the view walks; otherwise it is flat."""
    for sizes, strides, shape in [
        ("[32, 4]", "[1, 32]", (4, 32)),
        ("[4, 32]", "[64, 1]", (3 * 64 + 32,)),
        ("[4, 1]", "[1, 7]", (1, 4)),
    ]:
        body = f"%v = ktdp.construct_memory_view %x, sizes: {sizes}, strides: {strides} {PLACE2} : memref<{sizes[1:-1].replace(', ', 'x')}xf16>"
        (argument,) = ktir.signature(kernel("%x: index", body))
        assert argument.shape == shape


def test_views_behind_each_other_make_a_flat_buffer() -> None:
    body = f"%c = arith.constant 96 : index\n%o = arith.addi %x, %c : index\n{view('a', '%x')}\n{view('b', '%o')}"
    (argument,) = ktir.signature(kernel("%x: index", body))
    assert argument.shape == (192,)


def test_layout_attribute() -> None:
    layout = StickLayout.default((37, 130), F16)
    body = f"%v = ktdp.construct_memory_view %x, sizes: [111, 64], strides: [64, 1] {PLACE2} : memref<111x64xf16>"
    (argument,) = ktir.signature(kernel(f"%x: index {{ktdp.layout = {layout}}}", body))
    assert argument.layout == layout
    assert argument.shape == (37, 130)
    with pytest.raises(
        SignatureError, match=r"'ktdp.layout' of argument 'x' says f16, but its view has elements of type f32"
    ):
        ktir.signature(kernel(f"%x: index {{ktdp.layout = {layout}}}", body.replace("64xf16", "64xf32")))
    with pytest.raises(ktir.VerifyError, match=r"'ktdp.layout' must be a #ktdp.layout"):
        kernel("%x: index {ktdp.layout = 4 : i32}", body)


def test_runtime_arguments_and_symbolic_sizes() -> None:
    body = (
        "%p = ktdp.runtime_arg_extract value from %x : <index, granularity=64> -> index\n"
        "%n = ktdp.runtime_arg_extract value from %len : <index, granularity=8, upperbound=4096> -> index\n"
        + view("a", "%p", "%n").replace("(i >= 0", "(i >= 0") + use("a", "load", "%n")
    )  # fmt: skip
    x, length = ktir.signature(
        kernel(
            "%x: !ktdp.runtime_arg<index, granularity=64>, %len: !ktdp.runtime_arg<index, granularity=8, upperbound=4096>",
            body,
        )
    )
    assert x.kind is ArgumentKind.POINTER
    assert x.shape == ("len",)
    assert x.layout is None
    assert (length.kind, length.dtype, length.granularity, length.upperbound) == (
        ArgumentKind.SCALAR,
        "int64",
        8,
        4096,
    )


def test_memref_argument() -> None:
    (argument,) = ktir.signature(kernel("%a: memref<96xf16>", use("a", "store")))
    assert (argument.kind, argument.role, argument.shape) == (ArgumentKind.POINTER, Role.OUTPUT, (96,))


def test_roles_through_distributed_and_indirect_views() -> None:
    body = f"""{view("a", "%x")}\n{view("i", "%idx", 4, "i32")}\n{view("o", "%out")}
    %dv = ktdp.construct_distributed_memory_view(%a : memref<96xf16>) : memref<96xf16>
    %g = ktdp.construct_indirect_access_tile intermediate_variables(%m) %dv[ind(%i[%m])] {{variables_space_set = #b4, variables_space_order = #id}} : memref<96xf16>, memref<4xi32> -> !ktdp.access_tile<4xindex>
    %l = ktdp.load %g : <4xindex> -> tensor<4xf16>
    %s = ktdp.construct_indirect_access_tile intermediate_variables(%m) %o[ind(%i[%m])] {{variables_space_set = #b4, variables_space_order = #id}} : memref<96xf16>, memref<4xi32> -> !ktdp.access_tile<4xindex>
    ktdp.store %l, %s : tensor<4xf16>, <4xindex>"""
    arguments = ktir.signature(kernel("%x: index, %idx: index, %out: index", body))
    assert [a.role for a in arguments] == [Role.INPUT, Role.INPUT, Role.OUTPUT]


@pytest.mark.parametrize(
    ("arguments", "body", "message"),
    [
        ("%x: index, %y: index", "%o = arith.addi %x, %y : index\n" + view("a", "%o"),
         "offset of the view holds two addresses, 'x' and 'y'; mark the buffer with ktdp.layout"),
        ("%x: index", view("a", "%x", "%x"), "argument 'x' is an address and also reaches a size or stride of this view"),
        ("%x: index", view("a", "%x") + "\n%c = arith.constant 1 : index\nscf.for %i = %c to %x step %c { scf.yield }",
         "argument 'x' is an address and also reaches a bound of this loop"),
        ("%x: index", view("a", "%x") + "\n%t = ktdp.construct_access_tile %a[%x] {access_tile_set = #b4, access_tile_order = #id} : memref<96xf16> -> !ktdp.access_tile<4xindex>",
         "argument 'x' is an address and also reaches a subscript of this access tile"),
        ("%x: index", view("a", "%x") + "\n" + view("b", "%x", 4, "f32"),
         "argument 'x' is viewed with element sizes of 2 and 4 bytes, which element addresses cannot express"),
        ("%x: index", view("a", "%x") + "\n%c = arith.constant 2 : index\n%o = arith.muli %x, %c : index\n" + view("b", "%o"),
         "offset of the view is not 'x' plus terms without it"),
        ("%x: index", view("a", "%x") + "\n%c = arith.constant 2 : index\n%r = arith.remui %x, %c : index\n%o = arith.addi %x, %r : index\n" + view("b", "%o"),
         "offset of the view is not 'x' plus terms without it"),
    ],
)  # fmt: skip
def test_errors_are_located(arguments: str, body: str, message: str) -> None:
    with pytest.raises(SignatureError) as caught:
        ktir.signature(kernel(arguments, body))
    assert caught.value.message == message
    assert caught.value.location is not None
    assert caught.value.location.file_line_column() is not None


MOVING = {
    "%o = arith.addi %x, %n : index\n" + view("a", "%o") + "\n" + view("b", "%x", 8): (96,),
    "%n2 = arith.muli %n, %n : index\n" + view("a", "%x", "%n2"): (0,),
    "%n2 = arith.muli %n, %n : index\n" + view("a", "%x", "%n2") + "\n" + view("b", "%x"): (96,),
    f"%a = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [%n, 1] {PLACE2} : memref<4x8xf16>": (0,),
    "%c = arith.constant -96 : index\n%m = arith.muli %t, %c : index\n%o = arith.addi %x, %m : index\n"
    + view("a", "%o"): (96,),
    "scf.for %i = %c0 to %n step %c8 {\n%o = arith.addi %x, %i : index\n" + view("a", "%o") + "\n}": (96,),
}
STANDING = {
    "%c = arith.constant 96 : index\n%m = arith.muli %t, %c : index\n%o = arith.addi %x, %m : index\n"
    + view("a", "%o"): (4 * 96,),
    "%c = arith.constant 32 : index\n%m = arith.muli %t, %c : index\n%o = arith.addi %x, %m : index\n"
    f"%a = ktdp.construct_memory_view %o, sizes: [4, 8], strides: [8, 1] {PLACE2} : memref<4x8xf16>": (16, 8),
    "%c = arith.constant 4 : index\n%m = arith.muli %t, %c : index\n%o = arith.addi %x, %m : index\n"
    f"%a = ktdp.construct_memory_view %o, sizes: [4, 8], strides: [8, 1] {PLACE2} : memref<4x8xf16>": (44,),
    "scf.for %i = %c0 to %c30 step %c8 {\n%o = arith.addi %x, %i : index\n" + view("a", "%o", 8) + "\n}": (
        32,
    ),
    "scf.for %i = %c0 to %c30 step %c8 {\n%s = arith.addi %i, %t : index\n%o = arith.addi %x, %s : index\n"
    + view("a", "%o", 8)
    + "\n}\n"
    + view("b", "%x", 4): (35,),
    view("a", "%x"): (96,),
    view("a", "%x", "%n"): ("n",),
    "%c = arith.constant 8 : index\n%o = arith.addi %x, %c : index\n" + view("a", "%o"): (104,),
    f"%a = ktdp.construct_memory_view %x, sizes: [%n, 8], strides: [8, 1] {PLACE2} : memref<?x8xf16>": (
        "n",
        8,
    ),
    f"%a = ktdp.construct_memory_view %x, sizes: [4, %n], strides: [%n, 1] {PLACE2} : memref<4x?xf16>": (
        4,
        "n",
    ),
}


PRELUDE = "%t = ktdp.get_compute_tile_id : index\n" + "".join(
    f"%c{n} = arith.constant {n} : index\n" for n in (0, 8, 30)
)


@pytest.mark.parametrize("body", [*MOVING, *STANDING])
def test_views_that_move(body: str) -> None:
    """Tile ids and loops of constant bounds say how far; else the shape is what one view needs, and open."""

    def first(arguments: str) -> ktir.Argument:
        kernel = (
            f"func.func @k({arguments}, %n: index) attributes {{grid = [4]}} {{\n{PRELUDE}{body}\nreturn }}"
        )
        module = ktir.parse(f"{SETS}\n{kernel}")
        ktir.verify(module)
        return ktir.signature(module)[0]

    x = first("%x: index")
    assert x.shape == {**MOVING, **STANDING}[body]
    assert x.is_open is (body in MOVING)
    x = first(f"%x: index {{ktdp.layout = {LinearLayout((4096,), F16)}}}")
    assert (x.shape, x.is_open) == ((4096,), False)


def test_ambiguity_is_resolved_by_another_view_or_a_layout() -> None:
    shifted = "%o = arith.addi %x, %s : index\n" + view("b", "%o")
    arguments = ktir.signature(kernel("%x: index, %s: index", view("a", "%x") + "\n" + shifted))
    assert [a.kind for a in arguments] == [ArgumentKind.POINTER, ArgumentKind.SCALAR]
    layout = LinearLayout((96,), F16)
    arguments = ktir.signature(kernel(f"%s: index, %x: index {{ktdp.layout = {layout}}}", shifted))
    assert [a.kind for a in arguments] == [ArgumentKind.SCALAR, ArgumentKind.POINTER]


def test_byte_addresses_allow_two_element_sizes() -> None:
    body = view("a", "%x") + "\n" + view("b", "%x", 4, "f32")
    (argument,) = ktir.signature(kernel("%x: index", body, 'attributes {ktdp.address_unit = "byte"}'))
    assert argument.shape == (96,)


def test_constant_addresses() -> None:
    body = f"""%p = arith.constant 1024 : index
    %q = arith.constant 4096 : index
    {view("a", "%p")}\n{view("b", "%q", 8, "f32")}
    %l = ktdp.construct_memory_view %p, sizes: [8], strides: [1] {{coordinate_set = #b4, memory_space = #ktdp.memory_space<ct_local>}} : memref<8xf16>
    {use("a", "load")}{use("b", "store", 8, "f32")}"""
    module = kernel("", body)
    assert ktir.signature(module) == ()
    buffers = ktir.constant_buffers(module)
    assert [(b.name, b.address, b.shape, b.dtype, b.role) for b in buffers] == [
        ("@0x800", 0x800, (96,), "float16", Role.INPUT),
        ("@0x4000", 0x4000, (8,), "float32", Role.OUTPUT),
    ]


def test_finding_functions() -> None:
    module = ktir.parse("func.func @a() { return }\nfunc.func @b() { return }\nfunc.func private @c()")
    assert ktir.find_function(module, "a").symbol == "a"
    with pytest.raises(SignatureError, match="name one of the functions: a, b"):
        ktir.find_function(module)
    with pytest.raises(SignatureError, match="no function named 'c', functions with a body: a, b"):
        ktir.find_function(module, "c")
    nested = ktir.parse(
        "module { module @x { func.func @f() { return } } module @y { func.func @f() { return } } }"
    )
    with pytest.raises(SignatureError, match="several functions named 'f'"):
        ktir.signature(nested, "f")


def test_scratchpad_addresses_are_numbers() -> None:
    """No buffer of the host stands behind them (planning spec A.7 passes them from kernel to kernel)."""
    local = view("l", "%s").replace("<global>", "<ct_local>")
    arguments = ktir.signature(
        kernel("%x: index, %s: index", view("a", "%x") + "\n" + local + "\n" + use("l", "store"))
    )
    assert [a.kind for a in arguments] == [ArgumentKind.POINTER, ArgumentKind.SCALAR]


def test_dependence_through_loops_and_memory() -> None:
    """Loop indices depend on bounds only; loaded data does not carry the address that it was read at."""
    body = f"""{view("a", "%x")}
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = tensor.empty() : tensor<4xf16>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %p = %x) -> (tensor<4xf16>, index) {{
      %t = ktdp.construct_access_tile %a[%i] {{access_tile_set = #b4, access_tile_order = #id}} : memref<96xf16> -> !ktdp.access_tile<4xindex>
      %l = ktdp.load %t : <4xindex> -> tensor<4xf16>
      %next = arith.addi %p, %c1 : index
      scf.yield %l, %next : tensor<4xf16>, index
    }}"""
    arguments = ktir.signature(kernel("%x: index, %n: index", body))
    assert [a.kind for a in arguments] == [ArgumentKind.POINTER, ArgumentKind.SCALAR]
    reached = body + "\nscf.for %j = %c0 to %r#1 step %c1 { scf.yield }"
    with pytest.raises(SignatureError, match="'x' is an address and also reaches a bound of this loop"):
        ktir.signature(kernel("%x: index, %n: index", reached))


def test_promised_bounds_are_constants() -> None:
    body = "%n = ktdp.runtime_arg_extract upperbound from %len : <index, upperbound=4096> -> index\n" + view(
        "a", "%x", "%n"
    )
    x, _ = ktir.signature(kernel("%x: index, %len: !ktdp.runtime_arg<index, upperbound=4096>", body))
    assert x.shape == (4096,)


def test_arguments_that_are_no_kernel_arguments() -> None:
    with pytest.raises(
        SignatureError, match="argument 'a' of type tensor<4xf16> is neither an address nor a number"
    ):
        ktir.signature(kernel("%a: tensor<4xf16>", ""))


def test_names_survive_printing() -> None:
    """An argument without a name is `argN` by position before and after printing; inner names avoid it."""
    module = kernel(
        "%x: index, %0: index", view("v", "%0") + '\n"a.b"() ({\n^bb0(%i: index, %j: index):\n}) : () -> ()'
    )
    text = ktir.print_module(module)
    assert "func.func @k(%x: index, %arg1: index)" in text
    assert "^bb0(%arg0: index, %arg2: index):" in text
    assert ktir.print_module(ktir.parse(text)) == text
    assert (
        [a.name for a in ktir.signature(ktir.parse(text))]
        == [a.name for a in ktir.signature(module)]
        == ["x", "arg1"]
    )
