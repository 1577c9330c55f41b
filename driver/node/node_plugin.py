"""The node half as one object: built whole, started, stopped. Nothing here decides anything about a claim or a device."""

from __future__ import annotations

import enum
import queue

from driver.cdi.host import HostFacts
from driver.cdi.store import CdiStore
from driver.claims.cleanup import Cleanup
from driver.claims.metadata import MetadataFolder, MetadataPlace
from driver.claims.prepare import ClaimPreparer, Surroundings
from driver.claims.private_folder import make_private_folder
from driver.claims.work import Identity
from driver.errors import AnotherPublisher, DeviceNotReady
from driver.host.epoch import read_epoch
from driver.host.roots import Roots
from driver.kube.client import KubeClient
from driver.kube.events import EventRecorder, Source
from driver.kube.resources import NODES
from driver.node.claim_reader import ApiClaimReader
from driver.node.holders import Holders
from driver.node.inventory_file import InventoryFile
from driver.node.machine import MachineReader, MachineWatch
from driver.node.publication import Inputs, Outlets, Publication
from driver.node.reports import NodeReports
from driver.node.settings import NodeSettings
from driver.node.state import NodeState
from driver.node.upkeep import Upkeep
from driver.plugin.health import HealthBoard
from driver.plugin.server import PluginCallbacks, PluginServer, PluginSettings
from driver.resourceslice.other_publisher import detect_other_publisher, read_nvidia_traces
from driver.resourceslice.publish import Publisher, PublisherReports
from driver.resourceslice.publisher_lock import FilePublisherLock

LAST_WORDS_S = 2.0
"""How long an event about why the process ends may take to reach the API server."""


class Ask(enum.Enum):
    """What a signal asks for."""

    END = "end"
    LOOK_AGAIN = "look again"


class NodePlugin:
    """Threads begin in ``start``; ``wait`` returns when something must end the process."""

    def __init__(self, settings: NodeSettings, machine: MachineReader, roots: Roots, client: KubeClient) -> None:
        self._settings = settings
        self._roots = roots
        self._asked: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self._refusal = ""
        source = Source(controller=f"{settings.driver_name}/kubelet-plugin", instance=settings.node_name)
        self._events = EventRecorder(client, source)
        self._reports = NodeReports(self._events, settings.node_name)
        self._state = NodeState(roots)
        self._preparer = ClaimPreparer(self._build_surroundings(client))
        self._publisher = Publisher(
            client,
            settings.pool,
            lock=FilePublisherLock(settings.plugin_dir / "publish.lock"),
            reports=PublisherReports(say=self._reports.warn, refuse=self._refuse),
        )
        health = HealthBoard()
        self._server = PluginServer(self._build_plugin_settings(), self._preparer, health, self._build_callbacks())
        self._upkeep = Upkeep(self._preparer.repair, self._build_cleanup(client).run_pass)
        self._publication = Publication(
            Inputs(
                pool=settings.pool.pool,
                allocator=settings.allocator,
                read_node_uid=lambda: client.get(NODES, settings.node_name).metadata.uid,
                read_held=Holders(client, settings.pool, self._preparer.read_held_devices).read,
            ),
            Outlets(
                state=self._state,
                inventory=InventoryFile(settings.plugin_dir),
                publisher=self._publisher,
                health=health,
                say=self._reports.say,
                on_devices=self._upkeep.repair_soon,
            ),
        )
        self._machine = MachineWatch(machine, self._publication.note_pass, self._publication.note_hang)

    def start(self) -> None:
        """Serve the kubelet; the machine and the API server are looked at in the background, since unprepare needs neither.

        Raises:
            AnotherPublisher: NVIDIA's own driver serves this node.
            SocketUnusable, StateUnwritable: a folder or a socket cannot be had.
        """
        make_private_folder(self._settings.plugin_dir, "the plugin's folder")
        self._refuse_beside_nvidia()
        self._preparer.start()
        self._publisher.start()
        self._upkeep.start()
        self._upkeep.repair_soon()
        self._machine.start()
        self._server.start()

    def wait(self) -> None:
        """Do what is asked for, until the end is.

        Raises:
            AnotherPublisher: another driver of our name publishes this node.
        """
        while self._asked.get() is Ask.LOOK_AGAIN:
            self.look_again()
        if self._refusal:
            self._events.flush(LAST_WORDS_S)
            raise AnotherPublisher(self._refusal)

    def ask(self, what: Ask) -> None:
        """Have ``wait`` do it. Safe in a signal handler, also in one that interrupts another."""
        self._asked.put(what)

    def look_again(self) -> None:
        """Read the machine now. For threads: in a signal handler it could wait for a lock that its own thread holds."""
        self._machine.wake()

    def stop(self, grace_s: float) -> bool:
        """Leave in good order; True when every call had its answer. Slices, records and CDI files stay: pods go on."""
        self._machine.stop()
        self._upkeep.stop()
        has_ended = self._server.stop(grace_s)
        self._publisher.stop()
        self._events.stop()
        return has_ended

    def _refuse_beside_nvidia(self) -> None:
        """Look for NVIDIA's driver on disk before anything is served; its slices are the publisher's business (R30)."""
        try:
            boot_id = read_epoch(self._roots, "").boot_id
        except DeviceNotReady:
            boot_id = ""
        reason = detect_other_publisher((), read_nvidia_traces(self._settings.plugin_dir, boot_id=boot_id))
        if reason is not None:
            self._reports.warn("AnotherPublisher", reason)
            self._events.flush(LAST_WORDS_S)
            raise AnotherPublisher(reason)

    def _refuse(self, reason: str) -> None:
        self._reports.warn("AnotherPublisher", reason)
        self._refusal = reason
        self._asked.put(Ask.END)

    def _note_registered(self) -> None:
        self._preparer.note_registered()
        self._publisher.resync()

    def _build_surroundings(self, client: KubeClient) -> Surroundings:
        settings = self._settings
        metadata = settings.plugin_dir / "dra-device-metadata"
        return Surroundings(
            folder=settings.plugin_dir,
            identity=Identity(driver=settings.driver_name, pool=settings.pool.pool),
            reader=ApiClaimReader(client),
            catalog=self._state,
            cdi=CdiStore(settings.cdi_root, settings.owner),
            host=HostFacts(self._roots),
            report=self._reports.report,
            metadata=MetadataFolder(
                MetadataPlace(
                    folder=metadata,
                    folder_on_host=metadata,  # the kubelet, too, must see the plugin's folder at the same path
                    cdi_folder=settings.cdi_root,
                    driver=settings.driver_name,
                    owner=settings.owner,
                )
            ),
        )

    def _build_cleanup(self, client: KubeClient) -> Cleanup:
        state_file = self._settings.kubelet_root / "dra_manager_state"
        return Cleanup(work=self._preparer.work, reader=ApiClaimReader(client), kubelet_state=state_file)

    def _build_plugin_settings(self) -> PluginSettings:
        settings = self._settings
        return PluginSettings(
            driver_name=settings.driver_name,
            plugin_dir=settings.plugin_dir,
            registry_dir=settings.registry_dir,
            instance=settings.instance,
            probe_address=settings.probe_address,
        )

    def _build_callbacks(self) -> PluginCallbacks:
        return PluginCallbacks(
            on_registered=self._note_registered,
            on_trouble=lambda text: self._reports.warn("RegistrationTrouble", text),
            is_ready=self._publisher.is_published,
        )
