"""Only a complete fabric with a real cluster is a domain that spans nodes."""

from __future__ import annotations

import pytest

from driver.nvml.readings import FabricReading
from driver.topology.fabric import fabric_domain

CLUSTER = "9c6f5af3-53bf-49b5-a436-b66766c413c3"


def test_cluster_and_clique_together_name_the_domain() -> None:
    assert fabric_domain(FabricReading(cluster_uuid=CLUSTER, clique_id=4026, is_complete=True)) == f"{CLUSTER}.4026"


def test_two_cliques_of_one_cluster_are_two_domains() -> None:
    domains = {fabric_domain(FabricReading(cluster_uuid=CLUSTER, clique_id=clique, is_complete=True)) for clique in (0, 1)}
    assert len(domains) == 2


def test_upper_case_is_the_same_cluster() -> None:
    assert fabric_domain(FabricReading(cluster_uuid=CLUSTER.upper(), clique_id=1, is_complete=True)) == f"{CLUSTER}.1"


NO_DOMAIN = {
    "no fabric": None,
    "not complete": FabricReading(cluster_uuid=CLUSTER, clique_id=1, is_complete=False),
    "complete with a cluster of zeros, as a single HGX board says": FabricReading(
        cluster_uuid="00000000-0000-0000-0000-000000000000", clique_id=0, is_complete=True
    ),
    "empty cluster": FabricReading(cluster_uuid="", clique_id=1, is_complete=True),
    "junk cluster": FabricReading(cluster_uuid="x" * 300, clique_id=1, is_complete=True),
    "negative clique": FabricReading(cluster_uuid=CLUSTER, clique_id=-1, is_complete=True),
}


@pytest.mark.parametrize("fabric", NO_DOMAIN.values(), ids=NO_DOMAIN.keys())
def test_anything_else_is_no_shared_domain(fabric: FabricReading | None) -> None:
    assert fabric_domain(fabric) is None
