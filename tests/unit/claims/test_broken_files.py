"""Files that became something else, and claims that would make a record that nobody can read: neither costs a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.claims.model import ClaimRef
from driver.claims.store import Stored
from driver.errors import StateUnwritable
from tests.fakes.claims import Call, Node, claim, prepare_one, ref, result, uid, unprepare_one


@pytest.fixture
def described(tmp_path: Path) -> Node:
    made = Node(tmp_path, has_metadata=True)
    made.api.put(claim(ref(1), [result(0)]), claim(ref(2), [result(1)]))
    return made


def make_folder(path: Path) -> None:
    path.mkdir()


def make_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def make_half(path: Path) -> None:
    path.write_bytes(b'{"cdiVersion": "0.6.0", "annotations": {')


def make_foreign(path: Path) -> None:
    path.write_bytes(b'{"annotations": {"gpu-dra.io/owner": "gpu.nvidia.com/node-b", "gpu-dra.io/record": "{}"}}')


@pytest.mark.parametrize("make", [make_link, os.mkfifo, make_empty, make_half, make_foreign])
def test_a_repeat_writes_the_grant_again_when_something_else_stands_in_its_place(
    described: Node, make: Callable[[Path], None]
) -> None:
    """B13: the runtime would find no device in it, and the pod would hang with every answer a success."""
    preparer = described.start()
    given = prepare_one(preparer, 1)
    before = described.cdi_path(1).read_bytes()
    described.cdi_path(1).unlink()
    make(described.cdi_path(1))
    assert prepare_one(preparer, 1) == given
    assert described.cdi_path(1).read_bytes() == before
    assert unprepare_one(preparer, 1) is None
    assert described.leftovers() == []


def test_a_folder_in_the_place_of_a_grant_is_an_error_and_not_a_success(described: Node) -> None:
    preparer = described.start()
    given = prepare_one(preparer, 1)
    described.cdi_path(1).unlink()
    make_folder(described.cdi_path(1))
    assert isinstance(prepare_one(preparer, 1), StateUnwritable)
    described.cdi_path(1).rmdir()
    assert prepare_one(preparer, 1) == given


@pytest.mark.parametrize("make", [make_link, os.mkfifo, make_empty, make_half])
def test_a_repeat_writes_the_metadata_again_when_something_else_stands_in_its_place(
    described: Node, make: Callable[[Path], None]
) -> None:
    preparer = described.start()
    given = prepare_one(preparer, 1)
    path = described.cdi / f"gpu.nvidia.com_metadata_{uid(1)}_gpus.json"
    before = path.read_bytes()
    path.unlink()
    make(path)
    assert prepare_one(preparer, 1) == given
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["x" * 300, "../../etc", "", "UPPER", "a\0b", "\ud7ff" * 100])
def test_an_annotation_that_is_no_name_costs_nothing(described: Node, name: str) -> None:
    """Anybody may annotate a claim of their own. A record that cannot be read again would block every GPU of the node."""
    described.api.put(claim(ref(1), [result(0)], annotations={"resource.kubernetes.io/pod-claim-name": name}))
    preparer = described.start()
    given = prepare_one(preparer, 1)
    assert isinstance(preparer.work.carrier.records.read(uid(1)), Stored)
    assert prepare_one(described.start(), 1) == given
    assert not isinstance(prepare_one(preparer, 2), Exception)
    assert unprepare_one(preparer, 1) is None


def test_a_claim_that_cannot_be_recorded_is_refused_and_holds_nothing(described: Node) -> None:
    """No API server lets such a request name through; if one did, its claim alone would fail."""
    described.api.put(claim(ref(1), [result(0, "r" * 300)]), claim(ref(2), [result(0)]))
    preparer = described.start()
    refused = prepare_one(preparer, 1)
    assert isinstance(refused, StateUnwritable)
    assert "cannot be recorded" in str(refused)
    assert not isinstance(prepare_one(preparer, 2), Exception)


def test_what_a_kill_left_half_written_of_the_metadata_goes_with_the_claim(described: Node) -> None:
    preparer = described.start()
    prepare_one(preparer, 1)
    (described.cdi / f".gpu.nvidia.com_metadata_{uid(1)}_gpus.json.tmp").write_text("{")
    (described.plugin / f"dra-device-metadata/.{uid(1)}_gpus.json.tmp").write_text("{")
    assert unprepare_one(preparer, 1) is None
    assert described.leftovers() == []
    assert list((described.plugin / "dra-device-metadata").iterdir()) == []


def test_the_metadata_of_a_claim_made_again_under_the_same_name_outlives_the_first_ones_unprepare(described: Node) -> None:
    """A force-deleted pod's claim may be released after its successor of the same name was prepared."""
    preparer = described.start()
    prepare_one(preparer, 1)
    second = ClaimRef(namespace="default", name="claim-1", uid=uid(2))
    described.api.put(claim(second, [result(1)]))
    call = preparer.prepare([second], Call())
    assert not isinstance(call[uid(2)], Exception)
    file = described.plugin / f"dra-device-metadata/{uid(2)}_gpus.json"
    before = file.read_bytes()
    assert unprepare_one(preparer, 1) is None
    assert file.read_bytes() == before
    assert preparer.unprepare([second], Call())[uid(2)] is None
    assert not file.exists()
