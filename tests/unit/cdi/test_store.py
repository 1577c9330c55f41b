"""The folder of CDI files: ours are whole, and others' are never touched."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.cdi.spec import CdiDevice, CdiSpec, ContainerEdits
from driver.cdi.store import OWNER_ANNOTATION, RECORD_ANNOTATION, CdiStore
from driver.errors import ClaimError, StateUnwritable
from driver.names import ClaimUID
from tests.fakes.claims import uid

SPEC = CdiSpec(
    kind="k8s.gpu.nvidia.com/claim",
    annotations={RECORD_ANNOTATION: '{"x":1}'},
    devices=(CdiDevice(name="gpu", container_edits=ContainerEdits(env=("A=b",))),),
)


def store(tmp_path: Path, owner: str = "gpu.nvidia.com/node-a") -> CdiStore:
    made = CdiStore(tmp_path / "cdi", owner)
    made.start()
    return made


def test_a_claims_file_says_whose_it_is_and_what_was_planned(tmp_path: Path) -> None:
    cdi = store(tmp_path)
    cdi.write(uid(1), SPEC)
    path = tmp_path / "cdi" / f"k8s.gpu.nvidia.com-claim_{uid(1)}.json"
    assert cdi.path(uid(1)) == str(path)
    assert json.loads(path.read_bytes())["annotations"] == {
        OWNER_ANNOTATION: "gpu.nvidia.com/node-a",
        RECORD_ANNOTATION: '{"x":1}',
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert cdi.read_record(uid(1)) == b'{"x":1}'
    assert cdi.list_own() == (uid(1),)
    assert Path(cdi.path(uid(1))).exists()


def test_deleting_is_success_when_there_is_no_file(tmp_path: Path) -> None:
    cdi = store(tmp_path)
    cdi.write(uid(1), SPEC)
    cdi.delete(uid(1))
    cdi.delete(uid(1))
    assert list((tmp_path / "cdi").iterdir()) == []
    assert not Path(cdi.path(uid(1))).exists()


def test_r30_a_file_of_another_node_in_the_same_folder_is_left_alone(tmp_path: Path) -> None:
    """R30: mock nodes may share one folder, and NVIDIA's own driver has files of the same form."""
    mine, other = store(tmp_path), store(tmp_path, "gpu.nvidia.com/node-b")
    other.write(uid(1), SPEC)
    before = Path(other.path(uid(1))).read_bytes()
    assert mine.list_own() == ()
    assert mine.read_record(uid(1)) is None
    with pytest.raises(StateUnwritable, match=r"belongs to 'gpu\.nvidia\.com/node-b'"):
        mine.delete(uid(1))
    assert Path(other.path(uid(1))).read_bytes() == before


def test_a_file_that_cannot_be_read_goes_with_the_claim_that_it_is_named_after(tmp_path: Path) -> None:
    cdi = store(tmp_path)
    Path(cdi.path(uid(1))).write_bytes(b"{")
    assert cdi.list_own() == ()
    cdi.delete(uid(1))
    assert not Path(cdi.path(uid(1))).exists()


def test_b13_a_folder_that_was_wiped_is_made_again(tmp_path: Path) -> None:
    cdi = store(tmp_path)
    (tmp_path / "cdi").rmdir()
    assert cdi.list_own() == ()
    cdi.write(uid(1), SPEC)
    assert Path(cdi.path(uid(1))).exists()


def test_a_folder_that_cannot_be_made_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cdi = CdiStore(tmp_path / "file" / "cdi", "x")
    with pytest.raises(StateUnwritable, match="cdi_spec_dirs"):
        cdi.start()
    with pytest.raises(StateUnwritable, match="writing CDI file"):
        cdi.write(uid(1), SPEC)


def test_b48_a_device_without_edits_is_never_written(tmp_path: Path) -> None:
    cdi = store(tmp_path)
    empty = msgspec.structs.replace(SPEC, devices=(CdiDevice(name="gpu", container_edits=ContainerEdits()),))
    with pytest.raises(StateUnwritable, match="device gpu has no edits"):
        cdi.write(uid(1), empty)
    assert list((tmp_path / "cdi").iterdir()) == []


def test_b51_temporary_files_are_hidden_from_readers_of_the_folder(tmp_path: Path) -> None:
    """A leftover of a killed process has neither of the endings that CDI readers take, and old ones go at start."""
    cdi = store(tmp_path)
    leftover = tmp_path / "cdi" / f".k8s.gpu.nvidia.com-claim_{uid(1)}.json.abcd.tmp"
    leftover.write_bytes(b"{")
    assert cdi.list_own() == ()
    assert leftover.suffix not in (".json", ".yaml")


@pytest.mark.parametrize("text", ["../x", "", uid(1) + "/..", uid(1).replace("-", "_")])
def test_only_a_uid_becomes_a_file_name(tmp_path: Path, text: str) -> None:
    cdi = store(tmp_path)
    with pytest.raises(ClaimError, match="is no claim uid"):
        cdi.write(ClaimUID(text), SPEC)
    with pytest.raises(ClaimError, match="is no claim uid"):
        cdi.delete(ClaimUID(text))


@given(
    name=st.sampled_from([f"k8s.gpu.nvidia.com-claim_{uid(1)}.json", "nvidia.yaml", "k8s.gpu.nvidia.com-claim_x.json"]),
    data=st.binary(max_size=80),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_folders_are_listed_without_an_error_and_without_a_claim(tmp_path: Path, name: str, data: bytes) -> None:
    cdi = store(tmp_path)
    (tmp_path / "cdi" / name).write_bytes(data)
    (tmp_path / "cdi" / f"k8s.gpu.nvidia.com-claim_{uid(2)}.json").mkdir(exist_ok=True)
    cdi.write(uid(3), SPEC)
    assert cdi.list_own() == (uid(3),)
    assert cdi.read_record(uid(1)) is None
