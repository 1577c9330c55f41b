"""What every node has left for pods, kept in step with pods and nodes.

Three kinds of pods take room: those that are *bound*; those that we *expect*, because their devices are allocated there and
kube-scheduler has not bound them yet; and those that kube-scheduler has *nominated* for the node, which count for pods of equal
or lower priority (R32). Pods that have ended take none.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from driver.controller.objects.life import ENDED
from driver.controller.objects.model import Pod
from driver.controller.objects.pod_use import CPU, PODS, HostPort, PodUse, build_capacity, build_pod_use

_ANY = "0.0.0.0"
_NOTHING: Mapping[str, int] = {}
_MOST_SHARED = 4096


class Standing(enum.Enum):
    """Why a pod counts on a node."""

    BOUND = "bound"
    EXPECTED = "expected"
    NOMINATED = "nominated"


class Shortage(NamedTuple):
    """Something that is not left in the amount that is asked for, in the units of ``PodUse``."""

    resource: str
    need: int
    left: int
    capacity: int


class _Stay(NamedTuple):
    node: str
    use: PodUse
    standing: Standing


class NodeRoom:
    """One node's room. What is bound is summed up; what is only coming is few, and is looked through."""

    __slots__ = ("_addresses", "_coming", "_pods", "_used", "capacity")

    def __init__(self, capacity: Mapping[str, int] = _NOTHING) -> None:
        self.capacity = capacity
        self._used: dict[str, int] = {}
        self._pods = 0
        self._addresses: dict[tuple[str, int], list[str]] | None = None
        self._coming: dict[str, _Stay] | None = None

    def add(self, uid: str, stay: _Stay) -> None:
        """The pod counts from now on."""
        if stay.standing is Standing.BOUND:
            self._count(stay.use, 1)
        else:
            self._coming = {**(self._coming or {}), uid: stay}

    def remove(self, uid: str, stay: _Stay) -> None:
        """The pod counts no longer."""
        if stay.standing is Standing.BOUND:
            self._count(stay.use, -1)
        else:
            self._coming = {key: value for key, value in (self._coming or {}).items() if key != uid} or None

    def list_shortages(self, ask: PodUse, pods: int, but: Container[str]) -> list[Shortage]:
        """What is not there for ``pods`` pods that ask for this together. Pods in ``but`` do not count: they are the ones."""
        coming = [] if self._coming is None else list(self._others(ask.priority, but))
        found = []
        count = self._pods + len(coming)
        places = self.capacity.get(PODS, 0)
        if count + pods > places:
            found.append(Shortage(PODS, pods, max(0, places - count), places))
        for name, need in ask.requests:
            capacity = self.capacity.get(name, 0)
            left = capacity - self._used.get(name, 0)
            if coming:
                left -= sum(_amount(use, name) for use in coming)
            if need > left:
                found.append(Shortage(name, need, max(0, left), capacity))
        return found

    def port_in_use(self, ask: PodUse, but: Container[str]) -> HostPort | None:
        """The first port of these that somebody else has."""
        coming = [] if self._coming is None else list(self._others(ask.priority, but))
        for port in ask.ports:
            at = (port.protocol, port.port)
            addresses = [] if self._addresses is None else self._addresses.get(at, [])
            addresses = [*addresses, *(each.address for use in coming for each in use.ports if each[1:] == at)]
            if any(_collide(port.address, each) for each in addresses):
                return port
        return None

    @property
    def is_forgettable(self) -> bool:
        """No node stands behind it, and no pod is on it."""
        return self.capacity is _NOTHING and not self._pods and not self._coming

    def _others(self, priority: int, but: Container[str]) -> Iterator[PodUse]:
        for uid, stay in (self._coming or {}).items():
            if uid not in but and (stay.standing is Standing.EXPECTED or stay.use.priority >= priority):
                yield stay.use

    def _count(self, use: PodUse, sign: int) -> None:
        self._pods += sign
        for name, amount in use.requests:
            self._used[name] = self._used.get(name, 0) + sign * amount
        for port in use.ports:
            if self._addresses is None:
                self._addresses = {}
            held = self._addresses.setdefault((port.protocol, port.port), [])
            if sign > 0:
                held.append(port.address)
            else:
                held.remove(port.address)


class NodeRooms:
    """All nodes' rooms. A pod may be told of before its node, and a node come back with its pods."""

    def __init__(self) -> None:
        self._rooms: dict[str, NodeRoom] = {}
        self._stays: dict[str, _Stay] = {}
        self._uses: dict[PodUse, PodUse] = {}
        self._capacities: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
        """What many have alike is there once. Both begin anew when they are full: pods and nodes come and go for months."""

    def set_node(self, name: str, allocatable: Mapping[str, str]) -> None:
        """The node is there and has this to give."""
        capacity = build_capacity(allocatable)
        if len(self._capacities) >= _MOST_SHARED:
            self._capacities.clear()
        self._room(name).capacity = self._capacities.setdefault(capacity, dict(capacity))

    def drop_node(self, name: str) -> None:
        """The node is gone; pods that are still there count when it comes back."""
        if name in self._rooms:
            self._rooms[name].capacity = _NOTHING
            self._forget_if_empty(name)

    def put(self, uid: str, use: PodUse, node: str, standing: Standing = Standing.BOUND) -> tuple[str, ...]:
        """The pod counts there, and nowhere else. The nodes whose room is another now."""
        if len(self._uses) >= _MOST_SHARED:
            self._uses.clear()
        stay = _Stay(node, self._uses.setdefault(use, use), standing)
        old = self._stays.get(uid)
        if old == stay:
            return ()
        left = self.drop(uid)
        self._stays[uid] = stay
        self._room(node).add(uid, stay)
        return (*left, node)

    def note_pod(self, pod: Pod, expected: str | None = None) -> tuple[str, ...]:
        """The pod is now this. ``expected``: where its claims are allocated or reserved, while it waits.

        The nodes whose room is another now.
        """
        node = pod.spec.node_name or expected or pod.status.nominated_node_name
        if not node or pod.status.phase in ENDED:
            return self.drop(pod.metadata.uid)
        standing = Standing.BOUND if pod.spec.node_name else Standing.EXPECTED if expected else Standing.NOMINATED
        return self.put(pod.metadata.uid, build_pod_use(pod), node, standing)

    def drop(self, uid: str) -> tuple[str, ...]:
        """The pod counts nowhere: it is gone, has ended, or waits without a node. The node whose room is another now."""
        stay = self._stays.pop(uid, None)
        if stay is None:
            return ()
        self._rooms[stay.node].remove(uid, stay)
        self._forget_if_empty(stay.node)
        return (stay.node,)

    def room(self, name: str) -> NodeRoom:
        """The node's room; one that is not known has none."""
        return self._rooms.get(name) or _NO_ROOM

    def _room(self, name: str) -> NodeRoom:
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = NodeRoom()
        return room

    def _forget_if_empty(self, name: str) -> None:
        if self._rooms[name].is_forgettable:
            del self._rooms[name]


_NO_ROOM = NodeRoom()


def find_collision(ports: Iterable[HostPort]) -> HostPort | None:
    """The first of these ports that cannot be had together with one before it."""
    seen: list[HostPort] = []
    for port in ports:
        if any(each[1:] == port[1:] and _collide(each.address, port.address) for each in seen):
            return port
        seen.append(port)
    return None


def format_amount(resource: str, amount: int) -> str:
    """An amount as people write it: ``2.5`` CPUs, ``64Gi`` of memory, plain numbers for all else."""
    if resource == CPU:
        return f"{amount / 1000:g}"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return _format_bytes(amount)
    return str(amount)


_BYTES = frozenset({"memory", "ephemeral-storage"})


def _format_bytes(amount: int) -> str:
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + unit
    return str(amount)


def _amount(use: PodUse, resource: str) -> int:
    return next((amount for name, amount in use.requests if name == resource), 0)


def _collide(address: str, other: str) -> bool:
    """An address stands for itself; that of all addresses collides with each."""
    return address == other or _ANY in (address, other)
