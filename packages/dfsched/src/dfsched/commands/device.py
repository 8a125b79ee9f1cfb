"""`dfsched device`: what a device description says, for people."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import click
from rich import box
from rich.console import Console
from rich.table import Table

from dfsched.architecture import Architecture, Datapath, Group, Memory, Unit, kind_text
from dfsched.architecture.features import Transfer
from dfsched.architecture.lint import lint
from dfsched.architecture.loading import load_architecture, package_devices
from dfsched.commands.diagnostics import reported
from dfsched.dialects.pdl import PatternOp

__all__ = ["describe", "device", "dot"]


@click.command()
@click.argument("name", required=False)
@click.option("--dot", "as_dot", is_flag=True, help="Print the device as a Graphviz graph.")
def device(name: str | None, as_dot: bool) -> None:
    """Describe device NAME: a package device or a file. Without NAME, list the package devices."""
    with reported():
        if name is None:
            click.echo("\n".join(package_devices()))
            return
        architecture = load_architecture(name)
        click.echo(dot(architecture) if as_dot else describe(architecture), nl=False)


def describe(architecture: Architecture) -> str:
    """Memories, units, links, routes and instances as tables."""
    console = Console(width=110, no_color=True, highlight=False, soft_wrap=False)
    with console.capture() as capture:
        console.print(f"device @{architecture.name}  digest {architecture.digest[:16]}")
        console.print(
            f"{architecture.cores} cores, stick {architecture.stick_bytes} bytes, "
            f"clock {architecture.timing.clock_hz / 1e6:g} MHz"
        )
        for space, kind in architecture.mem_space_mapping:
            console.print(f"{kind_text(space)} is {kind_text(kind)}")
        for table in (
            _memories(architecture),
            _units(architecture),
            _links(architecture),
            _routes(architecture),
            _instances(architecture),
            *([_patterns(architecture)] if architecture.patterns else []),
        ):
            console.print(table)
        for remark in lint(architecture):
            console.print(f"remark: {remark}")
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _bytes(size: int | None) -> str:
    if size is None:
        return "-"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _rate(bandwidth: Fraction | None) -> str:
    return "-" if bandwidth is None else f"{float(bandwidth):g}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _memories(architecture: Architecture) -> Table:
    table = _table(
        "memories", "kind", "count", "copies per", "size", "reserved", "bytes/cycle", "latency", "class"
    )
    for kind in dict.fromkeys(m.kind for m in architecture.memories):
        memory = architecture.memory(kind)
        table.add_row(
            kind_text(kind),
            str(len(architecture.instances_of(kind))),
            architecture.scope(kind).value,
            _bytes(memory.size),
            _bytes(memory.reserved) if memory.reserved else "-",
            _rate(memory.bandwidth),
            _number(memory.latency),
            _memory_class(architecture, memory),
        )
    return table


def _memory_class(architecture: Architecture, memory: Memory) -> str:
    if architecture.is_address_buffer(memory.kind):
        return "address buffer"
    if architecture.is_private(memory.kind):
        return "private to " + ", ".join(kind_text(u.kind) for u in architecture.units_beside(memory))
    if architecture.is_global(memory.kind):
        return "device memory"
    return "scratchpad" if architecture.is_per_core_scratchpad(memory.kind) else "below scratchpad"


def _units(architecture: Architecture) -> Table:
    table = _table("units", "kind", "count", "copies per", "does", "lanes", "word (bytes)", "buffers")
    for kind in dict.fromkeys(u.kind for u in architecture.units if u.kind is not None):
        unit = architecture.unit(kind)
        simd = unit.features.simd
        does = [
            name
            for name, present in (
                ("compute", unit.computes),
                ("load", unit.features.load is not None),
                ("store", unit.features.store is not None),
                ("splat", simd is not None and simd.splat),
                ("zero-pad", simd is not None and simd.zero_pad),
            )
            if present
        ]
        table.add_row(
            kind_text(kind),
            str(len(architecture.instances_of(kind))),
            architecture.scope(kind).value,
            ", ".join(does) or "-",
            ", ".join(f"{t} {n}" for t, n in (simd.lanes if simd else ())) or "-",
            _words(unit.features.load or unit.features.store),
            ("1 first" if unit.double_buffer_last else "0 first") if unit.moves else "-",
        )
    return table


def _words(transfer: Transfer | None) -> str:
    if transfer is None:
        return "-"
    return ", ".join(f"{kind_text(kind)} {size}" for kind, size in transfer.word_sizes) or "1"


def _links(architecture: Architecture) -> Table:
    table = _table("links", "from", "to", "count", "bytes/cycle", "beat (bytes)", "queue")
    rows: dict[tuple[str, ...], int] = {}
    for link in architecture.datapaths:
        row = (_end(architecture, link, True), _end(architecture, link, False), *_link_facts(link))
        rows[row] = rows.get(row, 0) + 1
    for (source, target, *facts), count in rows.items():
        table.add_row(source, target, str(count), *facts)
    return table


def _end(architecture: Architecture, link: Datapath, source: bool) -> str:
    return architecture.node(link.source if source else link.target).label


def _link_facts(link: Datapath) -> tuple[str, str, str]:
    queue = link.features.queue
    kind = "-"
    if queue is not None:
        parts = ["ordered" if queue.ordered else "unordered"]
        parts += [f"depth {queue.depth}"] if queue.depth is not None else []
        parts += [f"{queue.size} bytes"] if queue.size is not None else []
        kind = ", ".join(parts)
    beats = "-" if link.granularity is None else ", ".join(map(str, link.granularity))
    return (_rate(link.bandwidth), beats, kind)


def _routes(architecture: Architecture) -> Table:
    table = _table("routes", "from", "to", "by", "bytes/cycle")
    units = [u.kind for u in architecture.compute_units if u.kind is not None]
    memories = [
        k for k in dict.fromkeys(m.kind for m in architecture.memories) if not architecture.is_private(k)
    ]
    for unit in units:
        for memory in memories:
            for a, b in ((memory, unit), (unit, memory)):
                route = architecture.route(a, b)
                if route is not None:
                    inner = " -> ".join(kind_text(k) for k in route.kinds[1:-1])
                    table.add_row(kind_text(a), kind_text(b), inner or "direct", _rate(route.bandwidth))
    return table


def _instances(architecture: Architecture) -> Table:
    table = _table("instances", "units", "group", "count")
    seen: set[int] = set()
    for group in architecture.groups:
        instances = architecture.instances(group)
        if not instances.distributable or group.index in seen:
            continue
        seen.update(member.index for member in instances.members)
        inside = [u.kind for u in architecture.units if group in architecture.enclosing(u)]
        units = ", ".join(kind_text(k) for k in dict.fromkeys(inside) if k is not None)
        table.add_row(
            units or "-",
            kind_text(group.kind) if group.kind is not None else group.label,
            str(instances.count),
        )
    return table


def _patterns(architecture: Architecture) -> Table:
    table = _table("patterns", "checkpoint", "name", "benefit")
    for block in architecture.patterns:
        for op in block.operation.operations:
            if isinstance(op, PatternOp):
                name = "-" if op.sym_name is None else f"@{op.sym_name.value}"
                table.add_row(", ".join(block.checkpoints) or "every", name, str(op.benefit.value))
    return table


def dot(architecture: Architecture) -> str:
    """A Graphviz graph: groups as clusters, memories as boxes, units as ellipses, datapaths as edges."""
    lines = [f'digraph "{architecture.name}" {{', "  rankdir=LR;", "  node [fontname=Helvetica];"]

    def show(indices: Sequence[int], indent: str) -> None:
        for index in indices:
            match architecture.resources[index]:
                case Group(children=children) as group:
                    label = "" if group.kind is None and group.id is None else group.label
                    lines.append(f"{indent}subgraph cluster_{index} {{")
                    lines.append(f'{indent}  label="{_escaped(label)}";')
                    show(children, indent + "  ")
                    lines.append(f"{indent}}}")
                case Memory() as memory:
                    size = f"\\n{_bytes(memory.size)}" if memory.size is not None else ""
                    lines.append(f'{indent}n{index} [shape=box, label="{_escaped(memory.label)}{size}"];')
                case Unit() as unit:
                    style = ", style=bold" if unit.computes else ""
                    lines.append(f'{indent}n{index} [shape=ellipse, label="{_escaped(unit.label)}"{style}];')
                case Datapath():
                    pass
                case switch:
                    lines.append(f'{indent}n{index} [shape=diamond, label="{_escaped(switch.label)}"];')

    show(architecture.roots, "  ")
    for link in architecture.datapaths:
        source, target = architecture.node(link.source).index, architecture.node(link.target).index
        label = f' [label="{_rate(link.bandwidth)} B/cycle"]' if link.bandwidth is not None else ""
        lines.append(f"  n{source} -> n{target}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
