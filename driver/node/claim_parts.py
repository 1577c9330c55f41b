"""What prepares this node's claims, cleans up after them and tells them of their devices, put together."""

from __future__ import annotations

from driver.cdi.store import CdiStore
from driver.claims.cleanup import Cleanup
from driver.claims.metadata import MetadataFolder, MetadataPlace
from driver.claims.prepare import ClaimPreparer, Surroundings
from driver.claims.sharing import ClaimSharing
from driver.claims.work import Identity
from driver.kube.events import EventRecorder
from driver.node.claim_reader import ApiClaimReader
from driver.node.clock import read_now
from driver.node.ground import NodeGround
from driver.node.health.claim_status_api import ApiClaimStatus, ClaimUsers
from driver.node.health.claim_writer import ClaimHealthWriter, WriterPorts
from driver.node.metrics.served import NodeMetrics
from driver.node.settings import NodeSettings
from driver.nvml.mig_machine import MigMachine
from driver.resourceslice.publisher_lock import PublisherLock


def build_surroundings(ground: NodeGround, metrics: NodeMetrics, sharing: ClaimSharing) -> Surroundings:
    """What claims are prepared with; ``metrics`` counts the steps, and sees the claims that are read."""
    settings = ground.settings
    return Surroundings(
        folder=settings.plugin_dir,
        identity=Identity(driver=settings.driver_name, pool=settings.pool.pool),
        reader=metrics.pods,
        catalog=ground.state,
        cdi=CdiStore(settings.cdi_root, settings.owner),
        host=ground.host,
        report=ground.reports.report,
        sharing=sharing,
        mig=MigMachine(ground.open_nvml),
        on_step=metrics.counted.note_step,
        measure=metrics.counted.measure,
        metadata=MetadataFolder(_build_metadata_place(settings)),
    )


def build_cleanup(ground: NodeGround, preparer: ClaimPreparer) -> Cleanup:
    """Unprepares what the kubelet has forgotten."""
    state_file = ground.settings.kubelet_root / "dra_manager_state"
    return Cleanup(work=preparer.work, reader=ApiClaimReader(ground.client), kubelet_state=state_file)


def build_claim_health(
    ground: NodeGround, recorder: EventRecorder, preparer: ClaimPreparer, lock: PublisherLock
) -> ClaimHealthWriter:
    """Writes the condition ``Healthy`` into the claims that ``preparer`` has records of, in the instance that publishes."""
    settings = ground.settings
    return ClaimHealthWriter(
        WriterPorts(
            pool=settings.pool,
            api=ApiClaimStatus(ground.client, f"{settings.driver_name}-health"),
            read_records=preparer.index.read_records,
            tell=ClaimUsers(recorder, node_name=settings.node_name).tell,
            read_now=read_now,
            leads=lambda: not lock.is_anothers(),
        )
    )


def _build_metadata_place(settings: NodeSettings) -> MetadataPlace:
    folder = settings.plugin_dir / "dra-device-metadata"
    return MetadataPlace(
        folder=folder,
        folder_on_host=folder,  # the kubelet, too, must see the plugin's folder at the same path
        cdi_folder=settings.cdi_root,
        driver=settings.driver_name,
        owner=settings.owner,
    )
