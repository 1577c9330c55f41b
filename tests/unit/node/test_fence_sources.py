"""The moments that the fence is counted by, and the devices that it is judged by."""

from __future__ import annotations

import time
from pathlib import Path

from driver.host.roots import Roots
from driver.kube.client import KubeClient
from driver.names import PoolName
from driver.node.fence import Moment
from driver.node.fence_sources import PublishedDevices, Uptime, read_uptime_s
from driver.resourceslice.diff import PoolIdentity
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.slices import as_json, content, device, pool_of

BOOT_ID = "11111111-1111-4111-8111-111111111111"


def test_a_moment_is_of_this_boot(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(f"{BOOT_ID}\n")
    assert Uptime(Roots(proc=tmp_path), lambda: 12.5).read() == Moment(boot_id=BOOT_ID, uptime_s=12.5)


def test_without_a_boot_id_no_moment_of_another_process_counts(tmp_path: Path) -> None:
    """Nobody could tell a reboot from none; within the process it can be counted on."""
    roots = Roots(proc=tmp_path)
    mine = Uptime(roots, lambda: 1.0)
    assert mine.read() == mine.read()
    assert mine.read().boot_id != Uptime(roots, lambda: 1.0).read().boot_id


def test_uptime_goes_on_and_has_nothing_to_do_with_the_date() -> None:
    first = read_uptime_s()
    assert first <= read_uptime_s() < time.time()


def test_devices_of_this_pool_are_found_in_all_of_its_slices() -> None:
    pool = PoolIdentity(driver="gpu.nvidia.com", node_name="node-a", pool=PoolName("node-a"))
    with FakeKubeApi() as api:
        reader = PublishedDevices(KubeClient(api.credentials(), timeout_s=5.0), pool)
        assert reader.read() == ()
        for each in pool_of([content("gpu-a"), content("gpu-b")]):
            api.create("resourceslices", as_json(each))
        assert {each.name for each in reader.read()} == {"gpu-a", "gpu-b"}
        assert reader.read()[0].attributes == device("gpu-a").attributes
