"""What an API server does with objects, and what it refuses: the same for the fake and the real one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import Attribute, Capacity, Counter, CounterSet, Device, ResourceSlice, Taint
from driver.errors import ApiError, Conflict, Invalid, NotFound
from driver.kube.client import Preconditions
from driver.kube.events import EVENTS, Event, EventSeries, ObjectReference
from driver.kube.resources import NODES, RESOURCE_SLICES, Selection
from driver.resourceslice.content import SliceContent
from tests.contract.kube.conftest import Cluster
from tests.fakes.slices import content, counters, device

A, B = content("gpu-a"), content("gpu-b")


def with_devices(item: ResourceSlice, held: SliceContent) -> ResourceSlice:
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, devices=held.devices))


def test_a_generated_name_is_the_base_and_five_characters(cluster: Cluster) -> None:
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    base = made.metadata.generate_name
    assert (made.metadata.name[: len(base)], len(made.metadata.name)) == (base, len(base) + 5)
    assert made.metadata.uid
    assert made.metadata.resource_version.isdigit()
    assert made.metadata.generation == 1


def test_a_long_base_is_cut_at_58(cluster: Cluster) -> None:
    item = msgspec.structs.replace(cluster.slice_(A), metadata=ObjectMeta(generate_name="00000-" + "a" * 80 + "-"))
    made = cluster.client.create(RESOURCE_SLICES, item)
    assert len(made.metadata.name) == 63
    assert made.metadata.generate_name == item.metadata.generate_name


def test_a_name_is_given_once(cluster: Cluster) -> None:
    item = cluster.slice_(A, name=f"00000-{cluster.identity.driver}")
    cluster.client.create(RESOURCE_SLICES, item)
    with pytest.raises(Conflict, match="AlreadyExists"):
        cluster.client.create(RESOURCE_SLICES, item)


def test_a_new_object_has_no_version_yet(cluster: Cluster) -> None:
    item = msgspec.structs.replace(cluster.slice_(A), metadata=ObjectMeta(generate_name="x-", resource_version="5"))
    with pytest.raises(ApiError, match="500 resourceVersion should not be set"):
        cluster.client.create(RESOURCE_SLICES, item)


def test_a_replace_needs_the_version_and_the_uid_that_are_there(cluster: Cluster) -> None:
    first = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    second = cluster.client.replace(RESOURCE_SLICES, with_devices(first, B))
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    assert second.metadata.generation == 2
    with pytest.raises(Conflict, match="has been modified"):
        cluster.client.replace(RESOURCE_SLICES, with_devices(first, A))
    other = msgspec.structs.replace(second.metadata, uid="another", resource_version="")
    with pytest.raises(Conflict):
        cluster.client.replace(RESOURCE_SLICES, msgspec.structs.replace(second, metadata=other))


def test_a_replace_that_changes_nothing_makes_no_version(cluster: Cluster) -> None:
    first = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    assert cluster.client.replace(RESOURCE_SLICES, first).metadata == first.metadata


def test_a_replace_of_what_is_gone_is_not_found(cluster: Cluster) -> None:
    first = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    cluster.client.delete(RESOURCE_SLICES, first.metadata)
    with pytest.raises((NotFound, Conflict)):
        cluster.client.replace(RESOURCE_SLICES, with_devices(first, B))


@pytest.mark.parametrize("what", ["uid", "version"])
def test_a_delete_with_a_condition_that_fails_leaves_the_object(cluster: Cluster, what: str) -> None:
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    wrong = Preconditions(uid="another") if what == "uid" else Preconditions(resource_version="1")
    with pytest.raises(Conflict):
        cluster.client.delete(RESOURCE_SLICES, made.metadata, preconditions=wrong)
    right = Preconditions(uid=made.metadata.uid, resource_version=made.metadata.resource_version)
    cluster.client.delete(RESOURCE_SLICES, made.metadata, preconditions=right)
    with pytest.raises(NotFound):
        cluster.client.delete(RESOURCE_SLICES, made.metadata)


def test_a_merge_patch_keeps_what_it_does_not_name(cluster: Cluster) -> None:
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    patched = cluster.client.patch(RESOURCE_SLICES, made.metadata, {"metadata": {"labels": {"a": "b"}}})
    assert (patched.metadata.labels, patched.spec) == ({"a": "b"}, made.spec)
    stale = {"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"a": "c"}}}
    with pytest.raises(Conflict):
        cluster.client.patch(RESOURCE_SLICES, made.metadata, stale)


@pytest.mark.parametrize("field", ["driver", "node_name", "pool"])
def test_who_a_slice_belongs_to_never_changes(cluster: Cluster, field: str) -> None:
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    kinds: dict[str, dict[str, Any]] = {
        "driver": {"driver": "other.example"},
        "node_name": {"node_name": "other"},
        "pool": {"pool": msgspec.structs.replace(made.spec.pool, name="other")},
    }
    changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **kinds[field]))
    with pytest.raises(Invalid, match="immutable"):
        cluster.client.replace(RESOURCE_SLICES, changed)


def test_the_server_writes_quantities_and_times_its_own_way(cluster: Cluster) -> None:
    """The reason for comparing by meaning: else each restart would find a change."""
    taint = Taint(key="example.com/ecc", effect="NoSchedule")
    sent = SliceContent(devices=(device("gpu-a", memory="81920Mi", taints=(taint,)),))
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(sent)).spec.devices[0]
    assert made.capacity["memory"].value == "80Gi"
    assert [each.time_added is None for each in made.taints] in ([False], [])  # none where the gate is off (1.34, 1.35)


def test_a_list_has_only_what_was_selected_sorted_by_name_in_pages(cluster: Cluster) -> None:
    for index in (2, 0, 1):
        cluster.client.create(RESOURCE_SLICES, cluster.slice_(content(f"gpu-{index}"), index=index))
    listing = cluster.client.list_all(RESOURCE_SLICES, cluster.selection, page_size=2)
    assert [item.spec.devices[0].name for item in listing.items] == ["gpu-0", "gpu-1", "gpu-2"]
    assert listing.resource_version.isdigit()
    other = Selection(field_selector=f"spec.driver={cluster.identity.driver},spec.nodeName=other")
    assert cluster.client.list_all(RESOURCE_SLICES, other).items == ()


def test_a_selector_on_another_field_is_refused(cluster: Cluster) -> None:
    with pytest.raises(Invalid, match="not supported"):
        cluster.client.list_all(RESOURCE_SLICES, Selection(field_selector="spec.pool.generation=1"))


def test_a_wipe_by_the_kubelet_takes_the_nodes_slices_and_no_others(cluster: Cluster) -> None:
    cluster.client.create(RESOURCE_SLICES, cluster.slice_(A))
    other = cluster.slice_(B)
    other = msgspec.structs.replace(
        other, spec=msgspec.structs.replace(other.spec, node_name=f"{cluster.identity.node_name}-b")
    )
    kept = cluster.client.create(RESOURCE_SLICES, other)
    cluster.wipe()
    assert cluster.client.list_all(RESOURCE_SLICES, cluster.selection).items == ()
    cluster.client.delete(RESOURCE_SLICES, kept.metadata)


def test_nothing_of_that_name(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="not found"):
        cluster.client.get(NODES, "no-such-node")


def attributes(**values: Attribute) -> SliceContent:
    return SliceContent(devices=(Device(name="gpu-a", attributes=dict(values)),))


TAINT = Taint(key="example.com/ecc", effect="NoSchedule")
MANY = tuple(device(f"gpu-{index}") for index in range(129))
TAINTED = tuple(device(f"gpu-{index}", taints=(TAINT,)) for index in range(65))
SETS = tuple(CounterSet(name=f"gpu-{index}", counters={"memory": Counter(value="1")}) for index in range(9))
BAD: dict[str, SliceContent] = {
    "a version with a leading zero (B19)": attributes(v=Attribute(version="580.159.04")),
    "a version of two parts": attributes(v=Attribute(version="13.0")),
    "a string of 65 bytes (B21)": attributes(s=Attribute(string="x" * 65)),
    "a string of 64 characters and 65 bytes": attributes(s=Attribute(string="x" * 63 + "ü")),
    "an attribute without a value": attributes(s=Attribute()),
    "an attribute with two values": attributes(s=Attribute(string="x", int_=1)),
    "33 attributes": attributes(**{f"a{index}": Attribute(int_=1) for index in range(33)}),
    "31 attributes and 2 capacities": SliceContent(
        devices=(
            Device(
                name="gpu-a",
                attributes={f"a{index}": Attribute(int_=1) for index in range(31)},
                capacity={"a": Capacity(value="1"), "b": Capacity(value="1")},
            ),
        )
    ),
    "a key with a dash": attributes(**{"a-b": Attribute(int_=1)}),
    "a key of 33 bytes": attributes(**{"a" * 33: Attribute(int_=1)}),
    "a device with a dot in its name (B52)": content("gpu.a"),
    "a device in upper case": content("GPU-A"),
    "a device of 64 bytes": content("a" * 64),
    "129 devices": SliceContent(devices=MANY),
    "nine counter sets": SliceContent(shared_counters=SETS),
    "a quantity that is none": SliceContent(devices=(device("gpu-a", memory="lots"),)),
    "devices and counters": SliceContent(devices=A.devices, shared_counters=counters("gpu-a").shared_counters),
    "two devices of one name": content("gpu-a", "gpu-a"),
}
GOOD: dict[str, SliceContent] = {
    "nothing": SliceContent(),
    "a semantic version": attributes(v=Attribute(version="580.159.4")),
    "a string of 64 bytes": attributes(s=Attribute(string="x" * 62 + "ü")),
    "32 attributes": attributes(**{f"a{index}": Attribute(int_=1) for index in range(32)}),
    "a key with a domain": attributes(**{"resource.kubernetes.io/pcieRoot": Attribute(string="pci0000:17")}),
    "a device of 63 bytes": content("a" * 63),
    "128 devices": SliceContent(devices=MANY[:128]),
    "64 tainted devices": SliceContent(devices=TAINTED[:64]),
    "a negative number and a truth": attributes(i=Attribute(int_=-1), b=Attribute(bool_=False)),
}


@pytest.mark.parametrize("held", BAD.values(), ids=BAD.keys())
def test_a_slice_against_the_rules_is_refused_whole(cluster: Cluster, held: SliceContent) -> None:
    with pytest.raises(Invalid):
        cluster.client.create(RESOURCE_SLICES, cluster.slice_(held))


@pytest.mark.parametrize("held", GOOD.values(), ids=GOOD.keys())
def test_a_slice_at_the_edge_of_the_rules_is_taken(cluster: Cluster, held: SliceContent) -> None:
    made = cluster.client.create(RESOURCE_SLICES, cluster.slice_(held))
    assert [each.name for each in made.spec.devices] == [each.name for each in held.devices]
    assert [each.attributes for each in made.spec.devices] == [each.attributes for each in held.devices]


def test_a_pool_has_at_least_one_slice(cluster: Cluster) -> None:
    item = cluster.slice_(A)
    pool = msgspec.structs.replace(item.spec.pool, resource_slice_count=0)
    with pytest.raises(Invalid):
        cluster.client.create(
            RESOURCE_SLICES, msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, pool=pool))
        )


def event(cluster: Cluster, **changes: Any) -> Event:
    node = cluster.identity.node_name
    whole = Event(
        metadata=ObjectMeta(name=f"{node}.1", namespace="default"),
        event_time="2026-12-01T10:00:00.000000Z",
        reporting_controller="example.com/kubelet-plugin",
        reporting_instance=node,
        action="Observe",
        reason="Contract",
        regarding=ObjectReference(api_version="v1", kind="Node", name=node, uid=node),
        note="a note",
        type="Normal",
    )
    return msgspec.structs.replace(whole, **changes)


def test_an_event_becomes_a_series(cluster: Cluster) -> None:
    made = cluster.client.create(EVENTS, event(cluster), namespace="default")
    series = EventSeries(count=2, last_observed_time="2026-12-01T10:10:00.000000Z")
    assert cluster.client.patch(EVENTS, made.metadata, {"series": series}).series == series
    with pytest.raises(Invalid):
        cluster.client.patch(EVENTS, made.metadata, {"note": "other words"})


@pytest.mark.parametrize(
    "changes",
    [
        {"note": "x" * 1025},
        {"type": ""},
        {"type": "Error"},
        {"action": ""},
        {"reason": ""},
        {"reporting_controller": ""},
        {"reporting_instance": ""},
        {"series": EventSeries(count=1, last_observed_time="2026-12-01T10:10:00.000000Z")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_event_that_lacks_something_is_refused(cluster: Cluster, changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        cluster.client.create(EVENTS, event(cluster, **changes), namespace="default")
