"""A fake API server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.kube.client import KubeClient
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as running:
        running.create("nodes", {"metadata": {"name": "node-a"}})
        yield running


@pytest.fixture
def client(api: FakeKubeApi) -> Iterator[KubeClient]:
    made = KubeClient(api.credentials(), timeout_s=5.0)
    yield made
    made.close()
