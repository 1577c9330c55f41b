"""A pod goes where its volumes can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from driver.controller.books.volumes import PersistentVolume, VolumeClaim, Volumes, VolumeTie, has_claims, list_claims
from tests.unit.controller.fit_cases import expression, field, pod

USES_DATA = pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
USES_SCRATCH = pod(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(
    name: str = "data", *, volume: str = "", phase: str = "Bound", namespace: str = "team", **metadata: Any
) -> VolumeClaim:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
            "spec": {"volumeName": volume},
            "status": {"phase": phase},
        },
        VolumeClaim,
    )


def volume(name: str = "pv-1", *terms: Mapping[str, Any]) -> PersistentVolume:
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return msgspec.convert({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": affinity}, PersistentVolume)


def known(*claims: VolumeClaim, volumes: tuple[PersistentVolume, ...] = ()) -> Volumes:
    made = Volumes()
    made.claims_listed = made.volumes_listed = True
    for each in claims:
        made.set_claim(each)
    for one in volumes:
        made.set_volume(one)
    return made


def allows(ties: tuple[VolumeTie, ...], labels: Mapping[str, str], name: str = "node-a") -> bool:
    return all(tie.allows(labels, name) for tie in ties)


def test_a_pod_without_claims_of_volumes_is_tied_to_nothing() -> None:
    plain = pod(volumes=[{"name": "tmp", "emptyDir": {}}])
    assert Volumes().list_ties(plain) == ()
    assert not has_claims(plain)


def test_a_bound_volume_ties_the_pod_to_the_nodes_that_reach_it() -> None:
    made = known(claim(volume="pv-1", annotations=BOUND), volumes=(volume("pv-1", expression("zone", "In", "a")),))
    ties = made.list_ties(USES_DATA)
    assert [tie.text for tie in ties] == ["volume of claim data cannot be reached"]
    assert allows(ties, {"zone": "a"})
    assert not allows(ties, {"zone": "b"})


def test_a_volumes_affinity_looks_at_labels_alone() -> None:
    made = known(claim(volume="pv-1", annotations=BOUND), volumes=(volume("pv-1", field("In", "node-b")),))
    assert allows(made.list_ties(USES_DATA), {}, "node-a")


def test_a_bound_volume_that_every_node_reaches_ties_to_nothing() -> None:
    assert known(claim(volume="pv-1", annotations=BOUND), volumes=(volume("pv-1"),)).list_ties(USES_DATA) == ()


def test_a_claim_that_waits_for_its_first_pod_ties_to_nothing() -> None:
    assert known(claim(phase="Pending")).list_ties(USES_DATA) == ()


def test_a_claim_for_which_the_scheduler_chose_a_node_ties_to_it() -> None:
    made = known(claim(phase="Pending", annotations={"volume.kubernetes.io/selected-node": "node-b"}))
    ties = made.list_ties(USES_DATA)
    assert [tie.text for tie in ties] == ["volume claim data is for node node-b"]
    assert allows(ties, {}, "node-b")
    assert not allows(ties, {}, "node-a")


NOWHERE = [
    ("no such claim", known(), "volume claim data does not exist"),
    ("of another namespace", known(claim(namespace="other")), "volume claim data does not exist"),
    ("lost", known(claim(volume="pv-1", phase="Lost", annotations=BOUND)), "volume claim data has lost its volume"),
    ("going", known(claim(deletionTimestamp="2026-01-01T00:00:00Z")), "volume claim data is being deleted"),
    ("half bound", known(claim(volume="pv-1")), "volume claim data is being bound"),
    ("no volume", known(claim(volume="pv-1", annotations=BOUND)), "volume pv-1 of claim data does not exist"),
]


@pytest.mark.parametrize(("made", "text"), [case[1:] for case in NOWHERE], ids=[case[0] for case in NOWHERE])
def test_a_claim_that_keeps_the_pod_from_running_anywhere(made: Volumes, text: str) -> None:
    ties = made.list_ties(USES_DATA)
    assert ties == (VolumeTie(text),)
    assert not allows(ties, {"zone": "a"})


def test_an_ephemeral_volume_has_a_claim_of_the_pods_own() -> None:
    assert list(list_claims(USES_SCRATCH)) == [("job-scratch", "uid-job")]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "job", "uid": "uid-job", "controller": True}
    mine = known(claim("job-scratch", phase="Pending", ownerReferences=[owner]))
    assert mine.list_ties(USES_SCRATCH) == ()
    other = known(claim("job-scratch", phase="Pending", ownerReferences=[{**owner, "uid": "uid-older"}]))
    assert other.list_ties(USES_SCRATCH) == (VolumeTie("volume claim job-scratch was not made for this pod"),)


def test_before_the_lists_are_through_nothing_is_allowed() -> None:
    """A volume that is not known yet could tie the pod to any node."""
    made = known(claim(phase="Pending"))
    made.volumes_listed = False
    assert made.list_ties(USES_DATA) == (VolumeTie("its volumes are not known yet"),)
    made.volumes_listed = True
    assert made.list_ties(USES_DATA) == ()


def test_changes_are_followed() -> None:
    made = known(claim(volume="pv-1", annotations=BOUND), volumes=(volume("pv-1", expression("zone", "In", "a")),))
    assert allows(made.list_ties(USES_DATA), {"zone": "a"})
    made.set_volume(volume("pv-1", expression("zone", "In", "b")))
    assert not allows(made.list_ties(USES_DATA), {"zone": "a"})
    made.drop_volume(volume("pv-1"))
    assert made.list_ties(USES_DATA) == (VolumeTie("volume pv-1 of claim data does not exist"),)
    made.drop_claim(claim())
    assert made.list_ties(USES_DATA) == (VolumeTie("volume claim data does not exist"),)


def test_only_a_change_of_what_was_asked_for_is_another_version() -> None:
    """Else each volume of the whole cluster would have all that waits decided anew."""
    made = known(claim(volume="pv-1", annotations=BOUND), volumes=(volume("pv-1"),))
    before = made.version
    made.list_ties(USES_DATA)
    made.set_claim(claim("other"))
    made.set_claim(claim(namespace="elsewhere"))
    made.set_volume(volume("pv-2"))
    made.drop_claim(claim("other"))
    assert made.version == before
    made.set_volume(volume("pv-1", expression("zone", "In", "a")))
    assert made.version == before + 1
    made.drop_claim(claim())  # nobody has asked since
    assert made.version == before + 1
    made.list_ties(USES_DATA)
    made.set_claim(claim())
    assert made.version == before + 2
