"""The node half's page of figures: put together, and served where the settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from driver import log
from driver.claims.effects import ClaimReader
from driver.claims.record import ClaimRecord
from driver.errors import DriverError
from driver.health.model import HEALTHY, Health
from driver.metrics.definition import LookedUp, Sample
from driver.metrics.pages import Page, PageServer
from driver.metrics.registry import build_registry, render_page
from driver.names import DeviceName
from driver.node.metrics.counted import CountedFigures
from driver.node.metrics.gpu_figures import FiguresReader
from driver.node.metrics.pods import ClaimPods
from driver.node.metrics.view import DEFINITIONS, NodeView, build_samples
from driver.node.state import Seen
from driver.nvml.library import OpenNvml
from driver.plugin.health import DeviceHealth
from driver.plugin.registration import RegistrationStatus
from driver.resourceslice.publish_reports import PublishStatus
from driver.topology.model import Gpu

_LOG = log.logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """Whom a scrape asks. Each answers from memory or from the records on disk; none from hardware or the API server."""

    read_seen: Callable[[], Seen]
    read_records: Callable[[], tuple[ClaimRecord, ...]]
    """Raises ``StateUnwritable``."""
    read_registration: Callable[[], RegistrationStatus]
    read_publish: Callable[[], PublishStatus]
    read_kubelet: Callable[[], tuple[DeviceHealth, ...]]
    """What the kubelet is told of each device."""
    read_health: Callable[[], Health] = lambda: HEALTHY
    has_device_plugin: Callable[[], bool] = lambda: False
    """Whether another gives out this node's GPUs by number."""


class NodeMetrics:
    """Counts from the start on, whether it is served or not; ``serve`` is called once, with what a scrape asks."""

    def __init__(self, reader: ClaimReader, open_nvml: OpenNvml) -> None:
        self.registry = build_registry("kubelet-plugin")
        self.counted = CountedFigures(self.registry)
        self.pods = ClaimPods(reader)
        """Reads claims by ``reader``, and remembers their pods."""
        self._figures = FiguresReader(open_nvml)
        self._server: PageServer | None = None

    @property
    def port(self) -> int:
        """Where it is served, 0 for nowhere."""
        return self._server.port if self._server is not None else 0

    def serve(self, address: str, sources: NodeSources) -> None:
        """Serve the page.

        Raises:
            SocketUnusable: the address cannot be had.
        """
        lookup = _Lookup(sources=sources, pods=self.pods, figures=self._figures)
        self.registry.register(LookedUp(DEFINITIONS, lookup.read))
        self._server = PageServer(address, {"/metrics": self.page})
        self._server.start()

    def stop(self) -> None:
        """Serve no more."""
        if self._server is not None:
            self._server.stop()

    def page(self, accept: str) -> Page:
        """Everything, in the form that the scraper asks for."""
        return render_page(self.registry, accept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    sources: NodeSources
    pods: ClaimPods
    figures: FiguresReader
    remembered: dict[DeviceName, Gpu] = field(default_factory=dict)
    """Every GPU as it answered last: one that falls off the bus is told of with its UUID all the same."""

    def read(self) -> Iterable[Sample]:
        sources, seen = self.sources, self.sources.read_seen()
        records = self._read_records()
        self.pods.follow(records)
        health = sources.read_health()
        self.remembered.update(seen.cards)
        ill = {each.device for each in health.troubles} - seen.cards.keys()
        view = NodeView(
            registration=sources.read_registration(),
            publish=sources.read_publish(),
            is_read=not seen.unread,
            has_device_plugin=sources.has_device_plugin(),
            cards=seen.cards,
            lost={name: self.remembered[name] for name in sorted(ill & self.remembered.keys())},
            devices=seen.devices,
            kubelet=sources.read_kubelet(),
            health=health,
            records=records,
            pods_of=self.pods.names,
            figures=self.figures.read([gpu.reading.uuid for gpu in seen.cards.values()]) if seen.cards else (),
        )
        return build_samples(view)

    def _read_records(self) -> tuple[ClaimRecord, ...]:
        try:
            return self.sources.read_records()
        except DriverError as err:
            log.event(_LOG, log.WARNING, "the records cannot be read for figures", error=err)
            return ()
