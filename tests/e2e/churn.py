"""Pods of many kinds that come and go at random, while controllers are killed: for the smoke and for the soak."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.e2e.controller import Controller
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import FENCED, UNFENCED, Play, gpus, is_ours, node_of, policy
from tests.e2e.stage import expect

STUCK_S = 180.0
_LOOK_S = 0.25
_SIZES = (1, 1, 1, 2, 2, 4, 8)
_LIVES_S = (0.0, 4.0)
_EVERYBODYS = ""


@dataclass(slots=True, kw_only=True)
class ChurnPod:
    """One pod's life."""

    name: str
    gpus: int
    created_at: float
    bound_at: float | None = None
    delete_at: float = 0.0
    deleted_at: float | None = None
    has_shared: bool = False


@dataclass(slots=True, kw_only=True)
class Churn:
    """Creates ``wanted`` pods that want at most ``capacity`` GPUs at a time, on fenced and, if told so, on unfenced nodes."""

    play: Play
    wanted: int
    capacity: int
    dice: random.Random
    is_mixed: bool = False
    kill_every_s: tuple[float, float] | None = None
    until: float = 0.0
    """Go on creating until then, however many it takes; 0: ``wanted`` counts."""
    on_look: Callable[[], None] | None = None
    """Called every now and then while it runs."""
    live: dict[str, ChurnPod] = field(default_factory=dict)
    created: int = 0
    ended: int = 0
    kills: int = 0
    bound_s: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    _kill_at: float = 0.0
    _dead: list[tuple[float, Controller]] = field(default_factory=list)

    def run(self) -> None:
        """Until all have come and gone.

        Raises:
            NotAsExpected: a pod is stuck, or a device was in two claims.
        """
        while self._is_creating() or self.live:
            self._create()
            self._look()
            self._delete()
            self._kill()
            self.play.check_doubles()
            if self.on_look is not None:
                self.on_look()
            time.sleep(_LOOK_S)
        for _, controller in self._dead:
            controller.start()
        self._dead.clear()

    def _is_creating(self) -> bool:
        return time.monotonic() < self.until if self.until else self.created < self.wanted

    def _create(self) -> None:
        for _ in range(self.dice.randrange(4)):
            size = self.dice.choice(_SIZES)
            if not self._is_creating() or size > self.capacity - sum(pod.gpus for pod in self.live.values()):
                return
            self.created += 1
            pod = ChurnPod(name=f"churn-{self.created}", gpus=size, created_at=time.monotonic())
            self.live[pod.name] = pod
            self._create_one(pod)
            if self.dice.random() < 0.1:
                self.play.stage.api.delete("Pod", NAMESPACE, pod.name, grace_s=0)  # it may be bound by now, where no kubelet is
                pod.deleted_at = time.monotonic()

    def _create_one(self, pod: ChurnPod) -> None:
        side = self._choose_side()
        kind = self.dice.choice(("template", "template", "named", "two", "required", "preferred"))
        if pod.gpus < 2 and kind in {"two", "required"}:
            kind = "template"
        self.kinds[kind] += 1
        if kind == "named":
            self.play.create_claim(pod.name, gpus(pod.gpus, selector=side))
            pod.has_shared = True
            self.play.create_pod(pod.name, {"gpus": pod.name})
        elif kind == "two":
            half = pod.gpus // 2
            self.play.create_pod(pod.name, {"a": gpus(half, selector=side), "b": gpus(pod.gpus - half, selector=side)})
        else:
            mode = kind if kind in {"required", "preferred"} and side == FENCED else "preferred"
            config = [] if kind == "template" else [policy(scope="nvlink", mode=mode)]
            self.play.create_pod(pod.name, {"gpus": gpus(pod.gpus, config=config, selector=side)})

    def _choose_side(self) -> str:
        return self.dice.choice((FENCED, UNFENCED, _EVERYBODYS)) if self.is_mixed else FENCED

    def _look(self) -> None:
        found = {body["metadata"]["name"]: body for body in self.play.stage.api.find("Pod", NAMESPACE)}
        now = time.monotonic()
        for pod in list(self.live.values()):
            body = found.get(pod.name)
            if body is None:
                expect(pod.deleted_at is not None, f"pod {pod.name} vanished")
                self._bury(pod)
            elif pod.bound_at is None and body["spec"].get("nodeName"):
                pod.bound_at = now
                self.bound_s.append(now - pod.created_at)
                pod.delete_at = now + self.dice.uniform(*_LIVES_S)
            since = pod.deleted_at or (now if pod.bound_at else pod.created_at)
            expect(now - since < STUCK_S, f"pod {pod.name} is stuck: {_describe(body)}")

    def _bury(self, pod: ChurnPod) -> None:
        self.ended += 1
        del self.live[pod.name]
        api = self.play.stage.api
        if pod.has_shared:
            api.delete("ResourceClaim", NAMESPACE, pod.name)
        for entry in ("gpus", "a", "b"):
            api.delete("ResourceClaimTemplate", NAMESPACE, f"{pod.name}-{entry}")

    def _delete(self) -> None:
        now = time.monotonic()
        for pod in self.live.values():
            if pod.bound_at is not None and pod.deleted_at is None and now >= pod.delete_at:
                body = self.play.stage.api.get("Pod", NAMESPACE, pod.name) or {"spec": {}}
                has_kubelet = body["spec"].get("nodeName") == self.play.stage.layout.node
                self.play.stage.api.delete("Pod", NAMESPACE, pod.name, grace_s=None if has_kubelet else 0)
                pod.deleted_at = now

    def _kill(self) -> None:
        now = time.monotonic()
        for due, controller in list(self._dead):
            if now >= due:
                controller.start()
                self._dead.remove((due, controller))
        if self.kill_every_s is None or now < self._kill_at:
            return
        if self._kill_at:
            running = [each for each in self.play.stage.controllers if each.is_running()]
            victim = self.dice.choice(running) if running else None
            if victim is not None:
                victim.kill()
                self.kills += 1
                self._dead.append((now + self.dice.uniform(0.0, 2.0), victim))
        self._kill_at = now + self.dice.uniform(*self.kill_every_s)


def look_at_sides(churn: Churn, fenced: frozenset[str]) -> Counter[str]:
    """Have the churn look now and then who allocated what; how many allocations of each side it has seen."""
    seen: Counter[str] = Counter()
    look_at = time.monotonic()

    def look() -> None:
        nonlocal look_at
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + 2.0
            seen.update(expect_sides_kept(churn.play.stage.api.find("ResourceClaim", NAMESPACE), fenced))

    churn.on_look = look
    return seen


def expect_sides_kept(claims: Sequence[Json], fenced: frozenset[str]) -> Counter[str]:
    """Every allocation on a fenced node is the controller's, every other is not; how many there are of each."""
    sides: Counter[str] = Counter()
    for claim in claims:
        if claim.get("status", {}).get("allocation"):
            is_fenced = node_of(claim) in fenced
            name = claim["metadata"]["name"]
            expect(is_ours(claim) == is_fenced, f"{name} on {node_of(claim)} was allocated by the wrong side")
            sides["controller" if is_fenced else "scheduler"] += 1
    return sides


def _describe(body: Json | None) -> str:
    return "gone" if body is None else str(body.get("status", {}))[:1000]
