"""Rules of the derived facts: shape, device, sharding axis, address space, ranges, depth."""

from __future__ import annotations

from typing import Any, cast

from uopgraph.args import AddrSpace, AxisType, Device
from uopgraph.builders import broadcast_shape
from uopgraph.dtype import dtypes
from uopgraph.errors import DeviceError, ShapeError
from uopgraph.movement_sugar import product, same_size, shown, shown_size, sint
from uopgraph.node import UOp, derived, resolve
from uopgraph.ops import GroupOp, Ops

_SHAPELESS = frozenset({Ops.SINK, Ops.GROUP, Ops.LINEAR, Ops.TUPLE, Ops.CUSTOM_FUNCTION, Ops.REWRITE_ERROR})
_SCALAR = frozenset({Ops.CONST, Ops.RANGE, Ops.GETADDR})
_LIKE_FIRST = (
    GroupOp.Unary
    | {Ops.AFTER, Ops.END, Ops.LOAD, Ops.STORE, Ops.COPY, Ops.ALLREDUCE, Ops.MSTACK, Ops.MSELECT, Ops.DETACH}
    | {Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.CAST}
)
#: Operations with a rule of their own for their device.
_OWN_DEVICE = GroupOp.Defines | {
    *(Ops.STAGE, Ops.COPY, Ops.ALLREDUCE, Ops.AFTER, Ops.MSELECT, Ops.MSTACK, Ops.GETTUPLE)
}
_CLOSING = frozenset({Ops.STAGE, Ops.REDUCE, Ops.END, Ops.CALL, Ops.UNSHARD})
#: Names of their own: reading a member of an Enum is slow.
_CONST, _RANGE, _AFTER, _STACK = Ops.CONST, Ops.RANGE, Ops.AFTER, Ops.STACK
_RESHAPE, _PERMUTE, _REDUCE = Ops.RESHAPE, Ops.PERMUTE, Ops.REDUCE


def as_shape(node: UOp) -> tuple[sint, ...]:
    """A shape argument (one value, or a STACK of them) as Python ints and simplified expressions."""
    return tuple([_dim(n) for n in (node.src if node.op is _STACK else (node,))])


def _dim(node: UOp) -> sint:
    if node.op is _CONST and type(node.arg) is int:
        return node.arg
    if node.op is not _CONST:
        node = node.simplify()
    return node.arg if node.op is _CONST and isinstance(node.arg, int) else node


def simplified(dim: sint) -> sint:
    """A dimension as a Python int where it is one, else simplified."""
    return dim if isinstance(dim, int) else _dim(dim)


def movement_arg(node: UOp) -> Any:
    """The decoded argument of a movement operation."""
    if node.op is _PERMUTE:
        return node.arg
    match node.op:
        case Ops.RESHAPE | Ops.EXPAND:
            return as_shape(node.src[1])
        case Ops.PAD | Ops.SHRINK:
            return tuple(zip(as_shape(node.src[1]), as_shape(node.src[2]), strict=True))
        case Ops.PERMUTE | Ops.FLIP:
            return node.arg
        case _:
            raise ShapeError(node.op.name, "is not a movement operation")


def _never(condition: UOp | bool) -> bool:
    """True when a check is provably violated."""
    return not resolve(condition, True)


@derived("shape")
def shape_of(node: UOp) -> tuple[sint, ...] | None:
    """The shape, None for effects and structure.

    Element-wise operations broadcast from the right, a dimension of 1 meets anything. INDEX has the shapes of
    its indices, then the dimensions that it does not index; REDUCE drops its leading axes; STAGE puts the
    extents of its ranges in front; UNSHARD multiplies each sharded axis by its number of devices; BITCAST
    scales the last dimension. Raises :class:`ShapeError` where a movement argument is provably illegal:
    symbolic sizes that may fit are accepted.
    """
    op = node.op
    if op in _SCALAR:
        return ()
    if op in GroupOp.Broadcastable:
        shapes = [s.shape for s in node.src]
        if len(shapes) == 2 and shapes[0] == shapes[1]:
            return shapes[0]
        return broadcast_shape(op.name, *shapes)
    if op in _LIKE_FIRST:
        return node.src[0].shape_or_none
    if op in GroupOp.Movement:
        return _movement_shape(node)
    if op in _SHAPELESS:
        return None
    if op is _STACK:
        return (len(node.src), *node.src[0].shape) if node.src else ()
    if op is _REDUCE:
        shape, n = node.src[0].shape, node.arg[1]
        if n > len(shape):
            raise ShapeError("REDUCE", f"{n} leading axes of shape {shape}")
        return shape[n:]
    match op:
        case Ops.BUFFER | Ops.ALLOC | Ops.PARAM:
            return None if node.src[0].op is Ops.NOOP else as_shape(node.src[0])
        case Ops.INDEX:
            base, idx = node.src[0].shape, node.src[1:]
            if len(idx) > len(base):
                raise ShapeError("INDEX", f"{len(idx)} indices for shape {base}")
            picked = tuple(d for i in idx for d in i.shape)
            return picked + base[len(idx) :]
        case Ops.STAGE:
            extents = tuple(1 if r.op is Ops.CONST else _dim(r.src[0]) for r in node.src[1:])
            inner = node.src[0].shape_or_none
            return extents + (() if inner is None else inner)
        case Ops.UNSHARD:
            dims = list(node.src[0].shape)
            for axis, r in zip(node.arg, node.src[1:], strict=True):
                dims[axis] = simplified(dims[axis] * _dim(r.src[0]))
            return tuple(dims)
        case Ops.BITCAST:
            return _bitcast_shape(node)
        case Ops.GETTUPLE:
            return _element_shape(node)
        case Ops.NOOP:
            return node.src[0].shape_or_none if node.src else None
        case Ops.CALL:
            return None if node.dtype is dtypes.void else ()
        case Ops.CUSTOM | Ops.CUSTOMI:
            return None if node.dtype is dtypes.void else node.src[0].shape_or_none if node.src else ()
        case _:
            return None


def _bitcast_shape(node: UOp) -> tuple[sint, ...]:
    shape, old, new = node.src[0].shape, node.src[0].dtype.itemsize, node.dtype.itemsize
    if old == new:
        return shape
    if not shape:
        raise ShapeError("BITCAST", f"a scalar of {old} bytes has no {new}-byte form")
    last = shape[-1]
    total = last * old
    if not isinstance(total, int):
        quotient = total.divides(new)
        if quotient is None:
            raise ShapeError("BITCAST", f"{last} elements of {old} bytes do not divide into {new} bytes")
        return (*shape[:-1], simplified(quotient))
    if total % new:
        raise ShapeError("BITCAST", f"{last} elements of {old} bytes do not divide into {new} bytes")
    return (*shape[:-1], total // new)


def _element(values: UOp, index: int) -> UOp:
    return values.src[index]


def _element_shape(node: UOp) -> tuple[sint, ...] | None:
    source = node.src[0]
    if source.op is not Ops.CALL:
        return _element(source, node.arg).shape_or_none
    shape = _element(source.src[0], node.arg).shape_or_none
    if shape is None or all(isinstance(d, int) for d in shape):
        return shape
    out: list[sint] = []
    for d in shape:
        if isinstance(d, UOp):
            params = {
                p: source.src[1 + p.arg.slot] for p in d.toposort() if p.op is Ops.PARAM and p.arg.slot >= 0
            }
            d = simplified(d.substitute(params, walk=True))
        out.append(d)
    return tuple(out)


def _has_negative(dims: tuple[sint, ...]) -> bool:
    """Whether a size is provably below 0."""
    for d in dims:  # noqa: SIM110  (hot)
        if (not isinstance(d, int) or d < 0) and _never(UOp.const(d) > -1):
            return True
    return False


def _movement_shape(node: UOp) -> tuple[sint, ...]:
    shape, op = node.src[0].shape, node.op
    arg = movement_arg(node)
    if op is _RESHAPE:
        if _has_negative(arg):
            raise ShapeError("RESHAPE", f"negative size in {shown(arg)}")
        old, new = simplified(product(shape)), simplified(product(arg))
        if not same_size(old, new) and _never(UOp.const(old).eq(new)):
            raise ShapeError("RESHAPE", f"{shown(shape)} has {old} elements, {shown(arg)} has {new}")
        return tuple(arg)
    if op is Ops.EXPAND:
        if _has_negative(arg):
            raise ShapeError("EXPAND", f"negative size in {shown(arg)}")
        return (*arg, *shape)
    if len(arg) != len(shape):
        raise ShapeError(op.name, f"{len(arg)} entries for {len(shape)} dimensions")
    if op is _PERMUTE:
        if sorted(arg) != list(range(len(shape))):
            raise ShapeError("PERMUTE", f"{arg} is no permutation of {len(shape)} axes")
        return tuple([shape[i] for i in arg])
    if op is Ops.FLIP:
        if not all(isinstance(f, bool) for f in arg):
            raise ShapeError("FLIP", f"{arg} must be bools")
        return shape
    for (offset, size), s in zip(arg, shape, strict=True):
        inner, outer = (s, size) if op is Ops.PAD else (size, s)
        if isinstance(offset, int) and isinstance(inner, int) and isinstance(outer, int):
            legal = offset >= 0 and inner >= 0 and offset + inner <= outer
        else:
            o, i, w = (UOp.const(x) for x in (offset, inner, outer))
            legal = not (_never(o > -1) or _never(i > -1) or _never(o + i < w + 1))
        if not legal:
            raise ShapeError(
                op.name,
                f"offset {shown_size(offset)}, size {shown_size(size)} on a dimension of {shown_size(s)}",
            )
    return tuple(size for _, size in arg)


@derived("device")
def device_of(node: UOp) -> Device | None:
    """The device: that of storage and copies from their argument, of MSELECT the i-th of several, else that
    of the first source that has one; None for constants and what is made of them only."""
    if node.op not in _OWN_DEVICE:
        return _first_device(node)
    match node.op:
        case Ops.PARAM | Ops.BUFFER | Ops.ALLOC:
            return cast(Device, node.arg.device)
        case Ops.STAGE:
            return node.arg.device if node.arg is not None else node.src[0].device
        case Ops.COPY:
            return node.arg  # type: ignore[no-any-return]
        case Ops.ALLREDUCE:
            return node.arg[1]  # type: ignore[no-any-return]
        case Ops.AFTER:
            return node.src[0].device
        case Ops.MSELECT:
            devices = node.src[0].device
            if not isinstance(devices, tuple):
                raise DeviceError(f"MSELECT of a value on {devices}")
            return str(devices[node.arg])
        case Ops.MSTACK:
            return tuple(_one_device(s) for s in node.src)
        case Ops.GETTUPLE if node.src[0].op is Ops.TUPLE:
            return _element(node.src[0], node.arg).device
        case Ops.GETTUPLE if node.src[0].op is Ops.CALL:
            return _element(node.src[0].src[0], node.arg).device
        case _:
            return _first_device(node)


def _first_device(node: UOp) -> Device | None:
    for s in node.src:
        device: Device | None = s._cache["device"]
        if device is not None:
            return device
    return None


def _one_device(node: UOp) -> str:
    device = node.device
    if not isinstance(device, str):
        raise DeviceError(f"MSTACK of a value on {device}")
    return device


@derived("axis")
def axis_of(node: UOp) -> int | None:
    """The axis along which a value is sharded over its devices, None when it is whole on each.

    It follows movement operations; a reshape must keep every shard's items together, else
    :class:`DeviceError` "moved items between shards".
    """
    op = node.op
    if op is Ops.UNSHARD:
        return int(node.arg[-1])
    if op is Ops.COPY:
        return None
    if op in GroupOp.Defines:
        return node.arg.axis  # type: ignore[no-any-return]
    if not node.src:
        return None
    if op in GroupOp.ALU or op is Ops.STACK:
        found = None
        for s in node.src:
            if s.axis is not None:
                found = s.axis + (len(node.shape) - len(s.shape))
        return found
    axis = node.src[0].axis
    if axis is None:
        return None
    match op:
        case Ops.SHRINK:
            offset, size = movement_arg(node)[axis]
            return axis if same_size(offset, 0) and same_size(size, node.src[0].shape[axis]) else None
        case Ops.REDUCE:
            return axis - node.arg[1] if axis >= node.arg[1] else None
        case Ops.RESHAPE:
            return _reshaped_axis(node, axis)
        case Ops.PERMUTE:
            return int(node.arg.index(axis))
        case Ops.EXPAND:
            return axis + len(as_shape(node.src[1]))
        case _:
            return axis


def _reshaped_axis(node: UOp, axis: int) -> int:
    devices = node.src[0].device
    count = len(devices) if isinstance(devices, tuple) else 1
    before = product(node.src[0].shape[:axis])
    for i in reversed(range(len(node.shape))):
        d = node.shape[i]
        if same_size(product(node.shape[:i]), before) and isinstance(d, int) and d % count == 0:
            return i
    raise DeviceError("moved items between shards")


_SPACE_OF_FIRST = GroupOp.Movement | {
    *(Ops.INDEX, Ops.CAST, Ops.BITCAST, Ops.AFTER, Ops.REDUCE, Ops.STORE, Ops.MSTACK, Ops.MSELECT),
    *(Ops.END, Ops.UNSHARD),
}


@derived("addrspace")
def addrspace_of(node: UOp) -> AddrSpace | None:
    """Where the value can be addressed: that of storage from its argument and through views, ALU for ranges
    and loads, the common one of element-wise operands, else None."""
    op = node.op
    if op in GroupOp.Defines:
        return node.arg.addrspace  # type: ignore[no-any-return]
    if op in (Ops.RANGE, Ops.LOAD):
        return AddrSpace.ALU
    if op in _SPACE_OF_FIRST:
        return node.src[0].addrspace
    if op in GroupOp.Elementwise or op in (Ops.STACK, Ops.GROUP):
        found = {s.addrspace for s in node.src if s.addrspace is not None}
        return found.pop() if len(found) == 1 else None
    return None


def ended_ranges(node: UOp) -> tuple[UOp, ...]:
    """The nodes whose ranges this one closes: all but the first source of STAGE, REDUCE, END, CALL and
    UNSHARD, and what the dependencies of an AFTER close."""
    if node.op in _CLOSING:
        return node.src[1:]
    if node.op is _AFTER:
        return node._derive("ended")  # type: ignore[no-any-return]
    return ()


@derived("ended")
def _ended(node: UOp) -> tuple[UOp, ...]:
    """What the dependencies of an AFTER close; kept apart so that chains of AFTER do not recurse."""
    if node.op is not Ops.AFTER:
        return ()
    return tuple(dict.fromkeys(e for dep in node.src[1:] for e in ended_ranges(dep)))


@derived("ranges")
def ranges_of(node: UOp) -> dict[UOp, None]:
    """Open ranges of the sources minus what this node closes; a RANGE's own self is added on access."""
    found: dict[UOp, None] | None = None
    shared = True
    for s in node.src:
        r = s.ranges
        if not r or r is found:
            continue
        if found is None:
            found = r
        elif any(x not in found for x in r):
            found = {**found, **r}
            shared = False
    if found is None:
        return _EMPTY
    ended = ended_ranges(node)
    if not ended:
        return found
    closed: set[UOp] = set()
    for e in ended:
        closed.update((e,) if e.op is _RANGE else e.ranges)
    if node.op is Ops.CALL:
        wrong = [r for r in node.src[0].ranges if r.arg[-1] is not AxisType.DEVICE]
        if wrong:
            raise ShapeError("CALL", f"the body leaves ranges open: {[r.arg for r in wrong]}")
    left = {r: None for r in found if r not in closed}
    return found if shared and len(left) == len(found) else left


_EMPTY: dict[UOp, None] = {}


@derived("depth")
def depth_of(node: UOp) -> int:
    """Longest path to a leaf, in edges."""
    return 1 + max((s._cache["depth"] for s in node.src), default=-1)
