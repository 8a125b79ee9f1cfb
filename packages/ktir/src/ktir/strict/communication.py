"""Level S for communication between tiles (KTIR spec 1.13.2, 1.13.7, section 8 item 13)."""

from __future__ import annotations

from collections.abc import Iterator

from ktir.analysis import is_pure
from ktir.attributes import AffineSetAttr
from ktir.dialects import scf
from ktir.dialects.ktdp import Delivery, InterTileProduce
from ktir.errors import Diagnostic, Note, finding
from ktir.ir import Operation, UnregisteredOp, Value
from ktir.opdef import READS, TERMINATOR
from ktir.strict.facts import Facts
from ktir.types import TensorType

__all__ = ["check"]


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """Where inter-tile operations stand, and what they hold."""
    match op:
        case InterTileProduce():
            yield from _partials(op)
            yield from _body(op, reads=True)
        case Delivery():
            yield from _body(op, reads=False)
            yield from _placeholder(op)
            yield from _apart(op, facts)
        case _:
            return
    yield from _surroundings(op, facts)


def _partials(op: InterTileProduce) -> Iterator[Diagnostic]:
    for number, partial in enumerate(op.future_type.partials):
        if not isinstance(partial, TensorType):
            yield finding(
                f"partial type #{number} of the future is {partial}",
                "tiles exchange ranked tensors; a scalar travels as a tensor of rank 0",
            )


def _body(op: Operation, reads: bool) -> Iterator[Diagnostic]:
    """S-IP7: the producer may read memory, a combiner is pure; neither communicates."""
    for inner in (o for region in op.regions for block in region.blocks for o in block.operations):
        for nested in inner.walk():
            if isinstance(nested, InterTileProduce | Delivery):
                yield Diagnostic(
                    f"'{nested.name}' op stands inside the region of '{op.name}'",
                    nested.location,
                    notes=(Note("the region only computes what is exchanged; communicate outside of it"),),
                )
            elif not nested.regions and not _harmless(nested, reads):
                allowed = "read memory, but not write it" if reads else "neither read nor write memory"
                yield Diagnostic(
                    f"'{nested.name}' op has an effect inside the region of '{op.name}'",
                    nested.location,
                    notes=(Note(f"this region may {allowed}"),),
                )


def _harmless(op: Operation, reads: bool) -> bool:
    if isinstance(op, UnregisteredOp):
        return False
    return is_pure(op) or op.definition_has(TERMINATOR) or (reads and op.definition_has(READS))


def _placeholder(op: Delivery) -> Iterator[Diagnostic]:
    match op.producer_dependency_per_consumer:
        case AffineSetAttr(set=set) if set.num_dims != 1:
            yield finding(
                "producer_dependency_per_consumer gives no dependency information",
                f"expected dimension (p) and symbols (c) or (c, g), got {set.num_dims} dimensions",
                "every consumer waits for all producers of its group",
            )


def _apart(op: Delivery, facts: Facts) -> Iterator[Diagnostic]:
    """Between a contribution and its delivery no other delivery may block."""
    produce = facts.defuse.definer(op.future)
    if not isinstance(produce, InterTileProduce):
        return
    block = facts.defuse.block(op)
    if facts.defuse.block(produce) is not block or block is None:
        yield Diagnostic(
            "stands in another block than what produces its future",
            notes=(Note("produced here; both should run equally often", produce.location),),
        )
        return
    begin, end = facts.defuse.position(produce), facts.defuse.position(op)
    for between in block.operations:
        if begin < facts.defuse.position(between) < end and _delivers(between):
            note = Note(
                "this one blocks first; put produce and delivery next to each other", between.location
            )
            yield Diagnostic(
                "another delivery stands between this one and what produces its future", notes=(note,)
            )
            return


def _delivers(op: Operation) -> bool:
    return any(isinstance(inner, Delivery) for inner in op.walk())


def _surroundings(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    for around in facts.defuse.ancestors(op):
        if around.name.startswith("linalg.") or around.name == "tensor.generate":
            yield finding(
                f"communicates inside '{around.name}'",
                "bodies of tensor operations compute single elements; communicate outside",
            )
        if any(value in facts.varying for value in _control(around)):
            note = Note("all tiles of a group must reach it equally often: the others wait", around.location)
            yield Diagnostic(f"runs under an '{around.name}' that depends on the tile id", notes=(note,))


def _control(op: Operation) -> tuple[Value, ...]:
    """The values that decide whether and how often the regions of an operation run."""
    match op:
        case scf.If(condition=condition):
            return (condition,)
        case scf.For(lower=lower, upper=upper, step=step):
            return (lower, upper, step)
        case scf.While(before=before):
            return before.block.terminator.operands[:1]
        case _:
            return ()
