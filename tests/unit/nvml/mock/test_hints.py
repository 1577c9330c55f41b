"""A wrong machine file is answered with what would be right."""

from __future__ import annotations

import pytest

from driver.errors import MachineInvalid
from driver.nvml.mock.document import MachineDocument
from driver.nvml.mock.yaml_text import decode_yaml

LINES = {"name": "mine", "driver": "'580.95.05'", "cuda": "'13.0'", "gpus": "[{board: t4, pci: ['17:00.0']}]"}


def fault_of(**changes: str) -> str:
    """The error of a machine that is right but for ``changes``."""
    text = "\n".join(f"{key}: {value}" for key, value in {**LINES, **changes}.items())
    with pytest.raises(MachineInvalid) as caught:
        decode_yaml(text.encode(), MachineDocument, source="mine.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"cuda": "13.0"}, '`$.cuda`; write it in quotes, such as "13.0"'),
        ({"driver": "580.95"}, '`$.driver`; write it in quotes, such as "580.159.04"'),
        ({"boards": "{x: {product: 3}}"}, "`$.boards[...].product`; write it in quotes"),
        ({"nvlinks": "{}"}, "`nvlinks`; did you mean nvlink?"),
        ({"gpus": "[{board: t4, pci: [17:00.0], numma: 0}]"}, "`$.gpus[0]`; did you mean numa?"),
        ({"gpus": "[{x: 0}]"}, "; one of board, mig, minors, modules, numa, pci, root, switch, uuids"),
        ({"gpus": "[{board: t4, pci: 17:00.0}]"}, "`$.gpus[0].pci`; write a list, [a, b], also for one"),
        ({"gpus": "[{board: t4, pci: [17:00]}]"}, "`$.gpus[0].pci[0]`; such as 17:00.0"),
        ({"gpus": "[{board: t4, pci: [17:00.0], root: '0:15'}]"}, "`$.gpus[0].root`; such as pci0000:15"),
        ({"nvlink": "{pairs: {0+1: 12}}"}, "`key` in `$.nvlink.pairs`; such as 0-1"),
        ({"levels": "{NEAR: []}"}, "`key` in `$.levels`; one of NODE, PHB, PIX, PXB, SYS"),
        ({"virtualization": "non"}, "`$.virtualization`; did you mean none?"),
        ({"faults": "[{kind: gpu-losst, gpu: 0}]"}, "`$.faults[0].kind`; did you mean gpu-lost?"),
        ({"faults": "[{kind: gpu-lost, gpus: 0}]"}, "`$.faults[0]`; did you mean gpu?"),
        ({"faults": "[{gpu: 0}]"}, "missing required field `kind` - at `$.faults[0]`"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(changes: dict[str, str], hint: str) -> None:
    assert fault_of(**changes).endswith(hint)
