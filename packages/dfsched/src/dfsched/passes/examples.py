"""What the examples in the docstrings of passes call: one pass on a small text, or a kernel up to a pass."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

import ktir
from dfsched.architecture.loading import load_architecture
from dfsched.options import Options
from dfsched.passes.base import PassContext

__all__ = ["SOME_ROWS", "SUM", "TRIANGLE", "after", "example", "generic", "kernel"]

WIDTH = 96

_KERNEL = """
#b = affine_set<(d0, d1) : (d0 >= 0, -d0 + LAST >= 0, d1 >= 0, -d1 + 255 >= 0)>
#i = affine_map<(d0, d1) -> (d0, d1)>
#v = affine_set<(d0) : (d0 >= 0, -d0 + LAST >= 0)>
#j = affine_map<(d0) -> (d0)>
func.func @k(%x: index, %y: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %xv = ktdp.construct_memory_view %x, sizes: [ROWS, 256], strides: [256, 1]
        {coordinate_set = #b, memory_space = #ktdp.memory_space<global>} : memref<ROWSx256xf16>
  %xt = ktdp.construct_access_tile %xv[%c0, %c0] {access_tile_set = #b, access_tile_order = #i}
        : memref<ROWSx256xf16> -> !ktdp.access_tile<ROWSx256xindex>
  %a = ktdp.load %xt : <ROWSx256xindex> -> TENSOR
  COMPUTE
  return
}
"""

_FULL = """
  %yv = ktdp.construct_memory_view %y, sizes: [ROWS, 256], strides: [256, 1]
        {coordinate_set = #b, memory_space = #ktdp.memory_space<global>} : memref<ROWSx256xf16>
  %yt = ktdp.construct_access_tile %yv[%c0, %c0] {access_tile_set = #b, access_tile_order = #i}
        : memref<ROWSx256xf16> -> !ktdp.access_tile<ROWSx256xindex>
  BODY
  ktdp.store %r, %yt : TENSOR, <ROWSx256xindex>
"""

_ROWS = """
  %yv = ktdp.construct_memory_view %y, sizes: [ROWS], strides: [1]
        {coordinate_set = #v, memory_space = #ktdp.memory_space<global>} : memref<ROWSxf16>
  %yt = ktdp.construct_access_tile %yv[%c0] {access_tile_set = #v, access_tile_order = #j}
        : memref<ROWSxf16> -> !ktdp.access_tile<ROWSxindex>
  %z = arith.constant dense<0.0> : tensor<ROWSxf16>
  %r = linalg.reduce { arith.addf } ins(%a : TENSOR) outs(%z : tensor<ROWSxf16>) dimensions = [1]
  ktdp.store %r, %yt : tensor<ROWSxf16>, <ROWSxindex>
"""


def _kernel(compute: str, rows: int) -> str:
    text = _KERNEL.replace("COMPUTE", compute).replace("TENSOR", "tensor<ROWSx256xf16>")
    return text.replace("ROWS", str(rows)).replace("LAST", str(rows - 1))


def kernel(body: str = "%r = arith.addf %a, %a : TENSOR", rows: int = 2) -> str:
    """KTIR over rows of 256 elements: loads them as ``%a``, computes ``%r``, stores it.

    ``TENSOR`` stands for the type of both, ``ROWS`` for the number of rows.
    """
    return _kernel(_FULL.replace("BODY", body), rows)


def generic(map: str, body: str) -> str:
    """A `linalg.generic` on ``%a`` for `kernel`: the map of its input; ``%s`` is computed of ``%p``."""
    return (
        f"%e = tensor.empty() : TENSOR\n%r = linalg.generic {{indexing_maps = [affine_map<{map}>, #i], "
        'iterator_types = ["parallel", "parallel"]} ins(%a : TENSOR) outs(%e : TENSOR) {\n'
        f"^bb0(%p: f16, %q: f16):\n{body}\nlinalg.yield %s : f16\n}} -> TENSOR"
    )


SUM = _kernel(_ROWS, 2)
"""The sums of two rows of 256 elements."""


_DOUBLED = """
#b = affine_set<(d0, d1) : (d0 >= 0, -d0 + 99 >= 0, d1 >= 0, -d1 + 99 >= 0)>
#s = affine_set<SET>
#i = affine_map<(d0, d1) -> (d0, d1)>
func.func @k(%x: index, %y: index, %n: !ktdp.runtime_arg<index, granularity=4, upperbound=100>) {
  %xv = ktdp.construct_memory_view %x, sizes: [100, 100], strides: [100, 1]
        {coordinate_set = #b, memory_space = #ktdp.memory_space<global>} : memref<100x100xf16>
  %yv = ktdp.construct_memory_view %y, sizes: [100, 100], strides: [100, 1]
        {coordinate_set = #b, memory_space = #ktdp.memory_space<global>} : memref<100x100xf16>
  %m = ktdp.runtime_arg_extract value from %n : <index, granularity=4, upperbound=100> -> index
  %xt = ktdp.construct_access_tile %xv[0, 0] SYMBOLS {access_tile_set = #s, access_tile_order = #i}
        : memref<100x100xf16> -> !ktdp.access_tile<TILExindex>
  %yt = ktdp.construct_access_tile %yv[0, 0] SYMBOLS {access_tile_set = #s, access_tile_order = #i}
        : memref<100x100xf16> -> !ktdp.access_tile<TILExindex>
  %a = ktdp.load %xt : <TILExindex> -> tensor<TILExf16>
  %r = arith.addf %a, %a : tensor<TILExf16>
  ktdp.store %r, %yt : tensor<TILExf16>, <TILExindex>
  return
}
"""


def _doubled(points: str, tile: str, symbols: str) -> str:
    return _DOUBLED.replace("SET", points).replace("TILE", tile).replace("SYMBOLS", symbols)


TRIANGLE = _doubled("(d0, d1) : (d0 >= 0, -d0 + 99 >= 0, d1 >= 0, d0 - d1 >= 0)", "5050x1", "")
"""The lower triangle of 100 x 100 elements, doubled."""

SOME_ROWS = _doubled(
    "(d0, d1)[n] : (d0 >= 0, -d0 + n - 1 >= 0, d1 >= 0, -d1 + 99 >= 0)", "?x100", "symbols(%m)"
)
"""As many of 100 rows as the launch says, doubled: a multiple of 4."""


def example(
    name: str, body: str, arguments: str = "", attributes: str = "", device: str = "sample", **settings: str
) -> None:
    """Run one pass on a function with that body and print what the body is then.

    `settings` are the pass's options, with ``_`` for ``-``.
    """
    from dfsched.pipeline import select_passes

    described = f" attributes {{{attributes}}}" if attributes else ""
    module = ktir.parse(f"func.func @f({arguments}){described} {{\n{body}\nreturn\n}}")
    options = Options(settings=_settings(name, settings))
    (chosen,) = select_passes([name])
    _show(chosen.run(module, PassContext(load_architecture(device), options)), None)


def after(name: str, kernel: str, show: str, device: str = "sample", **settings: str) -> None:
    """Compile a kernel up to the last pass of that name and print the lines that a pattern is found in."""
    from dfsched.compilation import compile

    options = Options(stop_after=name, settings=_settings(name, settings))
    _show(compile(ktir.parse(kernel), device, options).passes[-1].module, show)


def _settings(name: str, given: Mapping[str, str]) -> dict[str, str]:
    return {f"{name}.{key.replace('_', '-')}": value for key, value in given.items()}


def _show(module: ktir.Module, show: str | None) -> None:
    """Lines of a module, broken at blanks; without a pattern those inside of its only function."""
    lines = ktir.print_module(module).splitlines()
    if show is not None:
        lines = [line.strip() for line in lines if re.search(show, line)]
    else:
        inside = next(number for number, line in enumerate(lines) if "func.func" in line)
        body = textwrap.dedent("\n".join(lines[inside + 1 : -3])).splitlines()
        used = set(re.findall(r"#\w+", "\n".join(body)))
        lines = [*(line for line in lines[:inside] if line.split(" ")[0] in used), *body]
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        found = textwrap.wrap(
            line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        print("\n".join(found))
