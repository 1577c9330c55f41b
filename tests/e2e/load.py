"""Does a process stay as small as it was? Its memory, threads and file descriptors over a long load, and the verdict."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLES = 20
_WARM = slice(2, 7)
"""The first samples are of a process that warms up: its caches and pools are not full yet."""
_LATE = slice(-5, None)
RSS_SLACK_BYTES = 4 << 20
"""What the allocator's arenas come and go by. Over 10,000 cycles it hides some 600 bytes a cycle, and no more."""
RSS_SLACK_SHARE = 0.05
THREAD_SLACK = 4
"""Pools that grow to their size: more calls at once than before."""
DESCRIPTOR_SLACK = 24
"""Eight calls at a moment have a socket, a lock and a file each. What leaks is seen at rest: ``IDLE_DESCRIPTOR_SLACK``."""
IDLE_DESCRIPTOR_SLACK = 8
"""Connections that are kept: as many as a pool may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a process takes at one moment."""

    rss_bytes: int
    threads: int
    descriptors: int


def read_footprint(pid: int) -> Footprint:
    """From ``/proc``."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if ":" in line
    )
    return Footprint(
        rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
        threads=int(status["Threads"]),
        descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
    )


def find_growth(samples: Sequence[Footprint]) -> str:
    """What grew between the warm samples and the late ones, in words; empty where all is flat."""
    warm, late = (_middle(samples[part]) for part in (_WARM, _LATE))
    limits = {
        "memory": (warm.rss_bytes, late.rss_bytes, max(RSS_SLACK_BYTES, warm.rss_bytes * RSS_SLACK_SHARE)),
        "threads": (warm.threads, late.threads, THREAD_SLACK),
        "file descriptors": (warm.descriptors, late.descriptors, DESCRIPTOR_SLACK),
    }
    grown = [f"{what} from {before} to {after}" for what, (before, after, slack) in limits.items() if after - before > slack]
    return ", ".join(grown)


def find_leak(before: Footprint, after: Footprint) -> str:
    """What a process that rests has more than when it rested before, in words; empty where nothing is."""
    limits = {
        "threads": (before.threads, after.threads, THREAD_SLACK),
        "file descriptors": (before.descriptors, after.descriptors, IDLE_DESCRIPTOR_SLACK),
    }
    return ", ".join(f"{what} from {old} to {new} at rest" for what, (old, new, slack) in limits.items() if new - old > slack)


def describe(samples: Sequence[Footprint]) -> str:
    """Warm and late, in a few words."""
    warm, late = (_middle(samples[part]) for part in (_WARM, _LATE))
    return (
        f"{warm.rss_bytes / 1e6:.1f} -> {late.rss_bytes / 1e6:.1f} MB, {warm.threads} -> {late.threads} threads, "
        f"{warm.descriptors} -> {late.descriptors} descriptors"
    )


def _middle(samples: Sequence[Footprint]) -> Footprint:
    return Footprint(
        rss_bytes=int(statistics.median(each.rss_bytes for each in samples)),
        threads=int(statistics.median(each.threads for each in samples)),
        descriptors=int(statistics.median(each.descriptors for each in samples)),
    )


class Sampler:
    """Takes ``SAMPLES`` samples of a process over the steps of a load: call ``note`` with each step that is done."""

    def __init__(self, pid: int, steps: int) -> None:
        self._pid = pid
        self._steps = steps
        self._done = 0
        self._lock = threading.Lock()
        self.samples: list[Footprint] = []

    def note(self, done: int = 1) -> None:
        """So many more steps are done. For any thread."""
        with self._lock:
            self._done += done
            while len(self.samples) < SAMPLES and self._done * SAMPLES >= (len(self.samples) + 1) * self._steps:
                self.samples.append(read_footprint(self._pid))
