"""One node's plugin against a fake API server, as often as it is started."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.kube.client import KubeClient
from driver.resourceslice.content import SliceContent
from driver.resourceslice.pace import PaceSettings
from driver.resourceslice.publish import Publisher
from driver.resourceslice.publish_reports import PublisherReports
from driver.resourceslice.publisher_lock import FilePublisherLock
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.slices import IDENTITY

Json = dict[str, Any]

SOON_S = 20.0
PACE = PaceSettings(backoff_base_s=0.05, backoff_cap_s=0.2)


@dataclass
class PublishingNode:
    """What was published, said and refused on one node."""

    api: FakeKubeApi
    folder: Path
    said: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    publishers: list[Publisher] = field(default_factory=list)

    def start(
        self,
        contents: Sequence[SliceContent] | None = None,
        *,
        pace: PaceSettings = PACE,
        rng: random.Random | None = None,
    ) -> Publisher:
        publisher = Publisher(
            KubeClient(self.api.credentials(), timeout_s=5.0),
            IDENTITY,
            lock=FilePublisherLock(self.folder / "publish.lock"),
            reports=PublisherReports(say=lambda reason, text: self.said.append((reason, text)), refuse=self.refused.append),
            pace=pace,
            rng=rng or random.Random(1),
        )
        self.publishers.append(publisher)
        publisher.start()
        if contents is not None:
            publisher.publish(contents)
            assert publisher.wait_published(SOON_S), publisher.status()
        return publisher

    def pool(self) -> list[list[str]]:
        """The devices of the pool as a scheduler sees it; empty while the pool is incomplete."""
        slices = [item["spec"] for item in self.api.objects("resourceslices")]
        newest = max((spec["pool"]["generation"] for spec in slices), default=0)
        current = [spec for spec in slices if spec["pool"]["generation"] == newest]
        if len(current) != len(slices) or any(spec["pool"]["resourceSliceCount"] != len(current) for spec in current):
            return []
        return [[each["name"] for each in spec.get("devices", [])] for spec in current]

    def generation(self) -> int:
        return max((int(item["spec"]["pool"]["generation"]) for item in self.api.objects("resourceslices")), default=0)


def eventually(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < deadline, "did not become true"
        time.sleep(0.01)
