"""What is known of the cluster, kept in step with changes; owns the allocator's fleet. Not thread-safe: one owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from driver.allocator.cel_engine import CelEngine
from driver.allocator.fleet import Fleet, Holding
from driver.allocator.pools import Pool, PoolLeftOut
from driver.allocator.taints import Fence
from driver.api.fence import ALLOCATOR_KEY, CONTROLLER
from driver.api.resource_v1 import ResourceSlice
from driver.controller.books.change_log import ChangeLog
from driver.controller.books.claims import ClaimBook, Reservation
from driver.controller.books.classes import ClassBook
from driver.controller.books.demands import Demand, DemandBook
from driver.controller.books.effort import Effort
from driver.controller.books.judge import Judge
from driver.controller.books.node_room import NodeRooms
from driver.controller.books.pods import PodBook, list_claim_names
from driver.controller.books.pools import PoolBook
from driver.controller.books.reach import Reach
from driver.controller.books.volumes import PersistentVolume, VolumeClaim, Volumes
from driver.controller.objects.model import Claim, DeviceClass, Node, Pod
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.kube.changes import Change, ChangeKind

DEFAULT_SCHEDULERS = frozenset({"default-scheduler"})


class Cluster:
    """The mirror.

    ``version`` is another number after each change that a decision may depend on; ``changed_since`` says on which nodes, and
    ``terms`` counts the changes that concern more than some nodes: of classes, of volumes that were asked for.
    """

    def __init__(self, driver: str, *, schedulers: frozenset[str] = DEFAULT_SCHEDULERS) -> None:
        self.driver = driver
        self.engine = CelEngine()
        self.effort = Effort(self.engine)
        self.fleet = Fleet(self.engine, Fence(key=ALLOCATOR_KEY, value=CONTROLLER))
        self.classes = ClassBook()
        self.rooms = NodeRooms()
        self.volumes = Volumes()
        self.pod_book = PodBook(schedulers)
        self.claim_book = ClaimBook(driver, self.fleet)
        self._pool_book = PoolBook(driver, self.fleet)
        self.demand_book = DemandBook(self.pod_book, self.claim_book)
        self._nodes: dict[str, Node] = {}
        self._log = ChangeLog()
        self.devices_log = ChangeLog()
        """Nodes whose devices are others now, whatever is taken of them."""
        self.nodes: Mapping[str, Node] = MappingProxyType(self._nodes)
        """By name."""
        reach = Reach(self.fleet, self.engine, self.devices_log, self.effort)
        self.judge = Judge(driver, self.classes, self.engine, reach, self.effort)

    @property
    def version(self) -> int:
        """Another after each change that a decision may depend on."""
        return self._log.version + self.terms

    @property
    def terms(self) -> int:
        """Another after each change that may concern every node."""
        return self.classes.version + self.volumes.version

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Those with claims, by uid."""
        return self.pod_book.by_uid

    @property
    def claims(self) -> Mapping[str, Claim]:
        """All, by uid."""
        return self.claim_book.by_uid

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Those that can be allocated from, by name, with the taints of rules."""
        return self._pool_book.pools

    @property
    def pools_left_out(self) -> Mapping[str, PoolLeftOut]:
        """Those that nothing can be allocated from now, by name."""
        return self._pool_book.left_out

    def note_pod(self, change: Change[Pod]) -> None:
        """A pod came, changed or went."""
        uid = change.item.metadata.uid
        if self.pod_book.note(change):
            self.demand_book.touch((uid,))
        if change.kind is ChangeKind.DELETED:
            self._log.add(self.rooms.drop(uid))
        else:
            self._expect(change.item)

    def note_node(self, change: Change[Node]) -> None:
        """A node came, changed or went."""
        node = change.item
        name = node.metadata.name
        known = self._nodes.get(name)
        if change.kind is ChangeKind.DELETED:
            if known is None or known.metadata.uid != node.metadata.uid:
                return
            del self._nodes[name]
            self.rooms.drop_node(name)
        else:
            self._nodes[name] = node
            if known is not None and _is_same(known, node):
                return
            self.rooms.set_node(name, node.status.allocatable)
        self._log.add((name,))

    def note_claim(self, change: Change[Claim]) -> None:
        """A claim came, changed or went. What is older than a write of ours (``note_written``) is passed over."""
        self._note_claim(change.item, self.claim_book.note(change))

    def note_written(self, claim: Claim) -> None:
        """What the server answered to a write of ours: newer than what the watch has told so far."""
        self._note_claim(claim, self.claim_book.note_written(claim))

    def note_slice(self, change: Change[ResourceSlice]) -> None:
        """A slice came, changed or went."""
        self._note_devices(self._pool_book.note_slice(change))

    def note_class(self, change: Change[DeviceClass]) -> None:
        """A DeviceClass came, changed or went."""
        self.classes.note(change)

    def note_rule(self, change: Change[DeviceTaintRule]) -> None:
        """A DeviceTaintRule came, changed or went."""
        self._note_devices(self._pool_book.note_rule(change))

    def note_volume_claim(self, change: Change[VolumeClaim]) -> None:
        """A PersistentVolumeClaim came, changed or went."""
        if change.kind is ChangeKind.DELETED:
            self.volumes.drop_claim(change.item)
        else:
            self.volumes.set_claim(change.item)

    def note_volume(self, change: Change[PersistentVolume]) -> None:
        """A PersistentVolume came, changed or went."""
        if change.kind is ChangeKind.DELETED:
            self.volumes.drop_volume(change.item)
        else:
            self.volumes.set_volume(change.item)

    def reserve(self, claim_uid: str, holdings: Sequence[Holding], node: str) -> None:
        """Decided, not yet seen in the API. Ends when the claim is seen with an allocation, or goes, or with ``cancel``."""
        changed = self.claim_book.reserve(claim_uid, Reservation(holdings=tuple(holdings), node=node))
        self._note_claim(self.claims.get(claim_uid), changed)

    def cancel(self, claim_uid: str) -> None:
        """The write failed: the devices are free again."""
        self._note_claim(self.claims.get(claim_uid), self.claim_book.cancel(claim_uid))

    def demands(self) -> Sequence[Demand]:
        """What waits, in order of priority, then age."""
        return self.demand_book.in_order()

    def demand_of(self, pod_uid: str) -> Demand | None:
        """The demand that a pod is part of."""
        return self.demand_book.of_pod(pod_uid)

    def users(self, claim: Claim) -> tuple[Pod, ...]:
        """The pods that use a claim: that name it, or that it was made for."""
        uids = self.pod_book.users(claim.metadata.key)
        return tuple(self.pods[uid] for uid in uids)

    def changed_since(self, version: int) -> frozenset[str] | None:
        """The nodes that changed since ``log_version`` was this; None where that is not known any more: all may have."""
        return self._log.since(version)

    @property
    def log_version(self) -> int:
        """For ``changed_since``."""
        return self._log.version

    def _note_claim(self, claim: Claim | None, changed: Iterable[str]) -> None:
        self._log.add(changed)
        if claim is None:
            return
        users = self.pod_book.users(claim.metadata.key)
        self.demand_book.touch(users)
        for uid in users:
            self._expect(self.pods[uid])

    def _note_devices(self, nodes: frozenset[str]) -> None:
        self._log.add(nodes)
        self.devices_log.add(nodes)

    def _expect(self, pod: Pod) -> None:
        """A pod that waits takes room where its claims are allocated: it will be bound there, or not at all."""
        expected = None
        if not pod.spec.node_name and pod.spec.resource_claims:
            expected = next(self._list_nodes(pod), None)
        self._log.add(self.rooms.note_pod(pod, expected))

    def _list_nodes(self, pod: Pod) -> Iterator[str]:
        """The nodes to which claims of the pod tie it."""
        for _, key in list_claim_names(pod):
            claim = None if key is None else self.claim_book.find(*key)
            node = None if claim is None else self.claim_book.node_of(claim)
            if node is not None:
                yield node


def _is_same(known: Node, node: Node) -> bool:
    """True where nothing is new that a pod's place depends on."""
    return (known.spec, known.status, known.metadata.labels) == (node.spec, node.status, node.metadata.labels)
