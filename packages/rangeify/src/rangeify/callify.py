"""From tensor expressions to one call with explicit storage (scheduler spec 3).

A root that is not storage yet gets an output buffer, every global buffer becomes a formal parameter, and the
whole becomes a CALL whose body depends on nothing but structure: two equal graphs on different buffers have
equal body keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import attrs

from rangeify import storage
from rangeify.config import Config
from rangeify.errors import BindError, DeviceError, UnsupportedError, require
from rangeify.multi import Sharded, device_counter, localize
from uopgraph import GroupOp, Ops, UOp


@attrs.frozen
class CallResult:
    """``call``: CALL(SINK of effects, actual buffers...). ``buffer_map``: what each stored value is from
    now on. ``fresh``: buffers that take a write because somebody needs the old bytes.
    """

    call: UOp
    buffer_map: Mapping[UOp, UOp]
    variables: Mapping[UOp, int | None]
    fresh: frozenset[UOp] = frozenset()


def is_virtual(node: UOp) -> bool:
    """True for what never needs storage: a value without device or with a weak dtype (scheduler spec 3.1)."""
    return node.device is None or node.dtype.is_weak


def new_place(node: UOp) -> UOp:
    """Fresh storage for the value of `node`, of the same devices and sharding; its shape is the greatest that
    a symbolic one takes."""
    device = node.device
    assert device is not None
    shape = list(node.max_shape)
    axis = None if isinstance(device, str) else node.axis
    if axis is None or isinstance(device, str):
        return storage.new_buffer(tuple(shape), node.dtype, device)
    shape[axis], rest = divmod(shape[axis], len(device))
    if rest:
        raise DeviceError(
            f"axis {axis} of size {node.shape[axis]} is not divisible by {len(device)} devices", device
        )
    buffer = storage.new_buffer(tuple(shape), node.dtype, device)
    return buffer.unshard(axis, device_counter(len(device)))


def _place_of(state: UOp) -> UOp:
    while state.op is Ops.AFTER:
        state = state.src[0]
    return state


def _storage_view(node: UOp) -> UOp | None:
    """A contiguous run of a BUFFER as flat slice, reshaped; None when `node` is not one (scheduler spec
    3.4). Of a sharded buffer, the same run on each device.
    """
    if node.base.op is Ops.UNSHARD and node.base.src[0].op is Ops.BUFFER and node.axis is not None:
        local = localize(node, Config())
        view = _storage_view(local.value) if isinstance(local, Sharded) else None
        return (
            view.unshard(local.axis, local.counter)
            if view is not None and isinstance(local, Sharded)
            else None
        )
    if node.base.op is not Ops.BUFFER:
        return None
    shape = node.shape
    found = node.contiguous_view() if all(isinstance(d, int) for d in shape) else None
    if found is None or found[0].op is not Ops.BUFFER:
        return None
    buffer, offset = found
    size = int(node.numel())
    if size == buffer.numel():
        return buffer.reshape(shape)
    return buffer.reshape(buffer.numel()).shrink([(offset, offset + size)]).reshape(shape)


def needed_writes(writes: Sequence[UOp], roots: Sequence[UOp]) -> frozenset[UOp]:
    """Those of `writes` (AFTERs) whose old bytes something at or below `roots` still needs, besides the write
    itself."""
    if not writes:
        return frozenset()
    top = UOp.make_sink(*roots)
    readers: dict[UOp, list[UOp]] = {}
    for node in top.toposort():
        for s in node.src:
            readers.setdefault(s, []).append(node)
    return frozenset(w for w in writes if _is_read_besides(w.src[0], w, readers, top))


def _is_read_besides(state: UOp, write: UOp, readers: Mapping[UOp, Sequence[UOp]], top: UOp) -> bool:
    """Whether `top` reads `state`, which `write` supersedes, by a way that avoids `write`."""
    seen: set[UOp] = {write}
    stack = [state]
    while stack:
        for reader in readers.get(stack.pop(), ()):
            if reader is top:
                return True
            if reader not in seen:
                seen.add(reader)
                stack.append(reader)
    return False


@attrs.define
class _Storing:
    """The state of one pass over the tensor graph: what each node became, and the effects in order."""

    needed: Set[UOp]
    numbered: dict[UOp, None]
    new: dict[UOp, UOp] = attrs.field(factory=dict)
    stored: dict[UOp, UOp] = attrs.field(factory=dict)
    effects: dict[UOp, None] = attrs.field(factory=dict)
    filled: set[UOp] = attrs.field(factory=set)
    aliases: set[UOp] = attrs.field(factory=set)
    fresh: set[UOp] = attrs.field(factory=set)

    def value(self, node: UOp, now: UOp) -> UOp:
        """A numbered value gets a buffer and a STORE into it."""
        buffer = new_place(node)
        self.stored[node] = storage.shown(buffer, node.shape)
        if 0 in node.shape:
            return buffer
        value = now.src[0] if _is_plain_mark(node) else now
        filled = buffer.after(storage.shown(buffer, value.shape).store(value))
        self.effects[filled] = None
        self.filled.add(filled)
        return storage.shown(filled, value.shape)

    def alias(self, node: UOp, state: UOp) -> UOp:
        """A mark on what is stored already is another name of that storage."""
        self.aliases.add(node)
        if node in self.numbered:
            self.stored[node] = _place_of(state)
        return state

    def write(self, node: UOp, now: UOp) -> UOp:
        """AFTER(state, STORE(view of state, value)): in place when nobody needs the old bytes, else into
        fresh storage, with a copy of the old contents unless all of it is overwritten (design 9, reading
        31)."""
        state, store = now.src[0], now.src[1]
        old = node.src[0]
        owns = storage.is_state(state) and old not in self.aliases and not _is_alias(old, state)
        in_place = owns and node not in self.needed
        if store.op is not Ops.STORE or len(now.src) != 2:
            if store.op is not Ops.CALL or not in_place:
                raise UnsupportedError(f"a state of storage after {store.op.name}")
            buffer = _place_of(state)
        elif in_place:
            buffer = _place_of(state)
        else:
            buffer = new_place(node)
            self.fresh.update(n for n in buffer.toposort() if n.op is Ops.BUFFER)
            target, whole = store.src[0], store.src[0].base is state and _is_whole(store.src[0], state)
            fresh = buffer if whole else buffer.after(storage.shown(buffer, state.shape).store(state))
            seen = {state: storage.shown(fresh, state.shape)}
            now = fresh.after(target.substitute(seen, walk=True).store(store.src[1]))
        self.stored[node] = storage.shown(buffer, node.shape)
        self.effects[now] = None
        return storage.shown(now, state.shape)


def _is_alias(old: UOp, state: UOp) -> bool:
    """A CONTIGUOUS that turned out to be storage already is another name of it: others may read that."""
    return old.op is Ops.CONTIGUOUS and state.op in (Ops.BUFFER, Ops.UNSHARD)


def _is_plain_mark(node: UOp) -> bool:
    return node.op is Ops.CONTIGUOUS and node.arg is None


def _is_whole(target: UOp, state: UOp) -> bool:
    """Whether a view of `state` is all of it, in order."""
    node = target
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node is state


def _numbered(sink: UOp, order: Iterable[UOp], live: frozenset[UOp] | None) -> dict[UOp, None]:
    """The nodes that become lasting storage (scheduler spec 3.1 and 3.2)."""
    chosen: dict[UOp, None] = {}
    for root in sink.src:
        if _needs_storage(root.base):
            chosen[root.base] = None
    for node in order:
        if node.op is Ops.CONTIGUOUS and (live is None or node in live):
            chosen[node] = None
        elif node.op is Ops.AFTER and not storage.is_state(node.src[0]):
            chosen[node.src[0]] = None  # a write into a value first gives that value storage
    return chosen


def lasting_roots(sink: UOp) -> tuple[UOp, ...]:
    """What the roots of `sink` are views of, without constants and storage: all that has to be computed."""
    bases = dict.fromkeys(root.base for root in sink.src)
    return tuple(b for b in bases if b.device is not None and not b.has_buffer_identity())


def _needs_storage(base: UOp) -> bool:
    return base.op is not Ops.AFTER and not is_virtual(base) and not base.has_buffer_identity()


def free_variables(order: Iterable[UOp]) -> dict[UOp, int | None]:
    """The Variables among the nodes of `order` in their free form, and what they are bound to. Raises
    :class:`BindError` for two values of one."""
    found: dict[UOp, int | None] = {}
    for node in order:
        if node.op is not Ops.PARAM or not node.is_variable:
            continue
        free, value = node.unbound(), node.arg.val
        old = found.get(free)
        if value is not None and old is not None and old != value:
            raise BindError(f"bind mismatch on {node.expr}, {old} != {value}")
        found[free] = old if value is None else value
    return found


def transform_to_call(
    sink: UOp, live: frozenset[UOp] | None = None, needed: Set[UOp] | None = None
) -> CallResult:
    """Give storage to every root of `sink` that needs it and abstract over all buffers.

    `live`: CONTIGUOUS values that live Tensors hold and that therefore get lasting storage; None means all.
    `needed`: the writes whose old bytes somebody needs, so that they go to fresh storage; None for those that
    `sink` itself tells (:func:`needed_writes`).
    """
    order = sink.toposort(enter_calls=False)
    if needed is None:
        needed = needed_writes([n for n in order if n.op is Ops.AFTER], sink.src)
    pass_ = _Storing(needed, _numbered(sink, order, live))
    for node in order:
        if node.op is Ops.PARAM and node.is_variable:
            pass_.new[node] = node.unbound()  # bodies do not depend on values
            continue
        now = node.rebuild(tuple([pass_.new.get(s, s) for s in node.src]))
        if node.op is Ops.CONTIGUOUS and (view := _storage_view(now.src[0])) is not None:
            pass_.stored[node] = now = view
        elif _is_plain_mark(node) and now.src[0] in pass_.filled:
            now = pass_.alias(node, now.src[0])
        elif node.op is Ops.AFTER:
            now = pass_.write(node, now)
        elif node in pass_.numbered:
            now = pass_.value(node, now)
        pass_.new[node] = now
    call = _parametrise(UOp.make_sink(*pass_.effects))
    return CallResult(call, pass_.stored, free_variables(order), frozenset(pass_.fresh))


def _parametrise(sink: UOp) -> UOp:
    """CALL(SINK over PARAMs, the buffers they stand for in order of first appearance) (scheduler spec
    3.5).
    """
    params: dict[UOp, UOp] = {}
    body = _abstract(sink, params)
    return body.call(*params, precompile=True)


def _abstract(body: UOp, params: dict[UOp, UOp]) -> UOp:
    """`body` over PARAMs for its BUFFERs (added to `params`), with call-local storage numbered -1, -2, ...
    in the order of first visits; each nested body is a scope of its own."""
    new: dict[UOp, UOp] = {}
    count = 0
    for node in body.toposort(enter_calls=False):
        if node.op is Ops.BUFFER:
            params[node] = new[node] = node.param_like(len(params))
        elif node.op is Ops.ALLOC:
            count += 1
            new[node] = node.replace(arg=attrs.evolve(node.arg, slot=-count))
        elif node.op is Ops.CALL:
            new[node] = node.replace(src=(_abstract(node.src[0], {}), *(new[s] for s in node.src[1:])))
        else:
            new[node] = node.rebuild(tuple([new[s] for s in node.src]))
    return new[body]


def check_call(call: UOp) -> None:
    """The invariants after callify (scheduler spec 19): no BUFFER in the body, dense slots, no tags."""
    slots = set()
    for node in call.src[0].toposort(enter_calls=False):
        require(node.op is not Ops.BUFFER, "callify", "a BUFFER is left in the call's body")
        require(node.tag is None, "callify", "a tag is left in the call's body")
        if node.op is Ops.PARAM and not node.is_variable:
            slots.add(node.arg.slot)
    require(slots == set(range(len(call.src) - 1)), "callify", "the parameters of the body are not dense")
    require(all(a.op in GroupOp.Defines for a in call.src[1:]), "callify", "an argument is not storage")
