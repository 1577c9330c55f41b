"""A node in one process: the real node half between a fake kubelet and a fake API server, on a mock machine."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from driver.claims.model import ClaimRef, PreparedDevice
from driver.cli.backend import OpenedForEachPass, open_mock_backend, open_nvml
from driver.kube.client import KubeClient
from driver.names import ClaimUID
from driver.node.health.watch import HealthSettings
from driver.node.machine import MachineReader
from driver.node.node_plugin import NodePlugin
from driver.node.settings import NodeSettings
from driver.nvml.mock.faults import Fault
from driver.nvml.mock.machine import write_faults
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.shares import NO_SHARES, ShareSetting
from driver.topology.mig_offer import MigSetting
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.kubelet import FakeKubelet

DRIVER = "gpu.nvidia.com"
NODE = "node-a"


class OneNode:
    """Start and stop plugins on it; allocate claims as kube-scheduler would; ask as the kubelet would."""

    def __init__(self, folder: Path, api: FakeKubeApi, kubelet: FakeKubelet) -> None:
        self.folder = folder
        self.api = api
        self.kubelet = kubelet
        self.plugin_dir = folder / "plugins" / DRIVER
        self.cdi_root = folder / "cdi"
        self.mock_state = folder / "mock"
        self.plugins: list[NodePlugin] = []

    def start(
        self,
        machine: str = "dgx-h100",
        *,
        instance: str | None = None,
        mig: MigSetting = MigSetting.OFF,
        wrap: Callable[[MachineReader], MachineReader] = lambda reader: reader,
        allocator: Allocator = Allocator.SCHEDULER,
        drain_s: float = 900.0,
        shares: ShareSetting = NO_SHARES,
        metrics_address: str = "",
        health: HealthSettings | None = None,
    ) -> NodePlugin:
        """One instance of the node half; it may not be registered or published yet. ``wrap`` may change what it reads."""
        backend = open_mock_backend(machine, self.mock_state)
        settings = NodeSettings(
            driver_name=DRIVER,
            node_name=NODE,
            allocator=allocator,
            drain_s=drain_s,
            kubelet_root=self.folder,
            registry_dir=self.kubelet.registry_dir,
            plugin_dir=self.plugin_dir,
            cdi_root=self.cdi_root,
            mps_dir=self.folder / "mps",
            isolates_mps=False,
            mig=mig,
            shares=shares,
            health=health or HealthSettings(),
            instance=instance or str(uuid.uuid4()),
            metrics_address=metrics_address,
        )
        plugin = NodePlugin(
            settings,
            wrap(OpenedForEachPass(backend)),
            backend.roots,
            KubeClient(self.api.credentials(), timeout_s=5.0),
            functools.partial(open_nvml, backend),
        )
        self.plugins.append(plugin)
        plugin.start()
        return plugin

    def stop(self, plugin: NodePlugin) -> None:
        """As SIGTERM."""
        self.plugins.remove(plugin)
        assert plugin.stop(5.0)

    def play(self, *faults: Fault) -> None:
        """These are the machine's faults from now on."""
        self.mock_state.mkdir(parents=True, exist_ok=True)
        write_faults(self.mock_state, faults)

    def devices(self) -> dict[str, dict[str, Any]]:
        """What is published, by name."""
        slices = self.api.objects("resourceslices")
        return {device["name"]: device for each in slices for device in each["spec"].get("devices", [])}

    def wait(self, is_true: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Wait until it is so, or fail."""
        assert self.kubelet.wait(is_true, timeout_s)

    def wait_published(self, count: int) -> None:
        """Wait for so many devices, and for the kubelet to know the plugin."""
        self.wait(lambda: len(self.devices()) == count)
        self.kubelet.wait_registered(DRIVER)

    def events(self, reason: str) -> list[str]:
        """What was said of this reason."""
        return [each["note"] for each in self.api.objects("events") if each["reason"] == reason]

    def allocate(self, name: str, devices: Sequence[str], *, configs: Sequence[Any] = (), **fields: Any) -> ClaimRef:
        """A claim that was given these devices, with these opaque parameters of its own."""
        uid = str(uuid.uuid4())
        results = [{"request": "gpus", "driver": DRIVER, "pool": NODE, "device": device} | fields for device in devices]
        body = {
            "metadata": {"name": name, "namespace": "team", "uid": uid},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": DRIVER}}]}},
            "status": {"allocation": {"devices": {"results": results, "config": [_build_config(each) for each in configs]}}},
        }
        created = self.api.create("resourceclaims", body)
        if not created.get("status"):
            self.api.edit(
                "resourceclaims", name, lambda now: now | {"status": body["status"]}, namespace="team", is_status=True
            )
        return ClaimRef(namespace="team", name=name, uid=ClaimUID(created["metadata"]["uid"]))

    def prepare(self, *claims: ClaimRef) -> dict[ClaimUID, tuple[PreparedDevice, ...]]:
        """One call of the kubelet's."""
        return self.kubelet.prepare(DRIVER, claims)

    def unprepare(self, *claims: ClaimRef) -> None:
        """One call of the kubelet's."""
        self.kubelet.unprepare(DRIVER, claims)

    def cdi_files(self) -> list[Path]:
        """The claims' files (not those of the metadata)."""
        return sorted(self.cdi_root.glob("k8s.gpu.nvidia.com-claim_*"))


def _build_config(parameters: Any) -> dict[str, Any]:
    return {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}


@contextlib.contextmanager
def one_node(*, gates_off: Sequence[str] = ()) -> Iterator[OneNode]:
    """A node without a plugin yet, in a folder with a short name: socket paths are limited."""
    folder = Path(tempfile.mkdtemp(prefix="n", dir="/tmp"))
    try:
        with FakeKubeApi(gates_off=gates_off) as api, FakeKubelet(folder / "reg") as kubelet:
            api.create("nodes", {"metadata": {"name": NODE, "uid": "a939d989-cf39-4608-bbce-df67c38058dd"}})
            node = OneNode(folder, api, kubelet)
            try:
                yield node
            finally:
                for plugin in tuple(node.plugins):
                    plugin.stop(2.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
