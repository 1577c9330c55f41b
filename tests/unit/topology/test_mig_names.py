"""Names of MIG devices, and NVIDIA's texts for profiles."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.names import PciAddress, is_dns_label
from driver.nvml.library import Placement
from driver.nvml.mock.catalogue import read_boards
from driver.topology.mig_names import (
    MigIdentity,
    build_compute_text,
    build_profile_text,
    mig_device_name,
    parse_gpu_of_device,
    parse_mig_name,
)
from driver.topology.names import gpu_device_name, parse_gpu_name
from tests.unit.topology.machines import mig_profiles

GPU = PciAddress(0, 0x4E, 0)
FARTHEST = PciAddress(0xFFFFFFFF, 0xFF, 0x1F, 7)

TEXTS = {
    "a100-sxm4-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-sxm4-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-sxm5-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-nvl-94gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "h200-sxm5-141gb": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "b200": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "gb200": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "b300": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "a30": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "rtx-pro-6000-se": "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me 2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me "
    "4g.96gb 4g.96gb+gfx",
}
"""By board, as nvidia-smi has them (topology.md 2.12)."""


def texts_of(board: str) -> list[str]:
    document = read_boards()[board]
    assert document.mig is not None
    assert document.memory_mib is not None
    profiles = mig_profiles(document.mig)
    return [build_profile_text(each.number, each.info, document.memory_mib << 20) for each in profiles]


@pytest.mark.parametrize("board", TEXTS)
def test_profiles_have_nvidias_texts(board: str) -> None:
    assert texts_of(board) == TEXTS[board].split()


def test_every_board_with_mig_has_its_texts_checked() -> None:
    tables = {document.mig for document in read_boards().values() if document.mig is not None}
    assert {read_boards()[board].mig for board in TEXTS} | {"gb300"} == tables


def test_without_the_gpus_memory_the_text_says_the_instances_own() -> None:
    """Unified memory: NVML gives no total."""
    profile = mig_profiles("h100-80gb")[0]
    assert build_profile_text(profile.number, profile.info, None) == "1g.10gb"
    assert build_profile_text(profile.number, profile.info, 1) == "1g.10gb"


NAMES = {
    "plain": (MigIdentity(gpu=GPU, profile_id=19, start=3), "1g.10gb", "gpu-0000-4e-00-0-mig-1g-10gb-p19-3"),
    "with media": (MigIdentity(gpu=GPU, profile_id=21, start=0), "1g.24gb+me", "gpu-0000-4e-00-0-mig-1g-24gb-me-p21-0"),
    "without media": (MigIdentity(gpu=GPU, profile_id=67, start=0), "1g.24gb-me", "gpu-0000-4e-00-0-mig-1g-24gb-no-me-p67-0"),
    "all media": (MigIdentity(gpu=GPU, profile_id=65, start=9), "1g.24gb+me.all", "gpu-0000-4e-00-0-mig-1g-24gb-me-all-p65-9"),
    "a part of an instance": (
        MigIdentity(gpu=GPU, profile_id=9, start=4, compute=(0, 1)),
        "1c.3g.40gb",
        "gpu-0000-4e-00-0-mig-1c-3g-40gb-p9-4-c0-1",
    ),
}


@pytest.mark.parametrize(("identity", "text", "name"), NAMES.values(), ids=NAMES.keys())
def test_a_name_says_gpu_profile_and_place(identity: MigIdentity, text: str, name: str) -> None:
    assert mig_device_name(identity, text) == name
    assert parse_mig_name(name) == identity
    assert parse_gpu_of_device(name) == GPU
    assert parse_gpu_name(name) is None


@pytest.mark.parametrize("board", TEXTS)
def test_no_two_places_of_a_gpu_have_one_name(board: str) -> None:
    """R2: 1g.24gb+me and 1g.24gb-me lie at the same starts; a duplicate name makes the whole pool invalid."""
    table = read_boards()[board].mig
    assert table is not None
    identities = [
        (MigIdentity(gpu=FARTHEST, profile_id=profile.info.id, start=place.start), text)
        for profile, text in zip(mig_profiles(table), texts_of(board), strict=True)
        for place in profile.placements
    ]
    names = [mig_device_name(identity, text) for identity, text in identities]
    assert len(set(names)) == len(names)
    assert all(is_dns_label(name) for name in names)
    assert [parse_mig_name(name) for name in names] == [identity for identity, _ in identities]


def test_another_text_is_the_same_place() -> None:
    """A driver that renames its profiles renames no place."""
    same = [mig_device_name(NAMES["plain"][0], text) for text in ("1g.10gb", "1g.11gb", "1g.9gb+me")]
    assert len({parse_mig_name(name) for name in same}) == 1


NOT_OURS = [
    "",
    "gpu-0000-4e-00-0",
    "gpu-0-mig-1g10gb-19-3",
    "gpu-0000-4e-00-0-mig-1g-10gb",
    "gpu-0000-4e-00-0-mig-p19-3",
    "gpu-0000-4e-00-0-mig-1g-10gb-p19-3x",
    "gpu-0000-4e-00-0-mig-1g-10gb-p19-٣",
    "gpu-0000-4e-00-0-mig-1g-10gb-p19999-3",
    "gpu-4e-00-0-mig-1g-10gb-p19-3",
    "GPU-0000-4e-00-0-mig-1g-10gb-p19-3",
    "gpu-0000-4e-00-0-mig-1g.10gb-p19-3",
    "gpu-0000-4e-00-0-mig-1g-10gb-p19-3\n",
]


@pytest.mark.parametrize("name", NOT_OURS)
def test_other_names_are_no_mig_devices(name: str) -> None:
    assert parse_mig_name(name) is None


def test_the_two_kinds_of_names_never_read_as_each_other() -> None:
    for pci, start in product((GPU, FARTHEST), range(3)):
        whole, part = gpu_device_name(pci), mig_device_name(MigIdentity(gpu=pci, profile_id=0, start=start), "7g.80gb")
        assert parse_mig_name(whole) is None
        assert parse_gpu_name(part) is None
        assert parse_gpu_of_device(whole) == parse_gpu_of_device(part) == pci


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    parse_mig_name(text)
    parse_gpu_of_device(f"gpu-0000-4e-00-0-mig-{text}")


def test_a_part_of_an_instance_says_its_compute_slices() -> None:
    assert build_compute_text(Placement(start=1, size=2), "3g.40gb") == "2c.3g.40gb"
