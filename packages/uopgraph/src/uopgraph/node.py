"""The node: five identity fields, interning, and a cache of derived facts.

A :class:`UOp` is built by calling the class; two calls with equal fields return the same object, so
structural equality is ``is``. Derived facts (shape, bounds, ranges ...) are rules that other modules register
here with :func:`derived`; they are filled bottom-up with an explicit stack, never by recursion.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast, final

import attrs

from uopgraph.args import AddrSpace, Device
from uopgraph.builders import Builders
from uopgraph.dtype import ConstFloat, ConstValue, DType, Invalid, as_const, dtypes
from uopgraph.dtype_rules import LIMITS, check_sources, derive_dtype
from uopgraph.errors import BoundError, SpecError, UnsupportedError
from uopgraph.movement_sugar import sint
from uopgraph.ops import GroupOp, Ops

if TYPE_CHECKING:
    from uopgraph.pattern import PatternMatcher

#: Names of their own: to read a member of an Enum costs more than the rest of a small function.
_CALL: Final = Ops.CALL
_CONST: Final = Ops.CONST
_RANGE: Final = Ops.RANGE

_Key: TypeAlias = "tuple[Ops, DType, tuple[UOp, ...], Any, Any]"
_R = TypeVar("_R")


class _Ref(weakref.ref["UOp"]):
    """A weak reference that knows its key, so that the table entry goes when the node goes."""

    __slots__ = ("key",)
    key: _Key


#: The intern table: the only strong references it holds are those of the keys (sources of live nodes).
_table: Final[dict[_Key, _Ref]] = {}
_lock: Final = threading.RLock()

_check_level: ContextVar[int] = ContextVar(
    "uopgraph_check", default=int(os.environ.get("UOPGRAPH_CHECK", "1"))
)
#: Checks of new nodes (level >= 2); ``spec`` appends its own.
_checkers: Final[list[Callable[[UOp, int], None]]] = []


def _forget(ref: Any, table: Any = _table, lock: Any = _lock, ending: Any = sys.is_finalizing) -> None:
    # defaults, because nodes may outlive the names of this module when the interpreter ends
    if ending():  # what keys need to be compared may be gone
        return
    key = ref.key
    with lock:  # another thread may put a new node in this place between the test and the deletion
        if table.get(key) is ref:
            del table[key]


def check_level() -> int:
    """The level of construction checks in force.

    0 and 1: none (stages check their graphs at their borders), 2: every new node against the full
    specification and the derived dtype, 3: its shape too, 4: also that its argument survives the text form.
    """
    return _check_level.get()


@contextmanager
def checking(level: int) -> Iterator[None]:
    """Run a block at another check level. The process default is ``UOPGRAPH_CHECK`` (1)."""
    token = _check_level.set(level)
    try:
        yield
    finally:
        _check_level.reset(token)


def live_nodes() -> int:
    """How many nodes exist."""
    return len(_table)


_rules: Final[dict[str, Callable[[UOp], Any]]] = {}


def derived(name: str) -> Callable[[Callable[[UOp], _R]], Callable[[UOp], _R]]:
    """Register the rule of a derived fact. The rule may read the same fact of the sources: they are filled
    first.

    A rule must never return something that holds the node itself: such a node could not be freed by counting.
    """

    def register(rule: Callable[[UOp], _R]) -> Callable[[UOp], _R]:
        _rules[name] = rule
        return rule

    return register


def _fill(root: UOp, name: str) -> Any:
    rule = _rules[name]
    stack: list[tuple[UOp, Iterator[UOp]]] = []
    node, sources = root, iter(root.src)
    while True:
        for s in sources:
            if name not in s._cache:
                stack.append((node, sources))
                node, sources = s, iter(s.src)
                break
        else:
            found = node._cache[name] = rule(node)
            if not stack:
                return found
            node, sources = stack.pop()


class _Interning(type):
    def __call__(
        cls,
        op: Ops,
        dtype: DType | None = None,
        src: tuple[UOp, ...] = (),
        arg: Any = None,
        tag: Any = None,
    ) -> UOp:
        if dtype is None:
            dtype = derive_dtype(op, src, arg)
        if op is _CONST and not (type(arg) is int and dtype is dtypes.weakint):
            arg = as_const(arg, dtype)
        key = (op, dtype, src, arg, tag)
        try:
            ref = _table.get(key)
        except TypeError as e:
            raise SpecError(f"{op.name}: src must be a tuple of nodes, arg and tag hashable ({e})") from None
        if ref is not None:
            node = ref()
            if node is not None:
                return node
        return _create(key)


def _create(key: _Key) -> UOp:
    op, dtype, src, arg, tag = key
    limits = LIMITS.get(op)
    if limits is None:
        raise UnsupportedError(f"operation {op.name} (program stage)")
    if not limits[0] <= len(src) <= limits[1]:
        check_sources(op, src)
    node = object.__new__(UOp)
    _set_op(node, op)
    _set_dtype(node, dtype)
    _set_src(node, src)
    _set_arg(node, arg)
    _set_tag(node, tag)
    _set_cache(node, {})
    level = _check_level.get()
    if level >= 2:
        for check in _checkers:
            check(node, level)
    ref = _Ref(node, _forget)
    ref.key = key
    with _lock:
        old = _table.get(key)
        if old is not None:
            other = old()
            if other is not None:
                return other
            del _table[key]  # dying: its callback must not find this entry
        _table[key] = ref
    return node


@final
@attrs.frozen(eq=False, repr=False, slots=True, weakref_slot=True, init=False)
class UOp(Builders, metaclass=_Interning):
    """An operation of the graph. Identity is the five fields; everything else is derived and cached."""

    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    _cache: dict[str, Any]

    def __init__(
        self,
        op: Ops,
        dtype: DType | None = None,
        src: tuple[UOp, ...] = (),
        arg: Any = None,
        tag: Any = None,
    ) -> None:
        raise AssertionError("nodes are built by the interning metaclass")

    # identity ------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> UOp:
        """The node with some of op, dtype, src, arg, tag changed; self when nothing changes.

        When `src` changes and `dtype` is not given, the dtype is derived again.
        """
        unknown = changes.keys() - {"op", "dtype", "src", "arg", "tag"}
        if unknown:
            raise AssertionError(f"unknown fields {sorted(unknown)}")
        if all(getattr(self, k) is v for k, v in changes.items()):
            return self
        op, src, arg = changes.get("op", self.op), changes.get("src", self.src), changes.get("arg", self.arg)
        if "dtype" in changes:
            dtype: DType | None = changes["dtype"]
        elif op is self.op and arg is self.arg and _same_dtypes(src, self.src):
            dtype = self.dtype
        else:
            dtype = derive_dtype(op, src, arg, default=self.dtype)
        return UOp(op, dtype, src, arg, changes.get("tag", self.tag))

    def rebuild(self, src: tuple[UOp, ...]) -> UOp:
        """The same operation on other sources; dtype derived again if a source's dtype changed."""
        if src == self.src:
            return self
        dtype = self.dtype
        if not _same_dtypes(src, self.src):
            dtype = derive_dtype(self.op, src, self.arg, default=dtype)
        return UOp(self.op, dtype, src, self.arg, self.tag)

    def rtag(self, tag: Any = True) -> UOp:
        """The node with another tag."""
        return UOp(self.op, self.dtype, self.src, self.arg, tag)

    def __reduce__(self) -> tuple[Any, ...]:
        from uopgraph.serialize import from_rows, to_rows

        return (from_rows, (to_rows(self),))

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UOp:
        return self

    def __repr__(self) -> str:
        from uopgraph.render import tree

        return tree(self)

    def _derive(self, name: str) -> Any:
        try:
            return self._cache[name]
        except KeyError:
            return _fill(self, name)

    # inference (rules in infer.py and bounds.py) -------------------------------------------------

    @property
    def shape_or_none(self) -> tuple[sint, ...] | None:
        """The shape, None for effects and structure, which have none."""
        shape: tuple[sint, ...] | None = self._derive("shape")
        return shape

    @property
    def shape(self) -> tuple[sint, ...]:
        """The shape; raises :class:`ShapeError` when the node has none."""
        shape: tuple[sint, ...] | None
        try:
            shape = self._cache["shape"]
        except KeyError:
            shape = _fill(self, "shape")
        if shape is None:
            from uopgraph.errors import ShapeError

            raise ShapeError(self.op.name, "has no shape")
        return shape

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The shape with every symbolic dimension at its greatest value."""
        return tuple(d if isinstance(d, int) else int(d.vmax) for d in self.shape)

    @property
    def marg(self) -> Any:
        """The decoded argument of a movement operation: the shape of RESHAPE, the new leading dimensions of
        EXPAND, ``((offset, size), ...)`` of PAD and SHRINK, the permutation of PERMUTE, the bools of FLIP."""
        from uopgraph.infer import movement_arg

        return movement_arg(self)

    @property
    def device(self) -> Device | None:
        device: Device | None = self._derive("device")
        return device

    @property
    def axis(self) -> int | None:
        """The axis along which the value is sharded over its devices, None when it is whole on each."""
        return cast("int | None", self._derive("axis"))

    @property
    def addrspace(self) -> AddrSpace | None:
        return cast("AddrSpace | None", self._derive("addrspace"))

    @property
    def ended_ranges(self) -> tuple[UOp, ...]:
        """The nodes whose ranges this one closes."""
        from uopgraph.infer import ended_ranges

        return ended_ranges(self)

    @property
    def ranges(self) -> dict[UOp, None]:
        """The open RANGEs below this node, itself included, in a fixed order. Do not change the dict."""
        below: dict[UOp, None] = self._derive("ranges")
        return {**below, self: None} if self.op is _RANGE else below

    @property
    def vmin(self) -> Any:
        """A lower bound of every value of this node."""
        return self._derive("bounds")[0]

    @property
    def vmax(self) -> Any:
        """An upper bound of every value of this node."""
        return self._derive("bounds")[1]

    @property
    def key(self) -> bytes:
        """SHA-256 of the structure without tags; equal across processes."""
        return cast(bytes, self._derive("key"))

    @property
    def depth(self) -> int:
        """The number of edges of the longest path to a leaf."""
        return cast(int, self._derive("depth"))

    @property
    def src_ops(self) -> frozenset[Ops]:
        """The operations of the direct sources."""
        try:
            found: frozenset[Ops] = self._cache["src_ops"]
        except KeyError:
            found = self._cache["src_ops"] = frozenset([s.op for s in self.src])
        return found

    # views ---------------------------------------------------------------------------------------

    @property
    def base(self) -> UOp:
        """The first node that is not a movement operation or DETACH."""
        node = self
        while node.op in GroupOp.Movement or node.op is Ops.DETACH:
            node = node.src[0]
        return node

    @property
    def unsharded_base(self) -> UOp:
        """Like :attr:`base`, also through UNSHARD."""
        node = self.base
        while node.op is Ops.UNSHARD:
            node = node.src[0].base
        return node

    def has_buffer_identity(self, after_ok: bool = False) -> bool:
        """True for storage under RESHAPE, UNSHARD and MSELECT (and AFTER when allowed)."""
        through = {Ops.RESHAPE, Ops.UNSHARD, Ops.MSELECT} | ({Ops.AFTER} if after_ok else set())
        node = self
        while node.op in through:
            node = node.src[0]
        return node.op in GroupOp.Defines

    @property
    def buf_uop(self) -> UOp:
        """The storage node under AFTER, MSELECT, MSTACK, BITCAST and views. Raises when there is none."""
        node = self.base
        while node.op in {Ops.AFTER, Ops.MSELECT, Ops.MSTACK, Ops.UNSHARD, Ops.BITCAST, Ops.INDEX}:
            node = node.src[0].base
        if node.op not in GroupOp.Defines:
            raise UnsupportedError(f"storage under {node.op.name}")
        return node

    def contiguous_view(self) -> tuple[UOp, int] | None:
        """(storage, offset in storage elements) when this is a contiguous run of storage, else None."""
        from uopgraph.movement import contiguous_view

        return contiguous_view(self)

    # traversal -----------------------------------------------------------------------------------

    def toposort(
        self, gate: Callable[[UOp], bool] | None = None, enter_calls: bool = True
    ) -> dict[UOp, None]:
        """Every node below and self, sources before users, each once.

        A node for which `gate` is false is left out, with everything reached only through it.
        ``enter_calls=False`` leaves out bodies of CALLs (their arguments stay).
        """
        if gate is None:
            return self._order(enter_calls)
        order: dict[UOp, None] = {}
        if not gate(self):
            return order
        seen = {self}
        stack: list[tuple[UOp, Iterator[UOp]]] = [(self, iter(self._walked(enter_calls)))]
        while stack:
            node, sources = stack[-1]
            for s in sources:
                if s in seen:
                    continue
                if not gate(s):
                    seen.add(s)
                    continue
                seen.add(s)
                stack.append((s, iter(s._walked(enter_calls))))
                break
            else:
                order[node] = None
                stack.pop()
        return order

    def _order(self, enter_calls: bool) -> dict[UOp, None]:
        """:meth:`toposort` without a gate: on the way down, each node keeps its place among its sources."""
        order: dict[UOp, None] = {}
        stack: list[tuple[UOp, Iterator[UOp]]] = []
        pop, push = stack.pop, stack.append  # this loop is hot
        node, sources = self, iter(self._walked(enter_calls))
        while True:
            for s in sources:
                if s not in order:
                    push((node, sources))
                    node = s
                    sources = iter(s.src if enter_calls or s.op is not _CALL else s._walked(False))
                    break
            else:
                order[node] = None
                if not stack:
                    return order
                node, sources = pop()

    def _walked(self, enter_calls: bool) -> tuple[UOp, ...]:
        if enter_calls or self.op is not _CALL or self.src[0].dtype is dtypes.uint64:
            return self.src
        return self.src[1:]

    @property
    def backward_slice(self) -> dict[UOp, None]:
        """Every node below, without self. Do not change the dict."""
        try:
            return cast("dict[UOp, None]", self._cache["backward_slice"])
        except KeyError:
            below = self.toposort()
            del below[self]
            self._cache["backward_slice"] = below
            return below

    @property
    def backward_slice_with_self(self) -> dict[UOp, None]:
        return {**self.backward_slice, self: None}

    def op_in_backward_slice_with_self(self, *ops: Ops) -> bool:
        """True when a node of one of `ops` is at or below this one."""
        return self.op in ops or any(n.op in ops for n in self.backward_slice)

    @property
    def bool_slice(self) -> dict[UOp, None]:
        """The bool-typed nodes at or below this one."""
        below = self._cache.get("bool_slice")
        if below is None:
            below = self._cache["bool_slice"] = {
                n: None for n in self.backward_slice if n.dtype is dtypes.bool
            }
        return {**below, self: None} if self.dtype is dtypes.bool else below

    def consumer_map(self) -> dict[UOp, dict[UOp, None]]:
        """For each node below and self its users within this graph, each once."""
        return consumer_map(self.toposort())

    def topovisit(self, visitor: Callable[[UOp], _R], cache: dict[UOp, _R]) -> _R:
        """Call `visitor` on every node not in `cache`, sources first; results go to `cache`."""
        for node in self.toposort(gate=lambda n: n not in cache):
            cache[node] = visitor(node)
        return cache[self]

    # rewriting -----------------------------------------------------------------------------------

    def substitute(
        self,
        mapping: Mapping[UOp, UOp],
        name: str | None = None,
        extra_pm: PatternMatcher | None = None,
        walk: bool = False,
        enter_calls: bool = False,
    ) -> UOp:
        """Replace nodes by a map, from the root down. By default replacements are visited again;
        ``walk=True`` leaves them as they are. Bodies of CALLs are entered only with `enter_calls`."""
        from uopgraph.rewrite import substitute

        return substitute(self, mapping, name, extra_pm, walk, enter_calls)

    def simplify(self, fast: bool = False) -> UOp:
        """Apply the symbolic rules to a fixed point; by default only those that keep every bit.
        ``fast=True`` adds rules of real arithmetic."""
        from uopgraph.symbolic import simplify

        return simplify(self, fast)

    # symbolic queries ----------------------------------------------------------------------------

    @property
    def is_const(self) -> bool:
        return self.op is _CONST

    @property
    def is_invalid(self) -> bool:
        return self.op is Ops.CONST and self.arg is Invalid

    @property
    def is_variable(self) -> bool:
        """True for a Variable, bound or not."""
        return self.op is Ops.PARAM and self.arg.addrspace is AddrSpace.ALU and self.arg.name is not None

    @property
    def is_bound_var(self) -> bool:
        return self.is_variable and self.arg.val is not None

    @property
    def expr(self) -> str:
        """The name of a Variable."""
        if not self.is_variable:
            raise BoundError(f"{self.op.name} is not a Variable")
        return cast(str, self.arg.name)

    def bind(self, value: int) -> UOp:
        """The Variable with a value; checks range and divisibility."""
        if not self.is_variable or self.is_bound_var:
            raise BoundError("only a free Variable can be bound")
        if isinstance(value, bool) or not isinstance(value, int):
            raise BoundError(f"{self.expr} = {value!r} is no integer")
        low, high = self.arg.vmin_vmax
        if not low <= value <= high:
            raise BoundError(f"{self.expr} = {value} is not in [{low}, {high}]")
        if self.arg.multiple_of is not None and value % self.arg.multiple_of:
            raise BoundError(f"{self.expr} = {value} is no multiple of {self.arg.multiple_of}")
        return self.replace(arg=attrs.evolve(self.arg, val=value))

    def unbound(self) -> UOp:
        """The Variable without its value."""
        return self.replace(arg=attrs.evolve(self.arg, val=None)) if self.is_bound_var else self

    def variables(self) -> list[UOp]:
        """The distinct Variables below, unbound, by name, with ``_device_num`` for each DEVICE range."""
        from uopgraph.evaluate import variables

        return variables(self)

    def split_uop(self, op: Ops, limit: int = 1 << 16) -> list[UOp]:
        """The terms of a chain of `op`, left to right. A shared sub-chain is written out at each use; beyond
        about `limit` terms the rest is left unsplit, so that repeated squaring cannot grow without bound."""
        terms: list[UOp] = []
        stack = [self]
        while stack:
            node = stack.pop()
            if node.op is op and len(terms) + len(stack) < limit:
                stack += reversed(node.src)
            else:
                terms.append(node)
        return terms

    def pop_const(self, op: Ops = Ops.ADD) -> tuple[UOp, ConstValue]:
        """(x, c) with self = x op c; c is the identity when there is no constant."""
        if self.op is op and self.src[1].op is Ops.CONST and self.src[1].arg is not Invalid:
            return self.src[0], self.src[1].arg
        return self, identity_element(op, self.dtype)

    def const_factor(self) -> int:
        """An integer that divides every value of this node."""
        from uopgraph.factors import const_factor

        return const_factor(self)

    def divides(self, n: int) -> UOp | None:
        """The exact quotient by `n` as a node, or None."""
        from uopgraph.factors import divides

        return divides(self, n)

    def divide_exact(self, other: UOp) -> UOp | None:
        """The exact quotient by a node: factors are cancelled as a multiset."""
        from uopgraph.factors import divide_exact

        return divide_exact(self, other)

    def overflows(self, dtype: DType) -> bool:
        """True when a value of this node may lie outside the integer `dtype`."""
        return bool(self.vmin < dtype.min or self.vmax > dtype.max)

    def _value(self) -> ConstValue:
        node = self.simplify()
        low, high = node.vmin, node.vmax
        if not (low == high):
            raise BoundError(f"value is not known: it is in [{low}, {high}]")
        return cast(ConstValue, low)

    def __int__(self) -> int:
        return int(cast(int, self._value()))

    def __float__(self) -> float:
        return float(cast(float, self._value()))

    def __bool__(self) -> bool:
        return bool(self._value())

    def __iter__(self) -> Iterator[UOp]:
        raise TypeError("a UOp is not iterable")


def _same_dtypes(a: tuple[UOp, ...], b: tuple[UOp, ...]) -> bool:
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):  # noqa: B905, SIM110  (hot)
        if x.dtype is not y.dtype:
            return False
    return True


# The slots of a frozen class are written through their descriptors, once, in _create.
_set_op, _set_dtype, _set_src, _set_arg, _set_tag, _set_cache = (
    vars(UOp)[name].__set__ for name in ("op", "dtype", "src", "arg", "tag", "_cache")
)


def consumer_map(order: Iterable[UOp]) -> dict[UOp, dict[UOp, None]]:
    """For each node of a topologically sorted list its users inside the list, each once."""
    users: dict[UOp, dict[UOp, None]] = {}
    for node in order:
        users[node] = {}
        for s in node.src:
            if s in users:
                users[s][node] = None
    return users


def identity_element(op: Ops, dtype: DType) -> ConstValue:
    """The value that `op` (ADD, MUL, MAX) leaves unchanged: 0, 1, the least value of the dtype."""
    if op is Ops.MAX:
        return ConstFloat(float("-inf")) if dtype.is_float else dtype.min
    if op not in (Ops.ADD, Ops.MUL):
        raise SpecError(f"{op.name} has no identity element")
    return as_const(0 if op is Ops.ADD else 1, dtype)


def resolve(condition: UOp | bool, default: bool = True) -> bool:
    """The value of a condition when its bounds decide it, else `default`."""
    if not isinstance(condition, UOp):
        return bool(condition)
    if condition.dtype is not dtypes.bool:
        raise SpecError("resolve needs a bool")
    node = condition.simplify()
    return bool(node.vmin) if node.vmin == node.vmax else default


__all__ = [
    "UOp",
    "check_level",
    "checking",
    "consumer_map",
    "derived",
    "identity_element",
    "live_nodes",
    "resolve",
]
