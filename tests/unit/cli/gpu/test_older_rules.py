"""Kubernetes 1.36 has DeviceTaintRules in another version of the API: what they taint is not fit there, either."""

from __future__ import annotations

from typing import Any, cast

import pytest

from driver.cli.gpu.fleet_reading import read_fleet
from driver.cli.gpu.reading import read_cluster
from driver.controller.books.mirror import DEFAULT_SCHEDULERS, Cluster
from driver.controller.objects.taint_rules import OLDER_TAINT_RULES, TAINT_RULES, DeviceTaintRule
from driver.errors import NotFound
from driver.kube.client import KubeClient, Listing
from driver.kube.resources import RESOURCE_SLICES, Resource
from tests.unit.controller.world import DRIVER, World, world


class OlderServer:
    """Lists what a small cluster has, and rules in the older version alone."""

    def __init__(self, cluster: World) -> None:
        self._items = {RESOURCE_SLICES.plural: "ResourceSlice", TAINT_RULES.plural: "DeviceTaintRule"}
        self._objects = cluster.objects

    def list_all(self, resource: Resource[Any], *_: object) -> Listing[Any]:
        if resource is TAINT_RULES:
            raise NotFound("GET /devicetaintrules", 404, "the server could not find the requested resource")
        kind = self._items.get(resource.plural)
        items = tuple(each for (name, _), each in self._objects.items() if name == kind)
        return Listing(items=items, resource_version="1")


@pytest.mark.parametrize("is_fleet", [True, False], ids=["status", "explain"])
def test_rules_of_the_older_version_count(is_fleet: bool) -> None:
    made = world("node-a")
    made.rule("bad", device="gpu-1")
    client = cast(KubeClient, OlderServer(made))
    cluster: Cluster
    if is_fleet:
        reading = read_fleet(client, DRIVER, DEFAULT_SCHEDULERS, "team")
        assert reading.rules == (made.get(DeviceTaintRule, "bad"),)
        cluster = reading.cluster
    else:
        cluster = read_cluster(client, DRIVER, DEFAULT_SCHEDULERS).cluster
    assert cluster.fleet.nodes["node-a"].tolerated(()) == 0b1101
    assert OLDER_TAINT_RULES.type_ is TAINT_RULES.type_
