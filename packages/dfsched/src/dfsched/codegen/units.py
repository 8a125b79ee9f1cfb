"""Code of one `dataflow.program_unit`: memory views, accesses, communication, vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from dfsched.codegen.access import build_generator, single_access
from dfsched.codegen.errors import CodegenError
from dfsched.codegen.opaque import opaque_descriptor
from dfsched.codegen.registers import parallel_copy
from dfsched.codegen.scalars import ScalarEmitter, constant_integer
from dfsched.codegen.tables import Cell, Hardware, Pools, SymbolCell
from dfsched.dialects import agen, dataflow, uniform
from dfsched.dialects import vectorchain as vc
from dfsched.dialects.symbol import CreateSymbol
from dfsched.image import (
    AddressGenerator,
    CallOpaque,
    Column,
    Constant,
    Dma,
    ElementType,
    GeneratorKind,
    Instruction,
    MakeView,
    MemoryClass,
    MemoryId,
    Receive,
    Register,
    Send,
    Shuffle,
    ShuffleDescriptor,
    SyncReceive,
    SyncSend,
    UnaryOperator,
    VectorBinary,
    VectorCast,
    VectorCompare,
    VectorConstant,
    VectorLoad,
    VectorMove,
    VectorMultiplyAdd,
    VectorRotate,
    VectorScan,
    VectorSelect,
    VectorStore,
    VectorUnary,
    View,
)
from ktir.affine import Dim, linear
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from ktir.dialects import arith, scf
from ktir.dtypes import literal_bits, literal_bytes
from ktir.ir import Operation, Value
from ktir.types import MemRefType, Type, VectorType

__all__ = ["UnitEmitter"]

_UNARY: dict[type[Operation], UnaryOperator] = {
    vc.FastExp: UnaryOperator.FAST_EXP,
    vc.Floor: UnaryOperator.FLOOR,
    vc.RecEstimate: UnaryOperator.RECIPROCAL_ESTIMATE,
    vc.LnEstimate: UnaryOperator.LN_ESTIMATE,
    vc.RsqrtEstimate: UnaryOperator.RSQRT_ESTIMATE,
    vc.Neg: UnaryOperator.NEG,
}
_VERSIONED: dict[type[Operation], tuple[UnaryOperator, UnaryOperator]] = {
    vc.ExpEstimate: (UnaryOperator.EXP_ESTIMATE_A, UnaryOperator.EXP_ESTIMATE_B),
    vc.SigmoidEstimate: (UnaryOperator.SIGMOID_SLOPE, UnaryOperator.SIGMOID_OFFSET),
    vc.TanhEstimate: (UnaryOperator.TANH_SLOPE, UnaryOperator.TANH_OFFSET),
}


@define
class UnitEmitter(ScalarEmitter):
    """Emits the code of one program unit for all its instances.

    `units` are the handles in row order; `symbol_units` the word size in bytes of every symbol.
    """

    hardware: Hardware = field(kw_only=True)
    pools: Pools = field(kw_only=True)
    units: tuple[dataflow.GetUnit, ...] = field(kw_only=True)
    iter_arg: Value | None = field(kw_only=True)
    symbol_units: dict[int, int] = field(kw_only=True)
    vectors: dict[Value, int] = field(factory=dict)
    views: dict[Value, int] = field(factory=dict)
    _vector_constants: dict[int, int] = field(factory=dict)
    _programmed: dict[str, int] = field(factory=dict)

    # -- values that differ between rows

    def rows(self, value: Value) -> tuple[Cell, ...] | None:
        definer = self.definitions.definer(value)
        match definer:
            case uniform.QueryMap(map=map, key=key) if key is self.iter_arg:
                return self._queried(definer, map)
            case dataflow.GetUnit():
                return (self.handle(definer),) * self.table.rows
            case CreateSymbol(id=symbol) if symbol not in self.symbol_units:
                raise CodegenError.at(
                    definer.location, f"symbol {symbol} is not defined by any symbol.create_id"
                )
            case _:
                if value is self.iter_arg:
                    return tuple(self.handle(unit) for unit in self.units)
                return ScalarEmitter.rows(self, value)

    def _queried(self, query: uniform.QueryMap, map: Value) -> tuple[Cell, ...] | None:
        mapping = self.definitions.definer(map)
        if not isinstance(mapping, uniform.DefImmutableMapping):
            raise self.unsupported(query, "a map that is no def_immutable_mapping")
        found: dict[str, Value] = {}
        for key, entry in zip(mapping.keys, mapping.values, strict=True):
            unit = self.definitions.definer(key)
            if isinstance(unit, dataflow.GetUnit):
                found.setdefault(unit.unit_name.value, entry)
        cells: list[Cell] = []
        for unit in self.units:
            name = unit.unit_name.value
            if name not in found:
                raise CodegenError.at(
                    query.location, f"no entry for key in query_map: {name} in {self.label}"
                )
            inner = self.rows(found[name])
            if inner is None:
                return None
            cells.append(inner[0])
        return tuple(cells)

    def handle(self, op: dataflow.GetUnit) -> int:
        """The number of a unit or memory."""
        return self.hardware.memory(op) if self.hardware.is_memory(op) else self.hardware.unit(op)

    def peers(self, value: Value, op: Operation) -> tuple[int, ...]:
        """Unit numbers, one per row."""
        rows = self.rows(value)
        numbers = tuple(cell for cell in rows or () if isinstance(cell, int))
        handles = self._handles(value)
        is_unit = bool(handles) and not any(self.hardware.is_memory(h) for h in handles)
        if rows is None or len(numbers) != len(rows) or not is_unit:
            raise self.unsupported(op, "an operand that is no unit known before the program runs")
        return numbers

    def _handles(self, value: Value) -> list[dataflow.GetUnit]:
        """The unit handles behind a value."""
        match self.definitions.definer(value):
            case dataflow.GetUnit() as unit:
                return [unit]
            case uniform.QueryMap(map=map):
                mapping = self.definitions.definer(map)
                entries = mapping.values if isinstance(mapping, uniform.DefImmutableMapping) else ()
                return [handle for entry in entries for handle in self._handles(entry)]
            case _:
                return []

    def unit_column(self, value: Value, op: Operation) -> int:
        """The column of a unit operand."""
        return self.table.column(self.peers(value, op))

    # -- operations

    def operation(self, op: Operation) -> None:
        match op:
            case dataflow.GetUnit() | uniform.DefImmutableMapping() | uniform.QueryMap():
                pass  # part of the table
            case dataflow.GetLogicalMemoryView():
                self.view(op)
            case agen.VectorLoad():
                self._load(op)
            case agen.VectorStore():
                self._store(op)
            case agen.CompositeLoadAndStore():
                self._copy(op)
            case dataflow.Send():
                self._send(op)
            case dataflow.Receive():
                element, lanes = self.vector_type(op.data.type, op)
                column = self.unit_column(op.unit, op)
                self.define(op.data, lambda dst: Receive(dst, column, element, lanes))
            case dataflow.SyncSend():
                self.emit(SyncSend(self.unit_column(op.unit, op), op.waits))
            case dataflow.SyncReceive():
                self.emit(SyncReceive(self.unit_column(op.unit, op)))
            case dataflow.Opaque():
                descriptor = opaque_descriptor(op, self.hardware, self.label, self.register_memory)
                self.emit(CallOpaque(self.pools.opaques.intern(descriptor)))
            case arith.Constant() if isinstance(op.result.type, VectorType):
                pass  # on first use
            case vc.ConstantBitstream() | vc.CreateAffineMask():
                pass
            case _ if op.name.partition(".")[0] == "vectorchain":
                self._vector(op)
            case _:
                ScalarEmitter.operation(self, op)

    def define(self, value: Value, build: Callable[[int], Instruction]) -> None:
        """Emit an instruction that defines a vector."""
        register = self.fresh("v")
        self.emit(build(register))
        self.vectors[value] = register

    def vector_type(self, type: Type, op: Operation) -> tuple[ElementType, int]:
        """Element type and lanes of a vector type."""
        element = type.element if isinstance(type, VectorType | dataflow.CustomVectorType) else None
        if element is None:
            raise self.unsupported(op, f"a value of type {type}")
        return self.element(element, op), vc.lanes(type)

    def element(self, type: Type, op: Operation) -> ElementType:
        try:
            return ElementType.of(type)
        except ValueError as error:
            raise self.unsupported(op, str(error)) from None

    # -- memory

    def register_memory(self, name: str) -> dataflow.GetUnit | None:
        """The handle of the register memory of a name, anywhere in the function."""
        for op in self.definitions.root.walk():
            if isinstance(op, dataflow.GetUnit) and op.unit_name.value == name:
                return op
        return None

    def view(self, op: dataflow.GetLogicalMemoryView) -> None:
        """A memory view: descriptor, memory and start."""
        layout = linear(op.layout_map.map.results[0])
        if layout is None or not layout.is_linear or op.layout_map.map.num_symbols:
            raise CodegenError.at(op.location, f"layout map is not linear: {op.layout_map.map}")
        type = op.view_type
        if not type.is_static:
            raise self.unsupported(op, "a dynamic extent")
        element = self.element(type.element, op)
        memories = self._memories(op)
        classes = {self.hardware.memory_at(number).memory_class for number in memories}
        symbols = self._start_symbols(op.start)
        if symbols:
            unit, column = self._symbolic_start(op, symbols, memories[0])
            start: Register | Column = column
        else:
            if classes == {MemoryClass.GLOBAL}:
                if element.storage_bits % 8:
                    raise self.unsupported(op, f"constant addresses of {element.mlir} elements")
                unit = element.storage_bits // 8
            else:
                unit = 1
            rows = self.rows(op.start)
            start = Register(self.scalar(op.start)) if rows is None else Column(self.table.column(rows))
        coefficients = tuple(layout.coefficient(Dim(i)) for i in range(type.rank))
        view = View(element, type.static_shape(), coefficients, layout.constant, unit, bool(symbols))
        self._account(op, view, memories)
        register = self.fresh("w")
        same = len(set(memories)) == 1
        memory = MemoryId(memories[0]) if same else Column(self.table.column(memories))
        self.emit(MakeView(register, memory, start, self.pools.views.intern(view)))
        self.views[op.view] = register

    def _memories(self, op: dataflow.GetLogicalMemoryView) -> tuple[int, ...]:
        handles = self._handles(op.memory)
        rows = self.rows(op.memory)
        numbers = tuple(cell for cell in rows or () if isinstance(cell, int))
        is_memory = bool(handles) and all(self.hardware.is_memory(h) for h in handles)
        if rows is None or len(numbers) != len(rows) or not is_memory:
            raise self.unsupported(op, "a memory operand that is no memory known before the program runs")
        return numbers

    def _start_symbols(self, start: Value, depth: int = 16) -> list[int]:
        """Ids of symbols that a start address depends on."""
        definer = self.definitions.definer(start)
        match definer:
            case None:
                block = self.definitions.defining_block(start)
                owner = None if block is None else self.definitions.owner(block)
                if isinstance(owner, scf.For) and start in owner.carried and depth:
                    position = owner.carried.index(start)
                    return self._start_symbols(owner.inits[position], depth - 1)
                return []
            case uniform.QueryMap() | arith.AddI() | arith.SubI():
                rows = self.rows(start)
                if rows is not None:
                    return [cell.id for cell in rows if isinstance(cell, SymbolCell)]
                if isinstance(definer, uniform.QueryMap) or not depth:
                    return []
                return [s for value in definer.operands for s in self._start_symbols(value, depth - 1)]
            case _:
                return [cell.id for cell in self.rows(start) or () if isinstance(cell, SymbolCell)]

    def _symbolic_start(
        self, op: dataflow.GetLogicalMemoryView, symbols: Sequence[int], memory: int
    ) -> tuple[int, Column]:
        rows = self.rows(op.start)
        if rows is None or not all(isinstance(cell, SymbolCell) for cell in rows):
            raise CodegenError.at(op.location, "symbolic start address is not a bare symbol")
        kind = self.hardware.kind(self.units[0])
        word = self.hardware.architecture.word_size(kind, self.hardware.memory_at(memory).kind)
        for symbol in symbols:
            known = self.symbol_units[symbol]
            if known != word:
                raise CodegenError.at(
                    op.location,
                    f"symbol {symbol} counts words of {known} bytes, but {kind} addresses words of {word}",
                )
        return word, Column(self.table.column(rows))

    def _account(self, op: dataflow.GetLogicalMemoryView, view: View, memories: Sequence[int]) -> None:
        """Remember (and check) how far a view with constant starts reaches."""
        if view.symbolic or any(extent == 0 for extent in view.shape):
            return
        last = view.constant + sum(
            max(0, c * (n - 1)) for c, n in zip(view.coefficients, view.shape, strict=True)
        )
        size = (last + 1) * view.element.storage_bits
        for row, memory in enumerate(memories):
            for start in self._constant_starts(op.start, row):
                end = start * view.start_unit + -(-size // 8)
                target = self.hardware.memory_at(memory)
                if (
                    target.size_bytes
                    and end > target.size_bytes
                    and target.memory_class is not MemoryClass.GLOBAL
                ):
                    raise CodegenError.at(
                        op.location,
                        f"scratchpad '{target.name}' needs {end} bytes but has {target.size_bytes}",
                    )
                self.hardware.use(memory, end)

    def _constant_starts(self, start: Value, row: int, depth: int = 8) -> set[int]:
        """Constants that a start address may be (rotating buffers included, as far as they are seen)."""
        rows = self.rows(start)
        if rows is not None:
            cell = rows[row]
            return {cell} if isinstance(cell, int) else set()
        if not depth:
            return set()
        definer = self.definitions.definer(start)
        if isinstance(definer, arith.SubI):
            whole = constant_integer(self.definitions, definer.operands[0])
            parts = self._constant_starts(definer.operands[1], row, depth - 1)
            return set() if whole is None else {whole - part for part in parts}
        block = self.definitions.defining_block(start)
        owner = None if block is None else self.definitions.owner(block)
        if definer is not None or not isinstance(owner, scf.For) or start not in owner.carried:
            return set()
        position = owner.carried.index(start)
        found = self._constant_starts(owner.inits[position], row, depth - 1)
        toggle = self.definitions.definer(owner.body.block.terminator.operands[position])
        if isinstance(toggle, arith.SubI) and toggle.operands[1] is start:
            whole = constant_integer(self.definitions, toggle.operands[0])
            found |= set() if whole is None else {whole - part for part in found}
        return found

    def memory(self, value: Value, op: Operation) -> tuple[int, ElementType]:
        """The view register and element type of a memref."""
        if value not in self.views:
            raise self.unsupported(op, "a memref that is no logical memory view")
        assert isinstance(value.type, MemRefType)
        return self.views[value], self.element(value.type.element, op)

    def generator(self, generator: AddressGenerator) -> int:
        """Local number of a generator with virtual registers."""
        self.out.generators.append(generator)
        return len(self.out.generators) - 1

    def _load(self, op: agen.VectorLoad) -> None:
        if op.multicast_info is not None:
            raise self.unsupported(op, "multicast")
        view, element = self.memory(op.memory, op)
        self._same_element(op, element, op.vector.type)
        number = self.generator(
            single_access(
                GeneratorKind.LOAD, self, op, op.memory, op.access_map.map, op.indices, op.load_set.set,
                op.load_order.map, element, vc.lanes(op.vector.type),
            )
        )  # fmt: skip
        self.define(op.vector, lambda dst: VectorLoad(dst, view, number))

    def _store(self, op: agen.VectorStore) -> None:
        view, element = self.memory(op.memory, op)
        self._same_element(op, element, op.vector.type)
        number = self.generator(
            single_access(
                GeneratorKind.STORE, self, op, op.memory, op.access_map.map, op.indices, op.store_set.set,
                op.store_order.map, element, vc.lanes(op.vector.type),
            )
        )  # fmt: skip
        self.emit(VectorStore(self.vector(op.vector), view, number))

    def _same_element(self, op: Operation, element: ElementType, type: Type) -> None:
        if self.vector_type(type, op)[0] is not element:
            raise self.unsupported(op, "a vector whose element type is not the memory's")

    def _copy(self, op: agen.CompositeLoadAndStore) -> None:
        if not op.is_plain_copy or op.multicast_info is not None:
            raise self.unsupported(op, "a region that is more than a bare yield, or multicast")
        source, element = self.memory(op.source, op)
        target, other = self.memory(op.target, op)
        if element is not other:
            raise self.unsupported(op, "different element types")
        self._same_element(op, element, op.load_iv.type)
        number = self.generator(build_generator(self, op, element, vc.lanes(op.load_iv.type)))
        self.emit(Dma(source, target, number))

    def _send(self, op: dataflow.Send) -> None:
        direction = 0 if op.direction is None else int(op.direction.value) + 1
        peers = self.peers(op.unit, op)
        self.emit(Send(self.vector(op.data), self.table.column(peers), direction))
        for unit, peer in zip(self.units, peers, strict=True):
            self.hardware.connect(op, self.hardware.unit(unit), peer)

    # -- vectors

    def vector(self, value: Value) -> int:
        """The register of a vector; constants are loaded in the prologue."""
        known = self.vectors.get(value)
        if known is not None:
            return known
        op = self.definitions.definer(value)
        constant: Constant | None = None
        match op:
            case arith.Constant(value=DenseElementsAttr() as dense):
                constant = self._dense(dense, op)
            case vc.ConstantBitstream():
                element, _ = self.vector_type(op.result.type, op)
                if op.is_symbol:
                    raise self.unsupported(op, "a symbolic bit stream")
                constant = Constant.of(element, op.patterns())
            case vc.CreateAffineMask():
                if op.parameter is not None:
                    raise self.unsupported(op, "a parameter")
                lanes = vc.lanes(op.result.type)
                constant = Constant.of(
                    ElementType.I1, [int(op.mask_set.set.contains((lane,))) for lane in range(lanes)]
                )
            case _:
                what = "a block argument" if op is None else f"'{op.name}'"
                raise CodegenError.at(
                    self.place(value), f"{what} gives no vector in program unit {self.label}"
                )
        number = self.pools.constants.intern(constant)
        if number not in self._vector_constants:
            self._vector_constants[number] = register = self.fresh("v")
            self.early(VectorConstant(register, number))
        return self._vector_constants[number]

    def _dense(self, dense: DenseElementsAttr, op: Operation) -> Constant:
        assert isinstance(dense.type, VectorType)
        element, lanes = self.vector_type(dense.type, op)
        data = literal_bytes(dense.data, dense.type.element, self.pools.f16_format)
        return Constant(element, lanes, data * lanes if dense.splat else data)

    def _mask(self, op: Operation) -> int | None:
        mask: Value | None = getattr(op, "mask", None)
        return None if mask is None else self.vector(mask)

    def _vector(self, op: Operation) -> None:
        mask = self._mask(op)
        a, b, c = ([self.vector(v) for v in op.operands if vc.lanes(v.type)] + [0, 0, 0])[:3]
        out = op.results[0]
        element, lanes = self.vector_type(out.type, op)
        match op:
            case vc.Binary():
                if not op.op_specific_map.map.is_identity:
                    raise self.unsupported(op, "unsupported op_specific_map")
                operator = op.binary_op.value
                self.define(out, lambda dst: VectorBinary(operator, dst, a, b, mask))
            case vc.Multiply(reduction_map=reduction) if reduction.map.is_identity:
                from dfsched.image import BinaryOperator

                self.define(out, lambda dst: VectorBinary(BinaryOperator.MUL, dst, a, b, mask))
            case vc.MultiplyAndAccumulate(reduction_map=reduction) if reduction.map.is_identity:
                self.define(out, lambda dst: VectorMultiplyAdd(dst, a, b, c, mask))
            case vc.ElementWiseCompare():
                compare = op.compare_op.value
                self.define(out, lambda dst: VectorCompare(compare, dst, a, b, mask))
            case vc.ElementWiseSelection() if mask is None:
                self.define(out, lambda dst: VectorSelect(dst, a, b, c))
            case vc.Cast() if mask is None:
                self.define(out, lambda dst: VectorCast(dst, a, element, lanes))
            case vc.Shuffle():
                self._shuffle(op, a, mask, element)
            case vc.Rotate():
                amount = self.scalar(op.amount)
                right = op.right_shift is None or bool(op.right_shift.value)
                self.define(out, lambda dst: VectorRotate(dst, a, amount, not right))
            case vc.ScanWithGap():
                scan, gap = op.reduction_op.value, op.gap.value
                left = bool(op.eval_order.value)
                self.define(out, lambda dst: VectorScan(scan, dst, a, gap, left))
            case _ if type(op) in _UNARY:
                unary = _UNARY[type(op)]
                self.define(out, lambda dst: VectorUnary(unary, dst, a, mask))
            case vc.ExpEstimate() | vc.SigmoidEstimate() | vc.TanhEstimate():
                version = _VERSIONED[type(op)][op.version.value]
                self.define(out, lambda dst: VectorUnary(version, dst, a, mask))
            case _:
                raise self.unsupported(op)

    def _shuffle(self, op: vc.Shuffle, source: int, mask: int | None, element: ElementType) -> None:
        variables = tuple(self._bits(value, op) for value in (*op.variables, *op.pads))
        descriptor = ShuffleDescriptor(element, tuple(op.picks()), op.repetition.value, variables, mask)
        self.out.shuffles.append(descriptor)
        number = len(self.out.shuffles) - 1
        self.define(op.result, lambda dst: Shuffle(dst, source, number))

    def _bits(self, value: Value, op: Operation) -> int:
        """The register with the bit pattern of a scalar."""
        match self.definitions.definer(value):
            case arith.Constant(value=FloatAttr(bits=bits, type=type)):
                return self.constant(literal_bits(bits, type, self.pools.f16_format))
            case arith.Constant(value=IntegerAttr(value=number)):
                return self.constant(number)
            case _:
                return self.scalar(value)

    # -- loop-carried vectors

    def carried(self, value: Value) -> int:
        return self.fresh("v") if vc.lanes(value.type) else ScalarEmitter.carried(self, value)

    def carry(self, target: int, value: Value) -> None:
        if vc.lanes(value.type):
            self.emit(VectorMove(target, self.vector(value)))
        else:
            ScalarEmitter.carry(self, target, value)

    def bind(self, value: Value, register: int) -> None:
        (self.vectors if vc.lanes(value.type) else self.scalars)[value] = register

    def hand_over(self, targets: Sequence[int], values: Sequence[Value]) -> None:
        pairs = list(zip(targets, values, strict=True))
        scalars = [(target, value) for target, value in pairs if not vc.lanes(value.type)]
        ScalarEmitter.hand_over(self, [t for t, _ in scalars], [v for _, v in scalars])
        moves = [(target, self.vector(value)) for target, value in pairs if vc.lanes(value.type)]
        for target, source in parallel_copy(moves, self.fresh("v")):
            self.emit(VectorMove(target, source))
