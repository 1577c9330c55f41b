"""All nodes and what is taken of them, kept in buckets of nodes that are alike, so that a decision looks at buckets, not nodes.

An *index* is the fleet as problems of one kind see it, whatever they count. It is made when such a problem is first met, and
then follows the changes: a node that changed moves to another bucket, which costs the same with ten nodes as with ten thousand.
A *view* is an index with the answers to one problem.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from driver.allocator.device_node import DeviceId, DeviceNode, SelectorEngine, Shape, Taken
from driver.allocator.pools import Pool
from driver.allocator.problem import Aspects, Problem
from driver.allocator.search import Found, NodeSearch, NotFound
from driver.allocator.statics import Statics, build_statics
from driver.allocator.taints import Fence

_MOST_INDEXES = 24
"""Each is as large as the fleet has nodes."""
_MOST_VIEWS = 512
"""Each is as large as its index has buckets, and ``_SPARE_ANSWERS`` more."""
_SPARE_ANSWERS = 1000
"""Of a view, to buckets that are no more. GPUs are divided in ever new ways, of which few come again."""
_STEPS_A_DECISION = 30_000
"""Steps of all searches of one decision. What is left is searched when the problem is met again."""
_MOST_CHANGES = 50_000
"""Changes that are remembered for views; one that is further behind is made anew."""

BucketKey = tuple[object, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A device in a claim's allocation. ``consumed`` is of shared devices; admin access holds nothing and is not listed."""

    device: DeviceId
    share_id: str | None = None
    consumed: tuple[tuple[str, Fraction], ...] = ()


class Fleet:
    """Nodes by name with what is taken of them. Not thread-safe: one owner."""

    def __init__(self, engine: SelectorEngine, fence: Fence | None = None) -> None:
        self._engine = engine
        self._fence = fence
        self.nodes: dict[str, DeviceNode] = {}
        self._taken: dict[str, Taken] = {}
        self._holdings: Counter[Holding] = Counter()
        self._of_pool: dict[tuple[str, str], set[Holding]] = {}
        self._node_of_pool: dict[tuple[str, str], str] = {}
        self._shapes: dict[Shape, int] = {}
        self._changes: list[str] = []
        self._forgotten = 0
        self._indexes: OrderedDict[Aspects, Index] = OrderedDict()
        self._views: OrderedDict[Problem, View] = OrderedDict()

    def set_node(self, name: str, pools: Sequence[Pool], *, is_whole: bool = True) -> None:
        """The pools of a node are now these; none at all takes the node out. What is held of them stays held.

        ``is_whole`` is False where another pool of the node is left out: nobody can then say what "all devices" are.
        """
        old = self.nodes.pop(name, None)
        for id_ in old.ids if old is not None else ():
            self._node_of_pool.pop((id_.driver, id_.pool), None)
        if pools:
            self.nodes[name] = DeviceNode(name, pools, self._engine, self._fence)
            self.nodes[name].is_whole = is_whole
            self._node_of_pool.update({(pool.driver, pool.name): name for pool in pools})
        self._refresh(name)

    def hold(self, holdings: Iterable[Holding]) -> None:
        """A claim has these devices. Devices that no pool has are remembered for when one does."""
        for holding in holdings:
            self._holdings[holding] += 1
            self._of_pool.setdefault(holding.device[:2], set()).add(holding)
            self._touch(holding)

    def release(self, holdings: Iterable[Holding]) -> None:
        """A claim has these devices no longer."""
        for holding in holdings:
            self._holdings[holding] -= 1
            if self._holdings[holding] <= 0:
                del self._holdings[holding]
                pool = holding.device[:2]
                self._of_pool[pool].discard(holding)
                if not self._of_pool[pool]:
                    del self._of_pool[pool]
            self._touch(holding)

    @property
    def version(self) -> int:
        """Another number after every change."""
        return self._forgotten + len(self._changes)

    def taken(self, name: str) -> Taken:
        """What is taken of a node."""
        return self._taken[name]

    def node_of(self, device: DeviceId) -> str | None:
        """The node whose pool the device is named in, None where no node has such a pool."""
        return self._node_of_pool.get((device.driver, device.pool))

    def shape_id(self, shape: Shape) -> int:
        """A number for a shape, the same for equal ones."""
        return self._shapes.setdefault(shape, len(self._shapes))

    def view(self, problem: Problem) -> View:
        """The fleet as this problem sees it, up to date. A new decision begins."""
        view = self._views.get(problem)
        if view is None or view.index is not self._indexes.get(view.aspects):
            view = self._views[problem] = View(problem, self._index(problem.aspects()))
            _trim(self._views, _MOST_VIEWS)
        self._views.move_to_end(problem)
        self._indexes.move_to_end(view.aspects)
        view.index.follow(self._changes_since(view.index.seen))
        view.index.seen = self.version
        view.steps = 0
        return view

    def _index(self, aspects: Aspects) -> Index:
        index = self._indexes.get(aspects)
        if index is None:
            index = self._indexes[aspects] = Index(self, aspects)
            _trim(self._indexes, _MOST_INDEXES)
        return index

    def _changes_since(self, seen: int) -> Iterable[str]:
        if seen < self._forgotten:
            return list(self.nodes)
        return dict.fromkeys(self._changes[seen - self._forgotten :])

    def _touch(self, holding: Holding) -> None:
        name = self._node_of_pool.get(holding.device[:2])
        if name is not None:
            self._refresh(name)

    def _refresh(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is None:
            self._taken.pop(name, None)
        else:
            self._taken[name] = self._count_taken(node)
        self._changes.append(name)
        if len(self._changes) > _MOST_CHANGES:
            half = len(self._changes) // 2
            del self._changes[:half]
            self._forgotten += half

    def _count_taken(self, node: DeviceNode) -> Taken:
        taken = Taken()
        for pool in {id_[:2] for id_ in node.ids}:
            for holding in self._of_pool.get(pool, ()):
                at = node.positions.get(holding.device)
                if at is None:
                    continue
                if holding.share_id is None:
                    taken.mask |= 1 << at
                else:
                    drawn = taken.shares.setdefault(at, {})
                    for name, amount in holding.consumed:
                        drawn[name] = drawn.get(name, Fraction(0)) + amount * self._holdings[holding]
        return taken


class Index:
    """The nodes in buckets, as problems of one kind see them. In a bucket every node has the same answer to each of them."""

    def __init__(self, fleet: Fleet, aspects: Aspects) -> None:
        self._fleet = fleet
        self._aspects = aspects
        self.seen = -1
        self._statics: dict[str, tuple[DeviceNode, int]] = {}
        self._numbers: dict[Statics, int] = {}
        self._known: list[Statics] = []
        self._buckets: dict[BucketKey, list[str]] = {}
        self._key_of: dict[str, BucketKey] = {}

    def follow(self, changed: Iterable[str]) -> None:
        """Move the nodes that changed to where they belong."""
        for name in changed:
            old = self._key_of.pop(name, None)
            if old is not None:
                self._leave(old, name)
            node = self._fleet.nodes.get(name)
            if node is None:
                self._statics.pop(name, None)
                continue
            key = (self._number(name, node), *self._fleet.taken(name).key())
            insort(self._buckets.setdefault(key, []), name)
            self._key_of[name] = key

    def buckets(self) -> Iterator[tuple[BucketKey, Sequence[str]]]:
        """Each bucket with its nodes in order of name."""
        yield from self._buckets.items()

    def __len__(self) -> int:
        """How many buckets there are."""
        return len(self._buckets)

    def __contains__(self, key: BucketKey) -> bool:
        """Whether there is such a bucket now."""
        return key in self._buckets

    def key_of(self, name: str) -> BucketKey | None:
        """The bucket of a node, None where the fleet has no such node."""
        return self._key_of.get(name)

    def statics(self, key: BucketKey) -> Statics:
        """What such problems find on the nodes of a bucket."""
        number = key[0]
        return self._known[number if isinstance(number, int) else 0]

    def taken(self, name: str) -> Taken:
        """What is taken of a node."""
        return self._fleet.taken(name)

    def _number(self, name: str, node: DeviceNode) -> int:
        known = self._statics.get(name)
        if known is not None and known[0] is node:
            return known[1]
        statics = build_statics(node, self._fleet.shape_id(node.shape), self._aspects)
        number = self._numbers.setdefault(statics, len(self._known))
        if number == len(self._known):
            self._known.append(statics)
        self._statics[name] = (node, number)
        return number

    def _leave(self, key: BucketKey, name: str) -> None:
        names = self._buckets[key]
        del names[bisect_left(names, name)]
        if not names:
            del self._buckets[key]


class View:
    """The buckets of an index with one problem's answers, which are kept: equal buckets come again."""

    def __init__(self, problem: Problem, index: Index) -> None:
        self.problem = problem
        self.aspects = problem.aspects()
        self.index = index
        self.steps = 0
        """Of this decision's searches."""
        self._answers: dict[BucketKey, Found | NotFound] = {}

    def answer(self, key: BucketKey, name: str) -> Found | NotFound:
        """The best placement on the nodes of a bucket; ``name`` is one of them."""
        known = self._answers.get(key)
        if known is None:
            if self.steps >= _STEPS_A_DECISION:
                return NotFound(is_proved=False)
            search = NodeSearch(self.problem, self.index.statics(key), self.index.taken(name))
            known = self._answers[key] = search.run()
            self.steps += search.steps
            if len(self._answers) > 2 * len(self.index) + _SPARE_ANSWERS:
                self._answers = {each: answer for each, answer in self._answers.items() if each in self.index}
        return known


def _trim(kept: OrderedDict[Key, Value], most: int) -> None:
    if len(kept) > most:
        kept.popitem(last=False)
