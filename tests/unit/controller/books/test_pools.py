"""From slices, one by one, to the nodes of the fleet."""

from __future__ import annotations

import msgspec

from driver.api.resource_v1 import ResourceSlice
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.kube.changes import Change, ChangeKind
from tests.unit.controller.world import DRIVER, World, gpus, world

MORE = gpus(6)[4:]


def healthy(made: World, node: str) -> int:
    """Whole GPUs of a node that an ordinary claim may have."""
    return made.cluster.fleet.nodes[node].shape.healthy.bit_count()


def test_a_pool_is_there_once_all_of_its_slices_are() -> None:
    made = world()
    made.slice("a", gpus(4), number=0, of=2)
    assert list(made.cluster.fleet.nodes) == []
    assert made.cluster.pools_left_out["a"].reason == "incomplete: 1 of 2 slices; it is being updated"
    made.slice("a", MORE, number=1, of=2)
    assert len(made.cluster.fleet.nodes["a"].ids) == 6
    assert (list(made.cluster.pools), dict(made.cluster.pools_left_out)) == (["a"], {})


def test_a_pool_goes_with_its_slices() -> None:
    made = world("a", "b")
    made.remove(ResourceSlice, "00000-a")
    assert list(made.cluster.fleet.nodes) == ["b"]
    assert list(made.cluster.pools) == ["b"]


def test_a_pool_that_is_being_updated_is_out_and_what_is_held_of_it_stays_held() -> None:
    made = world("a")
    made.claim("c")
    made.allocate("c", "a", "gpu-0")
    made.slice("a", gpus(4), number=0, of=2, generation=2)
    assert made.free() == {}
    made.slice("a", MORE, number=1, of=2, generation=2)
    assert made.free() == {"a": 5}


def test_a_slice_of_an_older_generation_does_not_count() -> None:
    made = world("a")
    made.slice("a", gpus(2), number=7, generation=0)
    assert len(made.cluster.fleet.nodes["a"].ids) == 4


def test_slices_of_other_drivers_are_passed_over() -> None:
    made = world("a")
    item = made.get(ResourceSlice, "00000-a")
    other = msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, driver="nic.example.com"))
    made.tell(Change(kind=ChangeKind.ADDED, item=other))
    made.tell(Change(kind=ChangeKind.DELETED, item=other))
    assert {id_.driver for id_ in made.cluster.fleet.nodes["a"].ids} == {DRIVER}


def test_a_slice_that_says_the_same_again_changes_nothing() -> None:
    """Neither the fleet nor those who wait hear of it."""
    made = world("a")
    node, version = made.cluster.fleet.nodes["a"], made.cluster.version
    made.slice("a", gpus(4))
    assert made.cluster.fleet.nodes["a"] is node
    assert made.cluster.version == version


def test_rules_taint_what_they_name_and_no_more() -> None:
    """R22. No name at all is every device; no selector is none."""
    made = world("a", "b")
    made.rule("one", driver=DRIVER, pool="a", device="gpu-1")
    assert (healthy(made, "a"), healthy(made, "b")) == (3, 4)
    made.rule("one", pool="b")
    assert (healthy(made, "a"), healthy(made, "b")) == (4, 0)
    made.rule("one", driver="nic.example.com")
    assert (healthy(made, "a"), healthy(made, "b")) == (4, 4)
    made.rule("one")
    assert (healthy(made, "a"), healthy(made, "b")) == (0, 0)


def test_a_rule_without_a_selector_taints_nothing_and_a_rule_that_goes_takes_its_taint_along() -> None:
    made = world("a")
    made.rule("one", pool="a")
    rule = made.get(DeviceTaintRule, "one")
    made.put(msgspec.structs.replace(rule, spec=msgspec.structs.replace(rule.spec, device_selector=None)))
    assert healthy(made, "a") == 4
    made.put(rule)
    made.remove(DeviceTaintRule, "one")
    assert healthy(made, "a") == 4


def test_a_rule_reaches_slices_that_come_later() -> None:
    made = world()
    made.rule("all")
    made.node("a", gpus(4))
    assert healthy(made, "a") == 0


def test_a_rule_for_one_pool_leaves_the_others_alone() -> None:
    made = world("a", "b")
    node, version = made.cluster.fleet.nodes["b"], made.cluster.log_version
    made.rule("one", pool="a")
    assert made.cluster.fleet.nodes["b"] is node
    assert made.cluster.changed_since(version) == frozenset({"a"})


def test_a_node_with_a_pool_that_is_left_out_is_not_whole() -> None:
    """Nobody can say what all devices are while one of its pools is not known."""
    made = world("a")
    item = made.get(ResourceSlice, "00000-a")
    second = msgspec.structs.replace(
        item,
        metadata=msgspec.structs.replace(item.metadata, name="x", uid="x"),
        spec=msgspec.structs.replace(item.spec, pool=msgspec.structs.replace(item.spec.pool, name="p", resource_slice_count=2)),
    )
    made.put(second)
    assert made.cluster.fleet.nodes["a"].is_whole is False
    made.remove(ResourceSlice, "x")
    assert made.cluster.fleet.nodes["a"].is_whole is True


def test_a_pool_that_goes_to_another_node_is_that_nodes() -> None:
    made = world("a")
    item = made.get(ResourceSlice, "00000-a")
    made.put(msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, node_name="b")))
    assert list(made.cluster.fleet.nodes) == ["b"]
    made.put(item)
    made.node("b", gpus(1))
    assert {name: len(node.ids) for name, node in made.cluster.fleet.nodes.items()} == {"a": 4, "b": 1}
