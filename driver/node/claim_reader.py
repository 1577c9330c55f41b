"""A claim, read from the API server."""

from __future__ import annotations

from driver.api.resource_v1 import ResourceClaim
from driver.claims.model import ClaimRef
from driver.errors import ClaimNotFound, NotFound
from driver.kube.client import KubeClient
from driver.kube.resources import RESOURCE_CLAIMS


class ApiClaimReader:
    """``claims.effects.ClaimReader`` over the API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read_claim(self, ref: ClaimRef) -> ResourceClaim:
        """The claim of this namespace and name, as it is now.

        Raises:
            ClaimNotFound: there is none.
            ApiError: the server cannot be asked, or refuses.
        """
        try:
            return self._client.get(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        except NotFound as err:
            raise ClaimNotFound(f"{ref}: the API server has no claim of this name") from err
