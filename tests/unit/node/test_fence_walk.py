"""No order of events lets two allocators at a node's devices, and every wish is reached."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest

from driver.node.fence import FenceRecord, FenceSeen, Moment, plan_fence
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.fence import FenceStanding

S, D, C = Allocator.SCHEDULER, Allocator.DRAINING, Allocator.CONTROLLER
NOON = datetime(2026, 12, 2, 12, 0, 0, tzinfo=UTC)
DRAIN_S = 900.0


@dataclass
class World:
    """A node, its API server, and two allocators that may take their time between choosing and writing."""

    record: FenceRecord | None = None
    published: tuple[Allocator, str] | None = None
    wanted: Allocator | None = S
    now_s: float = 0.0
    boot: int = 0
    acknowledged: str = ""
    scheduler_chose_s: float | None = None
    controller_chose: bool = False
    is_controller_there: bool = True
    gone_since_s: float = 0.0
    log: list[str] = field(default_factory=list)

    def step(self) -> None:
        """The plugin looks, decides, and puts it on record."""
        is_settled = self.record is not None and self.published == (self.record.state, self.record.time_added)
        is_gone = not self.is_controller_there and self.now_s - self.gone_since_s >= DRAIN_S
        what = FenceSeen(
            wanted=self.wanted,
            refusal="",
            standing=FenceStanding.UP if is_settled else None,
            acknowledged=self.acknowledged,
            is_controller_gone=is_gone,
            now=Moment(boot_id=str(self.boot), uptime_s=self.now_s),
            wall=NOON,
            drain_s=DRAIN_S,
        )
        self.record = plan_fence(self.record, what).record

    def publish(self) -> None:
        if self.record is not None:
            self.published = (self.record.state, self.record.time_added)

    def pass_time(self, seconds: float) -> None:
        """kube-scheduler gives up, or has written, within the draining time."""
        self.now_s += seconds
        if self.scheduler_chose_s is not None and self.now_s - self.scheduler_chose_s >= DRAIN_S:
            self.scheduler_chose_s = None

    def choose(self) -> None:
        """Both allocators choose whatever they see as theirs."""
        if self.published is None:
            return
        if self.published[0] is S:
            self.scheduler_chose_s = self.now_s
        if self.published[0] is C and self.is_controller_there:
            self.controller_chose = True

    def acknowledge(self) -> None:
        """The controller lets go, once it has nothing under way."""
        if self.is_controller_there and not self.controller_chose and self.published is not None and self.published[0] is D:
            self.acknowledged = self.published[1]

    def toggle_controller(self) -> None:
        """It goes with all that it had under way, or comes back."""
        self.is_controller_there = not self.is_controller_there
        self.gone_since_s, self.controller_chose = self.now_s, False

    def finish(self) -> None:
        self.controller_chose = False


OPERATIONS: dict[str, Callable[[World], None]] = {
    "want scheduler": lambda world: setattr(world, "wanted", S),
    "want controller": lambda world: setattr(world, "wanted", C),
    "label unreadable": lambda world: setattr(world, "wanted", None),
    "wait a little": lambda world: world.pass_time(100.0),
    "wait long": lambda world: world.pass_time(DRAIN_S),
    "reboot": lambda world: setattr(world, "boot", world.boot + 1),
    "slices wiped": lambda world: setattr(world, "published", None),
    "choose": World.choose,
    "acknowledge": World.acknowledge,
    "controller comes or goes": World.toggle_controller,
    "controller has written": World.finish,
}


EVENTS = sorted(OPERATIONS) + ["choose"] * 5 + ["acknowledge"] * 2 + ["want scheduler", "want controller"] * 2
"""Some are more frequent, so that walks get somewhere."""


def play(world: World, rng: random.Random, length: int) -> None:
    """A walk. After each event the plugin gets as far as it gets: not at all, to its decision, to its publication, further.

    Raises ``AssertionError`` where both allocators have something under way.
    """
    for _ in range(length):
        name = rng.choice(EVENTS)
        turns = rng.choice((0, 1, 2, 4, 4, 4, 4))
        world.log.append(f"{name}, {turns}")
        acts: list[Callable[[], None]] = [
            partial(OPERATIONS[name], world),
            world.step,
            world.publish,
            world.step,
            world.publish,
        ]
        for act in acts[: turns + 1]:
            act()
            assert not (world.scheduler_chose_s is not None and world.controller_chose), world.log[-30:]


@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_events_lets_two_allocators_at_the_devices(seed: int) -> None:
    """R3: whoever may still write has chosen alone. Steps and publications may be cut off from each other anywhere."""
    rng = random.Random(seed)
    for _ in range(100):
        play(World(), rng, 60)


@pytest.mark.parametrize("wanted", [S, C])
def test_every_wish_is_reached_in_the_end(wanted: Allocator) -> None:
    """Nothing gets stuck, whatever went before."""
    rng = random.Random(7)
    for _ in range(100):
        world = World()
        play(world, rng, 30)
        world.wanted, world.is_controller_there = wanted, True
        for _ in range(6):
            world.finish()
            world.step()
            world.publish()
            world.acknowledge()
            world.pass_time(DRAIN_S)
        assert world.published is not None
        assert world.published[0] is wanted
