"""Pods that come and go without a pause while something else happens: each must run, with its own devices, and end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.e2e.churn import Churn
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.stage import NotAsExpected, Stage, expect

_LANES = 2
_FOREVER_S = 3600.0


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Lanes of pods on the real node, and any churn beside them. The first thing that goes wrong ends them all."""

    stage: Stage
    spec: Json
    """Of each pod's claim."""
    churn: Churn | None = None
    pods: int = 0
    slowest_s: float = 0.0
    _failed: list[BaseException] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """From before what happens in here until after it, and at least one pod a lane.

        Raises:
            NotAsExpected, TimedOut: a pod did not run or did not end.
        """
        works: list[Callable[[], None]] = [lambda lane=lane: self._run_lane(lane) for lane in range(_LANES)]  # type: ignore[misc]
        if self.churn is not None:
            self.churn.until = time.monotonic() + _FOREVER_S
            works.append(self.churn.run)
        threads = [threading.Thread(target=self._run, args=(work,), name=f"traffic-{at}") for at, work in enumerate(works)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._end()
            for each in threads:
                each.join()
        if self._failed:
            raise self._failed[0]

    def _end(self) -> None:
        self._is_over.set()
        if self.churn is not None:
            self.churn.until = time.monotonic()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as err:  # noqa: BLE001 told by the thread that waits
            self._failed.append(err)
            self._end()

    def _run_lane(self, lane: int) -> None:
        number = 0
        while number == 0 or not self._is_over.is_set():
            name = f"lane-{lane}-{number}"
            began = time.monotonic()
            view = self.stage.run_pod(name, self.spec)
            took_s = time.monotonic() - began
            self.stage.expect_own_devices(name, view)
            self._expect_well(name)
            self.stage.delete_pods(name)
            self.stage.api.delete("ResourceClaimTemplate", NAMESPACE, name)
            number += 1
            with self._lock:
                self.pods += 1
                self.slowest_s = max(self.slowest_s, took_s)

    def _expect_well(self, name: str) -> None:
        body = self.stage.api.get("Pod", NAMESPACE, name)
        if body is None:
            raise NotAsExpected(f"pod {name} is gone before it was deleted")
        restarts = sum(each["restartCount"] for each in body["status"]["containerStatuses"])
        expect(body["status"]["phase"] == "Running" and not restarts, f"pod {name}: {body['status']}")
