"""What every part of the node half stands on."""

from __future__ import annotations

from dataclasses import dataclass

from driver.cdi.host import HostFacts
from driver.host.roots import Roots
from driver.kube.client import KubeClient
from driver.node.reports import NodeReports
from driver.node.settings import NodeSettings
from driver.node.state import NodeState
from driver.nvml.library import OpenNvml


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGround:
    """One node's, made once for the life of the process."""

    settings: NodeSettings
    roots: Roots
    host: HostFacts
    client: KubeClient
    open_nvml: OpenNvml
    state: NodeState
    reports: NodeReports
