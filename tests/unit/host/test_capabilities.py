"""The capability nodes of a MIG device, from the driver's files."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from driver.errors import DeviceNotReady
from driver.host.capabilities import has_instances, list_bound_gpus, list_instances, read_mig_nodes
from driver.host.device_nodes import DeviceNode
from driver.host.roots import Roots

DEVICES = "Character devices:\n  1 mem\n195 nvidia\n234 nvidia-caps\n235 nvidia-caps-imex-channels\n\nBlock devices:\n  8 sd\n"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    proc = tmp_path / "proc"
    write(proc / "devices", DEVICES)
    gi = proc / "driver/nvidia/capabilities/gpu0/mig/gi3"
    write(gi / "access", "DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    write(gi / "ci0/access", "DeviceFileMinor: 31\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    return Roots(proc=proc, dev=tmp_path / "dev", dev_on_host=Path("/host/dev"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_b40_both_nodes_are_known_though_neither_is_there(roots: Roots) -> None:
    assert read_mig_nodes(roots, 0, 3, 0) == (
        DeviceNode(
            path="/dev/nvidia-caps/nvidia-cap30",
            host_path="/host/dev/nvidia-caps/nvidia-cap30",
            type="c",
            major=234,
            minor=30,
        ),
        DeviceNode(
            path="/dev/nvidia-caps/nvidia-cap31",
            host_path="/host/dev/nvidia-caps/nvidia-cap31",
            type="c",
            major=234,
            minor=31,
        ),
    )


BROKEN = {
    "no such instance": ("driver/nvidia/capabilities/gpu0/mig/gi3/access", None, "gi3/access: No such file"),
    "no compute instance": ("driver/nvidia/capabilities/gpu0/mig/gi3/ci0/access", None, "ci0/access: No such file"),
    "no minor number": ("driver/nvidia/capabilities/gpu0/mig/gi3/access", "DeviceFileMode: 292\n", "is the proc root right"),
    "no number at all": ("driver/nvidia/capabilities/gpu0/mig/gi3/access", "DeviceFileMinor: x\n", "is the proc root right"),
    "digits of another script": (
        "driver/nvidia/capabilities/gpu0/mig/gi3/access",
        "DeviceFileMinor: ٣\n",
        "is the proc root right",
    ),
    "no such major": ("devices", "195 nvidia\n", "is the proc root right"),
    "a longer word": ("devices", "235 nvidia-caps-imex-channels\n", "is the proc root right"),
    "no devices": ("devices", None, "devices: No such file"),
}


@pytest.mark.parametrize(("path", "text", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_told_fails_the_claim_and_names_the_file(roots: Roots, path: str, text: str | None, words: str) -> None:
    if text is None:
        (roots.proc / path).unlink()
    else:
        write(roots.proc / path, text)
    with pytest.raises(DeviceNotReady, match=words):
        read_mig_nodes(roots, 0, 3, 0)


def test_the_list_changes_whenever_a_mig_device_comes_or_goes(roots: Roots) -> None:
    assert list_instances(roots) == ("gpu0/mig/gi3/ci0",)
    write(roots.proc / "driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access", "DeviceFileMinor: 9\n")
    assert list_instances(roots) == ("gpu0/mig/gi3/ci0", "gpu1/mig/gi1/ci0")
    assert list_instances(Roots(proc=roots.proc / "none")) == ()


def test_the_list_changes_whenever_a_gpu_is_plugged_bound_or_taken_away(roots: Roots) -> None:
    assert list_bound_gpus(roots) == ()
    for pci in ("0000:4e:00.0", "0000:19:00.0"):
        write(roots.proc / f"driver/nvidia/gpus/{pci}/information", "Model: x\n")
    assert list_bound_gpus(roots) == ("0000:19:00.0", "0000:4e:00.0")
    assert list_bound_gpus(Roots(proc=roots.proc / "none")) == ()


def test_a_gpu_is_divided_once_it_has_an_instance_half_made_or_not(roots: Roots) -> None:
    assert has_instances(roots, 0)
    assert not has_instances(roots, 1)
    write(roots.proc / "driver/nvidia/capabilities/gpu1/mig/gi1/access", "DeviceFileMinor: 9\n")
    assert has_instances(roots, 1)


def test_what_goes_while_it_is_listed_fails_nothing(roots: Roots) -> None:
    """Claims make and remove instances all the time, and the list is read every few seconds."""
    folder = roots.proc / "driver/nvidia/capabilities/gpu1/mig"
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            for number in range(7):
                (folder / f"gi{number}/ci0").mkdir(parents=True, exist_ok=True)
            for number in range(7):
                shutil.rmtree(folder / f"gi{number}")

    busy = threading.Thread(target=come_and_go)
    busy.start()
    try:
        assert all("gpu0/mig/gi3/ci0" in list_instances(roots) for _ in range(1000))
    finally:
        is_over.set()
        busy.join()
