"""The kinds of statements. Each function writes lines to a growing program, or none where nothing fits."""

from __future__ import annotations

from tensor_programs.growing import HOME, LARGEST, Growing, Name
from tensor_programs.program import Shape, Symbol


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of two operands, None where they do not meet."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    out = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            return None
        out.append(max(x, y) if 0 not in (x, y) else 0)
    return tuple(out)


def _two(g: Growing) -> tuple[str, str, Shape] | None:
    x = g.name()
    assert x is not None
    first = g.names[x]

    def meets(n: Name) -> bool:
        shape = broadcast(first.shape, n.shape)
        size = 1
        for d in shape or ():
            size *= d
        return n.dtype == first.dtype and shape is not None and size <= LARGEST

    y = g.name(meets, beside=x)
    if y is None:
        return None
    shape = broadcast(first.shape, g.names[y].shape)
    assert shape is not None
    return x, y, shape


def binary(g: Growing) -> None:
    found = _two(g)
    if found is None:
        return
    x, y, shape = found
    forms = ["{x} + {y}", "{x} - {y}", "{x} * {y}", "{x}.maximum({y})", "({x} < {y}).where({x}, {y} * 2)"]
    g.read(x, y)
    g.add(g.pick(forms).format(x=x, y=y), shape, g.names[x].dtype)


def unary(g: Growing) -> None:
    x = g.name()
    assert x is not None
    facts = g.names[x]
    forms = ["-{x}", "{x}.relu()", "3 - {x}", "{x} * 2 + 1", "abs({x})", "({x} < 1).where({x}, -{x})"]
    forms += ["{x} // 3", "{x} % 5"] if facts.dtype == "int32" else ["{x} * 0.5", "abs({x}).sqrt()"]
    g.read(x)
    g.add(g.pick(forms).format(x=x), facts.shape, facts.dtype)


def cast(g: Growing) -> None:
    x = g.name()
    assert x is not None
    facts = g.names[x]
    to = "float32" if facts.dtype == "int32" else "int32"
    text = x if facts.dtype == "int32" else _small(x, facts)
    g.read(x)
    g.add(f"{text}.astype({to!r})", facts.shape, to)


def movement(g: Growing) -> None:
    x = g.name(lambda n: len(n.shape) > 0)
    if x is None:
        return
    facts = g.names[x]
    shape, rank = facts.shape, len(facts.shape)
    axis = g.choose(rank)
    kind = g.choose(6)
    g.read(x)
    if kind == 0:
        order = sorted(range(rank), key=lambda i: (i - axis) % rank)
        g.add(f"{x}.permute({', '.join(map(str, order))})", tuple(shape[i] for i in order), facts.dtype)
    elif kind == 1:
        g.add(f"{x}.reshape({facts.size})", (facts.size,), facts.dtype)
    elif kind == 2 and facts.size and facts.size % 2 == 0:
        g.add(f"{x}.reshape(2, {facts.size // 2})", (2, facts.size // 2), facts.dtype)
    elif kind == 3:
        g.add(f"{x}.flip({axis})", shape, facts.dtype)
    elif kind == 4 and facts.size <= LARGEST // 4:
        pads = [(g.choose(3), g.choose(3)) if i == axis else (0, 0) for i in range(rank)]
        grown = tuple(a + n + b for n, (a, b) in zip(shape, pads, strict=True))
        g.add(f"{x}.pad({pads})", grown, facts.dtype)
    elif facts.size * 3 <= LARGEST and rank < 4:
        g.add(f"{x}.reshape{(1, *shape)}.expand{(3, *shape)}", (3, *shape), facts.dtype)
    else:
        g.add(f"{x}.T", shape[::-1], facts.dtype)


def key_of(g: Growing, shape: Shape) -> tuple[str, Shape]:
    """A basic index that names at least one element, and the shape of what it names."""
    texts, out = [], []
    for n in shape[: 1 + g.choose(2)]:
        kind = g.choose(5)
        if kind == 0:
            at = g.choose(n)
            texts.append(str(at if g.chance(70) else at - n))
            continue
        first = g.choose(n)
        last = first + 1 + g.choose(n - first)
        if kind == 1 and g.chance(50):
            texts.append("::-1")
            out.append(n)
        elif kind == 2 and g.chance(50):
            texts.append(f"{first}:{last}:2")
            out.append(-(-(last - first) // 2))
        else:
            texts.append(f"{first}:{last}")
            out.append(last - first)
    return ", ".join(texts), (*out, *shape[len(texts) :])


def _indexable(n: Name) -> bool:
    return len(n.shape) > 0 and n.size > 0


def _writable(n: Name) -> bool:
    return _indexable(n)


def view(g: Growing, of: str | None = None) -> str | None:
    """A slice."""
    x = g.name(_indexable) if of is None else of
    if x is None:
        return None
    facts = g.names[x]
    key, shape = key_of(g, facts.shape)
    g.read(x)
    return g.add(f"{x}[{key}]", shape, facts.dtype, facts.storage, facts.storage)


def two_views(g: Growing) -> None:
    """Two slices of one storage, used together or one of them written to."""
    x = g.name(lambda n: _indexable(n) and n.storage is not None)
    if x is None:
        return
    a, b = view(g, x), view(g, x)
    assert a is not None
    assert b is not None
    if g.chance(50):
        g.write(a, f"{a} += 1")
    for v in (b, a):
        g.read(v)
        g.add(f"{v} * 2", g.names[v].shape, g.names[v].dtype)


def _small(x: str, facts: Name) -> str:
    """Small integers, whose sums are exact in any order."""
    return x if facts.dtype == "int32" else f"{x}.maximum(-6).minimum(6).round()"


def reduction(g: Growing) -> None:
    x = g.name(_indexable)
    if x is None:
        return
    facts = g.names[x]
    axis = g.choose(len(facts.shape))
    op = g.pick(("sum", "max", "sum", "min"))
    source = _small(x, facts) if op == "sum" else x
    g.read(x)
    if g.chance(50):
        kept = tuple(1 if i == axis else n for i, n in enumerate(facts.shape))
        total = g.add(f"{source}.{op}({axis}, keepdims=True)", kept, facts.dtype)
        g.read(x, total)
        g.add(f"{x} - {total}", facts.shape, facts.dtype)
    else:
        g.add(f"{source}.{op}({axis})", tuple(n for i, n in enumerate(facts.shape) if i != axis), facts.dtype)


def product(g: Growing) -> None:
    x = g.name(lambda n: len(n.shape) == 2 and n.size > 0)
    if x is None:
        return
    a = g.names[x]
    y = g.name(
        lambda n: len(n.shape) == 2 and n.size > 0 and n.dtype == a.dtype and n.shape[0] == a.shape[1],
        beside=x,
    )
    text = f"{y}" if y is not None else f"{x}.T"
    columns = g.names[y].shape[1] if y is not None else a.shape[0]
    other = g.names[y] if y is not None else a
    g.read(x, *([y] if y is not None else []))
    right = f"({_small(text, other)})" if other.dtype != "int32" else text
    g.add(f"{_small(x, a)} @ {right}", (a.shape[0], columns), a.dtype)


def stored(g: Growing) -> None:
    x = g.name()
    assert x is not None
    facts = g.names[x]
    g.read(x)
    g.add(f"({x} + 1).contiguous()", facts.shape, facts.dtype)


def chain(g: Growing) -> None:
    """Layers that each store their value: temporaries that can share memory."""
    x = g.name(lambda n: len(n.shape) == 2 and n.size > 0)
    if x is None:
        return
    for _ in range(3 + g.choose(3)):
        facts = g.names[x]
        g.read(x)
        kind = g.choose(3)
        if kind == 0:
            new = g.add(f"({x}.T * 2 - 1).contiguous()", facts.shape[::-1], facts.dtype)
        elif kind == 1:
            new = g.add(
                f"({x} - {x}.max(1, keepdims=True)).contiguous() + {x}.T.max(0).reshape{(facts.shape[0], 1)}",
                facts.shape,
                facts.dtype,
            )
        else:
            new = g.add(f"({x}.flip(0) + {x}.relu()).contiguous()", facts.shape, facts.dtype)
        if g.names[x].storage is None:
            g.drop(x)
        x = new
    g.wanted.append(x)


def write(g: Growing) -> None:
    """Set-item: a constant, a broadcast value, a function of what is there, or what stands elsewhere."""
    x = g.name(_writable)
    if x is None:
        return
    facts = g.names[x]
    key, shape = key_of(g, facts.shape)
    kind = g.choose(5)
    if kind == 0:
        g.write(x, f"{x}[{key}] = {g.choose(9) - 4}")
    elif kind == 1:
        y = g.name(
            lambda n: (
                n.dtype == facts.dtype and len(n.shape) <= len(shape) and broadcast(n.shape, shape) == shape
            ),
            beside=x,
        )
        if y is not None:
            g.read(y)
            g.write(x, f"{x}[{key}] = {y}")
    elif kind == 2:
        g.read(x)
        g.write(x, f"{x}[{key}] = {x}[{key}] * 2 - 1")
    elif kind == 3 and facts.shape[0] > 1:
        # what stands one line further on, in either direction
        n = facts.shape[0]
        to, from_ = (f"0:{n - 1}", f"1:{n}") if g.chance(50) else (f"1:{n}", f"0:{n - 1}")
        g.read(x)
        g.write(x, f"{x}[{to}] = {x}[{from_}] {g.pick(('', '+ 1'))}".rstrip())
    elif len(facts.shape) >= 2 and facts.shape[0] == facts.shape[1]:
        g.read(x)
        g.write(x, f"{x}[:] = {x}.permute({', '.join(map(str, (1, 0, *range(2, len(facts.shape)))))}) + 1")
    else:
        g.write(x, f"{x}[{key}] = 7")


def in_place(g: Growing) -> None:
    x = g.name()
    if x is None:
        return
    facts = g.names[x]
    y = g.name(lambda n: n.dtype == facts.dtype and broadcast(n.shape, facts.shape) == facts.shape, beside=x)
    assert y is not None
    form = g.pick(("{x} += {y}", "{x} *= 2", "{x} += 1", "{x}.assign({y} + 1)"))
    g.read(x, *([y] if "{y}" in form else []))
    g.write(x, form.format(x=x, y=y), part=False)


def exchange(g: Growing) -> None:
    """Two names are updated from the old values of both."""
    x = g.name(_writable)
    if x is None:
        return
    a = g.names[x]
    y = g.name(lambda n: n is not a and n.shape == a.shape and n.dtype == a.dtype, beside=x)
    if y is None:
        return
    g.read(x, y)
    t = g.add(f"{x} + {y}", a.shape, a.dtype)
    g.read(x, y)
    u = g.add(f"{x} - {y} * 2", a.shape, a.dtype)
    g.read(t)
    g.write(x, f"{x}.assign({t})", part=False)
    g.read(u)
    g.write(y, f"{y}.assign({u})", part=False)


def gather(g: Growing) -> None:
    """Reads and writes of lines by integer arrays, writes by a mask."""
    x = g.name(lambda n: _writable(n) and n.size <= 400)
    if x is None:
        return
    facts = g.names[x]
    places = [g.choose(facts.shape[0]) for _ in range(1 + g.choose(4))]
    key = f"index({', '.join(map(str, places))})"
    kind = g.choose(3)
    g.read(x)
    if kind == 0:
        g.add(f"{x}[{key}]", (len(places), *facts.shape[1:]), facts.dtype)
    elif kind == 1:
        taken = g.add(f"{x}[{key}] + 1", (len(places), *facts.shape[1:]), facts.dtype)
        g.read(taken)
        g.write(x, f"{x}[{key}] = {taken}")
    else:
        g.write(x, f"{x}[{x} < 1] = 4")


def symbolic(g: Growing) -> None:
    """A line, a sum of the first lines, or a write of a line, at ``p``."""
    x = g.name(
        lambda n: _writable(n) and n.shape[0] > 1 and (g.symbol is None or n.shape[0] == g.symbol.high + 1)
    )
    if x is None:
        return
    facts = g.names[x]
    n, rest = facts.shape[0], facts.shape[1:]
    if g.symbol is None:
        g.symbol = Symbol(n - 1, g.choose(n), g.choose(n))
    kind = g.choose(6)
    g.read(x)
    if kind == 0:
        g.add(f"{x}[p] * 2", rest, facts.dtype)
    elif kind == 1:
        text = f"{x}[: p + 1]"
        g.add(f"{_small(text, facts)}.sum(0)", rest, facts.dtype)
    elif kind == 2:
        g.add(f"{x}[: p + 1].max(0) + {x}[p]", rest, facts.dtype)
    elif kind == 3:
        g.add(f"({x}[: p + 1] * 2).contiguous().max(0) + {x}[p]", rest, facts.dtype)
    elif kind == 4:
        there = "cpu:1" if facts.device == HOME else HOME
        g.add(f"({x}[: p + 1] - 1).to({there!r}).min(0)", rest, facts.dtype, device=there)
    else:
        g.write(x, f"{x}[p : p + 1] = {g.choose(9)}")
        g.read(x)
        g.add(f"{x} + 0", facts.shape, facts.dtype)


def forget(g: Growing) -> None:
    """Let go of a name, so that nobody needs its bytes."""
    if len(g.names) > 3:
        x = g.name()
        assert x is not None
        g.drop(x)


def _bits(x: str) -> str:
    """The bits of floats as int32, without those of -0.0: the maximum of two zeros has no sign."""
    return f"({x} + 0).bitcast('int32')"


def bit_cast(g: Growing) -> None:
    """The bits of a value as another dtype, of the same size or not, and a write of bits."""
    x = g.name(_indexable)
    if x is None:
        return
    facts = g.names[x]
    shape, whole = facts.shape, facts.dtype == "int32"
    lead, last = shape[:-1], shape[-1]
    kind = g.choose(4)
    g.read(x)
    if kind == 0 and facts.size * 4 <= LARGEST:
        g.add(f"({x} + 0).bitcast('uint8').astype('int32')", (*lead, last * 4), "int32")
    elif kind == 1 and last % 2 == 0:
        g.add(f"({x} + 0).bitcast('int64').astype('int32')", (*lead, last // 2), "int32")
    elif kind == 2 and not whole:
        key, _ = key_of(g, shape)
        g.write(x, f"{x}[{key}] = ({_bits(f'{x}[{key}]')} * 2 // 2).bitcast('float32')")
    elif whole:
        g.add(f"(abs({x}) % 1000).bitcast('float32')", shape, "float32")
    else:
        g.add(_bits(x), shape, "int32")


def elsewhere(g: Growing) -> None:
    """A value moves to another device or comes back, is computed on two devices in parts, or is written into a value of
    another device."""
    x = g.name(_indexable)
    if x is None:
        return
    facts = g.names[x]
    there = "cpu:1" if facts.device == HOME else HOME
    axis = g.choose(len(facts.shape))
    kind = g.choose(4)
    g.read(x)
    if kind == 0 and facts.shape[axis] % 2 == 0:
        on_two = f"{x}.shard(('cpu:0', 'cpu:1'), {axis})"
        g.add(f"({on_two} * 2 + 1).to({there!r})", facts.shape, facts.dtype, device=there)
    elif kind == 1 and facts.shape[axis] % 2 == 0:
        on_two = f"{_small(x, facts)}.shard(('cpu:0', 'cpu:1'), {axis})"
        along = g.choose(len(facts.shape))
        rest = tuple(n for i, n in enumerate(facts.shape) if i != along)
        g.add(f"{on_two}.sum({along}).to({there!r})", rest, facts.dtype, device=there)
    elif kind == 2 and facts.shape[0] > 1:
        y = g.name(lambda n: n.device == there and n.shape[1:] == facts.shape[1:] and n.dtype == facts.dtype)
        if y is not None and g.names[y].shape and g.names[y].shape[0] > 0:
            g.write(y, f"{y}[-1:] = {x}[1:2].to({there!r}) + 1")
    else:
        g.add(f"{x}.to({there!r})", facts.shape, facts.dtype, device=there)
