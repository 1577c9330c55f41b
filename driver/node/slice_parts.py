"""What decides which devices this node publishes, and for whom, put together."""

from __future__ import annotations

from collections.abc import Callable

from driver.claims.prepare import ClaimPreparer
from driver.health.model import Health
from driver.kube.resources import NODES
from driver.node.counter_support import CounterSupport, ShareSupport
from driver.node.fence_file import FenceFile
from driver.node.fence_sources import PublishedDevices, Uptime
from driver.node.fence_support import FenceSupport
from driver.node.fencing import FencePorts, FenceSettings, Fencing
from driver.node.ground import NodeGround
from driver.node.holders import Holders
from driver.node.inventory_file import InventoryFile
from driver.node.lease_watch import LeaseWatch
from driver.node.mig_offers import MigOffers
from driver.node.node_watch import NodeWatch
from driver.node.publication import Inputs
from driver.node.sharing import ShareReader
from driver.node.taint_support import TaintSupport
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publisher_lock import PublisherLock


def build_mig_offers(ground: NodeGround, preparer: ClaimPreparer, inventory: InventoryFile) -> MigOffers:
    """Says what of each GPU may be given out."""
    return MigOffers(
        setting=ground.settings.mig,
        counters=CounterSupport(ground.client, ground.settings.pool),
        read_claims=preparer.read_mig,
        read_inventory=inventory.read,
    )


def build_fencing(
    ground: NodeGround,
    publisher: Publisher,
    lock: PublisherLock,
    inventory: InventoryFile,
    node_watch: NodeWatch,
    on_change: Callable[[], None],
) -> Fencing:
    """Says whose the devices are; ``on_change`` has them published anew. ``lock`` is the publisher's."""
    settings = ground.settings
    return Fencing(
        FenceSettings(allocator=settings.allocator, drain_s=settings.drain_s),
        FencePorts(
            file=FenceFile(settings.plugin_dir),
            lock=lock,
            support=FenceSupport(ground.client, settings.pool),
            lease=LeaseWatch(ground.client, settings.controller_lease),
            read_node=node_watch.read,
            read_settled=publisher.read_settled,
            read_published=PublishedDevices(ground.client, settings.pool).read,
            read_remembered=lambda: inventory.read().devices,
            read_moment=Uptime(ground.roots).read,
            say=ground.reports.say,
            on_change=on_change,
        ),
    )


def build_inputs(
    ground: NodeGround,
    preparer: ClaimPreparer,
    fencing: Fencing,
    mig: MigOffers,
    node_watch: NodeWatch,
    read_health: Callable[[], Health],
) -> Inputs:
    """What a pass over the machine is made slices with."""
    client, settings = ground.client, ground.settings
    return Inputs(
        pool=settings.pool.pool,
        read_fence=fencing.read,
        read_node_uid=lambda: node_watch.read().uid or client.get(NODES, settings.node_name).metadata.uid,
        read_held=Holders(client, settings.pool, preparer.read_held_devices).read,
        mig=mig,
        read_shares=ShareReader(settings.shares, ShareSupport(client, settings.pool)).read,
        read_health=read_health,
        read_taint_rules=TaintSupport(client, settings.pool, settings.health.evicts).read,
    )
