"""One program unit: the part of a KTDFLow function that units of one kind run (dataflowir spec 3.3 to 3.8).

The work of the function is walked once; what other kinds do is left out, and everything that is known
before the program runs (constants, the tile id, addresses) is computed per unit on the way, so that tile
arithmetic leaves only tables of constants behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from dfsched.dialects.dataflow import (
    GetUnit,
    ProgramUnit,
    Receive,
    Send,
    SyncReceive,
    SyncSend,
)
from dfsched.dialects.ktdf import (
    BufferPhase,
    CreateToken,
    DataTransfer,
    DeriveSize,
    FifoAllocate,
    FifoSlotType,
    LinearizeIndex,
    Parallel,
    ReadFromFifo,
    SelectMemref,
    WriteToFifo,
)
from dfsched.dialects.ktdf_lowering import Await, ExecuteOn, OneWay, Post, Signal
from dfsched.dialects.symbol import CreateId, CreateSymbol
from dfsched.dialects.uniform import DefImmutableMapping, QueryMap
from dfsched.lowering.accesses import Transfers
from dfsched.lowering.compute import Computation
from dfsched.lowering.copies import CopyNests
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.function_builder import FunctionBuilder
from dfsched.lowering.loops import Loops
from dfsched.lowering.memory_views import MemoryViews
from dfsched.lowering.pruning import prune
from dfsched.lowering.register_calls import RegisterCalls
from dfsched.lowering.unit_kinds import UnitKind, UnitKinds
from dfsched.lowering.values import Address, Buffer, Known, Meaning, Nothing, Pieces, Runtime, Vector
from dfsched.lowering.whole_buffers import WholeBuffers
from ktir.attribute import Attribute
from ktir.attributes import (
    DenseElementsAttr,
    IntegerAttr,
    wrap_integer,
)
from ktir.dialects import arith, linalg, memref, scf, tensor
from ktir.dialects.builtin import UnrealizedConversionCast
from ktir.dialects.ktdp import ConstructMemoryView, GetComputeTileId
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import PURE
from ktir.types import (
    I1,
    INDEX,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
)

__all__ = ["ProgramUnitBuilder"]


@define
class ProgramUnitBuilder:
    """Builds the program of one kind of units.

    `byte_addresses`: offsets of views count bytes instead of elements.
    """

    shared: FunctionBuilder
    kinds: UnitKinds
    kind: UnitKind
    byte_addresses: bool
    iter_arg: BlockArgument = field(factory=lambda: BlockArgument(INDEX))
    meanings: dict[Value, Meaning] = field(factory=dict)
    head: list[Operation] = field(factory=list)
    views: MemoryViews = field(init=False)
    computation: Computation = field(init=False)
    registers: RegisterCalls = field(init=False)
    transfers: Transfers = field(init=False)
    loops: Loops = field(init=False)
    copies: CopyNests = field(init=False)
    buffers: WholeBuffers = field(init=False)
    _active: tuple[bool, ...] = field(init=False)
    _out: list[Operation] = field(factory=list)
    _known: dict[tuple[int, ...], Value] = field(factory=dict)
    _symbols: dict[int, Value] = field(factory=dict)
    _scalars: dict[tuple[int, tuple[int, ...]], Value] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.views = MemoryViews(self)
        self.computation = Computation(self)
        self.registers = RegisterCalls(self)
        self.transfers = Transfers(self)
        self.loops = Loops(self)
        self.copies = CopyNests(self)
        self.buffers = WholeBuffers(self)
        self._active = (True,) * self.rows
        for argument in self.shared.function.arguments:
            number = self.shared.symbols.input_of(self.shared.function, argument)
            if number is None:
                self.meanings[argument] = Runtime(argument)
            else:
                self.meanings[argument] = Address(number, (0,) * self.rows)

    @property
    def rows(self) -> int:
        """Number of units."""
        return len(self.kind.units)

    def build(self, work: Sequence[Operation]) -> ProgramUnit:
        """The program unit; `work` are the operations of the function that are not prelude."""
        self.loops.prepare(work)
        self.walk(work)
        operations = prune([*self.head, *self._out])
        handles = [unit.handles[0] for unit in self.kind.units]
        return ProgramUnit.of(handles, self.iter_arg, operations)

    # -- emission

    def emit(self, op: Operation) -> Value:
        """Append an operation where we are; its first result (or, without results, a stand-in)."""
        self._out.append(op)
        return op.results[0] if op.results else self.iter_arg

    def nested(self, build: Callable[[], None]) -> list[Operation]:
        """What `build` emits, as a list of its own."""
        outer, self._out = self._out, []
        build()
        inner, self._out = self._out, outer
        return inner

    def mapping(self, entries: Sequence[Value], early: bool = False) -> Value:
        """A query that gives entry i to unit i."""
        keys = [unit.handles[0] for unit in self.kind.units]
        map = DefImmutableMapping.of(list(zip(keys, entries, strict=True)))
        query = QueryMap.of(map.mapping, self.iter_arg)
        (self.head if early else self._out).extend((map, query))
        return query.value

    # -- meanings

    def meaning(self, value: Value, at: Operation) -> Meaning:
        found = self.meanings.get(value)
        if found is None:
            raise LoweringError.at(at.location, f"'{at.name}' uses a value that is not part of the program")
        return found

    def known_value(self, known: Known) -> Value:
        """A known number as an index value."""
        if known.uniform is not None:
            return self.shared.constant(known.uniform)
        if known.values not in self._known:
            entries = [self.shared.constant(number) for number in known.values]
            self._known[known.values] = self.mapping(entries, early=True)
        return self._known[known.values]

    def symbol(self, number: int) -> Value:
        """The placeholder of a symbol."""
        if number not in self._symbols:
            op = CreateSymbol.of(number)
            self.head.append(op)
            self._symbols[number] = op.value
        return self._symbols[number]

    def scalar(self, value: Value, at: Operation) -> Value:
        """A scalar operand of the new program."""
        meaning = self.meaning(value, at)
        match meaning:
            case Known() if value.type == I1:
                return self.scalar_known(meaning)
            case Known():
                return self.known_value(meaning)
            case Runtime(value=new):
                return new
            case Address():
                return self.runtime(meaning).value
            case _:
                raise LoweringError.at(at.location, f"'{at.name}' uses '{value.type}' as a scalar")

    def scalar_known(self, known: Known) -> Value:
        """A known truth value."""
        if known.uniform is not None:
            return self.shared.constant(IntegerAttr(known.uniform, I1))
        ne = arith.CmpI.create(
            (self.known_value(known), self.shared.constant(0)),
            (I1,),
            {"predicate": IntegerAttr(arith.CmpIPredicate.NE)},
        )
        return self.emit(ne)

    def runtime(self, meaning: Meaning) -> Runtime:
        """A number as a value of the new program."""
        match meaning:
            case Runtime():
                return meaning
            case Known():
                return Runtime(self.known_value(meaning), local=False)
            case Address(input=number, offsets=offsets):
                self.shared.use_input(number)
                return Runtime(self._scalar_input(number, offsets), frozenset((number,)), local=False)
            case _:
                raise AssertionError(meaning)

    def _scalar_input(self, number: int, offsets: tuple[int, ...]) -> Value:
        """A run input plus numbers per unit, computed once at the start of the program."""
        key = (number, offsets)
        if key not in self._scalars:
            value = self.symbol(number)
            if any(offsets):
                op = arith.AddI.create((value, self.known_value(Known(offsets))), (INDEX,))
                self.head.append(op)
                value = op.results[0]
            self._scalars[key] = value
        return self._scalars[key]

    # -- operations

    def walk(self, operations: Sequence[Operation]) -> None:
        for op in operations:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        match op:
            case ExecuteOn():
                if self.kinds.runs(self.kind, op.units):
                    members = self.kinds.members(self.kind, op.units)
                    self._for_members(members, lambda: self.walk(op.body.block.operations))
            case Signal() | OneWay():
                self._signal(op)
            case CreateToken() | FifoAllocate() | tensor.Empty():
                self.meanings.update(dict.fromkeys(op.results, Nothing()))
            case QueryMap():
                self._query(op)
            case GetUnit() | DefImmutableMapping() | CreateId():
                pass
            case GetComputeTileId():
                if len(op.results) != 1:
                    raise LoweringError.at(op.location, "ktdp.get_compute_tile_id must have one result here")
                self.meanings[op.results[0]] = Known(self.kind.cores)
            case arith.Constant():
                self._constant(op)
            case scf.For():
                if not self.copies.nest(op):
                    self.loops.loop(op)
            case Parallel():
                self.loops.parallel(op)
            case DeriveSize():
                self.loops.derive(op)
            case LinearizeIndex():
                self.loops.linearize(op)
            case BufferPhase():
                self.meanings[op.phase] = Nothing()
            case SelectMemref():
                self.loops.select(op)
            case scf.If():
                self._branch(op)
            case UnrealizedConversionCast():
                self._buffer(op)
            case ConstructMemoryView() | memref.MemorySpaceCast() | memref.ReinterpretCast() | memref.Cast():
                self.views.follow(op)
            case memref.Dealloc():
                pass
            case DataTransfer():
                self.transfers.transfer(op)
            case ReadFromFifo():
                self._read(op)
            case WriteToFifo():
                self._write(op)
            case linalg.Generic():
                self.computation.generic(op)
            case linalg.Fill():
                self.buffers.fill(op)
            case memref.Copy():
                self.buffers.copy(op)
            case tensor.CollapseShape() | tensor.ExpandShape():
                self.meanings[op.results[0]] = self.meaning(op.operands[0], op)
            case _ if self._is_index_arithmetic(op):
                self._arithmetic(op)
            case _:
                raise UnsupportedLowering.at(op.location, f"cannot lower '{op.name}' to DataflowIR")

    def _is_index_arithmetic(self, op: Operation) -> bool:
        scalar = all(isinstance(v.type, IndexType | IntegerType) for v in (*op.operands, *op.results))
        return scalar and op.definition_has(PURE) and not op.regions and len(op.results) == 1

    def _constant(self, op: arith.Constant) -> None:
        match op.value:
            case IntegerAttr(value=number):
                self.meanings[op.result] = Known((number,) * self.rows)
            case DenseElementsAttr(type=TensorType() as type) as dense:
                vector = VectorType((type.num_elements(),), type.element)
                flat = DenseElementsAttr(dense.data, vector, dense.splat)
                self.meanings[op.result] = Vector(self.shared.constant(flat))
            case other:
                self.meanings[op.result] = Runtime(self.shared.constant(other), local=False)

    def _query(self, op: QueryMap) -> None:
        """A number of a table, looked up with a known number; other maps hold units."""
        uses = self.kinds.uses
        mapping = uses.definer(op.map)
        key = self.meanings.get(op.key)
        if not isinstance(mapping, DefImmutableMapping) or not isinstance(key, Known):
            return
        entries: dict[int, int] = {}
        for entry in zip(mapping.keys, mapping.values, strict=True):
            match [uses.definer(value) for value in entry]:
                case [arith.Constant(value=IntegerAttr(value=k)), arith.Constant(value=IntegerAttr(value=v))]:
                    entries[k] = v
                case _:
                    return
        missing = sorted(set(key.values) - set(entries))
        if missing:
            raise LoweringError.at(op.location, f"no entry for key in query_map: {missing[0]}")
        self.meanings[op.value] = Known(tuple(entries[k] for k in key.values))

    # -- scalars

    def _arithmetic(self, op: Operation) -> None:
        meanings = [self.meaning(value, op) for value in op.operands]
        if all(isinstance(m, Known) for m in meanings):
            known = self._fold(op, [m for m in meanings if isinstance(m, Known)])
            if known is not None:
                self.meanings[op.results[0]] = known
                return
        moved = self._move_address(op, meanings)
        if moved is not None:
            self.meanings[op.results[0]] = moved
            return
        operands = [self.scalar(value, op) for value in op.operands]
        if not isinstance(op, arith.IndexCast | arith.IndexCastUI):
            for old, new in zip(op.operands, operands, strict=True):
                if old.type != new.type:  # a symbol is an index value
                    raise UnsupportedLowering.at(
                        op.location,
                        f"'{op.name}' of a number of type {old.type} that the launch passes is not "
                        "supported; compute with it as an index",
                    )
        clone = op.replace(operands=operands, results=[type(r)(r.type, r.name) for r in op.results])
        parts = [self.runtime(m) for m in meanings]
        self.meanings[op.results[0]] = Runtime(
            self.emit(clone),
            frozenset().union(*(part.inputs for part in parts)),
            any(part.local for part in parts),
        )

    def _fold(self, op: Operation, operands: Sequence[Known]) -> Known | None:
        """The value per unit; division by zero gives 0 (dataflowir spec 3.5), what does not fold None."""
        results = []
        for row in range(self.rows):
            constants = [
                IntegerAttr(wrap_integer(known.values[row], value.type), value.type)
                for known, value in zip(operands, op.operands, strict=True)
            ]
            folded = op.fold(constants)
            first = folded[0] if folded else None
            if isinstance(first, Value):
                first = constants[op.operands.index(first)]
            if first is None and isinstance(op, arith.DivUI | arith.RemUI) and constants[1].value == 0:
                first = IntegerAttr(0, op.results[0].type)
            if not isinstance(first, IntegerAttr):
                return None
            results.append(first.value)
        return Known(tuple(results))

    def _move_address(self, op: Operation, meanings: Sequence[Meaning]) -> Meaning | None:
        """A run input plus or minus known numbers stays an address."""
        match op, meanings:
            case arith.AddI(), [Address(number, offsets), Known(values)]:
                return Address(number, tuple(a + b for a, b in zip(offsets, values, strict=True)))
            case arith.AddI(), [Known(values), Address(number, offsets)]:
                return Address(number, tuple(a + b for a, b in zip(offsets, values, strict=True)))
            case arith.SubI(), [Address(number, offsets), Known(values)]:
                return Address(number, tuple(a - b for a, b in zip(offsets, values, strict=True)))
            case ((arith.IndexCast() | arith.IndexCastUI()), [meaning]):
                return meaning
            case _:
                return None

    # -- control flow

    def carried(self, value: Value, op: Operation) -> Value:
        """A value that a loop carries: a scalar, or a tensor as a vector."""
        return self.vector(value, op) if isinstance(value.type, TensorType) else self.scalar(value, op)

    def _branch(self, op: scf.If) -> None:
        if op.outputs:
            raise UnsupportedLowering.at(op.location, "an scf.if with results is not supported in a program")
        condition = self.meaning(op.condition, op)
        arms = (op.then_region, op.else_region)
        if isinstance(condition, Known) and condition.uniform is not None:
            taken = arms[0] if condition.uniform else arms[1]
            if taken.blocks:
                self.walk(taken.block.operations[:-1])
            return
        flag = self.scalar(op.condition, op)
        regions = []
        for arm in arms:
            if not arm.blocks:
                regions.append(Region())
                continue
            inner = self.nested(lambda arm=arm: self.walk(arm.block.operations[:-1]))  # type: ignore[misc]
            regions.append(Region.of((*inner, scf.Yield.create())))
        if len(regions[1].blocks) and len(regions[1].block.operations) == 1:
            regions[1] = Region()
        self.emit(scf.If.create((flag,), regions=regions, location=op.location))

    # -- memory

    def _buffer(self, op: UnrealizedConversionCast) -> None:
        if len(op.operands) != 1 or len(op.results) != 1 or not isinstance(op.results[0].type, MemRefType):
            raise UnsupportedLowering.at(op.location, f"cannot lower '{op.name}' to DataflowIR")
        start = self.meaning(op.operands[0], op)
        if not isinstance(start, Known):
            raise LoweringError.at(op.location, "the address of a buffer must be a constant")
        if not op.results[0].type.is_static:
            raise LoweringError.at(op.location, "unrealized_conversion_cast: dynamic shape not supported")
        self.meanings[op.results[0]] = Buffer(op, start, op.results[0].type)

    # -- queues and signals

    def _slot(self, value: Value, op: Operation) -> FifoSlotType:
        if not isinstance(value.type, FifoSlotType):
            raise LoweringError.at(op.location, f"expected a queue slot, got '{value.type}'")
        return value.type

    def capacity(self, value: Value, op: Operation) -> int:
        capacity = self._slot(value, op).capacity
        if capacity is None:
            raise LoweringError.at(op.location, "the capacity of a queue slot must be static")
        return capacity

    def peer(self, endpoint: Attribute, op: Operation) -> Value:
        """The unit of a queue's endpoint kind that sits at the same core (and corelet)."""
        return self.mapping(self.kinds.partners(self.kind, endpoint, op.location))

    def send(self, op: Operation, vector: Value, slot: Value) -> None:
        peer = self.peer(self._slot(slot, op).target, op)
        self.emit(Send.create((peer, vector)))

    def receive(self, op: Operation, slot: Value) -> Value:
        vector = VectorType((self.capacity(slot, op),), self._slot(slot, op).element)
        return self.receive_piece(op, slot, vector)

    def receive_piece(self, op: Operation, slot: Value, vector: VectorType) -> Value:
        """One vector of what a slot holds."""
        peer = self.peer(self._slot(slot, op).source, op)
        return self.emit(Receive.create((peer,), (vector,)))

    def _read(self, op: ReadFromFifo) -> None:
        if self.buffers.in_pieces(op):
            self.meanings[op.data] = Pieces(op.slot)
        else:
            self.meanings[op.data] = Vector(self.receive(op, op.slot))

    def _write(self, op: WriteToFifo) -> None:
        self.send(op, self.vector(op.data, op), op.slot)

    def vector(self, value: Value, op: Operation) -> Value:
        """The vector behind a tensor, or all elements of a buffer."""
        meaning = self.meaning(value, op)
        if self.buffers.holds(value):
            return self.buffers.load(value, op)
        if not isinstance(meaning, Vector):
            raise LoweringError.at(op.location, f"'{op.name}' uses a tensor that holds no value")
        return meaning.value

    def _signal(self, op: Signal | OneWay) -> None:
        """Sends to all peers and then waits for all; of what goes one way only, its own half."""
        own = op.units if isinstance(op, Signal) else op.senders if isinstance(op, Post) else op.receivers
        groups = self.kinds.signal_peers(self.kind, op)
        members = self.kinds.members(self.kind, own)
        if groups is None or not any(members):
            return

        def meet() -> None:
            peers = [self.mapping(group) for group in groups]
            if not isinstance(op, Await):
                for peer in peers:
                    self.emit(SyncSend.of(peer))
            if not isinstance(op, Post):
                for peer in peers:
                    self.emit(SyncReceive.create((peer,)))

        self._for_members(members, meet)

    def _for_members(self, members: Sequence[bool], build: Callable[[], None]) -> None:
        """What `build` emits, for some of the units of the kind only."""
        wanted = tuple(a and b for a, b in zip(members, self._active, strict=True))
        if wanted == self._active:
            build()
            return
        flag = self.scalar_known(Known(tuple(int(member) for member in wanted)))
        outer, self._active = self._active, wanted
        inner = self.nested(build)
        self._active = outer
        region = Region.of((*inner, scf.Yield.create()))
        self.emit(scf.If.create((flag,), regions=(region, Region())))
