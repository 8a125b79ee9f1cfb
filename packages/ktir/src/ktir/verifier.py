"""The verifier: structural rules from the declarations, then each operation's own (level V)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ktir.analysis import DefUse, Dominance, Use
from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr, IntegerAttr
from ktir.errors import Diagnostic, KtirError, Note, VerifyError, finding
from ktir.ir import Block, BlockArgument, Label, Operation, Region, UnregisteredOp, Value, symbol_name
from ktir.location import Location
from ktir.opdef import (
    GRAPH_REGION,
    ISOLATED,
    NO_TERMINATOR,
    OPERAND_SEGMENTS,
    OPTIONAL_BODY,
    RESULT_SEGMENTS,
    SINGLE_BLOCK,
    SYMBOL,
    SYMBOL_TABLE,
    TERMINATOR,
    Arity,
    AttributeDef,
    OpDef,
    OperandDef,
    ResultDef,
)
from ktir.types import I64, IntegerType


class Verifier:
    """Verifies one module; handed to `Operation.verify_op` for questions about the surroundings."""

    def __init__(self, module: Operation) -> None:
        self.module = module
        self.defuse = DefUse(module)
        self.dominance = Dominance(self.defuse)
        self._targets: dict[Region, dict[Label, Block]] = {}
        self._malformed: set[Operation] = set()
        self._implied: dict[type[Operation], str] = {}
        from ktir.dialects import DISCARDABLE_CHECKS

        self._discardable = DISCARDABLE_CHECKS

    # Questions that `verify_op` may ask.

    def parent(self, op: Operation) -> Operation | None:
        """The operation whose region holds `op`."""
        return self.defuse.parent(op)

    def ancestor(self, op: Operation, name: str) -> Operation | None:
        """The nearest operation around `op` with the given name."""
        return next((a for a in self.defuse.ancestors(op) if a.name == name), None)

    def definer(self, value: Value) -> Operation | None:
        """The operation that defines `value`, None for block arguments."""
        return self.defuse.definer(value)

    def uses(self, value: Value) -> tuple[Use, ...]:
        """All uses in program order."""
        return self.defuse.uses(value)

    def symbol(self, at: Operation, name: str) -> Operation | None:
        """The operation that a symbol names, seen from `at`."""
        return self.defuse.symbol(at, name)

    def target(self, op: Operation, label: Label) -> Block | None:
        """The block of a label in the region that holds `op`."""
        home = self.defuse.block(op)
        if home is None:
            return None
        region = self.defuse.region(home)
        blocks = self._targets.get(region)
        if blocks is None:
            blocks = self._targets[region] = {block.label: block for block in region.blocks}
        return blocks.get(label)

    # The work.

    def diagnostics(self) -> list[Diagnostic]:
        """Everything that is wrong, in program order."""
        found: list[Diagnostic] = []
        for op in self.module.walk():
            found += self._operation(op)
        return found

    def _operation(self, op: Operation) -> Iterator[Diagnostic]:
        clean = True
        for item in self._structure(op):
            clean = False
            yield _located(op, item)
        for item in self._operands_available(op):
            clean = False
            yield _located(op, item)
        if not clean or isinstance(op, UnregisteredOp):
            return
        if self._malformed and not self._malformed.isdisjoint(self.defuse.ancestors(op)):
            return  # the rules of an operation may ask for what is around it
        for trait in sorted(op.definition.traits, key=lambda t: t.name):
            if trait.verify is not None:
                for problem in trait.verify(op, self):
                    yield _located(op, problem)
        check = self._discardable.get(op.name)
        if check is not None:
            for finding in check(op):
                yield _located(op, finding)
        try:
            for finding in op.verify_op(self):
                yield _located(op, finding)
        except KtirError as error:  # a helper refused the operation: that is a finding, not a crash
            yield _located(op, str(error))

    def _structure(self, op: Operation) -> Iterator[str | Diagnostic]:
        for region in op.regions:
            for block in region.blocks:
                yield from self._block(op, block)
        yield from self._successors(op)
        if isinstance(op, UnregisteredOp):
            return
        definition = op.definition
        for message in malformations(op):
            self._malformed.add(op)
            yield message
        parent = self.parent(op)
        if definition.parents and (parent is None or parent.name not in definition.parents):
            names = ", ".join(definition.parents)
            yield finding(
                f"expects parent op {'to be one of ' if len(definition.parents) > 1 else ''}'{names}'",
                "it stands at the top level" if parent is None else f"it stands in '{parent.name}'",
            )
        if definition.has(SYMBOL) and "sym_name" in op.attributes and symbol_name(op) is None:
            yield finding("requires string attribute 'sym_name'", 'for example sym_name = "kernel"')
        if definition.has(SYMBOL_TABLE):
            yield from _symbols_unique(op)

    def _successors(self, op: Operation) -> Iterator[Diagnostic]:
        if not op.successors:
            return
        home = self.defuse.block(op)
        if home is None or home.operations[-1] is not op:
            yield finding(
                "with block successors must terminate its parent block",
                "what stands behind it would never run; move it to a block of its own",
            )
        for label in op.successors:
            block = self.target(op, label)
            if block is None:
                yield finding(
                    "branching to block of a different region",
                    "values leave a region through its terminator only",
                )
            elif block is self.defuse.region(block).blocks[0]:
                yield finding(
                    "entry block of region may not have predecessors",
                    "put a block in front that branches to this one",
                )

    def _block(self, op: Operation, block: Block) -> Iterator[str | Diagnostic]:
        for inner in block.operations[:-1]:
            if inner.definition_has(TERMINATOR):
                last = block.operations[-1]
                yield Diagnostic(
                    f"'{inner.name}' op must be the last operation in the parent block",
                    inner.location,
                    notes=(Note(f"the last operation is this '{last.name}'", last.location),),
                )
        if isinstance(op, UnregisteredOp) or op.definition.has(NO_TERMINATOR):
            return
        if not block.operations:
            if op.definition.has(GRAPH_REGION):
                return
            yield finding("expects a non-empty block", "a block ends in a terminator")
            return
        last = block.operations[-1]
        implied = self._implied_terminator(op)
        if not last.definition_has(TERMINATOR) and not isinstance(last, UnregisteredOp):
            yield Diagnostic(
                "block with no terminator",
                last.location,
                notes=(Note(f"the block belongs to '{op.name}'; its last operation is '{last.name}'"),),
            )

        elif implied is not None and last.name != implied:
            yield Diagnostic(
                f"'{op.name}' op expects regions to end with '{implied}', found '{last.name}'",
                last.location,
                notes=(Note(f"in custom textual format, the absence of terminator implies '{implied}'"),),
            )

    def _implied_terminator(self, op: Operation) -> str | None:
        """The name of the terminator that the text may leave out; no other may end a block of `op`."""
        build = op.definition.implicit_terminator
        if build is None or any(len(region.blocks) > 1 for region in op.regions):
            return None
        kind = type(op)
        if kind not in self._implied:
            self._implied[kind] = build().name
        return self._implied[kind]

    def _operands_available(self, op: Operation) -> Iterator[str | Diagnostic]:
        for number, operand in enumerate(op.operands):
            if self.defuse.is_in_front(operand, op):
                continue
            if not self.defuse.is_defined(operand):
                yield finding(
                    f"operand #{number} is not defined in this module",
                    "its operation was left out, or belongs to another module",
                )
            elif not self.dominance.available(operand, op):
                note = Note("the value is defined here", self._place(operand))
                yield Diagnostic(f"operand #{number} does not dominate this use", op.location, notes=(note,))
            elif self._crosses_isolation(operand, op):
                note = Note("defined here; a function takes values as arguments only", self._place(operand))
                message = f"using value defined outside the region: operand #{number}"
                yield Diagnostic(message, notes=(note,))

    def _place(self, value: Value) -> Location | None:
        definer = self.defuse.definer(value)
        if definer is not None:
            return definer.location
        return value.location if isinstance(value, BlockArgument) else None

    def _crosses_isolation(self, value: Value, op: Operation) -> bool:
        home = self.defuse.defining_block(value)
        assert home is not None
        owner = self.defuse.owner(home)
        for ancestor in self.defuse.ancestors(op):
            if ancestor is owner:
                return False
            if ancestor.definition_has(ISOLATED):
                return True
        return False


def _located(op: Operation, finding: str | Diagnostic) -> Diagnostic:
    if isinstance(finding, Diagnostic):
        if finding.location is not None:
            return finding
        message = f"'{op.name}' op {finding.message}"
        return Diagnostic(message, op.location, finding.severity, finding.notes)
    return Diagnostic(f"'{op.name}' op {finding}", op.location)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def malformations(op: Operation) -> Iterator[Diagnostic]:
    """What is wrong with an operation by itself, from its declaration: counts, types, attributes, regions.

    Without a finding, the typed accessors of the operation's class can be used.
    """
    if isinstance(op, UnregisteredOp):
        return
    definition = op.definition
    if definition.is_plain and _fits_plainly(op, definition):
        if definition.attributes:
            yield from _attributes(op, definition)
        return
    for noun, name, apart, groups, values, bounds_of in (
        (
            "operand",
            OPERAND_SEGMENTS,
            definition.operand_segments,
            definition.operands,
            op.operands,
            definition.operand_bounds,
        ),
        (
            "result",
            RESULT_SEGMENTS,
            definition.result_segments,
            definition.results,
            op.results,
            definition.result_bounds,
        ),
    ):
        segments = op.attributes.get(name) if apart else None
        wrong = tuple(_segments(noun, name, len(groups), segments)) if apart else ()
        yield from wrong or _groups(noun, groups, values, partial(bounds_of, len(values), segments))
    yield from _attributes(op, definition)
    if len(op.successors) != definition.successors:
        yield finding(
            f"requires {_plural(definition.successors, 'successor')} but found {len(op.successors)}",
            "successors are the blocks it branches to",
        )
    fixed = sum(not d.variadic for d in definition.regions)
    loose = fixed != len(definition.regions)
    if len(op.regions) < fixed or (not loose and len(op.regions) != fixed):
        yield finding(
            f"requires {'at least ' if loose else ''}{_plural(fixed, 'region')}",
            f"got {len(op.regions)}: {', '.join(d.name for d in definition.regions) or 'none'} expected",
        )
    if definition.has(SINGLE_BLOCK):
        for number, region in enumerate(op.regions):
            if len(region.blocks) > 1:
                yield finding(
                    f"expects region #{number} to have 0 or 1 blocks",
                    f"got {len(region.blocks)}; branches between blocks belong into functions",
                )
            if not region.blocks and number == 0 and not definition.has(OPTIONAL_BODY):
                yield finding(
                    "region #0 failed to verify constraint: region with 1 blocks",
                    "write a block with its terminator between the braces",
                )


def _fits_plainly(op: Operation, definition: OpDef) -> bool:
    """Whether a plain operation has the declared numbers of everything, and values of declared types."""
    operands, results = op.operands, op.results
    return (
        len(operands) == len(definition.operands)
        and len(results) == len(definition.results)
        and not op.regions
        and not op.successors
        and not definition.has(SINGLE_BLOCK)
        and all(d.constraint.accepts(v.type) for d, v in zip(definition.operands, operands, strict=True))
        and all(d.constraint.accepts(v.type) for d, v in zip(definition.results, results, strict=True))
    )


def well_formed(op: Operation) -> bool:
    """Whether `malformations` finds nothing."""
    return next(malformations(op), None) is None


def _segments(noun: str, name: str, groups: int, segments: Attribute | None) -> Iterator[Diagnostic]:
    """What is wrong with the attribute that tells groups apart."""
    match segments:
        case DenseArrayAttr(element=IntegerType(width=32), values=values) if len(values) == groups:
            return
        case DenseArrayAttr(element=IntegerType(width=32), values=values):
            yield finding(
                f"'{name}' attribute for specifying {noun} segments must have {groups} elements, but got "
                f"{len(values)}",
                f"one number for each group of {noun}s",
            )
        case None:
            return  # reported where the counts fit no assignment
        case _:
            yield finding(
                f"attribute '{name}' failed to satisfy constraint: i32 dense array attribute",
                f"expected array<i32: ...>, got {segments}",
            )


def _groups(
    noun: str,
    groups: Sequence[OperandDef | ResultDef],
    values: Sequence[Value],
    bounds_of: Callable[[], tuple[tuple[int, int], ...]],
) -> Iterator[Diagnostic]:
    try:
        bounds = bounds_of()
    except ValueError as error:
        yield finding(_wrong_count(noun, groups, len(values)) or str(error), _declared(noun, groups))
        return
    for group, (start, end) in zip(groups, bounds, strict=True):
        for number in range(start, end):
            value = values[number]
            if not group.constraint.accepts(value.type):
                loose = "variadic of " if group.arity is Arity.VARIADIC else ""
                wanted = loose + group.constraint.description
                yield finding(
                    f"{noun} #{number} must be {wanted}, but got '{value.type}'",
                    f"{noun} #{number} is '{group.name}'; {_declared(noun, groups)}",
                )


def _wrong_count(noun: str, groups: Sequence[OperandDef | ResultDef], count: int) -> str | None:
    """MLIR's words for a number of values that fits no assignment; None if something else is wrong."""
    fixed = sum(group.arity is Arity.ONE for group in groups)
    if len(groups) != fixed:
        return f"expected {fixed} or more {noun}s, but found {count}" if count < fixed else None
    match fixed:
        case 0:
            return f"requires zero {noun}s"
        case 1:
            return "requires a single operand" if noun == "operand" else "requires one result"
        case _:
            return f"expected {fixed} {noun}s, but found {count}"


def _declared(noun: str, groups: Sequence[OperandDef | ResultDef]) -> str:
    """The declared groups, for notes."""
    marks = {Arity.ONE: "", Arity.OPTIONAL: "?", Arity.VARIADIC: "..."}
    listed = ", ".join(f"{group.name}{marks[group.arity]}" for group in groups)
    return f"{noun}s are ({listed})"


def _attributes(op: Operation, definition: OpDef) -> Iterator[Diagnostic]:
    for declared in definition.attributes:
        value = op.attributes.get(declared.name)
        if value is None:
            if declared.required:
                yield finding(f"requires attribute '{declared.name}'", f"it is {_kind(declared)}")
            continue
        kinds = declared.kind if isinstance(declared.kind, tuple) else (declared.kind,)
        if not isinstance(value, kinds):
            wanted = declared.description or " or ".join(kind.__name__ for kind in kinds)
            yield finding(
                f"attribute '{declared.name}' failed to satisfy constraint: {wanted}",
                f"expected {_kind(declared)}, got {value}",
            )
        elif isinstance(value, IntegerAttr) and declared.value_type not in (None, value.type):
            wanted = f"{declared.value_type} attribute"
            if isinstance(declared.value_type, IntegerType):
                wanted = f"{declared.value_type.width}-bit signless integer attribute"
            yield finding(
                f"attribute '{declared.name}' failed to satisfy constraint: {wanted}",
                f"expected {value.value} : {declared.value_type}, got {value}",
            )
        elif declared.only is not None and not declared.only.accepts(value):
            yield finding(
                f"attribute '{declared.name}' failed to satisfy constraint: {declared.only.text}",
                f"got {value}",
            )
        elif (
            isinstance(value, DenseArrayAttr)
            and DenseArrayAttr in kinds  # an attribute of any kind may be an array of any element type
            and value.element != (declared.value_type or I64)
        ):
            wanted = f"{declared.value_type or I64} dense array attribute"
            yield finding(
                f"attribute '{declared.name}' failed to satisfy constraint: {wanted}",
                f"expected array<{declared.value_type or I64}: ...>, got {value}",
            )


def _kind(declared: AttributeDef) -> str:
    """What an attribute may be, in words, for notes."""
    kinds = declared.kind if isinstance(declared.kind, tuple) else (declared.kind,)
    return " or ".join(kind.example or f"#{kind.mnemonic}<...>" for kind in kinds)


def _symbols_unique(op: Operation) -> Iterator[Diagnostic]:
    for region in op.regions:
        for block in region.blocks:
            seen: dict[str, Operation] = {}
            for inner in block.operations:
                name = symbol_name(inner)
                if name is None:
                    continue
                if name in seen:
                    yield Diagnostic(
                        f"redefinition of symbol named '{name}'",
                        inner.location,
                        notes=(Note("see existing symbol definition here", seen[name].location),),
                    )
                else:
                    seen[name] = inner


def collect(module: Operation) -> tuple[Diagnostic, ...]:
    """All diagnostics of a module, without raising."""
    return tuple(Verifier(module).diagnostics())


def verify(module: Operation) -> None:
    """Raise `ktir.VerifyError` with every diagnostic if the module breaks a rule of level V."""
    errors = tuple(d for d in collect(module) if d.severity == "error")
    if errors:
        raise VerifyError(errors)


__all__ = ["Verifier", "collect", "malformations", "verify", "well_formed"]
