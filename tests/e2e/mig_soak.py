"""The long count of MIG: parts of GPUs and whole ones come and go in peace, with kills, and while NVML calls fail."""

from __future__ import annotations

import datetime
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from driver.nvml.mock.machine import write_faults
from tests.e2e.scenarios.mig_churn import TROUBLES, Churn, start_churn
from tests.e2e.stage import Stage

_PROGRESS_EVERY = 25


@dataclass(slots=True)
class Stretch:
    """The steps with one kind of trouble."""

    trouble: str
    steps: int = 0
    placed: int = 0
    waited: int = 0
    kills: int = 0
    wishes: Counter[str] = field(default_factory=Counter)
    steps_s: list[float] = field(default_factory=list)


def run_mig_soak(stage: Stage, steps: int, seed: int, say: Callable[[str], None]) -> str:
    """``steps`` steps of each kind of trouble, on one machine, never emptied between them; the report as Markdown.

    Raises:
        NotAsExpected: after a step the machine's instances were not those of the prepared claims, or something was left.
    """
    began = time.monotonic()
    churn = start_churn(stage, seed)
    stretches = [_run_stretch(churn, name, steps, say) for name in TROUBLES]
    stage.delete_pods(*churn.running)
    churn.running.clear()
    churn.expect_right()
    return build_report(stage.layout.kube_version, stretches, took_s=time.monotonic() - began, seed=seed)


def _run_stretch(churn: Churn, trouble: str, steps: int, say: Callable[[str], None]) -> Stretch:
    stretch = Stretch(trouble)
    placed, waited, kills, wishes = churn.placed, churn.waited, churn.kills, Counter(churn.wishes)
    for number in range(1, steps + 1):
        began = time.monotonic()
        churn.step(TROUBLES[trouble](churn))
        stretch.steps_s.append(time.monotonic() - began)
        if number % _PROGRESS_EVERY == 0:
            say(f"MIG, {trouble}: {number} of {steps} steps")
    write_faults(churn.stage.folders.mock_state, [])
    stretch.steps = len(stretch.steps_s)
    stretch.placed, stretch.waited, stretch.kills = churn.placed - placed, churn.waited - waited, churn.kills - kills
    stretch.wishes = churn.wishes - wishes
    return stretch


def build_report(kube_version: str, stretches: Sequence[Stretch], *, took_s: float, seed: int) -> str:
    """The run in words and numbers."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows: Mapping[str, Callable[[Stretch], str]] = {
        "steps": lambda each: str(each.steps),
        "pods asked for": lambda each: ", ".join(f"{count} {wish}" for wish, count in sorted(each.wishes.items())),
        "pods placed": lambda each: str(each.placed),
        "pods without a place, where there was none": lambda each: str(each.waited),
        "kills of the plugin": lambda each: str(each.kills),
        "steps after which the instances were not the prepared claims'": lambda _: "0",
        "pods that waited though there was room": lambda _: "0",
        "instances, records left": lambda _: "0",
        "a step, s": lambda each: _spread(each.steps_s),
    }
    head = "| what | " + " | ".join(each.trouble for each in stretches) + " |\n"
    line = "| --- |" + " --- |" * len(stretches) + "\n"
    body = "".join(f"| {what} | " + " | ".join(read(each) for each in stretches) + " |\n" for what, read in rows.items())
    return (
        "# Soak of dynamic MIG\n\n"
        f"{today}; `make e2e-soak` (`hack/devcluster/e2e.sh --soak mig`): a real kubelet, kube-scheduler and containerd,\n"
        f"Kubernetes {kube_version}, one node, the mock machine hgx-h100-4. A step is a pod that comes (1g, 2g, 3g, 4g or a\n"
        "whole GPU) or one that goes. After each the mock machine's instances are compared with the claims of the running\n"
        "pods, and the records with both. The kills fall within a second of the pod's creation or deletion; the failures are\n"
        f"of one kind of NVML call, one to three times. Seed {seed}; {took_s / 60:.1f} min.\n\n"
        + head
        + line
        + body
        + "\nAny other number in the lines with 0 ends the run as failed, and writes no report. The times include the\n"
        "kubelet's retries after a kill or a failure (10 to 15 s each), and the machine's other work.\n"
    )


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    return f"median {statistics.median(ordered):.1f}, p95 {p95:.1f}, longest {ordered[-1]:.1f}"
