"""The profile does to a claim what the plugin does, step by step."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hack.bench.cluster import Author, StandIn
from hack.bench.profile import Steps, build_preparer, prepare_and_release
from hack.bench.stage import NODE


def test_every_step_of_prepare_and_unprepare_is_timed_once_a_claim() -> None:
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="gb", dir="/tmp") as made:
        folder = Path(made)
        cluster = StandIn(folder)
        try:
            preparer, devices = build_preparer(folder, cluster.kubeconfig, steps.begin)
            author = Author(cluster)
            claims = [author.make_claim(NODE, [device]) for device in devices[:2]]
            author.close()
            prepare_and_release(preparer, claims, steps.begin)
        finally:
            cluster.end()
        assert list((folder / "cdi").iterdir()) == []
        assert list((folder / "p" / "claims").iterdir()) == []
    assert {len(took) for took in steps.took.values()} == {2}
    assert [name.partition(":")[0] for name in steps.took] == [
        *["prepare"] * 5,
        "prepare again",
        *["unprepare"] * 6,
    ]


def test_a_step_lasts_until_the_next_begins() -> None:
    steps = Steps()
    for name in ("a", "b", "a", ""):
        steps.begin(name)
    assert {name: len(took) for name, took in steps.took.items()} == {"a": 2, "b": 1}
    assert all(took >= 0 for each in steps.took.values() for took in each)
