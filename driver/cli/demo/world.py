"""The node of the demo: a mock machine, the real plugin on it, and the stand-ins around, in one folder that goes away again."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

import msgspec

from driver.api.resource_v1 import ResourceSlice
from driver.claims.model import ClaimRef
from driver.cli.backend import OpenedForEachPass, open_mock_backend, open_nvml
from driver.cli.demo.api import MemoryApi, Target
from driver.cli.demo.container import CdiFile
from driver.cli.demo.kubelet import Answer, DemoFailed, DemoKubelet, Registered
from driver.cli.demo.scheduler import DRIVER, Ask, build_allocation, build_claim
from driver.kube.client import KubeClient
from driver.kube.credentials import Credentials, Endpoint, FixedHeader
from driver.names import ClaimUID
from driver.node.node_plugin import NodePlugin
from driver.node.settings import NodeSettings
from driver.resourceslice.attributes import Allocator

NODE = "demo-node"
PATIENCE_S = 15.0
_GRACE_S = 2.0
_ASK_AGAIN_S = 0.1


class World:
    """``with World(machine, folder) as world:``; what is running ends with the block."""

    def __init__(self, machine: str, folder: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Raises ``MachineInvalid`` where there is no such mock machine."""
        self.backend = open_mock_backend(machine, folder / "machine")
        self.cdi_root = folder / "cdi"
        self.plugin_dir = folder / "plugin"
        self.registry_dir = folder / "registry"
        self.api = MemoryApi()
        self.kubelet = DemoKubelet(self.registry_dir)
        self._folder = folder
        self._patience_s = patience_s
        self._client = KubeClient(
            Credentials(endpoint=Endpoint(server=self.api.url), authorization=FixedHeader(None), source="the demo")
        )
        self._plugin: NodePlugin | None = None

    def __enter__(self) -> World:
        self.api.__enter__()
        self.registry_dir.mkdir()
        self.api.store.create("nodes", {"metadata": {"name": NODE}})
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_plugin()
        self._client.close()
        self.api.__exit__()

    def start_plugin(self) -> Registered:
        """Start ``gpu-dra kubelet-plugin``, as it were, and register it.

        Raises:
            DemoFailed: it did not come up in time.
        """
        settings = NodeSettings(
            driver_name=DRIVER,
            node_name=NODE,
            allocator=Allocator.SCHEDULER,
            kubelet_root=self._folder,
            registry_dir=self.registry_dir,
            plugin_dir=self.plugin_dir,
            cdi_root=self.cdi_root,
            mps_dir=self._folder / "mps",
            isolates_mps=False,
        )
        self._plugin = NodePlugin(
            settings,
            OpenedForEachPass(self.backend),
            self.backend.roots,
            self._client,
            functools.partial(open_nvml, self.backend),
        )
        self._plugin.start()
        return self.kubelet.register(self._patience_s)

    def stop_plugin(self) -> None:
        """Stop it in good order; claims stay prepared."""
        if self._plugin is not None:
            self._plugin.stop(_GRACE_S)
            self._plugin = None

    def wait_slices(self) -> tuple[ResourceSlice, ...]:
        """The published slices, as soon as the pool is whole and has devices.

        Raises:
            DemoFailed: that took too long.
        """
        give_up_at = time.monotonic() + self._patience_s
        store = self.api.store
        with store.changed:
            while True:
                items, _ = store.select(Target("resourceslices", "", ""))
                slices = tuple(msgspec.convert(item, ResourceSlice) for item in items)
                if any(each.spec.devices for each in slices) and len(slices) == slices[0].spec.pool.resource_slice_count:
                    return slices
                if not store.changed.wait(give_up_at - time.monotonic()):
                    raise DemoFailed(
                        f"no device was published within {self._patience_s:g} s; `gpu-dra inspect` shows the machine"
                    )

    def create_claim(self, ask: Ask) -> ClaimRef:
        """Write a claim, as a person does."""
        meta = self.api.store.create("resourceclaims", build_claim(ask), namespace="default")["metadata"]
        return ClaimRef(namespace=meta["namespace"], name=meta["name"], uid=ClaimUID(meta["uid"]))

    def allocate(self, ref: ClaimRef, devices: tuple[str, ...]) -> None:
        """Write ``status.allocation``, as kube-scheduler does."""
        status = {"allocation": build_allocation(devices, driver=DRIVER, pool=NODE)}
        self.api.store.change(Target("resourceclaims", ref.namespace, ref.name), lambda old: {**old, "status": status})

    def read_cdi(self) -> tuple[CdiFile, ...]:
        """All CDI files, as the container runtime finds them."""
        paths = sorted(self.cdi_root.glob("*.json")) if self.cdi_root.is_dir() else []
        return tuple(CdiFile(name=path.name, spec=json.loads(path.read_bytes())) for path in paths)

    def prepare_until_ready(self, ref: ClaimRef) -> Answer:
        """As the kubelet, which asks again for a while when a claim cannot be prepared yet."""
        give_up_at = time.monotonic() + self._patience_s
        while True:
            answer = self.kubelet.prepare([ref])[ref.uid]
            if not answer.error or time.monotonic() > give_up_at:
                return answer
            time.sleep(_ASK_AGAIN_S)

    def records(self) -> list[Path]:
        """The claims' records on disk."""
        return sorted((self.plugin_dir / "claims").glob("*.json"))
