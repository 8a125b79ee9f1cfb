"""The KTIR text of one planned element-wise kernel (planning spec 6.0.3 and 6.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rangeify.kernels import store_of
from rangeify.ktir.layout import DeviceLayout
from rangeify.ktir.plan import KernelPlan, Operand, TileDim
from rangeify.ktir.scalar import ScalarBody
from rangeify.ktir.target import for_target
from rangeify.schedule_types import Kernel


def emit_function(
    name: str,
    kernel: Kernel,
    plan: KernelPlan,
    layouts: Sequence[DeviceLayout],
    arguments: Sequence[str],
) -> str:
    """A ``func.func`` that does `kernel`; `layouts` and `arguments` by argument slot.

    One view an argument in its device shape, one access tile and load an operand, one ``linalg.generic`` with
    the whole body, one store.
    """
    where = f"kernel {name}"
    value = for_target(store_of(kernel.body).src[1])
    element = [str(layout.stick.element) for layout in layouts]
    lines: list[str] = []
    if math.prod(plan.grid) > 1:
        ids = [f"%id{g}" for g in range(len(plan.grid))]
        lines.append(f"{', '.join(ids)} = ktdp.get_compute_tile_id : {', '.join(['index'] * len(ids))}")
    starts = _starts(plan, lines)
    for slot, layout in enumerate(layouts):
        sizes = layout.device_size
        lines.append(
            f"%view{slot} = ktdp.construct_memory_view %{arguments[slot]}, sizes: {list(sizes)}, "
            f"strides: {_row_major(sizes)} {{coordinate_set = {_box(sizes)}, "
            f"memory_space = #ktdp.memory_space<global>}} : {_memref(sizes, element[slot])}"
        )
    body = ScalarBody(where)
    inputs, types, maps = [], [], []
    for number, (node, operand) in enumerate(plan.loads.items()):
        slot = operand.slot
        lines.append(_access_tile(f"%tile{number}", operand, layouts[slot], element[slot], starts))
        shape = [d.size for d in operand.tile]
        tensor = f"tensor<{_dims(shape)}x{element[slot]}>"
        lines.append(f"%load{number} = ktdp.load %tile{number} : {_tile_type(shape)} -> {tensor}")
        inputs.append(f"%load{number}")
        types.append(tensor)
        maps.append(_map(operand, len(plan.tile_shape)))
        body.loaded(node, f"%e{number}")
    body.emit(value)
    result = body.stored(value)
    out_element = element[plan.store.slot]
    out_type = f"tensor<{_dims(plan.tile_shape)}x{out_element}>"
    maps.append(_map(plan.store, len(plan.tile_shape)))
    lines.append(f"%init = tensor.empty() : {out_type}")
    iterators = ", ".join(['"parallel"'] * len(plan.tile_shape))
    ins = f"ins({', '.join(inputs)} : {', '.join(types)}) " if inputs else ""
    lines.append(
        f"%result = linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{iterators}]}} "
        f"{ins}outs(%init : {out_type}) {{"
    )
    block = [f"%e{i}: {element[o.slot]}" for i, o in enumerate(plan.loads.values())]
    lines.append(f"^bb0({', '.join([*block, f'%o: {out_element}'])}):")
    lines += [f"  {line}" for line in body.lines]
    lines.append(f"  linalg.yield {result} : {out_element}")
    lines.append(f"}} -> {out_type}")
    lines.append(_access_tile("%target", plan.store, layouts[plan.store.slot], out_element, starts))
    lines.append(f"ktdp.store %result, %target : {out_type}, {_tile_type(plan.tile_shape)}")
    lines.append("return")
    parameters = ", ".join(
        f'%{a}: index {{ktdp.layout = {layout.stick}, ktdp.name = "{a}"}}'
        for a, layout in zip(arguments, layouts, strict=True)
    )
    text = "\n".join(f"    {line}" for line in lines)
    return f"  func.func @{name}({parameters}) attributes {{grid = {list(plan.grid)}}} {{\n{text}\n  }}"


def _starts(plan: KernelPlan, lines: list[str]) -> dict[tuple[int | None, int, int], str]:
    """Write the index arithmetic of every distinct tile start; (grid, step, offset) -> value."""
    names: dict[tuple[int | None, int, int], str] = {}
    constants: dict[int, str] = {}

    def constant(n: int) -> str:
        if n not in constants:
            constants[n] = f"%c{n}"
            lines.append(f"%c{n} = arith.constant {n} : index")
        return constants[n]

    for operand in (*plan.loads.values(), plan.store):
        for dim in operand.tile:
            if (key := _key(dim)) in names:
                continue
            if dim.grid is None:
                names[key] = constant(dim.offset)
                continue
            step = constant(dim.step)
            start = f"%start{len(names)}"
            lines.append(f"{start} = arith.muli %id{dim.grid}, {step} : index")
            if dim.offset:
                lines.append(f"{start}_at = arith.addi {start}, {constant(dim.offset)} : index")
                start += "_at"
            names[key] = start
    return names


def _key(dim: TileDim) -> tuple[int | None, int, int]:
    return (dim.grid, dim.step if dim.grid is not None else 0, dim.offset)


def _access_tile(
    name: str,
    operand: Operand,
    layout: DeviceLayout,
    element: str,
    starts: dict[tuple[int | None, int, int], str],
) -> str:
    shape = [d.size for d in operand.tile]
    subscripts = ", ".join(starts[_key(d)] for d in operand.tile)
    identity = ", ".join(f"d{i}" for i in range(len(shape)))
    return (
        f"{name} = ktdp.construct_access_tile %view{operand.slot}[{subscripts}] "
        f"{{access_tile_order = affine_map<({identity}) -> ({identity})>, access_tile_set = {_box(shape)}}} "
        f": {_memref(layout.device_size, element)} -> {_tile_type(shape)}"
    )


def _map(operand: Operand, rank: int) -> str:
    dims = ", ".join(f"d{i}" for i in range(rank))
    results = ", ".join("0" if d.axis is None else f"d{d.axis}" for d in operand.tile)
    return f"affine_map<({dims}) -> ({results})>"


def _box(sizes: Sequence[int]) -> str:
    dims = ", ".join(f"d{i}" for i in range(len(sizes)))
    bounds = ", ".join(f"d{i} >= 0, -d{i} + {n - 1} >= 0" for i, n in enumerate(sizes))
    return f"affine_set<({dims}) : ({bounds})>"


def _row_major(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


def _dims(sizes: Sequence[int]) -> str:
    return "x".join(str(n) for n in sizes)


def _memref(sizes: Sequence[int], element: str) -> str:
    return f"memref<{_dims(sizes)}x{element}>"


def _tile_type(sizes: Sequence[int]) -> str:
    return f"!ktdp.access_tile<{_dims(sizes)}xindex>"
