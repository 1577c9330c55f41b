"""MIG devices that claims make: an 8-GPU node that publishes all of them, and what making one costs beside a whole GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from hack.bench.calls import Claim, Step
from hack.bench.figure import Figure, Target
from hack.bench.measures.publishing import count_writes
from hack.bench.processes import read_memory_mb
from hack.bench.stage import NODE, PluginNode, Stage

MACHINE = "dgx-h100"
GPUS = 8
DEVICES = GPUS * 26
NVIDIAS_KB = 233.0
"""What NVIDIA's driver publishes for such a node, in 9 slices."""


def measure_mig(stage: Stage) -> Iterator[Figure]:
    """Published anew and over what was there, then prepares of parts and of whole GPUs by turns."""
    stage.cluster.delete_slices(NODE)
    node = PluginNode(stage.folder / "m", stage.cluster, MACHINE, DEVICES, mig="dynamic")
    try:
        yield from _measure_publishing(stage, node)
        yield from _measure_one(stage, node)
        yield from _measure_all_gpus(stage, node)
    finally:
        node.end()


def _measure_publishing(stage: Stage, node: PluginNode) -> Iterator[Figure]:
    first, again, writes, writes_again = [], [], [], []
    for _ in range(stage.scale.starts):
        stage.cluster.delete_slices(NODE)
        stage.cluster.forget()
        first.append(node.start())
        time.sleep(stage.scale.quiet_s)
        writes.append(count_writes(stage.cluster.requests() or []))
        node.stop()
        stage.cluster.forget()
        again.append(node.start())
        time.sleep(stage.scale.quiet_s)
        writes_again.append(count_writes(stage.cluster.requests() or []))
        node.stop()
    node.start()
    slices = stage.cluster.slices(NODE)
    kilobytes = sum(len(msgspec.json.encode(each["spec"])) for each in slices) / 1000
    yield Figure(name="mig_start", unit="s", values=first)
    yield Figure(name="mig_restart", unit="s", values=again)
    yield Figure(name="mig_writes_at_start", unit="requests", values=writes)
    none = Target(of="p95", at_most=0.0)
    yield Figure(name="mig_writes_at_restart", unit="requests", values=writes_again, target=none)
    target, detail = Target(of="p50", at_most=NVIDIAS_KB), {"slices": float(len(slices)), "devices": float(DEVICES)}
    yield Figure(name="mig_slices_8_gpus", unit="kB", values=[kilobytes], target=target, detail=detail)
    yield Figure(name="mig_memory_8_gpus", unit="MB", values=[read_memory_mb(node.pid)["rss"]])


def _measure_one(stage: Stage, node: PluginNode) -> Iterator[Figure]:
    """A 1g beside a whole GPU, each on a GPU of its own. The first row is warming up."""
    whole, part = _devices_of(node)
    claims = [stage.author.make_claim(NODE, [name]) for name in (whole[0], part[1])]
    times: dict[str, list[float]] = {name: [] for name in ("whole", "part", "whole_gone", "part_gone")}
    for number in range(stage.scale.few_pairs + 1):
        steps = {
            "whole": _step(node, "prepare", claims[0]),
            "whole_gone": _step(node, "unprepare", claims[0]),
            "part": _step(node, "prepare", claims[1]),
            "part_gone": _step(node, "unprepare", claims[1]),
        }
        took = dict(zip(steps, stage.in_a_row(list(steps.values())), strict=True))
        if number > 0:
            for name, each in took.items():
                times[name].append(each.ms)
    stage.author.delete_claims(claims)
    yield Figure(name="prepare_mig", unit="ms", values=times["part"], floor=times["whole"])
    yield Figure(name="unprepare_mig", unit="ms", values=times["part_gone"], floor=times["whole_gone"])


def _measure_all_gpus(stage: Stage, node: PluginNode) -> Iterator[Figure]:
    """One call for eight claims: a 1g of each GPU, beside the eight GPUs whole."""
    names = _devices_of(node)
    whole, parts = ([stage.author.make_claim(NODE, [name]) for name in each] for each in names)
    times: dict[str, list[float]] = {"whole": [], "parts": []}
    for number in range(stage.scale.few_pairs + 1):
        for name, claims in (("whole", whole), ("parts", parts)):
            prepared, _ = stage.in_a_row([_step(node, "prepare", *claims), _step(node, "unprepare", *claims)])
            if number > 0:
                times[name].append(prepared.ms)
    stage.author.delete_claims([*whole, *parts])
    yield Figure(name="prepare_mig_8_in_one_call", unit="ms", values=times["parts"], floor=times["whole"])


def _devices_of(node: PluginNode) -> tuple[list[str], list[str]]:
    """The whole GPUs, and a 1g of each."""
    names = node.devices()
    whole = sorted(name for name in names if "-mig-" not in name)
    return whole, [next(name for name in names if name.startswith(f"{gpu}-mig-1g-10gb-p19-")) for gpu in whole]


def _step(node: PluginNode, method: str, *claims: Claim) -> Step:
    return Step(node.socket(), "prepare" if method == "prepare" else "unprepare", claims)
