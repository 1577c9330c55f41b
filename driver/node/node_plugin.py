"""The node half as one object: built whole, started, stopped. Nothing here decides anything about a claim or a device."""

from __future__ import annotations

import enum
import signal
from collections.abc import Sequence
from dataclasses import replace

from driver.cdi.host import HostFacts
from driver.claims.prepare import ClaimPreparer
from driver.claims.private_folder import make_private_folder
from driver.errors import AnotherPublisher, DeviceNotReady
from driver.host.capabilities import list_bound_gpus, list_instances
from driver.host.epoch import read_epoch
from driver.host.roots import Roots
from driver.inbox import Inbox
from driver.kube.client import KubeClient
from driver.kube.events import EventRecorder, Source
from driver.node.claim_parts import build_claim_health, build_cleanup, build_surroundings
from driver.node.claim_reader import ApiClaimReader
from driver.node.ground import NodeGround
from driver.node.health.claim_conditions import build_verdicts
from driver.node.health.watch import HealthPorts, HealthWatch
from driver.node.inventory_file import InventoryFile
from driver.node.machine import MachineReader, MachineWatch, Pass
from driver.node.metrics.served import NodeMetrics, NodeSources
from driver.node.node_watch import NodeSeen, NodeWatch, describe_device_plugin
from driver.node.publication import Outlets, Publication
from driver.node.reports import NodeReports
from driver.node.settings import NodeSettings
from driver.node.sharing import build_sharing
from driver.node.slice_parts import build_fencing, build_inputs, build_mig_offers
from driver.node.state import NodeState
from driver.node.upkeep import Upkeep
from driver.nvml.library import OpenNvml
from driver.plugin.health import HealthBoard
from driver.plugin.server import PluginCallbacks, PluginServer, PluginSettings
from driver.resourceslice.content import SliceContent
from driver.resourceslice.other_publisher import detect_other_publisher, read_nvidia_traces
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publish_reports import PublisherReports
from driver.resourceslice.publisher_lock import FilePublisherLock

LAST_WORDS_S = 2.0
"""How long an event about why the process ends may take to reach the API server."""


class Ask(enum.Enum):
    """What a signal asks for."""

    END = "end"
    LOOK_AGAIN = "look again"


class NodePlugin:
    """Threads begin in ``start``; ``wait`` returns when something must end the process."""

    def __init__(
        self, settings: NodeSettings, machine: MachineReader, roots: Roots, client: KubeClient, open_nvml: OpenNvml
    ) -> None:
        self._settings = settings
        self._roots = roots
        self._asked: Inbox[Ask] = Inbox()
        self._refusal = ""
        self._company: object = None
        """What ``_read_company`` said at the last pass."""
        source = Source(controller=f"{settings.driver_name}/kubelet-plugin", instance=settings.node_name)
        self._events = EventRecorder(client, source)
        self._reports = NodeReports(self._events, settings.node_name)
        self._state = NodeState(roots)
        ground = NodeGround(
            settings=settings,
            roots=roots,
            host=HostFacts(roots),
            client=client,
            open_nvml=open_nvml,
            state=self._state,
            reports=self._reports,
        )
        self._metrics = NodeMetrics(ApiClaimReader(client), open_nvml)
        self._sharing = build_sharing(ground)
        self._preparer = ClaimPreparer(build_surroundings(ground, self._metrics, self._sharing))
        self._node_watch = NodeWatch(client, settings.node_name, self._note_node)
        self._node_seen = NodeSeen()
        inventory = InventoryFile(settings.plugin_dir)
        self._mig = build_mig_offers(ground, self._preparer, inventory)
        self._lock = lock = FilePublisherLock(settings.plugin_dir / "publish.lock")
        self._publisher = Publisher(client, settings.pool, lock=lock, reports=self._build_publisher_reports())
        self._fencing = build_fencing(ground, self._publisher, lock, inventory, self._node_watch, self.look_again)
        self._health_board = health = HealthBoard()
        self._server = PluginServer(self._build_plugin_settings(), self._preparer, health, self._build_callbacks())
        self._upkeep = Upkeep(self._preparer.repair, build_cleanup(ground, self._preparer).run_pass)
        self._claim_health = build_claim_health(ground, self._events, self._preparer, lock)
        self._health = HealthWatch(settings.health, self._build_health_ports(open_nvml))
        self._publication = Publication(
            build_inputs(ground, self._preparer, self._fencing, self._mig, self._node_watch, self._health.read),
            Outlets(
                state=self._state,
                inventory=inventory,
                publisher=self._publisher,
                health=health,
                say=self._reports.say,
                on_devices=self._upkeep.repair_soon,
                on_health=lambda seen: self._claim_health.note(build_verdicts(seen)),
            ),
        )
        self._machine = MachineWatch(
            machine,
            self._note_pass,
            self._publication.note_hang,
            read_sign=lambda: (list_bound_gpus(roots), list_instances(roots), self._read_company()),
        )

    @property
    def metrics_port(self) -> int:
        """Where figures are served, 0 for nowhere."""
        return self._metrics.port

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
        self._node_watch.start()
        self._fencing.start()
        self._upkeep.start()
        self._upkeep.repair_soon()
        self._health.start()
        self._claim_health.start()
        self._machine.start()
        self._server.start()
        if self._settings.metrics_address:
            self._metrics.serve(self._settings.metrics_address, self._build_sources())

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

    def heed(self, number: signal.Signals, what: Ask) -> None:
        """From now on the signal has ``wait`` do it."""
        self._asked.heed(number, what)

    def look_again(self) -> None:
        """Read the machine now. For threads: in a signal handler it could wait for a lock that its own thread holds."""
        self._machine.wake()

    def stop(self, grace_s: float) -> bool:
        """Leave in good order; True when every call had its answer. Slices, records and CDI files stay: pods go on."""
        self._machine.stop()
        self._health.stop()
        self._claim_health.stop()
        self._upkeep.stop()
        self._fencing.stop()
        self._node_watch.stop()
        self._metrics.stop()
        has_ended = self._server.stop(grace_s)
        self._sharing.watch.stop()
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

    def _note_node(self) -> None:
        """In the watch's thread. A Node that was made again under its name has islands of another name."""
        seen, before = self._node_watch.read(), self._node_seen
        self._node_seen = replace(seen, uid=seen.uid or before.uid)
        if seen.uid and before.uid and seen.uid != before.uid:
            self.look_again()
        if seen.counted_gpus and not before.counted_gpus:
            self._reports.warn("DevicePluginOnNode", describe_device_plugin(seen))
        self._fencing.wake()

    def _note_pass(self, seen: Pass) -> bool:
        before, self._company = self._company, self._read_company()
        if before != self._company:
            self._health_board.say_again()
        self._health.note_pass(seen)
        return self._publication.note_pass(seen)

    def _read_company(self) -> object:
        """Differs when an instance beside this one came or went, even if it did both since the last look."""
        return self._lock.read_last_ticket(), self._lock.read_others()

    def _build_health_ports(self, open_nvml: OpenNvml) -> HealthPorts:
        return HealthPorts(
            folder=self._settings.plugin_dir,
            roots=self._roots,
            open_nvml=open_nvml,
            say=self._reports.say,
            publish=lambda: self._publication.note_health(),  # noqa: PLW0108  it is made later
            look_again=self.look_again,
            leads=lambda: not self._lock.is_anothers(),
            resync=self._publisher.resync,
        )

    def _note_settled(self) -> None:
        self._metrics.counted.note_published()
        self._fencing.wake()
        settled = self._publisher.read_settled()
        if settled is not None and not self._mig.note_stored(settled.asked, settled.stored):
            self.look_again()

    def _allows(self, contents: Sequence[SliceContent]) -> bool:
        return self._fencing.allows(contents)

    def _build_publisher_reports(self) -> PublisherReports:
        return PublisherReports(
            say=self._reports.warn,
            refuse=self._refuse,
            settled=self._note_settled,
            wrote=self._metrics.counted.note_writes,
            failed=self._metrics.counted.note_publish_failure,
            allows=self._allows,
        )

    def _build_sources(self) -> NodeSources:
        return NodeSources(
            read_seen=self._state.seen,
            read_records=self._preparer.index.read_records,
            read_registration=self._server.registration,
            read_publish=self._publisher.status,
            read_kubelet=self._health_board.snapshot,
            read_health=self._health.read,
            has_device_plugin=lambda: bool(self._node_watch.read().counted_gpus),
        )

    def _note_registered(self) -> None:
        self._preparer.note_registered()
        self._publisher.resync()

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
