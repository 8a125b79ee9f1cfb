"""Dominance of blocks and values (Cooper, Harvey, Kennedy: iterate over a reverse post-order)."""

from __future__ import annotations

from ktir.analysis.defuse import DefUse
from ktir.ir import Block, Label, Operation, Region, Value
from ktir.opdef import GRAPH_REGION


class Dominance:
    """Which values are available where, below the root of a `DefUse`."""

    def __init__(self, defuse: DefUse) -> None:
        self._defuse = defuse
        self._spans: dict[Region, dict[Block, tuple[int, int]]] = {}
        self._index: dict[Block, dict[Operation, int]] = {}

    def available(self, value: Value, at: Operation) -> bool:
        """Whether `value` may be an operand of `at`: its definition properly dominates the use.

        In a block that nothing reaches every value of the region is available, in any order (as in MLIR).
        """
        home = self._defuse.defining_block(value)
        if home is None:
            return False
        here = self._defuse.block(at)
        if here is home and self._is_unreachable(here):
            return True
        region = self._defuse.region(home)
        user: Operation | None = at
        while user is not None:
            block = self._defuse.block(user)
            if block is None:
                return False
            if self._defuse.region(block) is region:
                return self._dominates_in_region(value, home, user, block, region)
            user = self._defuse.parent(user)
        return False

    def _dominates_in_region(
        self, value: Value, home: Block, user: Operation, block: Block, region: Region
    ) -> bool:
        if self._defuse.owner(home).definition_has(GRAPH_REGION):
            return True
        if home is not block:
            return self.block_dominates(home, block, region)
        definer = self._defuse.definer(value)
        return definer is None or self._position(definer, home) < self._position(user, home)

    def _is_unreachable(self, block: Block) -> bool:
        region = self._defuse.region(block)
        return block is not region.blocks[0] and block not in self._tree(region)

    def _position(self, op: Operation, block: Block) -> int:
        index = self._index.get(block)
        if index is None:
            index = self._index[block] = {inner: i for i, inner in enumerate(block.operations)}
        return index[op]

    def _tree(self, region: Region) -> dict[Block, tuple[int, int]]:
        spans = self._spans.get(region)
        if spans is None:
            spans = self._spans[region] = _tree_spans(immediate_dominators(region))
        return spans

    def block_dominates(self, above: Block, below: Block, region: Region) -> bool:
        """Whether every path to `below` passes `above`; unreachable blocks are dominated by all."""
        spans = self._tree(region)
        if below not in spans:
            return True
        if above not in spans:
            return False
        begin, end = spans[above]
        return begin <= spans[below][0] < end


def _tree_spans(idom: dict[Block, Block]) -> dict[Block, tuple[int, int]]:
    """Number of every block in a pre-order walk of the dominator tree, and the one behind its subtree."""
    children: dict[Block, list[Block]] = {block: [] for block in idom}
    for block, parent in idom.items():
        if parent is not block:
            children[parent].append(block)
    spans: dict[Block, tuple[int, int]] = {}
    count = 0
    stack = [(block, iter(children[block])) for block, parent in idom.items() if parent is block]
    begins = [0] * len(stack)
    while stack:
        block, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            stack.pop()
            spans[block] = (begins.pop(), count + 1)
            continue
        count += 1
        begins.append(count)
        stack.append((following, iter(children[following])))
    return spans


def successors(block: Block, by_label: dict[Label, Block]) -> list[Block]:
    """Blocks that the terminator may branch to."""
    if not block.operations:
        return []
    return [by_label[label] for label in block.operations[-1].successors if label in by_label]


def immediate_dominators(region: Region) -> dict[Block, Block]:
    """Immediate dominator of every reachable block; the entry maps to itself."""
    if not region.blocks:
        return {}
    by_label = {block.label: block for block in region.blocks}
    order = _reverse_post_order(region.blocks[0], by_label)
    number = {block: i for i, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in successors(block, by_label):
            predecessors[successor].append(block)
    entry = order[0]
    idom: dict[Block, Block] = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            done = [p for p in predecessors[block] if p in idom]
            best = done[0]
            for other in done[1:]:
                best = _intersect(best, other, idom, number)
            if idom.get(block) is not best:
                idom[block] = best
                changed = True
    return idom


def _intersect(a: Block, b: Block, idom: dict[Block, Block], number: dict[Block, int]) -> Block:
    while a is not b:
        while number[a] > number[b]:
            a = idom[a]
        while number[b] > number[a]:
            b = idom[b]
    return a


def _reverse_post_order(entry: Block, by_label: dict[Label, Block]) -> list[Block]:
    seen = {entry}
    post: list[Block] = []
    stack = [(entry, iter(successors(entry, by_label)))]
    while stack:
        block, rest = stack[-1]
        following = next((s for s in rest if s not in seen), None)
        if following is None:
            post.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors(following, by_label))))
    return post[::-1]
