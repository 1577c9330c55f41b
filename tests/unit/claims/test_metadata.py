"""Device metadata files (KEP-5304): what a container is told of its devices, in a file."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from driver import log
from driver.api.resource_v1 import Attribute
from driver.claims.metadata import Description, build_container_path
from driver.claims.model import ClaimRef
from driver.errors import StateUnwritable
from tests.fakes.claims import Node, claim, device, prepare_one, ref, result, uid, unprepare_one
from tests.unit.cdi.cdi_schema import validate_cdi


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, has_metadata=True)
    made.attributes = {device(0): {"uuid": Attribute(string="GPU-0"), "memory": Attribute(int_=7)}}
    made.api.put(claim(ref(1), [result(0, "gpus/tight"), result(1, "gpus/tight"), result(2, "more")]))
    return made


def ids(given: Any) -> list[tuple[str, ...]]:
    return [each.cdi_device_ids[1:] for each in given]


def objects(node: Node, request: str) -> list[dict[str, Any]]:
    path = node.plugin / "dra-device-metadata" / f"{uid(1)}_{request}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_first_device_of_each_request_carries_the_requests_metadata(node: Node) -> None:
    given = prepare_one(node.start(), 1)
    assert ids(given) == [(f"gpu.nvidia.com/metadata={uid(1)}_gpus",), (), (f"gpu.nvidia.com/metadata={uid(1)}_more",)]


def test_the_file_has_one_object_a_version_newest_first(node: Node) -> None:
    prepare_one(node.start(), 1)
    newest, older = objects(node, "gpus")
    assert newest == {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1beta1",
        "metadata": {"name": "claim-1", "namespace": "default", "uid": uid(1), "generation": 1},
        "requests": [
            {
                "name": "gpus/tight",
                "devices": [
                    {
                        "driver": "gpu.nvidia.com",
                        "pool": "node-a",
                        "name": device(0),
                        "attributes": {"memory": {"int": 7}, "uuid": {"string": "GPU-0"}},
                    },
                    {"driver": "gpu.nvidia.com", "pool": "node-a", "name": device(1), "attributes": {}},
                ],
            }
        ],
    }
    assert older == {**newest, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}


def test_the_cdi_file_mounts_the_file_where_the_container_looks(node: Node) -> None:
    prepare_one(node.start(), 1)
    path = node.cdi / f"gpu.nvidia.com_metadata_{uid(1)}_gpus.json"
    spec = json.loads(path.read_bytes())
    validate_cdi(spec)
    (only,) = spec["devices"]
    assert (spec["kind"], only["name"]) == ("gpu.nvidia.com/metadata", f"{uid(1)}_gpus")
    host_path = node.plugin / f"dra-device-metadata/{uid(1)}_gpus.json"
    assert only["containerEdits"]["mounts"] == [
        {
            "hostPath": str(host_path),
            "containerPath": "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/claim-1/gpus/"
            "gpu.nvidia.com-metadata.json",
            "options": ["ro", "bind"],
        }
    ]
    assert stat.S_IMODE(host_path.stat().st_mode) == 0o644
    assert stat.S_IMODE(host_path.parent.stat().st_mode) == 0o755


def test_a_claim_of_a_template_is_found_under_its_name_in_the_pod(node: Node) -> None:
    node.api.put(claim(ref(1), [result(0)], annotations={"resource.kubernetes.io/pod-claim-name": "gpu"}))
    prepare_one(node.start(), 1)
    assert objects(node, "gpus")[0]["podClaimName"] == "gpu"
    text = (node.cdi / f"gpu.nvidia.com_metadata_{uid(1)}_gpus.json").read_text()
    assert "/resourceclaimtemplates/gpu/gpus/gpu.nvidia.com-metadata.json" in text


def test_unprepare_takes_all_of_it_away(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    assert unprepare_one(preparer, 1) is None
    assert node.leftovers() == []
    assert list((node.plugin / "dra-device-metadata").iterdir()) == []


def test_a_lost_file_is_written_again_at_a_repeat_and_at_start(node: Node) -> None:
    preparer = node.start()
    first = prepare_one(preparer, 1)
    before = node.cdi_files()
    for lose in (lambda: prepare_one(preparer, 1), node.start().repair):
        for path in [*node.cdi.iterdir(), *node.plugin.glob("dra-device-metadata/*.json")]:
            path.unlink()
        lose()
        assert node.cdi_files() == before
        assert objects(node, "more")
    assert prepare_one(preparer, 1) == first


def test_files_that_cannot_be_written_do_not_fail_the_claim(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The claim is prepared without them, and says so each time in the same way."""
    preparer = node.start()
    (node.plugin / "dra-device-metadata").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        given = prepare_one(preparer, 1)
    assert ids(given) == [(), (), ()]
    assert [log.read_event(record)["msg"] for record in caplog.records] == ["prepared without metadata files"]
    (node.plugin / "dra-device-metadata").unlink()
    assert prepare_one(preparer, 1) == given
    assert unprepare_one(preparer, 1) is None


def test_files_that_cannot_be_deleted_do_not_keep_the_claim(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    path = node.plugin / f"dra-device-metadata/{uid(1)}_gpus.json"
    path.unlink()
    path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert unprepare_one(preparer, 1) is None
    assert [log.read_event(record)["msg"] for record in caplog.records] == ["metadata files are left over"]
    assert node.states() == {}


def test_the_files_of_another_node_in_the_same_folder_stay(node: Node) -> None:
    preparer = node.start()
    prepare_one(preparer, 1)
    foreign = node.cdi / f"gpu.nvidia.com_metadata_{uid(1)}_other.json"
    foreign.write_text('{"annotations": {"gpu-dra.io/owner": "gpu.nvidia.com/node-b"}}')
    unprepare_one(preparer, 1)
    assert [path.name for path in node.cdi.iterdir()] == [foreign.name]


@pytest.mark.parametrize("name", ["../x", "a/b", "", "A"])
def test_a_name_that_is_none_never_becomes_a_path(name: str) -> None:
    bad = ClaimRef(namespace="default", name=name, uid=uid(1))
    with pytest.raises(StateUnwritable, match="may become part of a path"):
        build_container_path(Description(ref=bad, pod_claim_name=None, devices=()), "gpus", "gpu.nvidia.com")
    with pytest.raises(StateUnwritable, match="may become part of a path"):
        build_container_path(Description(ref=ref(1), pod_claim_name=name, devices=()), "gpus", "gpu.nvidia.com")


def test_what_a_prepare_left_that_died_before_its_record_is_found_by_the_claims_uid(node: Node) -> None:
    """Nothing says which requests it had: whole files and halves of them, of this claim and of no other, go."""
    preparer = node.start()
    prepare_one(preparer, 1)
    folder = node.plugin / "dra-device-metadata"
    mine = [
        folder / f"{uid(9)}_a.json",
        folder / f".{uid(9)}_b.json.tmp",
        node.cdi / f".gpu.nvidia.com_metadata_{uid(9)}_c.json.tmp",
    ]
    for path in mine:
        path.write_text("{")
    others = [folder / f"{uid(8)}_a.json", folder / f"{uid(9)}_A.json", folder / "stray"]
    for path in others:
        path.write_text("{")
    assert unprepare_one(preparer, 9) is None
    assert [path.exists() for path in (*mine, *others)] == [False] * 3 + [True] * 3
    assert objects(node, "gpus")
