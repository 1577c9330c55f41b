"""Contenders for a lease in memory, stepped by hand."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from driver.api.meta_v1 import ObjectMeta
from driver.controller.election.elector import Elector, Standing
from driver.controller.election.lease import ElectionSettings, Lease
from tests.fakes.leases import FakeLeases, ManualClock

NOON = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def make_settings(identity: str = "a") -> ElectionSettings:
    return ElectionSettings(namespace="kube-system", name="gpu-dra-controller", identity=identity)


def make_elector(leases: FakeLeases, clock: ManualClock, identity: str = "a") -> Elector:
    return Elector(leases, make_settings(identity), clock=clock, wall=lambda: NOON, rng=random.Random(1))


def standing_of(elector: Elector) -> Standing:
    return elector.standing


def make_leader(leases: FakeLeases, clock: ManualClock, identity: str = "a") -> Elector:
    """A leader that took over a released lease and renewed just now."""
    leases.lease = Lease(metadata=ObjectMeta(name="gpu-dra-controller", namespace="kube-system", resource_version="0"))
    elector = make_elector(leases, clock, identity)
    elector.step()
    assert standing_of(elector) is Standing.LEADING
    return elector
