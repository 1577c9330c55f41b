"""What a person sees of a node."""

from __future__ import annotations

import dataclasses
import io

import pytest

from driver.cli.node_view import NodeView, build_node_view
from driver.cli.tables import build_node_tables, open_console
from driver.nvml.readings import GpuFailure, MachineReading
from driver.topology.build import build_topology
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.unit.topology import machines


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _view(reading: MachineReading, notes: tuple[str, ...] = ()) -> NodeView:
    topology = build_topology(reading)
    offers = build_offers(topology, OfferInputs(setting=MigSetting.AUTO, has_counters=True))
    return build_node_view("node-a", reading, topology, offers, notes)


def _show(reading: MachineReading, stream: io.StringIO | None = None, notes: tuple[str, ...] = ()) -> str:
    out = io.StringIO() if stream is None else stream
    console = open_console(out)
    console.print(build_node_tables(_view(reading, notes), console.width))
    return out.getvalue()


ALL = {
    "dgx-1p": machines.dgx_1p(),
    "dgx-1v": machines.dgx_1v(),
    "dgx-2": machines.dgx_2(),
    "hgx-8": machines.hgx_8(),
    "bridged": machines.bridged(),
    "half-bridged": machines.half_bridged(),
    "four meshes": machines.meshes_of_4(4),
    "pcie only": machines.pcie_only(),
    "one gpu": machines.machine([machines.gpu(0)]),
    "divided": machines.machine([machines.hopper(0, machines.mig("h100-80gb"))]),
    "MIG devices": machines.machine([machines.hopper(0, machines.mig("b300", machines.mig_instance("b300", 0, 0)))]),
    "none": machines.machine([]),
}


@pytest.mark.parametrize("name", ALL)
def test_plain_output_fits_80_columns_and_has_no_escapes_or_trailing_blanks(name: str) -> None:
    for line in _show(ALL[name]).splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()
        assert line.isprintable()


def test_the_matrix_is_the_one_of_nvidia_smi() -> None:
    shown = _show(machines.dgx_1v())
    assert "   0   X NV1 NV1 NV2 NV2 SYS SYS SYS\n" in shown
    assert "   7 SYS SYS SYS NV1 NV2 NV1 NV2   X\n" in shown


def test_a_matrix_wider_than_the_page_is_cut_into_blocks_of_columns() -> None:
    shown = _show(machines.machine(machines.gpu(i, nvlinks=machines.switch_ports(18)) for i in range(16)))
    heads = [line.split() for line in shown.splitlines() if line.split() and all(word.isdigit() for word in line.split())]
    assert heads == [[str(i) for i in range(15)], ["15"]]


def test_only_levels_that_occur_are_explained() -> None:
    shown = _show(machines.half_bridged())
    assert "NODE PCIe" in shown
    assert "SYS  PCIe" in shown
    assert "PIX" not in shown


def test_a_person_gets_colour() -> None:
    assert "\x1b[" in _show(machines.dgx_1v(), _Terminal())


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_declined(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert "\x1b[3" not in _show(machines.dgx_1v(), _Terminal())


def test_sets_are_shown_by_their_members() -> None:
    shown = _show(machines.bridged())
    assert "  nvlinkIsland  {0 2}  {1 3}  {4 5}  {6 7}\n" in shown
    assert "  nvlinkQuad    none of more than one GPU\n" in shown
    assert "  NUMA node     0 {0 1 2 3}  1 {4 5 6 7}\n" in shown


def test_what_is_left_out_is_said_last() -> None:
    failure = GpuFailure(index=1, pci=None, uuid=None, reason="NVML says GPU_IS_LOST", is_lost=True)
    reading = dataclasses.replace(machines.machine([machines.gpu(0)]), failures=(failure,))
    assert _show(reading, notes=("a name is cut",)).endswith(
        "Take note\n  NVML index 1 (address not known) is left out: NVML says GPU_IS_LOST\n  a name is cut\n"
    )


def test_markup_in_a_product_name_stays_text() -> None:
    assert "1 x [red]Evil[/red]" in _show(machines.machine([machines.gpu(0, product_name="[red]Evil[/red]")]))


def test_two_products_are_counted_apart() -> None:
    shown = _show(machines.machine([machines.gpu(0), machines.gpu(1, product_name="NVIDIA L40S", architecture="Ada Lovelace")]))
    assert "  1 x NVIDIA H100 80GB HBM3\n  1 x NVIDIA L40S (Ada Lovelace)\n" in shown
