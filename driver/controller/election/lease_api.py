"""The few requests that the election takes."""

from __future__ import annotations

from typing import Protocol

from driver.controller.election.lease import LEASES, ElectionSettings, Lease
from driver.kube.client import KubeClient


class Leases(Protocol):
    """The one lease, on the API server. Every method raises ``ApiError``."""

    def read(self) -> Lease:
        """The lease; ``NotFound`` where there is none yet."""

    def create(self, lease: Lease) -> Lease:
        """Create it; ``Conflict`` where somebody was quicker."""

    def replace(self, lease: Lease) -> Lease:
        """Write it; ``Conflict`` where its resourceVersion is not the latest."""


class ApiLeases:
    """The lease as a ``KubeClient`` sees it. The client is for the election alone, with a time-out of its own."""

    def __init__(self, client: KubeClient, settings: ElectionSettings) -> None:
        self._client = client
        self._namespace = settings.namespace
        self._name = settings.name

    def read(self) -> Lease:
        """``Leases.read``."""
        return self._client.get(LEASES, self._name, namespace=self._namespace)

    def create(self, lease: Lease) -> Lease:
        """``Leases.create``."""
        return self._client.create(LEASES, lease, namespace=self._namespace)

    def replace(self, lease: Lease) -> Lease:
        """``Leases.replace``."""
        return self._client.replace(LEASES, lease)
