"""The page for people: its machine and its faults are read, and it names every machine and kind of fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from driver.nvml.mock import open_mock, read_machine_names
from driver.nvml.mock.catalogue import decode_machine
from driver.nvml.mock.faults import Fault, FaultsDocument
from driver.nvml.mock.yaml_text import decode_yaml

PAGE = (Path(__file__).parents[4] / "docs" / "mock-machines.md").read_text(encoding="utf-8")
MACHINE, FAULTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_pages_machine_opens(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(MACHINE, encoding="utf-8")
    mock = open_mock(str(path), tmp_path / "state")
    mock.library.init()
    device = mock.library.device_handle_by_index(2)
    assert mock.library.device_name(device) == "NVIDIA A100 Lab Sample"
    assert len(mock.library.device_gpu_instances(device, 9)) == 1


def test_the_pages_other_forms_of_links_are_right() -> None:
    without = re.sub(r"  pairs: .*\n", "", MACHINE)
    for form in ("switches", "matrix"):
        value = re.search(rf"^# {form}: (.*\]) ", MACHINE, re.MULTILINE)
        assert value is not None
        text = without.replace("# switches:", f"  {form}: {value[1]}\n#", 1)
        assert decode_machine(text.encode(), source=form, seed="").gpus


def test_the_pages_faults_are_read_and_have_every_kind() -> None:
    faults = decode_yaml(FAULTS.encode(), FaultsDocument, source="page").faults
    assert {type(fault) for fault in faults} == set(get_args(Fault))


def test_the_page_names_every_machine() -> None:
    assert {name for name in read_machine_names() if f"`{name}`" not in PAGE} == set()
