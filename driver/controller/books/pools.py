"""Slices of the driver, gathered into pools, with the taints of rules, and told to the fleet node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from driver.allocator.fleet import Fleet
from driver.allocator.pools import Pool, PoolLeftOut, gather_pools
from driver.allocator.taints import TaintRule, apply_rules
from driver.api.resource_v1 import ResourceSlice
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.kube.changes import Change, ChangeKind


class PoolBook:
    """Pools by name. What a change is not about is not looked at, and what does not change a pool does not reach the fleet."""

    def __init__(self, driver: str, fleet: Fleet) -> None:
        self._driver = driver
        self._fleet = fleet
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        self._pool_of: dict[str, str] = {}
        self._rules: dict[str, TaintRule] = {}
        self._pools: dict[str, Pool] = {}
        self._left_out: dict[str, PoolLeftOut] = {}
        self._of_node: dict[str, set[str]] = {}
        self.pools: Mapping[str, Pool] = MappingProxyType(self._pools)
        """Pools that can be allocated from, by name."""
        self.left_out: Mapping[str, PoolLeftOut] = MappingProxyType(self._left_out)
        """Pools that nothing can be allocated from now, by name."""

    def note_slice(self, change: Change[ResourceSlice]) -> frozenset[str]:
        """A slice came, changed or went. The nodes whose devices are others now."""
        item = change.item
        uid, pool = item.metadata.uid, item.spec.pool.name
        if item.spec.driver != self._driver:
            return frozenset()
        touched = {self._pool_of.pop(uid, pool)}
        for name in touched:
            self._slices.get(name, {}).pop(uid, None)
        if change.kind is not ChangeKind.DELETED:
            self._pool_of[uid] = pool
            self._slices.setdefault(pool, {})[uid] = item
            touched.add(pool)
        return self._gather(touched)

    def note_rule(self, change: Change[DeviceTaintRule]) -> frozenset[str]:
        """A rule came, changed or went. The nodes whose devices are others now."""
        uid, selector = change.item.metadata.uid, change.item.spec.device_selector
        rules = [self._rules.pop(uid, None)]
        if change.kind is not ChangeKind.DELETED and selector is not None:
            rule = TaintRule(taint=change.item.spec.taint, driver=selector.driver, pool=selector.pool, device=selector.device)
            self._rules[uid] = rule
            rules.append(rule)
        return self._gather({pool for rule in rules if rule is not None for pool in self._reached(rule)})

    def _reached(self, rule: TaintRule) -> Iterable[str]:
        if rule.driver not in (None, self._driver):
            return ()
        return list(self._slices) if rule.pool is None else (rule.pool,)

    def _gather(self, names: Iterable[str]) -> frozenset[str]:
        nodes: set[str] = set()
        for name in names:
            nodes |= self._gather_one(name)
        for node in nodes:
            pools = [self._pools[name] for name in sorted(self._of_node.get(node, ())) if name in self._pools]
            is_whole = not any(name in self._left_out for name in self._of_node.get(node, ()))
            self._fleet.set_node(node, pools, is_whole=is_whole)
        return frozenset(nodes)

    def _gather_one(self, name: str) -> set[str]:
        """Gathers a pool anew. The nodes that it was or is of, none where it is as it was."""
        before = (self._pools.pop(name, None), self._left_out.pop(name, None))
        slices = self._slices.get(name, {})
        if not slices:
            self._slices.pop(name, None)
        pools, left_out = gather_pools(slices.values())
        for pool in apply_rules(pools, tuple(self._rules.values())):
            self._pools[name] = pool
        for each in left_out:
            self._left_out[name] = each
        after = (self._pools.get(name), self._left_out.get(name))
        if after == before:
            return set()
        for node in _nodes(*before):
            self._of_node[node].discard(name)
            if not self._of_node[node]:
                del self._of_node[node]
        for node in _nodes(*after):
            self._of_node.setdefault(node, set()).add(name)
        return {*_nodes(*before), *_nodes(*after)}


def _nodes(pool: Pool | None, left_out: PoolLeftOut | None) -> tuple[str, ...]:
    if pool is not None:
        return (pool.node,)
    return () if left_out is None else left_out.nodes
