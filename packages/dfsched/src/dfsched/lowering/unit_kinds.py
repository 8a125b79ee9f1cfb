"""Kinds of units of a function: who runs what, who pairs with whom (dataflowir spec 3.3.1, 3.7, 3.8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from dfsched.dialects.dataflow import GetUnit, ProgramUnit
from dfsched.dialects.ktdf_lowering import ExecuteOn, OneWay, Signal
from dfsched.dialects.uniform import DefImmutableMapping, QueryMap
from dfsched.lowering.errors import LoweringError
from ktir.analysis import DefUse
from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.ir import Operation, Value
from ktir.location import Location

__all__ = ["UnitKind", "UnitKinds"]


@frozen(eq=False)
class UnitKind:
    """All units of one kind, in row order."""

    name: str
    units: tuple[GetUnit, ...]
    cores: tuple[int, ...]


@define
class UnitKinds:
    """The unit kinds of one function, in first-seen order."""

    uses: DefUse
    kinds: dict[str, UnitKind] = field(factory=dict)

    @classmethod
    def discover(cls, work: Sequence[Operation], uses: DefUse) -> UnitKinds:
        """Collect kinds from the operands of `execute_on`, inner ones first."""
        found = cls(uses)
        units: dict[str, dict[str, GetUnit]] = {}
        for op in _post_order(work):
            if isinstance(op, ExecuteOn | ProgramUnit):
                for operand in op.units:
                    name, handles = found.resolve(operand, op, f"for unit operand of {op.name}")
                    for handle in handles:
                        units.setdefault(name, {}).setdefault(handle.unit_name.value, handle)
        for name, members in units.items():
            ordered = tuple(members.values())
            cores = []
            for handle in ordered:
                if handle.core is None:
                    raise LoweringError.at(handle.location, "dataflow.get_unit must have 'core' attribute")
                cores.append(handle.core)
            found.kinds[name] = UnitKind(name, ordered, tuple(cores))
        return found

    def resolve(self, operand: Value, op: Operation, what: str) -> tuple[str, list[GetUnit]]:
        """Kind and handles of a unit operand: a handle, or a query over a map of handles."""
        definer = self.uses.definer(operand)
        handles: list[Operation | None] = [definer]
        if isinstance(definer, QueryMap):
            mapping = self.uses.definer(definer.map)
            handles = []
            if isinstance(mapping, DefImmutableMapping):
                handles = [self.uses.definer(value) for value in mapping.values]
        units = [handle for handle in handles if isinstance(handle, GetUnit)]
        if not units or len(units) != len(handles):
            raise LoweringError.at(
                op.location, f"ktdflowering-to-dfir: could not resolve component type {what}"
            )
        return units[0].kind.value.upper(), units

    def runs(self, kind: UnitKind, operands: Sequence[Value]) -> bool:
        """Whether units of a kind are among the operands of an `execute_on`."""
        return any(
            self.resolve(operand, self.uses.root, "for unit operand")[0] == kind.name for operand in operands
        )

    def members(self, kind: UnitKind, operands: Sequence[Value]) -> tuple[bool, ...]:
        """For every unit of a kind, whether it is among some operands of an `execute_on` or a signal."""
        named: set[str] = set()
        for operand in operands:
            name, handles = self.resolve(operand, self.uses.root, "for unit operand")
            if name == kind.name:
                named.update(handle.unit_name.value for handle in handles)
        return tuple(unit.unit_name.value in named for unit in kind.units)

    def partners(self, kind: UnitKind, endpoint: Attribute, location: Location) -> list[Value]:
        """For every unit of `kind`, the handle of the endpoint's kind on the same core and corelet."""
        if not isinstance(endpoint, StringAttr):
            raise LoweringError.at(location, "unsupported FIFO endpoint attribute type")
        name = endpoint.value.upper()
        if name not in self.kinds:
            raise LoweringError.at(location, f"no units found for FIFO component type: {name}")
        return self._partners(kind, self.kinds[name].units, name, location)

    def _partners(
        self, kind: UnitKind, others: Sequence[GetUnit], name: str, location: Location
    ) -> list[Value]:
        """For every unit of `kind`, the one of `others` on the same core and corelet."""
        places: dict[tuple[int | None, int], GetUnit] = {}
        cores: dict[int | None, GetUnit] = {}
        for other in others:
            cores.setdefault(other.core, other)
            places.setdefault((other.core, other.corelet), other)
        found: list[Value] = []
        for own in kind.units:
            core, corelet = own.core, own.corelet
            partner = cores.get(core) if corelet < 0 else places.get((core, corelet), places.get((core, -1)))
            if partner is None:
                raise LoweringError.at(location, f"no unit of kind {name} pairs with {own.unit_name.value}")
            found.append(partner.handles[0])
        return found

    def signal_operands(self, op: Signal | OneWay) -> tuple[Value, ...]:
        """The operands of a signal: queries over maps of handles."""
        if len(op.operands) < 2:
            raise LoweringError.at(op.location, "signal operation must have at least 2 unit operands")
        for operand in op.operands:
            definer = self.uses.definer(operand)
            if not isinstance(definer, QueryMap):
                raise LoweringError.at(op.location, "signal operand must be a uniform.query_map result")
            mapping = self.uses.definer(definer.map)
            if not isinstance(mapping, DefImmutableMapping):
                raise LoweringError.at(op.location, "query_map must reference a def_immutable_mapping")
            if not mapping.values:
                raise LoweringError.at(op.location, "def_immutable_mapping must have at least one value")
        return op.operands

    def signal_peers(self, kind: UnitKind, op: Signal | OneWay) -> list[list[Value]] | None:
        """The peers of a signal for every unit of `kind`: one list (by row) per peer.

        None if the signal does not concern the kind.
        """
        operands = [self.resolve(operand, op, "for unit operand") for operand in self.signal_operands(op)]
        if all(name != kind.name for name, _ in operands):
            return None
        peers: dict[str, list[list[GetUnit]]] = {}
        for name, units in operands:
            if name != kind.name:
                peers.setdefault(name, []).append(units)
        own_corelets = {
            unit.corelet
            for unit, member in zip(kind.units, self.members(kind, op.operands), strict=True)
            if member
        }
        found: list[list[Value]] = []
        for name, groups in peers.items():
            corelets = {unit.corelet for group in groups for unit in group}
            if len(own_corelets) > 1 and len(corelets) > 1 and own_corelets <= corelets:
                flat = [unit for group in groups for unit in group]
                found.append(self._partners(kind, flat, name, op.location))
                continue
            found += [self._on_cores(kind, group, op.location) for group in groups]
        return found

    def _on_cores(self, kind: UnitKind, others: Sequence[GetUnit], location: Location) -> list[Value]:
        """For every unit of `kind`, the first of `others` on the same core."""
        cores: dict[int | None, GetUnit] = {}
        for other in others:
            cores.setdefault(other.core, other)
        found = [cores.get(core) for core in kind.cores]
        if None in found:
            raise LoweringError.at(location, "failed to build query map for signal operand")
        return [other.handles[0] for other in found if other is not None]


def _post_order(operations: Sequence[Operation]) -> Iterator[Operation]:
    for op in operations:
        for region in op.regions:
            for block in region.blocks:
                yield from _post_order(block.operations)
        yield op
