"""What ``gpu-dra inspect -o json`` says of a node."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from driver.cli.node_view import NodeView, build_node_view
from driver.cli.view import link_text
from driver.names import GpuUUID, PciAddress
from driver.nvml.readings import FabricReading, GpuFailure, MachineReading, NvLinkReading, PcieLevel, RemoteType
from driver.topology.build import build_topology
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.unit.topology import machines


def _view(reading: MachineReading, setting: MigSetting = MigSetting.AUTO) -> NodeView:
    topology = build_topology(reading)
    offers = build_offers(topology, OfferInputs(setting=setting, has_counters=True))
    return build_node_view("node-a", reading, topology, offers, ())


def _json(view: NodeView) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(view), type=dict[str, Any])


def test_every_field_of_a_gpu_is_there_also_what_is_not_known() -> None:
    """A program may read ``gpu.numaNode`` without asking first whether it is there."""
    view = _json(_view(machines.machine([machines.gpu(0)])))
    assert view == {
        "format": "gpu-dra.io/inspect/v1",
        "node": "node-a",
        "driverVersion": "580.159.04",
        "cudaDriverVersion": "13.0",
        "gpus": [
            {
                "gpu": 0,
                "index": 0,
                "device": "gpu-0000-10-00-0",
                "uuid": "GPU-00000000-0000-0000-0000-000000000000",
                "pciAddress": "0000:10:00.0",
                "minor": 0,
                "productName": "NVIDIA H100 80GB HBM3",
                "architecture": None,
                "cudaComputeCapability": None,
                "memoryBytes": None,
                "numaNode": None,
                "pcieRoot": None,
                "migEnabled": False,
                "migOffer": "none",
                "nvlinks": 0,
                "island": 0,
                "quad": 0,
                "pair": 0,
                "component": 0,
                "fabric": None,
            }
        ],
        "links": [],
        "islands": [[0]],
        "quads": [],
        "pairs": [],
        "boards": [{"productName": "NVIDIA H100 80GB HBM3", "gpus": [0], "migProfiles": []}],
        "migDevices": [],
        "failures": [],
        "notes": [],
    }


def test_sets_and_links_are_those_of_the_topology() -> None:
    view = _view(machines.dgx_1v())
    assert (view.islands, view.quads, view.pairs) == (
        ((0, 1, 2, 3), (4, 5, 6, 7)),
        ((0, 1, 2, 3), (4, 5, 6, 7)),
        ((0, 3), (1, 2), (4, 7), (5, 6)),
    )
    assert len(view.links) == 28
    by_pair = {link.gpus: link_text(link) for link in view.links}
    assert (by_pair[0, 1], by_pair[0, 3], by_pair[0, 5]) == ("NV1", "NV2", "SYS")


def test_a_pair_without_nvlink_is_named_by_its_pcie_level() -> None:
    view = _view(machines.pcie_only())
    assert {link.gpus: link_text(link) for link in view.links}[0, 1] == "PIX"
    assert view.islands == ((0,), (1,), (2,), (3,))
    assert (view.quads, view.pairs) == ((), ())


def test_a_pair_that_nvml_did_not_answer_is_unknown() -> None:
    assert [link.pcie for link in _view(machines.machine([machines.gpu(0), machines.gpu(1)])).links] == ["UNKNOWN"]


def test_links_that_differ_from_end_to_end_are_marked() -> None:
    one_sided = NvLinkReading(link=0, is_active=True, remote_type=RemoteType.GPU, remote_pci=machines.pci(1))
    view = _view(
        machines.machine(
            [machines.gpu(0, nvlinks=(one_sided,)), machines.gpu(1)],
            {(machines.pci(0), machines.pci(1)): PcieLevel.PIX},
        )
    )
    assert [(link.gpus, link.nvlinks, link.asymmetric) for link in view.links] == [((0, 1), 0, True)]


def test_gpus_of_one_product_with_other_mig_tables_are_boards_of_their_own() -> None:
    """As with two drivers' names, or where one GPU does not tell."""
    tables = ("h100-80gb", "h200-141gb", "h100-80gb")
    view = _view(machines.machine(machines.hopper(i, machines.mig(table)) for i, table in enumerate(tables)))
    assert [(board.gpus, board.mig_profiles[0].memory_mib) for board in view.boards] == [((0, 2), 9984), ((1,), 16384)]


def test_a_mig_profile_says_what_it_is_called_and_where_it_may_lie() -> None:
    [board] = _json(_view(machines.machine([machines.hopper(0, machines.mig("h100-80gb"))])))["boards"]
    assert board["migProfiles"][2] == {
        "id": 15,
        "profile": "1g.20gb",
        "computeSlices": 1,
        "memoryMib": 20096,
        "maxInstances": 4,
        "placements": [{"start": start, "size": 2} for start in (0, 2, 4, 6)],
    }


def test_mig_devices_are_listed_where_they_are_there_and_counted_where_claims_make_them() -> None:
    static = machines.mig("h100-80gb", machines.mig_instance("h100-80gb", 9, 4))
    view = _view(machines.machine([machines.hopper(0, static), machines.hopper(1, machines.mig("h100-80gb")), machines.gpu(2)]))
    assert [gpu.mig_offer for gpu in view.gpus] == ["static", "dynamic", "none"]
    assert [(each.gpu, each.device, each.profile, each.uuid) for each in view.mig_devices] == [
        (0, "gpu-0000-10-00-0-mig-3g-40gb-p9-4", "3g.40gb", "MIG-0-0")
    ]


def test_a_fabric_is_shown_with_its_state() -> None:
    fabric = FabricReading(cluster_uuid="9c6f5af3-53bf-49b5-a436-b66766c413c3", clique_id=4026, is_complete=False)
    [gpu] = _json(_view(machines.machine([machines.gpu(0, fabric=fabric)])))["gpus"]
    assert gpu["fabric"] == {"clusterUuid": "9c6f5af3-53bf-49b5-a436-b66766c413c3", "cliqueId": 4026, "complete": False}


def test_a_gpu_that_is_left_out_is_named_with_its_reason() -> None:
    failure = GpuFailure(index=3, pci=PciAddress(0, 0x4E, 0), uuid=GpuUUID("GPU-x"), reason="GPU_IS_LOST", is_lost=True)
    view = _json(_view(dataclasses.replace(machines.machine([machines.gpu(0)]), failures=(failure,))))
    assert view["failures"] == [
        {"index": 3, "pciAddress": "0000:4e:00.0", "uuid": "GPU-x", "reason": "GPU_IS_LOST", "lost": True}
    ]


def test_a_machine_without_gpus_has_a_view() -> None:
    view = _view(machines.machine([]))
    assert (view.gpus, view.links, view.islands, view.boards) == ((), (), (), ())
